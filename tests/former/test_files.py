"""Configurations, variables and clients' entries of the former name, as a user who upgrades meets them."""

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm
from tests.former import CARD, TOKEN, unpack

from sealyard.config import load_config, read_machine
from sealyard.config.clients.backups import digest, find_backups
from sealyard.former import starts

Command = Callable[..., subprocess.CompletedProcess[str]]
OWN = str(Path(sys.executable).with_name("sealyard"))
UPSTREAM = '[upstreams.time]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without anything in it."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Where commands are started."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def sealyard(home: Path, project: Path) -> Command:
    """Runs `sealyard` with these arguments and returns the finished process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "SEALYARD_"))}

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*warm.python("-m", "sealyard"), *arguments],
            env=kept | {"HOME": str(home), "COLUMNS": "400"} | variables,
            cwd=project,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def copied(old: Path, new: Path) -> str:
    """What is said of a configuration."""
    return f"note: {str(old)!r} was copied to {str(new)!r}, which counts from now on. The old file stays as a backup.\n"


# Configurations


def test_configuration_is_copied_once(sealyard: Command, project: Path) -> None:
    """It counts under the present name, the old one stays, and the second start says nothing."""
    old, new = project / "toolyard.toml", project / "sealyard.toml"
    old.write_text(UPSTREAM + '[upstreams.mail]\ncommand = "python"\nargs = ["-m", "toolyard.examples.mail"]\n')
    old.chmod(0o640)
    before = old.read_bytes()

    first, second = sealyard("policy", "show"), sealyard("policy", "show")

    assert (first.returncode, first.stderr) == (0, copied(old, new))
    assert (second.returncode, second.stderr) == (0, "")
    assert (old.read_bytes(), stat.S_IMODE(new.stat().st_mode)) == (before, 0o640)
    found = tomllib.loads(new.read_text())["upstreams"]
    assert found["mail"]["args"] == ["-m", "sealyard.examples.mail"]
    assert found["time"]["args"] == ["mcp-server-time"]


def test_configuration_of_the_user_is_copied_to_the_present_folder(sealyard: Command, home: Path) -> None:
    """That folder has the name of the product too."""
    old, new = home / ".config/toolyard/toolyard.toml", home / ".config/sealyard/sealyard.toml"
    old.parent.mkdir(parents=True)
    old.write_text(UPSTREAM)

    assert sealyard("policy", "show").stderr == copied(old, new)
    assert (old.read_text(), new.read_text()) == (UPSTREAM, UPSTREAM)


def test_folder_of_a_project_may_be_named_like_the_former_product(tmp_path: Path, sealyard: Command) -> None:
    """A project's configuration stays in the project."""
    (tmp_path / "project").rename(tmp_path / "toolyard")
    (tmp_path / "project").symlink_to("toolyard")
    (tmp_path / "toolyard" / "toolyard.toml").write_text(UPSTREAM)

    sealyard("policy", "show")

    assert (tmp_path / "toolyard" / "sealyard.toml").read_text() == UPSTREAM
    assert not (tmp_path / "sealyard").exists()


def test_configuration_that_is_there_wins(sealyard: Command, project: Path) -> None:
    """With one under each name, the present one counts and nothing is said."""
    (project / "toolyard.toml").write_text("nonsense")
    (project / "sealyard.toml").write_text(UPSTREAM)

    assert sealyard("policy", "show").stderr == ""
    assert (project / "sealyard.toml").read_text() == UPSTREAM


def test_configuration_that_cannot_be_copied_is_read_where_it_is(sealyard: Command, project: Path, home: Path) -> None:
    """A link may lead to what is not ours to copy, and a folder may not be writable: one line says what to do."""
    (project / "kept.toml").write_text(UPSTREAM)
    (project / "toolyard.toml").symlink_to("kept.toml")
    old = home / ".config/toolyard/toolyard.toml"
    old.parent.mkdir(parents=True)
    old.write_text(UPSTREAM)
    (home / ".config" / "sealyard").touch()  # nothing can be written into it, by root neither

    linked = sealyard("policy", "show")
    (project / "toolyard.toml").unlink()
    blocked = sealyard("policy", "show")

    text = "warning: {!r} is read where it is. Move it to {!r}.\n"
    assert linked.stderr == text.format(str(project / "toolyard.toml"), str(project / "sealyard.toml"))
    assert blocked.stderr == text.format(str(old), str(home / ".config/sealyard/sealyard.toml"))
    assert [each.name for each in sorted(project.iterdir())] == ["kept.toml"]


