"""The learned shapes that stubs tell: those that were the same for a while, so that stubs are seldom written anew."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.learned import LearnedShape
from sealyard.catalog.shapes import is_vague
from sealyard.catalog.stubs import returns
from sealyard.learning.shapes import STEADY, Shapes
from sealyard.learning.telling import is_field
from sealyard.values import ToolSpec

__all__ = ("SteadyShapes",)

_PAUSE_SECONDS = 60.0
"""Between two changes, and how long a shape must be the same to take the place of another."""
_SECONDS_PER_TOOL = 0.05
"""Writing the stubs of ten thousand tools takes a second or so: then every eight minutes."""
_SECONDS_PER_SHAPE = 0.02
"""Between two looks: a hundredth of the time is spent on them."""
_AT_ONCE = 8

_Schema = dict[str, Any]


class SteadyShapes:
    """What stubs are to say of answers that nobody declares. Only the event loop's thread touches it."""

    def __init__(self) -> None:
        self.shapes: Mapping[str, LearnedShape] = {}
        """By full name, for `Catalog.use_shapes`."""
        self._totals: dict[str, int] = {}
        """From how many answers those were learned: fewer than that are known only after something was forgotten."""
        self._candidates: dict[str, tuple[_Schema, float]] = {}
        """What differs from what stubs say, and since when."""
        self._next_at = 0.0

    async def look(
        self,
        learned: Shapes,
        snapshot: Snapshot,
        *,
        now: float,
        half_life: float,
        is_alone: bool = False,
    ) -> bool:
        """Whether `shapes` is another than before. Call it as often as you like: that is so at most once a minute.

        A shape is taken over from five answers on, and in the place of another if it was the same for a minute. When
        something was forgotten, what is no longer known goes at once.
        """
        is_less = any(name not in learned.tools or learned.tools[name].total < n for name, n in self._totals.items())
        if now < self._next_at and not is_less:
            return False
        kept, candidates, number = dict[str, LearnedShape](), dict[str, tuple[_Schema, float]](), 0
        for number, spec in enumerate(_vague(learned, snapshot), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            shape = learned.schema_of(spec, now=now, half_life=half_life, is_alone=is_alone)
            if shape is not None:
                self._weigh(spec.full_name, shape, kept, candidates, now=now, is_less=is_less)
        before, self.shapes, self._candidates = self.shapes, kept, candidates
        self._totals = {name: learned.tools[name].total for name in kept if name in learned.tools}
        is_changed = _schemas(before) != _schemas(kept)
        pause = max(_PAUSE_SECONDS, _SECONDS_PER_TOOL * len(snapshot.tools))
        self._next_at = now + (pause if is_changed else _SECONDS_PER_SHAPE * number)
        return is_changed

    def _weigh(
        self,
        name: str,
        shape: LearnedShape,
        kept: dict[str, LearnedShape],
        candidates: dict[str, tuple[_Schema, float]],
        *,
        now: float,
        is_less: bool,
    ) -> None:
        """Keep what stubs say, take over what is new, or wait."""
        schema, current = _stub_schema(shape.schema), self.shapes.get(name)
        if current is not None and current.major != shape.major:
            current = None
        known, since = self._candidates.get(name, (None, now))
        since = since if known == schema else now
        if current is not None and current.schema == schema:
            kept[name] = current
        elif shape.answers >= STEADY and (current is None or is_less or now - since >= _PAUSE_SECONDS):
            kept[name] = msgspec.structs.replace(shape, schema=schema, conflicts=())
        else:
            candidates[name] = (schema, since)
            if current is not None and not is_less:
                kept[name] = current


def _schemas(shapes: Mapping[str, LearnedShape]) -> dict[str, _Schema]:
    return {name: each.schema for name, each in shapes.items()}


def _vague(learned: Shapes, snapshot: Snapshot) -> Iterator[ToolSpec]:
    """The tools that declare nothing of use and may have been learned."""
    for name in list(learned.tools):
        spec = snapshot.tools.get(name)
        if spec is not None and (spec.output_schema is None or is_vague(returns(spec))):
            yield spec


def _stub_schema(schema: _Schema) -> _Schema:
    """A schema without bounds, which change too often to write stubs anew, and without any key that is no field."""
    kept = {key: value for key, value in schema.items() if key not in ("minimum", "maximum")}
    if "properties" in kept:
        kept["properties"] = {name: _stub_schema(each) for name, each in kept["properties"].items() if is_field(name)}
        kept["required"] = [name for name in kept.get("required", ()) if name in kept["properties"]]
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _stub_schema(kept[key])
    return kept
