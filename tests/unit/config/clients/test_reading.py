"""What clients have in their files, in the words of each, and what they let through and switch off."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.config.clients.conftest import Put

from sealyard.config import Machine, load_config, read_machine
from sealyard.config.clients.merging import merge, plan_config
from sealyard.config.clients.servers import find_servers
from sealyard.config.settings import UpstreamEntry


def found(machine: Machine) -> dict[tuple[str, str], UpstreamEntry]:
    """Every server by client and name; nothing may have gone wrong."""
    survey = find_servers(machine)
    assert survey.problems == []
    return {(each.place.client, each.name): each.entry for each in survey.servers}


GOOSE = """\
GOOSE_PROVIDER: openai
extensions:
  developer: {enabled: true, type: builtin, name: developer}
  todo:
    enabled: true
    type: platform
    name: todo
  gh:
    enabled: true
    type: stdio
    name: gh
    cmd: npx
    args: [-y, gh]
    envs: {MODE: yes}
    env_keys: [GH_TOKEN]
    timeout: 120
    bundled: null
    available_tools: []
  web:
    enabled: false
    type: streamable_http
    name: web
    uri: https://web.example/mcp
    headers: {Authorization: Bearer $WEB}
    available_tools: [read]
"""
CONTINUE = """\
name: Mine
version: 1.0.0
schema: v1
mcpServers:
  - name: a
    command: npx
    args: [a]
    env:
      KEY: ${{ secrets.A_KEY }}
    connectionTimeout: 5000
  - uses: owner/block
  - name: b
    type: streamable-http
    url: https://b
    apiKey: ${{secrets.B}}
    requestOptions:
      headers: {X-B: "1"}
