"""What is read from the files of MCP clients as those clients write them, and what is written to them and from them."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from sealyard.config import Machine, read_machine
from sealyard.config.clients.documents import render as render_file
from sealyard.config.clients.known import CLIENTS, Gateway
from sealyard.config.clients.merging import merge, render
from sealyard.config.clients.rewrite import Change, plan_apply
from sealyard.config.clients.servers import Found, find_places, find_servers
from sealyard.config.references import describe_upstream, find_literals, hide_arguments, looks_secret
from sealyard.config.settings import UpstreamEntry, read_settings
from sealyard.errors import InvalidConfig, InvalidRequest
from sealyard.values.tools import OAuthConfig


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Linux home with a project `shop` in it."""
    (tmp_path / "shop").mkdir()
    return read_machine(environ={"HOME": str(tmp_path)}, directory=tmp_path / "shop", platform="linux")


def put(machine: Machine, name: str, content: str | dict[str, Any]) -> Path:
    """Write a file below the home."""
    file = machine.home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def look(machine: Machine) -> tuple[list[Found], list[str]]:
    """Every server, and the problems."""
    survey = find_servers(machine)
    return survey.servers, survey.problems


def found(machine: Machine) -> dict[tuple[str, str], UpstreamEntry]:
    """Every server by client and name; nothing may have gone wrong."""
    servers, problems = look(machine)
    assert problems == []
    return {(each.place.client, each.name): each.entry for each in servers}


def test_claude_code_has_three_places(machine: Machine) -> None:
    """The project's file, the user's servers for this project, and the user's servers; other projects are not ours."""
    put(
        machine,
        "shop/.mcp.json",
        {
            "mcpServers": {
                "shared": {"type": "stdio", "command": "npx", "args": ["-y", "s"], "env": {"K": "${K:-v}"}},
                "api": {
                    "type": "http",
                    "url": "${BASE}/mcp",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                    "oauth": {"clientId": "me", "callbackPort": 8080},
                },
            }
        },
    )
    put(
        machine,
        ".claude.json",
        {
            "numStartups": 7,
            "mcpServers": {"mine": {"type": "sse", "url": "https://mine.example/sse"}},
            "projects": {
                str(machine.directory): {"mcpServers": {"local": {"command": "local"}}, "history": []},
                "/elsewhere": {"mcpServers": {"foreign": {"command": "foreign"}}},
            },
        },
    )

    assert found(machine) == {
        ("claude-code", "shared"): UpstreamEntry(command="npx", args=("-y", "s"), env={"K": "${K:-v}"}),
        ("claude-code", "api"): UpstreamEntry(
            url="${BASE}/mcp",
            headers={"Authorization": "Bearer ${TOKEN}"},
            oauth=OAuthConfig(client_id="me", redirect_port=8080),
        ),
        ("claude-code", "local"): UpstreamEntry(command="local"),
        ("claude-code", "mine"): UpstreamEntry(url="https://mine.example/sse", transport="sse"),
    }


def test_cursor_and_claude_desktop_are_read_with_comments(machine: Machine) -> None:
    """As people edit them by hand: remarks, trailing commas, numbers in `env`, files of variables."""
    put(
        machine,
        ".cursor/mcp.json",
        """{
          // mine
          "mcpServers": {
            "a": {"command": "a", "envFile": "${userHome}/a.env", "env": {"PORT": 3000, "ON": true, "OFF": null,},},
            "b": {"url": "https://b.example/v1/sse?x=//y", "autoApprove": ["*"]}, /* "c": {} */
          },
        }""",
    )
    put(
        machine,
        ".config/Claude/claude_desktop_config.json",
        {"mcpServers": {"d": {"command": "d", "args": []}}, "x": 1},
    )

    assert found(machine) == {
        ("cursor", "a"): UpstreamEntry(command="a", env_file="${userHome}/a.env", env={"PORT": "3000", "ON": "true"}),
        ("cursor", "b"): UpstreamEntry(url="https://b.example/v1/sse?x=//y", transport="sse"),
        ("claude-desktop", "d"): UpstreamEntry(command="d"),
    }


def test_inputs_of_vscode_become_variables(machine: Machine) -> None:
    """What it would ask for must be set, and a note says so."""
    put(
        machine,
        ".config/Code/User/mcp.json",
        {
            "inputs": [{"type": "promptString", "id": "github-token", "description": "GitHub token", "password": True}],
            "servers": {
                "gh": {"type": "http", "url": "https://gh.example", "headers": {"X": "t ${input:github-token}"}},
                "ws": {"command": "${workspaceFolder}/run", "args": ["${env:HOME}", "${input:other}"], "dev": {}},
            },
        },
    )
    servers, problems = look(machine)

    assert [(each.entry, each.notes) for each in servers] == [
        (
            UpstreamEntry(url="https://gh.example", headers={"X": "t ${GITHUB_TOKEN}"}),
            ("set GITHUB_TOKEN in the environment: VS Code asks for it (GitHub token)",),
        ),
        (
            UpstreamEntry(command="${workspaceFolder}/run", args=("${env:HOME}", "${OTHER}")),
            ("set OTHER in the environment: VS Code asks for it",),
        ),
    ]
    assert problems == []


