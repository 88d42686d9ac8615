"""Successors of fields and tools that are gone.

A wrong guess makes a wrong call, so only a proven successor is used. A field is proven to be another one if their
schemas are equal, nothing speaks against it, no other field could be it as well, and one of these holds:

- The names are spelled alike: `startDate` and `start_date`. That is as good as the same name.
- The names have the same words, shortened or in another order, and the descriptions are the same, if there are any.
- The descriptions are the same, say something, are of no other field, and the names do not contradict them: the words
  that only one of the names has must not be what tells two things apart. `billing_address` and `shipping_address` may
  both be described as `Street, number and city`, and `width` is not `depth` because both are `Size in pixels`.
- The old description says that the new one is to be used instead.

Of everything else, the one field with the most words in common is a candidate that a person has to confirm.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from sealyard.values.changes import Replacement
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.proof import Prover
from sealyard.versioning.compare.schemas import Budget, Document, Exhausted, Numbers, TooLarge, part
from sealyard.versioning.compare.wording import (
    WORDS,
    are_contrasted,
    are_opposed,
    are_same_text,
    are_spelled_alike,
    folded,
    is_distinctive,
    likeness,
    plurals,
    share,
    stems,
    units,
    words,
)

Alike = Literal["same", "similar", "other"]
"""The agreement of the schemas of two fields: equal but for texts, of the same types, or neither."""

Key = TypeVar("Key", bound=Hashable)

_OVERLAP = 0.5  # of the words of two names, or of their descriptions, that makes one a candidate for the other
_FIELD_PAIRS = 2_500  # a bound on the cost: fifty fields on each side
_TOOL_PAIRS = 10_000  # the same for tools
_STEPS = 5_000  # the cost that a comparison of two input schemas may have
_VERBS = {word: group.split()[0] for group in WORDS["verbs"] for word in group.split()}
_READING = {"get", "list", "search"}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter, or a field of an answer, that is on one side only."""

    name: str
    description: str = ""
    required: bool = False
    successor: str = ""
    """The name that its own text says to use instead."""


def find_successors(
    removed: Sequence[Field],
    added: Sequence[Field],
    *,
    alike: Callable[[str, str], Alike],
    side: Literal["input", "output"],
    texts: Mapping[str, int],
) -> dict[str, Replacement]:
    """The successor of each removed field by its name, without those that have none, or no clear one.

    `texts` counts the `folded` descriptions of all fields, also of those that stayed: one that several have proves
    nothing.
    """
    if len(removed) * len(added) > _FIELD_PAIRS:
        return {}
    proofs: dict[tuple[str, str], tuple[float, str]] = {}
    candidates: dict[tuple[str, str], tuple[float, str]] = {}
    for old in removed:
        for new in added:
            proof, doubts = _field_proof(old, new, texts), _field_doubts(old, new, alike(old.name, new.name), side)
            likeness_of = _likeness(old, new)
            if proof and not doubts:
                proofs[old.name, new.name] = 1.0, f"It has {proof} and the same type."
            elif likeness_of >= _OVERLAP and not are_opposed(old.name, new.name):
                but = f"; but {', '.join(doubts)}" if doubts else ""
                candidates[old.name, new.name] = likeness_of, f"It has {proof or 'words in common'}{but}."
    found = {
        old: Replacement(name=new, is_proven=True, why=why) for (old, new), (_, why) in _unrivalled(proofs).items()
    }
    taken = {each.name for each in found.values()}
    left = {pair: each for pair, each in candidates.items() if pair[0] not in found and pair[1] not in taken}
    return found | {old: Replacement(name=new, why=why) for (old, new), (_, why) in _unrivalled(left).items()}


def find_renamed(
    removed: Sequence[ToolSpec], added: Sequence[ToolSpec], *, kept: Iterable[ToolSpec] = ()
) -> list[tuple[ToolSpec, ToolSpec, Replacement]]:
    """Tools of one upstream that went and came back under another name.

    They have the same input schema but for texts, and the same description or the same words in the name. Only proven
    pairs are given. `kept` are the tools that stayed: a description that one of them has too proves nothing.
    """
    if len(removed) * len(added) > _TOOL_PAIRS:
        return []
    texts = Counter(folded(spec.description) for spec in (*removed, *added, *kept))
    proofs = {}
    for old_number, old in enumerate(removed):
        for new_number, new in enumerate(added):
            proof = _tool_proof(old, new, texts) if old.upstream == new.upstream else ""
            if proof and not _is_doubtful(old, new) and _have_same_input(old, new):
                proofs[old_number, new_number] = 1.0, f"It has {proof} and the same parameters."
    return [
        (removed[old], added[new], Replacement(name=added[new].full_name, is_proven=True, why=why))
        for (old, new), (_, why) in _unrivalled(proofs).items()
    ]


def _unrivalled(scores: Mapping[tuple[Key, Key], tuple[float, str]]) -> dict[tuple[Key, Key], tuple[float, str]]:
    """The pairs that are better than any other pair with one of the two."""
    rivals: defaultdict[tuple[str, Key], list[float]] = defaultdict(list)
    for (old, new), (score, _) in scores.items():
        rivals["old", old].append(score)
        rivals["new", new].append(score)
    return {
        (old, new): (score, why)
        for (old, new), (score, why) in scores.items()
        if all(max(each) == score and each.count(score) == 1 for each in (rivals["old", old], rivals["new", new]))
    }