def test_help_changes_nothing(sealyard: Command, project: Path) -> None:
    """Who only reads about a command has not started it."""
    (project / "toolyard.toml").write_text(UPSTREAM)

    for arguments in (["--help"], ["--version"], ["serve", "--help"], ["tools", "-h"], []):
        assert sealyard(*arguments).stderr.count("copied") == 0
    assert [each.name for each in project.iterdir()] == ["toolyard.toml"]


def test_of_commands_that_start_at_once_one_takes_over(project: Path) -> None:
    """Of the configuration and of the client's file each is changed once, and one of them says so."""
    (project / "toolyard.toml").write_text(UPSTREAM)
    (project / ".mcp.json").write_text('{"mcpServers": {"t": {"command": "toolyard"}}}')
    code = """
import sys
from pathlib import Path
from sealyard.config import read_machine
from sealyard.config.clients import take_over_files
print(len(take_over_files(read_machine(environ={"HOME": sys.argv[1]}, directory=Path(sys.argv[1])), ["x"])))
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(project)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    assert sum(int(process.communicate(timeout=60)[0]) for process in processes) == 2
    assert len(find_backups(read_machine(environ={"HOME": str(project)}))[0]) == 1


# Variables


def test_variables_of_the_former_name_are_read(project: Path) -> None:
    """Each stands in for the present one, with a line; references of either name stand for either."""
    file = project / "any.toml"
    file.write_text(
        '[http]\ntoken = "${TOOLYARD_TOKEN}"\n'
        '[upstreams.a]\ncommand = "a"\nenv = { A = "${SEALYARD_TOKEN}", B = "${TOOLYARD_OTHER}" }\n'
    )
    variables = {
        "TOOLYARD_CONFIG": str(file),
        "TOOLYARD_TOKEN": "t" * 32,
        "TOOLYARD_VAULT_KEY": "k",
        "TOOLYARD_OTHER": "o",
    }

    found = load_config(None, environ=variables | {"HOME": str(project)}, directory=project)

    assert found.source == file
    assert found.upstreams["a"].env == {"A": "t" * 32, "B": "o"}
    assert found.privacy.vault_key == "k"
    assert found.http.unset == ()
    assert found.warnings == tuple(
        f"TOOLYARD_{name} is read as SEALYARD_{name}. Rename the variable." for name in ("CONFIG", "TOKEN", "VAULT_KEY")
    )


def test_variable_of_the_present_name_wins(project: Path) -> None:
    """With both set, nothing is said; a reference means the one that it names."""
    (project / "sealyard.toml").write_text(
        '[upstreams.a]\ncommand = "a"\nenv = { A = "${SEALYARD_TOKEN}", B = "${TOOLYARD_TOKEN}" }\n'
    )
    variables = {"SEALYARD_TOKEN": "new", "TOOLYARD_TOKEN": "old", "SEALYARD_VAULT_KEY": "n", "TOOLYARD_VAULT_KEY": "o"}

    found = load_config(None, environ=variables | {"HOME": str(project)}, directory=project)

    assert (found.upstreams["a"].env, found.privacy.vault_key) == ({"A": "new", "B": "old"}, "n")
    assert found.warnings == ()


def test_renamed_variable_serves_references_of_the_former_name(project: Path) -> None:
    """Who renames the variable first need not change the configuration at once."""
    (project / "sealyard.toml").write_text('[upstreams.a]\ncommand = "a"\nenv = { A = "${TOOLYARD_TOKEN}" }\n')

    found = load_config(None, environ={"SEALYARD_TOKEN": "new", "HOME": str(project)}, directory=project)

    assert (found.upstreams["a"].env, found.warnings) == ({"A": "new"}, ())


# Clients


@pytest.mark.parametrize("name", ["toolyard", "sealyard"])
@pytest.mark.parametrize(
    "command",
    [
        "{}",
        "/opt/bin/{}",
        r"C:\py\Scripts\{}.exe",
        "python3 -m {} serve",
        "/v/bin/python -P -m {}",
        "uvx {} serve",
        "uvx --from {}[otel]==0.1.0 x",
        "uv tool run {}@latest",
        "pipx run {}",
        "env A=1 {} serve",
    ],
)
def test_product_is_known_under_either_name(name: str, command: str) -> None:
    """Whatever starts it must not become its own upstream."""
    program, *arguments = command.format(name).split()

    assert starts(program, tuple(arguments))


@pytest.mark.parametrize("command", ["mytoolyard", "uvx toolyard-extra", "python -m toolyard.examples.mail", "npx x"])
def test_other_programs_are_not_taken_for_the_product(command: str) -> None:
    """Names that only begin or end like it are somebody else's."""
    program, *arguments = command.split()

    assert not starts(program, tuple(arguments))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["toolyard", "serve"], ["sealyard", "serve"]),
        (["toolyard.exe"], ["sealyard.exe"]),
        (["/gone/bin/toolyard", "serve", "--mode", "proxy"], [OWN, "serve", "--mode", "proxy"]),
        ([OWN.replace("sealyard", "toolyard"), "serve"], [OWN, "serve"]),
        (["python3", "-P", "-m", "toolyard", "serve"], ["python3", "-P", "-m", "sealyard", "serve"]),
        ([sys.executable, "-m", "toolyard", "serve"], [sys.executable, "-m", "sealyard", "serve"]),
        (["/gone/bin/python", "-m", "toolyard", "serve"], [OWN, "serve"]),
        (
            ["uvx", "--from", "toolyard[otel]", "toolyard", "serve"],
            ["uvx", "--from", "sealyard[otel]", "sealyard", "serve"],
        ),
        (["uvx", "toolyard==0.1.0", "serve"], ["uvx", "sealyard==0.1.0", "serve"]),
    ],
)
def test_entry_starts_the_present_program(sealyard: Command, home: Path, before: list[str], after: list[str]) -> None:
    """All else in the entry and in the file stays, the old file is beside it, and the second start says nothing."""
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": before[0], "args": before[1:], "env": {"TOOLYARD_TOKEN": "t"}, "other": [1]}
    text = '{\n  // mine\n  "mcpServers": {\n    "toolyard": ENTRY, // ours\n    "x": {"url": "u"}\n  }\n}\n'
    text = text.replace("ENTRY", json.dumps(entry))
    file.write_text(text)

    first, second = sealyard("policy", "show"), sealyard("policy", "show")

    ((backup,), _) = find_backups(read_machine(environ={"HOME": str(home)}))
    assert first.stderr.splitlines()[0] == (
        f"note: 'toolyard' in {str(file)!r} starts sealyard now. A copy of it is {str(backup.path)!r}."
    )
    assert "note" not in second.stderr
    assert backup.read_original() == text.encode()
    kept = file.read_text()
    assert ("// mine" in kept, "// ours" in kept, '"x": {"url": "u"}' in kept) == (True, True, True)
    changed = json.loads("\n".join(line.partition("//")[0] for line in kept.splitlines()))["mcpServers"]["toolyard"]
    assert changed == entry | {"command": after[0], "args": after[1:]}


