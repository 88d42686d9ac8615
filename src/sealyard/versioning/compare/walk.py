"""Two schemas side by side, field by field: what was added, removed, renamed, and what it takes or gives now.

Where both sides are objects or lists, their parts are compared; anything else is compared as a whole by proof.
"""

from collections import Counter
from typing import Any, Literal

import msgspec

from sealyard.versioning.compare.cases import NULLABLE, Budget, Case, cases_of, part
from sealyard.versioning.compare.changes import Change, ChangeKind, Deprecation, Replacement, Severity, Side
from sealyard.versioning.compare.deprecations import newly_deprecated
from sealyard.versioning.compare.description import kinds_in, shown, text_under, type_in_words
from sealyard.versioning.compare.proof import Prover
from sealyard.versioning.compare.renames import Alike, Field, guess_replacements
from sealyard.versioning.compare.schemas import Document, Numbers
from sealyard.versioning.compare.similarity import folded, have_other_units, is_telling

_DEPTH = 16
_CHANGES = 1_000
_TEXT = 300
_OWN = frozenset({"properties", "required", "additionalProperties", "$ref", "allOf", "anyOf", "oneOf", "type", "items"})
_NULLS = frozenset({"null", NULLABLE})
Schemas = tuple[Any, ...]


def full_path(side: Side, field: str) -> str:
    """The path of a field with its side: `output.items[].name`, or `start` for a parameter."""
    if side != "output":
        return field
    return f"output{field}" if field.startswith(("[", "{")) or not field else f"output.{field}"


class TooMany(Exception):
    """There are more changes than anyone reads."""


