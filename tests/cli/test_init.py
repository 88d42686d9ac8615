"""`sealyard init` as a user meets it, in a home of its own."""

import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm

from sealyard.config import load_config, read_machine
from sealyard.config.clients import Gateway, plan_apply, plan_undo
from sealyard.config.clients.backups import Backup, find_backups
from sealyard.errors import InvalidRequest
from sealyard.former import FORMER, PRESENT

Command = Callable[..., subprocess.CompletedProcess[str]]

GITHUB = "ghp_Zz0123456789abcdefghijklmnopqrstuv"
PASSWORD = "hunter2-and-more"
SECRETS = (GITHUB, PASSWORD, "figma-literal", "zz-query-zz", "claude-oauth-zz")

CURSOR = f"""\
{{
  // my servers
  "mcpServers": {{
    "github": {{"command": "npx", "args": ["-y", "gh"], "env": {{"GITHUB_TOKEN": "{GITHUB}"}}}},
    "pg": {{"command": "npx", "args": ["pg", "postgresql://me:{PASSWORD}@db/x"],}}, // old
  }},
  "futureKey": {{"keep": [1, 2,]}}, /* end */
}}
"""
CLAUDE = {
    "numStartups": 12,
    "primaryApiKey": "claude-oauth-zz",
    "mcpServers": {
        "github": {"type": "stdio", "command": "npx", "args": ["-y", "gh"], "env": {"GITHUB_TOKEN": GITHUB}}
    },
    "tipsHistory": {"é": 1},
}
VSCODE = {
    "inputs": [{"type": "promptString", "id": "web-key", "description": "the key", "password": True}],
    "servers": {
        "web": {"type": "http", "url": "https://web.example/mcp?k=zz-query-zz", "headers": {"X": "${input:web-key}"}}
    },
}
CODEX = """\
model = "m" # mine

[mcp_servers.figma]
url = "https://figma.example/mcp"
http_headers = { "X-Figma-Token" = 'figma-literal' }

# the screen
[tui]
theme = "dark"
"""
GEMINI = {"theme": "x", "mcpServers": {"g": {"httpUrl": "https://g.example/mcp"}}}
SEALYARD = """\
# Written by `sealyard init`. References such as ${GITHUB_TOKEN} are expanded when sealyard starts.

# From Claude Code, Cursor.
[upstreams.github]
command = "npx"
args = ["-y", "gh"]

[upstreams.github.env]
GITHUB_TOKEN = "ghp_Zz0123456789abcdefghijklmnopqrstuv"

# From Cursor.
[upstreams.pg]
command = "npx"
args = ["pg", "postgresql://me:hunter2-and-more@db/x"]

# From VS Code.
[upstreams.web]
url = "https://web.example/mcp?k=zz-query-zz"

[upstreams.web.headers]
X = "${WEB_KEY}"

# From Codex.
[upstreams.figma]
url = "https://figma.example/mcp"

[upstreams.figma.headers]
X-Figma-Token = "figma-literal"

# From Gemini CLI.
[upstreams.g]
url = "https://g.example/mcp"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which five clients have servers, and a project in it where the command is started."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "SEALYARD_", "CODEX_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "shop"
    project.mkdir()
    monkeypatch.chdir(project)
    files: dict[str, Any] = {
        ".cursor/mcp.json": CURSOR,
        ".claude.json": json.dumps(CLAUDE, indent=2),
        "shop/.vscode/mcp.json": json.dumps(VSCODE, indent=4),
        ".codex/config.toml": CODEX,
        ".gemini/settings.json": json.dumps(GEMINI),
        ".codeium/windsurf/mcp_config.json": '{\n  "mcpServers": {\n',
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / ".cursor/mcp.json").chmod(0o640)
    return tmp_path


def contents(home: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below the home, with its mode."""
    return {
        str(file.relative_to(home)): (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
        for file in home.rglob("*")
        if file.is_file()
    }


def backups() -> list[Backup]:
    """The backups of this user."""
    found, problems = find_backups(read_machine())
    assert problems == []
    return found


def assert_no_secret(done: subprocess.CompletedProcess[str]) -> None:
    """Neither stream shows any of them."""
    for secret in SECRETS:
        assert secret not in done.stdout
        assert secret not in done.stderr


def test_what_clients_have_becomes_one_file(installed: Command, home: Path) -> None:
    """Each server once, references kept, readable by its owner alone; the clients' files are not touched."""
    before = contents(home)
    done = installed("init")

    assert_no_secret(done)
    after = contents(home)
    assert after.pop("shop/sealyard.toml") == (SEALYARD.encode(), 0o600)
    assert after == before
    notes = [line for line in done.stderr.splitlines() if line]
    assert notes == [
        f"note: {str(home / '.codeium/windsurf/mcp_config.json')!r} is not JSON: line 3, column 1: expecting property "
        "name enclosed in double quotes. Correct it there.",
        "note: github: env.GITHUB_TOKEN holds a secret that is written out: move it to an environment variable: "
        "${GITHUB_TOKEN}",
        "note: pg: args holds a secret that is written out: move it to an environment variable: ${PG_TOKEN}",
        "note: web: set WEB_KEY in the environment: VS Code asks for it (the key)",
        "note: web: url holds a secret that is written out: move it to an environment variable: ${WEB_TOKEN}",
        "note: figma: headers.X-Figma-Token holds a secret that is written out: move it to an environment variable: "
        "${FIGMA_TOKEN}",
        "note: Upstream 'web' is not used: the variable WEB_KEY is not set (needed by headers.X).",
    ]
    assert done.returncode == 0
    assert list(load_config(home / "shop/sealyard.toml", environ={"WEB_KEY": "k"}).upstreams) == [
        *("github", "pg", "web", "figma", "g")
    ]


def test_what_was_found_is_shown_without_secrets(sealyard: Command, home: Path) -> None:
    """As JSON for programs: client, file, name, transport and how it starts."""
    done = sealyard("init", "--json", "--dry-run")

    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr, answer["written"], answer["changed"]) == (0, "", None, [])
    assert [(each["client"], each["name"], each["transport"], each["start"]) for each in answer["servers"]] == [
        ("claude-code", "github", "stdio", "npx -y gh (env: GITHUB_TOKEN)"),
        ("cursor", "github", "stdio", "npx -y gh (env: GITHUB_TOKEN)"),
        ("cursor", "pg", "stdio", "npx pg postgresql://…@db/x"),
        ("vscode", "web", "http", "https://web.example/mcp?k=… (headers: X)"),
        ("codex", "figma", "http", "https://figma.example/mcp (headers: X-Figma-Token)"),
        ("gemini", "g", "http", "https://g.example/mcp"),
    ]
    assert answer["servers"][0]["file"] == str(home / ".claude.json")
    assert_no_secret(done)


