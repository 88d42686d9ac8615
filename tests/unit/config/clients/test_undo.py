"""Sealyard in a client's file and out again, where others have changed the file in between."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.unit.config.clients.conftest import Put

from sealyard.config import Machine
from sealyard.config.clients.backups import find_backups
from sealyard.config.clients.known import CLIENTS, Gateway
from sealyard.config.clients.rewrite import plan_apply, plan_undo
from sealyard.errors import SealyardError

GATEWAY = Gateway(command=("/bin/sealyard", "serve", "/y.toml"))
ENTRY = {"command": "/bin/sealyard", "args": ["serve", "/y.toml"]}


def apply(client: str, machine: Machine, gateway: Gateway = GATEWAY) -> None:
    """Put sealyard into the files of a client."""
    for change in plan_apply(client, machine, gateway):
        if change.old != change.new:
            change.write()


def undo(client: str, machine: Machine) -> list[str]:
    """Take it out; returns the notes."""
    changes, problems = plan_undo([client], machine)
    assert problems == []
    for change in changes:
        change.write()
    return [note for change in changes for note in change.notes]


def read(file: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(file.read_text(encoding="utf-8"))


TEXTS = {
    "mcpServers": '{\n\t"theme": 1, // why\n\t"mcpServers": {\n\t\t// mine\n\t\t"a": {"command": "a",},\n\t},\n}\n',
    "servers": '{\n    "servers": {"a": {"type": "stdio", "command": "a"}},\n    "inputs": []\n}',
    "mcp": '{\n  "mcp": {\n    "a": {"type": "local", "command": ["a", "b"]}\n  }\n}\n',
    "context_servers": '{\r\n  // dark\r\n  "context_servers": {\r\n    "a": {"command": "a"}\r\n  }\r\n}\r\n',
    "amp.mcpServers": '{"amp.mcpServers":{"a":{"command":"a"}},"amp.x":1}',
    "mcp_servers": 'model = "m" # mine\n\n# a server\n[mcp_servers.a]\ncommand = "a" # x\n\n# end\n[tui]\nx = 1\n',
    "extensions": (
        "# top\nextensions:\n  # of goose\n  developer: {enabled: true, type: builtin}  # keep\n\n  # mine\n  a:\n"
        "    enabled: true\n    type: stdio\n    cmd: a # here\n    args: []\n# bottom\nGOOSE_MODE: auto\n"
    ),
    "list": "name: n\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: a # mine\n    command: a\nmodels: []\n",
}


def text_for(client: str) -> str:
    """A file as somebody writes it who uses what its format has."""
    keys = CLIENTS[client].files[-1].keys
    return TEXTS["list" if client == "continue" else keys[0]]


def path_for(client: str, machine: Machine) -> Path:
    """The user's file of a client."""
    changes = plan_apply(client, machine, GATEWAY)
    return next(change.path for change in changes if change.everywhere)


@pytest.mark.parametrize("client", CLIENTS)
def test_file_of_every_client_comes_back_byte_for_byte(machine: Machine, client: str) -> None:
    """With sealyard as its only server in between, and all else as it was."""
    file = path_for(client, machine)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text_for(client).encode())
    apply(client, machine)
    during = file.read_text(encoding="utf-8")
    undo(client, machine)

    assert "/bin/sealyard" in during
    assert '"a"' not in during
    assert file.read_bytes() == text_for(client).encode()
    assert find_backups(machine) == ([], [])


@pytest.mark.behaviour("clients.undo")
@pytest.mark.parametrize("client", CLIENTS)
def test_servers_come_back_as_they_were_written_after_a_change_elsewhere(machine: Machine, client: str) -> None:
    """With their comments, order, indentation and line ends; what was added since stays."""
    file = path_for(client, machine)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text_for(client).encode())
    apply(client, machine)
    added = {".toml": b"\n[added]\nx = 1 # since\n", ".yaml": b"added: 1 # since\n"}.get(file.suffix, b" \n")
    file.write_bytes(file.read_bytes() + added)
    notes = undo(client, machine)

    assert notes == []
    assert file.read_bytes() == text_for(client).encode() + added


