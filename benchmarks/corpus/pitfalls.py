"""Known operations after which the nearest call is a wrong one: whoever goes by names, types or defaults falls for it.

None of them can be translated by the definitions alone, so that refusing is always right.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.corpus.changes import Mutation, Truth, edited, properties_of
from benchmarks.corpus.names import python_name, shuffled
from sealyard.values.tools import ToolSpec

# Two things each that one text can describe.
_COUNTERPARTS = (
    ("billing_place", "shipping_place", "Street, number and city on one line."),
    ("home_side", "away_side", "As it is listed in the table of the season."),
    ("x", "y", "Coordinate in the picture."),
    ("debit", "credit", "Number of the account to book on."),
    ("email", "phone", "How to reach the customer."),
    ("primary_hue", "secondary_hue", "One of the colours of the theme."),
    ("width", "depth", "Size of the parcel as measured."),
)
_UNITS = (
    ("seconds", "milliseconds", 1_000),
    ("hours", "minutes", 60),
    ("euros", "cents", 100),
    ("kilobytes", "bytes", 1_024),
)
_TEXT: dict[str, Any] = {"type": "string"}
_NOWHERE = "nothing"
"""No value of the old type means anything in the new one."""


def _mutation(
    operation: str, spec: ToolSpec, before: Mapping[str, Any], after: Mapping[str, Any], truth: Truth, **more: Any
) -> Mutation | None:
    """`spec` with other parameters before and after, all of them optional but for those that it has already."""
    required = [key for key in spec.input_schema.get("required") or () if key in before and key in after]
    names = [python_name(key) for key in {**before, **after}]
    if not properties_of(spec) or len(set(names)) < len(names):
        return None
    more = {"is_mechanical": False, "touched": frozenset(before.keys() ^ after.keys()), **more}
    return Mutation(
        operation=operation,
        before=edited(spec, before, required),
        after=edited(spec, after, [*required, *more.pop("demanded", ())]),
        truths=(truth,),
        **more,
    )


def _free(spec: ToolSpec, *names: str) -> dict[str, Any] | None:
    """The parameters of a tool, if it has none of these."""
    taken = {python_name(key) for key in properties_of(spec)}
    return None if not properties_of(spec) or taken & set(names) else dict(properties_of(spec))


def _counterpart(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """A parameter goes and its counterpart comes, of the same type and with the same description."""
    old, new, text = chance.choice(_COUNTERPARTS)
    known = _free(spec, old, new)
    if known is None:
        return None
    schema = {**_TEXT, "description": text}
    return _mutation(
        "swapped for its counterpart", spec, {**known, old: schema}, {**known, new: schema},
        Truth(removed=(old,)), given={old: ()},
    )  # fmt: skip


def _alias_retired(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """A parameter goes that was announced to go, in favour of one that was there all along."""
    known = _free(spec, "focus", "topic")
    if known is None:
        return None
    now = {"focus": {**_TEXT, "description": "What the search is about."}}
    said = chance.choice(["Deprecated: use `focus` instead.", "What the search is about."])
    return _mutation(
        "alias retired", spec, {**known, **now, "topic": {**_TEXT, "description": said}}, {**known, **now},
        Truth(renamed={"topic": "focus"}), given={"topic": ()}, left_out=frozenset({"focus"}),
    )  # fmt: skip


def _moved_inside(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """An optional parameter becomes a field of an object that is a parameter already."""
    known = _free(spec, "options", "flavour")
    if known is None:
        return None
    field = {"flavour": {**_TEXT, "description": "Which variant of it is wanted."}}
    options = {"type": "object", "properties": {"note": _TEXT}}
    wider = {"type": "object", "properties": {"note": _TEXT, **field}}
    return _mutation(
        "moved into an object", spec, {**known, **field, "options": options}, {**known, "options": wider},
        Truth(inside={"flavour": "options"}), given={"flavour": ()}, left_out=frozenset({"options"}),
    )  # fmt: skip


def _merged(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """One parameter takes over what another one took: an item, or a list of them."""
    known = _free(spec, "label", "labels")
    if known is None:
        return None
    many = {"type": "array", "items": _TEXT}
    before = {**known, "label": {**_TEXT, "description": "One label."}, "labels": many}
    after = {**known, "label": {"anyOf": [_TEXT, many], "description": "One label or more."}}
    truth = Truth(renamed={"labels": "label"})
    return _mutation("merged", spec, before, after, truth, given={"labels": ()}, left_out=frozenset({"label"}))


def _names_exchanged(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """Two parameters of one type change names; their descriptions tell."""
    known = _free(spec, "anchor", "target")
    if known is None:
        return None
    one = {**_TEXT, "description": "Where the measuring begins."}
    other = {**_TEXT, "description": "The place to measure to."}
    return _mutation(
        "names exchanged", spec, {**known, "anchor": one, "target": other}, {**known, "anchor": other, "target": one},
        Truth(renamed={"anchor": "target", "target": "anchor"}), given={"anchor": (), "target": ()},
        touched=frozenset({"anchor", "target"}),
    )  # fmt: skip


def _names_shifted(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """A parameter takes the name of another one, which gets a new name."""
    known = _free(spec, "first", "second", "third")
    if known is None:
        return None
    one = {**_TEXT, "description": "Which station the train leaves."}
    other = {**_TEXT, "description": "Which station it gets to."}
    return _mutation(
        "names shifted", spec, {**known, "first": one, "second": other}, {**known, "second": one, "third": other},
        Truth(renamed={"first": "second", "second": "third"}), given={"second": ()}, left_out=frozenset({"first"}),
        touched=frozenset({"first", "second", "third"}),
    )  # fmt: skip


def _unit_changed(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """A number is of another unit, which its description says."""
    before, after, factor = chance.choice(_UNITS)
    known = _free(spec, "extent")
    if known is None:
        return None
    said: list[dict[str, Any]]
    said = [{"type": "integer", "description": f"How much at most, in {unit}."} for unit in (before, after)]
    if chance.random() < 0.5:
        said[1]["maximum"] = 10**9  # what is given fits, and means something else
    return _mutation(
        "unit changed", spec, {**known, "extent": said[0]}, {**known, "extent": said[1]},
        Truth(scaled={"extent": factor}), given={"extent": (3, 12)}, touched=frozenset({"extent"}),
    )  # fmt: skip


def _retyped(
    operation: str, before: dict[str, Any], after: dict[str, Any], values: tuple[Any, ...]
) -> Callable[[ToolSpec, random.Random], Mutation | None]:
    """A parameter of another type for which no old value means anything."""

    def operate(spec: ToolSpec, chance: random.Random) -> Mutation | None:
        known = _free(spec, "grade")
        if known is None:
            return None
        return _mutation(
            operation, spec, {**known, "grade": before}, {**known, "grade": after},
            Truth(retyped={"grade": _NOWHERE}), given={"grade": values}, touched=frozenset({"grade"}),
        )  # fmt: skip

    return operate


def _two_gone_one_new(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """Two parameters go and one comes, which stands for one of them."""
    known = _free(spec, "colour", "texture", "surface")
    if known is None:
        return None
    before = {**known, "colour": {**_TEXT, "description": "Paint of the wall."}, "texture": _TEXT}
    after = {**known, "surface": {**_TEXT, "description": "How the wall feels, such as rough."}}
    truth = Truth(removed=("colour",), renamed={"texture": "surface"})
    return _mutation("two gone, one new", spec, before, after, truth, given={"colour": (), "texture": ()})


def _unfit_default(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """An optional parameter has to be given now, and its default does not fit its own schema, as is not rare."""
    for key, schema in shuffled(properties_of(spec), chance):
        if key in (spec.input_schema.get("required") or ()) or schema.get("type") not in ("string", "integer", "array"):
            continue
        known = {**properties_of(spec), key: {**schema, "default": None}}
        return _mutation(
            "optional made required, unfit default", spec, known, known, Truth(),
            demanded=(key,), left_out=frozenset({key}), is_moving=True, touched=frozenset({key}),
        )  # fmt: skip
    return None


_WHOLE: dict[str, Any] = {"type": "integer"}
_MAYBE = {"type": "null"}
PITFALLS: dict[str, Callable[[ToolSpec, random.Random], Mutation | None]] = {
    "counterpart": _counterpart,
    "alias retired": _alias_retired,
    "moved inside": _moved_inside,
    "merged": _merged,
    "names exchanged": _names_exchanged,
    "names shifted": _names_shifted,
    "unit changed": _unit_changed,
    "two gone": _two_gone_one_new,
    "unfit default": _unfit_default,
    "reworded type": _retyped(
        "integer made string, reworded",
        {**_WHOLE, "description": "From 1, the best, to 6."},
        {**_TEXT, "description": "Such as excellent, good or poor."},
        (1, 4),
    ),
    "number to time": _retyped(
        "integer or null made time or null",
        {"anyOf": [_WHOLE, _MAYBE]},
        {"anyOf": [{**_TEXT, "format": "date-time"}, _MAYBE]},
        (1_700_000_000, 1_800_000_000),
    ),
    "number to choice": _retyped(
        "integer or null made choice or null",
        {"anyOf": [_WHOLE, _MAYBE]},
        {"anyOf": [{"enum": ["good", "bad"], "type": "string"}, _MAYBE]},
        (1, 2),
    ),
    "digits to number": _retyped("digits made integer", _TEXT, _WHOLE, ("007", "0123", "+5")),
    "flag to number": _retyped("boolean made integer", {"type": "boolean"}, _WHOLE, (True,)),
}
"""By name. Each gives `None` for a tool that it cannot be done to."""
