"""The changes from one definition of a tool to the next, and the part of its version that they raise.

Text is `patch`. What code written before cannot notice, except by using it, is `minor`: an optional parameter, a new
field of the answer, a wider input, a changed default, a declared output schema. What such code may stumble over is
`major`: a parameter removed, renamed, retyped, narrowed or newly required, a field of the answer removed, renamed,
retyped or optional, an answer that can be what it never was.

Annotations are `minor` where they admit to more effect than before, else `patch`: the code still works, and the policy
decides by the new ones what a person is asked. A parameter at another position is `minor`: calls that name their
arguments are not hit.

Where both sides are objects or lists, their parts are compared; anything else is compared as a whole by proof.
"""

import json
import keyword
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from sealyard.values.changes import (
    BreakingChange,
    Change,
    ChangeKind,
    Comparison,
    Deprecation,
    Replacement,
    Severity,
    Side,
    highest,
)
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.proof import STEPS, Prover, Schema
from sealyard.versioning.compare.schemas import (
    NULLABLE,
    NULLS,
    Budget,
    Case,
    Document,
    Exhausted,
    Numbers,
    TooLarge,
    cases_of,
    unwrapped,
)
from sealyard.versioning.compare.successors import Alike, Field, find_successors
from sealyard.versioning.compare.wording import folded, have_other_units, is_distinctive, newly_deprecated

_TEXT = 300  # characters of a text in a change
_CHARACTERS = 160  # characters of a type or value in words
_VALUES = 8  # values of an `enum` that are named
_HOPS = 8  # references in a row that are followed
_DEPTH = 16  # levels of objects and lists that are compared part by part
_CHANGES = 1_000  # more are not listed: nobody reads them
_HINTS = ("read_only", "destructive", "idempotent", "open_world")
_PARTS = 10_000
"""Objects and lists of a schema that are compared: one with more counts as changed, and is then walked in bounds."""


def compare(
    before: ToolSpec,
    after: ToolSpec,
    *,
    output_before: Schema | None = None,
    output_after: Schema | None = None,
) -> Comparison:
    """The changes from one definition of a tool to another, field by field.

    `output_before` and `output_after` are learned schemas of the answers that code sees; each is used where the
    definition declares none. Never raises, and never takes long: what is too large to compare counts as changed.
    """
    changes = [*_renamed_tool(before, after), *_texts(before, after), *_annotations(before, after)]
    found = newly_deprecated(*((f"{spec.title}. {spec.description}", False) for spec in (before, after)))
    deprecations = [found] if found is not None else []
    if not _is_same(before.input_schema, after.input_schema):
        walked = _walk("input", (before.input_schema,) * 2, (after.input_schema,) * 2)
        changes += walked[0]
        deprecations += walked[1]
    walked = _outputs(before, after, output_before, output_after)
    changes += walked[0]
    deprecations += walked[1]
    return Comparison(
        bump=highest(change.severity for change in changes),
        changes=tuple(changes),
        breaking=tuple(_breaking(change, after) for change in changes if change.severity == "major"),
        deprecations=tuple(deprecations),
    )


def _renamed_tool(before: ToolSpec, after: ToolSpec) -> Iterable[Change]:
    if before.full_name != after.full_name:
        yield Change(
            kind="tool_renamed",
            side="tool",
            before=before.full_name,
            after=after.full_name,
            severity="major",
            reason=f"It is called {after.full_name!r} now.",
            replacement=Replacement(name=after.full_name, is_proven=True, why="It was given as the same tool."),
        )


def _texts(before: ToolSpec, after: ToolSpec) -> Iterable[Change]:
    for name, was, is_now in (
        ("title", before.title, after.title),
        ("description", before.description, after.description),
    ):
        if was != is_now:
            reason = f"Its {name} changed."
            yield Change(
                kind="text", side="tool", before=was[:_TEXT], after=is_now[:_TEXT], severity="patch", reason=reason
            )


