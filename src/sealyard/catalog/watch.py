"""Whether the answers of a tool are still what they were: which fields they have, of which types.

Kept for tools that do not declare their output. One odd answer changes nothing: a field has to be in every one of so
many answers, and then in none of as many, before it is taken for gone.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from sealyard.versioning.shapes import Shape, add

STEADY = 10
"""So many answers make a habit, and so many others end it."""
_OCCASIONS = 2
_AGAIN_SECONDS = 3600.0
_ROWS = 10
_NODES = 500
_DEPTH = 8
_FIELDS = 300
_LOST = 300

_Schema = dict[str, Any]


def outline(answer: Any) -> Any:
    """The types and keys of an answer and nothing else of it, from the first rows of each list.

    It costs little however large the answer is. What is too deep or too much becomes an empty object or list.
    """
    left = _NODES
    root: list[Any] = [answer]
    waiting: list[tuple[Any, Any, int]] = [(root, 0, _DEPTH)]
    for holder, key, depth in waiting:  # it grows meanwhile: what is near the root comes first
        value = holder[key]
        if isinstance(value, dict):
            whole = depth > 0 and len(value) <= left
            holder[key] = kept = dict(value) if whole else {}
            left -= len(kept)
            waiting += [(kept, each, depth - 1) for each in kept]
        elif isinstance(value, (list, tuple)):
            holder[key] = rows = list(value[: min(_ROWS, left)]) if depth > 0 else []
            left -= len(rows)
            waiting += [(rows, each, depth - 1) for each in range(len(rows))]
        else:
            holder[key] = _blank(value)
    return root[0]


def _blank(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    return 0 if isinstance(value, int) else 0.5 if isinstance(value, float) else ""


class _Field(msgspec.Struct, omit_defaults=True):
    """A part of the answers, and how it was in those so far."""

    kinds: set[str]
    place: str | None
    """The object that it is a key of. None if it is the answer itself, or the items of a list."""
    seen: int = 1
    """In so many answers."""
    is_optional: bool = False
    missing: int = 0
    """In so many answers since."""
    other: int = 0
    """So many answers in a row had it with none of its kinds, but with these:"""
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
        """Take what was odd about it for one of its ways."""
        self.is_optional |= self.missing > 0
        self.kinds |= self.other_kinds
        self.missing = self.other = 0
        self.other_kinds = set()


class _State(msgspec.Struct):
    """What of a watch outlives the process."""

    answers: int
    shape: Shape
    places: set[str]
    """The objects that had any keys."""
    fields: dict[str, _Field]
    lost: set[str]
    """What earlier versions answered: if that comes back, answers vary, and nothing changes for good."""
    observed_at: float


_STATES = msgspec.json.Decoder(_State)


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that are not what they were."""

    before: _Schema
    after: _Schema
    watch: "Watch"
    """For the answers from here on."""