"""


def test_more_clients_are_read_in_their_own_words(machine: Machine, put: Put) -> None:
    """Names of keys, kinds of transport, units of time, references and lists of tools differ in each."""
    put(
        ".copilot/mcp-config.json",
        {
            "mcpServers": {
                "a": {"type": "local", "command": "a", "args": [], "tools": ["*"], "timeout": 90000},
                "b": {"type": "http", "url": "https://b", "tools": ["x", "y"], "excludeTools": ["y"]},
            }
        },
    )
    put(
        ".config/zed/settings.json",
        """{
          // the theme
          "theme": "One",
          "context_servers": {
            "a": {"source": "custom", "command": "a", "args": ["b"], "env": {"K": "1"}},
            "b": {"enabled": false, "url": "https://b", "headers": {"X": "1"}, "timeout": 20,},
          },
        }""",
    )
    put(
        ".cline/data/settings/cline_mcp_settings.json",
        {
            "mcpServers": {
                "a": {"command": "a", "disabled": True, "autoApprove": ["x"], "timeout": 300},
                "b": {"url": "https://b"},
                "c": {"transport": {"type": "streamableHttp", "url": "https://c"}, "metadata": {}},
            }
        },
    )
    put(".config/goose/config.yaml", GOOSE)
    put(
        "shop/.qwen/settings.json",
        {"mcpServers": {"a": {"httpUrl": "https://a", "headers": {"A": "$TOKEN"}, "includeTools": ["x(1)"]}}},
    )
    put("shop/.qwen/settings.local.json", {"mcpServers": {"own": {"command": "own"}}})
    put(".continue/config.yaml", CONTINUE)
    put(".config/amp/settings.json", {"amp.mcpServers": {"a": {"command": "a", "includeTools": ["read_*"]}}})

    assert found(machine) == {
        ("copilot", "a"): UpstreamEntry(command="a", call_seconds=90.0),
        ("copilot", "b"): UpstreamEntry(url="https://b", tools=("x", "y"), without_tools=("y",)),
        ("zed", "a"): UpstreamEntry(command="a", args=("b",), env={"K": "1"}),
        ("zed", "b"): UpstreamEntry(url="https://b", headers={"X": "1"}, disabled=True, call_seconds=20.0),
        ("cline", "a"): UpstreamEntry(command="a", call_seconds=300.0, disabled=True),
        ("cline", "b"): UpstreamEntry(url="https://b", transport="sse"),
        ("cline", "c"): UpstreamEntry(url="https://c"),
        ("goose", "gh"): UpstreamEntry(
            command="npx", args=("-y", "gh"), env={"MODE": "yes", "GH_TOKEN": "${GH_TOKEN:-}"}, call_seconds=120.0
        ),
        ("goose", "web"): UpstreamEntry(
            url="https://web.example/mcp",
            headers={"Authorization": "Bearer ${WEB}"},
            tools=("read",),
            disabled=True,
        ),
        ("qwen", "a"): UpstreamEntry(url="https://a", headers={"A": "${TOKEN}"}, tools=("x",)),
        ("qwen", "own"): UpstreamEntry(command="own"),
        ("continue", "a"): UpstreamEntry(command="npx", args=("a",), env={"KEY": "${A_KEY}"}),
        ("continue", "b"): UpstreamEntry(url="https://b", headers={"X-B": "1"}, bearer_token="${B}"),
        ("amp", "a"): UpstreamEntry(command="a", tools=("read_*",)),
    }


def test_variables_move_files_of_clients(tmp_path: Path) -> None:
    """As the clients' own documentation says."""
    environ = {
        "HOME": str(tmp_path),
        "COPILOT_HOME": str(tmp_path / "c"),
        "CLINE_MCP_SETTINGS_PATH": str(tmp_path / "cline.json"),
        "AMP_SETTINGS_FILE": str(tmp_path / "amp.json"),
        "QWEN_HOME": str(tmp_path / "q"),
    }
    (tmp_path / "c").mkdir()
    (tmp_path / "q").mkdir()
    for name, key in (
        ("c/mcp-config.json", "mcpServers"),
        ("cline.json", "mcpServers"),
        ("amp.json", "amp.mcpServers"),
        ("q/settings.json", "mcpServers"),
    ):
        (tmp_path / name).write_text(json.dumps({key: {"a": {"command": "a"}}}), encoding="utf-8")
    machine = read_machine(environ=environ, directory=tmp_path, platform="linux")

    assert list(found(machine)) == [("copilot", "a"), ("cline", "a"), ("qwen", "a"), ("amp", "a")]


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"CLINE_DIR": "c"}, "c/data/settings/cline_mcp_settings.json"),
        ({"CLINE_DIR": "c", "CLINE_DATA_DIR": "d"}, "d/settings/cline_mcp_settings.json"),
        ({"CLINE_DATA_DIR": "d", "CLINE_MCP_SETTINGS_PATH": "e.json"}, "e.json"),
        ({"GOOSE_PATH_ROOT": "g"}, "g/config/config.yaml"),
    ],
)
def test_variable_that_names_a_folder_moves_the_file_below_it(
    tmp_path: Path, variables: dict[str, str], name: str
) -> None:
    """The one that says most counts."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    server = {"type": "stdio", "command": "a", "cmd": "a"}
    text = {"mcpServers": {"a": server}} if name.endswith(".json") else {"extensions": {"a": server}}
    (tmp_path / name).write_text(json.dumps(text), encoding="utf-8")
    environ = {key: str(tmp_path / each) for key, each in variables.items()}
    machine = read_machine(environ={"HOME": str(tmp_path), **environ}, directory=tmp_path, platform="linux")

    assert [each.place.path for each in find_servers(machine).servers] == [tmp_path / name]


@pytest.mark.parametrize(
    ("client", "files"),
    [
        ("gemini", {".gemini/settings.json": {"mcp": {"excluded": ["OFF "]}, "mcpServers": ...}}),
        ("gemini", {".gemini/settings.json": {"mcp": {"allowed": ["on", "x"]}, "mcpServers": ...}}),
        (
            "gemini",
            {
                ".gemini/settings.json": {"mcpServers": ...},
                "shop/.gemini/settings.json": {"mcp": {"excluded": ["off"], "allowed": ["ON"]}},
            },
        ),
        (
            "gemini",
            {
                ".gemini/settings.json": {"mcpServers": ...},
                ".gemini/mcp-server-enablement.json": {"off": {"enabled": False}, "on": {"enabled": True}},
            },
        ),
        ("qwen", {".qwen/settings.json": {"mcp": {"excluded": ["of?"]}, "mcpServers": ...}}),
        ("qwen", {".qwen/settings.json": {"mcp": {"allowed": ["o*n", "OFF"]}, "mcpServers": ...}}),
        (
            "copilot",
            {
                ".copilot/mcp-config.json": {"mcpServers": ...},
                ".copilot/settings.json": {"disabledMcpServers": ["off"]},
            },
        ),
        ("claude-code", {".claude.json": {"mcpServers": ..., "projects": {"SHOP": {"disabledMcpServers": ["off"]}}}}),
    ],
)
def test_server_that_its_client_has_off_stays_off(
    machine: Machine, put: Put, client: str, files: dict[str, dict[str, Any]]
) -> None:
    """Wherever the client keeps that, and as it compares names; a note says why."""
    for name, content in files.items():
        text = json.dumps(content, default=lambda _: {"on": {"command": "on"}, "off": {"command": "off"}})
        put(name, text.replace("SHOP", str(machine.directory)))
    survey = find_servers(machine)

    assert [(each.place.client, each.name, each.entry.disabled) for each in survey.servers] == [
        (client, "on", False),
        (client, "off", True),
    ]
    assert "is disabled, as " in survey.servers[1].notes[0]
    assert survey.problems == []


@pytest.mark.parametrize("mcp", [{"excluded": "off"}, {"excluded": [1, None]}, [], "off", {"allowed": None}])
def test_switches_that_cannot_be_read_change_nothing(machine: Machine, put: Put, mcp: object) -> None:
    """A project that somebody else wrote may hold anything there."""
    put("shop/.gemini/settings.json", {"mcp": mcp, "mcpServers": {"off": {"command": "x"}}})

    assert found(machine) == {("gemini", "off"): UpstreamEntry(command="x")}


ALL = {"command": "git"}


@pytest.mark.behaviour("clients.filters")
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"includeTools": ["log", "diff"]}, {}, (("log", "diff"), ())),
        ({"includeTools": ["log", "diff"]}, {"includeTools": ["diff", "show"]}, (("diff",), ())),
        ({"includeTools": ["log_*", "diff"]}, {"includeTools": ["log_all", "d*"]}, (("diff", "log_all"), ())),
        ({"includeTools": ["a*"]}, {"includeTools": ["a?"]}, ((), ())),  # neither holds the other's whole
        ({"excludeTools": ["reset"]}, {}, (None, ("reset",))),
        ({"excludeTools": ["reset"]}, {"includeTools": ["log"]}, (("log",), ("reset",))),
        ({"includeTools": ["log"]}, {"includeTools": ["show"]}, ((), ())),
    ],
)
def test_merged_server_has_only_what_all_clients_let_through(
    machine: Machine,
    put: Put,
    first: dict[str, Any],
    second: dict[str, Any],
    expected: tuple[tuple[str, ...] | None, tuple[str, ...]],
) -> None:
    """No client gains a tool by being merged with another one, in whichever order; a note says so."""
    for one, other in ((first, second), (second, first)):
        put(".gemini/settings.json", {"mcpServers": {"git": ALL | one}})
        put(".qwen/settings.json", {"mcpServers": {"git": ALL | other}})
        (merged,) = merge(find_servers(machine).servers, existing={}, folder=machine.directory)

        assert (set(merged.entry.tools or ()), merged.entry.without_tools) == (set(expected[0] or ()), expected[1])
        assert (merged.entry.tools is None) == (expected[0] is None)
        assert merged.entry.disabled is (expected[0] == ())
        assert any(note.startswith("has only the tools that all its clients let through") for note in merged.notes)


def test_same_filter_everywhere_needs_no_note(machine: Machine, put: Put) -> None:
    """Nothing is lost."""
    for client in ("gemini", "qwen"):
        put(f".{client}/settings.json", {"mcpServers": {"git": ALL | {"includeTools": ["log"]}}})
    (merged,) = merge(find_servers(machine).servers, existing={}, folder=machine.directory)

    assert (merged.entry.tools, merged.notes) == (("log",), ())


@pytest.mark.parametrize("empty", [{"includeTools": []}, {"tools": []}])
def test_client_that_lets_no_tool_through_gets_none(machine: Machine, put: Put, empty: dict[str, Any]) -> None:
    """An empty list is not the same as no list."""
    put(".qwen/settings.json", {"mcpServers": {"git": ALL | empty}})
    (server,) = find_servers(machine).servers

    assert (server.entry.disabled, server.notes) == (True, ("lets no tool through, and is disabled",))


def test_server_that_is_on_in_one_client_is_on_with_its_filter(machine: Machine, put: Put) -> None:
    """One that is off has no say about the tools; a note names the client."""
    put(".gemini/settings.json", {"mcp": {"excluded": ["git"]}, "mcpServers": {"git": ALL | {"includeTools": ["x"]}}})
    put(".qwen/settings.json", {"mcpServers": {"git": ALL | {"includeTools": ["log"]}}})
    (merged,) = merge(find_servers(machine).servers, existing={}, folder=machine.directory)

    assert merged.entry == UpstreamEntry(command="git", tools=("log",))
    assert merged.notes == ("is switched off in Gemini CLI, and on here",)


def test_filter_that_the_file_lacks_is_named(machine: Machine, put: Put) -> None:
    """An entry that is there already is the user's; what it widens for a client is said."""
    put(".gemini/settings.json", {"mcpServers": {"git": ALL | {"excludeTools": ["reset"]}}})
    put(".qwen/settings.json", {"mcpServers": {"git": ALL}})
    file = put("shop/sealyard.toml", '[upstreams.git]\ncommand = "git"\n')
    draft = plan_config(file, find_servers(machine), machine, force=False)

    assert (draft.added, draft.notes) == (
        (),
        (f"git: Gemini CLI lets fewer tools through than {str(file)!r}: set 'tools' or 'without_tools' there",),
    )