def _annotations(before: ToolSpec, after: ToolSpec) -> Iterable[Change]:
    for name in _HINTS:
        was, is_now = getattr(before.annotations, name), getattr(after.annotations, name)
        if was == is_now:
            continue
        worse = (name == "read_only" and was is True) or (name == "destructive" and is_now is True)
        words = [f"{name}: {'unsaid' if said is None else 'yes' if said else 'no'}" for said in (was, is_now)]
        yield Change(
            kind="annotations",
            side="tool",
            before=words[0],
            after=words[1],
            severity="minor" if worse else "patch",
            reason="It declares more effects than before." if worse else "It declares other effects.",
        )


def _outputs(
    before: ToolSpec, after: ToolSpec, output_before: Schema | None, output_after: Schema | None
) -> tuple[list[Change], list[Deprecation]]:
    """The changes of the answers."""
    declared = before.output_schema is not None, after.output_schema is not None
    if declared == (True, False):
        reason = "Nothing is promised about its answers any more."
        gone = Change(kind="output_undeclared", side="output", before="declared", severity="major", reason=reason)
        return [gone], []
    changes: list[Change] = []
    if declared == (False, True):
        reason = "It declares what it answers now."
        changes.append(Change(kind="output_declared", side="output", after="declared", severity="minor", reason=reason))
    old = (before.output_schema, unwrapped(before.output_schema)) if declared[0] else (output_before, output_before)
    new = (after.output_schema, unwrapped(after.output_schema)) if declared[1] else (output_after, output_after)
    same = declared == (True, True) and _is_same(before.output_schema, after.output_schema)
    if old[1] is None or new[1] is None or same:
        return changes, []
    walked, deprecations = _walk("output", old, new, learned=declared != (True, True))
    return changes + walked, deprecations


