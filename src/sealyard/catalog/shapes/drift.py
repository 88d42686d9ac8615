"""Watches the answers of tools that declare no output, and gives a tool a new version when they change permanently.

The request path hands over an outline of some answers and goes on; a thread compares them. Only types and the names of
fields are kept, never a value. One odd answer changes nothing: a field counts as gone when each of ten answers had it,
and then none of ten others.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from sealyard.catalog.catalog import Catalog
from sealyard.catalog.shapes.places import (
    Audience,
    Copying,
    Kinds,
    Place,
    Reading,
    build_schema,
    joined,
    parent_of,
)
from sealyard.errors import StoreError
from sealyard.store import SeenShape, Store
from sealyard.values.changes import Comparison, highest, major_of
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import compare

_log = logging.getLogger(__name__)

# Tuned values. A bound limits memory or the cost of hostile input. All were chosen, not measured.

STEADY = 10  # answers that make a habit, and others that end it: more would notice a change later, fewer invent one
_OCCASIONS = 2  # executions that must show a change: one may loop over things of another sort
_AGAIN_SECONDS = 3600.0  # between two versions of one tool: answers that are new each time make few versions
_VISITS = 500  # values of an answer that are copied on the request path: a bound of some hundred microseconds
_FIRST = 20  # answers to a definition that are all looked at
_ONE_IN = 20  # share of the answers after them
_WAITING = 64  # outlines that wait for the thread: a bound
_WATCHES = 512  # tools watched at once: a bound
_COUNTED = 10_000  # definitions whose answers are counted: a bound
_WRITTEN_AFTER = 10  # answers between two writes of one watch: a crash costs that many
_LOST = 300  # fields of earlier versions that are remembered: a bound

_Schema = dict[str, Any]
_Places = Mapping[str, Kinds]
_Key = tuple[str, str, int]
"""Upstream, its name for the tool, and the major version."""
_Noted = tuple[Any, str | None]
"""The outline of an answer, and the execution that it was for."""
_EVERYBODY = Audience(sees_all=True)


class DriftWatch:
    """Watches the answers of the tools of a catalog."""

    def __init__(self, catalog: Catalog, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._counts: dict[tuple[str, str], int] = {}
        """The number of answers by full name and definition, the most recent last."""
        self._odd: set[_Key] = set()
        self._waiting: list[tuple[ToolSpec, _Noted]] = []
        self._records: OrderedDict[_Key, AnswerRecord] = OrderedDict()
        """The most recently used last."""
        self._unwritten: dict[_Key, int] = {}
        self._working: asyncio.Task[None] | None = None

    def note(self, spec: ToolSpec, answer: Any, *, execution_id: str | None = None) -> None:
        """Note the answer to a successful call, if it belongs to the sample.

        The sample is the first answers to a definition, then one in twenty, and all while answers are odd. It never
        waits, keeps only the outline of the answer, and drops answers that arrive faster than they can be compared. A
        change within one execution does not count, if `execution_id` is known.
        """
        if spec.output_schema is not None or len(self._waiting) >= _WAITING:
            return
        key = (spec.full_name, spec.digest)
        count = self._counts.pop(key, 0)
        self._counts[key] = count + 1
        if len(self._counts) > _COUNTED:
            del self._counts[next(iter(self._counts))]
        if count >= _FIRST and count % _ONE_IN and not (self._odd and _key(spec) in self._odd):
            return
        self._waiting.append((spec, (outline(answer), execution_id)))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    def shape_of(self, spec: ToolSpec) -> _Schema | None:
        """The schema of a tool's answers at its major version; None if no answer was seen since the start."""
        record = self._records.get(_key(spec))
        return record.schema if record is not None and record.schema else None

    async def load(self) -> None:
        """Load the stored shapes of the listed tools."""
        current = {_key(spec) for spec in self._catalog.snapshot.tools.values()}
        for seen in reversed(await self._store.shapes.newest(_WATCHES)):
            key = (seen.upstream, seen.name, seen.major)
            if key in current:
                self._records[key] = AnswerRecord.read(seen.state)

    async def settled(self) -> None:
        """Wait until every noted answer was compared."""
        while self._working is not None and not self._working.done():
            await asyncio.shield(self._working)

    async def close(self) -> None:
        """Compare the waiting answers, and store unsaved records."""
        await self.settled()
        for key in list(self._unwritten):
            self._write(key)

    # In the background

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            noted: dict[str, tuple[ToolSpec, list[_Noted]]] = {}
            for spec, seen in batch:
                current = self._catalog.snapshot.tools.get(spec.full_name)
                # A call that began before its tool was redefined is no evidence for either definition.
                if current is not None and current.digest == spec.digest:
                    noted.setdefault(current.full_name, (current, []))[1].append(seen)
            for spec, answers in noted.values():
                try:
                    await self._add(spec, answers)
                except StoreError as error:
                    _log.error("The answers of %s could not be looked at: %s", spec.full_name, error)

    async def _add(self, spec: ToolSpec, answers: list[_Noted]) -> None:
        key = _key(spec)
        record = await self._record_of(key)
        drift = await asyncio.to_thread(_count, record, answers, self._clock)
        self._unwritten[key] = self._unwritten.get(key, 0) + len(answers)
        (self._odd.add if record.is_odd else self._odd.discard)(key)
        if self._unwritten[key] >= _WRITTEN_AFTER:
            self._write(key)
        if drift is None:
            return
        comparison = await asyncio.to_thread(_compare, spec, drift)
        new = await self._catalog.observe(spec, comparison)
        if new is not None:
            _log.warning(
                "The answers of %s changed, and its definition did not: it is %s now.", new.full_name, new.version
            )
            self._write(key)
            self._odd.discard(key)
            self._records[_key(new)] = drift.record
            self._write(_key(new))

    async def _record_of(self, key: _Key) -> "AnswerRecord":
        record = self._records.get(key)
        if record is None:
            seen = await self._store.shapes.find(*key)
            record = self._records[key] = AnswerRecord() if seen is None else AnswerRecord.read(seen.state)
        self._records.move_to_end(key)
        while len(self._records) > _WATCHES:
            oldest = next(iter(self._records))
            self._write(oldest)
            del self._records[oldest]
            self._odd.discard(oldest)
        return record

    def _write(self, key: _Key) -> None:
        self._unwritten.pop(key, None)
        record = self._records[key]
        upstream, name, major = key
        self._store.shapes.put(
            SeenShape(
                upstream=upstream,
                name=name,
                major=major,
                schema=record.schema,
                state=record.write(),
                answers=record.answers,
                seen_at=self._clock(),
            )
        )