def test_client_may_rewrite_its_whole_file(machine: Machine, put: Put) -> None:
    """Claude Code does so at each start, in its own layout; only servers change, in that layout."""
    original = {"b": 1, "mcpServers": {"x": {"command": "x", "args": ["1"]}, "y": {"url": "https://y"}}}
    file = put(".claude.json", json.dumps(original, indent=8))
    apply("claude-code", machine)
    file.write_text(json.dumps({"new": [1], **read(file)}, indent=2) + "\n", encoding="utf-8")
    undo("claude-code", machine)

    assert file.read_text(encoding="utf-8") == json.dumps({"new": [1], **original}, indent=2) + "\n"


def test_only_what_changed_itself_stays(machine: Machine, put: Put) -> None:
    """A server that got its name since is not overwritten; the others come back, and the backup stays for a person."""
    file = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}})
    before = file.read_bytes()
    apply("cursor", machine)
    now = {"sealyard": ENTRY, "a": {"command": "mine"}, "c": {"command": "c"}}
    file.write_text(json.dumps({"mcpServers": now}), encoding="utf-8")
    notes = undo("cursor", machine)
    ((backup,), _) = find_backups(machine)

    assert read(file) == {
        "mcpServers": {"a": {"command": "mine"}, "b": {"command": "b"}, "c": {"command": "c"}},
    }
    assert notes == [
        f"'a' in {str(file)!r} was changed since and stays as it is. What it was is in {str(backup.path)!r}, which"
        " stays"
    ]
    assert backup.read_original() == before


def test_entry_that_is_no_longer_ours_stays(machine: Machine, put: Put) -> None:
    """Somebody has put another program under the name of sealyard."""
    file = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    apply("cursor", machine)
    file.write_text('{"mcpServers": {"sealyard": {"command": "other"}}}', encoding="utf-8")
    notes = undo("cursor", machine)

    assert read(file) == {"mcpServers": {"a": {"command": "a"}, "sealyard": {"command": "other"}}}
    assert notes[0].startswith("'sealyard' in ")


def test_entry_that_a_person_took_out_is_not_missed(machine: Machine, put: Put) -> None:
    """Sealyard is gone already; the servers come back all the same."""
    file = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    apply("cursor", machine)
    file.write_text('{"mcpServers": {}, "x": 1}', encoding="utf-8")

    assert undo("cursor", machine) == []
    assert read(file) == {"mcpServers": {"a": {"command": "a"}}, "x": 1}


def test_all_steps_are_undone_at_once(machine: Machine, put: Put) -> None:
    """Applied for a program, then for an address: the servers of before the first come back."""
    file = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    before = file.read_bytes()
    apply("cursor", machine)
    apply("cursor", machine, Gateway(url="http://127.0.0.1:8321/mcp", variable="T"))
    undo("cursor", machine)

    assert (file.read_bytes(), find_backups(machine)) == (before, ([], []))


def test_servers_that_came_between_two_steps_come_back_too(machine: Machine, put: Put) -> None:
    """Both steps took servers out; those of both are put back."""
    file = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    apply("cursor", machine)
    file.write_text(json.dumps({"mcpServers": {"sealyard": ENTRY, "b": {"command": "b"}}}), encoding="utf-8")
    apply("cursor", machine)
    undo("cursor", machine)

    assert read(file) == {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}


def test_file_that_was_not_there_goes_unless_it_has_got_more(machine: Machine) -> None:
    """Another program may have written into it since."""
    file = machine.home / ".cursor" / "mcp.json"
    apply("cursor", machine)
    undo("cursor", machine)
    assert not file.exists()

    apply("cursor", machine)
    file.write_text(json.dumps({"mcpServers": {"sealyard": ENTRY}, "x": 1}), encoding="utf-8")
    undo("cursor", machine)
    assert read(file) == {"mcpServers": {}, "x": 1}