def test_entry_with_program_and_arguments_in_one_list_starts_the_present_program(
    sealyard: Command, home: Path, project: Path
) -> None:
    """As opencode has it; the list stays one."""
    file = home / ".config" / "opencode" / "opencode.json"
    file.parent.mkdir(parents=True)
    (project / "toolyard.toml").write_text(UPSTREAM)
    command = ["/gone/bin/toolyard", "serve", str(project / "toolyard.toml")]
    file.write_text(json.dumps({"mcp": {"toolyard": {"type": "local", "command": command, "enabled": True}}}))

    sealyard("policy", "show")

    changed = [OWN, "serve", str(project / "sealyard.toml")]
    assert json.loads(file.read_text()) == {"mcp": {"toolyard": {"type": "local", "command": changed, "enabled": True}}}


def test_entry_follows_its_configuration(sealyard: Command, home: Path, project: Path, tmp_path: Path) -> None:
    """What it names under the former name is copied where it is, and named under the present one."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "toolyard.toml").write_text(UPSTREAM)
    (project / "toolyard.toml").write_text(UPSTREAM)
    file = project / ".mcp.json"
    entries = {"far": str(tmp_path / "far" / "toolyard.toml"), "near": "./toolyard.toml", "gone": "/gone/toolyard.toml"}
    servers = {name: {"command": "toolyard", "args": ["serve", path]} for name, path in entries.items()}
    file.write_text(json.dumps({"mcpServers": servers}))

    sealyard("policy", "show")

    changed = json.loads(file.read_text())["mcpServers"]
    assert {name: each["args"][1] for name, each in changed.items()} == {
        "far": str(tmp_path / "far" / "sealyard.toml"),
        "near": "./sealyard.toml",
        "gone": "/gone/toolyard.toml",
    }
    assert (tmp_path / "far" / "sealyard.toml").read_text() == UPSTREAM


def test_entries_of_all_projects_are_changed(sealyard: Command, home: Path) -> None:
    """Claude Code keeps those of every project in one file, also of those in which nobody works just now."""
    entry = {"command": "toolyard", "args": ["serve"]}
    projects = {"/a": {"mcpServers": {"t": entry}}, "/b": {"mcpServers": {"t": entry, "x": {"command": "x"}}}, "/c": {}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"t": entry}, "projects": projects}))

    sealyard("policy", "show")

    found = json.loads((home / ".claude.json").read_text())
    commands = [found["mcpServers"]["t"]["command"]]
    commands += [found["projects"][each]["mcpServers"]["t"]["command"] for each in ("/a", "/b")]
    assert commands == ["sealyard"] * 3
    assert found["projects"]["/b"]["mcpServers"]["x"] == {"command": "x"}


def test_entry_of_codex_is_changed(sealyard: Command, home: Path) -> None:
    """Its file is TOML; what is not about servers stays as it is written."""
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        'model = "m" # mine\n\n[mcp_servers.t]\ncommand = "toolyard"\nargs = ["serve"]\n\n# end\n[tui]\na = 1\n'
    )

    sealyard("policy", "show")

    text = file.read_text()
    assert tomllib.loads(text)["mcp_servers"] == {"t": {"command": "sealyard", "args": ["serve"]}}
    assert ('model = "m" # mine\n' in text, "# end\n[tui]\na = 1\n" in text) == (True, True)


def test_file_that_cannot_be_changed_is_named_and_stays(sealyard: Command, home: Path) -> None:
    """The command runs all the same; the person sees which file is left."""
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    text = '{"mcpServers": {"t": {"command": "toolyard"}}'
    file.write_text(text)

    done = sealyard("policy", "show")

    assert done.returncode == 0
    assert f"note: {str(file)!r} may still start the former program." in done.stderr
    assert file.read_text() == text


def test_client_with_an_entry_of_the_former_name_gets_no_upstream_of_ourselves(
    sealyard: Command, home: Path, project: Path
) -> None:
    """`init` finds the other servers of the client, and not us under a name that we had."""
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    servers = {"toolyard": {"command": "uvx", "args": ["toolyard", "serve"]}, "x": {"command": "x"}}
    file.write_text(json.dumps({"mcpServers": servers}))

    done = sealyard("init", "--json")

    assert [each["name"] for each in json.loads(done.stdout)["servers"]] == ["x"]
    assert list(tomllib.loads((project / "sealyard.toml").read_text())["upstreams"]) == ["x"]


@pytest.fixture
def applied(home: Path, project: Path) -> tuple[Path, bytes]:
    """A client's file as `toolyard init --apply` left it, and what it was before that."""
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    (project / "toolyard.toml").write_text(UPSTREAM)
    original = json.dumps({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}).encode()
    entry = {"command": "/gone/bin/toolyard", "args": ["serve", str(project / "toolyard.toml")]}
    file.write_text(json.dumps({"mcpServers": {"toolyard": entry}}))
    kept = f"mcp.json.toolyard-backup-20260101T000000000000Z-{digest(file.read_bytes())[:16]}"
    file.with_name(kept).write_bytes(original)
    return file, original


