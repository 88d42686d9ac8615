"""Checks the inputs of a skill: names by its signature, plain JSON types by its schema.

A concealed value stands for a value of any type, so its token is accepted everywhere. Standard library only.
"""

import collections.abc
import copy
import decimal
import inspect
import keyword
import numbers
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import words

_TOKEN = re.compile(r"__PII_\w+__")
_ANNOTATIONS = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "True or False",
    "array": "a list",
    "object": "a dict",
    "null": "None",
}


class SkillInputError(TypeError):
    """An input of a skill has a value that its schema does not allow."""

    __module__ = "skills"


class FunctionInputs:
    """The arguments of a skill that is a function: what it declares itself."""

    def __init__(self, name: str, schema: Mapping[str, Any], function: Any) -> None:
        self._name = name
        self._properties = schema.get("properties") or {}
        try:
            self.signature = inspect.signature(function)
        except ValueError:  # something native, which checks its arguments itself
            self.signature = inspect.signature(lambda *arguments, **named: None)

    def bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for the function. Raises `TypeError` for wrong names and `SkillInputError` for wrong types."""
        bound = _bind(self._name, self.signature, given, named)
        for key, value in bound.arguments.items():
            parameter = self.signature.parameters[key]
            if parameter.kind is parameter.VAR_KEYWORD:
                for name, each in value.items():
                    self._check(name, each)
            elif parameter.kind is not parameter.VAR_POSITIONAL and value is not parameter.default:
                self._check(key, value)
        return bound.args, bound.kwargs

    def _check(self, name: str, value: Any) -> None:
        _check(self._name, self.signature, name, value, self._properties.get(name))


class ScriptInputs:
    """The arguments of a skill that is a script: the properties of its schema, in their order."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self._name = name
        self._properties: dict[str, Any] = schema.get("properties") or {}
        self._takes_more = bool(schema.get("additionalProperties"))
        self.signature = _signature(schema, self._properties, self._takes_more)

    def bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs as the one argument. Raises `TypeError` for wrong names, `SkillInputError` for wrong types."""
        inputs = dict(_bind(self._name, self.signature, given, named).arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                inputs.update(inputs.pop(parameter.name, {}))
        for name, value in inputs.items():
            if name not in self._properties and not self._takes_more:
                raise _unbound(self._name, self.signature, f"got an unexpected keyword argument {name!r}")
            _check(self._name, self.signature, name, value, self._properties.get(name))
        for name, schema in self._properties.items():
            if name not in inputs and isinstance(schema, dict) and "default" in schema:
                inputs[name] = copy.deepcopy(schema["default"])
        return (inputs,), {}


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"


_UNSET = _Unset()


def _signature(schema: Mapping[str, Any], properties: dict[str, Any], takes_more: bool) -> inspect.Signature:
    parameters = []
    required = schema.get("required") or ()
    for name, each in properties.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            takes_more = True  # it can still be given: f(**{"user-id": 1})
            continue
        each = each if isinstance(each, dict) else {}
        kind = each.get("type")
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=each.get("default", inspect.Parameter.empty if name in required else _UNSET),
                annotation=_ANNOTATIONS.get(kind if isinstance(kind, str) else "", inspect.Parameter.empty),
            )
        )
    if takes_more:
        parameters.append(inspect.Parameter(_free("others", properties), inspect.Parameter.VAR_KEYWORD))
    # The order is the schema's, in which an input with a default may stand before one without.
    return inspect.Signature(parameters, __validate_parameters__=False)


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _bind(
    name: str, signature: inspect.Signature, given: tuple[Any, ...], named: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*given, **named)
    except TypeError as error:
        raise _unbound(name, signature, str(error)) from None


def _unbound(name: str, signature: inspect.Signature, problem: str) -> TypeError:
    return TypeError(f"{name}(): {problem}. Its signature: {name}{signature}")


def _check(skill: str, signature: inspect.Signature, name: str, value: Any, schema: Any) -> None:
    if not _fits(value, schema) and not (isinstance(value, str) and _TOKEN.fullmatch(value)):
        raise SkillInputError(
            f"{skill}(): input {words.cut(name, 60)!r} is {_shown(value)}, where {_expected(schema)} is expected. "
            f"Its signature: {skill}{signature}"
        )


def _shown(value: Any) -> str:
    return words.shown(value) if type(value) in words.SCALARS else f"a value of type {words.name_of(type(value))}"


def _fits(value: Any, schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    if value is None and schema.get("default", _UNSET) is None:
        return True
    for word, choices in (("enum", schema.get("enum")), ("const", [schema.get("const")])):
        if word in schema and not any(_is_same(value, each) for each in choices or ()):
            return False
    for word in ("anyOf", "oneOf"):
        if word in schema and not any(_fits(value, each) for each in schema[word]):
            return False
    known = [_TYPES.get(name) for name in _types(schema)]
    return not known or any(is_one is None or is_one(value) for is_one in known)


def _types(schema: dict[str, Any]) -> list[str]:
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def _is_same(value: Any, expected: Any) -> bool:
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    return isinstance(value, str | numbers.Number | list | dict | None) and bool(value == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | decimal.Decimal) and not isinstance(value, bool)


def _is_boolean(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def _is_array(value: Any) -> bool:
    text = str | bytes | bytearray
    return isinstance(value, collections.abc.Collection) and not isinstance(value, text | collections.abc.Mapping)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": _is_boolean,
    "array": _is_array,
    "object": lambda value: isinstance(value, collections.abc.Mapping),
    "null": lambda value: value is None,
}


def _expected(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return words.cut("one of " + ", ".join(repr(each) for each in schema["enum"]), 200)
    if "const" in schema:
        return words.cut(repr(schema["const"]), 200)
    choices = [
        _expected(each) for word in ("anyOf", "oneOf") for each in schema.get(word, ()) if isinstance(each, dict)
    ]
    kinds = [_WORDS.get(name, name) for name in _types(schema)]
    return " or ".join(dict.fromkeys(choices + kinds)) or "another value"
