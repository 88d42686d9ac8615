"""Counts what an agent pays in tokens: behind sealyard, and with every definition and every row in its context.

Both sides do the same task on the same servers. Everything counted on sealyard's side is what its own MCP server sent
to a client; what a chat repeats from turn to turn is left out on both sides.
"""

import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client

from benchmarks.tables import promised_table
from benchmarks.yardsticks import text_of
from sealyard.cli.terminal import columns, plain, screen
from sealyard.config import Config
from sealyard.config.settings import SandboxConfig, StoreConfig
from sealyard.errors import InvalidRequest, SandboxBroken
from sealyard.examples import demo_upstreams
from sealyard.metrics import tokens
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.values.tools import Definition, ToolAnnotations, ToolSpec
from sealyard.yard import Yard, open_yard

PROMISES = {
    "surface_tokens": "at most 600",
    "search_tokens_default": "at most 300",
    "plain_tokens": "shown",
    "saving": "at least 0.99",
}

_QUERY = "list the expenses of all employees"
_TASK = """\
from collections import Counter
from servers.expenses import list_expenses

rows = list_expenses()
bills = Counter((row["employee"], row["merchant"], row["amount"]) for row in rows)
print(len(rows), "expenses")
result = [[*bill, times] for bill, times in bills.items() if times > 2]
"""
_MOST_QUERIES = 500
_FORM = "Give one JSON object a line with server, name and inputSchema."


async def measure(tools: Path | None) -> dict[str, Any]:
    """Every figure of `benchmarks tokens`, for the servers of a file or else for the example servers."""
    fakes = {} if tools is None else fake_servers(read_tools(tools))
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        place = Path(folder)
        (place / "files").mkdir()
        examples = demo_upstreams(place / "files")
        if tools is not None:
            if "expenses" in fakes:
                raise InvalidRequest("The file has a server 'expenses', which is the name of the example. Rename it.")
            examples = {"expenses": examples["expenses"]}  # the task needs it on both sides
        config = Config(
            upstreams=examples,
            store=StoreConfig(path=place / "sealyard.db"),
            sandbox=SandboxConfig(allow_weaker=True),
        )
        async with open_yard(config, upstreams=fakes) as yard:
            snapshot = await yard.snapshot()
            async with Client(build_server(yard, config.surface)) as agent:
                return await _count(yard, agent, list(snapshot.tools.values()))


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    sides = ("plain", "sealyard")
    paid = columns("tokens", "plain MCP", "sealyard")
    for part in dict.fromkeys(part for side in sides for part in figures[side]):
        paid.add_row(part, *(f"{figures[side].get(part, 0):,}" for side in sides))
    paid.add_row("together", *(f"{figures[f'{side}_tokens']:,}" for side in sides))
    paid.add_row("in dollars", *(f"{figures[f'{side}_dollars']:.4f}" for side in sides))
    screen.print(paid, "", promised_table(figures, PROMISES, digits=4))
    where = (
        f"{figures['tools']} tools of {figures['servers']} servers, {figures['task_rows']:,} rows; counted with "
        f"{figures['tokenizer']}; assumed: ${figures['assumed_dollars_per_million_tokens']:g} per million tokens"
    )
    screen.print(plain(where, "dim"))