def _is_same(before: Any, after: Any) -> bool:
    """True if two schemas are the same, with their keys in the same order, which matters for parameters."""
    waiting = [(before, after)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        one, other = waiting.pop()
        if one is other or (id(one), id(other)) in seen:
            continue
        if type(one) is not type(other):
            return False
        if isinstance(one, dict | list):
            seen.add((id(one), id(other)))  # a part may stand in many places
            if len(one) != len(other) or len(seen) > _PARTS or (isinstance(one, dict) and list(one) != list(other)):
                return False
            waiting += zip(*((each.values() if isinstance(each, dict) else each) for each in (one, other)), strict=True)
        elif one != other:
            return False
    return True


def _walk(
    side: Literal["input", "output"], old: tuple[Any, Any], new: tuple[Any, Any], *, learned: bool = False
) -> tuple[list[Change], list[Deprecation]]:
    """Compare two schemas, each given with the document it is in."""
    walk = None
    try:
        walk = Walk(Document(old[0]), Document(new[0]), side=side, budget=Budget(STEPS), learned=learned)
        walk.compare("", (old[1],), (new[1],))
    except (TooLarge, Exhausted, TooMany, RecursionError):
        unknown = Change(
            kind="parameter_narrowed" if side == "input" else "output_unknown",
            side=side,
            severity="major",
            reason="It is too large or too deep to be compared, so it counts as changed.",
        )
        return [*(walk.changes if walk else ()), unknown], walk.deprecations if walk else []
    return walk.changes, walk.deprecations


_CASTS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def _breaking(change: Change, after: ToolSpec) -> BreakingChange:
    return BreakingChange(
        field=full_path(change.side, change.field),
        old_type=change.before,
        new_type=change.after,
        reason=change.reason,
        migration_code=_advice(change, after),
    )


def _advice(change: Change, after: ToolSpec) -> str:
    """One line of Python that follows the change, as far as one is known."""
    name = change.field.rsplit(".", 1)[-1]
    new = change.after
    match change.kind:
        case "tool_renamed":
            return f"from servers.{after.module} import {after.function}"
        case "parameter_renamed":
            return f"{new}={name}" if _is_name(name) and _is_name(new) else f"# pass {new!r} instead of {name!r}"
        case "parameter_removed":
            return f"# leave out {name!r}"
        case "parameter_added" | "parameter_required":
            return f"{name}=...  # {new}" if _is_name(name) else f"# pass {name!r}: {new}"
        case "parameter_retyped" if new in _CASTS and _is_name(name):
            return f"{name}={_CASTS[new]}({name})"
        case "output_renamed":
            return f"[{new!r}]  # was [{change.before!r}]"
        case "output_removed":
            return f"# {name!r} is not in the answer"
        case "output_optional":
            return f".get({name!r})"
        case "output_retyped" if new in _CASTS:
            return f"# {name or 'the answer'} is {new} now"
        case _:
            return f"# check {name!r}: {change.reason}" if name else f"# check the tool: {change.reason}"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


_OWN = frozenset({"properties", "required", "additionalProperties", "$ref", "allOf", "anyOf", "oneOf", "type", "items"})
Schemas = tuple[Any, ...]


def full_path(side: Side, field: str) -> str:
    """The path of a field with its side: `output.items[].name`, or `start` for a parameter."""
    if side != "output":
        return field
    return f"output{field}" if field.startswith(("[", "{")) or not field else f"output.{field}"


class TooMany(Exception):
    """There are more changes than can be listed."""


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
        self._unpromised: Severity = "minor" if learned else "major"
        """The severity of an answer that can be more than before."""
        self._budget = budget
        numbers = Numbers(before, after)
        self._texts = Numbers(before, after, texts=True)
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
            onward, back = self._proven(self._onward, old, new, top=top), self._proven(self._back, new, old, top=top)
            self._judge(path, old, new, onward=onward, back=back, kinds=(kinds_in(olds), kinds_in(news)))
        if not equal and len(self.changes) == begin and (depth == 0 or one is None or other is None):
            # Something without a place of its own, such as the description of an alternative.
            self._add("text", path, "", "", "patch", "Its texts changed.")
        self._open.discard(key)

    def _compare_objects(self, path: str, old: Case, new: Case, depth: int) -> None:
        olds, news = old.names, new.names
        gone, came = [name for name in olds if name not in news], [name for name in news if name not in olds]
        renamed = self._guess(old, new, gone, came) if gone and came else {}
        for name in olds:
            place = f"{path}.{name}" if path else name
            to = renamed[name].name if name in renamed else name
            if name in renamed:
                kind: ChangeKind = "parameter_renamed" if self._side == "input" else "output_renamed"
                reason = f"{'Renamed' if renamed[name].is_proven else 'Probably renamed'} to {to!r}."
                self._add(kind, place, name, to, "major", reason, replacement=renamed[name])
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
            {name: _field(document, case, name) for name in case.names}
            for document, case in ((self._before, old), (self._after, new))
        ]
        texts = Counter(folded(field.description) for side in fields for field in side.values() if field.description)
        return find_successors(
            [fields[0][name] for name in gone],
            [fields[1][name] for name in came],
            alike=alike,
            side=self._side,
            texts=texts,
        )

    def _compare_meanings(self, path: str, old: Case, new: Case, kept: list[str]) -> None:
        """Find fields of one name whose text says now that they are another, or speaks of other units."""
        before = {name: folded(_text(self._before, old, name)) for name in old.names}
        after = {name: folded(_text(self._after, new, name)) for name in new.names}
        owners = [Counter(side.values()) for side in (before, after)]
        kind: ChangeKind = "parameter_swapped" if self._side == "input" else "output_swapped"
        for name in kept:
            was, is_now = before[name], after[name]
            if was == is_now:
                continue
            reason = "Its description speaks of other units." if have_other_units(was, is_now) else ""
            if any(is_distinctive(text) and owners[0][text] == owners[1][text] == 1 for text in (was, is_now)):
                reason = "A description went from one name to another, so that it may mean something else."
            if reason:
                self._add(kind, f"{path}.{name}" if path else name, was, is_now, "major", reason)

    def _compare_presence(self, place: str, was: bool, is_now: bool) -> None:
        if was == is_now:
            return
        words = ("required", "optional") if was else ("optional", "required")
        if self._side == "input" and is_now:
            self._add("parameter_required", place, *words, "major", "A call without it is refused now.")
        elif self._side == "input":
            self._add("parameter_optional", place, *words, "minor", "It can be left out now.")
        elif is_now:
            self._add("output_required", place, *words, "minor", "It is in every answer now.")
        else:
            self._add("output_optional", place, *words, self._unpromised, "It can be missing from an answer now.")

    def _compare_others(self, path: str, old: Case, new: Case, depth: int) -> None:
        """Compare what holds for undeclared keys."""
        if old.others and new.others:
            self.compare(f"{path}{{}}", old.others, new.others, depth=depth + 1)
            return
        closed = [any(limit is False for limit in _other_limits(case)) for case in (old, new)]
        onward = old.others is None or all(self._onward.inside(old.others, limit) for limit in _other_limits(new))
        back = new.others is None or all(
            self._back.inside(new.others, limit) or (limit is False and self._side == "output")
            for limit in _other_limits(old)
        )
        if onward and back and closed[0] == closed[1]:
            return
        harmless = onward if self._side == "input" else back or self._learned
        severity: Severity = "patch" if onward and back else "minor" if harmless else "major"
        kind = self._range_kind(narrowed=closed[1] if onward and back else not onward)
        words = [f"other keys are {'forbidden' if each else 'allowed'}" for each in closed]
        self._add(kind, path, words[0], words[1], severity, "What holds for undeclared keys changed.")

    def _compare_nulls(self, path: str, olds: list[Case], news: list[Case]) -> None:
        was, is_now = "null" in kinds_in(olds), "null" in kinds_in(news)
        if was == is_now:
            return
        words = ("null is allowed", "null is not allowed") if was else ("null is not allowed", "null is allowed")
        harmless = is_now if self._side == "input" else was or self._learned
        reason = "It can be null now." if is_now else "It cannot be null any more."
        kind = self._range_kind(narrowed=was)
        self._add(kind, path, *words, "minor" if harmless else "major", reason)

    def _range_kind(self, *, narrowed: bool) -> ChangeKind:
        if self._side == "input":
            return "parameter_narrowed" if narrowed else "parameter_widened"
        return "output_narrowed" if narrowed else "output_widened"

    def _compare_rest(self, path: str, old: Case, new: Case, kind: str) -> None:
        """Compare what is demanded of an object or a list beside its parts, and of what else it can be."""
        kinds = old.kinds - NULLS
        skipped = {each: _OWN if each == kind else _OWN - {"items"} for each in kinds}
        onward = all(
            self._onward.satisfies(old, each, atom, without=skipped[each]) for atom in new.atoms for each in kinds
        )
        back = all(self._back.satisfies(new, each, atom, without=skipped[each]) for atom in old.atoms for each in kinds)
        self._judge(path, old.atoms, new.atoms, onward=onward, back=back, kinds=(kinds, kinds))

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
        """Name the change of what fits, if there is one, given what is proven of it."""
        if onward and back:
            return
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
        elif onward or before < after:
            self._add(
                "output_widened", path, *words, self._unpromised, "It can hold values that it did not hold before."
            )
        else:
            self._add(
                "output_unknown",
                path,
                *words,
                self._unpromised,
                "It changed, and may hold values that it did not hold before.",
            )

    def _proven(self, prover: Prover, facts: Schemas, goals: Schemas, *, top: bool = False) -> bool:
        return all(prover.proves(facts, goal, top=top) for goal in goals or (True,))

    def _compare_texts(self, path: str, old: Schemas, new: Schemas) -> None:
        for each in ("description", "title"):
            was, is_now = text_under(self._before, old, each), text_under(self._after, new, each)
            if was != is_now and (isinstance(was, str) or isinstance(is_now, str)):
                self._add("text", path, str(was or ""), str(is_now or ""), "patch", f"Its {each} changed.")
        if self._side == "input":
            was, is_now = text_under(self._before, old, "default"), text_under(self._after, new, "default")
            if not self._texts.same(was, is_now, "value"):
                words = ("none" if was is None else shown(was)), ("none" if is_now is None else shown(is_now))
                self._add("default_changed", path, *words, "minor", "Omitting it has another meaning now.")
        found = newly_deprecated(self._announcements(self._before, old), self._announcements(self._after, new))
        if found is not None:
            self.deprecations.append(msgspec.structs.replace(found, field=full_path(self._side, path)))

    @staticmethod
    def _announcements(document: Document, schemas: Schemas) -> tuple[str, bool]:
        texts = [text_under(document, schemas, keyword) for keyword in ("title", "description")]
        said = ". ".join(text for text in texts if isinstance(text, str))
        return said, text_under(document, schemas, "deprecated") is True

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
            reason = "It is new, and not what all other keys are."
            before = type_in_words(self._before, was, self._budget)
            self._add("output_widened", place, before, words, self._unpromised, reason)

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
    found = [case for case in cases if not case.kinds <= NULLS]
    return found[0] if len(found) == 1 and found[0].values is None else None


