"""Carries out the steps of a plan over tables in memory; DuckDB does the first ones where that pays."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

from .aggregates import reducer
from .answers import bounded_answer
from .duck import begin
from .errors import AnalysisError, kind_of, listed, shown
from .evaluation import evaluate, mapped, tested
from .parameters import repeated
from .plan import (
    MAX_ROWS,
    Aggregate,
    AllOf,
    AnyOf,
    Cast,
    CastTo,
    Comparison,
    Compute,
    Constant,
    Distinct,
    Drop,
    Explode,
    Expression,
    Field,
    Flatten,
    Group,
    Join,
    Not,
    Output,
    Pivot,
    Plan,
    Rename,
    Row,
    Select,
    Slice,
    Sort,
    Step,
    Unpivot,
    Where,
    WorkspaceFile,
)
from .sources import CallTool, find_file, read_rows
from .tables import Table, field_names, rows_of
from .values import CASTS, WrongKind, keys_of, sorted_by, text_of

MAX_COLUMNS = 1_000
"""Most columns of a pivot."""


def run_plan(plan: Plan, call_tool: CallTool, name: str) -> dict[str, Any]:
    """The answer of a plan; DuckDB does the first steps if the source is a large file and it can."""
    source = plan.source
    begun = None
    if isinstance(source, WorkspaceFile) and source.field is None:
        begun = begin(str(find_file(source)), source.format, plan.steps)
    notes: list[str] = []
    if begun is not None:
        # The Python engine finds a mistake again, and sees all rows to name it.
        with contextlib.suppress(AnalysisError):
            rows = run_steps(begun.steps, begun.rows, call_tool, notes)
            return bounded_answer(
                rows, name=name, rows_in=begun.rows_in, limits=plan.limits, engine="duckdb", notes=notes
            )
    given = read_rows(plan.source, call_tool)
    notes = []
    rows = run_steps(plan.steps, given, call_tool, notes)
    return bounded_answer(rows, name=name, rows_in=len(given), limits=plan.limits, engine="python", notes=notes)


def run_steps(steps: Sequence[Step], rows: list[Row], call_tool: CallTool, notes: list[str]) -> list[Row]:
    """The rows after all steps. Remarks for the agent are added to `notes`. The given rows are not changed."""
    table = Table(rows)
    for step in steps:
        before, table = table, _done(step, table, call_tool)
        if isinstance(step, Where) and before.rows and not table.rows:
            notes += never_compared(step.condition, before)
    return table.rows


def _done(step: Step, table: Table, call_tool: CallTool) -> Table:
    if isinstance(step, Join):
        return join(step, table, Table(read_rows(step.source, call_tool)))
    return _STEPS[type(step)](step, table)


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
                        f"{field.at}: {field.name!r} is {found} in every row and {shown(value)} is {kind_of(value)}, "
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


def sort(step: Sort, table: Table) -> Table:
    """The rows by the first key, within equals by the next."""
    rows = table.rows
    for key in reversed(step.keys):
        rows = sorted_by(rows, table.reader(key.field)(rows), descending=key.descending)
    return table.fewer(rows)


def sliced(step: Slice, table: Table) -> Table:
    """The rows after the first `offset`, at most `limit`."""
    end = None if step.limit is None else step.offset + step.limit
    return table.fewer(table.rows[step.offset : end])


def distinct(step: Distinct, table: Table) -> Table:
    """The first row of each combination of values."""
    fields = [Field(name) for name in field_names(table.rows)] if step.fields is None else step.fields
    columns: list[Any] = [keys_of(table.read(field)) for field in fields]
    firsts: dict[Any, Any] = {}
    for key, row in zip(zip(*columns, strict=True), table.rows, strict=True) if columns else ():
        firsts.setdefault(key, row)
    return table.fewer(list(firsts.values()) if columns else table.rows[:1])


def select(step: Select, table: Table) -> Table:
    """Rows of exactly these fields."""
    return Table(rows_of({output.name: table.read(output.field) for output in step.outputs}))


def drop(step: Drop, table: Table) -> Table:
    """Rows without these fields."""
    table.require(step.fields)
    names = {field.name for field in step.fields}
    return Table([{name: value for name, value in row.items() if name not in names} for row in table.rows])


def rename(step: Rename, table: Table) -> Table:
    """Rows with some fields under new names."""
    table.require(field for field, _ in step.names)
    names = {field.name: new for field, new in step.names}
    for field, new in step.names:
        if new not in names and any(new in row for row in table.rows):
            raise AnalysisError(f"{field.at} is {new!r}, which the rows already have. Choose another, or drop that.")
    return Table([{names.get(name, name): value for name, value in row.items()} for row in table.rows])


def cast(step: Cast, table: Table) -> Table:
    """Rows whose fields have the types that were asked for."""
    table.require(each.field for each in step.fields)
    rows = [row.copy() for row in table.rows]
    for each in step.fields:
        _cast_field(each, rows)
    return table.changed(rows)


def _cast_field(each: CastTo, rows: list[Row]) -> None:
    turn, name = CASTS[each.type], each.field.name
    problem: WrongKind | None = None
    bad: list[int] = []
    for number, row in enumerate(rows):
        if name not in row:
            continue
        try:
            row[name] = turn(row[name])
        except WrongKind as error:
            problem = problem or error
            bad.append(number)
            row[name] = None
    if problem is not None and each.invalid == "error":
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise AnalysisError(
            f"{each.field.at}: {problem}, in row {bad[0]}{more}. "
            f"Clean the values first, or give {{'to': {each.type!r}, 'invalid': 'null'}}."
        )


def compute(step: Compute, table: Table) -> Table:
    """Rows with computed fields; each expression sees the fields before it."""
    table = table.changed([row.copy() for row in table.rows])
    for name, expression in step.fields:
        column = evaluate(expression, table, f"{step.at}.{name}")
        for row, value in zip(table.rows, column, strict=True):
            row[name] = value
        table = table.changed(table.rows, name)
    return table


def flatten(step: Flatten, table: Table) -> Table:
    """Rows with the fields of nested objects as fields of their own."""
    if step.fields is not None:
        table.require(step.fields)
    names = None if step.fields is None else {field.name for field in step.fields}
    return Table([_flat_row(row, names, step, number) for number, row in enumerate(table.rows)])


def _flat_row(row: Row, names: set[str] | None, step: Flatten, number: int) -> Row:
    flat: Row = {}
    for name, value in row.items():
        if names is not None and name not in names:
            pairs: Iterator[tuple[str, Any]] = iter(((name, value),))
        else:
            pairs = _leaves(name, value, step.separator)
            if value is None and names is not None:
                continue
        for key, leaf in pairs:
            if key in flat:
                raise AnalysisError(f"{step.at} makes {key!r} twice in row {number}. Give another 'separator'.")
            flat[key] = leaf
    return flat


def _leaves(name: str, value: Any, separator: str) -> Iterator[tuple[str, Any]]:
    if type(value) is not dict:
        yield name, value
        return
    for key, inner in value.items():
        yield from _leaves(f"{name}{separator}{key}", inner, separator)


def explode(step: Explode, table: Table) -> Table:
    """A row for each element of a list."""
    table.require((step.field,))
    name = step.field.name
    values = [row.get(name) for row in table.rows]
    check_rows(sum(len(value) for value in values if type(value) is list), step.at)
    rows: list[Row] = []
    for row, value in zip(table.rows, values, strict=True):
        if type(value) is list:
            rows += [{**row, name: element} for element in value or (None,)]
        else:
            rows.append(row)
    return table.changed(rows)


def unpivot(step: Unpivot, table: Table) -> Table:
    """A row for each field of each row."""
    index = [(output.name, table.read(output.field)) for output in step.index]
    fields = step.fields
    if fields is None:
        kept = {output.field.name for output in step.index}
        fields = tuple(Field(name) for name in field_names(table.rows) if name not in kept)
    columns = [(field.name, table.read(field)) for field in fields]
    check_rows(len(table.rows) * len(columns), step.at)
    rows: list[Row] = []
    for place in range(len(table.rows)):
        fixed = {name: column[place] for name, column in index}
        rows += [{**fixed, step.name: name, step.value: column[place]} for name, column in columns]
    return Table(rows)


def check_rows(count: int, at: str) -> None:
    """Refuses more rows than a step may make."""
    if count > MAX_ROWS:
        raise AnalysisError(f"{at} makes more than {MAX_ROWS} rows. Filter or aggregate before it.")


def join(step: Join, left: Table, right: Table) -> Table:
    """Each left row with the right rows of the same keys."""
    left_keys = _keys([pair[0] for pair in step.on], left)
    right_keys = _keys([pair[1] for pair in step.on], right)
    shared = {mine.name for mine, other in step.on if mine.name == other.name and _is_top(mine, left, right)}
    left_names = field_names(left.rows)
    names = _right_names(step, left_names, field_names(right.rows), shared)
    parts = [{new: row.get(old) for old, new in names.items()} for row in right.rows]
    matches: defaultdict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(right_keys):
        if key is not None:
            matches[key].append(place)
    # Counted before any is made: equal keys on both sides multiply.
    check_rows(sum(len(matches[key]) for key in left_keys if key is not None and key in matches), step.at)
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


def _is_top(field: Field, left: Table, right: Table) -> bool:
    """True if both sides have a field of this name; false for a path."""
    return left.has(field.name) and right.has(field.name)


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
        raise AnalysisError(f"{step.at}: {listed(twice)} would stand for two fields. Give another 'suffix'.")
    return names


def group(step: Group, table: Table) -> Table:
    """A row for each group, in the order of their first rows."""
    columns = [table.read(output.field) for output in step.keys]
    numbers, firsts = _numbered(columns, len(table.rows))
    results: list[Sequence[Any]] = [[column[first] for first in firsts] for column in columns]
    values: dict[str, tuple[list[Any], list[list[Any]]]] = {}
    for aggregate in step.aggregates:
        if aggregate.value is None:
            counts = Counter(numbers)
            results.append([counts[number] for number in range(len(firsts))])
            continue
        # Several aggregates of one field share its values.
        name = aggregate.value.name if isinstance(aggregate.value, Field) else ""
        column, buckets = values.get(name) or _buckets(aggregate, table, numbers, len(firsts))
        if name:
            values[name] = column, buckets
        results.append(list(map(reducer(aggregate, column), buckets)))
    names = [output.name for output in step.keys] + [aggregate.name for aggregate in step.aggregates]
    return Table(rows_of(dict(zip(names, results, strict=True))))


def pivot(step: Pivot, table: Table) -> Table:
    """A row for each combination of the index, a column for each value of a field."""
    index = [table.read(output.field) for output in step.index]
    heads = table.read(step.columns)
    names = _column_names(step, heads)
    rows, row_firsts = _numbered(index, len(table.rows))
    cells, cell_firsts = _numbered([*index, heads], len(table.rows))
    aggregate = Aggregate(
        name="", function=step.function or "first", value=step.value, percentile=step.percentile, at=step.at
    )
    if step.value is None:
        counts = Counter(cells)
        results: list[Any] = [counts[number] for number in range(len(cell_firsts))]
    else:
        column, buckets = _buckets(aggregate, table, cells, len(cell_firsts))
        if step.function is None:
            _require_single(step, buckets, cell_firsts, table)
        results = list(map(reducer(aggregate, column), buckets))
    empty = 0 if step.function == "count" else None
    answer: list[Row] = [
        {output.name: column[first] for output, column in zip(step.index, index, strict=True)}
        | dict.fromkeys(names.values(), empty)
        for first in row_firsts
    ]
    keys = keys_of(heads)
    for first, result in zip(cell_firsts, results, strict=True):
        answer[rows[first]][names[keys[first]]] = result
    return Table(answer)


def _numbered(columns: Sequence[Sequence[Any]], count: int) -> tuple[list[int], list[int]]:
    """The number of each row's group, and the first row of each group; one group without columns."""
    if not columns:
        return [0] * count, [0]
    keys = keys_of(columns[0]) if len(columns) == 1 else list(zip(*map(keys_of, columns), strict=True))
    seen: defaultdict[Any, int] = defaultdict()
    seen.default_factory = seen.__len__
    numbers = [seen[key] for key in keys]
    firsts = dict(zip(reversed(numbers), range(count - 1, -1, -1), strict=True))
    return numbers, [firsts[number] for number in range(len(seen))]


