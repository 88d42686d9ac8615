"""Successors of fields and tools that are gone, proven or only likely.

A wrong guess makes a wrong call, so only a proven successor is `SURE`. A field is proven to be another one if their
schemas are equal, nothing speaks against it, no other field could be it as well, and one of these holds:

- The names are spelled alike: `startDate` and `start_date`. That is as good as the same name.
- The names have the same words, shortened or in another order, and the descriptions are the same, if there are any.
- The descriptions are the same, say something, are of no other field, and the names do not contradict them: the words
  that only one of the names has must not be what tells two things apart. `billing_address` and `shipping_address` may
  both be described as `Street, number and city`, and `width` is not `depth` because both are `Size in pixels`.
- The old description says that the new one is to be used instead.

Everything else is a guess with a confidence, for a person to confirm.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.changes import SURE, Replacement
from sealyard.versioning.compare.proof import Prover
from sealyard.versioning.compare.schemas import Budget, Document, Exhausted, Numbers, TooLarge, part
from sealyard.versioning.compare.texts import (
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

_GUESS = 0.5  # the least confidence that is worth a mention
_MARGIN = 0.15  # the distance to the next candidate that makes one clear
_FIELD_PAIRS = 2_500  # a bound on the cost: fifty fields on each side
_TOOL_PAIRS = 10_000  # the same for tools
_UNSURE = SURE - 0.05
_PROVEN = 0.95
"""Far enough above `_UNSURE` that no guess comes near it."""
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
    distinct: bool = False
    """True if its schema alone tells it from most others: it lists values, or has fields."""


def guess_replacements(
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
    scores = {
        (old.name, new.name): _field_score(old, new, alike(old.name, new.name), side, texts)
        for old in removed
        for new in added
    }
    return {
        old: Replacement(name=new, confidence=round(score, 2), why=why)
        for (old, new), (score, why) in _unambiguous(scores).items()
    }


def find_renamed(
    removed: Sequence[ToolSpec], added: Sequence[ToolSpec], *, kept: Iterable[ToolSpec] = ()
) -> list[tuple[ToolSpec, ToolSpec, Replacement]]:
    """Tools of one upstream that went and came back under another name.

    They have the same input schema but for texts, and the same description or nearly the same name. Only pairs that
    are `SURE` and have no other pair close to them are given. `kept` are the tools that stayed: a description that one
    of them has too proves nothing.
    """
    if len(removed) * len(added) > _TOOL_PAIRS:
        return []
    texts = Counter(folded(spec.description) for spec in (*removed, *added, *kept))
    scores = {}
    for old_number, old in enumerate(removed):
        for new_number, new in enumerate(added):
            score, why = _tool_score(old, new, texts)
            if old.upstream == new.upstream and score >= _GUESS and _have_same_input(old, new):
                scores[old_number, new_number] = score, why
    return [
        (removed[old], added[new], Replacement(name=added[new].full_name, confidence=round(score, 2), why=why))
        for (old, new), (score, why) in _unambiguous(scores).items()
        if score >= SURE
    ]


def _unambiguous(scores: Mapping[tuple[Key, Key], tuple[float, str]]) -> dict[tuple[Key, Key], tuple[float, str]]:
    """The pairs that are likely and clearly better than any other pair with one of the two."""
    rivals: dict[tuple[str, Key], list[float]] = {}
    for (old, new), (score, _) in scores.items():
        for place in (("old", old), ("new", new)):
            rivals[place] = sorted([*rivals.get(place, [0.0, 0.0]), score], reverse=True)[:2]
    found = {}
    for (old, new), (score, why) in scores.items():
        nearest = max(best if best != score else second for best, second in (rivals["old", old], rivals["new", new]))
        if score >= _GUESS and score - nearest >= _MARGIN:
            found[old, new] = score, why
    return found


def _field_score(
    old: Field, new: Field, alike: Alike, side: Literal["input", "output"], texts: Mapping[str, int]
) -> tuple[float, str]:
    """The likelihood that `new` stands for `old`, and the reason."""
    doubts = _field_doubts(old, new, alike, side)
    proof = _field_proof(old, new, texts)
    if proof and not doubts:
        return _PROVEN, _sentence(f"{proof} and the same type", [])
    score, why = _UNSURE, proof
    if not proof:
        score, why = _field_guess(old, new)
    if alike == "other":
        score *= 0.6
    score = min(score, *(cap for cap, _ in doubts)) if doubts else score
    return score, _sentence(f"{why} and the same type" if alike == "same" else why, [doubt for _, doubt in doubts])


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


def _field_guess(old: Field, new: Field) -> tuple[float, str]:
    """The likelihood that `new` stands for `old` without a proof, and the reason; never `SURE`."""
    near = likeness(old.description, new.description)
    shared = share(stems(old.name), stems(new.name))
    if _have_same_words(old.name, new.name) or stems(old.name) == stems(new.name):
        score, why = 0.65 + 0.2 * near, "the same words in the name"
    elif _is_short_for(old.name, new.name):
        score, why = 0.65 + 0.2 * near, "a name that looks like the other one shortened"
    elif shared:
        score, why = 0.35 + 0.25 * shared + 0.25 * near + 0.1 * old.distinct, "a word of the name in common"
    else:
        score, why = 0.15 + 0.45 * near + 0.3 * old.distinct, "a similar description"
    return min(score, _UNSURE), why


def _field_doubts(old: Field, new: Field, alike: Alike, side: Literal["input", "output"]) -> list[tuple[float, str]]:
    """The reasons against it, each with the confidence that it leaves."""
    doubts = []
    if alike != "same":
        doubts.append((_UNSURE if alike == "similar" else _GUESS, "another type"))
    if side == "input" and new.required and not old.required:
        doubts.append((_UNSURE, "it is newly required"))
    if side == "output" and old.required and not new.required:
        doubts.append((_UNSURE, "it may be missing"))
    if are_opposed(old.name, new.name):
        doubts.append((0.4, "names that exclude each other"))
    if _have_other_units(old, new):
        doubts.append((0.6, "perhaps another unit"))
    return doubts


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


def _tool_score(old: ToolSpec, new: ToolSpec, texts: Mapping[str, int]) -> tuple[float, str]:
    """The likelihood that two tools of one shape are the same, and the reason."""
    near = likeness(old.description, new.description)
    prefix = set(stems(old.upstream))
    first, second = ([word for word in stems(spec.name) if word not in prefix] for spec in (old, new))
    meant = [sorted(_VERBS.get(word, word) for word in each) for each in (first, second)]
    shared = share(*meant)
    text = old.description
    if (
        is_distinctive(text, least=4 if _parameters(old) < 2 else 1 if shared else 2)
        and are_same_text(text, new.description)
        and texts[folded(text)] == 2
        and not are_contrasted(set(meant[0]) - set(meant[1]), set(meant[1]) - set(meant[0]), text)
    ):
        clear = _parameters(old) > 0 or shared >= 0.5 or is_distinctive(text, least=6)
        score, why = 0.9 if clear else _UNSURE, "the same description"
    elif first and "".join(first) == "".join(second) and plurals(old.name) == plurals(new.name):
        silent = not (old.description and new.description)
        score, why = 0.9 if silent or near >= 0.2 else 0.82, "the same words in the name"
    elif first and meant[0] == meant[1]:
        score, why = 0.7, "a similar name"
    else:
        score, why = min(0.3 + 0.2 * shared + 0.4 * near, _UNSURE), "a similar description"
        score = score if _parameters(old) or near >= 0.8 else min(score, 0.4)
    doubts = _tool_doubts(old, new)
    score = min(score, *(cap for cap, _ in doubts)) if doubts else score
    return score, _sentence(f"{why} and the same parameters", [doubt for _, doubt in doubts])


def _tool_doubts(old: ToolSpec, new: ToolSpec) -> list[tuple[float, str]]:
    """The reasons against it, each with the confidence that it leaves."""
    doubts = []
    if are_opposed(old.name, new.name):
        doubts.append((0.4, "names that exclude each other"))
    verbs = [{_VERBS[word] for word in stems(spec.name) if word in _VERBS} for spec in (old, new)]
    reading = are_same_text(old.description, new.description) and verbs[0] | verbs[1] <= _READING
    if verbs[0] and verbs[1] and verbs[0] != verbs[1] and not reading:
        doubts.append((_GUESS, "another verb"))
    if stems(old.name) == stems(new.name) and plurals(old.name) != plurals(new.name):
        doubts.append((_UNSURE, "one may be many"))
    effects = [(spec.annotations.read_only, spec.annotations.destructive) for spec in (old, new)]
    if effects[0] != effects[1]:
        doubts.append((_UNSURE, "another effect"))
    if (old.output_schema is None) != (new.output_schema is None):
        doubts.append((_UNSURE, "another kind of answer"))
    return doubts


def _sentence(agreed: str, doubts: list[str]) -> str:
    return f"It has {agreed}" + (f"; but {', '.join(doubts)}." if doubts else ".")


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