def test_dry_run_writes_nothing(sealyard: Command, home: Path) -> None:
    """It shows every diff, without secrets, and needs no consent."""
    before = contents(home)
    done = sealyard(
        "init", "--dry-run", *(f"--apply={client}" for client in ("claude-code", "cursor", "codex", "gemini"))
    )

    assert (done.returncode, contents(home)) == (0, before)
    assert '+GITHUB_TOKEN = "…"' in done.stdout
    assert '-        "postgresql://…@db/x"' in done.stdout
    assert "note: the comments inside 'mcpServers' go with its entries" in done.stderr
    assert_no_secret(done)


ALL = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf")


def test_apply_and_undo_leave_every_file_as_it_was(sealyard: Command, home: Path) -> None:
    """Byte for byte and mode for mode, for every client, those without a file and those in the project included."""
    (home / ".codeium/windsurf/mcp_config.json").write_text("", encoding="utf-8")
    sealyard("init")
    before = contents(home)
    applied = sealyard("init", "--yes", *(f"--apply={client}" for client in ALL))
    during = contents(home)
    undone = sealyard("init", "--undo", "--yes")

    assert (applied.returncode, undone.returncode) == (0, 0)
    after = contents(home)
    assert after.pop(".config/sealyard/sealyard.toml") == during[".config/sealyard/sealyard.toml"]
    assert after == before
    for done in (applied, undone):
        assert_no_secret(done)
    # A client finds one server, and that one starts.
    command = [str(Path(sys.executable).with_name("sealyard"))]
    if not Path(command[0]).is_file():
        command = [sys.executable, "-m", "sealyard"]
    entry = {"command": command[0], "args": [*command[1:], "serve", str(home / ".config/sealyard/sealyard.toml")]}
    here = {"command": command[0], "args": [*command[1:], "serve", str(home / "shop/sealyard.toml")]}
    only = {"sealyard": entry}
    seen = {"sealyard": entry | {"alwaysLoad": True}}
    assert json.loads(during[".claude.json"][0]) == CLAUDE | {"mcpServers": seen}
    assert json.loads(during[".config/Claude/claude_desktop_config.json"][0]) == {"mcpServers": only}
    assert json.loads(during["shop/.vscode/mcp.json"][0]) == VSCODE | {
        "servers": {"sealyard": {"type": "stdio"} | here}
    }
    assert tomllib.loads(during[".codex/config.toml"][0].decode()) == {
        "model": "m",
        "mcp_servers": {"sealyard": entry | {"required": True, "default_tools_approval_mode": "approve"}},
        "tui": {"theme": "dark"},
    }
    assert json.loads(during[".gemini/settings.json"][0]) == GEMINI | {"mcpServers": only}
    assert json.loads(during[".codeium/windsurf/mcp_config.json"][0]) == {"mcpServers": only}
    rendered = json.dumps(only, indent=2).replace("\n", "\n  ")
    text = f'{{\n  // my servers\n  "mcpServers": {rendered},\n  "futureKey": {{"keep": [1, 2,]}}, /* end */\n}}\n'
    assert during[".cursor/mcp.json"] == (text.encode(), 0o640)


