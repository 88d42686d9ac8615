"""The steps of `filter`, `aggregate` and `transform`: each reads its parameters, and carries itself out over tables.

A step that DuckDB may do, and a join, which reads rows of its own, are parts of a `plan`; any other one is a function
from table to table. DuckDB does the first steps where that pays.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, Literal, TypeAlias

from .duck import begin
from .errors import AnalysisError, comma_list, kind_of, nearest, quoted
from .evaluation import evaluate, mapped, tested
from .expressions import parse_conditions, parse_expression
from .groups import group, outputs, parse_group, pivot
from .limits import MAX_ITEMS, MAX_ROWS
from .parameters import (
    as_count,
    as_flag,
    as_list,
    as_names,
    as_object,
    as_text,
    as_word,
    exactly_one,
    path_to,
    repeated,
)
from .plan import (
    AllOf,
    AnyOf,
    CastType,
    Comparison,
    Constant,
    Expression,
    Field,
    Group,
    Join,
    JoinKind,
    Limits,
    Not,
    Row,
    Slice,
    Sort,
    SortKey,
    Source,
    Where,
    WorkspaceFile,
)
from .sources import CallTool, find_file, parse_source, read_rows
from .tables import Change, Step, Table, bounded_answer, field_names, rows_of
from .values import CASTS, WrongKind, keys_of, sorted_by

Planned: TypeAlias = Literal["filter", "aggregate", "transform"]

_CASTS: dict[str, CastType] = {
    "int": "int",
    "integer": "int",
    "float": "float",
    "number": "float",
    "str": "str",
    "string": "str",
    "text": "str",
    "bool": "bool",
    "boolean": "bool",
    "date": "date",
    "datetime": "datetime",
}
_JOINS: dict[str, JoinKind] = {"inner": "inner", "left": "left", "right": "right", "outer": "outer", "full": "outer"}
_DIRECTIONS = {"asc": False, "ascending": False, "desc": True, "descending": True}


def run_plan(
    kind: Planned, parameters: dict[str, Any], source: Source, limits: Limits, call_tool: CallTool
) -> dict[str, Any]:
    """The answer of a request; DuckDB does the first steps if the source is a large file and it can."""
    steps = {"filter": _filter_steps, "aggregate": _aggregate_steps, "transform": _transform_steps}[kind](parameters)
    call_tool = _once(call_tool)
    begun = None
    if isinstance(source, WorkspaceFile) and source.field is None:
        begun = begin(str(find_file(source)), source.format, steps)
    if begun is not None:
        # The Python engine meets a mistake again, and sees all rows to name it.
        with contextlib.suppress(AnalysisError):
            rows, notes = run_steps(begun.steps, Table(begun.rows, begun.before), call_tool)
            return bounded_answer(rows, name=kind, rows_in=begun.rows_in, limits=limits, engine="duckdb", notes=notes)
    given = read_rows(source, call_tool)
    rows, notes = run_steps(steps, Table(given), call_tool)
    return bounded_answer(rows, name=kind, rows_in=len(given), limits=limits, engine="python", notes=notes)


def _once(call_tool: CallTool) -> CallTool:
    """`call_tool` that remembers its answers: the second engine to try a plan calls no tool again."""
    answers: dict[str, Any] = {}

    def call(tool: str, arguments: dict[str, Any]) -> Any:
        key = json.dumps([tool, arguments], sort_keys=True)
        if key not in answers:
            answers[key] = call_tool(tool, arguments)
        return answers[key]

    return call


def run_steps(steps: Sequence[Step], table: Table, call_tool: CallTool) -> tuple[list[Row], list[str]]:
    """The rows after all steps, and remarks for the agent. The given rows are not changed."""
    notes: list[str] = []
    for step in steps:
        before, table = table, _carried_out(step, table, call_tool)
        if isinstance(step, Where) and not table.rows:
            if step.is_rest:
                raise AnalysisError(f"{step.at}: no row is left, and only all rows can explain it.")
            if before.rows:
                notes += never_compared(step.condition, before)
    return table.rows, notes


def _carried_out(step: Step, table: Table, call_tool: CallTool) -> Table:
    match step:
        case Where():
            return where(step, table)
        case Group():
            return group(step, table)
        case Join():
            return join(step, table, Table(read_rows(step.source, call_tool)))
        case Sort():
            return sort(step, table)
        case Slice():
            end = None if step.limit is None else step.offset + step.limit
            return table.fewer(table.rows[step.offset : end])
    return step(table)


def _filter_steps(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _FILTER)
    first = [*_given_steps(parameters, *_FIRST), *_condition_steps(parameters)]
    distinct, sorted_ = _given_steps(parameters, "distinct"), _given_steps(parameters, "sort")
    selected, sliced = _select_steps(parameters, "fields", "output_fields"), _slice_steps(parameters)
    if parameters.get("distinct") in (True, []):  # of the rows as the answer shows them
        return [*first, *sorted_, *selected, *distinct, *sliced]
    return [*first, *distinct, *sorted_, *sliced, *selected]


def _aggregate_steps(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _AGGREGATE)
    grouped = parse_group(parameters)
    steps = [*_given_steps(parameters, *_FIRST), *_condition_steps(parameters), grouped]
    if parameters.get("having"):
        steps.append(Where(at="having", condition=parse_conditions(parameters["having"], "having")))
    return [*steps, *_given_steps(parameters, "sort"), *_slice_steps(parameters)]


def _transform_steps(given: dict[str, Any]) -> list[Step]:
    parameters = as_object(given, "", _TRANSFORM)
    if "steps" in parameters:
        if beside := [key for key in parameters if key != "steps"]:
            raise AnalysisError(f"'steps' and {comma_list(beside)} are both given. Make steps of them.")
        return _listed_steps(parameters["steps"], "steps")
    before = _given_steps(parameters, *(name for name in STEPS if name not in ("select", *_AFTER)))
    selected = _select_steps(parameters, "select", "output_fields")
    after = _given_steps(parameters, *(name for name in _AFTER if name not in ("offset", "limit")))
    return [*_condition_steps(parameters), *before, *selected, *after, *_slice_steps(parameters)]


def _condition_steps(parameters: dict[str, Any]) -> list[Step]:
    given = parameters.get("conditions")
    condition = parse_conditions(given or [], "conditions", logic=parameters.get("logic") or "AND")
    return [Where(at="conditions", condition=condition)] if given else []


def _select_steps(parameters: dict[str, Any], *names: str) -> list[Step]:
    given = [name for name in names if parameters.get(name) is not None]
    if len(given) > 1:
        raise AnalysisError(f"{comma_list(given)} are the same parameter. Give one of them.")
    return [STEPS["select"](parameters[name], name) for name in given]


_STEP = '{"compute": {"total": "price * count"}}'


def _given_steps(parameters: dict[str, Any], *names: str) -> list[Step]:
    given = [name for name in names if parameters.get(name) is not None and parameters[name] is not False]
    return [STEPS[name](parameters[name], name) for name in given]


def _listed_steps(given: Any, at: str) -> list[Step]:
    """The steps of a list, in its order."""
    if isinstance(given, dict):
        raise AnalysisError(f"{at} is {quoted(given)}. Give a list of steps like {_STEP}.")
    steps: list[Step] = []
    for place, each in enumerate(as_list(given, at)):
        here = path_to(at, place)
        if not isinstance(each, dict) or len(each) != 1:
            raise AnalysisError(
                f"{here} is {quoted(each)}. A step is an object of one key, like {_STEP}: {comma_list(STEPS)}."
            )
        [(name, value)] = each.items()
        if name not in STEPS:
            raise AnalysisError(f"No step {name!r} ({here}).{nearest(str(name), STEPS)} Steps: {comma_list(STEPS)}.")
        steps.append(STEPS[name](value, path_to(here, name)))
    return steps


def _slice_steps(parameters: dict[str, Any]) -> list[Step]:
    """The `offset` and `limit` beside other parameters, as one step."""
    return [_limit(parameters, "")] if parameters.keys() & {"offset", "limit"} else []


def _limit(given: Any, at: str) -> Slice:
    if not isinstance(given, dict):
        return Slice(at=at, limit=as_count(given, at))
    offset, limit = given.get("offset"), given.get("limit")
    return Slice(
        at=path_to(at, "limit"),
        offset=0 if offset is None else as_count(offset, path_to(at, "offset")),
        limit=None if limit is None else as_count(limit, path_to(at, "limit")),
    )


def _fields(given: Any, at: str) -> tuple[Field, ...]:
    return tuple(Field(name, place) for name, place in as_names(given, at))


def _entries(given: Any, at: str, example: str) -> dict[str, Any]:
    if isinstance(given, dict) and given and len(given) <= MAX_ITEMS and all(type(key) is str for key in given):
        return given
    raise AnalysisError(f"{at} is {quoted(given)}. Give an object such as {example}.")


def where(step: Where, table: Table) -> Table:
    """The rows for which the condition holds."""
    condition = step.condition
    parts = condition.parts if isinstance(condition, AllOf) else (condition,)
    rows = table.rows
    try:
        for column in [tested(part, table) for part in parts]:
            rows = list(compress(rows, column(rows)))
    except WrongKind:
        mapped(tested(condition, table), table.rows, step.at)  # reports the row
        raise
    return table.fewer(rows)


def never_compared(condition: Expression, table: Table) -> list[str]:
    """The likely mistake in a condition that no row met, such as a comparison of text with numbers."""
    notes = []
    for comparison in _comparisons(condition):
        match comparison:
            case Comparison(operator, Field() as field, Constant(value)) if value is not None:
                kinds = {kind_of(each) for each in table.read(field)} - {"null"}
                if kinds and kind_of(value) not in kinds:
                    found = " or ".join(sorted(kinds))
                    notes.append(
                        f"{field.at}: {field.name!r} is {found} in every row and {quoted(value)} is {kind_of(value)}, "
                        f"so {operator!r} holds for {'all' if operator == '!=' else 'none'}. Cast one of them."
                    )
    return notes


def _comparisons(condition: Expression) -> Iterable[Expression]:
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _comparisons(part)
        case Not(operand):
            yield from _comparisons(operand)
        case _:
            yield condition


def _sort(given: Any, at: str) -> Sort:
    entries = given if isinstance(given, list) else [given]
    keys = tuple(_sort_key(each, path_to(at, place)) for place, each in enumerate(as_list(entries, at)))
    return Sort(at=at, keys=keys)


def _sort_key(given: Any, at: str) -> SortKey:
    if isinstance(given, str):
        name = as_text(given.removeprefix("-"), at)
        return SortKey(field=Field(name, at), descending=given.startswith("-"))
    entry = as_object(given, at, ("field", "descending", "order"))
    field_at = path_to(at, "field")
    field = Field(as_text(exactly_one(entry, at, "field"), field_at), field_at)
    if "order" in entry:
        exactly_one(entry, at, "descending", "order")
        return SortKey(field=field, descending=as_word(entry["order"], path_to(at, "order"), _DIRECTIONS))
    return SortKey(field=field, descending=as_flag(entry.get("descending", False), path_to(at, "descending")))


def sort(step: Sort, table: Table) -> Table:
    """The rows by the first key, within equals by the next."""
    rows = table.rows
    for key in reversed(step.keys):
        rows = sorted_by(rows, table.reader(key.field)(rows), descending=key.descending)
    return table.fewer(rows)


def _distinct(given: Any, at: str) -> Change:
    """The first row of each combination of the named fields, or of all fields."""
    named = None if given is True or given == [] else _fields(given, at)

    def change(table: Table) -> Table:
        fields = [Field(name) for name in field_names(table.rows)] if named is None else named
        columns: list[Any] = [keys_of(table.read(field)) for field in fields]
        firsts: dict[Any, Any] = {}
        for key, row in zip(zip(*columns, strict=True), table.rows, strict=True) if columns else ():
            firsts.setdefault(key, row)
        return table.fewer(list(firsts.values()) if columns else table.rows[:1])

    return change


def _select(given: Any, at: str) -> Change:
    """Rows of exactly these fields, null where a row has none."""
    named = outputs(given, at)
    return lambda table: Table(rows_of({output.name: table.read(output.field) for output in named}))


def _drop(given: Any, at: str) -> Change:
    """Rows without these fields; names, not paths."""
    fields = _fields(given, at)
    names = {field.name for field in fields}

    def change(table: Table) -> Table:
        table.require(fields)
        return Table([{name: value for name, value in row.items() if name not in names} for row in table.rows])

    return change


def _rename(given: Any, at: str) -> Change:
    """Rows with fields under new names, in their old places; names, not paths. A name that a row has is an error."""
    names = {old: as_text(new, path_to(at, old)) for old, new in _entries(given, at, "{'old': 'new'}").items()}
    if twice := repeated(names.values()):
        raise AnalysisError(f"{at} makes {comma_list(twice)} twice. Give each field a name of its own.")

    def change(table: Table) -> Table:
        table.require(Field(old, path_to(at, old)) for old in names)
        for old, new in names.items():
            if new not in names and any(new in row for row in table.rows):
                raise AnalysisError(
                    f"{path_to(at, old)} is {new!r}, which the rows already have. Choose another, or drop that."
                )
        return Table([{names.get(name, name): value for name, value in row.items()} for row in table.rows])

    return change


def _cast(given: Any, at: str) -> Change:
    """Rows whose fields have other types; names, not paths. Null stays null."""
    casts = [
        (Field(name, path_to(at, name)), *_cast_to(entry, path_to(at, name)))
        for name, entry in _entries(given, at, "{'amount': 'float'}").items()
    ]

    def change(table: Table) -> Table:
        table.require(field for field, _, _ in casts)
        rows = [row.copy() for row in table.rows]
        for field, kind, is_lenient in casts:
            _cast_field(field, kind, rows, is_lenient=is_lenient)
        return table.changed(rows)

    return change


def _cast_to(given: Any, at: str) -> tuple[CastType, bool]:
    """The type, and true if a value that has no such form becomes null."""
    shown_as = tuple(CASTS)
    if isinstance(given, str):
        return as_word(given, at, _CASTS, shown_as=shown_as), False
    entry = as_object(given, at, ("to", "invalid"))
    kind = as_word(exactly_one(entry, at, "to"), path_to(at, "to"), _CASTS, shown_as=shown_as)
    return kind, as_word(entry.get("invalid", "error"), path_to(at, "invalid"), {"error": False, "null": True})


def _cast_field(field: Field, kind: CastType, rows: list[Row], *, is_lenient: bool) -> None:
    turn, name = CASTS[kind], field.name
    problem: WrongKind | None = None
    bad: list[int] = []
    for number, row in enumerate(rows):
        if row.get(name) is None:
            continue
        try:
            row[name] = turn(row[name])
        except WrongKind as error:
            problem = problem or error
            bad.append(number)
            row[name] = None
    if problem is not None and not is_lenient:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise AnalysisError(
            f"{field.at}: {problem}, in row {bad[0]}{more}. "
            f"Clean the values first, or give {{'to': {kind!r}, 'invalid': 'null'}}."
        )


def _compute(given: Any, at: str) -> Change:
    """Rows with fields from expressions; each sees those before it. A new field comes last, an old one stays."""
    fields = [
        (name, parse_expression(text, path_to(at, name)))
        for name, text in _entries(given, at, "{'total': 'price * quantity'}").items()
    ]

    def change(table: Table) -> Table:
        table = table.changed([row.copy() for row in table.rows])
        for name, expression in fields:
            column = evaluate(expression, table, path_to(at, name))
            for row, value in zip(table.rows, column, strict=True):
                row[name] = value
            table = table.changed(table.rows, name)
        return table

    return change


def _flatten(given: Any, at: str) -> Change:
    """Objects in some fields or all replaced by their fields as `name<separator>inner`, at every depth.

    Null in a flattened field is dropped; other values stay. Names, not paths.
    """
    separator, fields = ".", None
    if isinstance(given, dict):
        entry = as_object(given, at, ("field", "fields", "separator"))
        separator = entry.get("separator", ".")
        if not isinstance(separator, str):
            raise AnalysisError(f"{path_to(at, 'separator')} is {quoted(separator)}. Give a text, for instance '_'.")
        if entry.keys() & {"field", "fields"}:
            fields = _fields(exactly_one(entry, at, "field", "fields"), at)
    elif given is not True and given != "*":
        fields = _fields(given, at)
    names = None if fields is None else {field.name for field in fields}

    def change(table: Table) -> Table:
        table.require(fields or ())
        rows = []
        for number, row in enumerate(table.rows):
            flat: Row = {}
            for key, leaf in _flat_pairs(row, names, separator):
                if key in flat:
                    raise AnalysisError(f"{at} makes {key!r} twice in row {number}. Give another 'separator'.")
                flat[key] = leaf
            rows.append(flat)
        return Table(rows)

    return change


def _flat_pairs(row: Row, names: set[str] | None, separator: str) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if names is not None and name not in names:
            yield name, value
        elif names is None or value is not None:
            yield from _leaves(name, value, separator)


def _leaves(name: str, value: Any, separator: str) -> Iterator[tuple[str, Any]]:
    if type(value) is not dict:
        yield name, value
        return
    for key, inner in value.items():
        yield from _leaves(f"{name}{separator}{key}", inner, separator)


def _explode(given: Any, at: str) -> Change:
    """A row for each element of a list; an empty list gives one row with null, any other value stays."""
    if isinstance(given, dict):
        given = exactly_one(as_object(given, at, ("field",)), at, "field")
    field = Field(as_text(given, at), at)

    def change(table: Table) -> Table:
        table.require((field,))
        name = field.name
        values = [row.get(name) for row in table.rows]
        _check_rows(sum(len(value) for value in values if type(value) is list), at)
        rows: list[Row] = []
        for row, value in zip(table.rows, values, strict=True):
            if type(value) is list:
                rows += [{**row, name: element} for element in value or (None,)]
            else:
                rows.append(row)
        return table.changed(rows)

    return change


def _unpivot(given: Any, at: str) -> Change:
    """A row for each of `fields` of each row, with its name and value.

    Without `fields`, for each field but `index`, in the order they first appear.
    """
    entry = as_object(given, at, ("index", "fields", "name", "value"))
    index = outputs(entry["index"], path_to(at, "index")) if entry.get("index") else ()
    given_fields = None if entry.get("fields") is None else _fields(entry["fields"], path_to(at, "fields"))
    name_to = as_text(entry.get("name", "name"), path_to(at, "name"))
    value_to = as_text(entry.get("value", "value"), path_to(at, "value"))
    if twice := repeated([*(output.name for output in index), name_to, value_to]):
        raise AnalysisError(f"{at} makes {comma_list(twice)} twice. Set 'name' and 'value' to other names.")

    def change(table: Table) -> Table:
        labels = [(output.name, table.read(output.field)) for output in index]
        fields = given_fields
        if fields is None:
            kept = {output.field.name for output in index}
            fields = tuple(Field(name) for name in field_names(table.rows) if name not in kept)
        columns = [(field.name, table.read(field)) for field in fields]
        _check_rows(len(table.rows) * len(columns), at)
        rows: list[Row] = []
        for place in range(len(table.rows)):
            fixed = {name: column[place] for name, column in labels}
            rows += [{**fixed, name_to: name, value_to: column[place]} for name, column in columns]
        return Table(rows)

    return change


def _check_rows(count: int, at: str) -> None:
    if count > MAX_ROWS:
        raise AnalysisError(f"{at} makes more than {MAX_ROWS} rows. Filter or aggregate before it.")


def _join(given: Any, at: str) -> Join:
    known = ("data", "source", "data_field", "on", "left_on", "right_on", "how", "suffix")
    entry = as_object(given, at, known)
    how = as_word(entry.get("how", "inner"), path_to(at, "how"), _JOINS, shown_as=("inner", "left", "right", "outer"))
    return Join(
        at=at,
        source=parse_source(entry, at, entry.get("data_field")),
        on=_on(entry, at),
        how=how,
        suffix=as_text(entry.get("suffix", "_right"), path_to(at, "suffix")),
    )


def _on(entry: dict[str, Any], at: str) -> tuple[tuple[Field, Field], ...]:
    if "left_on" in entry or "right_on" in entry:
        lefts = _fields(exactly_one(entry, at, "left_on"), path_to(at, "left_on"))
        rights = _fields(exactly_one(entry, at, "right_on"), path_to(at, "right_on"))
        if len(lefts) != len(rights) or "on" in entry:
            raise AnalysisError(f"{at} needs as many fields in 'right_on' as in 'left_on', and no 'on'.")
        return tuple(zip(lefts, rights, strict=True))
    given, place = exactly_one(entry, at, "on"), path_to(at, "on")
    if isinstance(given, dict):
        pairs = _entries(given, place, "{'customer_id': 'id'}").items()
        return tuple((Field(left, place), Field(as_text(right, place), place)) for left, right in pairs)
    return tuple((field, field) for field in _fields(given, place))


def join(step: Join, left: Table, right: Table) -> Table:
    """Each left row with the right rows of the same keys."""
    left_keys = _keys([pair[0] for pair in step.on], left)
    right_keys = _keys([pair[1] for pair in step.on], right)
    names_of_both = (mine.name for mine, other in step.on if mine.name == other.name)
    shared = {name for name in names_of_both if left.has(name) and right.has(name)}  # and not a path
    left_names = field_names(left.rows)
    names = _right_names(step, left_names, field_names(right.rows), shared)
    parts = [{new: row.get(old) for old, new in names.items()} for row in right.rows]
    matches: defaultdict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(right_keys):
        if key is not None:
            matches[key].append(place)
    # Counted before any is made: equal keys on both sides multiply.
    _check_rows(sum(len(matches[key]) for key in left_keys if key is not None and key in matches), step.at)
    rows: list[Row] = []
    used: set[int] = set()
    nothing = dict.fromkeys(names.values()) if step.how in ("left", "outer") else None
    for row, key in zip(left.rows, left_keys, strict=True):
        places = matches.get(key, ()) if key is not None else ()
        if places:
            rows += [{**row, **parts[place]} for place in places]
            used.update(places)
        elif nothing is not None:
            rows.append({**row, **nothing})
    if step.how in ("right", "outer"):
        empty: Row = dict.fromkeys(left_names)
        rest = (place for place in range(len(parts)) if place not in used)
        rows += [
            empty | {name: right.rows[place].get(name) for name in shared} | parts[place] for place in rest
        ]  # fmt: skip
    return Table(rows)


def _keys(fields: list[Field], table: Table) -> Sequence[Any]:
    """The keys of a join; null for a row with a null in any field."""
    columns = [table.read(field) for field in fields]
    if len(columns) == 1:
        return keys_of(columns[0])
    keys = zip(*map(keys_of, columns), strict=True)
    return [None if None in key else key for key in keys]


def _right_names(step: Join, left: list[str], right: list[str], shared: set[str]) -> dict[str, str]:
    """The names that the fields of the right side get."""
    taken = set(left)
    names = {name: f"{name}{step.suffix}" if name in taken else name for name in right if name not in shared}
    if twice := repeated([*left, *names.values()]):
        raise AnalysisError(f"{step.at}: {comma_list(twice)} would stand for two fields. Give another 'suffix'.")
    return names


STEPS: dict[str, Callable[[Any, str], Step]] = {
    "filter": lambda given, at: Where(at=at, condition=parse_conditions(given, at)),
    "flatten": _flatten,
    "explode": _explode,
    "join": _join,
    "cast": _cast,
    "compute": _compute,
    "aggregate": lambda given, at: parse_group(as_object(given, at, ("group_by", "aggregations")), at),
    "pivot": pivot,
    "unpivot": _unpivot,
    "select": _select,
    "drop": _drop,
    "rename": _rename,
    "distinct": _distinct,
    "sort": _sort,
    "offset": lambda given, at: Slice(at=at, offset=as_count(given, at)),
    "limit": lambda given, at: _limit(
        as_object(given, at, ("limit", "offset")) if isinstance(given, dict) else given, at
    ),
}
"""The reader of each step, in the order in which steps beside each other in parameters are carried out."""

_FIRST = ("join", "compute")
_LAST = ("sort", "offset", "limit")
_FILTER = (*_FIRST, "conditions", "logic", "fields", "output_fields", "distinct", *_LAST)
_AGGREGATE = (*_FIRST, "conditions", "logic", "group_by", "aggregations", "having", *_LAST)
_TRANSFORM = ("steps", "conditions", "logic", "output_fields", *(name for name in STEPS if name != "filter"))
_AFTER = tuple(STEPS)[tuple(STEPS).index("select") + 1 :]
