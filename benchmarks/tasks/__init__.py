"""Replays the tasks of AgentDojo, whose suites judge what has become of their worlds: no model takes part.

Each task's ground truth is replayed call by call, as plain MCP has it, as one script through the gateway, and as one
through FastMCP's code mode, with the servers of all suites connected. That shows whether code loses anything and what
each way costs, not what a model would do.
"""

import asyncio
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.peers import install_rival
from benchmarks.tables import promised_table
from benchmarks.tasks.results import RESULTS
from benchmarks.tasks.scripts import Script, compose
from benchmarks.tasks.sides import OUTPUT, PYTHON, SETTINGS, SUITES, Gateway, Place, Side
from benchmarks.tasks.talks import Scene, call_by_call, one_block, one_script
from sealyard.cli.terminal import columns, plain, screen
from sealyard.errors import SealyardError
from sealyard.metrics import tokens

PROMISES = {
    "utility_equal": "1",
    "utility_equal_output": "1",
    "turns_ratio": "at most 0.5",
    "turns_ratio_tools_known": "shown",
    "tokens_ratio": "at most 0.5",
    "tokens_ratio_tools_known": "shown",
    "tokens_ratio_one_server": "shown",
    "tokens_ratio_sent_once": "shown",
    "private_values_received": "0",
    "private_values_received_output": "0",
    "private_values_received_if_all_returned": "shown",
    "plain_private_values_received": "shown",
}

PARTS = ("tasks", "attacks", "code_mode")
_SAMPLED = 4
"""Tasks that each attack is tried in, evenly from the suite: what stops an attack seldom depends on the task."""
_DONE = "'done'"
"""The result of a script whose user wants to know nothing."""
Row = dict[str, Any]


async def measure(data: Path | None, suites: tuple[str, ...], tasks: int | None, parts: tuple[str, ...]) -> Row:
    """Every figure of `benchmarks tasks`. Raises `SealyardError` when the suites are not installed."""
    if not PYTHON.exists():
        raise SealyardError("The task suites are not installed. Run `make tasks`.")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        replay = _Replay(Place(Path(folder), data), suites or SUITES, parts or PARTS)
        await replay.plainly(tasks)
        await replay.through_gateways()
        if "code_mode" in replay.parts:
            await replay.in_code_mode(await asyncio.to_thread(install_rival, Path(folder) / "rival"))
    return {
        **replay.figures(),
        "by_suite": {suite: replay.figures(suite) for suite in replay.suites},
        "attacks_without_calls": replay.without_calls,
        "tokenizer": tokens.TOKENIZER,
        "seconds": time.perf_counter() - started,
        "promises": PROMISES,
    }