def test_apply_twice_changes_nothing_more(sealyard: Command, home: Path) -> None:
    """Nor does init afterwards lose the servers that only sealyard knows now."""
    sealyard("init", "--apply", "cursor", "--yes")
    before = contents(home)
    again = sealyard("init", "--apply", "cursor", "--yes")

    assert (again.returncode, contents(home)) == (0, before)
    assert "Cursor uses sealyard alone already." in again.stdout


def test_entry_for_every_folder_starts_the_users_configuration(sealyard: Command, home: Path) -> None:
    """It has no server of a project; an entry in a project's own file starts the configuration there, which has all."""
    sealyard("init", "--apply=vscode", "--apply=cursor", "--yes")
    vscode = json.loads((home / "shop/.vscode/mcp.json").read_text(encoding="utf-8"))["servers"]["sealyard"]
    users, here = home / ".config/sealyard/sealyard.toml", home / "shop/sealyard.toml"

    assert (vscode["args"][-1], list(tomllib.loads(here.read_text(encoding="utf-8"))["upstreams"])) == (
        str(here),
        ["github", "pg", "web", "figma", "g"],
    )
    assert f'"{users}"' in (home / ".cursor/mcp.json").read_text(encoding="utf-8")
    assert list(tomllib.loads(users.read_text(encoding="utf-8"))["upstreams"]) == ["github", "pg", "figma", "g"]
    assert stat.S_IMODE(users.stat().st_mode) == 0o600


@pytest.mark.behaviour("clients.scope")
def test_configuration_of_a_project_starts_in_every_folder_only_if_named(sealyard: Command, home: Path) -> None:
    """It may have come with a cloned project; the user's own is made in its place, and a note names the way."""
    here, users, cursor = (
        home / "shop/sealyard.toml",
        home / ".config/sealyard/sealyard.toml",
        home / ".cursor/mcp.json",
    )
    here.write_text('[upstreams.theirs]\ncommand = "theirs"\n', encoding="utf-8")
    first = sealyard("init", "--apply=cursor", "--yes")

    assert first.returncode == 0
    note = (
        f"note: Cursor will have the servers of {users} in every folder, and not those of {here}: name it with --output"
    )
    assert note in first.stderr.splitlines()
    assert list(tomllib.loads(users.read_text(encoding="utf-8"))["upstreams"]) == ["github", "pg", "figma", "g"]
    assert (str(users) in cursor.read_text(encoding="utf-8"), str(here) in cursor.read_text(encoding="utf-8")) == (
        True,
        False,
    )

    second = sealyard("init", "--apply=cursor", "--yes", "--output", "sealyard.toml", "--force")
    assert f"note: Cursor will have the servers of {here} in every folder, not only here" in second.stderr
    assert str(here) in cursor.read_text(encoding="utf-8")


