"""Repairs: the change between a failed run and the next successful one, as edits of a closed set, and in words.

Only edits that relate to the cause count. A name is shown only if it is an identifier of few words and is a
tool, parameter or declared field of the viewer's own view of the catalog, a field of an answer to its own run, or in
its own code.
"""

import difflib
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.stubs import parameter_names
from sealyard.learning.causes import Cause
from sealyard.learning.disclosure import WORDS, is_field, is_name
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.schemas import resolve, unwrapped

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_EDITS = 3  # edits that share the credit for one repair
_ALIKE = 0.6  # similarity from which two names count as spellings of one name; `difflib` has the same default
_SHORT = 3  # length up to which a name may be the usual alias of a module, such as `np`
_FIELDS = 400  # fields of a declared schema that are read: a bound

# Edits that can repair a family of failures

FUNCTIONS = WORDS["functions"]

METHODS = WORDS["methods"]

_TO_NUMBER = "used:int,float,decimal.Decimal,round"
_TO_TEXT = "used:str,repr,json.dumps"
_TIMES = (
    "used:datetime.datetime.fromisoformat,datetime.date.fromisoformat,datetime.datetime.strptime,datetime.datetime,"
    "datetime.datetime.fromtimestamp"
)
_ARGUMENTS = ("param_renamed", "value_kind", "param_added", "param_dropped", "tool_first", "smaller", "larger")

RELEVANT: Mapping[str, tuple[str, ...]] = {
    "field": ("subscripted", "field_renamed", "unwrapped", "field_optional", "indexed", "looped", "parsed", "checked"),
    "list_not_dict": ("indexed", "looped", "unwrapped", "field_renamed"),
    "dict_not_list": ("unwrapped", "method:items,values,keys", "used:list,sorted", "looped"),
    "text_not_data": ("parsed", "method:items,values", "unwrapped", "indexed"),
    "await": ("awaited", "gathered"),
    "loop": ("unused:asyncio.run", "awaited"),
    "mixed_none": ("guarded", "checked", "field_optional", "used:filter", "field_renamed"),
    "none": ("guarded", "checked", "field_optional", "param_added", "value_kind", "field_renamed", "tool_instead"),
    "zone": ("zone", "method:astimezone,replace", "used:datetime.datetime.now"),
    "mixed": (_TIMES, _TO_NUMBER, _TO_TEXT, "fstring", "option:sorted,min,max", "method:date,items", "used:sum"),
    "keyword": ("param_renamed", "param_dropped"),
    "missing": ("param_added", "param_renamed"),
    "positional": ("param_added", "param_renamed"),
    "argument": (*_ARGUMENTS, "tool_instead"),
    "tool": (*_ARGUMENTS, "tool_instead", "again", "caught", "waited", "ungathered"),
    "data_not_text": ("unused:json.loads,json.load", "used:json.dumps,str", "used:json.load", "method:read"),
    "serialize": (
        "option:json.dumps",
        "used:str,list,sorted,float,dict,tuple",
        "method:isoformat,items,tolist,to_dict",
    ),
    "result": ("used:str,list,sorted,dict,float", "method:isoformat,tolist,to_dict,items", "sliced", "param_added"),
    "unhashable": ("used:tuple,frozenset,str,json.dumps,repr", "field_added", "indexed"),
    "not_callable": ("subscripted", "renamed", "used:datetime.datetime,datetime.date", "indexed"),
    "not_iterable": ("used:range,len,list,zip,enumerate", "unwrapped", "method:items,values", "awaited", "guarded"),
    "not_subscriptable": ("used:list,sorted", "method:values,items", "awaited", "called", "unwrapped"),
    "join": ("used:map,str", "fstring"),
    "type": (_TO_NUMBER, _TO_TEXT, "guarded", "method:isoformat,encode,decode,strftime", "whole_division", _TIMES),
    "json": (
        "unused:json.loads",
        "used:ast.literal_eval",
        "method:splitlines,strip,split,replace",
        "guarded",
        "caught",
    ),
    "unpack": ("method:items", "used:enumerate,zip", "indexed"),
    "number": ("method:replace,strip,split", "used:float,re.sub,re.search", "guarded", "caught"),
    "time": (_TIMES, "method:replace,split,strip", "indexed", "sliced"),
    "empty": (
        "guarded",
        "checked",
        "option:max,min",
        "defaulted",
        "caught",
        "param_added",
        "param_dropped",
    ),
    "iteration": ("used:list,tuple,sorted,dict", "method:copy"),
    "local": ("global", "renamed"),
    "name": ("imported", "renamed", "tool_imported"),
    "module": ("imported", "tool_instead"),
    "unknown_tool": ("tool_instead",),
    "import_name": ("imported", "renamed"),
    "attribute": ("subscripted", "method:*", "attributed", "used:len,str,list,json.loads", "called", "imported"),
    "file": ("relative", "renamed", "used:os.makedirs,os.path.join,os.listdir,os.path.exists", "tool_instead"),
    "permission": ("relative", "tool_instead"),
    "decode": ("option:open", "method:decode,encode", "opened"),
    "recursion": ("guarded", "looped"),
    "wall_time": ("gathered", "param_added", "smaller", "sliced", "uncalled", "field_added"),
    "cpu_time": ("sliced", "param_added", "smaller", "used:set,dict,collections.Counter"),
    "memory": ("param_added", "smaller", "sliced", "used:itertools.islice"),
    "output": ("unused:print", "sliced", "used:len"),
    "calls": ("param_added", "uncalled", "tool_instead", "sliced", "smaller"),
    "processes": ("unused:*",),
    "other": (*_ARGUMENTS, _TIMES, _TO_NUMBER, _TO_TEXT, "method:*", "option:*", "guarded", "used:list,dict,sorted"),
}
"""The edits that can repair each family of failures, the likeliest first."""