def test_codex_is_read_in_its_own_words(machine: Machine) -> None:
    """Timeouts, tool lists, variables by name and disabled servers keep their meaning."""
    put(
        machine,
        ".codex/config.toml",
        """
        model = "m"
        [mcp_servers.a]
        command = "a"
        env_vars = ["PASSED"]
        cwd = "/tmp"
        startup_timeout_sec = 20
        tool_timeout_sec = 90.5
        enabled_tools = ["x", "y"]
        disabled_tools = ["z"]
        enabled = false
        [mcp_servers.a.env]
        GIVEN = "1"
        [mcp_servers.b]
        url = "https://b"
        bearer_token_env_var = "B_TOKEN"
        http_headers = { X-A = "1" }
        env_http_headers = { X-B = "VARIABLE" }
        startup_timeout_ms = 1500
        """,
    )

    assert found(machine) == {
        ("codex", "a"): UpstreamEntry(
            command="a",
            env={"PASSED": "${PASSED:-}", "GIVEN": "1"},
            cwd="/tmp",
            start_seconds=20.0,
            call_seconds=90.5,
            tools=("x", "y"),
            without_tools=("z",),
            disabled=True,
        ),
        ("codex", "b"): UpstreamEntry(
            url="https://b",
            bearer_token="${B_TOKEN}",
            headers={"X-A": "1", "X-B": "${VARIABLE}"},
            start_seconds=1.5,
        ),
    }


def test_gemini_and_windsurf_have_their_own_addresses(machine: Machine) -> None:
    """`httpUrl`, `serverUrl`, SSE behind Gemini's `url`, and its `$NAME`."""
    put(
        machine,
        "shop/.gemini/settings.json",
        {
            "theme": "x",
            "mcpServers": {
                "sse": {"url": "https://s", "timeout": 5000, "trust": True, "includeTools": ["a"]},
                "http": {
                    "httpUrl": "https://h",
                    "headers": {"A": "Bearer $TOKEN ${OTHER}"},
                    "oauth": {"enabled": False},
                },
            },
        },
    )
    put(
        machine,
        ".codeium/windsurf/mcp_config.json",
        {"mcpServers": {"w": {"serverUrl": "https://w", "disabled": True, "disabledTools": ["b"]}}},
    )

    assert found(machine) == {
        ("gemini", "sse"): UpstreamEntry(url="https://s", transport="sse", call_seconds=5.0, tools=("a",)),
        ("gemini", "http"): UpstreamEntry(url="https://h", headers={"A": "Bearer ${TOKEN} ${OTHER}"}),
        ("windsurf", "w"): UpstreamEntry(url="https://w", disabled=True, without_tools=("b",)),
    }


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "STREAMABLE_HTTP"])
def test_all_spellings_of_http_mean_http(machine: Machine, kind: str) -> None:
    """Clients do not agree on one."""
    put(machine, ".cursor/mcp.json", {"mcpServers": {"a": {"type": kind, "url": "https://a/sse"}}})

    assert found(machine) == {("cursor", "a"): UpstreamEntry(url="https://a/sse")}


def test_opencode_has_one_list_for_command_and_arguments(machine: Machine) -> None:
    """References in braces, and two names of the file."""
    put(
        machine,
        "shop/opencode.jsonc",
        """{
          // comments are allowed here
          "mcp": {
            "a": {"type": "local", "command": ["npx", "-y", "a"], "environment": {"KEY": "{env:A_KEY}"}},
            "b": {"type": "remote", "url": "https://b", "headers": {"X-B": "Bearer {env:B}"}, "enabled": false},
            "c": {"type": "local", "command": ["c", "{file:./key}"]}
          }
        }""",
    )

    servers = find_servers(machine)

    assert {each.name: each.entry for each in servers.servers} == {
        "a": UpstreamEntry(command="npx", args=("-y", "a"), env={"KEY": "${A_KEY}"}),
        "b": UpstreamEntry(url="https://b", headers={"X-B": "Bearer ${B}"}, disabled=True),
    }
    assert [problem.partition(", ")[2] for problem in servers.problems] == [
        "the server 'c' refers to a file with {file:…}, which sealyard does not read. This server is not used."
    ]


def test_variables_that_codex_passes_on_are_names_or_tables(machine: Machine) -> None:
    """A variable from elsewhere is named, and so is an entry that names none."""
    put(
        machine,
        ".codex/config.toml",
        """
        [mcp_servers.a]
        command = "a"
        env_vars = ["A", { name = "B", source = "local" }, { name = "C", source = "remote" }, { source = "local" }, 3]
        """,
    )
    servers, problems = look(machine)

    assert problems == []
    assert [(each.entry.env, each.notes) for each in servers] == [
        (
            {"A": "${A:-}", "B": "${B:-}", "C": "${C:-}"},
            (
                "set C in the environment: Codex takes it from 'remote'",
                "an entry of 'env_vars' names no variable and is left out",
                "an entry of 'env_vars' names no variable and is left out",
            ),
        )
    ]


def test_two_keys_of_one_meaning_are_both_understood(machine: Machine) -> None:
    """None is reported as meaningless because the other decided; a time that is no number is."""
    servers = {
        "off": {"command": "x", "disabled": True, "enabled": False},
        "slow": {"command": "x", "startup_timeout_sec": 20, "startup_timeout_ms": 5},
        "odd": {"command": "x", "startup_timeout_ms": True},
    }
    put(machine, "shop/.mcp.json", {"mcpServers": servers})
    read, _ = look(machine)

    assert [(each.name, each.entry, each.notes) for each in read] == [
        ("off", UpstreamEntry(command="x", disabled=True), ()),
        ("slow", UpstreamEntry(command="x", start_seconds=20.0), ()),
        ("odd", UpstreamEntry(command="x"), ("'startup_timeout_ms' means nothing to sealyard and is left out",)),
    ]


