"""Python functions at the command line: the module of a configuration as people and clients meet it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import warm

Command = Callable[..., subprocess.CompletedProcess[str]]

SHOP = '''
import sys

__version__ = "2.1"
print("imported")

def price(item: str, pieces: int = 1) -> int:
    """Get the price of an item.

    Args:
        item: Its name.
    """
    print("called")
    return len(item) * pieces

def broken(*rest): ...
'''


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration beside its module, and nothing else of the machine's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop_tools.py").write_text(SHOP)
    file = tmp_path / "sealyard.toml"
    file.write_text(
        f'[store]\npath = "{tmp_path}/s.db"\n[sandbox]\ndata_packages = false\n[upstreams.shop]\ntools = "shop_tools"\n'
    )
    return file


@pytest.mark.behaviour("functions.commands")
def test_commands_show_and_call_functions_like_other_tools(installed: Command, sealyard: Command, config: Path) -> None:
    """The list, the state with each function that is no tool, the search and a call."""
    listed = installed("tools", "--config", str(config))
    status = sealyard("tools", "--status", "--config", str(config))
    found = sealyard("search", "price of an item", "--detail", "full", "--config", str(config), "--json")
    called = sealyard("call", "shop.price", "item=jam", "pieces=2", "--config", str(config))

    assert (listed.returncode, status.returncode, found.returncode, called.returncode) == (0, 0, 0, 0)
    assert "Get the price of an item." in listed.stdout
    row = next(line.split() for line in status.stdout.splitlines() if line.strip().startswith("shop "))
    assert row == "shop ready 1 - shop_tools 2.1 functions of shop_tools".split()
    assert "shop: Function 'broken' is not a tool: it takes *rest" in status.stdout
    [hit] = json.loads(found.stdout.partition("imported\n")[2])["hits"]
    assert (hit["signature"], hit["parameters"]) == ("price(item: str, pieces: int = 1) -> int", {"item": "Its name."})
    assert called.stdout.splitlines()[-1] == "6"


def test_function_that_prints_does_not_break_the_protocol(config: Path) -> None:
    """Over standard input and output, what a function or its module prints goes to standard error."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "execute_code", "arguments": {"code": "from servers.shop import price\nprice('jam')"}},
        },
    ]
    with subprocess.Popen(
        [*warm.python("-m", "sealyard"), "serve", str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("".join(json.dumps(each) + "\n" for each in asked))
        process.stdin.flush()
        messages = []
        while not messages or messages[-1].get("id") != 2:
            messages.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        errors = process.stderr.read()

    assert messages[-1]["result"]["content"][0]["text"] == "3"
    assert ("imported" in errors, "called" in errors) == (True, True)


def test_function_that_hangs_does_not_keep_a_command_from_ending(sealyard: Command, config: Path) -> None:
    """Its caller gets the error in time, and the thread ends with the process."""
    config.with_name("shop_tools.py").write_text("import threading\n\ndef hang(): threading.Event().wait()\n")
    config.write_text(f"{config.read_text()}call_seconds = 0.2\n")

    called = sealyard("call", "shop.hang", "--config", str(config))

    assert called.returncode != 0
    assert "'shop' did not answer 'hang' within 0.2 s." in called.stderr


def test_configuration_with_functions_takes_servers_of_clients(
    sealyard: Command, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sealyard init --force` adds what a client has and leaves the module as it is."""
    monkeypatch.chdir(config.parent)
    config.with_name(".mcp.json").write_text('{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}')

    done = sealyard("init", "--force", "--output", str(config))

    assert done.returncode == 0
    assert {'tools = "shop_tools"', 'command = "uvx"'} <= set(config.read_text().splitlines())


@pytest.mark.behaviour("functions.unused")
def test_gateway_without_functions_imports_nothing_of_them() -> None:
    """Neither do the names for authors import the gateway, the SDK or what describes functions."""
    gateway = "import sealyard.yard.assembly, sealyard.serve.mcp, sealyard.yard.yard"
    author = "from sealyard import CallContext, Response, ResponseFile, report_progress, tool"
    show = "import sys; print(*sorted(m for m in sys.modules if m.startswith(('sealyard.', 'mcp', 'jsonschema'))))"
    loaded = [
        subprocess.run([sys.executable, "-c", f"{code}; {show}"], capture_output=True, text=True, check=True).stdout
        for code in (gateway, author)
    ]

    of_gateway, of_author = (set(each.split()) for each in loaded)
    here = "sealyard.broker.upstreams.python"
    assert {name for name in of_gateway if name.startswith(f"{here}.")} == set()
    assert {name for name in of_author if name.startswith(f"{here}.")} == {f"{here}.author"}
    assert {
        name for name in of_author if name.startswith(("mcp", "jsonschema", "sealyard.yard", "sealyard.store"))
    } == set()
