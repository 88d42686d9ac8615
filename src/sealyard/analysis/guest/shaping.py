"""Steps that change the fields of rows: select, drop, rename, cast, compute, flatten, explode, unpivot."""

from collections.abc import Iterator
from typing import Any

from .errors import AnalysisError
from .evaluating import evaluate
from .fields import Table, field_names, rows_of
from .plan import MAX_ROWS, Cast, CastTo, Compute, Drop, Explode, Field, Flatten, Rename, Row, Select, Unpivot
from .values import Unfit, cast_to


def select(step: Select, table: Table) -> Table:
    """Rows of exactly these fields."""
    return Table(rows_of({output.name: table.read(output.field) for output in step.outputs}))


def drop(step: Drop, table: Table) -> Table:
    """Rows without these fields."""
    table.require(step.fields)
    names = {field.name for field in step.fields}
    return Table([{name: value for name, value in row.items() if name not in names} for row in table.rows])


def rename(step: Rename, table: Table) -> Table:
    """Rows with some fields under new names.

    Raises:
        AnalysisError: A new name is that of another field.
    """
    table.require(field for field, _ in step.names)
    names = {field.name: new for field, new in step.names}
    for field, new in step.names:
        if new not in names and any(new in row for row in table.rows):
            raise AnalysisError(f"{field.at} is {new!r}, which the rows already have. Choose another, or drop that.")
    return Table([{names.get(name, name): value for name, value in row.items()} for row in table.rows])


def cast(step: Cast, table: Table) -> Table:
    """Rows whose fields have the types that were asked for.

    Raises:
        AnalysisError: A value has no form of that type, and `invalid` does not say `null`.
    """
    table.require(each.field for each in step.fields)
    rows = [row.copy() for row in table.rows]
    for each in step.fields:
        _cast_field(each, rows)
    return table.changed(rows)


def _cast_field(each: CastTo, rows: list[Row]) -> None:
    turn, name = cast_to(each.type), each.field.name
    problem: Unfit | None = None
    bad: list[int] = []
    for number, row in enumerate(rows):
        if name not in row:
            continue
        try:
            row[name] = turn(row[name])
        except Unfit as error:
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
    """Rows with the fields of nested objects as fields of their own.

    Raises:
        AnalysisError: A row then has a field twice.
    """
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
    """A row for each element of a list.

    Raises:
        AnalysisError: They are too many.
    """
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
    """A row for each field of each row.

    Raises:
        AnalysisError: They are too many, or a field is unknown.
    """
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
    """Raises `AnalysisError` for more rows than a step may make."""
    if count > MAX_ROWS:
        raise AnalysisError(f"{at} makes more than {MAX_ROWS} rows. Filter or aggregate before it.")