def test_broken_file_costs_only_itself(machine: Machine) -> None:
    """It is named with its line, and so is every hostile entry; the rest is used."""
    broken = put(machine, ".cursor/mcp.json", '{\n  "mcpServers": {\n')
    hostile: dict[str, Any] = {
        "good": {"command": "g", "surprise": 1},
        "\x1b[2Jname": {"command": "x"},
        "list": [],
        "args": {"command": "x", "args": "y"},
        "env": {"command": "x", "env": ["A=b"]},
        "half": {"command": "\ud800"},
        "numbers": {"command": 1, "startup_timeout_ms": "x", "env_vars": 3, "timeout": []},
        "type": {"command": "x", "type": {"a": []}},
    }
    file = put(machine, "shop/.mcp.json", {"mcpServers": hostile})
    desktop = put(machine, ".config/Claude/claude_desktop_config.json", '{"mcpServers": []}')
    servers, problems = look(machine)

    rest = "This server is not used."
    where = f"In {str(file)!r}, "
    assert [(each.name, each.notes) for each in servers] == [
        ("good", ("'surprise' means nothing to sealyard and is left out",))
    ]
    assert problems == [
        f"{where}mcpServers.'\\x1b[2Jname' has a name that cannot be used. "
        f"Give it 1 to 100 letters, digits, '-' or '_'. {rest}",
        f"{where}the server 'list' is not an object. {rest}",
        f"{where}mcpServers.args.args is a string. Give a list of strings. {rest}",
        f"{where}the server 'env' has 'env' that is not an object. {rest}",
        f"{where}mcpServers.half holds a character that no process can be given. Take it out. {rest}",
        f"{where}mcpServers.numbers.command is 1. Give a string. {rest}",
        f"{where}the server 'type' has the type {{'a': []}}, which sealyard does not know. {rest}",
        f"In {str(desktop)!r}, mcpServers is not an object. Its servers are not used.",
        f"{str(broken)!r} is not JSON: line 3, column 1: expecting property name enclosed in double quotes. "
        "Correct it there.",
    ]


def test_pipe_in_place_of_a_file_does_not_hold_us_up(machine: Machine) -> None:
    """A project that somebody else wrote may hold anything."""
    os.mkfifo(machine.directory / ".mcp.json")

    assert look(machine) == (
        [],
        [f"{str(machine.directory / '.mcp.json')!r} is not a regular file. Give one."],
    )


@pytest.mark.parametrize(
    ("platform", "folder"), [("darwin", "h/Library/Application Support"), ("win32", "h/AppData/Roaming")]
)
def test_places_are_those_of_the_platform(platform: str, folder: str) -> None:
    """Claude Desktop and VS Code keep their files with the other programs; variables move the rest."""
    environ = {"HOME": "/h", "USERPROFILE": "/h", "CODEX_HOME": "/codex", "CLAUDE_CONFIG_DIR": "/claude"}
    places = find_places(read_machine(environ=environ, directory=Path("/p"), platform=platform))

    users = {place.client: place.path for place in places if place.project is None}
    assert set(users) == set(CLIENTS)
    assert users["claude-desktop"] == Path("/") / folder / "Claude" / "claude_desktop_config.json"
    assert users["vscode"] == Path("/") / folder / "Code" / "User" / "mcp.json"
    assert (users["codex"], users["claude-code"]) == (Path("/codex/config.toml"), Path("/claude/.claude.json"))


def test_home_is_nobodys_project(tmp_path: Path) -> None:
    """Started there, a client's two files are one, which is read once."""
    places = find_places(read_machine(environ={"HOME": str(tmp_path)}, directory=tmp_path, platform="linux"))

    assert [place.project for place in places if place.client == "cursor"] == [None]


def test_same_server_of_several_clients_is_written_once(machine: Machine) -> None:
    """Two that share a name and differ are both kept; sealyard itself is not taken in."""
    same = {"command": "npx", "args": ["github"], "env": {"T": "${env:T}"}}
    put(machine, "shop/.mcp.json", {"mcpServers": {"github": same | {"env": {"T": "${T}"}}}})
    put(
        machine,
        ".cursor/mcp.json",
        {"mcpServers": {"gh": same, "sealyard": {"command": "/bin/sealyard"}, "db": {"command": "db1"}}},
    )
    put(machine, ".codeium/windsurf/mcp_config.json", {"mcpServers": {"db": {"command": "db2"}}})
    put(machine, ".gemini/settings.json", {"mcpServers": {"db": {"command": "db3"}, "db-windsurf": {"command": "db4"}}})
    merged = merge(find_servers(machine).servers, existing={}, folder=machine.directory)

    assert [(each.name, each.entry.command, each.clients, each.notes) for each in merged] == [
        ("github", "npx", ("claude-code", "cursor"), ("is the same server as 'gh'",)),
        ("db", "db1", ("cursor",), ()),
        ("db-gemini", "db3", ("gemini",), ("renamed, because another server is called 'db'",)),
        ("db-windsurf", "db4", ("gemini",), ()),
        ("db-windsurf-2", "db2", ("windsurf",), ("renamed, because another server is called 'db'",)),
    ]


def test_servers_that_the_file_has_are_not_added_again(machine: Machine) -> None:
    """Neither under another name, nor where the user has put references in place of secrets."""
    put(
        machine,
        ".cursor/mcp.json",
        {
            "mcpServers": {
                "a": {"command": "a", "args": ["--token", "literal"], "env": {"T": "literal"}},
                "b": {"command": "b"},
                "c": {"command": "c2"},
            }
        },
    )
    existing = {
        "a": UpstreamEntry(command="a", args=("--token", "${T}"), call_seconds=5),
        "bee": UpstreamEntry(command="b"),
        "c": UpstreamEntry(command="c1"),
    }
    merged = merge(find_servers(machine).servers, existing=existing, folder=machine.directory)

    assert [(each.name, each.entry.command) for each in merged] == [("c-cursor", "c2")]