def test_thousands_of_servers_are_compared_once_each(machine: Machine, put: Put) -> None:
    """A cloned project may hold them, in both files; comparing each with each would take minutes."""
    names = [f"s{number}" for number in range(10_000)]
    put("shop/.mcp.json", {"mcpServers": {name: {"command": name} for name in names}})
    file = put("shop/sealyard.toml", "".join(f"[upstreams.{name}]\ncommand = '{name}'\n" for name in names))
    draft = plan_config(file, find_servers(machine), machine, force=False)

    assert (draft.added, draft.notes) == ((), ())


def test_thousands_of_servers_are_compared_with_each_list_once(machine: Machine, put: Put) -> None:
    """A pattern of each switch for each server would take minutes, and so would a list of inputs."""
    names = [f"s{number}" for number in range(3_000)]
    servers = {name: {"command": name} for name in names}
    put("shop/.qwen/settings.json", {"mcpServers": servers, "mcp": {"excluded": names[1:]}})
    put("shop/.vscode/mcp.json", {"servers": servers, "inputs": [{"id": name} for name in names]})

    assert [each.place.client for each in find_servers(machine).servers if not each.entry.disabled] == [
        *["vscode"] * len(names),
        "qwen",
    ]


def test_variable_that_is_passed_on_only_if_set_is_left_out(machine: Machine, put: Put) -> None:
    """Codex starts the server without it; a variable that is set and empty for another reason stays."""
    put(".codex/config.toml", '[mcp_servers.a]\ncommand = "a"\nenv_vars = ["SET", "UNSET"]\nenv = { EMPTY = "" }\n')
    file = machine.directory / "sealyard.toml"
    plan_config(file, find_servers(machine), machine, force=False).change.write()
    config = load_config(file, environ={"HOME": str(machine.home), "SET": "1"}, directory=machine.directory)

    assert (dict(config.upstreams["a"].env), config.warnings) == ({"SET": "1", "EMPTY": ""}, ())


