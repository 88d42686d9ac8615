"""Known operations on the definitions of tools: what upstreams do to them from one release to the next."""

import random
from collections.abc import Callable
from typing import Any

from benchmarks.corpus.answers import remove_field, rename_field, wrap_answer
from benchmarks.corpus.changes import Mutation, Truth, changed, edited, properties_of
from benchmarks.corpus.names import (
    longer,
    other_case,
    python_name,
    reworded,
    shuffled,
    synonym,
    unlike,
    words_of,
)
from benchmarks.corpus.pitfalls import PITFALLS
from benchmarks.corpus.values import Unmakeable, fits, make_many
from sealyard.values.naming import full_name, function_name, identifier, tool_part, upstream_part
from sealyard.values.tools import ToolSpec

Operation = Callable[[ToolSpec, random.Random], Mutation | None]

# None of them means what a parameter of a real tool means.
_UNRELATED = (
    ("hue", "Shade in which margins are painted"),
    ("orchestra", "Ensemble that plays during breaks"),
    ("tidewater", "Sea level measured beneath the pier"),
    ("velvet", "Fabric chosen for stage curtains"),
)
_EXTRA: dict[str, dict[str, Any]] = {
    "default": {"type": "string", "description": "How strictly to look.", "default": "normal"},
    "const": {"description": "Which edition of the protocol is spoken.", "const": "v2"},
    "single": {"type": "string", "description": "How the answer is written.", "enum": ["compact"]},
    "nothing": {"type": "string", "description": "Who takes responsibility for this."},
}
_VERBS = {"get": "fetch", "list": "find_all", "create": "add", "search": "look_up", "read": "load", "delete": "drop"}