def _are_objects(one: Case, other: Case) -> bool:
    """True if both are objects; careless servers declare keys and leave out the type."""
    kinds = one.kinds - NULLS
    return kinds == other.kinds - NULLS and "object" in kinds and (len(kinds) == 1 or bool(one.declared))


def _are_lists(one: Case, other: Case) -> bool:
    return all(case.kinds - NULLS == {"array"} and not case.positioned() and case.item(0) for case in (one, other))


def _other_limits(case: Case) -> list[Any]:
    """The demands on the values of undeclared keys."""
    found = [atom.get("additionalProperties") for atom in case.atoms]
    return [limit for limit in found if isinstance(limit, dict | bool)]


def _text(document: Document, case: Case, name: str) -> str:
    text = text_under(document, case.under(name), "description")
    return text if isinstance(text, str) else ""


def _field(document: Document, case: Case, name: str) -> Field:
    said = _text(document, case, name)
    announced = newly_deprecated(("", False), (said, False))
    return Field(
        name=name,
        description=said,
        required=name in case.required,
        successor="" if announced is None else announced.replacement or "",
    )


def _signature(case: Case) -> list[str]:
    """The parameters in the order in which a tool's function takes them: required ones first."""
    return sorted(case.names, key=lambda name: name not in case.required)


_ORDER = ("object", "array", "string", "integer", "fraction", "boolean", "null")
_NAMES = {"array": "list", "fraction": "number"}
_LIMITS = (
    "format pattern minLength maxLength minimum exclusiveMinimum maximum exclusiveMaximum multipleOf minItems maxItems "
    "uniqueItems minProperties maxProperties"
).split()