class Watch:
    """The answers of one major version of a tool. Not for two threads at once."""

    def __init__(self, state: _State | None = None) -> None:
        self.state = state or _State(answers=0, shape=Shape(), places=set(), fields={}, lost=set(), observed_at=0.0)
        self.schema: _Schema = self.state.shape.to_schema() if self.state.answers else {}
        """Of the answers so far, without those that are odd."""
        self._odd: list[tuple[Any, str | None]] = []
        for field in self.state.fields.values():
            field.missing = field.other = 0  # the answers that would show it are gone

    @property
    def answers(self) -> int:
        """How many were seen."""
        return self.state.answers

    @property
    def is_odd(self) -> bool:
        """Whether the last answer was unlike those before, so that each of the next ones matters."""
        return bool(self._odd)

    def write(self) -> str:
        """The watch as text, for `read`."""
        return msgspec.json.encode(self.state).decode()

    @classmethod
    def read(cls, text: str) -> "Watch":
        """A watch from its text; a new one if another version wrote it in another way, since it can be seen again."""
        try:
            return cls(_STATES.decode(text))
        except msgspec.DecodeError:
            return cls()

    def add(self, answer: Any, occasion: str | None = None) -> None:
        """Count an answer, of which only the outline is given.

        `occasion` is what it belongs to, if that is known: many calls of one loop may all be of another sort than the
        calls before, so what is odd on one occasion only is not taken for a change.
        """
        state = self.state
        found = dict(_fields_of(add(Shape(), answer).to_schema()))
        places = {field.place for field in found.values() if field.place is not None}
        for path, field in state.fields.items():
            if path in found or field.place in places:
                field.meet(found.get(path))
        for path in found.keys() - state.fields.keys():
            if len(state.fields) < _FIELDS:
                found[path].is_optional |= found[path].place in state.places
                state.fields[path] = found[path]
        state.places |= places if len(state.places) < _FIELDS else set()
        state.answers += 1
        self._odd = [*self._odd, (answer, occasion)][-STEADY:]
        if not any(field.is_odd for field in state.fields.values()):
            self._settle()

    def drift(self, now: float) -> Drift | None:
        """What changed for good, if anything did: at most once in an hour, and not if it is only a change back."""
        state = self.state
        odd = {path: field for path, field in state.fields.items() if field.is_odd}
        gone = {path for path, field in odd.items() if field.missing >= STEADY}
        retyped = {path for path, field in odd.items() if field.other >= STEADY}
        occasions = {occasion for _, occasion in self._odd}
        if not (gone or retyped) or (None not in occasions and len(occasions) < _OCCASIONS):
            return None
        watch = Watch()
        for answer, occasion in self._odd:
            watch.add(answer, occasion)
        if self._is_back(watch):
            for field in odd.values():
                field.settle()
            self._settle()
            return None
        if now - state.observed_at < _AGAIN_SECONDS:
            return None
        marks = {mark for path in gone | retyped for mark in _marks(path, odd[path].kinds)}
        watch.state.lost = state.lost | marks if len(state.lost) < _LOST else marks
        watch.state.observed_at = now
        after = _patched(self.schema, watch.schema, gone, retyped)
        return Drift(before=self.schema, after=after, watch=watch)

    def _is_back(self, watch: "Watch") -> bool:
        """Whether the odd answers, which `watch` has seen, have something new that answers had before."""
        for path, field in watch.state.fields.items():
            known = self.state.fields.get(path)
            kinds = field.kinds if known is None or known.seen <= STEADY else field.kinds - known.kinds
            if not self.state.lost.isdisjoint(_marks(path, kinds)):
                return True
        return False

    def _settle(self) -> None:
        for answer, _ in self._odd:
            self.state.shape = add(self.state.shape, answer)
        self._odd = []
        self.schema = self.state.shape.to_schema()


def _marks(path: str, kinds: set[str]) -> list[str]:
    return [f"{path}={kind}" for kind in sorted(kinds)]


def _fields_of(schema: _Schema, path: str = "", place: str | None = None) -> Iterator[tuple[str, _Field]]:
    """Each part of an answer by its path, such as `rows[].id`."""
    kinds = schema.get("type", [])
    kinds = {"number" if kind == "integer" else kind for kind in ([kinds] if isinstance(kinds, str) else kinds)}
    yield path, _Field(kinds=kinds - {"null"}, place=place)
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        for inner, field in _fields_of(part, _join(path, name), path):
            field.is_optional |= inner == _join(path, name) and name not in required
            yield inner, field
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _fields_of(schema[key], path + mark)


def _patched(before: _Schema, after: _Schema, gone: set[str], retyped: set[str], path: str = "") -> _Schema:
    """`before` with only that changed which changed for good: ten answers do not show all that there may be."""
    if path in retyped:
        return after
    result = dict(before)
    old, new = before.get("properties"), after.get("properties")
    if isinstance(old, dict) and isinstance(new, dict):
        kept = {name: part for name, part in old.items() if _join(path, name) not in gone}
        both = kept.keys() & new.keys()
        inner = {name: _patched(kept[name], new[name], gone, retyped, _join(path, name)) for name in both}
        result["properties"] = new | kept | inner
        required = [name for name in before.get("required", ()) if name in kept]
        result["required"] = required + [name for name in after.get("required", ()) if name not in old]
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(before.get(key), dict) and isinstance(after.get(key), dict):
            result[key] = _patched(before[key], after[key], gone, retyped, path + mark)
    return result


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
