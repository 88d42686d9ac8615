"""Clients that others wrote, in front of the gateway in proxy mode, with servers that others wrote behind it."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mcp.clients import Target, inspected_tools, typescript
from tests.mcp.peers import (
    everything,
    filesystem_server,
    git_server,
    memory_server,
    reference_server,
    sqlite_server,
    time_server,
)
from tests.mcp.processes import gateway, serving, stdio_upstream

from sealyard.privacy import TOKEN

ELICIT = {"name": "test_elicitation", "arguments": {"message": "Who are you?"}}
SIMPLE = [{"type": "text", "text": "This is a simple text response for testing."}]

OWN_TOOLS = ["search_tools", "execute_code", "execute_analysis", "save_skill", "find_skills", "load_skill"]


@pytest.fixture(scope="module", params=["http", "stdio"])
def proxy(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The gateway in front of the conformance fixture, over both transports."""
    upstream = stdio_upstream("everything", everything())
    if request.param == "stdio":
        yield gateway(upstream, options=("--stdio",))
        return
    with serving(gateway(upstream)) as url:
        yield url


def assert_concealed(text: str) -> None:
    """The upstream repeats what the client's user said, an e-mail address: as a token, since it is private."""
    assert "ada@example.org" not in text
    assert {found[1] for found in TOKEN.finditer(text)} == {"email"}


@pytest.mark.parametrize("version", [1, 2])
def test_typescript_client_lists_calls_and_answers_questions(proxy: Target, version: int) -> None:
    """Both generations of the SDK work through the gateway, each in its own era."""
    calls = [{"name": "test_simple_text", "arguments": {}}]
    asks = ELICIT if version == 1 else {"name": "test_input_required_result_elicitation", "arguments": {}}

    seen = typescript(version, proxy, *calls, asks)

    assert seen["server"] == "sealyard"
    assert "test_image_content" in seen["tools"]
    assert seen["results"][0] == {"content": SIMPLE, "isError": False}
    assert seen["asked"] == ["Who are you?" if version == 1 else "What is your name?"]
    assert_concealed(seen["results"][1]["content"][0]["text"])


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_finds_every_schema_portable(proxy: Target, era: str) -> None:
    """The Inspector lists the same tools in both eras and has nothing to say against them."""
    tools = inspected_tools(proxy, era=era)

    assert tools[:2] == ["test_simple_text", "test_image_content"]


def test_modern_client_answers_a_question_of_a_server_of_the_handshakes_era() -> None:
    """Neither side was written here: the reference server asks while it runs, the client takes rounds."""
    with serving(gateway(stdio_upstream("reference", reference_server()))) as url:
        seen = typescript(2, url, {"name": "trigger-elicitation-request", "arguments": {}})

    assert seen["protocol"] == "2026-07-28"
    assert len(seen["asked"]) == 1
    assert seen["results"][0]["isError"] is False
    assert_concealed(str(seen["results"][0]["content"]))


def test_servers_of_others_are_merged(tmp_path: Path) -> None:
    """Five servers and one client from elsewhere, and a file that is read through all of them."""
    (tmp_path / "note.txt").write_text("kept", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    upstreams = [
        stdio_upstream("files", filesystem_server(tmp_path)),
        stdio_upstream("graph", memory_server(), env={"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")}),
        stdio_upstream("git", git_server(tmp_path)),
        stdio_upstream("rows", sqlite_server(tmp_path / "rows.db")),
        stdio_upstream("time", time_server()),
    ]
    read = {"name": "mcp__files__read_text_file", "arguments": {"path": str(tmp_path / "note.txt")}}
    with serving(gateway(*upstreams)) as url:
        seen = typescript(1, url, read)

    owners = Counter(name.split("__")[1] for name in seen["tools"])
    assert owners == {"files": 14, "graph": 9, "git": 12, "rows": 6, "time": 2}
    assert list(owners) == ["files", "graph", "git", "rows", "time"]
    assert seen["results"][0]["content"] == [{"type": "text", "text": "kept"}]


@pytest.fixture(scope="module", params=["http", "stdio"])
def code_mode(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The gateway in code mode in front of the same fixture."""
    upstream = stdio_upstream("everything", everything())
    if request.param == "stdio":
        yield gateway(upstream, options=("--mode", "code", "--stdio"))
        return
    with serving(gateway(upstream, options=("--mode", "code"))) as url:
        yield url


@pytest.mark.parametrize("version", [1, 2])
def test_typescript_client_searches_and_runs_code(code_mode: Target, version: int) -> None:
    """Both generations of the SDK find a tool and use it from code."""
    code = "from servers.everything import test_simple_text\ntest_simple_text()"
    seen = typescript(
        version,
        code_mode,
        {"name": "search_tools", "arguments": {"query": "simple text"}},
        {"name": "execute_code", "arguments": {"code": code}},
    )

    assert seen["tools"] == OWN_TOOLS
    assert "mcp__everything__test_simple_text" in seen["results"][0]["content"][0]["text"]
    assert seen["results"][1]["content"] == SIMPLE


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_finds_the_code_mode_portable(code_mode: Target, era: str) -> None:
    """Our own definitions hold what the strictest client asks of schemas."""
    assert inspected_tools(code_mode, era=era) == OWN_TOOLS