def _buckets(aggregate: Aggregate, table: Table, numbers: list[int], count: int) -> tuple[list[Any], list[list[Any]]]:
    """The values of an aggregate, and for each group those that are not null."""
    assert aggregate.value is not None
    column = evaluate(aggregate.value, table, aggregate.at)
    buckets: list[list[Any]] = [[] for _ in range(count)]
    add = [bucket.append for bucket in buckets]
    for number, value in zip(numbers, column, strict=True):
        if value is not None:
            add[number](value)
    return column, buckets


def _column_names(step: Pivot, heads: list[Any]) -> dict[Any, str]:
    """The name of the column of each value, in the order of the values."""
    keys = keys_of(heads)
    by_key = dict(zip(reversed(keys), reversed(heads), strict=True))
    if len(by_key) > MAX_COLUMNS:
        raise AnalysisError(
            f"{step.columns.at}: {step.columns.name!r} has {len(by_key)} values, and a pivot has at most {MAX_COLUMNS} "
            "columns. Choose a field with fewer, or group by it."
        )
    ordered = sorted_by(list(by_key), list(by_key.values()), descending=False)
    names = {key: "null" if by_key[key] is None else text_of(by_key[key]) for key in ordered}
    every = [*names.values(), *(output.name for output in step.index)]
    if twice := repeated(every):
        raise AnalysisError(f"{step.at} makes the columns {listed(twice)} twice. Rename the index or cast the field.")
    return names


def _require_single(step: Pivot, buckets: list[list[Any]], firsts: list[int], table: Table) -> None:
    for bucket, first in zip(buckets, firsts, strict=True):
        if len(bucket) > 1:
            fields = [*step.index, Output(name=step.columns.name, field=step.columns)]
            cell = ", ".join(
                f"{each.name} {shown(table.reader(each.field)(table.rows[first:][:1])[0])}" for each in fields
            )
            raise AnalysisError(
                f"{step.at}: the cell of {cell} has {len(bucket)} values. Give 'function', such as 'sum'."
            )


_STEPS: dict[type[Step], Callable[[Any, Table], Table]] = {
    Where: where,
    Select: select,
    Drop: drop,
    Rename: rename,
    Cast: cast,
    Compute: compute,
    Flatten: flatten,
    Explode: explode,
    Group: group,
    Pivot: pivot,
    Unpivot: unpivot,
    Sort: sort,
    Slice: sliced,
    Distinct: distinct,
}