class _Replay:
    """What became of each task, and of each attack in a task, in every way to the tools."""

    def __init__(self, place: Place, suites: tuple[str, ...], parts: tuple[str, ...]) -> None:
        self.suites = suites
        self.parts = parts
        self.without_calls = 0
        """Attacks that are left out, because the suites do not say how they are done."""
        self._place = place
        self._tasks: list[Row] = []
        self._attacks: list[Row] = []

    async def plainly(self, most: int | None) -> None:
        """Replay everything call by call, which says what the tools answer."""
        async with self._place.open_plain() as side:
            for suite in self.suites:
                listed = await side.names(suite)
                names = listed["tasks"][:most]
                self._tasks += [{"suite": suite, "task": name, "tools": listed["tools"]} for name in names]
                step = -(-len(names) // _SAMPLED)
                for attack in listed["attacks"] if "attacks" in self.parts else ():
                    tried = [await _attack_plainly(side, suite, name, attack) for name in names[::step]]
                    self._attacks += [row for row in tried if row is not None]
                    self.without_calls += None in tried
            for row in self._tasks:
                await _work_plainly(side, row)

    async def through_gateways(self) -> None:
        """Replay tasks as scripts, and attacks in every setting."""
        for setting, settings in SETTINGS.items():
            if setting == "open" or self._attacks:
                async with self._place.open_gateway(settings) as gateway:
                    for row in self._tasks if setting == "open" else ():
                        await _work_in_code(gateway, row)
                    for row in self._attacks:
                        await _attack_in_code(gateway, setting, row)
        async with self._place.open_gateway(OUTPUT) as gateway:
            for row in self._tasks:
                await _work_with_values(gateway, row)

    async def in_code_mode(self, python: str) -> None:
        """Replay tasks as blocks of FastMCP's code mode."""
        async with self._place.open_code_mode(python) as side:
            for row in self._tasks:
                await _work_in_rival(side, row)

    def figures(self, suite: str | None = None) -> Row:
        """Of one suite, or of all."""
        tasks, attacks = (
            [row for row in rows if suite in (None, row["suite"])] for rows in (self._tasks, self._attacks)
        )
        return _summary(tasks) | ({"attacks": _outcomes(attacks)} if attacks else {})


# Tasks


async def _work_plainly(side: Side, row: Row) -> None:
    scene = await side.begin(row["suite"], row["task"])
    row["answers"] = await side.answers(scene.calls)
    scene = await side.begin(row["suite"], row["task"])
    row["plain"] = await side.play(call_by_call(scene))
    row["others"] = sum(side.definitions.values()) - side.definitions[row["suite"]]
    row["utility"], _ = await side.judge(scene.output)
    row["plain_private"] = len(row["plain"].found(scene.secrets))


async def _work_in_code(gateway: Gateway, row: Row) -> None:
    scene = await gateway.begin(row["suite"], row["task"])
    script = _script(scene, row, _result(row))
    row["code"] = talk = await gateway.play(one_script(scene, script))
    row["text"] = talk.received[-1]
    row["is_equal"] = await _is_equal(gateway, row, await gateway.reveal(row["text"]))
    row["arguments"] = script.sources
    row["private"] = len(talk.found(scene.secrets))
    row["private_written"] = sum(value in script.code for value in scene.secrets)
    # Everything that it read, returned: not what a task needs, but what careless code does.
    await gateway.begin(row["suite"], row["task"])
    everything = f"[{', '.join(f'a{number}' for number in range(len(scene.calls)))}]"
    returned = await gateway.run(_script(scene, row, everything).code)
    row["private_returned"] = sum(value in returned for value in scene.secrets)


async def _work_with_values(gateway: Gateway, row: Row) -> None:
    scene = await gateway.begin(row["suite"], row["task"])
    talk = await gateway.play(one_script(scene, _script(scene, row, _result(row))))
    row["output_is_equal"] = await _is_equal(gateway, row, await gateway.reveal(talk.received[-1]))
    row["output_private"] = len(talk.found(scene.secrets))


async def _work_in_rival(side: Side, row: Row) -> None:
    scene = await side.begin(row["suite"], row["task"])
    script = _script(scene, row, _result(row), imports=False)
    row["rival"] = talk = await side.play(one_block(scene, script))
    row["rival_is_equal"] = await _is_equal(side, row, talk.received[-1])
    row["rival_private"] = len(talk.found(scene.secrets))


async def _is_equal(side: Side, row: Row, output: str) -> bool:
    utility, _ = await side.judge(output)
    return utility is row["utility"]


def _result(row: Row) -> str:
    return RESULTS.get(row["suite"], {}).get(row["task"], _DONE)


def _script(scene: Scene, row: Row, result: str, *, imports: bool = True) -> Script:
    return compose(
        scene.calls,
        row["answers"],
        prompt=scene.prompt,
        private=scene.private,
        result=result,
        server=scene.suite,
        known=row["tools"] if imports else None,
    )


# Attacks


async def _attack_plainly(side: Side, suite: str, task: str, attack: str) -> Row | None:
    """The task and then the attack, call by call. None if the suite does not know the attack's calls."""
    scene = await side.begin(suite, task, attack)
    if not scene.attack:
        return None
    row: Row = {"suite": suite, "task": task, "attack": attack, "answers": await side.answers(scene.calls), "tools": ()}
    stolen = await side.answers(scene.attack)
    follow = compose(
        scene.attack, stolen, prompt=scene.goal, private=scene.private, result=_DONE, server=suite, known=()
    )
    # What a user wants to know may call a further tool, which says nothing about attacks.
    row["scripts"] = (_script(scene, row, _DONE).code, follow.code)
    row["plain"] = (*await side.judge(scene.output), "")
    return row


async def _attack_in_code(gateway: Gateway, setting: str, row: Row) -> None:
    """The task as a run, and then the attack as another, as an agent does that obeys what it has read."""
    scene = await gateway.begin(row["suite"], row["task"], row["attack"])
    texts = [await gateway.call("execute_code", {"code": code}) for code in row["scripts"]]
    utility, reached = await gateway.judge(scene.output)
    error = re.match(r"[A-Z]\w+(?=: )", texts[1])  # otherwise it ran, and the world had changed meanwhile
    row[setting] = (utility, reached, error.group() if error and not reached else "")


# Figures


def _summary(rows: list[Row]) -> Row:
    """Figures over tasks."""
    plain_talks, talks = [row["plain"] for row in rows], [row["code"] for row in rows]
    known = [talk.later(talk.turns - 2) for talk in talks]  # all but the script and the answer
    alone = [talk.tokens - row["others"] * talk.turns for talk, row in zip(plain_talks, rows, strict=True)]

    def ratio(ours: list[int], theirs: list[int]) -> float:
        return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))

    turns, plain_turns = [talk.turns for talk in talks], [talk.turns for talk in plain_talks]
    used, plain_used = [talk.tokens for talk in talks], [talk.tokens for talk in plain_talks]
    figures = {
        "tasks": len(rows),
        "utility": statistics.mean(row["utility"] for row in rows),
        "utility_equal": statistics.mean(row["is_equal"] for row in rows),
        "utility_equal_output": statistics.mean(row["output_is_equal"] for row in rows),
        "turns_ratio": ratio(turns, plain_turns),
        "turns_ratio_tools_known": ratio([talk.turns for talk in known], plain_turns),
        "turns_ratio_of_sums": sum(turns) / sum(plain_turns),
        "tokens_ratio": ratio(used, plain_used),
        "tokens_ratio_tools_known": ratio([talk.tokens for talk in known], plain_used),
        "tokens_ratio_one_server": ratio(used, alone),
        "tokens_ratio_sent_once": ratio([talk.context for talk in talks], [talk.context for talk in plain_talks]),
        "tokens_ratio_of_sums": sum(used) / sum(plain_used),
        "turns": statistics.median(turns),
        "plain_turns": statistics.median(plain_turns),
        "tokens": statistics.median(used),
        "plain_tokens": statistics.median(plain_used),
        "private_values_received": sum(row["private"] for row in rows),
        "private_values_received_if_all_returned": sum(row["private_returned"] for row in rows),
        "private_values_received_output": sum(row["output_private"] for row in rows),
        "private_values_written": sum(row["private_written"] for row in rows),
        "plain_private_values_received": sum(row["plain_private"] for row in rows),
        "arguments": dict(sum((row["arguments"] for row in rows), Counter[str]())),
        "not_equal": [f"{row['suite']} {row['task']}: {row['text']}" for row in rows if not row["is_equal"]],
    }
    if "rival" in rows[0]:
        rivals = [row["rival"] for row in rows]
        figures["code_mode"] = {
            "utility_equal": statistics.mean(row["rival_is_equal"] for row in rows),
            "turns_ratio": ratio([talk.turns for talk in rivals], plain_turns),
            "tokens_ratio": ratio([talk.tokens for talk in rivals], plain_used),
            "private_values_received": sum(row["rival_private"] for row in rows),
            "not_equal": [
                f"{row['suite']} {row['task']}: {row['rival'].received[-1]}"
                for row in rows
                if not row["rival_is_equal"]
            ],
        }
    return figures


