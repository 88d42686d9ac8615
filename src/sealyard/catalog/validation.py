"""Compiled input schemas, and the strictest check of a value that is sure to end soon.

A schema that cannot be compiled or is not safe has no validator. No reference is ever fetched, formats are not enforced
and patterns run in linear time.
"""

from typing import Any

import jsonschema_rs

from sealyard.catalog.hazards import Survey, TooHazardous, loosened, survey
from sealyard.catalog.recent import Recent
from sealyard.values import ToolSpec

_STEPS = 2_000_000
_EXPLAINED_STEPS = 10_000  # each may become an error, and an error costs a thousand times what a step does
_PATTERN_STEPS = 20_000  # characters that patterns may see: a hostile one takes microseconds for each
_DEPTH = 100  # far deeper, the validator overflows its stack
_REGEX = jsonschema_rs.RegexOptions(size_limit=1 << 16, dfa_size_limit=1 << 16)


class Check:
    """One schema: what to validate with, and how far that may be trusted to end."""

    __slots__ = ("_full", "_lax", "_survey")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._full: jsonschema_rs.Validator | None = None
        self._lax: jsonschema_rs.Validator | None = None  # for texts too long for patterns, and odd schemas
        try:
            self._survey = survey(schema)
        except TooHazardous:
            self._survey = Survey(spread=1, branching=0, patterns=0)
            return
        self._full = self._lax = _compile(schema)
        if self._survey.patterns or self._full is None:
            looser = loosened(schema)
            self._lax = None if looser is None else _compile(looser)

    def choose(self, value: object) -> jsonschema_rs.Validator | None:
        """The strictest validator that is sure to be done with `value` soon."""
        parts, characters, depth = _extent(value)
        if depth > _DEPTH or self._survey.steps(parts, depth) > _STEPS:
            return None
        if self._survey.patterns and self._survey.steps(characters, depth) > _PATTERN_STEPS:
            return self._lax
        return self._full or self._lax

    def is_explicable(self, value: object) -> bool:
        """Whether all that is wrong with `value` can be listed in short time."""
        parts, _, depth = _extent(value)
        return self._survey.steps(parts, depth) <= _EXPLAINED_STEPS


_checks: Recent[str, Check] = Recent(1024)


def check_of(spec: ToolSpec) -> Check:
    """The check of a tool's input schema, compiled when it is first needed."""
    check = _checks.find(spec.digest)
    if check is None:
        check = Check(spec.input_schema)
        _checks.put(spec.digest, check)
    return check


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Validator | None:
    """A validator, or `None` if the schema is none, refers elsewhere or has a pattern that is not supported."""
    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=False, pattern_options=_REGEX, mask="it"
        )
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _extent(value: object) -> tuple[int, int, int]:
    """How many parts `value` has, how many characters are in them, and how deep it is; no more than matters."""
    parts = characters = depth = 0
    level = [value]
    while level and depth <= _DEPTH and parts <= _STEPS:
        depth += 1
        parts += len(level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                characters += len(item)
            elif isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        level = below
    return parts, characters, depth