def test_servers_of_a_project_work_from_another_folder(machine: Machine, tmp_path: Path) -> None:
    """What was relative to the project is written out."""
    raw = {"command": "run", "args": ["${workspaceFolder}/${workspaceFolderBasename}"], "envFile": "x.env"}
    put(machine, "shop/.cursor/mcp.json", {"mcpServers": {"a": raw, "b": {"url": "https://b"}}})
    merged = merge(find_servers(machine).servers, existing={}, folder=tmp_path)
    here = merge(find_servers(machine).servers, existing={}, folder=machine.directory)

    shop = machine.directory
    assert [each.entry for each in merged] == [
        UpstreamEntry(command="run", args=(f"{shop}/shop",), cwd=str(shop), env_file=f"{shop}/x.env"),
        UpstreamEntry(url="https://b"),
    ]
    assert here[0].entry.args == ("${workspaceFolder}/${workspaceFolderBasename}",)


def test_rendered_file_reads_back_as_what_was_found(machine: Machine) -> None:
    """Every key of every entry survives, and what was in the file stays as it was."""
    entry = UpstreamEntry(
        command="c",
        args=("a", 'quo"te'),
        cwd="/x",
        env_file="f",
        env={"A B": "${X}"},
        oauth=OAuthConfig(client_id="i", scopes=("s",)),
        tools=("t",),
        without_tools=("w",),
        start_seconds=1.5,
        idle_seconds=0.0,
        concurrent_calls=3,
        disabled=True,
    )
    put(machine, ".cursor/mcp.json", {"mcpServers": {"my server": {"command": "x"}}})
    upstream = merge(find_servers(machine).servers, existing={}, folder=machine.directory)[0]
    upstream = msgspec.structs.replace(upstream, entry=entry)
    old = "# mine\n[sandbox]\nlevel = 'hardened'"
    text = render([upstream], existing=old)

    assert text.startswith(old + "\n\n# From Cursor.\n[upstreams.")
    config, entries = read_settings(tomllib.loads(text), Path("f"), Path("s"))
    assert (entries, config.sandbox.level) == ({"my server": entry}, "hardened")
    with pytest.raises(InvalidConfig):
        render([upstream], existing="upstreams = {}\n")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", "abc", True),
        ("OPENAI_API_KEY", "abc", True),
        ("--password", "abc", True),
        ("X", "ghp_" + "a1" * 20, True),
        ("X", "Bearer abc", True),
        ("X", "postgres://u:p@h/d", True),
        ("X", "https://h/p:q@r", False),
        ("X", "https://h:8080/@scope/package", False),
        ("X", "ssh://git@h/x", False),
        ("X", "https://abc@h/x", True),
        ("X", "postgres://u:p/w@h/d", True),
        ("X", "postgres://${U}:p@h/d", True),
        ("X", "postgres://u:p@${H}/d", True),
        ("X", "postgres://${U}:${P}@h/d", False),
        ("X", "see Basic dXNlcjpwYXNz", True),
        ("API_TOKEN", "abc${X}", True),
        ("PASSWORD", "12345678", True),
        ("USE_TOKEN", "true", False),
        ("GITHUB_TOKEN", "${GITHUB_TOKEN}", False),
        ("Authorization", "Bearer ${env:T}", False),
        ("GITHUB_TOKEN", "${GITHUB_TOKEN:-abc}", True),
        ("TEAM", "${TEAM:-platform}", False),
        ("MAX_TOKENS", "4096", False),
        ("GITHUB_TOKEN", "", False),
        ("NODE_ENV", "production", False),
        ("KEYBOARD", "de", False),
    ],
)
def test_literal_secrets_are_told_by_name_or_form(name: str, value: str, secret: bool) -> None:
    """A reference is none, nor is a number of tokens."""
    assert looks_secret(name, value) is secret


def test_every_place_of_a_literal_secret_is_named() -> None:
    """By key, so that the user can find it."""
    stdio = UpstreamEntry(command="c", args=("--api-key", "abc"), env={"A_TOKEN": "abc", "B": "${C}"})
    http = UpstreamEntry(url="https://h/?key=abc", headers={"Authorization": "abc"}, bearer_token="abc")

    assert list(find_literals(stdio)) == ["env.A_TOKEN", "args"]
    assert list(find_literals(http)) == ["headers.Authorization", "bearer_token", "url"]


BEARER = "0123456789abcdef0123"


def shown_of(document: dict[str, Any], name: str = "f.json") -> str:
    """The diff of a new file with this content."""
    text = json.dumps(document) if name.endswith(".json") else render_file(document, Path(name))
    return Change(client="cursor", path=Path(name), old=None, new=text.encode(), kept_in=Path()).diff()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--header", f"Authorization: Bearer {BEARER}"], ["--header", "Authorization: …"]),
        (["-H", f"Authorization:Bearer {BEARER}"], ["-H", "Authorization:…"]),
        (["--header", f"X-Api-Key: {BEARER}"], ["--header", "X-Api-Key: …"]),
        ([f"-HX-Api-Key: {BEARER}"], ["-HX-Api-Key: …"]),
        ([f"--header=Authorization: Bearer {BEARER}"], ["--header=Authorization: …"]),
        (["--header", f"X-Org: a, Authorization: {BEARER}"], ["--header", "X-Org: …"]),
        (["--header", f"X-Session: Bearer {BEARER}"], ["--header", "X-Session: …"]),
        ([f'{{"X-Org": "a", "Authorization": "{BEARER}"}}'], ['{"X-Org": "a", "Authorization": "…']),
        ([f"--env=API_TOKEN={BEARER}"], ["--env=API_TOKEN=…"]),
        (["-e", f"API_TOKEN={BEARER}"], ["-e", "API_TOKEN=…"]),
        (["-c", f"TEAM=a API_TOKEN={BEARER} npx server"], ["-c", "TEAM=a API_TOKEN=…"]),
        ([f"https://mcp.example/?a=1&api_key={BEARER}"], ["https://mcp.example/?a=…&api_key=…"]),
        ([f"--password=two words {BEARER}"], ["--password=…"]),
        ([f"--token=${{TOKEN:-{BEARER}}}"], ["--token=…"]),
    ],
)
def test_a_secret_in_an_argument_is_hidden_wherever_it_stands(arguments: list[str], shown: list[str]) -> None:
    """A header, a variable, a part of a query and a member of JSON; the key stays readable."""
    entry = UpstreamEntry(command="npx", args=tuple(arguments))

    assert hide_arguments(arguments) == shown
    assert BEARER not in describe_upstream(entry)
    assert list(find_literals(entry)) == ["args"]
    assert BEARER not in shown_of({"args": arguments})