def test_project_that_alone_has_servers_is_not_applied_to_every_folder(
    sealyard: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written before a person names its file."""
    empty = home / "empty"
    (empty / "clone").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.chdir(empty / "clone")
    here = empty / "clone" / "sealyard.toml"
    here.write_text('[upstreams.theirs]\ncommand = "theirs"\n', encoding="utf-8")
    before = contents(empty)
    refused = sealyard("init", "--apply=claude-code", "--yes")

    assert (refused.returncode, contents(empty)) == (2, before)
    users = empty / ".config/sealyard/sealyard.toml"
    assert refused.stderr == (
        f"error: No server was found for {str(users)!r}, which the client would start in every folder. Add one there,"
        f" or give --output {str(here)!r} to start that file everywhere.\n"
    )
    assert sealyard("init", "--apply=claude-code", "--yes", "--output", "sealyard.toml").returncode == 0
    assert str(here) in (empty / ".claude.json").read_text(encoding="utf-8")


def test_server_for_one_project_in_the_users_file_is_kept(sealyard: Command, home: Path) -> None:
    """Claude Code has both kinds in one file: each entry starts a configuration that has its servers."""
    file, here = home / ".claude.json", home / "shop" / "sealyard.toml"
    local = {"projects": {str(home / "shop"): {"mcpServers": {"local": {"command": "local"}}}}}
    file.write_text(json.dumps(CLAUDE | local), encoding="utf-8")
    done = sealyard("init", "--apply=claude-code", "--yes")

    assert done.returncode == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["projects"][str(home / "shop")]["mcpServers"]["sealyard"]["args"][-1] == str(here)
    assert "local" in tomllib.loads(here.read_text(encoding="utf-8"))["upstreams"]
    users = tomllib.loads((home / ".config/sealyard/sealyard.toml").read_text(encoding="utf-8"))["upstreams"]
    assert "local" not in users


@pytest.mark.behaviour("clients.undo_anywhere")
def test_undo_works_from_any_folder(sealyard: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds files by their records: those of other projects, and servers for one project in a user's file."""
    local = {"projects": {str(home / "shop"): {"mcpServers": {"local": {"command": "local"}}}}}
    claude, vscode = home / ".claude.json", home / "shop/.vscode/mcp.json"
    claude.write_text(json.dumps(CLAUDE | local), encoding="utf-8")
    before = vscode.read_bytes()
    sealyard("init", "--apply=claude-code", "--apply=vscode", "--yes")
    claude.write_text(json.dumps(json.loads(claude.read_text(encoding="utf-8")) | {"n": 1}), encoding="utf-8")
    (home / "other").mkdir()
    monkeypatch.chdir(home / "other")
    done = sealyard("init", "--undo", "--yes")

    assert done.returncode == 0
    assert json.loads(claude.read_text(encoding="utf-8")) == CLAUDE | local | {"n": 1}
    assert (vscode.read_bytes(), backups()) == (before, [])


@pytest.mark.behaviour("clients.undo_trust")
def test_files_of_a_cloned_project_are_no_backups(sealyard: Command, home: Path) -> None:
    """What only looks like one, beside a link to a file of the user, is neither read nor written nor removed."""
    users = home / ".gemini" / "settings.json"
    before = users.read_bytes()
    (home / "shop/.gemini").mkdir()
    (home / "shop/.gemini/settings.json").symlink_to(users)
    evil = b'{"mcpServers": {"evil": {"command": "evil"}}}'
    for name in (PRESENT, FORMER):
        planted = f"settings.json.{name}-backup-20260101T000000000000Z-{'0' * 16}"
        (home / "shop/.gemini" / planted).write_bytes(evil)
    undone = sealyard("init", "--undo", "--yes")
    applied = sealyard("init", "--apply=gemini", "--yes")

    assert (undone.returncode, applied.returncode, users.read_bytes()) == (1, 2, before)
    assert f"leads to {str(users)!r}, which is not in the project" in applied.stderr
    assert len(list((home / "shop/.gemini").iterdir())) == 3


def test_link_in_place_of_the_configuration_is_not_followed(sealyard: Command, home: Path) -> None:
    """A cloned project cannot have its servers added to the configuration for every folder."""
    users = home / ".config/sealyard/sealyard.toml"
    users.parent.mkdir(parents=True)
    users.write_text("", encoding="utf-8")
    (home / "shop/sealyard.toml").symlink_to(users)
    done = sealyard("init", "--force")

    assert (done.returncode, users.read_text(encoding="utf-8")) == (2, "")
    assert "which is not in the project" in done.stderr


def test_pipe_in_place_of_the_configuration_does_not_hold_us_up(sealyard: Command, home: Path) -> None:
    """A project that somebody else wrote may hold anything."""
    os.mkfifo(home / "shop" / "sealyard.toml")
    done = sealyard("init")

    assert (done.returncode, done.stderr.endswith("is not a regular file. Give one.\n")) == (2, True)


def test_file_that_cannot_be_changed_holds_up_no_other_client(sealyard: Command, home: Path) -> None:
    """The failure is said and is the exit code; the rest is done, and undone."""
    gemini, cursor = home / ".gemini/settings.json", home / ".cursor/mcp.json"
    before = gemini.read_bytes()
    broken = sealyard("init", "--apply=windsurf", "--apply=gemini", "--apply=cursor", "--yes")
    applied = gemini.read_bytes()
    cursor.write_text("{", encoding="utf-8")
    undone = sealyard("init", "--undo", "--yes")

    assert (broken.returncode, undone.returncode) == (2, 2)
    assert f"error: {str(home / '.codeium/windsurf/mcp_config.json')!r} is not JSON" in broken.stderr
    assert b"sealyard" in applied
    assert f"error: {str(cursor)!r} is not JSON" in undone.stderr
    assert gemini.read_bytes() == before


ELSEWHERE = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fchmod", "fchown", "fork", "getegid", "geteuid", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW"):
    delattr(os, name)
