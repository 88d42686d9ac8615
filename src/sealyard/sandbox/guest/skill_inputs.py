"""Checks the inputs of a skill: names by its signature, plain JSON types by its schema.

A concealed value stands for a value of any type, so its token is accepted everywhere. Standard library only.
"""

import decimal
import inspect
import numbers
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import words

_TOKEN = re.compile(r"__PII_\w+__")


class SkillInputError(TypeError):
    """An input of a skill has a value of another type than its schema says."""

    __module__ = "skills"


class Inputs:
    """The arguments that a skill takes, by its signature and the properties of its schema."""

    def __init__(self, skill: str, signature: inspect.Signature, properties: Mapping[str, Any]) -> None:
        self._skill = skill
        self._properties = properties
        self.signature = signature

    def bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name. Raises `TypeError` for wrong names and `SkillInputError` for wrong types."""
        try:
            bound = self.signature.bind(*given, **named)
        except TypeError as error:
            raise TypeError(f"{self._skill}(): {error}. {self._shown_signature()}") from None
        for name, value in {**bound.arguments, **named}.items():
            parameter = self.signature.parameters.get(name)
            if parameter is None or value is not parameter.default:
                self._check(name, value)
        return bound

    def _check(self, name: str, value: Any) -> None:
        schema = self._properties.get(name, {})
        kinds = schema.get("type", ())
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        if "enum" in schema:
            fits, expected = value in schema["enum"], f"one of {', '.join(map(repr, schema['enum']))}"
        else:
            fits = not kinds or any(kind not in _TYPES or _TYPES[kind].fits(value) for kind in kinds)
            expected = " or ".join(_TYPES[kind].words for kind in kinds if kind in _TYPES)
        if fits or (isinstance(value, str) and _TOKEN.fullmatch(value)):
            return
        of_type = f"a value of type {words.name_of(type(value))}"
        shown = words.shown(value) if type(value) in words.SCALARS else of_type
        raise SkillInputError(
            f"{self._skill}(): input {name!r} is {shown}, where {expected} is expected. {self._shown_signature()}"
        )

    def _shown_signature(self) -> str:
        return f"Its signature: {self._skill}{self.signature}"


def script_signature(properties: Mapping[str, Any]) -> inspect.Signature:
    """The signature of a script: the properties of its schema, in their order, with their defaults."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=each.get("default", inspect.Parameter.empty),
            annotation=_annotation(each.get("type")),
        )
        for name, each in properties.items()
    ]
    # In the schema an input with a default may stand before one without.
    return inspect.Signature(parameters, __validate_parameters__=False)


def _annotation(kind: Any) -> Any:
    known = _TYPES.get(kind) if isinstance(kind, str) else None
    return inspect.Parameter.empty if known is None else known.annotation


class _Type(NamedTuple):
    words: str
    annotation: type | None
    fits: Callable[[Any], bool]


def _is_boolean(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


_NO_LISTS = (str, bytes, bytearray, Mapping)
_NUMBERS = (numbers.Real, decimal.Decimal)
_TYPES = {
    "string": _Type("text", str, lambda value: isinstance(value, str)),
    "integer": _Type(
        "a whole number", int, lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool)
    ),
    "number": _Type("a number", float, lambda value: isinstance(value, _NUMBERS) and not isinstance(value, bool)),
    "boolean": _Type("True or False", bool, _is_boolean),
    "array": _Type("a list", list, lambda value: isinstance(value, Collection) and not isinstance(value, _NO_LISTS)),
    "object": _Type("a dict", dict, lambda value: isinstance(value, Mapping)),
    "null": _Type("None", None, lambda value: value is None),
}
