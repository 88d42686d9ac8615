"""Turns the parameters of `filter`, `aggregate` and `transform` into a plan, with every name in them checked."""

from typing import Any, Literal, TypeAlias

from .conditions import parse_conditions
from .errors import AnalysisError, listed
from .parameters import as_count, as_object, below
from .plan import Limits, Plan, Source, Step, Where
from .reductions import parse_group
from .stepping import STEPS, parse_slice, parse_step, parse_steps

Planned: TypeAlias = Literal["filter", "aggregate", "transform"]

_FIRST = ("join", "compute")
_LAST = ("sort", "offset", "limit")
_FILTER = (*_FIRST, "conditions", "logic", "fields", "output_fields", "distinct", *_LAST)
_AGGREGATE = (*_FIRST, "conditions", "logic", "group_by", "aggregations", "having", *_LAST)
_TRANSFORM = ("steps", "conditions", "logic", "output_fields", *(name for name in STEPS if name != "filter"))
_AFTER = tuple(STEPS)[tuple(STEPS).index("select") + 1 :]


def parse_plan(kind: Planned, parameters: dict[str, Any], source: Source, limits: Limits) -> Plan:
    """The checked plan of a request.

    Raises:
        AnalysisError: A parameter is wrong; the message names it and what was expected.
    """
    parse = {"filter": _filter, "aggregate": _aggregate, "transform": _transform}[kind]
    return Plan(source=source, steps=tuple(parse(parameters)), limits=limits)


def parse_limits(given: Any) -> Limits:
    """The bounds of an answer.

    Raises:
        AnalysisError: One is no whole number.
    """
    entry = as_object({} if given is None else given, "limits", ("rows", "bytes"))
    bounds = {key: as_count(value, below("limits", key)) for key, value in entry.items() if value is not None}
    return Limits(**bounds)


def _filter(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _FILTER)
    steps = [*_named(parameters, *_FIRST), *_conditions(parameters), *_named(parameters, "distinct", "sort")]
    return [*steps, *parse_slice(parameters), *_selected(parameters, "fields", "output_fields")]


def _aggregate(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _AGGREGATE)
    group = parse_group(
        parameters.get("group_by"),
        parameters.get("aggregations", []),
        "aggregations",
        keys_at="group_by",
        aggregations_at="aggregations",
    )
    steps = [*_named(parameters, *_FIRST), *_conditions(parameters), group]
    if parameters.get("having"):
        steps.append(Where(at="having", condition=parse_conditions(parameters["having"], "having")))
    return [*steps, *_named(parameters, "sort"), *parse_slice(parameters)]


def _transform(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _TRANSFORM)
    if "steps" in parameters:
        if beside := [key for key in parameters if key != "steps"]:
            raise AnalysisError(f"Beside 'steps' there is {listed(beside)}. Make steps of them.")
        return parse_steps(parameters["steps"], "steps")
    before = _named(parameters, *(name for name in STEPS if name not in ("select", *_AFTER)))
    selected = _selected(parameters, "select", "output_fields")
    after = _named(parameters, *(name for name in _AFTER if name not in ("offset", "limit")))
    return [*_conditions(parameters), *before, *selected, *after, *parse_slice(parameters)]


def _conditions(parameters: dict[str, Any]) -> list[Step]:
    given = parameters.get("conditions")
    condition = parse_conditions(given or [], "conditions", logic=parameters.get("logic") or "AND")
    return [Where(at="conditions", condition=condition)] if given else []


def _selected(parameters: dict[str, Any], *names: str) -> list[Step]:
    given = [name for name in names if parameters.get(name) is not None]
    if len(given) > 1:
        raise AnalysisError(f"{listed(given)} say the same. Give one of them.")
    return [parse_step("select", parameters[name], name) for name in given]


def _named(parameters: dict[str, Any], *names: str) -> list[Step]:
    given = [name for name in names if parameters.get(name) is not None and parameters[name] is not False]
    return [parse_step(name, parameters[name], name) for name in given]