def outline(answer: Any) -> Any:
    """The types and keys of an answer without its values, from the first rows of each list. It costs little."""
    return Copying(_VISITS, is_blank=True).copy(answer)


def _key(spec: ToolSpec) -> _Key:
    return spec.upstream, spec.name, major_of(spec.version)


# In a thread


def _count(record: "AnswerRecord", answers: list[_Noted], clock: Callable[[], float]) -> "Drift | None":
    for answer, execution_id in answers:
        reading = Reading()
        reading.read(answer, answer)
        record.add(reading.places, execution_id)
        drift = record.drift(clock())
        if drift is not None:
            return drift
    return None


def _compare(spec: ToolSpec, drift: "Drift") -> Comparison:
    """The meaning of the change for code that reads the answers."""
    comparison = compare(spec, spec, output_before=drift.before, output_after=drift.after)
    return msgspec.structs.replace(comparison, bump=highest([comparison.bump, "major"]))


class _Field(msgspec.Struct, omit_defaults=True):
    """A part of the answers, as it was in those so far."""

    kinds: set[str]
    place: str | None
    """The object that has it as a key; None for the answer itself and for the items of a list."""
    seen: int = 1
    """Answers that had it."""
    is_optional: bool = False
    missing: int = 0
    """Answers in a row that lack it."""
    other: int = 0
    """Answers in a row that have it with none of its kinds, but with `other_kinds`."""
    other_kinds: set[str] = set()

    @property
    def is_steady(self) -> bool:
        return self.seen >= STEADY and not self.is_optional

    @property
    def is_odd(self) -> bool:
        return self.is_steady and bool(self.missing or self.other)

    def meet(self, now: "_Field | None") -> None:
        """Count an answer that has the object it belongs to."""
        if now is None:
            self.missing += 1
            self.is_optional |= self.seen < STEADY
            return
        self.is_optional |= now.is_optional or self.missing > 0
        self.missing = 0
        if not now.kinds or not self.kinds or now.kinds & self.kinds or self.seen < STEADY:
            if now.kinds & self.kinds:
                self.settle()
            self.kinds |= now.kinds
        else:
            self.other += 1
            self.other_kinds |= now.kinds
        self.seen += 1

    def settle(self) -> None:
        """Accept its odd form as a regular one."""
        self.is_optional |= self.missing > 0
        self.kinds |= self.other_kinds
        self.missing = self.other = 0
        self.other_kinds = set()


class _State(msgspec.Struct):
    """The part of a record that outlives the process."""

    answers: int = 0
    seen: dict[str, Place] = {}
    places: set[str] = set()
    """The objects that had any keys."""
    fields: dict[str, _Field] = {}
    lost: set[str] = set()
    """Fields of earlier versions: if one returns, answers vary, and no change is permanent."""
    observed_at: float = 0.0


