"""Steps that keep some rows or reorder them: where, sort, slice, distinct."""

from collections.abc import Iterable
from itertools import compress
from typing import Any

from .errors import kind_of, shown
from .evaluating import mapped, tested
from .fields import Table, field_names
from .plan import AllOf, AnyOf, Comparison, Distinct, Expression, Field, Literally, Not, Slice, Sort, Where
from .values import Unfit, keys_of, sorted_by


def where(step: Where, table: Table) -> Table:
    """The rows for which the condition holds."""
    condition = step.condition
    parts = condition.parts if isinstance(condition, AllOf) else (condition,)
    rows = table.rows
    try:
        for column in [tested(part, table) for part in parts]:
            rows = list(compress(rows, column(rows)))
    except Unfit:
        mapped(tested(condition, table), table.rows, step.at)  # says which of all rows it was
        raise
    return table.fewer(rows)


def never_compared(condition: Expression, table: Table) -> list[str]:
    """Why a condition that no row met may have been meant otherwise: it compares text with numbers, say."""
    notes = []
    for comparison in _comparisons(condition):
        match comparison:
            case Comparison(operator, Field() as field, Literally(value)) if value is not None:
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
