"""Checks a call's arguments against the tool's input schema before they leave, and describes each mistake.

A schema that cannot be used, or not safely, does not make its tool unusable: then only the names are checked, and the
upstream judges the rest. Mistakes in a large argument are refused without their place, which would take too long to
find.

The check sees the arguments as code wrote them. A token fits everywhere: comparing its private value with `enum`,
`pattern` or `maxLength` would reveal facts about it before any policy has decided.
"""

import difflib
import itertools
import reprlib
from collections.abc import Sequence
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from sealyard.catalog.bounded_schema import check_of
from sealyard.catalog.stubs import Parameter, Stub, shape
from sealyard.errors import InvalidArguments
from sealyard.privacy import TOKEN
from sealyard.values.tools import ToolSpec
from sealyard.wording import plain

_ERRORS = 5  # mistakes listed in one message; the rest are counted
_ALL_ERRORS = 50  # mistakes counted: a bound on the work for hostile arguments
_GIVEN_CHARACTERS = 80  # of a value in a message: enough to recognize it
_EXPECTED_CHARACTERS = 300  # of the form that a value must have: a few lines
_CHOICES = 12  # values of an enumeration that are listed
_KEYS = 50  # names that are compared: a bound on the work
_CONDITIONAL = frozenset("anyOf oneOf not if then else contains dependentSchemas dependentRequired".split())
"""Keywords whose parts may apply to one value and not to another."""

_shortened = reprlib.Repr()
_shortened.maxlevel, _shortened.maxstring, _shortened.maxother = 3, 60, 60


def check_arguments(spec: ToolSpec, arguments: Any) -> dict[str, Any]:
    """Return `arguments`, as code wrote them, if they fit the input schema of `spec` or only the upstream can judge.

    Raises:
        InvalidArguments: They do not fit; the message names the parameters and the expected values.
    """
    if not isinstance(arguments, dict):
        raise InvalidArguments(f"The arguments of {spec.function} must be an object, not {_given(arguments)}.")
    check = check_of(spec)
    validator = check.choose(arguments)
    try:
        if validator is not None and validator.is_valid(arguments):
            return arguments
    except ValueError as error:
        raise InvalidArguments(f"The arguments of {spec.function} are not JSON data: {error}.") from None
    complaint = _Complaint(spec, arguments)
    problems = complaint.names(judged=validator is not None)
    if validator is not None and check.is_explicable(arguments):
        problems += complaint.values(validator)
    if not problems and (validator is None or _holds_token(arguments)):
        return arguments
    raise InvalidArguments(complaint.message(problems))