@pytest.mark.parametrize(
    "argument",
    [
        "Authorization: Bearer ${TOKEN}",
        "Authorization:${AUTH_HEADER}",
        "--token=${TOKEN}",
        "Accept: text/plain",
        "https://mcp.example:8443/token/sse?readonly=true",
        "ghcr.io/acme/token:1.2",
        "--max-tokens=4096",
    ],
)
def test_an_argument_without_a_secret_is_shown(argument: str) -> None:
    """References, numbers, addresses and names of images."""
    assert hide_arguments(["--header", argument]) == ["--header", argument]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--header", "X-Team: platform"], ["--header", "X-Team: …"]),
        (["-H", "X-Team:platform", "x:y"], ["-H", "X-Team:…", "x:y"]),
        (["--header=X-Team: platform"], ["--header=X-Team: …"]),
        (["-HX-Team: platform"], ["-HX-Team: …"]),
        (["--header", "X-Team: ${TEAM}"], ["--header", "X-Team: ${TEAM}"]),
    ],
)
def test_the_value_of_a_header_in_the_arguments_is_never_shown(arguments: list[str], shown: list[str]) -> None:
    """As in `headers`, whatever its name; it is reported as written out only if it looks like a secret."""
    assert hide_arguments(arguments) == shown
    assert list(find_literals(UpstreamEntry(command="npx", args=tuple(arguments)))) == []


@pytest.mark.parametrize(
    "url",
    ["https://u:p@h/", f"https://h/?key={BEARER}", f"https://h/#{BEARER}", "https://h/sk-0123456789abcdef0123/sse"],
)
def test_a_secret_in_an_address_is_hidden(url: str) -> None:
    """The user, the query, the fragment, and what looks like a key in the path."""
    entry = UpstreamEntry(url=url)

    assert "…" in describe_upstream(entry)
    assert not {"p@h", BEARER} & {part for part in ("p@h", BEARER) if part in describe_upstream(entry)}
    assert list(find_literals(entry)) == ["url"]


SECRET = "s3cr3t-Value9"
SPELLINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"args": [f"--token={SECRET}"]}, {"args": ["--token=…"]}),
    ({"args": ["--token=s3c"]}, {"args": ["--token=…"]}),
    ({"args": ["--token", SECRET]}, {"args": ["--token", "…"]}),
    ({"args": ["--password", "-9s3c/r"]}, {"args": ["--password", "…"]}),
    ({"args": ["--password=83719204"]}, {"args": ["--password=…"]}),
    ({"args": ["--password", 83719204, {"X_KEY": SECRET}, 7]}, {"args": ["--password", "…", {"X_KEY": "…"}, 7]}),
    ({"args": ["--max-tokens=4096", "--token", "true"]}, {"args": ["--max-tokens=4096", "--token", "true"]}),
    ({"args": [f"Authorization: Bearer {SECRET}"]}, {"args": ["Authorization: …"]}),
    ({"args": ["-H", f"X: Bearer ${{T}} {SECRET}"]}, {"args": ["-H", "X: …"]}),
    ({"args": ["--header=X: Basic dXNlcjpzM2M="]}, {"args": ["--header=X: …"]}),
    ({"args": ["Basic dXNlcjpzM2M="]}, {"args": ["…"]}),
    ({"args": ["-e", f"FOO={SECRET}"]}, {"args": ["-e", "FOO=…"]}),
    ({"args": [f"--env=FOO={SECRET}"]}, {"args": ["--env=FOO=…"]}),
    ({"args": ["-e", "FOO=${FOO}", "-e", "FOO"]}, {"args": ["-e", "FOO=${FOO}", "-e", "FOO"]}),
    ({"args": [f"API_KEY={SECRET}", f"run API_KEY = {SECRET}"]}, {"args": ["API_KEY=…", "run API_KEY = …"]}),
    ({"args": ["-u", f"me:{SECRET}", "--user", "1000:1000"]}, {"args": ["-u", "me:…", "--user", "1000:1000"]}),
    ({"args": [f"https://{SECRET}@h/x"]}, {"args": ["https://…@h/x"]}),
    ({"args": [f"postgres://me:p/{SECRET}@h/x"]}, {"args": ["postgres://…"]}),
    ({"args": [f"postgres://me:{SECRET}@${{HOST}}/x"]}, {"args": ["postgres://…@${HOST}/x"]}),
    ({"args": [f"https://h/?sig={SECRET}&on=true"]}, {"args": ["https://h/?sig=…&on=true"]}),
    ({"args": f"--token={SECRET}"}, {"args": "--token=…"}),
    ({"command": f"server --token={SECRET}"}, {"command": "server --token=…"}),
    ({"command": ["server", "--token", SECRET]}, {"command": ["server", "--token", "…"]}),
    ({"env": {"ANY": SECRET, "PIN": 83719204, "ON": True}}, {"env": {"ANY": "…", "PIN": "…", "ON": True}}),
    ({"env": {"DB": f"postgres://me:{SECRET}@${{HOST}}"}}, {"env": {"DB": "…"}}),
    ({"env": {"A": f"${{A:-{SECRET}}}", "B": "${B}"}}, {"env": {"A": "…", "B": "${B}"}}),
    ({"env": [f"ANY={SECRET}"]}, {"env": ["…"]}),
    ({"headers": {"X": SECRET, "A": "Bearer ${T}"}}, {"headers": {"X": "…", "A": "Bearer ${T}"}}),
    ({"url": f"https://{SECRET}@h/"}, {"url": "https://…@h/"}),
    ({"url": f"https://h/?k={SECRET}&x=${{X}}"}, {"url": "https://h/?k=…&x=${X}"}),
    ({"uri": f"https://h/?{SECRET}#{SECRET}"}, {"uri": "https://h/?…#…"}),
    ({"url": f"http://[{SECRET}"}, {"url": "…"}),
    ({"oauth": {"clientSecret": SECRET}}, {"oauth": {"clientSecret": "…"}}),
]