class Walk:
    """One comparison of two schemas: it collects `changes` and `deprecations`.

    With `learned`, one of them was only observed: that an answer can be more than was seen so far breaks no promise.
    """

    def __init__(
        self,
        before: Document,
        after: Document,
        *,
        side: Literal["input", "output"],
        budget: Budget,
        learned: bool = False,
    ) -> None:
        self.changes: list[Change] = []
        self.deprecations: list[Deprecation] = []
        self._before = before
        self._after = after
        self._side: Literal["input", "output"] = side
        self._learned = learned
        self._budget = budget
        numbers = Numbers()
        self._texts = Numbers(texts=True)
        for document in (before, after):
            numbers.add(document)
            self._texts.add(document)
        keep: Literal["left", "right"] = "left" if side == "input" else "right"
        self._onward = Prover(before, after, numbers=numbers, budget=budget, keep=keep)
        self._back = Prover(after, before, numbers=numbers, budget=budget, keep=keep, growing=side == "output")
        self._exact = Prover(before, after, numbers=self._texts, budget=budget, keep=keep)
        self._open: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def compare(self, path: str, old: Schemas, new: Schemas, *, depth: int = 0) -> None:
        """Compare what stands at one place.

        Raises:
            Exhausted: The budget is used up.
            TooMany: There are too many changes to list.
        """
        self._budget.spend()
        key = (tuple(map(id, old)), tuple(map(id, new)))
        top = self._side == "input" and not path
        equal = len(old) == len(new) and all(map(self._exact.same, old, new))
        if key in self._open or (equal and not top):  # at the top the order of keys matters too
            return
        self._open.add(key)
        begin = len(self.changes)
        self._compare_texts(path, old, new)
        olds = cases_of(self._before, old, self._budget, top=top)
        news = cases_of(self._after, new, self._budget, top=top)
        one, other = _only(olds), _only(news)
        if one and other and depth < _DEPTH and _are_objects(one, other):
            self._compare_nulls(path, olds, news)
            self._compare_objects(path, one, other, depth)
            self._compare_rest(path, one, other, "object")
        elif one and other and depth < _DEPTH and _are_lists(one, other):
            self._compare_nulls(path, olds, news)
            self.compare(f"{path}[]", one.item(0), other.item(0), depth=depth + 1)
            self._compare_rest(path, one, other, "array")
        else:
            self._compare_whole(path, old, new, olds, news, top=top)
        if not equal and len(self.changes) == begin and (depth == 0 or one is None or other is None):
            # Something without a place of its own, such as the description of an alternative.
            self._add("text", path, "", "", "patch", "Its texts changed.")
        self._open.discard(key)

    def _compare_objects(self, path: str, old: Case, new: Case, depth: int) -> None:
        olds, news = _names(old), _names(new)
        gone, came = [name for name in olds if name not in news], [name for name in news if name not in olds]
        renamed = self._guess(old, new, gone, came) if gone and came else {}
        for name in olds:
            place = f"{path}.{name}" if path else name
            to = renamed[name].name if name in renamed else name
            if name in renamed:
                self._add_renamed(place, name, renamed[name])
            elif name in gone:
                self._add_removed(place, old, name, competing=bool(came))
                continue
            self._compare_presence(place, name in old.required, to in new.required)
            self.compare(place, old.under(name), new.under(to), depth=depth + 1)
        self._compare_meanings(path, old, new, [name for name in olds if name in news])
        taken = {replacement.name for replacement in renamed.values()}
        for name in came:
            if name not in taken:
                self._add_added(f"{path}.{name}" if path else name, old, new, name)
        self._compare_others(path, old, new, depth)
        if self._side == "input" and not path:
            self._compare_order(
                _signature(old),
                [renamed[name].name if name in renamed else name for name in _signature(old)],
                _signature(new),
            )

    def _compare_order(self, was: list[str], meant: list[str], now: list[str]) -> None:
        """Compare at which position the tool's function takes each parameter; `meant` has the new names of `was`."""
        moved = [name for place, name in enumerate(meant) if name in now and now.index(name) != place]
        if moved:
            reason = f"Arguments given by position mean other parameters from {moved[0]!r} on: give them by name."
            self._add("parameter_moved", "", ", ".join(was), ", ".join(now), "minor", reason)

    def _guess(self, old: Case, new: Case, gone: list[str], came: list[str]) -> dict[str, Replacement]:
        def alike(before: str, after: str) -> Alike:
            one, other = old.under(before), new.under(after)
            if self._proven(self._onward, one, other) and self._proven(self._back, other, one):
                return "same" if one and other else "similar"
            kinds = (
                kinds_in(cases_of(self._before, one, self._budget)),
                kinds_in(cases_of(self._after, other, self._budget)),
            )
            return "similar" if kinds[0] == kinds[1] else "other"

        fields = [
            {name: _field(document, case, name) for name in _names(case)}
            for document, case in ((self._before, old), (self._after, new))
        ]
        texts = Counter(folded(field.description) for side in fields for field in side.values() if field.description)
        return guess_replacements(
            [fields[0][name] for name in gone],
            [fields[1][name] for name in came],
            alike=alike,
            side=self._side,
            texts=texts,
        )

    def _compare_meanings(self, path: str, old: Case, new: Case, kept: list[str]) -> None:
        """Find fields of one name whose text says now that they are another, or speaks of other units."""
        before = {name: folded(_text(self._before, old, name)) for name in _names(old)}
        after = {name: folded(_text(self._after, new, name)) for name in _names(new)}
        owners = [Counter(side.values()) for side in (before, after)]
        kind: ChangeKind = "parameter_swapped" if self._side == "input" else "output_swapped"
        for name in kept:
            was, is_now = before[name], after[name]
            if was == is_now:
                continue
            reason = "Its description speaks of other units." if have_other_units(was, is_now) else ""
            if any(is_telling(text) and owners[0][text] == owners[1][text] == 1 for text in (was, is_now)):
                reason = "A description went from one name to another, so that it may mean something else."
            if reason:
                self._add(kind, f"{path}.{name}" if path else name, was, is_now, "major", reason)

    def _compare_presence(self, place: str, was: bool, is_now: bool) -> None:
        if was == is_now:
            return
        words = ("required", "optional") if was else ("optional", "required")
        if self._side == "input":
            if is_now:
                self._add("parameter_required", place, *words, "major", "A call without it is refused now.")
            else:
                self._add("parameter_optional", place, *words, "minor", "It can be left out now.")
        elif is_now:
            self._add("output_required", place, *words, "minor", "It is in every answer now.")
        else:
            severity: Severity = "minor" if self._learned else "major"
            self._add("output_optional", place, *words, severity, "It can be missing from an answer now.")

    def _compare_others(self, path: str, old: Case, new: Case, depth: int) -> None:
        """Compare what holds for undeclared keys."""
        if old.others and new.others:
            self.compare(f"{path}{{}}", old.others, new.others, depth=depth + 1)
            return
        closed = [any(limit is False for limit in _limits(case)) for case in (old, new)]
        onward = old.others is None or all(self._onward.inside(old.others, limit) for limit in _limits(new))
        back = new.others is None or all(
            self._back.inside(new.others, limit) or (limit is False and self._side == "output")
            for limit in _limits(old)
        )
        if onward and back and closed[0] == closed[1]:
            return
        harmless = onward if self._side == "input" else back or self._learned
        severity: Severity = "patch" if onward and back else "minor" if harmless else "major"
        narrowed = closed[1] if onward and back else not onward
        kind: ChangeKind = "parameter_narrowed" if narrowed else "parameter_widened"
        if self._side == "output":
            kind = "output_narrowed" if narrowed else "output_widened"
        words = [f"other keys are {'forbidden' if each else 'allowed'}" for each in closed]
        self._add(kind, path, words[0], words[1], severity, "What holds for undeclared keys changed.")

    def _compare_nulls(self, path: str, olds: list[Case], news: list[Case]) -> None:
        was, is_now = "null" in kinds_in(olds), "null" in kinds_in(news)
        if was == is_now:
            return
        words = ("null is allowed", "null is not allowed") if was else ("null is not allowed", "null is allowed")
        kind: ChangeKind
        if self._side == "input":
            kind, harmless = ("parameter_narrowed", False) if was else ("parameter_widened", True)
        else:
            kind, harmless = ("output_narrowed", True) if was else ("output_widened", self._learned)
        reason = "It can be null now." if is_now else "It cannot be null any more."
        self._add(kind, path, *words, "minor" if harmless else "major", reason)

    def _compare_rest(self, path: str, old: Case, new: Case, kind: str) -> None:
        """Compare what is demanded of an object or a list beside its parts, and of what else it can be."""
        kinds = old.kinds - _NULLS
        skipped = {each: _OWN if each == kind else _OWN - {"items"} for each in kinds}
        onward = all(
            self._onward.satisfies(old, each, atom, without=skipped[each]) for atom in new.atoms for each in kinds
        )
        back = all(self._back.satisfies(new, each, atom, without=skipped[each]) for atom in old.atoms for each in kinds)
        if not onward or not back:
            self._judge(path, old.atoms, new.atoms, onward=onward, back=back, kinds=(kinds, kinds))

    def _compare_whole(
        self, path: str, old: Schemas, new: Schemas, olds: list[Case], news: list[Case], *, top: bool
    ) -> None:
        onward, back = self._proven(self._onward, old, new, top=top), self._proven(self._back, new, old, top=top)
        if not onward or not back:
            self._judge(path, old, new, onward=onward, back=back, kinds=(kinds_in(olds), kinds_in(news)))

    def _judge(
        self,
        path: str,
        old: Schemas,
        new: Schemas,
        *,
        onward: bool,
        back: bool,
        kinds: tuple[frozenset[str], frozenset[str]],
    ) -> None:
        """Name a change of what fits, given what is proven of it."""
        words = type_in_words(self._before, old, self._budget), type_in_words(self._after, new, self._budget)
        before, after = kinds
        if self._learned:
            before, after = before - {"null"} or after, after - {"null"} or before
        is_retyped = not (before <= after or after <= before)
        if self._side == "input":
            if onward:
                self._add("parameter_widened", path, *words, "minor", "It takes more than before.")
            elif is_retyped:
                self._add("parameter_retyped", path, *words, "major", "It takes values of another type.")
            else:
                self._add("parameter_narrowed", path, *words, "major", "It does not take all that it took.")
        elif back:
            self._add("output_narrowed", path, *words, "minor", "It is more exact than before.")
        elif is_retyped:
            self._add("output_retyped", path, *words, "major", "It is of another type.")
        else:
            severity: Severity = "minor" if self._learned else "major"
            if onward or before < after:
                self._add("output_widened", path, *words, severity, "It can be what it never was.")
            else:
                self._add("output_unknown", path, *words, severity, "It changed, and may be what it never was.")

    def _proven(self, prover: Prover, facts: Schemas, goals: Schemas, *, top: bool = False) -> bool:
        return all(prover.proves(facts, goal, top=top) for goal in goals or (True,))

    def _compare_texts(self, path: str, old: Schemas, new: Schemas) -> None:
        for keyword in ("description", "title"):
            was, is_now = text_under(self._before, old, keyword), text_under(self._after, new, keyword)
            if was != is_now and (isinstance(was, str) or isinstance(is_now, str)):
                self._add("text", path, str(was or ""), str(is_now or ""), "patch", f"Its {keyword} changed.")
        if self._side == "input":
            was, is_now = text_under(self._before, old, "default"), text_under(self._after, new, "default")
            if not self._texts.same(was, is_now, "value"):
                words = ("none" if was is None else shown(was)), ("none" if is_now is None else shown(is_now))
                self._add("default_changed", path, *words, "minor", "Left out, it means something else.")
        found = newly_deprecated(self._announcements(self._before, old), self._announcements(self._after, new))
        if found is not None:
            self.deprecations.append(msgspec.structs.replace(found, field=full_path(self._side, path)))

    @staticmethod
    def _announcements(document: Document, schemas: Schemas) -> tuple[str, bool]:
        texts = [text_under(document, schemas, keyword) for keyword in ("title", "description")]
        said = ". ".join(text for text in texts if isinstance(text, str))
        return said, text_under(document, schemas, "deprecated") is True

    def _add_renamed(self, place: str, name: str, to: Replacement) -> None:
        kind: ChangeKind = "parameter_renamed" if self._side == "input" else "output_renamed"
        reason = f"It seems to be called {to.name!r} now."
        self._add(kind, place, name, to.name, "major", reason, replacement=to)

    def _add_removed(self, place: str, old: Case, name: str, *, competing: bool) -> None:
        words = type_in_words(self._before, old.under(name), self._budget)
        hint = " None of the new ones clearly stands for it." if competing else ""
        if self._side == "input":
            self._add("parameter_removed", place, words, "", "major", "It is not a parameter any more." + hint)
            return
        # An observed field that was not in every answer may merely not have been seen again.
        severity: Severity = "minor" if self._learned and name not in old.required else "major"
        self._add("output_removed", place, words, "", severity, "It is not in the answers any more." + hint)

    def _add_added(self, place: str, old: Case, new: Case, name: str) -> None:
        was, is_now = old.under(name), new.under(name)
        words = type_in_words(self._after, is_now, self._budget)
        if self._side == "input" and name in new.required:
            self._add("parameter_added", place, "", words, "major", "It is new, and a call without it is refused.")
        elif (
            self._side == "input" and not old.lacks(name) and not all(self._onward.inside(was, goal) for goal in is_now)
        ):
            reason = "As a key that was not declared, it took more."
            self._add("parameter_narrowed", place, "anything", words, "major", reason)
        elif self._side == "input":
            self._add("parameter_added", place, "", words, "minor", "It is new and can be left out.")
        elif all(goal is False or self._back.inside(is_now, goal) for goal in was):
            self._add("output_added", place, "", words, "minor", "It is new in the answers.")
        else:
            severity: Severity = "minor" if self._learned else "major"
            reason = "It is new, and not what all other keys are."
            self._add("output_widened", place, type_in_words(self._before, was, self._budget), words, severity, reason)

    def _add(
        self,
        kind: ChangeKind,
        field: str,
        before: str,
        after: str,
        severity: Severity,
        reason: str,
        *,
        replacement: Replacement | None = None,
    ) -> None:
        if len(self.changes) >= _CHANGES:
            raise TooMany
        self.changes.append(
            Change(
                kind=kind,
                side=self._side,
                field=field,
                before=before[:_TEXT],
                after=after[:_TEXT],
                severity=severity,
                reason=reason,
                replacement=replacement,
            )
        )