def _field_proof(old: Field, new: Field, texts: Mapping[str, int]) -> str:
    """The proof that two fields of one schema are the same, as the head of this module says; empty if there is none."""
    if are_spelled_alike(old.name, new.name):
        return "the same name in another spelling"
    is_respelled = words(old.name) != words(new.name)  # else a case or a sign is all that tells them apart
    if is_respelled and _have_same_words(old.name, new.name) and are_same_text(old.description, new.description):
        return "the same words in the name"
    if _have_same_text(old.description, new.description, texts) and not _have_contrast(old, new):
        return "the same description"
    return "the name that the old description says to use" if old.successor == new.name else ""


def _have_contrast(old: Field, new: Field) -> bool:
    """True if the names may tell two fields apart that one text describes."""
    one, other = frozenset(stems(old.name)), frozenset(stems(new.name))
    return not _is_short_for(old.name, new.name) and are_contrasted(one - other, other - one, old.description)


def _likeness(old: Field, new: Field) -> float:
    """The share of words that two fields have in common, in their names or in their descriptions."""
    return max(share(stems(old.name), stems(new.name)), likeness(old.description, new.description))


def _field_doubts(old: Field, new: Field, alike: Alike, side: Literal["input", "output"]) -> list[str]:
    """The reasons against it."""
    doubts = {
        "another type": alike != "same",
        "it is newly required": side == "input" and new.required and not old.required,
        "it may be missing": side == "output" and old.required and not new.required,
        "names that exclude each other": are_opposed(old.name, new.name),
        "perhaps another unit": _have_other_units(old, new),
    }
    return [doubt for doubt, holds in doubts.items() if holds]


def _have_same_text(one: str, other: str, texts: Mapping[str, int]) -> bool:
    """True if two descriptions say the same, enough, and nothing that others say too."""
    return is_distinctive(one) and are_same_text(one, other) and texts.get(folded(one), 0) <= 2


def _have_same_words(one: str, other: str) -> bool:
    """True if two names differ in spelling, order of words or abbreviation only."""
    first, second = stems(one), stems(other)
    return (
        bool(first)
        and plurals(one) == plurals(other)
        and ("".join(first) == "".join(second) or sorted(first) == sorted(second))
    )


def _is_short_for(one: str, other: str) -> bool:
    """True if each word of one name is short for that of the other: `q` for `query`, `msgCnt` for `message_count`."""
    first, second = sorted((words(one), words(other)), key=lambda each: len("".join(each)))
    return len(first) == len(second) > 0 and all(map(_is_shortened, first, second))


def _is_shortened(short: str, long: str) -> bool:
    """True if all letters of a word are in a longer one that begins as it does, in their order."""
    letters = iter(long)
    return short[:1] == long[:1] and all(letter in letters for letter in short)


def _have_other_units(old: Field, new: Field) -> bool:
    said = old.description and new.description and old.successor != new.name  # else the old text is an announcement
    if said and units(old.description) != units(new.description):
        return True
    differing = units(old.name) ^ units(new.name)
    if differing == {"day"} and "date" in {*words(old.name), *words(new.name)}:
        return False  # a day in the calendar either way
    return bool(differing) and not (differing <= units(old.description) and old.description == new.description)


def _tool_proof(old: ToolSpec, new: ToolSpec, texts: Mapping[str, int]) -> str:
    """The proof that two tools of one shape are the same; empty if there is none."""
    prefix = set(stems(old.upstream))
    first, second = ([word for word in stems(spec.name) if word not in prefix] for spec in (old, new))
    one, other = ({_VERBS.get(word, word) for word in each} for each in (first, second))
    shared, text = share(one, other), old.description
    if (
        # The fewer parameters and words in common, the more the text has to say.
        is_distinctive(text, least=1 if shared and _parameters(old) > 1 else 2 if _parameters(old) > 1 else 4)
        and (_parameters(old) > 0 or shared >= 0.5 or is_distinctive(text, least=6))
        and are_same_text(text, new.description)
        and texts[folded(text)] == 2
        and not are_contrasted(one - other, other - one, text)
    ):
        return "the same description"
    is_respelled = bool(first) and "".join(first) == "".join(second) and plurals(old.name) == plurals(new.name)
    return "the same words in the name" if is_respelled else ""


def _is_doubtful(old: ToolSpec, new: ToolSpec) -> bool:
    """True if something speaks against one tool being the other."""
    verbs = [{_VERBS[word] for word in stems(spec.name) if word in _VERBS} for spec in (old, new)]
    reading = are_same_text(old.description, new.description) and verbs[0] | verbs[1] <= _READING
    effects = [(spec.annotations.read_only, spec.annotations.destructive) for spec in (old, new)]
    return (
        are_opposed(old.name, new.name)
        or (bool(verbs[0] and verbs[1]) and verbs[0] != verbs[1] and not reading)
        or (stems(old.name) == stems(new.name) and plurals(old.name) != plurals(new.name))
        or effects[0] != effects[1]
        or (old.output_schema is None) != (new.output_schema is None)
    )


def _parameters(spec: ToolSpec) -> int:
    """The number of parameters that a tool declares."""
    schema: object = spec.input_schema
    return len(part(schema, "properties", dict)) if isinstance(schema, dict) else 0


def _have_same_input(old: ToolSpec, new: ToolSpec) -> bool:
    """True if the input schemas are equal but for texts."""
    documents = Document(old.input_schema), Document(new.input_schema)
    try:
        prover = Prover(*documents, numbers=Numbers(*documents), budget=Budget(_STEPS), keep="left")
        return prover.same(old.input_schema, new.input_schema)
    except (TooLarge, Exhausted):
        return False