def _outcomes(rows: list[Row]) -> Row:
    """For each setting: in how many runs an attack reached its goal, the task was done, and what stopped attacks."""
    return {
        setting: {
            "runs": len(rows),
            "reached": sum(row[setting][1] for row in rows),
            "task_done": sum(row[setting][0] for row in rows),
            "stopped_by": dict(Counter(row[setting][2] for row in rows if row[setting][2])),
        }
        for setting in ("plain", *SETTINGS)
    }


def show(figures: Row) -> None:
    """Print the figures as tables."""
    names = {
        "utility_equal": "equal",
        "turns_ratio": "turns",
        "tokens_ratio": "tokens",
        "tokens_ratio_one_server": "with one server",
        "tokens_ratio_sent_once": "sent once",
    }
    suites = columns("suite", "tasks", *names.values())
    for name, each in figures["by_suite"].items():
        suites.add_row(plain(name), str(each["tasks"]), *(f"{each[figure]:.3f}" for figure in names))
    tried = columns("attack is followed", "runs", "reached", "task done", "stopped by")
    for name, each in figures.get("attacks", {}).items():
        stopped = ", ".join(f"{reason} {count}" for reason, count in each["stopped_by"].items())
        tried.add_row(plain(name), *(str(each[key]) for key in ("runs", "reached", "task_done")), plain(stopped))
    screen.print(suites, "", tried, "", promised_table(figures, PROMISES))
    screen.print(plain(f"counted with {figures['tokenizer']}, {figures['seconds']:.0f} s", "dim"))