@pytest.mark.parametrize("is_taken_over_before", [True, False])
def test_undo_undoes_both(
    sealyard: Command, project: Path, applied: tuple[Path, bytes], is_taken_over_before: bool
) -> None:
    """One `init --undo` leads back to before the former program was put there, and leaves no backup of its."""
    file, original = applied
    if is_taken_over_before:
        sealyard("policy", "show")
        entry = json.loads(file.read_bytes())["mcpServers"]["toolyard"]
        assert entry == {"command": OWN, "args": ["serve", str(project / "sealyard.toml")]}

    done = sealyard("init", "--undo", "--yes")

    assert done.returncode == 0
    assert file.read_bytes() == original
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]


def test_undo_of_a_file_that_was_changed_since_keeps_the_rest(sealyard: Command, applied: tuple[Path, bytes]) -> None:
    """The servers of long ago are put back into the present file."""
    file, _ = applied
    sealyard("policy", "show")
    file.write_bytes(file.read_bytes().replace(b"{", b'{"mine": 1, ', 1))

    assert sealyard("init", "--undo", "--yes").returncode == 0
    servers = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    assert json.loads(file.read_bytes()) == {"mine": 1, "mcpServers": servers}


def test_backup_in_a_project_is_not_used(sealyard: Command, project: Path) -> None:
    """It may have come with the project, which then could choose what an undo writes."""
    file = project / ".mcp.json"
    file.write_text('{"mcpServers": {"sealyard": {"command": "sealyard"}}}')
    kept = f".mcp.json.toolyard-backup-20260101T000000000000Z-{digest(file.read_bytes())[:16]}"
    (project / kept).write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    before = file.read_bytes()

    assert sealyard("init", "--undo", "--yes").returncode == 1
    assert (file.read_bytes(), sorted(each.name for each in project.iterdir())) == (before, [".mcp.json", kept])