def test_one_file_that_cannot_be_undone_holds_up_no_other(machine: Machine, put: Put) -> None:
    """It is named, and the others are put back."""
    broken = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    other = put(".gemini/settings.json", {"mcpServers": {"b": {"command": "b"}}})
    before = other.read_bytes()
    apply("cursor", machine)
    apply("gemini", machine)
    broken.write_text("{", encoding="utf-8")
    changes, problems = plan_undo(["cursor", "gemini"], machine)
    for change in changes:
        change.write()

    assert other.read_bytes() == before
    assert len(problems) == 1
    assert str(broken) in problems[0]


def test_unreadable_server_is_left_as_it_is_now(machine: Machine, put: Put) -> None:
    """It was never taken out, so a change to it is its user's alone."""
    file = put(".cursor/mcp.json", {"mcpServers": {"odd": {"type": "pigeon"}, "a": {"command": "a"}}})
    apply("cursor", machine)
    file.write_text(
        json.dumps({"mcpServers": {"sealyard": ENTRY, "odd": {"type": "pigeon", "x": 1}}}), encoding="utf-8"
    )
    undo("cursor", machine)

    assert read(file) == {"mcpServers": {"odd": {"type": "pigeon", "x": 1}, "a": {"command": "a"}}}


def test_parts_of_goose_stay_with_their_comments(machine: Machine, put: Put) -> None:
    """Its own extensions are no servers, and nothing is said of them."""
    file = put(".config/goose/config.yaml", TEXTS["extensions"])
    (change,) = plan_apply("goose", machine, GATEWAY)
    change.write()
    text = file.read_text(encoding="utf-8")

    assert list(yaml.safe_load(text)["extensions"]) == ["sealyard", "developer"]
    assert "  # of goose\n  developer: {enabled: true, type: builtin}  # keep\n" in text
    assert text.startswith("# top\nextensions:\n")
    assert text.endswith("# bottom\nGOOSE_MODE: auto\n")
    assert change.notes == ("the comments inside 'extensions' go with its entries",)  # those of `a`


SECRETS = """\
extensions:
  a:
    type: stdio
    cmd: a
    args: [--token, s3cr, --key=s3cret-two]
    envs:
      SHORT_TOKEN: s3c
      KEY: |
        -----BEGIN s3cret
        s3cret-three
      FOLDED_TOKEN: >-
        s3cret
        four
      QUOTED_TOKEN: "s3cret\\x21five"
      MODE: open
"""


def test_no_secret_of_a_yaml_file_is_shown(machine: Machine, put: Put) -> None:
    """Whatever its length and in whatever style it is spelled; the rest is shown."""
    put(".config/goose/config.yaml", SECRETS)
    (change,) = plan_apply("goose", machine, GATEWAY)
    shown = change.diff()

    assert "s3c" not in shown
    assert "-      SHORT_TOKEN: …" in shown.splitlines()
    assert "-      MODE: …" in shown.splitlines()
    assert "-    cmd: a" in shown.splitlines()
    assert "+  sealyard:" in shown.splitlines()


def test_yaml_that_is_not_in_blocks_is_left_alone(machine: Machine, put: Put) -> None:
    """It says so, and the file is as it was."""
    text = "{extensions: {a: {cmd: x, args: [], type: stdio}}}\n"
    file = put(".config/goose/config.yaml", text)
    with pytest.raises(SealyardError, match="cannot be changed without harm"):
        apply("goose", machine)

    assert file.read_text(encoding="utf-8") == text


def test_clients_in_both_places_are_changed_where_they_are(machine: Machine, put: Put) -> None:
    """Cline's command line and its extension have a file each; a new one is made only where there is none at all."""
    (change,) = plan_apply("cline", machine, GATEWAY)
    assert change.path == machine.home / ".cline/data/settings/cline_mcp_settings.json"

    extension = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
    file = put(extension, {"mcpServers": {}})
    (change,) = plan_apply("cline", machine, GATEWAY)
    assert change.path == file


