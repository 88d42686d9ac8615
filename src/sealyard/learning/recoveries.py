"""Recovery: what an agent changed between a run that failed and the next that went well, in edits of a closed set.

Only edits that can have to do with the cause count. An edit names a tool, a parameter, a field or a function; which of
them may be shown to whom is decided when it is told.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping

import msgspec

from sealyard.learning.causes import Cause
from sealyard.learning.recovery_rules import FUNCTIONS, METHODS, RELEVANT

__all__ = ("Edit", "edits", "is_portable")

_EDITS = 3
_ALIKE = 0.6
"""As much alike are two names of the same."""
_SHORT = 3

_OF_VALUE = ("value_kind", "smaller", "larger")
_NAMES_PARAMETER = frozenset(("argument", "keyword", "missing"))
"""Failures that say which parameter they are about: what became of others is no repair."""
_TOOL_EDITS = frozenset(
    """param_renamed param_added param_dropped value_kind smaller larger tool_first tool_instead field_renamed
    field_added unwrapped tool_imported uncalled""".split()
)


class Edit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change."""

    kind: str
    tool: str = ""
    """The tool whose call or answer it is about."""
    name: str = ""
    """What was there before."""
    to: str = ""
    """What came in its place, or was added."""

    @property
    def key(self) -> str:
        """The same for the same edit."""
        return f"{self.kind}|{self.tool}|{self.name}|{self.to}"


def is_portable(edit: Edit) -> bool:
    """Whether it can help with any tool, because it names none and nothing of one."""
    return edit.kind not in _TOOL_EDITS and not (edit.kind == "field_optional" and edit.name)


def edits(before: Cause, after: Cause, *, is_same: bool) -> tuple[Edit, ...]:
    """What changed that can have repaired `before`; `is_same` if the code is the same letter by letter."""
    if is_same:
        return (Edit(kind="again"),) if before.family == "tool" else ()
    if not before.features or not after.features:
        return ()
    change = _Change(before, after)
    found: dict[str, Edit] = {}
    for rule in RELEVANT.get(before.family, ()):
        for edit in change.find(rule):
            found.setdefault(edit.key, edit)
    given = {edit.name for edit in found.values() if edit.kind == "tool_first"}
    # Of a value that another tool gave, what it looks like does not matter.
    kept = [edit for edit in found.values() if edit.kind not in _OF_VALUE or edit.name not in given]
    if before.family in _NAMES_PARAMETER and before.name:
        kept = [edit for edit in kept if before.name in (edit.name, edit.to) or edit.kind == "tool_instead"]
    if before.family == "field" and before.name and not change.reads(before.name):
        kept = [edit for edit in kept if edit.kind == "field_renamed"]  # else it was not repaired, but left out
    return tuple(kept)[:_EDITS]


