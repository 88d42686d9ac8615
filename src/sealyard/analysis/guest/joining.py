"""The step that puts the rows of two sets side by side."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from .errors import AnalysisError, listed
from .fields import Table, field_names
from .parameters import repeated
from .plan import Field, Join, Row
from .shaping import check_rows
from .values import keys_of


def join(step: Join, left: Table, right: Table) -> Table:
    """Each left row with the right rows of the same keys.

    Raises:
        AnalysisError: A field is unknown, names collide, or the rows are too many.
    """
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
    """Whether the field is one of that very name on both sides, not a path."""
    return left.has(field.name) and right.has(field.name)


def _keys(fields: list[Field], table: Table) -> Sequence[Any]:
    """What the rows match by; null for a row that has a null in any field."""
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