def kinds_in(cases: list[Case]) -> frozenset[str]:
    """The kinds of values that fit one of the cases."""
    kinds = frozenset[str]().union(*(case.kinds for case in cases))
    return (kinds - {NULLABLE}) | {"null"} if NULLABLE in kinds else kinds


def type_in_words(document: Document, schemas: tuple[Any, ...], budget: Budget, *, depth: int = 2) -> str:
    """A type, such as `integer or null`, `list of string`, `one of "a", "b"` or `string (maxLength 10)`."""
    cases = cases_of(document, schemas, budget)
    kinds = kinds_in(cases)
    if len(kinds) == 7 and not any(_limits_of(case) for case in cases):
        return "anything"
    names = [kind for kind in _ORDER if kind in kinds and (kind != "integer" or "fraction" not in kinds)]
    texts = [_NAMES.get(kind, kind) for kind in names]
    values = [value for case in cases for value in case.values or ()]
    if values and all(case.values is not None or case.kinds <= {"null"} for case in cases):
        listed = ", ".join(shown(value) for value in values[:_VALUES])
        texts = [f"one of {listed}{', …' if len(values) > _VALUES else ''}"] + (["null"] if "null" in kinds else [])
    elif "array" in names and depth:
        items = next((case.item(case.positioned()) for case in cases if "array" in case.kinds), ())
        inside = type_in_words(document, items, budget, depth=depth - 1) if items else "anything"
        texts[names.index("array")] = "list" if inside == "anything" else f"list of {inside}"
    limits = dict.fromkeys(limit for case in cases for limit in _limits_of(case))
    text = " or ".join(texts or ["nothing"]) + (f" ({', '.join(limits)})" if limits else "")
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "…"


def shown(value: object) -> str:
    """A value as JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        text = "…"
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "…"


def text_under(document: Document, schemas: tuple[Any, ...], keyword: str) -> Any:
    """The text under a keyword in the first of `schemas` that has it, or in one that it refers to; None if none."""
    for schema in schemas:
        for _ in range(_HOPS):
            if not isinstance(schema, dict):
                break
            if keyword in schema:
                return schema[keyword]
            schema = document.target(schema.get("$ref"))
    return None


def _limits_of(case: Case) -> list[str]:
    return [f"{keyword} {shown(atom[keyword])}" for atom in case.atoms for keyword in _LIMITS if keyword in atom]