def test_steps_from_several_folders_are_all_undone(machine: Machine, put: Put) -> None:
    """Claude Code has the servers of each project in one file, from which each step took those of its own."""
    other = machine.home / "other"
    projects = {str(folder): {"mcpServers": {folder.name: {"command": "x"}}} for folder in (machine.directory, other)}
    original = {"mcpServers": {"a": {"command": "a"}}, "projects": projects}
    file = put(".claude.json", original)
    apply("claude-code", machine)
    apply("claude-code", msgspec.structs.replace(machine, directory=other))
    during = read(file)
    file.write_text(json.dumps(during | {"n": 1}), encoding="utf-8")
    notes = undo("claude-code", msgspec.structs.replace(machine, directory=machine.home))

    assert [list(each["mcpServers"]) for each in (during, *during["projects"].values())] == [["sealyard"]] * 3
    assert (notes, read(file)) == ([], original | {"n": 1})


def test_server_that_was_unreadable_then_is_not_put_back(machine: Machine, put: Put) -> None:
    """The record says what was taken out; what a later version could read as well was never away."""
    file = put(".cursor/mcp.json", {"mcpServers": {"odd": {"type": "pigeon"}, "a": {"command": "a"}}})
    apply("cursor", machine)
    file.write_text(json.dumps({"mcpServers": {"sealyard": ENTRY}, "n": 1}), encoding="utf-8")
    undo("cursor", machine)

    assert read(file) == {"mcpServers": {"a": {"command": "a"}}, "n": 1}


def test_entry_of_our_name_that_was_there_before_comes_back(machine: Machine, put: Put) -> None:
    """Written by hand; that of a step in between does not."""
    own = {"command": "sealyard", "args": ["serve", "mine.toml"]}
    file = put(".cursor/mcp.json", {"mcpServers": {"sealyard": own, "a": {"command": "a"}}})
    apply("cursor", machine)
    apply("cursor", machine, Gateway(command=("/bin/sealyard", "serve", "/z.toml")))
    file.write_text(json.dumps(read(file) | {"n": 1}), encoding="utf-8")
    undo("cursor", machine)

    assert read(file) == {"mcpServers": {"sealyard": own, "a": {"command": "a"}}, "n": 1}


def test_file_that_is_no_text_any_more_is_named(machine: Machine, put: Put) -> None:
    """A program on Windows may have written it in another encoding; it stays, and so does the backup."""
    file = put(".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    apply("cursor", machine)
    file.write_bytes(file.read_text(encoding="utf-8").encode("utf-16"))
    changes, problems = plan_undo(["cursor"], machine)

    assert (changes, problems) == ([], [f"{str(file)!r} is not UTF-8 after byte 0. Save it as UTF-8 text."])
    assert len(find_backups(machine)[0]) == 1


def test_project_that_is_gone_is_passed_over(machine: Machine, put: Put) -> None:
    """Its folder is not made again, and its backup stays: it may be on a disk that is away."""
    put("shop/.mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    apply("claude-code", machine)
    shutil.rmtree(machine.directory)

    assert plan_undo(["claude-code"], machine) == ([], [])
    assert len(find_backups(machine)[0]) == 1


def test_undo_does_not_follow_a_link_that_has_come_since(machine: Machine, put: Put) -> None:
    """A project may change with every pull."""
    file = put("shop/.mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    apply("claude-code", machine)
    users = put(".claude.json", {"mcpServers": {"mine": {"command": "mine"}}})
    file.unlink()
    file.symlink_to(users)
    changes, problems = plan_undo(["claude-code"], machine)

    assert (changes, len(problems)) == ([], 1)
    assert f"{str(file)!r} leads to {str(users)!r}" in problems[0]