@pytest.mark.behaviour("clients.diff")
@pytest.mark.parametrize("name", ["f.json", "f.toml", "f.yaml"])
def test_diff_conceals_secrets_by_their_place(name: str) -> None:
    """Every value of variables and headers, and of arguments and addresses what is or looks like a secret."""
    for entry, shown in SPELLINGS:
        lines = shown_of({"mcpServers": {"a": entry}}, name).splitlines()[3:]
        text = "\n".join(line.removeprefix("+") for line in lines)
        assert text == render_file({"mcpServers": {"a": shown}}, Path(name)).rstrip("\n")


def test_diff_leaves_out_what_does_not_change(machine: Machine) -> None:
    """Secrets elsewhere in the file, escapes of any kind, and comments, in which an old entry may stand."""
    text = """{
      "primaryApiKey": "other-one",
      // "old": {"env": {"T": "s3cr3t-Value9"}},
      "mcpServers": {"a": {"command": "a", "env": {"T": "s3\\u0063r3t-Value9"}}, "odd": {"type": "pigeon"}}
    }"""
    put(machine, ".cursor/mcp.json", text)
    (change,) = plan_apply("cursor", machine, Gateway(command=("t",)))

    assert change.diff().splitlines()[3:] == [
        " {",
        '   "mcpServers": {',
        '-    "a": {',
        '-      "command": "a",',
        '-      "env": {',
        '-        "T": "…"',
        "-      }",
        '+    "sealyard": {',
        '+      "command": "t",',
        '+      "args": []',
        "     }",
        "   }",
        " }",
    ]


@pytest.mark.parametrize(
    "unit",
    [
        "a=",
        "a:",
        "-eyJ",
        "${a:-",
        "${input:a",
        "://a:",
        "://@",
        "@",
        "bearer x ",
        "token=1 ",
        "token:true,",
        "'a': ",
        "?a=b&",
    ],
)
def test_hostile_argument_is_read_once(unit: str) -> None:
    """A cloned project may hold anything; a step for each pair of its characters would take hours."""
    text = unit * (300_000 // len(unit))
    entry = UpstreamEntry(command="x", args=(text, "--token", text), env={"A": text})

    assert describe_upstream(entry).startswith("x ")
    assert len(list(find_literals(entry))) <= 2
    assert shown_of({"a": {"args": [text], "url": f"https://h/{text}", "env": {"A": text}}}).count('"A": "…"') == 1


CODEX = """\
model = "m" # mine

# a server
[mcp_servers.a]
command = "a"
text = '''
not a table
'''

[mcp_servers."b.c".env]
X = "1"

# about the screen
[tui]
theme = "dark"

[[profiles]]
name = "p"

[mcp_servers.last]
command = "z"
# end
"""


def test_codex_keeps_all_but_its_servers(machine: Machine) -> None:
    """Tables go line by line, so that remarks and order stay."""
    file = put(machine, ".codex/config.toml", CODEX)
    changes = plan_apply("codex", machine, Gateway(command=("/bin/sealyard", "serve", "/t.toml")))

    assert [(change.path, change.notes) for change in changes] == [(file, ("'b.c' stays: sealyard cannot read it",))]
    assert (changes[0].new or b"").decode() == (
        'model = "m" # mine\n\n# a server\n[mcp_servers.sealyard]\ncommand = "/bin/sealyard"\n'
        'args = ["serve", "/t.toml"]\nrequired = true\ndefault_tools_approval_mode = "approve"\n'
        '\n[mcp_servers."b.c".env]\nX = "1"\n\n# about the screen\n[tui]\n'
        'theme = "dark"\n\n[[profiles]]\nname = "p"\n\n# end\n'
    )


SERVERS = '[mcp_servers.sealyard]\ncommand = "t"\nargs = []\nrequired = true\ndefault_tools_approval_mode = "approve"\n'


@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (
            '# top\na  =  1 # why\nmcp_servers = {x = {command = "y"}} # gone\n\n# about b\n"b" = [\n  1, # one\n]\n',
            f'# top\na  =  1 # why\n\n# about b\n"b" = [\n  1, # one\n]\n\n{SERVERS}',
        ),
        (
            "# top\nmcp_servers.x.command = 'y'\n# about a\na = 0x1F # why\nmcp_servers.x.args = []\n\n[ tui ]\n"
            "b = '''\n# no remark\n'''\n",
            f"# top\n# about a\na = 0x1F # why\n\n[ tui ]\nb = '''\n# no remark\n'''\n\n{SERVERS}",
        ),
        (
            'a = 1_000 # why\n[mcp_servers.x]\ncommand = """\n[tui]\n"""\n[tui] # screen\nb.c = +2\n# end\n',
            f"a = 1_000 # why\n{SERVERS}\n[tui] # screen\nb.c = +2\n# end\n",
        ),
    ],
)
def test_codex_file_without_tables_keeps_all_but_its_servers(
    machine: Machine, text: str, changed: str, line: str
) -> None:
    """Comments, order and layout of the rest stay byte for byte, where servers are inline, dotted or hard to see."""
    file = put(machine, ".codex/config.toml", "")
    file.write_bytes(text.replace("\n", line).encode())
    change = plan_apply("codex", machine, Gateway(command=("t",)))[0]

    assert change.notes == ("the comments inside 'mcp_servers' go with its entries",)
    assert change.new == changed.replace("\n", line).encode()