class _Change:
    """The difference of two sketches."""

    def __init__(self, before: Cause, after: Cause) -> None:
        self.cause = before
        self.old, self.new = before.features, after.features
        self.gone = [key.split("|") for key, count in self.old.items() if count > self.new.get(key, 0)]
        self.come = [key.split("|") for key, count in self.new.items() if count > self.old.get(key, 0)]
        self._finders: dict[str, Callable[[], Iterator[Edit]]] = {
            "param_renamed": self._param_renamed,
            "param_added": self._param_added,
            "param_dropped": self._param_dropped,
            "value_kind": self._value_kind,
            "smaller": lambda: self._sized(-1),
            "larger": lambda: self._sized(1),
            "tool_first": self._tool_first,
            "tool_instead": self._tool_instead,
            "tool_imported": self._tool_imported,
            "uncalled": self._uncalled,
            "field_renamed": self._field_renamed,
            "field_added": self._field_added,
            "field_optional": self._field_optional,
            "unwrapped": lambda: self._field_added("unwrapped"),
            "subscripted": self._subscripted,
            "parsed": lambda: self._used("json.loads,ast.literal_eval"),
            "renamed": self._renamed,
            "imported": self._imported,
            "attributed": self._attributed,
            "caught": self._caught,
            "waited": lambda: self._plain("waited", any(self._used("time.sleep,asyncio.sleep"))),
            "gathered": lambda: self._plain("gathered", any(self._used("asyncio.gather"))),
            "ungathered": lambda: self._plain("ungathered", any(self._unused("asyncio.gather"))),
            "relative": self._relative,
        }

    def reads(self, field: str) -> bool:
        """Whether a field is read afterwards, of whatever."""
        return any(key.startswith("field|") and key.split("|")[2] == field for key in self.new)

    def find(self, rule: str) -> Iterator[Edit]:
        """The edits that a rule speaks of."""
        kind, _, allowed = rule.partition(":")
        if kind in self._finders:
            return self._finders[kind]()
        match kind:
            case "used":
                return self._used(allowed)
            case "unused":
                return self._unused(allowed)
            case "method":
                return self._method(allowed)
            case "option":
                return self._option(allowed)
            case "given":
                return self._plain("defaulted", self._grew(f"given|{allowed}"))
            case "op":
                return self._plain("whole_division", self._has_come("op", allowed))
            case "attribute":
                return self._plain("zone", any(part[0] == "attr" and part[2] in (allowed, "UTC") for part in self.come))
        return self._plain(kind, self._is_plain(kind))

    def _is_plain(self, kind: str) -> bool:
        """Whether an edit happened that has no name in it."""
        match kind:
            case "guarded":
                return any(self._has_come("check", each) for each in ("none", "or", "if")) or self._has_come(
                    "fn", "isinstance"
                )
            case "checked":
                return self._has_come("check", "in")
            case "awaited":
                return self._has_come("await")
            case "indexed":
                return self._has_come("index")
            case "looped":
                return self._has_come("loop")
            case "sliced":
                return self._has_come("slice")
            case "fstring":
                return self._has_come("fstring")
            case "global":
                return self._has_come("global")
            case "opened":
                return self._grew("given|open")
            case "called":
                return self._has_come("method") and any(part[0] == "attr" for part in self.come + self.gone)
        return False

    def _has_come(self, *start: str) -> bool:
        return any(tuple(part[: len(start)]) == start for part in self.come)

    def _grew(self, key: str) -> bool:
        return 0 < self.old.get(key, 0) < self.new.get(key, 0)

    @staticmethod
    def _plain(kind: str, happened: bool) -> Iterator[Edit]:
        return iter((Edit(kind=kind),) if happened else ())

    # Arguments

    def _parameters(self, features: Mapping[str, int], tool: str) -> set[str]:
        parts = (key.split("|") for key in features if key.startswith((f"arg|{tool}|", f"sent|{tool}|")))
        return {part[2] for part in parts}

    def _tools(self) -> list[str]:
        """Those whose arguments can be the reason: the one that failed, or all that are called before and after."""
        if self.cause.tool:
            return [self.cause.tool]
        return [key.removeprefix("call|") for key in self.old if key.startswith("call|") and key in self.new]

    def _param_renamed(self) -> Iterator[Edit]:
        for tool in self._tools():
            old, new = self._parameters(self.old, tool), self._parameters(self.new, tool)
            gone = sorted(old - new)
            if self.cause.name in gone:
                gone = [self.cause.name]
            come = [name for name in sorted(new - old) if len(gone) == 1 and self._is_as_before(tool, gone[0], name)]
            if len(come) == 1:
                yield Edit(kind="param_renamed", tool=tool, name=gone[0], to=come[0])

    def _is_as_before(self, tool: str, name: str, to: str) -> bool:
        """Whether a parameter has what another one had, or is called like it."""
        if difflib.SequenceMatcher(None, name, to).ratio() >= _ALIKE or set(name.split("_")) & set(to.split("_")):
            return True
        known = [
            (self.old[before], self.new[after])
            for mark in ("as", "was")
            if (before := f"{mark}|{tool}|{name}") in self.old and (after := f"{mark}|{tool}|{to}") in self.new
        ]
        return any(one == other for one, other in known)

    def _param_added(self) -> Iterator[Edit]:
        for tool in self._tools():
            if f"call|{tool}" in self.new:
                old, new = self._parameters(self.old, tool), self._parameters(self.new, tool)
                if not old - new and len(new - old) <= 2:
                    yield from (Edit(kind="param_added", tool=tool, to=name) for name in sorted(new - old))

    def _param_dropped(self) -> Iterator[Edit]:
        for tool in self._tools():
            if f"call|{tool}" in self.new:
                old, new = self._parameters(self.old, tool), self._parameters(self.new, tool)
                if not new - old and len(old - new) <= 2:
                    yield from (Edit(kind="param_dropped", tool=tool, name=name) for name in sorted(old - new))

    def _value_kind(self) -> Iterator[Edit]:
        for tool in self._tools():
            for mark in ("sent", "arg"):
                start = [mark, tool]
                gone = {part[2]: part[3] for part in self.gone if part[:2] == start}
                come = {part[2]: part[3] for part in self.come if part[:2] == start}
                both = [name for name in gone if name in come and come[name] not in ("made", "other", "private")]
                yield from (Edit(kind="value_kind", tool=tool, name=name, to=come[name]) for name in both)
                if both:
                    break

    def _sized(self, direction: int) -> Iterator[Edit]:
        for tool in self._tools():
            for key, size in self.old.items():
                if key.startswith(f"size|{tool}|") and key in self.new:
                    change = self.new[key] - size
                    kinds = [mark for mark in (*self.gone, *self.come) if mark[:3] == ["sent", tool, key.split("|")[2]]]
                    if change * direction > 0 and not kinds:
                        yield Edit(
                            kind="smaller" if direction < 0 else "larger", tool=tool, name=key.rpartition("|")[2]
                        )

    # Tools

    def _called(self, features: Mapping[str, int]) -> set[str]:
        return {key.removeprefix("call|") for key in features if key.startswith("call|")}

    def _tool_first(self) -> Iterator[Edit]:
        come = self._called(self.new) - self._called(self.old)
        for part in self.come:
            if part[0] == "flow" and part[1] in come and part[2] in self._tools():
                yield Edit(kind="tool_first", tool=part[2], name=part[3], to=part[1])

    def _tool_instead(self) -> Iterator[Edit]:
        gone, come = self._called(self.old) - self._called(self.new), self._called(self.new) - self._called(self.old)
        wanted = self.cause.tool
        if len(come) == 1 and (wanted in gone or (not wanted and len(gone) <= 1)):
            yield Edit(kind="tool_instead", tool=wanted or next(iter(gone), ""), to=next(iter(come)))

    def _tool_imported(self) -> Iterator[Edit]:
        for tool in sorted(self._called(self.new) - self._called(self.old)):
            if tool.rpartition(".")[2] == self.cause.name:
                yield Edit(kind="tool_imported", tool=tool, name=self.cause.name, to=tool)

    def _uncalled(self) -> Iterator[Edit]:
        for part in self.gone:
            if part[0] == "looped":
                yield Edit(kind="uncalled", tool=part[1])

    # Answers

    def _field_parts(self, parts: list[list[str]]) -> list[list[str]]:
        wanted = self.cause.tool
        return [part for part in parts if part[0] == "field" and (not wanted or part[1] == wanted)]

    def _read(self, features: Mapping[str, int]) -> set[str]:
        parts = self._field_parts([key.split("|") for key in features])
        return {part[2] for part in parts}

    def _field_renamed(self) -> Iterator[Edit]:
        old, new = self._read(self.old), self._read(self.new)
        gone, come = old - new, new - old
        if self.cause.family == "field":
            gone &= {self.cause.name}
        if len(gone) == 1 and len(come) == 1:
            yield Edit(kind="field_renamed", tool=self.cause.tool, name=gone.pop(), to=come.pop())

    def _field_added(self, kind: str = "field_added") -> Iterator[Edit]:
        old, new = self._read(self.old), self._read(self.new)
        come = new - old - {part[2] for part in self.gone if part[0] == "attr"}
        if len(come) == 1 and not old - new:
            yield Edit(kind=kind, tool=self.cause.tool, to=come.pop())

    def _field_optional(self) -> Iterator[Edit]:
        gone = {part[2] for part in self._field_parts(self.gone) if part[3] == "sub"}
        come = {part[2] for part in self._field_parts(self.come) if part[3] == "get"}
        for name in sorted(gone & come):
            if self.cause.family != "field" or name == self.cause.name:
                yield Edit(kind="field_optional", tool=self.cause.tool, name=name)

    def _subscripted(self) -> Iterator[Edit]:
        gone = {part[2] for part in self.gone if part[0] == "attr"}
        come = {part[2] for part in self.come if part[0] == "field"}
        if gone & come:
            yield Edit(kind="subscripted")

    # Python

    def _used(self, allowed: str) -> Iterator[Edit]:
        wanted = FUNCTIONS if allowed == "*" else frozenset(allowed.split(",")) & FUNCTIONS
        for name in dict.fromkeys(part[1] for part in self.come if part[0] == "fn" and part[1] in wanted):
            if self._total("fn", name, self.new) > self._total("fn", name, self.old):
                yield Edit(kind="used", to=name)

    def _unused(self, allowed: str) -> Iterator[Edit]:
        wanted = FUNCTIONS | {"print"} if allowed == "*" else frozenset(allowed.split(","))
        for name in dict.fromkeys(part[1] for part in self.gone if part[0] == "fn" and part[1] in wanted):
            if self._total("fn", name, self.new) < self._total("fn", name, self.old):
                yield Edit(kind="unused", name=name)

    def _method(self, allowed: str) -> Iterator[Edit]:
        wanted = METHODS if allowed == "*" else frozenset(allowed.split(",")) & METHODS
        for name in dict.fromkeys(part[1] for part in self.come if part[0] == "method" and part[1] in wanted):
            if self._total("method", name, self.new) > self._total("method", name, self.old):
                yield Edit(kind="method", to=name)

    def _option(self, allowed: str) -> Iterator[Edit]:
        wanted = FUNCTIONS if allowed == "*" else frozenset(allowed.split(",")) & FUNCTIONS
        for part in self.come:
            if part[0] == "option" and part[1] in wanted:
                yield Edit(kind="option", name=part[1], to=part[2])

    @staticmethod
    def _total(mark: str, name: str, features: Mapping[str, int]) -> int:
        start = f"{mark}|{name}|"
        return sum(count for key, count in features.items() if key.startswith(start))

    def _renamed(self) -> Iterator[Edit]:
        """Another name in the place of one: one like it, or the only one, if it was a variable before."""
        gone = sorted({part[1] for part in self.gone if part[0] == "load"})
        come = sorted({part[1] for part in self.come if part[0] == "load"})
        name = self.cause.name or (gone[0] if len(gone) == 1 else "")
        if name not in gone:
            return
        near = difflib.get_close_matches(name, come, n=1, cutoff=_ALIKE)
        bound = [each for each in come if f"bind|{each}" in self.old]
        for to in near or (bound if len(come) == 1 else []):
            yield Edit(kind="renamed", name=name, to=to)

    def _imported(self) -> Iterator[Edit]:
        gone = sorted({part[1] for part in self.gone if part[0] == "import"})
        for part in self.come:
            if part[0] == "import" and (self.cause.family != "name" or _is_meant(self.cause.name, part[1:])):
                yield Edit(kind="imported", name=gone[0] if gone else "", to=".".join(filter(None, part[1:])))

    def _attributed(self) -> Iterator[Edit]:
        gone, come = [[part[2] for part in parts if part[0] == "attr"] for parts in (self.gone, self.come)]
        if len(come) == 1 and self.cause.name in gone:
            yield Edit(kind="attributed", name=self.cause.name, to=come[0])

    def _caught(self) -> Iterator[Edit]:
        for part in self.come:
            if part[0] == "except":
                yield Edit(kind="caught", to=part[1])
                return

    def _relative(self) -> Iterator[Edit]:
        if self._has_come("open", "relative") and any(part[:2] == ["open", "absolute"] for part in self.gone):
            yield Edit(kind="relative")


def _is_meant(name: str, imported: list[str]) -> bool:
    """Whether an import gives a name its value; a short one may be the usual one for a module, such as `np`."""
    parts = ".".join(imported).split(".")
    return name in parts or (len(name) <= _SHORT and parts[0].startswith(name[:1]))
