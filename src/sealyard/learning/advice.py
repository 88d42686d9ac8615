"""Advice on a failure that nobody has met before: what the catalog, the code and the cause tell together.

It says only what the failure itself does not: the guest sees values but not the catalog, and the check of arguments
sees the schema but not the code. Every name in it is one of the viewer's own catalog, answers or code.
"""

import difflib
import heapq
import itertools
import re
from collections.abc import Collection, Iterator

from sealyard.catalog import Snapshot
from sealyard.catalog.parameters import Parameter, parameters
from sealyard.catalog.shapes import resolve, unwrapped
from sealyard.learning.causes import Cause
from sealyard.learning.fixes import Shapes, Wording, answered_names
from sealyard.learning.sketch import is_name
from sealyard.learning.telling import is_field
from sealyard.values import ToolSpec

__all__ = ("advice",)

_TOLD = 8
_SOURCES = 20
_NAMES = 400
_COMPARED = 16
_WRONG = 4
_SIZES = re.compile(r"(?:^|_)(?:limit|max|count|top|first|size|per_page|page_size|max_results|n|rows)(?:$|_)")
_FILTERS = re.compile(r"(?:^|_)(?:since|until|from|to|after|before|start|end|query|filter|category|status|type)(?:$|_)")
_FORMATS = {
    "date": "a date such as 2024-05-31",
    "date-time": "a date and time such as 2024-05-31T10:00:00Z",
    "time": "a time such as 10:00:00",
    "email": "an e-mail address",
    "uri": "a whole URL",
    "uuid": "a UUID",
}

_AT_HAND = frozenset("field attribute list_not_dict dict_not_list not_iterable text_not_data".split())
"""Where the guest, which has the value at hand, has said all there is to say if it said anything."""


def advice(cause: Cause, code: str, view: Snapshot, shapes: Shapes | None, *, said: str = "") -> str | None:
    """One or two sentences on what to change, or None if there is nothing to add to what is `said` already."""
    if said and cause.family in _AT_HAND:
        return None
    wording = Wording(view, cause, shapes)
    spec = wording.spec(cause.tool)
    told = _of_cause(cause, code, view, wording, spec)
    return None if told is None or told in said else told


def _of_cause(cause: Cause, code: str, view: Snapshot, wording: Wording, spec: ToolSpec | None) -> str | None:
    match cause.family:
        case "field" if spec is not None:
            return _unknown_field(cause, wording.fields(spec), spec)
        case "list_not_dict" | "dict_not_list" | "not_iterable" | "text_not_data" if spec is not None:
            return _shape(cause, spec)
        case "name" | "import_name":
            return _tool_for(cause.name, view)
        case "wall_time" | "memory" | "output" | "result" | "calls":
            return _less(cause, code, spec)
        case "tool" if spec is not None:
            return _of_tool(cause, view, spec)
        case "keyword" | "missing" | "positional" if spec is not None:
            return _parameters(cause, spec)
    return None


def _unknown_field(cause: Cause, known: Collection[str], spec: ToolSpec) -> str | None:
    name = cause.name
    if name in known:
        if cause.exception != "KeyError":
            return None
        return f"{name!r} is not in every answer of {spec.function}: read it with .get({name!r})."
    if not known:
        return None
    near = _nearest(name, known)
    listed = f"{spec.function} answers with {_listed(_sorted(known))}."
    return f"The nearest field is {near!r}: {listed}" if near else listed


def _shape(cause: Cause, spec: ToolSpec) -> str | None:
    """Whether a tool answers with a list, or with an object that holds one: as it did, or as it says."""
    form = cause.forms.get(cause.tool) or _declared(spec)
    if f"field|{cause.tool}|{form}|sub" in cause.features:
        return None  # it goes into that already
    match form:
        case "list":
            return f"{spec.function} answers with a list: loop over it, or take one with [0]."
        case "" | "dict":
            return None
        case "text":
            return f"{spec.function} answers with text."
    return f"{spec.function} answers with an object; its list is in [{form!r}]."


def _declared(spec: ToolSpec) -> str:
    root = spec.output_schema or {}
    whole = resolve(unwrapped(spec.output_schema), root)
    if whole.get("type") == "array":
        return "list"
    inside = whole.get("properties")
    parts = inside.items() if isinstance(inside, dict) else ()
    lists = [key for key, part in parts if resolve(part, root).get("type") == "array"]
    return lists[0] if len(lists) == 1 and is_name(lists[0]) and is_field(lists[0]) else ""


def _tool_for(name: str, view: Snapshot) -> str | None:
    """The tool whose function was meant."""
    for full_name in view.nearest(name, 1) if name else ():
        spec = view.tools[full_name]
        if is_name(spec.function) and difflib.SequenceMatcher(None, name, spec.function).ratio() >= 0.75:
            return f"If you mean the tool: `from servers.{spec.module} import {spec.function}`."
    return None