def test_line_ends_and_byte_order_marks_stay(machine: Machine) -> None:
    """As programs on Windows write them."""
    put(machine, ".codex/config.toml", "\ufeffa = 1\r\n\r\n[mcp_servers.x]\r\ncommand = 'x'\r\n").write_bytes(
        b"\xef\xbb\xbfa = 1\r\n\r\n[mcp_servers.x]\r\ncommand = 'x'\r\n"
    )
    change = plan_apply("codex", machine, Gateway(command=("t",)))[0]

    assert change.new == ("\ufeffa = 1\n\n" + SERVERS).replace("\n", "\r\n").encode()


CLAUDE = {"command": "t", "args": [], "alwaysLoad": True}
"""What is put into Claude Code's file for the command `t`."""


def test_each_client_gets_what_it_needs_to_show_the_tools(machine: Machine) -> None:
    """Claude Code would defer them, Codex would not wait for them, and opencode has another form."""
    changes = {name: plan_apply(name, machine, Gateway(command=("t", "a")))[0] for name in CLIENTS}
    texts = {name: (change.new or b"").decode() for name, change in changes.items()}

    plain = {"command": "t", "args": ["a"]}
    codex = plain | {"required": True, "default_tools_approval_mode": "approve"}
    goose = {"enabled": True, "name": "sealyard", "timeout": 300, "type": "stdio", "cmd": "t", "args": ["a"]}
    assert tomllib.loads(texts.pop("codex")) == {"mcp_servers": {"sealyard": codex}}
    (extension,) = yaml.safe_load(texts.pop("goose"))["extensions"].values()
    assert {key: each for key, each in extension.items() if key != "description"} == goose
    assert texts.pop("continue") == (
        "name: Local Agent\nversion: 1.0.0\nschema: v1\nmcpServers:\n- name: sealyard\n  type: stdio\n  command: t\n"
        "  args:\n  - a\n"
    )
    entries = {name: next(iter(json.loads(text).values()))["sealyard"] for name, text in texts.items()}
    assert entries == {
        "claude-code": plain | {"alwaysLoad": True},
        "claude-desktop": plain,
        "cursor": plain,
        "vscode": {"type": "stdio"} | plain,
        "gemini": plain,
        "opencode": {"type": "local", "command": ["t", "a"], "enabled": True},
        "windsurf": plain,
        "copilot": {"type": "local"} | plain | {"tools": ["*"], "deferTools": "never"},
        "zed": plain | {"timeout": 300},
        "cline": {"type": "stdio"} | plain | {"timeout": 300},
        "qwen": plain | {"alwaysLoadTools": True},
        "amp": plain,
    }


ADDRESS = "http://127.0.0.1:8321/mcp/p/work?codemode=false"
BEARER_OF = {"Authorization": "Bearer ${SEALYARD_TOKEN}"}
EDITORS_BEARER = {"Authorization": "Bearer ${env:SEALYARD_TOKEN}"}


@pytest.mark.behaviour("clients.token")
def test_each_client_reaches_an_address_in_its_own_words(machine: Machine) -> None:
    """With a reference to the variable of the token, and without one; read again, it is sealyard and no server."""
    with_token = Gateway(url=ADDRESS, variable="SEALYARD_TOKEN")
    entries = {name: with_token.entry(name) for name, client in CLIENTS.items() if client.token is not None}

    codex = {"url": ADDRESS, "required": True, "default_tools_approval_mode": "approve"}
    oauth: dict[str, Any] = {"headers": {"Authorization": "Bearer {env:SEALYARD_TOKEN}"}, "oauth": False}
    secret = {"Authorization": "Bearer ${{ secrets.SEALYARD_TOKEN }}"}
    goose = entries.pop("goose")
    assert (goose["type"], goose["uri"], goose["env_keys"]) == ("streamable_http", ADDRESS, ["SEALYARD_TOKEN"])
    assert goose["headers"] == BEARER_OF  # in which it puts only variables that `env_keys` names
    assert entries == {
        "claude-code": {"type": "http", "url": ADDRESS, "alwaysLoad": True, "headers": BEARER_OF},
        "cursor": {"url": ADDRESS, "headers": EDITORS_BEARER},
        "vscode": {"type": "http", "url": ADDRESS, "headers": EDITORS_BEARER},
        "codex": codex | {"bearer_token_env_var": "SEALYARD_TOKEN"},
        "gemini": {"httpUrl": ADDRESS, "headers": BEARER_OF},
        "opencode": {"type": "remote", "url": ADDRESS, "enabled": True} | oauth,
        "windsurf": {"serverUrl": ADDRESS, "headers": EDITORS_BEARER},
        "copilot": {
            "type": "http",
            "url": ADDRESS,
            "tools": ["*"],
            "deferTools": "never",
            "headers": BEARER_OF,
        },
        "qwen": {"httpUrl": ADDRESS, "alwaysLoadTools": True, "headers": BEARER_OF},
        "continue": {
            "name": "sealyard",
            "type": "streamable-http",
            "url": ADDRESS,
            "requestOptions": {"headers": secret},
        },
        "amp": {"url": ADDRESS, "headers": BEARER_OF},
    }
    assert Gateway(url=ADDRESS).entry("codex") == codex
    assert Gateway(url=ADDRESS).entry("zed") == {"url": ADDRESS, "timeout": 300}
    assert Gateway(url=ADDRESS).entry("cline") == {"type": "streamableHttp", "url": ADDRESS, "timeout": 300}
    for name in (*entries, "goose"):
        (change,) = plan_apply(name, machine, with_token)
        put(machine, str(change.path.relative_to(machine.home)), (change.new or b"").decode())
    assert look(machine) == ([], [])