def test_takeover_alone_is_nothing_to_undo(sealyard: Command, home: Path) -> None:
    """Its undo would bring back a program that is gone, which the next command would take over again."""
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"mine": {"command": "toolyard"}}}')
    sealyard("policy", "show")
    after = file.read_bytes()

    assert sealyard("init", "--undo", "--yes").returncode == 1
    assert (file.read_bytes(), b'"sealyard"' in after) == (after, True)


def test_undo_leaves_other_projects_alone(sealyard: Command, home: Path, project: Path) -> None:
    """A backup of long ago has the servers of all projects; those that it did not take out are not put back."""
    file = home / ".claude.json"
    server = {"mcpServers": {"x": {"command": "x"}}}
    ours = {"mcpServers": {"toolyard": {"command": "toolyard"}}}
    file.write_text(json.dumps({"projects": {str(project): ours, "/other": {"mcpServers": {}}}}))
    old = json.dumps({"projects": {str(project): server, "/other": server}})
    (home / f".claude.json.toolyard-backup-20260101T000000000000Z-{'0' * 16}").write_text(old)

    assert sealyard("init", "--undo", "--yes").returncode == 0
    assert json.loads(file.read_bytes()) == {"projects": {str(project): server, "/other": {"mcpServers": {}}}}


# All at once


def test_user_who_upgrades_goes_on_where_they_were(
    sealyard: Command, home: Path, project: Path, tmp_path: Path
) -> None:
    """The skill runs, what was approved always is not asked, and tokens, metrics and the audit log go on."""
    unpack(tmp_path / "made", home)
    (tmp_path / "made" / "toolyard.toml").rename(project / "toolyard.toml")
    text = (project / "toolyard.toml").read_text().replace('env = { PYTHONPATH = "${PYTHONPATH}" }\n', "")
    (project / "toolyard.toml").write_text(text.replace('"python"', json.dumps(sys.executable)))

    def output(*arguments: str) -> Any:
        done = sealyard(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    code = 'from skills import count_large\ncount_large(rows=[{"amount": 5}, {"amount": 1}], least=3)'
    assert output("run", "-c", code) == "1\n"
    code = 'from servers.mail import send_mail\nsend_mail(to="ada@example.com", subject="hello", body="text")["number"]'
    assert output("run", "-c", code) == "1\n"
    assert CARD in output("privacy", "reveal", TOKEN)
    assert "entries verified" in output("audit", "verify")
    assert "All sums match the journal." in output("rebuild-metrics")
    assert (home / ".local/share/toolyard/toolyard.db").exists()
