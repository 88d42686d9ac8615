"""Validation: rules over fields and checks across fields, and a report of the rows that break them.

A rule holds for a value that is there: a missing or null value breaks only `required` and `nullable`. Row numbers count
from 0 in the order of the rows. A check holds where its expression is true, so that it decides itself about nulls.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from .errors import AnalysisError, comma_list, nearest, quoted, shortened
from .evaluation import compiled, truth
from .expressions import check_pattern, parse_expression
from .limits import MAX_ENUM, MAX_RULES
from .parameters import Parameters, as_flag, as_scalar, path_to
from .plan import Field, Row, fields_of
from .tables import Table, field_names, reach
from .values import NUMBERS, WrongKind, keys_of, moment_of, to_date, to_datetime

# Bounds on what one violation adds to an answer.
_ROW_NUMBERS = 20
_MOST_SAMPLES = 50  # failing rows that an answer shows for a rule
_SAMPLE_CHARACTERS = 200  # of each of them
_FIELD_KEYS = tuple("field type required nullable min max min_length max_length pattern enum unique message".split())
_RULE_KEYS = (*_FIELD_KEYS, "fields", "check")
_MISSING = object()

ValueTest: TypeAlias = tuple[str, Any, Callable[[Any], bool]]
"""The name of a rule, the expected value, and the test of a value."""


def run_validation(parameters: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """The number of valid rows, and for each broken rule its count, its first rows and samples of values."""
    request = Parameters(parameters, ("rules", "samples"))
    samples = request.whole("samples", 5, least=0, most=_MOST_SAMPLES)
    report = _Report(rows, samples)
    for at, rule in _rules(request):
        if "check" in rule:
            _check(report, Parameters(rule, ("check", "message"), at))
        elif "fields" in rule:
            _check_together(report, Parameters(rule, ("fields", "unique", "message"), at))
        else:
            _check_field(report, Parameters(rule, _FIELD_KEYS, at))
    return report.answer()


class _Report:
    """The violations found in the rows."""

    def __init__(self, rows: list[Row], samples: int) -> None:
        self.table = Table(rows)
        self.notes: list[str] = []
        self._samples = samples
        self._invalid = bytearray(len(rows))
        self._violations: list[dict[str, Any]] = []

    def add(
        self,
        rule: str,
        of: str | None,
        expected: Any,
        message: str | None,
        found: Iterable[tuple[int, dict[str, Any]]],
    ) -> None:
        """Add the rows that break one rule, of which each comes with its sample."""
        count = 0
        rows: list[int] = []
        samples: list[dict[str, Any]] = []
        for row, sample in found:
            count += 1
            self._invalid[row] = 1
            if len(rows) < _ROW_NUMBERS:
                rows.append(row)
            if len(samples) < self._samples:
                samples.append({"row": row, **sample})
        if count:
            named = {"rule": rule, "field": of, "expected": expected, "message": message}
            figures = {"count": count, "rows": rows, "samples": samples}
            self._violations.append({key: value for key, value in named.items() if value is not None} | figures)

    def answer(self) -> dict[str, Any]:
        """The whole report."""
        rows, invalid = len(self._invalid), sum(self._invalid)
        answer: dict[str, Any] = {
            "rows_in": rows,
            "valid_rows": rows - invalid,
            "invalid_rows": invalid,
            "violations": self._violations,
        }
        if self.notes:
            answer["notes"] = self.notes
        return answer


def _rules(request: Parameters) -> list[tuple[str, dict[str, Any]]]:
    """Each rule with its path; rules given by the names of fields become rules with a field."""
    given = request.value("rules")
    if not isinstance(given, list | dict):
        raise request.fail("rules", 'a list of rules like {"field": "amount", "type": "number", "min": 0}')
    if not 0 < len(given) <= MAX_RULES:
        raise AnalysisError(f"rules has {len(given)} rules. Give 1 to {MAX_RULES}.")
    if isinstance(given, dict):
        return [(path_to("rules", name), _named_rule(name, rule)) for name, rule in given.items()]
    for place, rule in enumerate(given):
        if not isinstance(rule, dict):
            raise AnalysisError(
                f'rules[{place}] is {quoted(rule)}. Give an object like {{"field": "amount", "min": 0}}.'
            )
        # Before its form is known, so that a misspelt key is compared with all words.
        Parameters(rule, _RULE_KEYS, path_to("rules", place))
    return [(path_to("rules", place), rule) for place, rule in enumerate(given)]


def _named_rule(name: str, rule: Any) -> dict[str, Any]:
    """The rule for a field by its name: an object, or the name of a type alone."""
    if isinstance(rule, str):
        return {"field": name, "type": rule}
    Parameters(rule, _FIELD_KEYS[1:], path_to("rules", name))
    return {"field": name, **rule}


def _check(report: _Report, request: Parameters) -> None:
    """A check across fields: the rows for which it is not true."""
    at = request.at("check")
    text = request.value("check")
    if not isinstance(text, str):
        raise request.fail("check", "an expression as text, like 'start <= end'")
    expression = parse_expression(text, at)
    rows = report.table.rows
    outcomes = _outcomes(compiled(expression, report.table), rows)
    if rows and all(isinstance(outcome, WrongKind) for outcome in outcomes):
        raise AnalysisError(f"{at}: {outcomes[0]}, in every row. Change the expression {quoted(text)}.")
    readers = {each.name: report.table.reader(each) for each in fields_of(expression)}

    def broken() -> Iterable[tuple[int, dict[str, Any]]]:
        for row, outcome in enumerate(outcomes):
            if outcome is not True:
                values = {name: _bounded(read([rows[row]])[0]) for name, read in readers.items()}
                yield row, {"values": values} | ({"problem": str(outcome)} if outcome is not False else {})

    report.add("check", None, text, _message(request), broken())


def _outcomes(holds: Callable[[Sequence[Row]], list[Any]], rows: list[Row]) -> list[Any]:
    """For each row the outcome of the check, or the reason for its absence."""
    try:
        return [truth(outcome) for outcome in holds(rows)]
    except WrongKind:
        return [_outcome(holds, row) for row in rows]


def _outcome(holds: Callable[[Sequence[Row]], list[Any]], row: Row) -> Any:
    try:
        return truth(holds([row])[0])
    except WrongKind as problem:
        return problem


def _check_together(report: _Report, request: Parameters) -> None:
    """Several fields of which no combination may appear twice."""
    fields = request.fields(single=None, most=20)
    if not fields or not request.read("unique", as_flag, False):
        raise AnalysisError(
            f'{request.at("fields")} is for rules over combinations. Give {{"fields": […], "unique": true}}.'
        )
    columns = [_column(report, each) for each in fields]
    together = [None if _MISSING in values or None in values else list(values) for values in zip(*columns, strict=True)]
    name = ", ".join(each.name for each in fields)
    report.add("unique", name, None, _message(request), _repeated(together))


def _check_field(report: _Report, request: Parameters) -> None:
    """All rules for one field."""
    name = request.field("field")
    tests = value_tests(request)
    required = request.read("required", as_flag, False)
    nullable = request.read("nullable", as_flag, True)
    unique = request.read("unique", as_flag, False)
    message = _message(request)
    if not tests and not required and not unique and nullable:
        raise AnalysisError(f"{request.at('field')} has no rule. Add one of: {', '.join(_FIELD_KEYS[1:-1])}.")
    column = _column(report, name)
    if required:
        # A required value must not be null either, unless `nullable` decides about nulls.
        absent = (_MISSING,) if request.has("nullable") else (_MISSING, None)
        missing = ((row, {"value": None}) for row, value in enumerate(column) if any(value is each for each in absent))
        report.add("required", name.name, True, message, missing)
    if not nullable:
        nulls = ((row, {"value": None}) for row, value in enumerate(column) if value is None)
        report.add("nullable", name.name, False, message, nulls)
    present = [(row, value) for row, value in enumerate(column) if value is not None and value is not _MISSING]
    for rule, expected, holds in tests:
        broken = ((row, {"value": _bounded(value)}) for row, value in present if not holds(value))
        report.add(rule, name.name, expected, message, broken)
    if unique:
        whole = [None if value is _MISSING else value for value in column]
        report.add("unique", name.name, None, message, _repeated(whole))


def _repeated(column: list[Any]) -> Iterable[tuple[int, dict[str, Any]]]:
    """The rows that repeat the value of an earlier row; nulls are not compared."""
    first: dict[Any, int] = {}
    for row, key in enumerate(keys_of(column)):
        if column[row] is None:
            continue
        before = first.setdefault(key, row)
        if before != row:
            yield row, {"value": _bounded(column[row]), "first_row": before}


def _column(report: _Report, name: Field) -> list[Any]:
    """The values of a field, `_MISSING` where a row has none. A note says if no row has it: it may be misspelt."""
    rows, path = report.table.rows, name.path
    if any(name.name in row for row in rows):
        return [row.get(name.name, _MISSING) for row in rows]
    column = [reach(row, path, _MISSING) for row in rows]
    if rows and all(value is _MISSING for value in column):
        names = field_names(rows)
        report.notes.append(
            f"No row has the field {name.name!r} ({name.at}).{nearest(name.name, names)} Fields: {comma_list(names)}."
        )
    return column


def _message(request: Parameters) -> str | None:
    message = request.value("message")
    if message is not None and not (isinstance(message, str) and len(message) <= _SAMPLE_CHARACTERS):
        raise request.fail("message", f"a text of at most {_SAMPLE_CHARACTERS} characters")
    return message


def _bounded(value: Any) -> Any:
    """A value of a sample, a long one by its size."""
    # JSON has no NaN and no infinity.
    is_odd = isinstance(value, float) and not math.isfinite(value)
    return quoted(value) if is_odd else shortened(value, _SAMPLE_CHARACTERS)


def value_tests(request: Parameters) -> list[ValueTest]:
    """The rules that look at one value at a time."""
    tests: list[ValueTest] = []
    if request.has("type"):
        kind = _type_named(request)
        tests.append(("type", kind, TYPES[kind]))
    for rule, sign in (("min", 1), ("max", -1)):
        if request.has(rule):
            tests.append((rule, request.value(rule), _bound(request, rule, sign)))
    for rule, sign in (("min_length", 1), ("max_length", -1)):
        if request.has(rule):
            length = request.whole(rule, 0, least=0, most=2**53)
            tests.append((rule, length, _length(length, sign)))
    if request.has("pattern"):
        pattern = check_pattern(request.value("pattern"), request.at("pattern"))
        search = re.compile(pattern).search
        tests.append(("pattern", pattern, lambda value: isinstance(value, str) and search(value) is not None))
    if request.value("enum") is not None:
        tests.append(("enum", None, _member(request)))
    for low, high in (("min", "max"), ("min_length", "max_length")):
        least, most = request.value(low), request.value(high)
        if type(least) in NUMBERS and type(most) in NUMBERS and least > most:
            raise request.fail(low, f"at most {quoted(most)}, which {high} is")
    return tests


def _type_named(request: Parameters) -> str:
    given = request.value("type")
    if isinstance(given, str) and given.lower() in _OTHER_NAMES:
        return _OTHER_NAMES[given.lower()]
    return request.word("type", tuple(TYPES))


def _bound(request: Parameters, rule: str, sign: int) -> Callable[[Any], bool]:
    """At least (sign 1) or at most (sign -1) a number, a moment or a text; another kind of value breaks the rule."""
    bound = as_scalar(request.value(rule), request.at(rule))
    if type(bound) in NUMBERS:
        return lambda value: type(value) in NUMBERS and (value >= bound if sign > 0 else value <= bound)
    if not isinstance(bound, str):
        raise request.fail(rule, "a number, a date or a text")
    try:
        moment = moment_of(bound)
    except WrongKind:
        return lambda value: isinstance(value, str) and (value >= bound if sign > 0 else value <= bound)

    def holds(value: Any) -> bool:
        try:
            at = moment_of(value) if isinstance(value, str) else None
        except WrongKind:
            return False
        return at is not None and (at >= moment if sign > 0 else at <= moment)

    return holds


def _length(bound: int, sign: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str | list | dict) and (len(value) - bound) * sign >= 0


def _member(request: Parameters) -> Callable[[Any], bool]:
    options = request.value("enum")
    if not isinstance(options, list) or not options:
        raise request.fail("enum", "a list of the values that are allowed")
    if len(options) > MAX_ENUM:
        raise AnalysisError(f"{request.at('enum')} has {len(options)} values. Expected at most {MAX_ENUM}.")
    # A boolean among them makes every boolean a key that no number equals.
    keys = frozenset(keys_of([*options, True])[:-1])
    return lambda value: keys_of([value, True])[0] in keys


def _is_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(value) == len("2025-03-31") and to_date(value) is not None
    except WrongKind:
        return False


def _is_datetime(value: Any) -> bool:
    try:
        return to_datetime(value) is not None
    except WrongKind:
        return False


TYPES: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: type(value) in NUMBERS,
    "integer": _is_whole,
    "boolean": lambda value: isinstance(value, bool),
    "date": _is_date,
    "datetime": _is_datetime,
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
"""The types of a rule: a whole float is an integer, a boolean is not a number, a date is a datetime too."""

_OTHER_NAMES = {
    "str": "text",
    "string": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "timestamp": "datetime",
    "array": "list",
    "dict": "object",
}
