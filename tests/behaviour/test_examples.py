"""The example servers, over real standard input and output, with the SDK's own client, in both eras of the protocol."""

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, TextContent
from tests import warm

from sealyard.examples import demo_upstreams, expenses
from sealyard.examples.files import _files as sample_files

NAMES = ("expenses", "trips", "files")
MODES = ("auto", "legacy")


@asynccontextmanager
async def connect(name: str, directory: Path, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of one of the servers, which is started for it and ends with it."""
    config = demo_upstreams(directory)[name]
    assert config.command == sys.executable
    command, *rest = warm.python(*config.args)
    async with Client(StdioServerParameters(command=command, args=rest), mode=mode) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """The text of an answer that is nothing else."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def rows_of(result: CallToolResult) -> Any:
    """The data of an answer that is no error, as a client of either era finds it."""
    assert not result.is_error, text_of(result)
    return json.loads(text_of(result)) if result.structured_content is None else result.structured_content


def refusal_of(result: CallToolResult) -> str:
    """The words of an answer that is an error."""
    assert result.is_error
    return text_of(result)


REFUSALS: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "expenses": [
        (
            "list_expenses",
            {"limit": "ten"},
            "The arguments do not fit 'list_expenses': Expected `int | null`, got `str` - at `$.limit`."
            " Its parameters are: user_id, since, until, category, limit.",
        ),
        (
            "list_expenses",
            {"since": "yesterday"},
            "The arguments do not fit 'list_expenses': Invalid RFC3339 encoded date - at `$.since`."
            " Its parameters are: user_id, since, until, category, limit.",
        ),
        (
            "get_budget",
            {},
            "The arguments do not fit 'get_budget': Object missing required field `department`."
            " Its parameters are: department.",
        ),
        (
            "list_employees",
            {"team": "Sales"},
            "The arguments do not fit 'list_employees': Object contains unknown field `team`."
            " Its parameters are: department.",
        ),
        (
            "list_expenses",
            {"user_id": "u999"},
            "No employee has the id 'u999'. Call list_employees for the ids that exist.",
        ),
        (
            "approve_expense",
            {"expense_id": "x9"},
            "No expense has the id 'x9'. Call list_expenses for the ids that exist.",
        ),
    ],
    "trips": [
        ("get_park", {"park_id": "p99"}, "No park has the id 'p99'. Call find_parks for the ids that exist."),
        (
            "book_campsite",
            {"campground_id": "p01-a", "arrival": "2025-12-24", "nights": 2},
            "2025-12-24 is out of season. Arrive between 2025-05-01 and 2025-09-30.",
        ),
        (
            "get_route_search",
            {"search_id": "r9"},
            "No search has the id 'r9'. Begin one with start_route_search.",
        ),
        (
            "start_route_search",
            {"origin": "Moab", "destination": "moab"},
            "The way from 'Moab' to itself needs no search. Name two different places.",
        ),
    ],
    "files": [
        ("read_file", {"path": "gone.md"}, "There is no 'gone.md'. Call list_files to see what there is."),
        (
            "read_file",
            {"path": "images/sunrise.png"},
            "'images/sunrise.png' is not text in UTF-8. Read it with read_media.",
        ),
        (
            "delete_file",
            {},
            "No tool named 'delete_file'. The tools of this server are"
            " list_files, list_archive, read_file, read_media, search_files, write_file.",
        ),
    ],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
async def test_tools_are_described_and_refuse_in_words_that_help(name: str, mode: str, tmp_path: Path) -> None:
    """Tools and parameters have descriptions and say what they do; what they cannot do is an answer, not a fault."""
    async with connect(name, tmp_path, mode) as client:
        tools = (await client.list_tools()).tools
        refusals = [refusal_of(await client.call_tool(tool, asked)) for tool, asked, _ in REFUSALS[name]]

    assert len(tools) >= 5
    for tool in tools:
        assert tool.description
        assert tool.annotations is not None
        assert None not in (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
        assert [key for key, each in tool.input_schema["properties"].items() if "description" not in each] == []
        jsonschema_rs.meta.validate(tool.input_schema)
        if tool.output_schema is not None:
            jsonschema_rs.meta.validate(tool.output_schema)
            assert mode == "auto" or tool.output_schema["type"] == "object"
    assert refusals == [message for _, _, message in REFUSALS[name]]


@pytest.mark.parametrize("mode", MODES)
async def test_expenses_are_thousands_of_rows_and_filters_narrow_them(mode: str, tmp_path: Path) -> None:
    """The whole year is 5,000 rows, newest first, and the filters hold for each row of what they leave."""
    async with connect("expenses", tmp_path, mode) as client:
        everything = rows_of(await client.call_tool("list_expenses", {}))
        narrowed = rows_of(
            await client.call_tool(
                "list_expenses",
                {"user_id": "u007", "since": "2024-10-01", "until": "2024-12-24", "category": "travel"},
            )
        )
        newest = rows_of(await client.call_tool("list_expenses", {"limit": 3}))

    assert len(everything) == 5_000
    assert [row["date"] for row in everything] == sorted((row["date"] for row in everything), reverse=True)
    assert newest == everything[:3]
    assert narrowed == [
        row
        for row in everything
        if row["user_id"] == "u007" and row["category"] == "travel" and "2024-10-01" <= row["date"] <= "2024-12-24"
    ]
    assert len(narrowed) > 0


async def test_expenses_are_the_same_at_every_start_and_hide_what_an_auditor_should_find(tmp_path: Path) -> None:
    """Another process tells the same story: one bill is claimed three times, one purchase split below the limit."""
    async with connect("expenses", tmp_path, "legacy") as client:
        rows = rows_of(await client.call_tool("list_expenses", {}))

    assert rows == msgspec.to_builtins(expenses.list_expenses())
    claims = Counter((row["user_id"], row["amount"]) for row in rows if row["category"] == "lodging")
    assert [user for (user, _), times in claims.items() if times == 3] == ["u023"]
    split = [row for row in rows if 499 <= row["amount"] < 500 and row["date"] == "2024-11-05"]
    assert [row["user_id"] for row in split] == ["u031"] * 8


def test_budgets_add_up() -> None:
    """What a department has spent is the sum of its rows, which are those of its people."""
    rows = [row for row in expenses.list_expenses() if row.department == "Sales"]
    budget = expenses.get_budget("Sales")

    assert {row.user_id for row in rows} == {each.user_id for each in expenses.list_employees("Sales")}
    assert budget.spent == round(sum(row.amount for row in rows), 2)
    assert budget.remaining == round(budget.budget - budget.spent, 2)


async def test_expenses_can_be_noted_flagged_and_approved(tmp_path: Path) -> None:
    """Writes are kept, and a flagged expense is not approved."""
    async with connect("expenses", tmp_path) as client:
        (row,) = rows_of(await client.call_tool("list_expenses", {"limit": 1}))
        key = {"expense_id": row["expense_id"]}
        noted = rows_of(await client.call_tool("add_note", {**key, "text": "checked"}))
        approved = rows_of(await client.call_tool("approve_expense", key))
        await client.call_tool("flag_expense", {**key, "reason": "twice"})
        refusal = refusal_of(await client.call_tool("approve_expense", key))
        (kept,) = rows_of(await client.call_tool("list_expenses", {"limit": 1}))

    assert noted == row | {"notes": ["checked"]}
    assert approved == noted | {"status": "approved"}
    assert kept == approved | {"flag": "twice"}
    assert refusal == (f"Expense {row['expense_id']!r} is flagged: 'twice'. Somebody has to settle that first.")


async def test_parks_campgrounds_and_weather_belong_together(tmp_path: Path) -> None:
    """What a park has is found by its id, and filters hold."""
    async with connect("trips", tmp_path) as client:
        parks = rows_of(await client.call_tool("find_parks", {"state": "UT", "activity": "stargazing"}))
        park = rows_of(await client.call_tool("get_park", {"park_id": parks[0]["id"]}))
        camps = rows_of(await client.call_tool("list_campgrounds", {"park_id": park["id"]}))
        weather = rows_of(await client.call_tool("weather_forecast", {"park_id": park["id"], "days": 3}))

    assert {(each["state"], "stargazing" in each["activities"]) for each in parks} == {("UT", True)}
    assert park == parks[0]
    assert {each["park_id"] for each in camps} == {park["id"]}
    assert [day["date"] for day in weather["days"]] == ["2025-05-01", "2025-05-02", "2025-05-03"]


async def test_campsites_are_booked_until_they_are_full_and_freed_again(tmp_path: Path) -> None:
    """Each booking takes a site, the last one is refused by name, and a cancelled one makes room."""
    async with connect("trips", tmp_path) as client:
        camp = rows_of(await client.call_tool("list_campgrounds", {"park_id": "p01"}))[0]
        stay = {"campground_id": camp["id"], "arrival": "2025-07-01", "nights": 2}
        bookings = [rows_of(await client.call_tool("book_campsite", stay)) for _ in range(camp["sites"])]
        refusal = refusal_of(await client.call_tool("book_campsite", stay | {"arrival": "2025-07-02", "nights": 1}))
        await client.call_tool("cancel_booking", {"booking_id": bookings[0]["booking_id"]})
        again = rows_of(await client.call_tool("book_campsite", stay))

    assert {each["total"] for each in bookings} == {2 * camp["price_per_night"]}
    assert refusal == f"{camp['name']!r} is full on {date(2025, 7, 2)}. Choose other nights."
    assert again["booking_id"] not in {each["booking_id"] for each in bookings}


async def test_route_search_runs_until_it_is_done(tmp_path: Path) -> None:
    """A search is not done when it starts; asked again and again it ends with routes, the direct one first."""
    async with connect("trips", tmp_path) as client:
        search = rows_of(await client.call_tool("start_route_search", {"origin": "denver", "destination": "p02"}))
        first = search
        async with asyncio.timeout(60):
            while search["status"] == "running":
                search = rows_of(await client.call_tool("get_route_search", {"search_id": first["search_id"]}))

    assert (first["status"], first["routes"]) == ("running", [])
    assert (search["status"], search["progress"], search["retry_after_seconds"]) == ("done", 1, 0)
    assert [len(route["via"]) for route in search["routes"]] == [0, 1, 1]


async def test_files_are_listed_read_searched_and_written(tmp_path: Path) -> None:
    """What is written can be listed, read in part and found; directories on the way are made."""
    async with connect("files", tmp_path) as client:
        written = rows_of(await client.call_tool("write_file", {"path": "a/b/c.txt", "text": "one\ntwo ä\nthree\n"}))
        listed = rows_of(await client.call_tool("list_files", {"path": "a", "recursive": True}))
        read = rows_of(await client.call_tool("read_file", {"path": "a/b/c.txt", "first_line": 2, "max_lines": 1}))
        found = rows_of(await client.call_tool("search_files", {"words": "TWO"}))
        top = rows_of(await client.call_tool("list_files", {}))

    assert written == {"path": "a/b/c.txt", "is_directory": False, "size": 17}
    assert listed == [{"path": "a/b", "is_directory": True, "size": 0}, written]
    assert read == {"path": "a/b/c.txt", "text": "two ä\n", "first_line": 2, "lines": 3}
    assert {"path": "a/b/c.txt", "line": 2, "text": "two ä"} in found
    assert [each["path"] for each in top] == ["a", "handbook", "images", "notes"]


async def test_media_come_as_images_or_blobs(tmp_path: Path) -> None:
    """An image is an image block and any other file a blob, with the bytes of the file."""
    async with connect("files", tmp_path) as client:
        await client.call_tool("write_file", {"path": "table.bin", "text": "\x00\x01"})
        (image,) = (await client.call_tool("read_media", {"path": "images/sunrise.png"})).content
        (blob,) = (await client.call_tool("read_media", {"path": "table.bin"})).content

    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"
    content = sample_files["images/sunrise.png"]
    assert image.data == base64.b64encode(content).decode()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert isinstance(blob, EmbeddedResource)
    assert isinstance(blob.resource, BlobResourceContents)
    assert (blob.resource.mime_type, blob.resource.blob) == ("application/octet-stream", "AAE=")


async def test_no_path_of_files_leads_to_the_disk(tmp_path: Path) -> None:
    """The files are in memory: any path that is not one of theirs is refused, whatever the machine has there."""
    async with connect("files", tmp_path) as client:
        for path in ("../secret.txt", "/etc/passwd", "handbook", "", ".", "..", "todo.md\x00"):
            refusal_of(await client.call_tool("read_file", {"path": path}))
            refusal_of(await client.call_tool("read_media", {"path": path}))
        for path in ("/etc/passwd", "handbook", "", "handbook/"):
            refusal_of(await client.call_tool("write_file", {"path": path, "text": "harm"}))
        too_much = refusal_of(await client.call_tool("write_file", {"path": "a", "text": "x" * (4 << 20)}))
        for path in ("..", "/etc", "notes/.."):
            refusal_of(await client.call_tool("list_files", {"path": path}))

    assert too_much == "The files would be larger than 4,194,304 bytes together. Write less."


@pytest.mark.parametrize("name", NAMES)
def test_server_ends_when_its_input_does(name: str, tmp_path: Path) -> None:
    """A server whose input is closed exits with 0 and has written nothing but answers."""
    config = demo_upstreams(tmp_path)[name]

    done = subprocess.run([str(config.command), *config.args], input=b"", capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_garbage_on_the_input_costs_only_itself(tmp_path: Path) -> None:
    """A line that is no message is survived, and the next call is answered."""
    config = demo_upstreams(tmp_path)["trips"]
    requests: list[dict[str, Any]] = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "get_park", "arguments": {"park_id": "p01"}},
        },
    ]
    process = await asyncio.create_subprocess_exec(
        str(config.command), *config.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers = {}
    try:
        async with asyncio.timeout(60):
            for request in requests:
                process.stdin.write(b"\xff\xfe not a message\n{\n" + json.dumps(request).encode() + b"\n")
            while 2 not in answers:
                answer = json.loads(await process.stdout.readline())
                answers[answer.get("id")] = answer
            process.stdin.close()
            code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    assert answers[2]["result"]["structuredContent"]["id"] == "p01"
    assert code == 0
