"""A function as a tool: its definition from signature and docstring, and the way from JSON to its parameters.

Arguments are hostile. They are checked against the schema first, and only then become the objects that annotations
name, which may run code of the author. `msgspec` converts them; a parameter with something of pydantic in its
annotation is pydantic's.
"""

import dataclasses
import datetime
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import jsonschema_rs
import msgspec

from sealyard.broker.upstreams.python.author import CallContext, Mark
from sealyard.broker.upstreams.python.docstrings import read_docstring
from sealyard.broker.upstreams.server import Response
from sealyard.errors import InvalidRequest, ToolFailed
from sealyard.values.access import Grant
from sealyard.values.documents import read_exactly
from sealyard.values.tools import Definition
from sealyard.wording import COMPLAINT_CHARACTERS, short

_Json = dict[str, Any]
_REFERENCE = "#/$defs/{name}"
_PYDANTICS = ("annotated_types", "pydantic", "pydantic_core")
"""Packages whose types and constraints `msgspec` does not know."""
_INSTANT = Annotated[datetime.datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""`msgspec` states the format only where it demands an offset from UTC."""
_UNION = (typing.Union, types.UnionType)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTool:
    """One function that is a tool."""

    function: Callable[..., Any]
    definition: Definition
    parameters: type[msgspec.Struct] | None = None
    """The parameters as a struct, to which arguments are converted. None: they are passed on as they are."""
    validator: Any = None
    """Checks the arguments, if there are `parameters`."""
    adapters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Pydantic's converters of single parameters."""
    context: str | None = None
    """The parameter that gets the `CallContext`."""

    @property
    def is_async(self) -> bool:
        """True if its calls run on the event loop."""
        return inspect.iscoroutinefunction(self.function)

    def bind(self, encoded: bytes, grant: Grant | None) -> _Json:
        """The values of its parameters. Raises `ToolFailed` if the arguments, which are JSON, do not fit."""
        values: _Json = read_exactly(encoded)
        if self.parameters is None:
            return values
        for error in self.validator.iter_errors(values):
            raise self._misfit(error.instance_path, error.message)
        try:
            # Not decoded again: msgspec reads a number such as 1e308 a hundred times as slowly.
            converted = msgspec.convert(values, self.parameters, str_keys=True)
        except msgspec.ValidationError as error:
            raise self._misfit((), str(error)) from None
        given = ((name, getattr(converted, name)) for name in converted.__struct_fields__)
        values = {name: value for name, value in given if value is not msgspec.UNSET}
        for name, adapter in self.adapters.items():
            if name in values:
                values[name] = self._adapt(name, adapter, values[name])
        if self.context is not None:
            if grant is None:
                raise ToolFailed(f"{self.definition.name!r} has to know its caller. Call it through a gateway.")
            values[self.context] = CallContext(
                principal=grant.principal, session=grant.session, execution_id=grant.execution_id
            )
        return values

    def _adapt(self, name: str, adapter: Any, value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValueError as error:  # pydantic's own, whose text has the value in it
            details = error.errors(include_url=False, include_input=False, include_context=False)  # type: ignore[attr-defined]
            raise self._misfit((name, *details[0]["loc"]), details[0]["msg"]) from None

    def _misfit(self, path: Sequence[Any], why: str) -> ToolFailed:
        place = "".join(f"{step}: " if at == len(path) else f"{step}." for at, step in enumerate(path, 1))
        text = f"The arguments of {self.definition.name!r} do not fit: {place}{why}"
        return ToolFailed(short(text, COMPLAINT_CHARACTERS))


def describe(function: Callable[..., Any], mark: Mark | None = None) -> FunctionTool:
    """The function as a tool; `mark` replaces the one that `tool` has set.

    Raises:
        InvalidRequest: It cannot be a tool; the message says why.
    """
    mark = mark or Mark.of(function)
    name: str = mark.name or getattr(function, "__name__", None) or ""
    if not name.strip() or name == "<lambda>":
        raise InvalidRequest("A function without a name cannot be a tool. Give it one with `name`.")
    try:
        return _describe(function, name, mark)
    except _Indescribable as error:
        raise InvalidRequest(f"Function {name!r} is not a tool: {error}.") from None
    except Exception as error:  # noqa: BLE001 - annotations are code of the author, and may raise anything
        words = short(f"{type(error).__name__}: {error}", 300)
        raise InvalidRequest(
            f"Function {name!r} is not a tool: its annotations cannot be read: {words}. Correct them."
        ) from None


class _Indescribable(Exception):
    """A reason and, after a full stop, the remedy."""


def _describe(function: Callable[..., Any], name: str, mark: Mark) -> FunctionTool:
    plain = inspect.unwrap(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise _Indescribable("it is a generator, whose values come one by one. Return a list")
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise _Indescribable(
            f"its annotations name {error.name!r}, which its module does not define. Define it there"
        ) from None
    except (TypeError, ValueError) as error:
        raise _Indescribable(f"its signature cannot be read: {error}. Call it from one with annotations") from None
    text, notes = read_docstring(function.__doc__ or "")
    context, schemas, adapters = None, _Schemas(), {}
    fields: list[tuple[str, Any, Any]] = []
    for each in signature.parameters.values():
        _check_kind(each)
        hint = hints.get(each.name, Any)
        if _is_context(hint):
            if context is not None:
                raise _Indescribable("it has two parameters of the type CallContext. Take one out")
            context = each.name
            continue
        hint, adapter = schemas.add(each, hint, notes.get(each.name, ""))
        if adapter is not None:
            adapters[each.name] = adapter
        if each.default is each.empty:
            fields.append((each.name, hint, msgspec.NODEFAULT))
        else:  # the function has the default itself
            fields.append((each.name, typing.Union[hint, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007
    definition = Definition(
        name=name,
        description=text,
        input_schema=schemas.whole(),
        output_schema=_output_schema(hints.get("return", Any)),
        annotations=mark.annotations,
    )
    try:
        struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        validator = jsonschema_rs.validator_for(definition.input_schema, mask="the value")
        msgspec.json.Decoder(struct)  # refuses types without a JSON form
    except (TypeError, ValueError) as error:
        raise _Indescribable(f"its parameters have no JSON form: {error}. Change their annotations") from None
    return FunctionTool(
        function=function,
        definition=definition,
        parameters=struct,
        validator=validator,
        adapters=adapters,
        context=context,
    )


def _check_kind(parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        taken = str(parameter).partition(":")[0]
        raise _Indescribable(f"it takes {taken}, and no schema has a name for that. Name each parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise _Indescribable(f"{parameter.name!r} cannot be given by name, because of the '/'. Take the '/' out")


def _is_context(hint: Any) -> bool:
    """True for `CallContext` and for one that may be None."""
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNION else (hint,)
    return CallContext in options and all(each in (CallContext, type(None)) for each in options)


# Schemas


class _Schemas:
    """The schema of all arguments, built parameter by parameter."""

    def __init__(self) -> None:
        self._properties: _Json = {}
        self._required: list[str] = []
        self._shared: _Json = {}

    def add(self, parameter: inspect.Parameter, hint: Any, note: str) -> tuple[Any, Any]:
        """Add a parameter; returns its annotation for `msgspec`, and pydantic's converter if it needs one."""
        name, default = parameter.name, parameter.default
        if type(default).__module__.partition(".")[0] == "pydantic":
            raise _Indescribable(
                f"the default of {name!r} is pydantic's Field. Write Annotated[type, Field(…)] = default"
            )
        schema, shared, adapter = _schema_of(hint, f"the annotation of {name!r}", "validation")
        if any(self._shared.get(key, each) != each for key, each in shared.items()):
            raise _Indescribable(f"two types in its annotations have one name: {', '.join(sorted(shared))}. Rename one")
        self._shared |= shared
        if typing.get_origin(hint) is Annotated:
            note = next((each for each in typing.get_args(hint)[1:] if isinstance(each, str)), note)
        if note:
            schema = {"description": note} | schema
        if default is parameter.empty:
            self._required.append(name)
        elif (known := _as_json(default)) is not msgspec.UNSET:
            schema = schema | {"default": known}
        self._properties[name] = schema
        return (Any, adapter) if adapter is not None else (_plain(hint), None)

    def whole(self) -> _Json:
        """The schema."""
        whole = {"type": "object", "properties": self._properties, "required": self._required}
        return whole | {"additionalProperties": False} | ({"$defs": self._shared} if self._shared else {})


def _output_schema(hint: Any) -> _Json | None:
    """The schema of an answer. None if it would say nothing, so that the shape of answers is learned instead."""
    if hint in (Any, None, type(None), inspect.Parameter.empty) or Response in (hint, *typing.get_args(hint)):
        return None
    schema, shared, _ = _schema_of(hint, "the annotation of its answer", "serialization")
    if (reference := schema.get("$ref")) is not None:  # the object itself belongs at the root
        schema = shared[reference.rpartition("/")[2]]
    if _is_vague(schema):
        return None
    return schema | ({"$defs": shared} if shared else {})


def _is_vague(schema: object) -> bool:
    """True if it names no field, choice or type beyond objects and lists."""
    if not isinstance(schema, dict):
        return True
    if not schema.keys() <= {"type", "items", "additionalProperties", "anyOf", "description", "title"}:
        return False
    if not {"items", "anyOf", "additionalProperties"} & schema.keys():
        return schema.get("type") in (None, "array", "object")
    return all(map(_is_vague, [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]))


def _schema_of(hint: Any, what: str, mode: str) -> tuple[_Json, _Json, Any]:
    """The schema of a type, those that it refers to by name, and pydantic's converter if it is pydantic's."""
    try:
        if any(map(_is_pydantics, _parts(hint, set()))):
            import pydantic  # noqa: PLC0415 - whoever wrote the annotation has imported it

            adapter: Any = pydantic.TypeAdapter(hint)
            schema = adapter.json_schema(mode=mode, ref_template=_REFERENCE.format(name="{model}"))
            return schema, schema.pop("$defs", {}), adapter
        (schema,), shared = msgspec.json.schema_components([_plain(hint)], ref_template=_REFERENCE)
    except (TypeError, ValueError, RuntimeError, NameError) as error:
        reason = short(" ".join(str(error).partition(" requires either")[0].split()), 300)
        raise _Indescribable(
            f"{what}, {short(_name(hint), 200)}, has no JSON form: {reason}. Use types of JSON, dataclasses or models"
        ) from None
    return schema, shared, None


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _plain(hint: Any) -> Any:
    """The annotation in words of `msgspec`, which has no `object` and states no format of a point in time."""
    if hint is object:
        return Any
    if hint is datetime.datetime:
        return _INSTANT
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNION:
        return typing.Union[tuple(map(_plain, arguments))]  # noqa: UP007
    if origin is Annotated:
        return Annotated[(_plain(arguments[0]), *arguments[1:])]
    if origin in (list, set, frozenset, tuple, dict):
        return origin[tuple(map(_plain, arguments))]
    return hint


def _parts(hint: Any, seen: set[int]) -> Iterator[Any]:
    """An annotation, and everything in it: arguments, metadata, and the annotations of the fields of classes."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    yield hint
    for each in typing.get_args(hint):
        yield from _parts(each, seen)
    if isinstance(hint, type) and hint.__module__ != "builtins" and not _is_pydantics(hint):
        for each in typing.get_type_hints(hint, include_extras=True).values():
            yield from _parts(each, seen)


def _is_pydantics(part: Any) -> bool:
    """True for a model or a constraint that `msgspec` would take for something else, or pass over."""
    kinds = part.__mro__ if isinstance(part, type) else (type(part),)
    return any(kind.__module__.partition(".")[0] in _PYDANTICS for kind in kinds)


def _as_json(value: Any) -> Any:
    """A default as JSON data; `UNSET` if it is none."""
    try:
        return msgspec.json.decode(encode(value))
    except (TypeError, ValueError, RecursionError):
        return msgspec.UNSET


def encode(value: Any) -> bytes:
    """The value as JSON. Raises `TypeError`, `ValueError` or `RecursionError`."""
    return msgspec.json.encode(value, enc_hook=_dumped)


def _dumped(value: Any) -> Any:
    """A model of pydantic as data."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a value of the type {type(value).__name__}")
    return dump(mode="json")