# The edits between two runs

_SIGNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "guarded": (("check", "none"), ("check", "or"), ("check", "if"), ("fn", "isinstance")),
    "checked": (("check", "in"),),
    "awaited": (("await",),),
    "indexed": (("index",),),
    "looped": (("loop",),),
    "sliced": (("slice",),),
    "fstring": (("fstring",),),
    "global": (("global",),),
    "whole_division": (("op", "FloorDiv"),),
}
"""Edits without a name: one happened if a feature that begins like this is new."""

_OF_VALUE = ("value_kind", "smaller", "larger")
_NAMES_PARAMETER = frozenset(("argument", "keyword", "missing"))
"""Failures that name their parameter: a change of another parameter does not count as a repair."""
_TOOL_EDITS = frozenset(
    """param_renamed param_added param_dropped value_kind smaller larger tool_first tool_instead field_renamed
    field_added unwrapped tool_imported uncalled""".split()
)


class Edit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change."""

    kind: str
    tool: str = ""
    """The tool whose call or answer it changes."""
    name: str = ""
    """The name before the edit."""
    to: str = ""
    """The name that replaced it, or was added."""

    @property
    def key(self) -> str:
        """A key that is equal for equal edits."""
        return f"{self.kind}|{self.tool}|{self.name}|{self.to}"


def is_portable(edit: Edit) -> bool:
    """True if it can help with any tool, because it names no tool, parameter or field."""
    return edit.kind not in _TOOL_EDITS and not (edit.kind == "field_optional" and edit.name)


def edits(before: Cause, after: Cause, *, is_same: bool) -> tuple[Edit, ...]:
    """The changes that can have repaired `before`; `is_same` if the text of the code is the same."""
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
    # The kind of a value that another tool gave does not matter.
    kept = [edit for edit in found.values() if edit.kind not in _OF_VALUE or edit.name not in given]
    if before.family in _NAMES_PARAMETER and before.name:
        kept = [edit for edit in kept if before.name in (edit.name, edit.to) or edit.kind == "tool_instead"]
    if before.family == "field" and before.name and not change.reads(before.name):
        kept = [edit for edit in kept if edit.kind == "field_renamed"]  # otherwise the call was left out, not repaired
    return tuple(kept)[:_EDITS]


class _Change:
    """The difference of two sketches."""

    def __init__(self, before: Cause, after: Cause) -> None:
        self.cause = before
        self.old, self.new = before.features, after.features
        self.gone = [key.split("|") for key, count in self.old.items() if count > self.new.get(key, 0)]
        self.come = [key.split("|") for key, count in self.new.items() if count > self.old.get(key, 0)]

    def reads(self, field: str) -> bool:
        """True if the new code reads a field of any value."""
        return any(key.startswith("field|") and key.split("|")[2] == field for key in self.new)

    def find(self, rule: str) -> Iterator[Edit]:
        """The edits that a rule allows: those of the method that has its name, or one without a name."""
        kind, _, allowed = rule.partition(":")
        find: Callable[[str], Iterator[Edit]] | None = getattr(self, f"_find_{kind}", None)
        if find is not None:
            yield from find(allowed)
        elif self._happened(kind):
            yield Edit(kind=kind)

    def _happened(self, kind: str) -> bool:
        """True if an edit without a name happened."""
        match kind:
            case "defaulted":
                return self._grew("given|next")
            case "opened":
                return self._grew("given|open")
            case "called":
                return self._has_come("method") and any(part[0] == "attr" for part in self.come + self.gone)
            case "zone":
                return any(part[0] == "attr" and part[2] in ("utc", "UTC") for part in self.come)
            case "subscripted":
                gone = {part[2] for part in self.gone if part[0] == "attr"}
                return not gone.isdisjoint(part[2] for part in self.come if part[0] == "field")
            case "relative":
                return self._has_come("open", "relative") and ["open", "absolute"] in [part[:2] for part in self.gone]
            case "waited":
                return any(self._find_used("time.sleep,asyncio.sleep"))
            case "gathered":
                return any(self._find_used("asyncio.gather"))
            case "ungathered":
                return any(self._find_unused("asyncio.gather"))
        return any(self._has_come(*sign) for sign in _SIGNS.get(kind, ()))

    def _has_come(self, *start: str) -> bool:
        return any(tuple(part[: len(start)]) == start for part in self.come)

    def _grew(self, key: str) -> bool:
        return 0 < self.old.get(key, 0) < self.new.get(key, 0)

    # Arguments

    def _parameters(self, features: Mapping[str, int], tool: str) -> set[str]:
        parts = (key.split("|") for key in features if key.startswith((f"arg|{tool}|", f"sent|{tool}|")))
        return {part[2] for part in parts}

    def _tools(self) -> list[str]:
        """The tools whose arguments can be the cause: the failed one, or all that both runs call."""
        if self.cause.tool:
            return [self.cause.tool]
        return [key.removeprefix("call|") for key in self.old if key.startswith("call|") and key in self.new]

    def _find_param_renamed(self, _: str) -> Iterator[Edit]:
        for tool in self._tools():
            old, new = self._parameters(self.old, tool), self._parameters(self.new, tool)
            gone = sorted(old - new)
            if self.cause.name in gone:
                gone = [self.cause.name]
            come = [name for name in sorted(new - old) if len(gone) == 1 and self._is_as_before(tool, gone[0], name)]
            if len(come) == 1:
                yield Edit(kind="param_renamed", tool=tool, name=gone[0], to=come[0])

    def _is_as_before(self, tool: str, name: str, to: str) -> bool:
        """True if a parameter has the value of another one, or a similar name."""
        if difflib.SequenceMatcher(None, name, to).ratio() >= _ALIKE or set(name.split("_")) & set(to.split("_")):
            return True
        known = [
            (self.old[before], self.new[after])
            for mark in ("as", "was")
            if (before := f"{mark}|{tool}|{name}") in self.old and (after := f"{mark}|{tool}|{to}") in self.new
        ]
        return any(one == other for one, other in known)

    def _find_param_added(self, _: str) -> Iterator[Edit]:
        for tool in self._tools():
            for name in self._only_in(self.new, self.old, tool):
                yield Edit(kind="param_added", tool=tool, to=name)

    def _find_param_dropped(self, _: str) -> Iterator[Edit]:
        for tool in self._tools():
            for name in self._only_in(self.old, self.new, tool):
                yield Edit(kind="param_dropped", tool=tool, name=name)

    def _only_in(self, more: Mapping[str, int], less: Mapping[str, int], tool: str) -> list[str]:
        """The one or two parameters that only `more` gives, if that is the only difference and it is still called."""
        some, others = self._parameters(more, tool), self._parameters(less, tool)
        is_only = f"call|{tool}" in self.new and others <= some and len(some - others) <= 2
        return sorted(some - others) if is_only else []

    def _find_value_kind(self, _: str) -> Iterator[Edit]:
        for tool in self._tools():
            for mark in ("sent", "arg"):
                start = [mark, tool]
                gone = {part[2]: part[3] for part in self.gone if part[:2] == start}
                come = {part[2]: part[3] for part in self.come if part[:2] == start}
                both = [name for name in gone if name in come and come[name] not in ("made", "other", "private")]
                yield from (Edit(kind="value_kind", tool=tool, name=name, to=come[name]) for name in both)
                if both:
                    break

    def _find_smaller(self, _: str) -> Iterator[Edit]:
        yield from (Edit(kind="smaller", tool=tool, name=name) for tool, name, change in self._sizes() if change < 0)

    def _find_larger(self, _: str) -> Iterator[Edit]:
        yield from (Edit(kind="larger", tool=tool, name=name) for tool, name, change in self._sizes() if change > 0)

    def _sizes(self) -> Iterator[tuple[str, str, int]]:
        """Tools and parameters whose value is of the same kind, with the change of its size."""
        for tool in self._tools():
            for key, size in self.old.items():
                if key.startswith(f"size|{tool}|") and key in self.new:
                    name = key.split("|")[2]
                    if not any(mark[:3] == ["sent", tool, name] for mark in (*self.gone, *self.come)):
                        yield tool, name, self.new[key] - size

    # Tools

    def _called(self, features: Mapping[str, int]) -> set[str]:
        return {key.removeprefix("call|") for key in features if key.startswith("call|")}

    def _find_tool_first(self, _: str) -> Iterator[Edit]:
        come = self._called(self.new) - self._called(self.old)
        for part in self.come:
            if part[0] == "flow" and part[1] in come and part[2] in self._tools():
                yield Edit(kind="tool_first", tool=part[2], name=part[3], to=part[1])

    def _find_tool_instead(self, _: str) -> Iterator[Edit]:
        gone, come = self._called(self.old) - self._called(self.new), self._called(self.new) - self._called(self.old)
        wanted = self.cause.tool
        if len(come) == 1 and (wanted in gone or (not wanted and len(gone) <= 1)):
            yield Edit(kind="tool_instead", tool=wanted or next(iter(gone), ""), to=next(iter(come)))

    def _find_tool_imported(self, _: str) -> Iterator[Edit]:
        for tool in sorted(self._called(self.new) - self._called(self.old)):
            if tool.rpartition(".")[2] == self.cause.name:
                yield Edit(kind="tool_imported", tool=tool, name=self.cause.name, to=tool)

    def _find_uncalled(self, _: str) -> Iterator[Edit]:
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

    def _find_field_renamed(self, _: str) -> Iterator[Edit]:
        old, new = self._read(self.old), self._read(self.new)
        gone, come = old - new, new - old
        if self.cause.family == "field":
            gone &= {self.cause.name}
        if len(gone) == 1 and len(come) == 1:
            yield Edit(kind="field_renamed", tool=self.cause.tool, name=gone.pop(), to=come.pop())

    def _find_unwrapped(self, _: str) -> Iterator[Edit]:
        return self._find_field_added("", kind="unwrapped")

    def _find_parsed(self, _: str) -> Iterator[Edit]:
        return self._find_used("json.loads,ast.literal_eval")

    def _find_field_added(self, _: str, kind: str = "field_added") -> Iterator[Edit]:
        old, new = self._read(self.old), self._read(self.new)
        come = new - old - {part[2] for part in self.gone if part[0] == "attr"}
        if len(come) == 1 and not old - new:
            yield Edit(kind=kind, tool=self.cause.tool, to=come.pop())

    def _find_field_optional(self, _: str) -> Iterator[Edit]:
        gone = {part[2] for part in self._field_parts(self.gone) if part[3] == "sub"}
        come = {part[2] for part in self._field_parts(self.come) if part[3] == "get"}
        for name in sorted(gone & come):
            if self.cause.family != "field" or name == self.cause.name:
                yield Edit(kind="field_optional", tool=self.cause.tool, name=name)

    # Python

    def _find_used(self, allowed: str) -> Iterator[Edit]:
        yield from (Edit(kind="used", to=name) for name in self._changed("fn", allowed, FUNCTIONS, self.come))

    def _find_unused(self, allowed: str) -> Iterator[Edit]:
        known = FUNCTIONS | {"print"}
        yield from (Edit(kind="unused", name=name) for name in self._changed("fn", allowed, known, self.gone))

    def _find_method(self, allowed: str) -> Iterator[Edit]:
        yield from (Edit(kind="method", to=name) for name in self._changed("method", allowed, METHODS, self.come))

    def _find_option(self, allowed: str) -> Iterator[Edit]:
        wanted = _wanted(allowed, FUNCTIONS)
        for part in self.come:
            if part[0] == "option" and part[1] in wanted:
                yield Edit(kind="option", name=part[1], to=part[2])

    def _changed(self, mark: str, allowed: str, known: frozenset[str], parts: list[list[str]]) -> Iterator[str]:
        """The functions or methods among `parts` that the new code uses more often than the old, or less often."""
        wanted = _wanted(allowed, known)
        for name in dict.fromkeys(part[1] for part in parts if part[0] == mark and part[1] in wanted):
            change = self._total(mark, name, self.new) - self._total(mark, name, self.old)
            if (change > 0 and parts is self.come) or (change < 0 and parts is self.gone):
                yield name

    @staticmethod
    def _total(mark: str, name: str, features: Mapping[str, int]) -> int:
        start = f"{mark}|{name}|"
        return sum(count for key, count in features.items() if key.startswith(start))

    def _find_renamed(self, _: str) -> Iterator[Edit]:
        """A name replaced by a similar one, or by the only new one if that was a variable before."""
        gone = sorted({part[1] for part in self.gone if part[0] == "load"})
        come = sorted({part[1] for part in self.come if part[0] == "load"})
        name = self.cause.name or (gone[0] if len(gone) == 1 else "")
        if name not in gone:
            return
        near = difflib.get_close_matches(name, come, n=1, cutoff=_ALIKE)
        bound = [each for each in come if f"bind|{each}" in self.old]
        for to in near or (bound if len(come) == 1 else []):
            yield Edit(kind="renamed", name=name, to=to)

    def _find_imported(self, _: str) -> Iterator[Edit]:
        gone = sorted({part[1] for part in self.gone if part[0] == "import"})
        for part in self.come:
            if part[0] == "import" and (self.cause.family != "name" or _is_meant(self.cause.name, part[1:])):
                yield Edit(kind="imported", name=gone[0] if gone else "", to=".".join(filter(None, part[1:])))

    def _find_attributed(self, _: str) -> Iterator[Edit]:
        gone, come = [[part[2] for part in parts if part[0] == "attr"] for parts in (self.gone, self.come)]
        if len(come) == 1 and self.cause.name in gone:
            yield Edit(kind="attributed", name=self.cause.name, to=come[0])

    def _find_caught(self, _: str) -> Iterator[Edit]:
        for part in self.come:
            if part[0] == "except":
                yield Edit(kind="caught", to=part[1])
                return


def _wanted(allowed: str, known: frozenset[str]) -> frozenset[str]:
    return known if allowed == "*" else known.intersection(allowed.split(","))


def _is_meant(name: str, imported: list[str]) -> bool:
    """True if an import binds a name; a short name may be the usual alias of a module, such as `np`."""
    parts = ".".join(imported).split(".")
    return name in parts or (len(name) <= _SHORT and parts[0].startswith(name[:1]))


# An edit in words

Shapes = Callable[[ToolSpec], dict[str, Any] | None]
"""The learned JSON schema of a tool's answers, if any."""

