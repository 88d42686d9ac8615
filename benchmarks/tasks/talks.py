"""A task, what a model reads and writes while it works on it, and the replays that play the model."""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import msgspec

from benchmarks.tasks.scripts import Call, Script
from sealyard.metrics import tokens

Message = tuple[str, dict[str, Any]]
"""What a model sends: the name of a tool, and arguments."""
Policy = AsyncGenerator[list[Message] | str, list[str]]
"""Who plays the model: yields calls that are made at once, is sent their answers, and yields the final answer last."""


class Scene(msgspec.Struct, kw_only=True):
    """A task in a new world."""

    suite: str
    task: str
    prompt: str
    output: str
    calls: list[Call]
    goal: str
    """Of the attack, which the world holds wherever the suite has a place for one."""
    attack: list[Call]
    private: frozenset[str]

    @property
    def secrets(self) -> frozenset[str]:
        """Private values that the user has not named."""
        return frozenset(value for value in self.private if value not in self.prompt)


class Talk(msgspec.Struct, kw_only=True):
    """Turns of a model. Each sends it everything before again, as the APIs of models do."""

    start: int
    """Tokens of definitions, instructions and the prompt."""
    steps: list[tuple[int, int]] = []
    """In each turn: tokens that the model writes, and those of the answers."""
    received: list[str] = []

    def add(self, written: str, answers: Sequence[str] = ()) -> None:
        """Count a turn."""
        self.steps = [*self.steps, (tokens.count(written), sum(map(tokens.count, answers)))]
        self.received = [*self.received, *answers]

    @property
    def turns(self) -> int:
        """Requests to the model, the one for the final answer included."""
        return len(self.steps)

    @property
    def tokens(self) -> int:
        """Read and written in all turns."""
        total, context = 0, self.start
        for written, read in self.steps:
            total += context + written
            context += written + read
        return total

    @property
    def context(self) -> int:
        """The same with each token counted once, as if a cache of prompts were free."""
        return self.start + sum(map(sum, self.steps))

    def later(self, turns: int) -> "Talk":
        """The same in a conversation in which its first turns took place before."""
        return Talk(start=self.start + sum(map(sum, self.steps[:turns])), steps=self.steps[turns:])

    def found(self, values: Iterable[str]) -> set[str]:
        """The values that the model got to see."""
        text = "\n".join(self.received)
        return {value for value in values if value in text}


async def call_by_call(scene: Scene) -> Policy:
    """One call a turn, as the suites' own replay has it."""
    for call in scene.calls:
        yield [(call.function, call.args)]
    yield scene.output


async def one_script(scene: Scene, script: Script) -> Policy:
    """A search for each tool at once, worded as the tool's name is, then the script."""
    queries = [name.replace("_", " ") for name in script.tools]
    found = yield [("search_tools", {"query": each, "detail_level": "full", "limit": HITS}) for each in queries]
    missed = [
        name for name in script.tools if not re.search(rf"from servers\.{scene.suite} import {name}\b", "".join(found))
    ]
    if missed:
        arguments = {"server": scene.suite, "detail_level": "full", "limit": HITS}
        yield [("search_tools", {"query": name, **arguments}) for name in missed]
    yield [("execute_code", {"code": script.code})]
    yield scene.output


HITS = 2
"""Tools that a search shows."""


async def one_block(scene: Scene, script: Script) -> Policy:
    """The same for FastMCP's code mode, which shows parameters in a turn of their own."""
    queries = [name.replace("_", " ") for name in script.tools]
    yield [("search", {"query": each, "limit": HITS}) for each in queries]
    yield [("get_schema", {"tools": [f"{scene.suite}_{name}" for name in script.tools]})]
    yield [("execute", {"code": script.code})]
    yield scene.output