def _only(cases: list[Case]) -> Case | None:
    """The case of all values but null, if there is one and it does not list them."""
    found = [case for case in cases if not case.kinds <= _NULLS]
    return found[0] if len(found) == 1 and found[0].values is None else None


def _are_objects(one: Case, other: Case) -> bool:
    """Whether both are objects; careless servers declare keys and leave out the type."""
    kinds = one.kinds - _NULLS
    return kinds == other.kinds - _NULLS and "object" in kinds and (len(kinds) == 1 or bool(one.declared))


def _are_lists(one: Case, other: Case) -> bool:
    return all(case.kinds - _NULLS == {"array"} and not case.positioned() and case.item(0) for case in (one, other))


def _names(case: Case) -> dict[str, None]:
    """The keys that an object can have, in order."""
    return {**case.declared, **dict.fromkeys(sorted(case.required - case.declared.keys()))}


def _limits(case: Case) -> list[Any]:
    """What is demanded of the values of undeclared keys."""
    found = [atom.get("additionalProperties") for atom in case.atoms]
    return [limit for limit in found if isinstance(limit, dict | bool)]


def _text(document: Document, case: Case, name: str) -> str:
    text = text_under(document, case.under(name), "description")
    return text if isinstance(text, str) else ""


def _field(document: Document, case: Case, name: str) -> Field:
    schemas = case.under(name)
    distinct = any(
        len(part(schema, "enum", list)) > 1 or bool(part(schema, "properties", dict))
        for schema in schemas
        if isinstance(schema, dict)
    )
    said = _text(document, case, name)
    announced = newly_deprecated(("", False), (said, False))
    return Field(
        name=name,
        description=said,
        required=name in case.required,
        successor="" if announced is None else announced.replacement or "",
        distinct=distinct,
    )


def _signature(case: Case) -> list[str]:
    """The parameters in the order in which a tool's function takes them: required ones first."""
    return sorted(_names(case), key=lambda name: name not in case.required)