import sealyard.cli, sealyard.cli.init
sealyard.cli.main()
"""


def test_clients_are_changed_where_python_has_nothing_of_unix(home: Path) -> None:
    """Clients are on Windows too: there this command runs, and nothing else does."""
    before = contents(home)
    results = [
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE, "init", *arguments, "--yes"], capture_output=True, timeout=60, check=False
        )
        for arguments in (("--apply=cursor", "--url=https://yard.example/mcp"), ("--undo",))
    ]

    assert [(each.returncode, each.stderr[-300:]) for each in results if each.returncode] == []
    assert b"Changed" in results[0].stdout
    after = contents(home)  # modes are those of the folder there
    after.pop(".config/sealyard/sealyard.toml")
    assert {name: text for name, (text, _) in after.items()} == {name: text for name, (text, _) in before.items()}


def test_client_is_pointed_at_a_gateway_that_runs_elsewhere(sealyard: Command, home: Path) -> None:
    """By address; its servers are collected for that gateway, and the token is a reference."""
    before = contents(home)
    address = ("--url", "http://yard.example:8321/mcp/p/work?codemode=false", "--token-env", "MY_TOKEN")
    done = sealyard("init", "--apply=gemini", "--apply=codex", *address, "--yes")
    during = contents(home)
    undone = sealyard("init", "--undo", "--yes")

    assert (done.returncode, undone.returncode) == (0, 0)
    servers = tomllib.loads(during[".config/sealyard/sealyard.toml"][0].decode())["upstreams"]
    assert list(servers) == ["github", "pg", "figma", "g"]  # without that of the project
    entry = {"httpUrl": address[1], "headers": {"Authorization": "Bearer ${MY_TOKEN}"}}
    assert json.loads(during[".gemini/settings.json"][0]) == GEMINI | {"mcpServers": {"sealyard": entry}}
    codex = tomllib.loads(during[".codex/config.toml"][0].decode())["mcp_servers"]["sealyard"]
    assert (codex["url"], codex["bearer_token_env_var"]) == (address[1], "MY_TOKEN")
    for note in (
        "note: set MY_TOKEN where the client runs: `sealyard token NAME` makes a token",
        "note: the token crosses the network in plain text: use https, or a tunnel",
        f"note: the gateway at {address[1]} needs the servers of {home / '.config/sealyard/sealyard.toml'}, which the "
        "client has no more",
    ):
        assert note in done.stderr.splitlines()
    assert {name: each for name, each in contents(home).items() if not name.startswith(".config")} == before


def test_address_needs_no_servers_here(sealyard: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway has its own; only the client's file is written."""
    empty = home / "empty"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.chdir(empty)
    done = sealyard("init", "--apply=claude-code", "--url=http://127.0.0.1:8321/mcp", "--token-env=T", "--yes")

    assert (done.returncode, (empty / "sealyard.toml").exists()) == (0, False)
    entry = {"type": "http", "url": "http://127.0.0.1:8321/mcp", "alwaysLoad": True}
    headers = {"headers": {"Authorization": "Bearer ${T}"}}
    assert json.loads((empty / ".claude.json").read_text(encoding="utf-8")) == {
        "mcpServers": {"sealyard": entry | headers}
    }
    assert "plain text" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--url", "http://h/mcp"), "Give --apply with it"),
        (("--undo", "--url", "http://h/mcp"), "and not --undo"),
        (("--apply=codex", "--token-env", "T"), "Give its --url too"),
        (("--apply=codex", "--apply=claude-desktop", "--url", "http://h/mcp"), "Claude Desktop reads only programs"),
        (("--apply=codex", "--url", "http://h/mcp", "--token-env", "sealyard_abc"), "and not its value"),
    ],
)
def test_address_that_cannot_be_used_changes_nothing(
    sealyard: Command, home: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Not even the files of the other clients."""
    before = contents(home)
    done = sealyard("init", *arguments, "--yes")

    assert (done.returncode, contents(home)) == (2, before)
    assert message in done.stderr


def test_undo_can_name_one_client(sealyard: Command, home: Path) -> None:
    """The other one stays with sealyard."""
    before = contents(home)
    sealyard("init", "--apply", "cursor", "--apply", "gemini", "--yes")
    during = contents(home)
    done = sealyard("init", "--undo", "--apply", "cursor", "--yes")

    after = contents(home)
    assert (done.returncode, after[".cursor/mcp.json"]) == (0, before[".cursor/mcp.json"])
    assert after[".gemini/settings.json"] == during[".gemini/settings.json"]


def test_undo_in_a_file_that_its_client_rewrote_changes_only_servers(sealyard: Command, home: Path) -> None:
    """Claude Code rewrites its file at each start. What else is in it stays, and so does a server added since."""
    sealyard("init", "--apply", "claude-code", "--yes")
    file = home / ".claude.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["mcpServers"]["added"] = {"command": "later"}
    file.write_text(json.dumps(document | {"numStartups": 13}), encoding="utf-8")
    done = sealyard("init", "--undo", "--yes")

    added = {"added": {"command": "later"}}
    assert done.returncode == 0
    assert json.loads(file.read_text(encoding="utf-8")) == CLAUDE | {
        "numStartups": 13,
        "mcpServers": CLAUDE["mcpServers"] | added,
    }
    assert backups() == []


def test_undo_in_a_toml_file_that_changed_keeps_its_text(sealyard: Command, home: Path) -> None:
    """Comments and other tables stay; one that cannot be changed safely is left alone, for its user to change."""
    file = home / ".codex" / "config.toml"
    before = tomllib.loads(file.read_text(encoding="utf-8"))
    sealyard("init", "--apply", "codex", "--yes")
    text = file.read_text(encoding="utf-8") + "\n# mine\n[added]\nx = 0x10 # why\n"
    file.write_text(text + "broken = \n", encoding="utf-8")
    refused = sealyard("init", "--undo", "--yes")
    kept = file.read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    done = sealyard("init", "--undo", "--yes")

    assert (refused.returncode, kept, done.returncode) == (2, text + "broken = \n", 0)
    assert "is not TOML" in refused.stderr
    after = file.read_text(encoding="utf-8")
    assert tomllib.loads(after) == before | {"added": {"x": 16}}
    assert after.endswith("# mine\n[added]\nx = 0x10 # why\n")


def test_undo_of_nothing_says_so(sealyard: Command, home: Path) -> None:
    """There is no backup."""
    done = sealyard("init", "--undo", "--yes")

    assert (done.returncode, done.stdout) == (
        1,
        "There is nothing to undo: no change of a client's file is on record.\n",
    )


@pytest.mark.parametrize("arguments", [("--apply", "cursor"), ("--undo",), ("--apply", "cursor", "--json")])
def test_clients_file_is_never_changed_without_consent(
    sealyard: Command, home: Path, arguments: tuple[str, ...]
) -> None:
    """Without a terminal to ask on, it must be given in advance; nothing is written before that is known."""
    before = contents(home)
    done = sealyard("init", *arguments)

    assert (done.returncode, done.stderr, contents(home)) == (
        2,
        "error: There is no terminal to ask on before a client's file changes. Give --yes, or --dry-run.\n",
        before,
    )


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_person_at_a_terminal_is_asked(home: Path, answer: str, code: int) -> None:
    """After the diff; a no leaves the file as it is."""
    master, slave = pty.openpty()
    try:
        os.write(master, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "sealyard", "init", "--apply", "cursor"],
            stdin=slave,
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(slave)
        os.close(master)

    assert done.returncode == code
    assert f"Change {home / '.cursor/mcp.json'}? [y/N]: " in done.stderr.decode()
    assert ((home / ".cursor/mcp.json").read_text(encoding="utf-8") == CURSOR) is (answer == "n")


def test_existing_file_is_added_to_only_by_force(sealyard: Command, home: Path) -> None:
    """The diff is shown without secrets; what the user wrote stays; the old file is kept."""
    file = home / "shop" / "sealyard.toml"
    own = '# mine\n[upstreams.pg]\ncommand = "npx"\nargs = ["pg", "${PG}"]\n\n[sandbox]\nlevel = "hardened"\n'
    file.write_text(own, encoding="utf-8")
    refused = sealyard("init")
    kept = file.read_text(encoding="utf-8")
    forced = sealyard("init", "--force")

    assert (refused.returncode, kept, forced.returncode) == (2, own, 0)
    lacks = "exists and lacks 'github', 'web', 'figma', 'g'. Give --force to add what the diff shows."
    assert refused.stderr.endswith(f"error: {str(file)!r} {lacks}\n")
    assert '+GITHUB_TOKEN = "…"' in refused.stdout
    for done in (refused, forced):
        assert_no_secret(done)
    text = file.read_text(encoding="utf-8")
    assert text.startswith(own + "\n# From Claude Code, Cursor.\n[upstreams.github]\n")
    assert list(tomllib.loads(text)["upstreams"]) == ["pg", "github", "web", "figma", "g"]
    assert [(each.record.file, each.read_original()) for each in backups()] == [(str(file), own.encode())]


def test_file_that_cannot_be_read_is_replaced_only_by_force(sealyard: Command, home: Path) -> None:
    """A copy is kept."""
    file = home / "shop" / "sealyard.toml"
    file.write_text("[upstreams", encoding="utf-8")
    refused = sealyard("init")
    kept = file.read_text(encoding="utf-8")
    forced = sealyard("init", "--force")

    assert (refused.returncode, kept, forced.returncode) == (2, "[upstreams", 0)
    assert file.read_text(encoding="utf-8") == SEALYARD
    assert [each.read_original() for each in backups()] == [b"[upstreams"]


def test_file_that_cannot_be_read_is_not_shown(sealyard: Command, home: Path) -> None:
    """Its secrets cannot be told from the rest of it."""
    file = home / "shop" / "sealyard.toml"
    file.write_text(f'[upstreams.a]\ncommand = "a"\nenv = {{ T = "{GITHUB}" \n', encoding="utf-8")
    forced = sealyard("init", "--force")

    assert (forced.returncode, file.read_text(encoding="utf-8")) == (0, SEALYARD)
    assert "characters that are not TOML)" in forced.stdout
    assert_no_secret(forced)


def test_file_that_changes_while_a_person_reads_the_diff_is_left_alone(home: Path) -> None:
    """An undo is planned from what the file was; the client may have written it since."""
    file = home / ".gemini" / "settings.json"
    machine = read_machine()
    for change in plan_apply("gemini", machine, Gateway(command=("sealyard", "serve"))):
        change.write()
    (undo,), _ = plan_undo(["gemini"], machine)
    file.write_text('{"theme": "new"}', encoding="utf-8")

    with pytest.raises(InvalidRequest, match="was changed by somebody else just now"):
        undo.write()
    assert file.read_text(encoding="utf-8") == '{"theme": "new"}'
    assert len(backups()) == 1


def test_output_goes_where_it_is_told(sealyard: Command, home: Path) -> None:
    """And servers of the project still know their folder from there."""
    (home / "shop" / ".mcp.json").write_text('{"mcpServers": {"here": {"command": "./run"}}}', encoding="utf-8")
    done = sealyard("init", "--output", str(home / "etc" / "yard.toml"), "--json")
    wrong = sealyard("init", "--output", "x.json")

    assert json.loads(done.stdout)["written"] == str(home / "etc" / "yard.toml")
    upstreams = tomllib.loads((home / "etc" / "yard.toml").read_text(encoding="utf-8"))["upstreams"]
    assert upstreams["here"] == {"command": "./run", "cwd": str(home / "shop")}
    assert (wrong.returncode, wrong.stderr) == (2, "error: --output is 'x.json'. Give a name that ends with .toml.\n")


def test_read_only_client_file_is_refused(sealyard: Command, home: Path) -> None:
    """The message says what to do, and nothing is left behind."""
    file = home / ".gemini" / "settings.json"
    file.chmod(0o400)
    done = sealyard("init", "--apply", "gemini", "--yes")

    assert (done.returncode, [each.name for each in file.parent.iterdir()]) == (2, ["settings.json"])
    assert done.stderr.endswith(f"error: {str(file)!r} is read-only. It is as it was; make it writable first.\n")


def test_home_without_clients_says_how_to_begin(sealyard: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it looked, and what to write."""
    empty = home / "empty"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.chdir(empty)
    done = sealyard("init", "--apply", "cursor", "--yes")

    assert (done.returncode, done.stderr, list(empty.iterdir())) == (1, "", [])
    assert str(empty / ".cursor" / "mcp.json") in done.stdout
    assert "[upstreams.time]" in done.stdout


def test_hostile_project_cannot_command_the_terminal(sealyard: Command, home: Path) -> None:
    """A cloned repository names servers as it likes; what is shown of them is spelled out."""
    servers = {"a": {"command": "x\x1b[2J", "args": ["\x07"], "\x1b]0;owned": 1}}
    (home / "shop" / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    done = sealyard("init", "--apply", "claude-code", "--yes")

    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr


KILLED = """
import os, signal, sys
import sealyard.cli, sealyard.cli.init

left = int(sys.argv.pop(1))

def hook(event, arguments):
    global left
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY
    if writes or event in ("os.rename", "os.remove"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
sealyard.cli.main()
"""


@pytest.mark.parametrize("arguments", [("--apply=gemini",), ("--undo",)])
def test_death_at_any_step_can_be_undone(sealyard: Command, home: Path, arguments: tuple[str, ...]) -> None:
    """Killed at each write of `--apply` or `--undo` in turn: the file is whole, and an undo brings back the first."""
    sealyard("init")
    file = home / ".gemini" / "settings.json"
    original = file.read_bytes()
    sealyard("init", "--apply=gemini", "--yes")
    applied = file.read_bytes()
    sealyard("init", "--undo", "--yes")
    step, code = 0, -9
    while code == -9:
        step += 1
        if arguments == ("--undo",):
            sealyard("init", "--apply=gemini", "--yes")
        command = warm.python("-c", KILLED, str(step), "init", *arguments, "--yes")
        code = subprocess.run(command, capture_output=True, timeout=60, check=False).returncode
        assert file.read_bytes() in (original, applied)
        if backups():
            assert sealyard("init", "--undo", "--yes").returncode == 0
        assert file.read_bytes() == original

    assert (code, step > 2) == (0, True)
