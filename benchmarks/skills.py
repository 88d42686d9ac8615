"""Measures skills: saving, finding and importing beside bare SQLite and a bare import, and what reusing one saves."""

import importlib
import itertools
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client

from benchmarks.migration import measure_migration, show_migration
from benchmarks.tables import promised_table, samples_table
from benchmarks.tokens import fake_servers, read_tools
from benchmarks.yardsticks import load_since, summary, text_of
from sealyard.catalog.catalog import Catalog
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import plain, screen
from sealyard.config import Config
from sealyard.config.settings import SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import customers, demo_upstreams, expenses, files, mail, trips
from sealyard.examples.toolbox import Toolbox
from sealyard.metrics import tokens
from sealyard.serve.mcp import build_server
from sealyard.store import open_store
from sealyard.store.database import connect, connect_reader
from sealyard.values.skills import SaveSkill
from sealyard.values.tools import Definition, ToolSpec
from sealyard.yard import ExecuteRequest, Yard, open_yard

PROMISES = {
    "save_ratio": "shown",
    "find_ratio": "shown",
    "load_ratio": "shown",
    "rewriting_tokens": "shown",
    "reuse_tokens": "shown",
    "import_tokens": "shown",
    "migrated_correctly": "shown",
    "migrated_wrongly": "0",
    "refused_rightly": "shown",
    "refused_wrongly": "shown",
    "mechanical": "at least 0.98",
    "prediction": "shown",
    "migration_ratio_to_parsing": "shown",
    "translated_wrongly": "0",
}

_SHELF = 100
"""Skills that lie there when one is looked for."""
_IMPORTS = 10
_QUERY = "expenses that were claimed more than twice"
_NAME = "repeated_bills"
_CODE = '''\
from collections import Counter
from servers.expenses import list_expenses


def {name}(at_least: int = 3, category: str | None = None) -> list:
    """Bills of one merchant over the same amount that one employee claimed several times."""
    rows = list_expenses(category=category) if category else list_expenses()
    bills = Counter((row["employee"], row["merchant"], row["amount"]) for row in rows)
    found = [[merchant, amount, times] for (_, merchant, amount), times in bills.items() if times >= at_least]
    return sorted(found, key=lambda bill: -bill[2])
'''
_USE = f"from skills import {_NAME}\n\n{_NAME}()\n"
_LOAD = """\
import time
seconds = []
for name in names:
    started = time.perf_counter()
    skills.load(name)
    seconds.append(time.perf_counter() - started)
seconds
"""


def measure(tools: Path | None, rounds: int, cases: int) -> dict[str, Any]:
    """Every figure of `benchmarks skills`. Migrated code runs in this process: not within an event loop."""
    migration = measure_migration(run_to_end(read_specs(tools)), cases=cases)
    return {**run_to_end(_measure_costs(rounds)), **migration, "promises": PROMISES}


async def read_specs(file: Path | None) -> list[ToolSpec]:
    """The tools of a file with one JSON object a line, or else of the example servers, with the names they get here."""
    if file is None:
        boxes: dict[str, Toolbox] = {
            "customers": customers.toolbox,
            "expenses": expenses.toolbox,
            "files": files.toolbox,
            "mail": mail.toolbox,
            "trips": trips.toolbox,
        }
        listed = {name: [_definition(each) for each in box.definitions()] for name, box in boxes.items()}
    else:
        servers = fake_servers(read_tools(file)).values()
        listed = {server.name: list(server.definitions.values()) for server in servers}
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        async with open_store(Path(folder) / "sealyard.db") as store:
            catalog = Catalog(store)
            for name, definitions in listed.items():
                await catalog.update(name, definitions)
            return list(catalog.snapshot.tools.values())


def _definition(listed: dict[str, object]) -> Definition:
    """A definition from what a server lists."""
    names = {"inputSchema": "input_schema", "outputSchema": "output_schema"}
    kept = ("name", "title", "description", *names)
    return msgspec.convert({names.get(key, key): listed[key] for key in kept if key in listed}, Definition)


