"""How clients start the gateway on systems where it does not run itself."""

import subprocess
from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from tests.unit.config.clients.conftest import Put

from sealyard.config import Machine, read_machine
from sealyard.config.clients.known import CLIENTS, Gateway
from sealyard.config.clients.launch import launch, launch_notes
from sealyard.config.clients.servers import find_places, find_servers
from sealyard.errors import InvalidRequest

LINUX, WINDOWS, MACOS = (
    read_machine(environ={"HOME": "/h", "USERPROFILE": "/h"}, platform=each) for each in ("linux", "win32", "darwin")
)
OWN = ["/bin/sealyard"]
WSL = "C:\\Windows\\System32\\wsl.exe"


def find_wsl(name: str) -> str | None:
    """The machine has WSL and nothing else."""
    return WSL if name == "wsl.exe" else None


def test_linux_starts_this_program() -> None:
    """With nothing to be said of it."""
    assert launch(LINUX, OWN, PurePosixPath("/a b/y.toml")) == ("/bin/sealyard", "serve", "/a b/y.toml")
    assert launch_notes(LINUX) == []


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("C:\\Users\\A B\\sealyard.toml", "/mnt/c/Users/A B/sealyard.toml"),
        ("d:/x/y.toml", "/mnt/d/x/y.toml"),
        ("\\\\wsl.localhost\\Ubuntu\\home\\me\\y.toml", "/home/me/y.toml"),
        ("\\\\WSL$\\Ubuntu\\home\\me\\y.toml", "/home/me/y.toml"),
    ],
)
def test_windows_starts_the_gateway_in_wsl(path: str, inside: str) -> None:
    """With the configuration where it is inside, and a note on what must be there."""
    command = launch(WINDOWS, OWN, PureWindowsPath(path), find=find_wsl)

    assert (command[0], command[-3:]) == (WSL, ("sealyard", "serve", inside))
    assert launch_notes(WINDOWS)[0].startswith("the gateway starts in WSL: install sealyard")


def test_program_in_the_working_directory_is_not_taken_for_wsl() -> None:
    """Windows looks there first, and a cloned project may hold one under this name."""
    with pytest.raises(InvalidRequest, match="The gateway runs on Linux"):
        launch(WINDOWS, OWN, PureWindowsPath("C:\\y"), find=lambda _: ".\\wsl.EXE")


@pytest.mark.parametrize("argument", ["/mnt/c/A B/y.toml", "/a*/[b]?", "/$HOME/`id`/;x", "-n"])
def test_shell_in_wsl_passes_arguments_on_as_they_are(argument: str) -> None:
    """Spaces, patterns, references and separators in a path mean nothing to it."""
    _, dash_e, shell, option, script, program, *_ = launch(WINDOWS, OWN, PureWindowsPath("C:\\y"), find=find_wsl)
    assert (dash_e, program) == ("-e", "sealyard")
    done = subprocess.run(
        [shell, option, script, "printf", "<%s>", "serve", argument], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"<serve><{argument}>"


@pytest.mark.parametrize(("machine", "find"), [(MACOS, find_wsl), (WINDOWS, lambda _: None)])
def test_without_a_linux_an_address_is_asked_for(machine: Machine, find: Callable[[str], str | None]) -> None:
    """No entry is written that could not work."""
    with pytest.raises(InvalidRequest, match=r"The gateway runs on Linux.* give its address with --url"):
        launch(machine, OWN, PurePosixPath("/y.toml"), find=find)


def test_share_that_wsl_does_not_see_is_refused() -> None:
    """The path would lead nowhere."""
    with pytest.raises(InvalidRequest, match="cannot be reached from WSL"):
        launch(WINDOWS, OWN, PureWindowsPath("\\\\server\\share\\y.toml"), find=find_wsl)


@pytest.mark.parametrize("machine", [WINDOWS, MACOS], ids=["windows", "macos"])
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_has_a_file_on_every_system(machine: Machine, client: str) -> None:
    """One of the user's own, and only once."""
    paths = [each.path for each in find_places(machine) if each.client == client and each.project is None]

    assert paths
    assert len(set(paths)) == len(paths)


def test_entry_that_starts_the_gateway_in_wsl_is_known_as_ours(put: Put) -> None:
    """It does not become an upstream of the gateway."""
    gateway = Gateway(command=launch(WINDOWS, OWN, PureWindowsPath("C:\\y.toml"), find=find_wsl))
    file = put(".cursor/mcp.json", {"mcpServers": {"sealyard": gateway.entry("cursor")}})
    home = file.parent.parent

    assert find_servers(read_machine(environ={"HOME": str(home)}, directory=home / "shop")).servers == []
