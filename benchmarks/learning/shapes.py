"""Measures learned shapes of answers against those that tools declare: the learner does not see the declarations.

The example servers are called for real, through the gateway and its journal; beside them, answers of tools are made up
from declared schemas of many kinds. A field is right if it is declared at that place; its type is another figure.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks.learning.answers import KINDS, answer, declare
from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.examples import demo_upstreams
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.shapes import Shapes, prepare_answers
from sealyard.values.facts import CallEvidence, Executed, RunEvidence
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import resolve, unwrapped
from sealyard.yard import Yard, open_yard

_SEED = 7
_TOOLS_OF_A_KIND = 8
_ANSWERS = 40
_PRINCIPALS = ("one", "two")
_HALF_LIFE = 30 * 86_400.0
_ENOUGH = 0.95
_NUMBER = {"integer": "number"}

_Schema = dict[str, Any]
_Fields = dict[str, set[str]]
"""Place -> the JSON types that it can have."""


class _Score(msgspec.Struct):
    """Fields of some tools."""

    tools: int = 0
    declared: int = 0
    learned: int = 0
    right: int = 0
    right_types: int = 0

    def add(self, declared: _Fields, learned: _Fields) -> None:
        both = declared.keys() & learned.keys()
        self.tools += 1
        self.declared += len(declared)
        self.learned += len(learned)
        self.right += len(both)
        self.right_types += sum(learned[field] <= declared[field] or not declared[field] for field in both)

    def figures(self) -> dict[str, Any]:
        return {
            "tools": self.tools,
            "fields": self.declared,
            "precision": self.right / self.learned if self.learned else 1.0,
            "recall": self.right / self.declared if self.declared else 1.0,
            "types_right": self.right_types / self.right if self.right else 1.0,
        }


def measure() -> dict[str, Any]:
    """Every figure. It takes some seconds."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, Any]:
    everything = _Score()
    examples = await _examples(everything)
    chance = Random(_SEED)  # noqa: S311 - the same answers every time
    kinds: dict[str, Any] = {}
    needed: list[int] = []
    for kind in KINDS:
        score = _Score()
        for _ in range(_TOOLS_OF_A_KIND):
            needed += _made_up(declare(kind, chance), chance, (score, everything))
        kinds[kind] = score.figures()
    return {
        **everything.figures(),
        "answers_needed": statistics.median(needed),
        "tools_known_well": len(needed) / (len(KINDS) * _TOOLS_OF_A_KIND),
        "examples": examples,
        "kinds": kinds,
    }


# Made up


def _made_up(schema: _Schema, chance: Random, scores: Sequence[_Score]) -> list[int]:
    """Learn one tool. How many answers it took until nearly all fields were known; nothing if that was never."""
    spec, shapes = _spec("made_up"), Shapes()
    declared = dict(fields_of(schema, schema))
    needed: list[int] = []
    learned: _Schema = {}
    for number in range(1, _ANSWERS + 1):
        run = _run(spec, _PRINCIPALS[number % 2], [answer(schema, chance)], at=float(number))
        shapes.learn(Lesson(number=number, event=run, answers=prepare_answers(run)), _HALF_LIFE)
        learned = _learned(shapes, spec, at=float(number))
        found = declared.keys() & dict(fields_of(learned, learned)).keys()
        if not needed and len(found) >= _ENOUGH * len(declared):
            needed.append(number)
    for score in scores:
        score.add(declared, dict(fields_of(learned, learned)))
    return needed


# The example servers


async def _examples(everything: _Score) -> dict[str, Any]:
    score, shapes = _Score(), Shapes()
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        place = Path(folder)
        (place / "files").mkdir()
        config = Config(upstreams=demo_upstreams(place / "files"), store=StoreConfig(path=place / "sealyard.db"))
        async with open_yard(config, with_sandbox=False) as yard:
            snapshot = await yard.snapshot()
            for principal in _PRINCIPALS:
                await _call_all(yard, principal)
            answers = await _learn(yard, shapes)
    for spec in snapshot.tools.values():
        if spec.output_schema is not None and spec.full_name in answers:
            declared = unwrapped(spec.output_schema)
            learned = _learned(shapes, msgspec.structs.replace(spec, output_schema=None), at=0.0)
            for each in (score, everything):
                each.add(dict(fields_of(declared, spec.output_schema)), dict(fields_of(learned, learned)))
    return {**score.figures(), "answers": statistics.median(answers.values())}


async def _learn(yard: Yard, shapes: Shapes) -> dict[str, int]:
    """Take in the whole journal. How many answers there were of each tool."""
    answers: dict[str, int] = {}
    after, is_end = 0, False
    while not is_end:
        page = await yard.store.learning.events(after, 1_000)
        after, is_end = page.last, page.is_end
        for _, event in page.events:
            if isinstance(event, RunEvidence):
                seen = prepare_answers(event)
                shapes.learn(Lesson(number=after, event=event, answers=seen), _HALF_LIFE)
                for each in seen:
                    answers[each.tool] = answers.get(each.tool, 0) + each.answers
    return answers