_PACKAGES = WORDS["packages"]
_OPTIONS = WORDS["options"]
_CAUGHT = WORDS["exceptions"]
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
_PLAIN = {
    "subscripted": "Read it with [...], not as an attribute.",
    "indexed": "Take one item first, such as [0].",
    "looped": "Loop over the items.",
    "sliced": "Take a part of it: [:n].",
    "guarded": "Check for None or nothing before using it.",
    "checked": "Check with `in` that it is there.",
    "awaited": "Write `await` before the call.",
    "fstring": "Use an f-string.",
    "global": "Declare the name `global`, or pass it in.",
    "defaulted": "Give a default: next(…, None).",
    "whole_division": "Divide with //.",
    "zone": "Give both times a time zone: timezone.utc.",
    "relative": "Use a path relative to the working directory.",
    "opened": "Open the file in another mode.",
    "called": "Call it with ().",
    "waited": "Wait between the calls: `time.sleep(…)`.",
    "gathered": "Make the calls at the same time: `await asyncio.gather(*[… for …])`.",
    "ungathered": "Make the calls one after the other.",
    "again": "Run the same code again: it was not the code.",
}


class Wording:
    """Makes sentences for one viewer and one failure."""

    def __init__(self, view: Snapshot, cause: Cause | None, shapes: Shapes | None = None) -> None:
        self._view = view
        self._cause = cause or Cause()
        self._names = frozenset(self._cause.names)
        self._shapes = shapes
        self._is_vouched = True
        self._parameters: dict[str, Collection[str]] = {}
        self._fields: dict[str, Collection[str]] = {}

    def spec(self, tool: str) -> ToolSpec | None:
        """The tool `module.function` in this viewer's catalog."""
        return self._view.find(tool) if tool else None

    def sentence(self, edit: Edit, *, is_vouched: bool = True) -> str | None:
        """The sentence for an edit, or None if something in it must not be shown to this viewer.

        It may name another server's tool only if `is_vouched`: the viewer itself or two other principals used it.
        """
        self._is_vouched = is_vouched
        if edit.kind in _PLAIN:
            return _PLAIN[edit.kind]
        spec = self.spec(edit.tool)
        if (edit.tool and spec is None) or self._is_beside(edit):
            return None
        return self._of_tool(edit, spec) if spec is not None else self._of_python(edit)

    def _is_beside(self, edit: Edit) -> bool:
        """True if the edit concerns another name than this failure, or the code already does it."""
        name, done = self._cause.name, self._cause.features
        match edit.kind:
            case "field_renamed" | "param_renamed" | "renamed" | "attributed":
                return bool(name) and edit.name != name
            case "unwrapped" | "field_added":
                return any(f"field|{edit.tool}|{edit.to}|{how}" in done for how in ("sub", "get"))
            case "param_added":
                return any(
                    key.startswith((f"arg|{edit.tool}|{edit.to}|", f"sent|{edit.tool}|{edit.to}|")) for key in done
                )
            case "tool_first":
                return f"call|{edit.to}" in done
        return False

    def _of_tool(self, edit: Edit, spec: ToolSpec) -> str | None:
        match edit.kind:
            case "param_renamed" if self._takes(spec, edit.to) and edit.name in self._names:
                return f"Pass {edit.to}= to {spec.function}, not {edit.name}=."
            case "param_added" if self._takes(spec, edit.to):
                return f"Pass {edit.to}= to {spec.function} too."
            case "param_dropped" if edit.name in self._names:
                return f"Leave {edit.name}= out of the call of {spec.function}."
            case "value_kind" if self._takes(spec, edit.name) and edit.to in _KINDS:
                return f"Pass {edit.name}= of {spec.function} as {_KINDS[edit.to]}."
            case "smaller" | "larger" if self._takes(spec, edit.name):
                return f"Pass {'less' if edit.kind == 'smaller' else 'more'} as {edit.name}= of {spec.function}."
            case "tool_first" if self._takes(spec, edit.name):
                other = self._other(edit.to, spec)
                return other and f"Call {other} first: what it answers gives {edit.name}= of {spec.function}."
            case "tool_instead":
                other = self._other(edit.to, spec)
                return other and f"Use {other} instead of {spec.function}."
            case "tool_imported":
                return f"Import it first: `from servers.{spec.module} import {spec.function}`."
            case "uncalled":
                return f"Call {spec.function} once instead of in a loop."
            case "field_renamed" if self._has(spec, edit.to):
                return f"{spec.function} answers with {edit.to!r}; read that."
            case "unwrapped" if self._has(spec, edit.to):
                return f"In what {spec.function} answers, it is inside [{edit.to!r}]."
            case "field_added" if self._has(spec, edit.to):
                return f"Use the field {edit.to!r} of what {spec.function} answers."
            case "field_optional" if self._has(spec, edit.name) or edit.name in self._names:
                return f"{edit.name!r} is not in every answer of {spec.function}: read it with .get({edit.name!r})."
        return None if edit.to in (edit.tool, "") else self._of_python(edit)

    def _of_python(self, edit: Edit) -> str | None:
        match edit.kind:
            case "used" if edit.to in FUNCTIONS:
                return f"Use `{edit.to}(…)`."
            case "unused" if edit.name in FUNCTIONS or edit.name == "print":
                return f"Leave out `{edit.name}`."
            case "method" if edit.to in METHODS:
                return f"Use `.{edit.to}(…)`."
            case "option" if edit.name in FUNCTIONS and edit.to in _OPTIONS:
                return f"Pass {edit.to}= to `{edit.name}`."
            case "caught" if edit.to in _CAUGHT:
                return f"Catch {edit.to} around it and go on without."
            case "imported":
                return self._import(edit.to)
            case "renamed" | "attributed" if edit.to in self._names or edit.to in METHODS:
                return f"Write {edit.to} instead of {edit.name}." if edit.name in self._names else None
            case "field_renamed" | "unwrapped" if self._is_own_field(edit.to):
                return f"Read {edit.to!r}."
            case "field_optional" if edit.name in self._names:
                return f"{edit.name!r} is not always there: read it with .get({edit.name!r})."
            case "tool_instead" if self._is_vouched:
                other = self.spec(edit.to)
                if other is None or other.annotations.destructive is True or not is_name(other.function):
                    return None
                return f"Use `from servers.{other.module} import {other.function}`."
        return None

    def _import(self, dotted: str) -> str | None:
        module, _, name = dotted.rpartition(".")
        known = sys.stdlib_module_names | _PACKAGES
        if dotted in known:
            return f"Use `import {dotted}`."
        root, *inner = module.split(".")
        if root not in known or not self._names.issuperset(inner):  # `os.anything` may hold any words
            return f"Use `import {root}`." if root in known else None
        return f"Use `from {module} import {name}`." if name in self._names else f"Use `import {module}`."

    def _takes(self, spec: ToolSpec, name: str) -> bool:
        if spec.full_name not in self._parameters:
            self._parameters[spec.full_name] = parameter_names(spec)
        return is_name(name) and name in self._parameters[spec.full_name]

    def _other(self, tool: str, spec: ToolSpec) -> str | None:
        """Another tool of the same server, or a read-only one of any server; None for a destructive one."""
        other = self.spec(tool)
        if other is None or other.annotations.destructive is True or not is_name(other.function):
            return None
        if other.upstream != spec.upstream and not (self._is_vouched and other.annotations.read_only is True):
            return None
        return other.function if other.upstream == spec.upstream else f"servers.{other.module}.{other.function}"

    def _has(self, spec: ToolSpec, field: str) -> bool:
        return is_name(field) and is_field(field) and (self._is_own_field(field) or field in self.fields(spec))

    def _is_own_field(self, field: str) -> bool:
        return field in self._names or any(field in names for names in self._cause.fields.values())

    def fields(self, spec: ToolSpec) -> Collection[str]:
        """The fields of a tool's answers: those of this run, declared ones and learned ones."""
        found = self._fields.get(spec.full_name)
        if found is None:
            own = self._cause.fields.get(f"{spec.module}.{spec.function}", ())
            learned = self._shapes(spec) if self._shapes is not None else None
            declared = answered_fields(unwrapped(spec.output_schema), spec.output_schema or {})
            found = dict.fromkeys((*own, *declared, *answered_fields(learned, learned or {})))
            self._fields[spec.full_name] = found
        return found


def answered_fields(schema: object, root: dict[str, Any]) -> list[str]:
    """The names of fields in a schema that may be shown, those nearest to the top first."""
    return [name for name in answered_names(schema, root) if is_name(name) and is_field(name)]


def answered_names(schema: object, root: dict[str, Any]) -> list[str]:
    """The keys in a schema, those nearest to the top first, each once; at most `_FIELDS`."""
    return list(dict.fromkeys(itertools.islice(_names(schema, root), _FIELDS)))


def _names(schema: object, root: dict[str, Any]) -> Iterator[str]:
    waiting: list[object] = [schema]
    for place in range(_FIELDS):
        if place >= len(waiting):
            return
        whole = resolve(waiting[place], root)
        properties = whole.get("properties")
        if isinstance(properties, dict):
            yield from (key for key in properties if isinstance(key, str))
            waiting += list(properties.values())[:_FIELDS]
        waiting += [whole[key] for key in ("items", "additionalProperties") if isinstance(whole.get(key), dict)]
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(whole.get(key), list):
                waiting += whole[key][:8]