@pytest.mark.parametrize("client", ["zed", "cline"])
def test_client_without_references_gets_no_token_in_plain_text(client: str) -> None:
    """It is told what to do in its place."""
    with pytest.raises(InvalidRequest, match="reads tokens only in plain text, which sealyard does not write"):
        Gateway(url=ADDRESS, variable="T").entry(client)


def test_client_without_addresses_is_told_what_to_do() -> None:
    """Claude Desktop would drop such an entry in silence."""
    with pytest.raises(InvalidRequest, match=r"Claude Desktop reads only programs .* Leave --url out"):
        Gateway(url=ADDRESS).entry("claude-desktop")


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8321/mcp",
        "http://localhost:8321",
        "file:///etc/passwd",
        "http://me:secret@host/mcp",
        "http://host/mcp ",
        "http://host/mcp\n",
        "http://${HOST}/mcp",
        "http://host/{env:HOME}",
        "http://host/$HOME",
        "http://höst/mcp",
        "http://host/mcp?token=abcdef",
        "http://host/ghp_" + "a1" * 20,
    ],
)
def test_address_that_clients_would_read_differently_or_that_holds_a_secret_is_refused(url: str) -> None:
    """It would stand in a client's file as it is; the message does not repeat it."""
    with pytest.raises(InvalidRequest, match="--url") as caught:
        Gateway(url=url)

    assert url not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://yard.example/mcp", "http://[::1]:8321/mcp/p/a-b", "http://h/mcp?codemode=off&tools=a,b"]
)
def test_address_of_a_gateway_is_taken(url: str) -> None:
    """A control of the test above."""
    assert Gateway(url=url).entry("cursor") == {"url": url}


@pytest.mark.parametrize("name", ["", "A B", "1A", "${TOKEN}", "sealyard_abc123", "ghp_" + "a1" * 20, "A\n", "Ä"])
def test_token_in_place_of_its_variable_is_refused(name: str) -> None:
    """It would stand in a file in plain text."""
    with pytest.raises(InvalidRequest, match="and not its value"):
        Gateway(url=ADDRESS, variable=name)


def test_apply_to_a_clean_client_adds_sealyard_to_the_users_file(machine: Machine) -> None:
    """Whether there is a file or not; a second time changes nothing."""
    claude = put(machine, ".claude.json", '{\n  "numStartups": 3\n}\n')
    changes = [
        change
        for client in ("claude-code", "vscode")
        for change in plan_apply(client, machine, Gateway(command=("t", "serve")))
    ]
    for change in changes:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        change.path.write_bytes(change.new or b"")

    assert [(change.path, change.old is None, json.loads(change.new or b"")) for change in changes] == [
        (claude, False, {"numStartups": 3, "mcpServers": {"sealyard": CLAUDE | {"args": ["serve"]}}}),
        (
            machine.home / ".config" / "Code" / "User" / "mcp.json",
            True,
            {"servers": {"sealyard": {"type": "stdio", "command": "t", "args": ["serve"]}}},
        ),
    ]
    for client in ("claude-code", "vscode"):
        (again,) = plan_apply(client, machine, Gateway(command=("t", "serve")))
        assert again.new == again.old


def test_both_places_of_one_file_change_together(machine: Machine) -> None:
    """Claude Code keeps the user's servers and those for this project in one file; other projects stay."""
    document = {
        "mcpServers": {"a": {"command": "a"}, "odd": {"type": "pigeon"}},
        "projects": {str(machine.directory): {"mcpServers": {"b": {"command": "b"}}}, "/x": {"mcpServers": {"c": {}}}},
    }
    put(machine, ".claude.json", document)
    changes = plan_apply("claude-code", machine, Gateway(command=("t",)))

    only = {"sealyard": CLAUDE}
    assert [json.loads(change.new or b"") for change in changes] == [
        {
            "mcpServers": only | {"odd": {"type": "pigeon"}},
            "projects": {str(machine.directory): {"mcpServers": only}, "/x": {"mcpServers": {"c": {}}}},
        }
    ]
    assert changes[0].notes == ("'odd' stays: sealyard cannot read it",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (".cursor/mcp.json", '{"mcpServers": [{"name": "a"}]}', "mcpServers is not an object"),
        (".cursor/mcp.json", '{"mcpServers": "a"}', "mcpServers is not an object"),
        (".codex/config.toml", '[[mcp_servers]]\nname = "a"\n', "mcp_servers is not an object"),
        (".config/goose/config.yaml", "extensions: [a]\n", "extensions is not an object"),
        (".config/goose/config.yaml", "- a\n", "the whole is not an object"),
        (".continue/config.yaml", "mcpServers: {a: {command: a}}\n", "mcpServers is not a list"),
    ],
)
def test_apply_in_place_of_something_else_is_refused(machine: Machine, name: str, text: str, message: str) -> None:
    """It may be of another version of the client, and would be lost."""
    file = put(machine, name, text)
    client = {"cursor": "cursor", "codex": "codex", "config": "goose", "continue": "continue"}[name[1:].split("/")[0]]
    with pytest.raises(InvalidConfig) as caught:
        plan_apply(client, machine, Gateway(command=("t",)))

    assert str(caught.value) == f"{str(file)!r} cannot be changed: {message}. Correct it there."


def test_apply_to_a_broken_file_is_refused(machine: Machine) -> None:
    """Nobody can tell what would be lost."""
    file = put(machine, ".cursor/mcp.json", "[]")
    with pytest.raises(InvalidConfig) as caught:
        plan_apply("cursor", machine, Gateway(command=("t",)))

    assert str(caught.value) == f"{str(file)!r} cannot be changed: the whole is not an object. Correct it there."