def _parameters(cause: Cause, spec: ToolSpec) -> str | None:
    """The parameters that were meant by those that the tool does not have, and those that it needs."""
    known, given = parameters(spec), _given(cause)
    free = dict.fromkeys(each.name for each in known if each.name not in given and is_name(each.name))
    wrong = sorted(given - {each.name for each in known})[:_WRONG]
    told = [f"Did you mean {near}=, not {name}=?" for name in wrong if (near := _nearest(name, free)) is not None]
    needed = [each.name for each in known if each.required and each.name in free]
    if not told and cause.family == "missing" and needed:
        told = [f"It also needs {_listed(needed)}."]
    return " ".join(told[:2]) or None


def _less(cause: Cause, code: str, spec: ToolSpec | None) -> str | None:
    """How to do less, or more at once."""
    is_looped = bool(cause.tool) and f"looped|{cause.tool}" in cause.features
    if cause.family == "wall_time" and is_looped and spec is not None and "asyncio.gather" not in code:
        name = spec.function
        return (
            f"The calls of {name} wait for each other: `await asyncio.gather(*[{name}(…) for …])` makes them at once."
        )
    if spec is None:
        return None
    given = _given(cause)
    narrow = [each.name for each in parameters(spec) if _narrows(each) and each.name not in given]
    return f"Ask {spec.function} for less: it takes {_listed(narrow, '=')}." if narrow else None


def _narrows(parameter: Parameter) -> bool:
    name = parameter.name
    return is_name(name) and not parameter.required and bool(_SIZES.search(name) or _FILTERS.search(name))


def _of_tool(cause: Cause, view: Snapshot, spec: ToolSpec) -> str | None:
    group, known = cause.template.partition(":")[0], parameters(spec)
    given = _given(cause)
    match group:
        case "rate" | "busy":
            return "Wait a little between calls (`time.sleep`), make fewer of them at once, and try again."
        case "absent":
            return _source(given, view, spec)
        case "format":
            told = [
                f"{each.name}= takes {form}" for each in known if each.name in given and (form := _form(each, spec))
            ]
            return f"{'; '.join(told[:_TOLD])}." if told else None
        case "size":
            sizes = [each.name for each in known if each.name in given and _SIZES.search(each.name)]
            return f"Pass less as {_listed(sizes, '=')}." if sizes else None
        case "required":
            more = [each.name for each in known if each.name not in given and is_name(each.name)]
            return f"It also takes {_listed(more, '=')}." if more else None
    return None


def _given(cause: Cause) -> frozenset[str]:
    """The parameters that the failed call passed."""
    starts = (f"sent|{cause.tool}|", f"arg|{cause.tool}|")
    return frozenset(key.split("|")[2] for key in cause.features if key.startswith(starts))


def _form(parameter: Parameter, spec: ToolSpec) -> str | None:
    for schema in (parameter.schema, *_branches(parameter.schema)):
        form = resolve(schema, spec.input_schema).get("format")
        if isinstance(form, str) and form in _FORMATS:
            return _FORMATS[form]
    return None


def _branches(schema: object) -> Iterator[object]:
    if isinstance(schema, dict):
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                yield from schema[key][:8]


def _source(given: frozenset[str], view: Snapshot, spec: ToolSpec) -> str | None:
    """Where the values of a parameter come from: another tool of the server that answers with a field of its name."""
    for other in view.by_upstream.get(spec.upstream, ())[:_SOURCES]:
        if other is spec or other.annotations.destructive is True or not is_name(other.function):
            continue
        needed = {each.name for each in parameters(other) if each.required}
        answered = answered_names(unwrapped(other.output_schema), other.output_schema or {})
        for name in sorted(given.intersection(answered) - needed):
            if is_name(name) and is_field(name):
                return f"Values for {name}= are in what {other.function} answers."
    return None


def _nearest(name: str, known: Collection[str]) -> str | None:
    wanted = _squeezed(name)
    pairs = set(itertools.pairwise(wanted))
    squeezed = {_squeezed(each): each for each in itertools.islice(known, _NAMES)}
    # Comparing two names takes its time: only those are compared that have most pairs of letters in common.
    alike = heapq.nlargest(_COMPARED, squeezed, key=lambda each: len(pairs.intersection(itertools.pairwise(each))))
    close = difflib.get_close_matches(wanted, alike, n=1)
    if close:
        return squeezed[close[0]]
    inside = [each for each in known if name and name in each.split("_")]
    return inside[0] if len(inside) == 1 else None


def _sorted(names: Collection[str]) -> list[str]:
    """The first names in the order of letters, so that theirs says nothing; then the others."""
    found = list(names)
    return sorted(found[:_TOLD]) + found[_TOLD:]


def _squeezed(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _listed(names: list[str], end: str = "") -> str:
    more = ", …" if len(names) > _TOLD else ""
    return ", ".join(f"{name}{end}" for name in names[:_TOLD]) + more