async def _count(yard: Yard, agent: Client, specs: list[ToolSpec]) -> dict[str, Any]:
    definitions = sum(tokens.count_definition(spec.name, spec.description, spec.input_schema) for spec in specs)
    called = await yard.tools.upstreams["expenses"].call("list_expenses", {}, unwrap=True)  # as plain MCP would have it
    answer = called.read(unwrap=True)
    rows = msgspec.json.encode(answer.value).decode()
    in_context = {"definitions": definitions, "task": tokens.count_json({}) + tokens.count(rows)}
    through_sealyard = await _count_sealyard(agent, answer.value)
    searches = [await _search_tokens(agent, query) for query in _queries(specs)]
    plain_tokens, sealyard_tokens = sum(in_context.values()), sum(through_sealyard.values())
    return {
        "surface_tokens": through_sealyard["definitions"] + through_sealyard["instructions"],
        "search_tokens_default": max(searches),
        "search_tokens_default_median": statistics.median(searches),
        "plain_tokens": plain_tokens,
        "sealyard_tokens": sealyard_tokens,
        "saving": 1 - sealyard_tokens / plain_tokens,
        "plain": in_context,
        "sealyard": through_sealyard,
        "plain_dollars": tokens.dollars(plain_tokens),
        "sealyard_dollars": tokens.dollars(sealyard_tokens),
        "assumed_dollars_per_million_tokens": tokens.DOLLARS_PER_MILLION,
        "tokenizer": tokens.TOKENIZER,
        "servers": len({spec.upstream for spec in specs}),
        "tools": len(specs),
        "searches": len(searches),
        "task_rows": len(answer.value),
        "task_bytes": len(rows.encode()),
        "promises": PROMISES,
    }


async def _count_sealyard(agent: Client, rows: list[dict[str, Any]]) -> dict[str, int]:
    """The tokens that the agent was sent and sent itself, part by part."""
    surface = (await agent.list_tools()).tools
    found = await agent.call_tool("search_tools", {"query": _QUERY})
    done = await agent.call_tool("execute_code", {"code": _TASK})
    bills = Counter((row["employee"], row["merchant"], row["amount"]) for row in rows)
    # Who it was, the agent sees as a token.
    repeated = [[merchant, amount, times] for (_, merchant, amount), times in bills.items() if times > 2]
    output, _, result = text_of(done).partition("\nresult:\n")
    found_out = [bill[1:] for bill in msgspec.json.decode(result)] if not done.is_error and result else []
    if not output.endswith(f"\n{len(rows)} expenses") or found_out != repeated:
        raise SandboxBroken(f"The task came to {text_of(done)!r}, not to {repeated!r}.")
    return {
        "definitions": sum(
            tokens.count_definition(tool.name, tool.description or "", tool.input_schema) for tool in surface
        ),
        "instructions": tokens.count(agent.instructions or ""),
        "search": tokens.count_json({"query": _QUERY}) + tokens.count(text_of(found)),
        "code": tokens.count_json({"code": _TASK}),
        "result": tokens.count(text_of(done)),
    }


async def _search_tokens(agent: Client, query: str) -> int:
    return tokens.count(text_of(await agent.call_tool("search_tools", {"query": query})))


def _queries(specs: list[ToolSpec]) -> Iterable[str]:
    """The words of each tool's name, or of evenly chosen ones where there are very many."""
    step = -(-len(specs) // _MOST_QUERIES)
    return (" ".join(spec.function.split("_")) for spec in specs[::step])


class _Line(msgspec.Struct, rename={"input_schema": "inputSchema", "output_schema": "outputSchema"}):
    server: str
    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None


def read_tools(file: Path) -> list[_Line]:
    """The tools of a file with one JSON object a line, as `tools/list` gives them and with their `server`."""
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=_Line))
            except msgspec.DecodeError as error:
                raise InvalidRequest(f"Line {number} of {str(file)!r} is no tool: {error}. {_FORM}") from None
    if not found:
        raise InvalidRequest(f"{str(file)!r} has no tools. {_FORM}")
    return found


def fake_servers(lines: list[_Line]) -> dict[str, FakeUpstream]:
    """Servers with these definitions. Nobody calls their tools."""
    servers: dict[str, FakeUpstream] = {}
    for line in lines:
        server = servers.setdefault(line.server, FakeUpstream(line.server))
        server.tools[line.name] = _never_called
        server.definitions[line.name] = Definition(
            name=line.name,
            title=line.title or "",
            description=line.description or "",
            input_schema=line.input_schema,
            output_schema=line.output_schema,
            annotations=ToolAnnotations(),
        )
    return servers


def _never_called() -> None:
    raise InvalidRequest("This tool is here to be found, not to be called.")