class _Complaint:
    """The mistakes in one call, in sentences."""

    def __init__(self, spec: ToolSpec, arguments: dict[str, Any]) -> None:
        self._spec = spec
        self._arguments = arguments
        self._stub = stub = Stub(spec)
        self._known = {parameter.key: parameter for parameter in stub.parameters}
        self._free = [key for key in self._known if key not in arguments]

    def message(self, problems: Sequence[str]) -> str:
        """The whole message, with the correct form."""
        distinct = list(dict.fromkeys(problems))
        listed = "; ".join(distinct[:_ERRORS]) or "they do not fit its schema"
        more = f"; and {len(distinct) - _ERRORS} more" if len(distinct) > _ERRORS else ""
        return f"Wrong arguments for {self._spec.function}: {listed}{more}. Call it as {self._stub.signature}."

    def names(self, *, judged: bool) -> list[str]:
        """The mistakes in names. A name that may be allowed is mentioned only beside another mistake."""
        is_named = not any(map(_is_token, self._arguments))  # otherwise a token may be the missing name
        problems = [self._missing(key) for key in self._free if self._known[key].required and is_named]
        schema = self._spec.input_schema
        closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
        others = itertools.islice(
            (key for key in self._arguments if key not in self._known and not _is_token(key)), _ALL_ERRORS
        )
        return problems + [self._unknown(key) for key in others if closed or (judged and self._nearest(key))]

    def values(self, validator: jsonschema_rs.Validator) -> list[str]:
        """The mistakes in the values."""
        is_private = _holds_token(self._arguments)
        all_errors = validator.iter_errors(self._arguments)
        certain = (error for error in all_errors if not is_private or _is_certain(error, self._arguments))
        return [sentence for error in itertools.islice(certain, _ALL_ERRORS) for sentence in self._sentences(error)]

    def _sentences(self, error: jsonschema_rs.ValidationError) -> list[str]:
        path = error.instance_path
        place, given = self._place(path), _given(_at(self._arguments, path))
        match error.kind:
            case Kind.Required(property=key):
                return [f"{place} lacks {_given(key)}" if path else self._missing(key)]
            case Kind.AdditionalProperties(unexpected=keys) | Kind.UnevaluatedProperties(unexpected=keys):
                keys = [key for key in keys if not _is_token(key)]
                if not path:
                    return [self._unknown(key) for key in keys[:_ALL_ERRORS]]
                return [f"{place} has keys that are not allowed: {', '.join(map(_given, keys[:_ERRORS]))}"]
            case Kind.FalseSchema() if len(path) == 1:
                return [self._unknown(str(path[0]))]
            case Kind.Enum(options=options):
                expected = f"one of {_choices(options)}"
            case Kind.Type() | Kind.AnyOf() | Kind.OneOfNotValid() | Kind.Constant():
                expected = self._expected(error)
            case _:
                expected = "Any"
        if expected == "Any":  # the shape does not show it; the validator's own words do
            return [f"{place} is {given}; {plain(error.message, limit=_EXPECTED_CHARACTERS)}"]
        return [f"{place} is {given}; it must be {expected}"]

    def _expected(self, error: jsonschema_rs.ValidationError) -> str:
        schema, path = self._spec.input_schema, error.instance_path
        place = _at(schema, error.schema_path[:-1])
        if isinstance(place, dict):
            branches = place.get(str(error.schema_path[-1]))
            alternatives = {"anyOf": branches} if isinstance(branches, list) and "Of" in error.kind.name else place
            return plain(shape(alternatives, schema), limit=_EXPECTED_CHARACTERS)
        return self._known[str(path[0])].annotation if path and path[0] in self._known else "Any"

    def _place(self, path: Sequence[str | int]) -> str:
        if not path:
            return "the object of all arguments"
        text = str(path[0])
        for step in path[1:]:
            text += f"[{step}]" if isinstance(step, int) else f".{step}"
        return _called(self._known.get(str(path[0])), text)

    def _missing(self, key: str) -> str:
        parameter = self._known.get(key)
        return f"{_called(parameter, key)} is missing; it must be {parameter.annotation if parameter else 'given'}"

    def _unknown(self, key: str) -> str:
        near = self._nearest(key)
        nearest = f"; the nearest is {_called(self._known[near], near)}" if near else ""
        return f"{_given(key)} is not one of its parameters{nearest}"

    def _nearest(self, key: str) -> str | None:
        return next(iter(difflib.get_close_matches(key[:100], self._free[:_KEYS], n=1)), None)


def _is_certain(error: jsonschema_rs.ValidationError, value: Any) -> bool:
    """True if it is a mistake regardless of the values behind the tokens in `value`."""
    if _CONDITIONAL.intersection(map(str, error.schema_path)):
        return False  # the condition may depend on a token
    part = _at(value, error.instance_path)
    if not _holds_token(part):
        return True
    if not isinstance(part, dict | list):
        return False
    match error.kind:
        case Kind.Type() | Kind.MinItems() | Kind.MaxItems():
            return True
        case Kind.Required():
            return not any(map(_is_token, part))
        case Kind.AdditionalProperties(unexpected=keys):
            return not all(map(_is_token, keys))
    return False


def _is_token(text: object) -> bool:
    """True if the text contains a token."""
    return isinstance(text, str) and "__" in text and TOKEN.search(text) is not None


def _holds_token(value: object) -> bool:
    """True if the value contains a token at any depth."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif _is_token(each):
            return True
    return False


def _at(schema: object, path: Sequence[str | int]) -> object:
    """The part at `path` in a schema, or None."""
    for step in path:
        if isinstance(schema, dict):
            schema = schema.get(step)
        elif isinstance(schema, list) and isinstance(step, int) and step < len(schema):
            schema = schema[step]
        else:
            return None
    return schema


def _called(parameter: Parameter | None, text: str) -> str:
    """A parameter in a message, with its Python name if that differs."""
    name = repr(plain(text, limit=_GIVEN_CHARACTERS))
    return f"{name} ({parameter.name} in Python)" if parameter and parameter.name != parameter.key else name


def _choices(options: list[Any]) -> str:
    return ", ".join(map(_given, options[:_CHOICES])) + (", …" if len(options) > _CHOICES else "")


def _given(value: object) -> str:
    """The given value in at most about 80 characters."""
    try:
        return plain(_shortened.repr(value), limit=_GIVEN_CHARACTERS)
    except ValueError:  # a number of thousands of digits
        return f"a very long {type(value).__name__}"