async def _call_all(yard: Yard, principal: str) -> None:
    """Do with the example servers what somebody could."""
    for server, tool, arguments in _CALLS:
        await yard.call(f"mcp__{server}__{tool}", arguments, principal=principal)
    site = {"campground_id": "p07-a", "arrival": "2025-06-02", "nights": 2}
    booked = await yard.call("mcp__trips__book_campsite", site, principal=principal)
    await yard.call("mcp__trips__cancel_booking", {"booking_id": booked.value["booking_id"]}, principal=principal)
    search = await yard.call(
        "mcp__trips__start_route_search", {"origin": "Denver", "destination": "Moab"}, principal=principal
    )
    status = "running"
    while status != "done":
        asked = {"search_id": search.value["search_id"]}
        found = await yard.call("mcp__trips__get_route_search", asked, principal=principal)
        status = found.value["status"]
        await asyncio.sleep(found.value["retry_after_seconds"])


_CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *(("expenses", "list_expenses", {"category": each, "limit": 20}) for each in ("travel", "meals", "software")),
    ("expenses", "list_employees", {"department": "Sales"}),
    ("expenses", "list_employees", {"department": "Finance"}),
    ("expenses", "get_budget", {"department": "Sales"}),
    ("expenses", "get_budget", {"department": "Finance"}),
    *(("trips", "find_parks", {"state": each}) for each in ("UT", "CA", "CO")),
    ("trips", "get_park", {"park_id": "p07"}),
    ("trips", "list_campgrounds", {"park_id": "p07"}),
    ("trips", "weather_forecast", {"park_id": "p07", "days": 5}),
    ("customers", "list_customers", {"plan": "pro", "limit": 20}),
    ("customers", "list_customers", {"plan": "free", "limit": 20}),
    ("mail", "send_mail", {"to": "somebody@example.com", "subject": "Hello", "body": "A mail."}),
    ("mail", "count_mails", {}),
    ("files", "write_file", {"path": "notes/today.md", "text": "one\ntwo\n"}),
    ("files", "list_files", {"recursive": True}),
    ("files", "read_file", {"path": "notes/today.md"}),
    ("files", "search_files", {"words": "one"}),
)


# Both


def _learned(shapes: Shapes, spec: ToolSpec, *, at: float) -> _Schema:
    shape = shapes.shape_for(spec, Viewer("", at, _HALF_LIFE))
    return {} if shape is None else shape.schema


def fields_of(schema: object, root: _Schema, place: str = "", depth: int = 12) -> Iterator[tuple[str, set[str]]]:
    """Every named field that a schema has, at its place, and its types: none if it can be anything."""
    parts: dict[str, set[str]] = {}
    for branch in _branches(schema, root, depth):
        properties = branch.get("properties")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            parts.setdefault(f"{place}.{name}", set()).update(_types(part, root, depth))
            for inner, types in fields_of(part, root, f"{place}.{name}", depth - 1):
                parts.setdefault(inner, set()).update(types)
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(branch.get(key), dict):
                for inner, types in fields_of(branch[key], root, place + mark, depth - 1):
                    parts.setdefault(inner, set()).update(types)
    yield from parts.items()


def _branches(schema: object, root: _Schema, depth: int) -> Iterator[_Schema]:
    whole = resolve(schema, root)
    if depth > 0:
        yield whole
        for each in whole.get("anyOf") or whole.get("oneOf") or ():
            yield from _branches(each, root, depth - 1)


def _types(schema: object, root: _Schema, depth: int) -> set[str]:
    found = set[str]()
    for branch in _branches(schema, root, depth):
        types = branch.get("type", ["string"] if "enum" in branch else [])
        found.update(_NUMBER.get(each, each) for each in ([types] if isinstance(types, str) else types))
    return found


def _spec(name: str) -> ToolSpec:
    return ToolSpec(
        upstream="made",
        name=name,
        full_name=f"mcp__made__{name}",
        module="made",
        function=name,
        input_schema={"type": "object"},
        digest=name,
    )


def _run(spec: ToolSpec, principal: str, answers: list[Any], *, at: float) -> RunEvidence:
    calls = tuple(
        CallEvidence(
            number=number,
            tool=spec.full_name,
            version=spec.version,
            answer=each,
            has_answer=True,
            started_at=at,
            seconds=0.1,
        )
        for number, each in enumerate(answers, 1)
    )
    fact = Executed(at=at, principal=principal, form="code", status="ok", seconds=1.0, use_case="filtering")
    return RunEvidence(fact=fact, started_at=at, calls=calls)