def test_user_wide_configuration_has_no_server_of_a_project(machine: Machine, put: Put) -> None:
    """It counts in every folder, and a project may be somebody else's."""
    put("shop/.mcp.json", {"mcpServers": {"theirs": {"command": "theirs"}}})
    put(".cursor/mcp.json", {"mcpServers": {"mine": {"command": "mine"}}})
    draft = plan_config(
        machine.config_folder / "sealyard.toml", find_servers(machine), machine, force=False, everywhere=True
    )

    assert draft.added == ("mine",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".config/goose/config.yaml", "a: &a [" + "x," * 9 + "]\nextensions: {b: *a}\n"),
        (".config/goose/config.yaml", "extensions: " + "[" * 5000),
        (".config/goose/config.yaml", "extensions:\n  a: !!python/object/apply:os.system [touch /tmp/x]\n"),
        (".config/goose/config.yaml", "? [a]\n: b\n"),
        (".config/goose/config.yaml", "a: s3cret\n b: s3cret\n"),
        (".config/goose/config.yaml", "x" * 300_000),
        (".continue/config.yaml", "mcpServers: {a: {command: x}}\n"),
        (".continue/config.yaml", "\x01s3cret"),
    ],
)
def test_hostile_yaml_is_a_problem_and_nothing_else(machine: Machine, put: Put, name: str, text: str) -> None:
    """Aliases that unfold, deep nesting, tags that build objects, size; the message quotes nothing."""
    put(name, text)
    put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    survey = find_servers(machine)

    assert [each.place.client for each in survey.servers] == ["cursor"]
    assert len(survey.problems) == 1
    assert "s3cret" not in survey.problems[0]