def _text(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    properties = {
        key: {**schema, "description": f"{schema.get('description', key)} See the manual."}
        for key, schema in properties_of(spec).items()
    }
    after = changed(spec, description=f"{spec.description} Now with better documentation.", title="Better")
    if properties:
        after = edited(after, properties, _required(spec))
    return Mutation(operation="text changed", before=spec, after=after, is_silent=True)


def _widened(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    for key, schema in shuffled(properties_of(spec), chance):
        wider = None
        if isinstance(schema.get("enum"), list) and schema.get("type") == "string":
            wider = {**schema, "enum": [*schema["enum"], "something new"]}
        elif isinstance(schema.get("type"), str) and "enum" not in schema and "const" not in schema:
            wider = {**schema, "type": [schema["type"], "null"]}
        if wider:
            after = edited(spec, {**properties_of(spec), key: wider}, _required(spec))
            return Mutation(operation="parameter widened", before=spec, after=after, is_silent=True, given={key: ()})
    return None


def _optional_added(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    if not properties_of(spec):
        return None
    name, description = chance.choice(_UNRELATED)
    extra = {name: {"type": "string", "description": description}}
    after = edited(spec, {**extra, **properties_of(spec)}, _required(spec))  # before all others that are optional
    return Mutation(
        operation="optional parameter added", before=spec, after=after, touched=frozenset({name}), is_moving=True
    )


def _required_to_optional(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    required = _required(spec)
    if not required:
        return None
    key = chance.choice(required)
    after = edited(spec, properties_of(spec), [each for each in required if each != key])
    return Mutation(
        operation="required made optional", before=spec, after=after, touched=frozenset({key}), is_moving=True
    )


def _renamed(spec: ToolSpec, chance: random.Random, operation: str, rename: Callable[..., Any]) -> Mutation | None:
    properties = properties_of(spec)
    for key, schema in shuffled(properties, chance):
        found = rename(key, schema, chance, properties)
        others = {python_name(each) for each in properties if each != key}
        if found is None or found[0] in properties or python_name(found[0]) in others:
            continue
        new, inner, is_mechanical = found
        return _as_renamed(spec, operation, key, new, inner, is_mechanical=is_mechanical)
    return None


def _as_renamed(
    spec: ToolSpec, operation: str, key: str, new: str, inner: dict[str, Any], *, is_mechanical: bool
) -> Mutation:
    after = {new if each == key else each: inner if each == key else schema for each, schema in _items(spec)}
    return Mutation(
        operation=operation,
        before=spec,
        after=edited(spec, after, [new if each == key else each for each in _required(spec)]),
        truths=(Truth(renamed={key: new}),),
        is_mechanical=is_mechanical,
        given={key: ()},
        touched=frozenset({key, new}),
    )


def _swapped(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    optional = [key for key in properties_of(spec) if key not in _required(spec)]
    if not optional:
        return None
    key = chance.choice(optional)
    name, inner = _stranger(properties_of(spec)[key], chance)
    after = {name if each == key else each: inner if each == key else schema for each, schema in _items(spec)}
    return Mutation(
        operation="optional swapped for another",
        before=spec,
        after=edited(spec, after, _required(spec)),
        truths=(Truth(removed=(key,)),),
        is_mechanical=False,  # gone it is, but who refuses to drop what may have been replaced is right too
        given={key: ()},
        touched=frozenset({key, name}),
    )


def _required_swapped(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    required = _required(spec)
    if not required:
        return None
    key = chance.choice(required)
    name, inner = _stranger(properties_of(spec)[key], chance)
    inner = {keyword: value for keyword, value in inner.items() if keyword not in ("default", "enum", "const")}
    after = {name if each == key else each: inner if each == key else schema for each, schema in _items(spec)}
    return Mutation(
        operation="required swapped for another",
        before=spec,
        after=edited(spec, after, [name if each == key else each for each in required]),
        truths=(Truth(removed=(key,)),),
        is_mechanical=False,
        given={key: ()},
        touched=frozenset({key, name}),
    )


def _removed(spec: ToolSpec, chance: random.Random, *, required: bool) -> Mutation | None:
    keys = [key for key in properties_of(spec) if (key in _required(spec)) is required]
    if not keys:
        return None
    key = chance.choice(keys)
    after = {each: schema for each, schema in _items(spec) if each != key}
    return Mutation(
        operation=f"{'required' if required else 'optional'} parameter removed",
        before=spec,
        after=edited(spec, after, [each for each in _required(spec) if each != key]),
        truths=(Truth(removed=(key,)),),
        given={key: ()},
        touched=frozenset({key}),
    )


def _required_added(spec: ToolSpec, chance: random.Random, kind: str) -> Mutation | None:
    name, schema = chance.choice(["strictness", "edition", "style"]), _EXTRA[kind]
    if name in properties_of(spec) or not properties_of(spec):
        return None
    values = {"default": "normal", "const": "v2", "single": "compact"}
    properties = {name: schema, **properties_of(spec)} if chance.random() < 0.5 else {**_dict(spec), name: schema}
    return Mutation(
        operation=f"required added with {kind}",
        before=spec,
        after=edited(spec, properties, [*_required(spec), name]),
        truths=(Truth(added={name: values[kind]} if kind in values else {}),),
        is_mechanical=kind in values,
        is_moving=True,
        touched=frozenset({name}),
    )


def _optional_required(spec: ToolSpec, chance: random.Random, kind: str) -> Mutation | None:
    for key, schema in shuffled(properties_of(spec), chance):
        has_default = "default" in schema and fits(schema["default"], schema, spec.input_schema)
        if key in _required(spec) or (kind != "passed" and has_default != (kind == "default")):
            continue
        return Mutation(
            operation=f"optional made required, {kind}",
            before=spec,
            after=edited(spec, properties_of(spec), [*_required(spec), key]),
            truths=(Truth(added={key: schema["default"]} if kind == "default" else {}),),
            is_mechanical=kind != "missing",
            given={key: ()} if kind == "passed" else {},
            left_out=frozenset() if kind == "passed" else frozenset({key}),
            is_moving=True,
            touched=frozenset({key}),
        )
    return None


_RETYPED: dict[tuple[str, str], tuple[bool, tuple[Any, ...]]] = {
    ("integer", "string"): (True, ()),
    ("string", "integer"): (True, ("7", "12", "405")),
    ("number", "string"): (False, (3, 12)),  # 12 or 12.0?
    ("number", "integer"): (False, (3, 12)),
    ("boolean", "string"): (False, ()),
    ("string", "array"): (False, ()),
    ("integer", "number"): (True, ()),
}


def _retyped(spec: ToolSpec, chance: random.Random, before: str, to: str, *, hit: bool = False) -> Mutation | None:
    is_mechanical, values = (False, ("seven", "7 or so")) if hit else _RETYPED[before, to]
    for key, schema in shuffled(properties_of(spec), chance):
        others = schema.keys() - {"type", "description", "title", "default", "minimum", "maximum"}
        if schema.get("type") != before or others:
            continue
        kept = {word: schema[word] for word in ("description", "title") if word in schema}
        inner = {**kept, "type": to} | ({"items": {"type": "string"}} if to == "array" else {})
        return Mutation(
            operation=f"{before} made {to}{', hit' if hit else ''}",
            before=spec,
            after=edited(spec, {**_dict(spec), key: inner}, _required(spec)),
            truths=(Truth(retyped={} if to == "number" else {key: to}),),
            is_mechanical=is_mechanical,
            is_silent=to == "number",
            given={key: values},
            touched=frozenset({key}),
        )
    return None


def _narrowed(spec: ToolSpec, chance: random.Random, *, hit: bool) -> Mutation | None:
    for key, schema in shuffled(properties_of(spec), chance):
        values = _some(schema, spec, chance)
        choices = schema.get("enum")
        inner: dict[str, Any]
        if isinstance(choices, list) and len(choices) > 1 and all(isinstance(each, str) for each in choices):
            gone = chance.choice(choices)
            inner = {**schema, "enum": [each for each in choices if each != gone]}
            values = [gone] if hit else inner["enum"]
        elif schema.get("type") in ("integer", "number") and values:
            value = values[0]
            inner, values = {**schema, "maximum": value - 1 if hit else value + 1}, [value]
        elif schema.get("type") == "string" and "enum" not in schema and values:
            value = max(values, key=len)
            inner, values = {**schema, "maxLength": len(value) - (1 if hit else -1)}, [value]
        else:
            continue
        inner.pop("default", None)
        return Mutation(
            operation=f"narrowed, {'hit' if hit else 'not hit'}",
            before=spec,
            after=edited(spec, {**_dict(spec), key: inner}, _required(spec)),
            is_mechanical=not hit,
            given={key: tuple(values)},
            literal=frozenset({key}),
            touched=frozenset({key}),
        )
    return None


def _tool_renamed(spec: ToolSpec, chance: random.Random, kind: str) -> Mutation | None:
    upstream, name = spec.upstream, spec.name
    if kind == "moved":
        upstream = f"{upstream}_next"
    elif kind == "to a taken name":
        name = chance.choice(["answer", "out", "item"])  # names that the code has for other things
    else:
        first, *rest = words_of(name)
        name = "_".join([_VERBS.get(first, f"do_{first}"), *rest])
    prefix = upstream_part(upstream)
    after = changed(
        spec,
        upstream=upstream,
        name=name,
        full_name=full_name(prefix, tool_part(name, upstream=prefix)),
        module=identifier(upstream, fallback="server"),
        function=function_name(name),
    )
    is_mechanical = kind != "to a taken name"
    return Mutation(operation=f"tool renamed, {kind}", before=spec, after=after, is_mechanical=is_mechanical)


def _tool_removed(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    return Mutation(operation="tool removed", before=spec, after=None, is_mechanical=False)


def _several(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """Two or three changes at once that have nothing to do with each other."""
    found: list[Mutation] = []
    names = chance.sample(_SIMPLE, len(_SIMPLE))
    wanted = chance.choice([2, 2, 3])
    current = spec
    for name in names:
        more = OPERATIONS[name](current, chance)
        touched = frozenset().union(*(each.touched for each in found))
        if more is None or not more.is_mechanical or more.after is None or more.touched & touched:
            continue
        if any(key not in properties_of(spec) for key in more.given):
            continue
        found.append(more)
        current = more.after
        if len(found) == wanted:
            break
    if len(found) < 2:
        return None
    truths = tuple(truth for each in found for truth in each.truths)
    renamed = {name for truth in truths for name in truth.renamed.values()}
    new = properties_of(current).keys() - properties_of(spec).keys() - renamed
    return Mutation(
        operation="several at once",
        before=found[0].before,
        after=current,
        truths=truths,
        is_mechanical=not new or not any(truth.removed for truth in truths),  # what is new may stand for what is gone
        given={key: values for each in found for key, values in each.given.items()},
        touched=frozenset().union(*(each.touched for each in found)),
    )


def _required(spec: ToolSpec) -> list[str]:
    return list(spec.input_schema.get("required") or ()) if properties_of(spec) else []


def _dict(spec: ToolSpec) -> dict[str, Any]:
    return dict(properties_of(spec))


def _items(spec: ToolSpec) -> Any:
    return properties_of(spec).items()


def _stranger(schema: dict[str, Any], chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A parameter of the same type that has nothing to do with the given one."""
    name, description = chance.choice(_UNRELATED)
    kept = {key: value for key, value in schema.items() if key not in ("title", "default", "enum")}
    return name, {**kept, "description": description}


def _some(schema: dict[str, Any], spec: ToolSpec, chance: random.Random) -> list[Any]:
    try:
        return make_many(schema, spec.input_schema, chance, 2)
    except Unmakeable:
        return []


OPERATIONS: dict[str, Operation] = {
    "text": _text,
    "widened": _widened,
    "optional added": _optional_added,
    "required to optional": _required_to_optional,
    "renamed case": lambda spec, chance: _renamed(spec, chance, "parameter renamed, case", other_case),
    "renamed synonym": lambda spec, chance: _renamed(spec, chance, "parameter renamed, synonym", synonym),
    "renamed reworded": lambda spec, chance: _renamed(spec, chance, "parameter renamed, reworded", reworded),
    "renamed longer": lambda spec, chance: _renamed(spec, chance, "parameter renamed, longer", longer),
    "renamed unlike": lambda spec, chance: _renamed(spec, chance, "parameter renamed, unlike", unlike),
    "swapped": _swapped,
    "required swapped": _required_swapped,
    "optional removed": lambda spec, chance: _removed(spec, chance, required=False),
    "required removed": lambda spec, chance: _removed(spec, chance, required=True),
    "added default": lambda spec, chance: _required_added(spec, chance, "default"),
    "added const": lambda spec, chance: _required_added(spec, chance, "const"),
    "added single": lambda spec, chance: _required_added(spec, chance, "single"),
    "added nothing": lambda spec, chance: _required_added(spec, chance, "nothing"),
    "required default": lambda spec, chance: _optional_required(spec, chance, "default"),
    "required passed": lambda spec, chance: _optional_required(spec, chance, "passed"),
    "required missing": lambda spec, chance: _optional_required(spec, chance, "missing"),
    "integer to string": lambda spec, chance: _retyped(spec, chance, "integer", "string"),
    "string to integer": lambda spec, chance: _retyped(spec, chance, "string", "integer"),
    "text to integer": lambda spec, chance: _retyped(spec, chance, "string", "integer", hit=True),
    "number to string": lambda spec, chance: _retyped(spec, chance, "number", "string"),
    "number to integer": lambda spec, chance: _retyped(spec, chance, "number", "integer"),
    "boolean to string": lambda spec, chance: _retyped(spec, chance, "boolean", "string"),
    "string to array": lambda spec, chance: _retyped(spec, chance, "string", "array"),
    "integer to number": lambda spec, chance: _retyped(spec, chance, "integer", "number"),
    "narrowed": lambda spec, chance: _narrowed(spec, chance, hit=False),
    "narrowed hit": lambda spec, chance: _narrowed(spec, chance, hit=True),
    "tool renamed": lambda spec, chance: _tool_renamed(spec, chance, "other verb"),
    "tool moved": lambda spec, chance: _tool_renamed(spec, chance, "moved"),
    "tool taken": lambda spec, chance: _tool_renamed(spec, chance, "to a taken name"),
    "tool removed": _tool_removed,
    "field case": lambda spec, chance: rename_field(spec, chance, "case"),
    "field unlike": lambda spec, chance: rename_field(spec, chance, "unlike"),
    "field removed": remove_field,
    "answer wrapped": wrap_answer,
    "several": _several,
    **PITFALLS,
}
"""By name. Each gives `None` for a tool that it cannot be done to."""
_SIMPLE = (
    "renamed case",
    "renamed reworded",
    "renamed unlike",
    "optional removed",
    "required removed",
    "added default",
    "added const",
    "integer to string",
    "tool renamed",
    "optional added",
    "required passed",
)
