"""Repairs: the difference between a rejected call and the next accepted one, as edits of a closed set, and in words.

Only edits of the call that failed count. A name is shown only if it is an identifier of few words, and a tool or a
parameter in the viewer's own view of the catalog, or an argument that the viewer itself gave.
"""

import difflib
from collections.abc import Collection, Iterator

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.stubs import Stub
from sealyard.learning.causes import LIMITS, Cause
from sealyard.learning.disclosure import is_name
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_EDITS = 3  # edits that share the credit for one repair
_FEW = 2  # parameters that one repair adds or drops; with more it is another call
_ALIKE = 0.6  # similarity from which two names count as spellings of one name; `difflib` has the same default

PASSING = frozenset(("rate", "busy"))
"""Classes of a tool's error that end by themselves: the same call can go through later."""


class Edit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a call."""

    kind: str
    tool: str = ""
    """The tool whose call it changes."""
    name: str = ""
    """The parameter before the edit."""
    to: str = ""
    """The parameter or tool that replaced it or was added, or the new kind of the value."""

    @property
    def key(self) -> str:
        """A key that is equal for equal edits."""
        return f"{self.kind}|{self.tool}|{self.name}|{self.to}"


def edits(before: Cause, after: Cause, *, is_same: bool) -> tuple[Edit, ...]:
    """The changes that can have repaired `before`, the likeliest first; `is_same` if the code has not changed."""
    change = _Change(before, after)
    if is_same or change.is_repeat:
        is_alone = before.tool in after.calls and not change.tools
        is_lasting = before.family == "tool" and before.complaint not in PASSING
        return (Edit(kind="again", tool=before.tool),) if is_alone and is_lasting else ()
    if before.family in LIMITS:  # only a call that asks for less can have kept within it
        less = (each for each in change.resized() if each.kind == "smaller")
        return tuple([*change.added(), *less][:_EDITS])
    found = [
        *change.renamed(),
        *change.given_by_tools(),
        *change.retyped(),
        *change.added(),
        *change.dropped(),
        *change.resized(),
        *change.replaced(),
    ]
    if before.family == "argument" and before.name:  # that another parameter changed on the way is not the repair
        found = [each for each in found if before.name in (each.name, each.to) or each.kind == "tool_instead"]
    return tuple(found[:_EDITS])


class _Change:
    """The difference between a run that failed and another one."""

    def __init__(self, before: Cause, after: Cause) -> None:
        self._cause = before
        self._tool = before.tool
        self._old = before.calls.get(before.tool, {})
        self._new = after.calls.get(before.tool)
        new = self._new or {}
        self._gone = {name: self._old[name] for name in sorted(self._old) if name not in new}
        self._come = {name: new[name] for name in sorted(new) if name not in self._old}
        self._both = {name: (one, new[name]) for name, one in self._old.items() if name in new}
        self.tools = [tool for tool in after.calls if tool not in before.calls]
        """The tools that are called now and were not before."""
        self._sources = {
            name: tool
            for name, tool in after.sources.get(before.tool, {}).items()
            if tool in self.tools and self._old.get(name) != new.get(name)
        }
        """The changed parameters whose values came from one of `tools`."""

    @property
    def is_repeat(self) -> bool:
        """True if the tool is called with equal arguments."""
        return self._new == self._old

    def renamed(self) -> Iterator[Edit]:
        """The one parameter that is gone, if one that has come took its place."""
        gone = [self._cause.name] if self._cause.name in self._gone else list(self._gone)
        if len(gone) == 1:
            come = [to for to in self._come if self._is_renaming(gone[0], to)]
            if len(come) == 1:
                yield Edit(kind="param_renamed", tool=self._tool, name=gone[0], to=come[0])

    def _is_renaming(self, name: str, to: str) -> bool:
        """True if `to` has a name like that of the parameter that is gone, or its value."""
        is_alike = difflib.SequenceMatcher(None, name, to).ratio() >= _ALIKE
        has_value = self._gone[name].mark == self._come[to].mark != 0
        return is_alike or has_value or not set(name.split("_")).isdisjoint(to.split("_"))

    def added(self) -> Iterator[Edit]:
        """A few parameters, if that is the only difference in names."""
        if not self._gone and len(self._come) <= _FEW:
            yield from (Edit(kind="param_added", tool=self._tool, to=name) for name in self._come)

    def dropped(self) -> Iterator[Edit]:
        """A few parameters, if that is the only difference in names."""
        if self._new is not None and not self._come and len(self._gone) <= _FEW:
            yield from (Edit(kind="param_dropped", tool=self._tool, name=name) for name in self._gone)

    def retyped(self) -> Iterator[Edit]:
        """The parameters with another kind of value."""
        for name, (one, other) in self._both.items():
            # The kind of a value that another tool gave does not matter.
            if one.kind != other.kind and other.kind not in ("other", "private") and name not in self._sources:
                yield Edit(kind="value_kind", tool=self._tool, name=name, to=other.kind)

    def resized(self) -> Iterator[Edit]:
        """The parameters with a value of the same kind and another size."""
        for name, (one, other) in self._both.items():
            if one.kind == other.kind and one.size != other.size and name not in self._sources:
                yield Edit(kind="smaller" if other.size < one.size else "larger", tool=self._tool, name=name)

    def given_by_tools(self) -> Iterator[Edit]:
        """The parameters with a value from a tool that is called first now."""
        for name, tool in self._sources.items():
            yield Edit(kind="tool_first", tool=self._tool, name=name, to=tool)

    def replaced(self) -> Iterator[Edit]:
        """The only tool that is called now and was not, if the failed one is not called any more."""
        if self._new is None and len(self.tools) == 1:
            yield Edit(kind="tool_instead", tool=self._tool, to=self.tools[0])


# An edit in words

_KINDS = {
    "none": "None",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "an object",
    "empty": "an empty text",
    "date": "a date such as 2024-05-31",
    "time": "a date and time such as 2024-05-31T10:00:00Z",
    "other_date": "a date in another form",
    "digits": "a number in quotes",
    "url": "a whole URL",
    "address": "an e-mail address",
    "absolute": "an absolute path",
    "relative": "a relative path",
    "json": "JSON text",
    "upper": "text in capital letters",
    "lower": "text in small letters",
    "title": "a capitalized word",
    "text": "text",
}


class Wording:
    """Makes sentences for one viewer and one failure."""

    def __init__(self, view: Snapshot, cause: Cause) -> None:
        self._view = view
        self._cause = cause
        self._given = cause.calls.get(cause.tool, {})
        self._parameters: dict[str, Collection[str]] = {}

    def spec(self, tool: str) -> ToolSpec | None:
        """The tool `module.function` in this viewer's catalog."""
        return self._view.find(tool) if tool else None

    def sentence(self, edit: Edit, *, is_vouched: bool = True) -> str | None:
        """The sentence for an edit, or None if it does not apply or something in it must not be shown to this viewer.

        It may name another server's tool only if `is_vouched`: the viewer itself or two other principals used it.
        """
        spec = self.spec(edit.tool)
        if spec is None:
            return None
        is_known = self._takes(spec, edit.to if edit.kind in ("param_renamed", "param_added") else edit.name)
        is_given = is_name(edit.name) and edit.name in self._given
        match edit.kind:
            case "again":
                return f"Call {spec.function} again as it was: it went through later."
            case "param_renamed" if is_known and is_given and self._cause.name in ("", edit.name):
                return f"Pass {edit.to}= to {spec.function}, not {edit.name}=."
            case "param_added" if is_known and edit.to not in self._given:
                return f"Pass {edit.to}= to {spec.function} too."
            case "param_dropped" if is_given:
                return f"Leave {edit.name}= out of the call of {spec.function}."
            case "value_kind" if is_known and edit.to in _KINDS:
                return f"Pass {edit.name}= of {spec.function} as {_KINDS[edit.to]}."
            case "smaller" | "larger" if is_known:
                return f"Pass {'less' if edit.kind == 'smaller' else 'more'} as {edit.name}= of {spec.function}."
            case "tool_first" if is_known and edit.to not in self._cause.calls:
                other = self._other(edit.to, spec, is_vouched=is_vouched)
                return other and f"Call {other} first: what it answers gives {edit.name}= of {spec.function}."
            case "tool_instead":
                other = self._other(edit.to, spec, is_vouched=is_vouched)
                return other and f"Use {other} instead of {spec.function}."
        return None

    def _takes(self, spec: ToolSpec, name: str) -> bool:
        if spec.full_name not in self._parameters:
            self._parameters[spec.full_name] = {parameter.name for parameter in Stub(spec).parameters}
        return is_name(name) and name in self._parameters[spec.full_name]

    def _other(self, tool: str, spec: ToolSpec, *, is_vouched: bool) -> str | None:
        """Another tool of the same server, or a read-only one of any server; None for a destructive one."""
        other = self.spec(tool)
        if other is None or other.annotations.destructive is True or not is_name(other.function):
            return None
        if other.upstream != spec.upstream and not (is_vouched and other.annotations.read_only is True):
            return None
        return other.function if other.upstream == spec.upstream else f"servers.{other.module}.{other.function}"