async def _measure_costs(rounds: int) -> dict[str, Any]:
    """The cost of saving, finding and importing beside their yardsticks, and the tokens that an agent pays."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        place = Path(folder)
        (place / "files").mkdir()
        config = Config(
            upstreams={"expenses": demo_upstreams(place / "files")["expenses"]},
            store=StoreConfig(path=place / "sealyard.db"),
            sandbox=SandboxConfig(allow_weaker=True),
        )
        async with open_yard(config) as yard:
            await (await yard.sandbox()).settle()
            async with Client(build_server(yard, config.surface)) as agent:
                paid = await _count_tokens(agent)
            samples = await _sample(yard, place, rounds)
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "save_ratio": p50["save"] / p50["bare write"],
        "find_ratio": p50["find"] / p50["bare read"],
        "load_ratio": p50["import in the sandbox"] / p50["bare import"],
        **paid,
        "tokenizer": tokens.TOKENIZER,
        "skills_on_the_shelf": _SHELF,
        "samples": {name: summary(values) for name, values in samples.items()},
        "load": load_since(load_before),
    }


async def _sample(yard: Yard, place: Path, rounds: int) -> dict[str, list[float]]:
    """Samples of every kind, in another order in each round, so that all of them see the same machine."""
    for number in range(_SHELF):
        await _save(yard, f"skill_{number}")
    own = place / "sealyard.db"
    rows = await _rows(own)
    modules = place / "modules"
    modules.mkdir()
    with closing(connect(place / "bare.db")) as writer, closing(connect_reader(own)) as reader:
        numbers = itertools.count(_SHELF)
        kinds: dict[str, Callable[[], Awaitable[float]]] = {
            "save": lambda: _save(yard, f"skill_{next(numbers)}"),
            "bare write": lambda: _write(writer, rows),
            "find after a save": lambda: _find_anew(yard, next(numbers)),
            "find": lambda: _find(yard),
            "bare read": lambda: _read(reader),
            "import in the sandbox": lambda: _load(yard),
            "bare import": lambda: _import(modules),
        }
        samples: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name in random.sample(sorted(kinds), len(kinds)):
                if name == "find":
                    await _find(yard)  # so that what was saved before is in the index already
                samples[name].append(await kinds[name]())
    return samples


async def _save(yard: Yard, name: str) -> float:
    """Seconds of a skill that is checked and on disk; it has no example to be run."""
    request = SaveSkill(name=name, code=_CODE.format(name=name), description=f"Find bills {name} that repeat.")
    started = time.perf_counter()
    saved = await yard.skills.save(request, principal="local")
    seconds = time.perf_counter() - started
    assert saved.skill.name == name
    return seconds


async def _rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(connect_reader(path)) as connection:
        return connection.execute("SELECT * FROM skills ORDER BY number").fetchall()


async def _write(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> float:
    """Seconds of the same row, on disk, with nothing but SQLite."""
    row = list(rows.pop())
    marks = ", ".join("?" * len(row))
    started = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"INSERT INTO skills VALUES ({marks})", row)  # noqa: S608 - question marks only
    connection.execute("COMMIT")
    return time.perf_counter() - started


async def _find(yard: Yard) -> float:
    """Seconds of a search; the first one after a save also makes the index anew."""
    started = time.perf_counter()
    found = await yard.skills.find("bills that repeat", principal="local")
    seconds = time.perf_counter() - started
    assert len(found) == 5, found
    return seconds


async def _find_anew(yard: Yard, number: int) -> float:
    await _save(yard, f"skill_{number}")
    return await _find(yard)


async def _read(connection: sqlite3.Connection) -> float:
    """Seconds of reading as many skills by their names, with nothing but SQLite."""
    names = [f"skill_{number}" for number in random.sample(range(_SHELF), 5)]
    marks = ", ".join("?" * len(names))
    started = time.perf_counter()
    found = connection.execute(f"SELECT skill FROM skills WHERE namespace = 'local' AND name IN ({marks})", names)  # noqa: S608
    texts = found.fetchall()
    seconds = time.perf_counter() - started
    assert len(texts) == len(names), texts
    return seconds


async def _load(yard: Yard) -> float:
    """Seconds of `skills.load`, which is what an import does, as code in the sandbox sees it."""
    names = [f"skill_{number}" for number in random.sample(range(_SHELF), _IMPORTS)]
    request = ExecuteRequest(code=f"import skills\nnames = {names!r}\n{_LOAD}")
    result = await yard.execute(request)
    if not result.outcome.ok:
        raise SandboxBroken(f"The skills cannot be imported: {result.text}")
    await (await yard.sandbox()).settle()
    return float(statistics.median(result.outcome.result))


async def _import(folder: Path) -> float:
    """Seconds of importing a module of the same text for the first time."""
    name = f"sealyard_benchmark_{random.getrandbits(64):x}"
    text = _CODE.format(name=name).replace("from servers.expenses import list_expenses\n", "list_expenses = None\n")
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        started = time.perf_counter()
        importlib.import_module(name)
        return time.perf_counter() - started
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)


async def _count_tokens(agent: Client) -> dict[str, Any]:
    """The tokens of one task: written anew, with a skill that it finds, and with one that it knows."""
    code = _CODE.format(name=_NAME)
    written = f"{code}\n{_NAME}()\n"
    save = {"name": _NAME, "code": code, "description": "Bills that one employee claimed several times."}
    searched = await _pay(agent, "search_tools", {"query": "list the expenses of all employees"})
    run = await _pay(agent, "execute_code", {"code": written})
    saved = await _pay(agent, "save_skill", {**save, "examples": [{"inputs": {}}]})
    found = await _pay(agent, "find_skills", {"query": _QUERY})
    loaded = await _pay(agent, "load_skill", {"name": _NAME})
    used = await _pay(agent, "execute_code", {"code": _USE})
    return {
        "rewriting_tokens": searched + run,
        "reuse_tokens": found + used,
        "import_tokens": used,
        "load_tokens": loaded,
        "save_tokens": saved,
        "reuse_saving": 1 - (found + used) / (searched + run),
    }


async def _pay(agent: Client, tool: str, arguments: dict[str, Any]) -> int:
    """The tokens of a call and its answer."""
    done = await agent.call_tool(tool, arguments)
    if done.is_error:
        raise SandboxBroken(f"{tool} came to {text_of(done)!r}.")
    return tokens.count_json(arguments) + tokens.count(text_of(done))


def show(figures: dict[str, Any]) -> None:
    """Print migrations, samples, then each figure beside what is promised of it."""
    show_migration(figures)
    screen.print(samples_table(figures["samples"], digits=3), "", promised_table(figures, PROMISES, digits=4))
    screen.print(
        plain(f"{figures['cases']:,} migrations; counted with {figures['tokenizer']}; {figures['load']}", "dim")
    )