_STATES = msgspec.json.Decoder(_State)


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A permanent change of answers."""

    before: _Schema
    after: _Schema
    record: "AnswerRecord"
    """The record for the answers after the change."""


class AnswerRecord:
    """The answers of one major version of a tool. Not for two threads at once."""

    def __init__(self, state: _State | None = None) -> None:
        self.state = state or _State()
        self.schema: _Schema = {}
        """The schema of the answers so far, without odd ones."""
        self._odd: list[tuple[_Places, str | None]] = []
        for field in self.state.fields.values():
            field.missing = field.other = 0  # the answers that would show it are gone
        self._settle()

    @property
    def answers(self) -> int:
        """The number of answers seen."""
        return self.state.answers

    @property
    def is_odd(self) -> bool:
        """True if the last answer was odd: then the next ones are all read."""
        return bool(self._odd)

    def write(self) -> str:
        """The record as text, for `read`."""
        return msgspec.json.encode(self.state).decode()

    @classmethod
    def read(cls, text: str) -> "AnswerRecord":
        """The record of a text; a new one if the text cannot be read, since answers can be seen again."""
        try:
            return cls(_STATES.decode(text))
        except msgspec.DecodeError:
            return cls()

    def add(self, places: _Places, occasion: str | None = None) -> None:
        """Count the places of an answer.

        `occasion` is its execution, if known: all calls of one loop may concern things of another sort than before.
        """
        state = self.state
        found = dict(_fields_of(places))
        holders = {field.place for field in found.values() if field.place is not None}
        for path, field in state.fields.items():
            if path in found or field.place in holders:
                field.meet(found.get(path))
        for path in found.keys() - state.fields.keys():
            if len(state.fields) < Reading.most_places:
                found[path].is_optional |= found[path].place in state.places
                state.fields[path] = found[path]
        state.places |= holders if len(state.places) < Reading.most_places else set()
        state.answers += 1
        self._odd = [*self._odd, (places, occasion)][-STEADY:]
        if not any(field.is_odd for field in state.fields.values()):
            self._settle()

    def drift(self, now: float) -> Drift | None:
        """The permanent change, if there is one: at most one in an hour, and none that only reverts an earlier one."""
        state = self.state
        odd = {path: field for path, field in state.fields.items() if field.is_odd}
        gone = {path for path, field in odd.items() if field.missing >= STEADY}
        retyped = {path for path, field in odd.items() if field.other >= STEADY}
        occasions = {occasion for _, occasion in self._odd}
        if not (gone or retyped) or (None not in occasions and len(occasions) < _OCCASIONS):
            return None
        record = AnswerRecord()
        for places, occasion in self._odd:
            record.add(places, occasion)
        if self._is_back(record):
            for field in odd.values():
                field.settle()
            self._settle()
            return None
        if now - state.observed_at < _AGAIN_SECONDS:
            return None
        marks = {mark for path in gone | retyped for mark in _marks(path, odd[path].kinds)}
        record.state.lost = state.lost | marks if len(state.lost) < _LOST else marks
        record.state.observed_at = now
        after = _patched(self.schema, record.schema, gone, retyped)
        return Drift(before=self.schema, after=after, record=record)

    def _is_back(self, record: "AnswerRecord") -> bool:
        """True if the odd answers in `record` have a new field that earlier versions had."""
        for path, field in record.state.fields.items():
            known = self.state.fields.get(path)
            kinds = field.kinds if known is None or known.seen <= STEADY else field.kinds - known.kinds
            if not self.state.lost.isdisjoint(_marks(path, kinds)):
                return True
        return False

    def _settle(self) -> None:
        known = self.state.seen
        for places, _ in self._odd:
            for path, kinds in places.items():
                if path in known or len(known) < Reading.most_places:
                    known.setdefault(path, Place()).count(kinds, 1.0, 1)
        self._odd = []
        self.schema = build_schema(known, _EVERYBODY, is_exact=True)


def _marks(path: str, kinds: set[str]) -> list[str]:
    return [f"{path}={kind}" for kind in sorted(kinds)]


def _fields_of(places: _Places) -> Iterator[tuple[str, _Field]]:
    """Each part of an answer by its place, such as `rows[].id`."""
    for path, seen in places.items():
        kinds = {"number" if kind == "integer" else kind for kind in seen} - {"null", "cut"}
        holder = parent_of(path) if path and not path.endswith(("[]", "{}")) else None
        objects = 0 if holder is None else places[holder]["object"]
        yield path, _Field(kinds=kinds, place=holder, is_optional=sum(seen.values()) < objects)


def _patched(before: _Schema, after: _Schema, gone: set[str], retyped: set[str], path: str = "") -> _Schema:
    """`before` with only the permanent changes applied: ten answers do not show every possible part."""
    if path in retyped:
        return after
    result = dict(before)
    old, new = before.get("properties"), after.get("properties")
    if isinstance(old, dict) and isinstance(new, dict):
        kept = {name: part for name, part in old.items() if joined(path, name) not in gone}
        both = kept.keys() & new.keys()
        inner = {name: _patched(kept[name], new[name], gone, retyped, joined(path, name)) for name in both}
        result["properties"] = new | kept | inner
        required = [name for name in before.get("required", ()) if name in kept]
        result["required"] = required + [name for name in after.get("required", ()) if name not in old]
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(before.get(key), dict) and isinstance(after.get(key), dict):
            result[key] = _patched(before[key], after[key], gone, retyped, path + mark)
    return result
