"""The command by which a client starts the gateway, which needs Linux, on the client's own system."""

import shutil
from collections.abc import Callable
from pathlib import PurePath, PureWindowsPath

from sealyard.config.settings import Machine
from sealyard.errors import InvalidRequest

_IN_WSL = ("-e", "sh", "-lc", "set -f; IFS=; exec $0 $@", "sealyard")
"""A login shell finds a program in `~/.local/bin`. Nothing is quoted, as each program on the way would unquote it."""
_HELP = "docs/howto/clients.md has a section on macOS and Windows"


def launch(
    machine: Machine, own: list[str], config: PurePath, *, find: Callable[[str], str | None] = shutil.which
) -> tuple[str, ...]:
    """The command that serves a configuration on this machine. `own` starts this program.

    Raises:
        InvalidRequest: There is no Linux on this machine that sealyard knows how to reach.
    """
    if machine.platform == "linux":
        return (*own, "serve", str(config))
    wsl = find("wsl.exe") if machine.platform == "win32" else None
    # The search begins in the working directory, where a cloned project may hold one.
    if wsl is not None and PureWindowsPath(wsl).is_absolute():
        return (wsl, *_IN_WSL, "serve", _path_in_wsl(config))
    raise InvalidRequest(
        "The gateway runs on Linux. Start it in a container or a virtual machine, or on another computer, and give its"
        f" address with --url; {_HELP}."
    )


def launch_notes(machine: Machine) -> list[str]:
    """Notes for a person about a gateway that runs beside the client's system."""
    in_wsl = (
        "the gateway starts in WSL: install sealyard and its servers' programs there, and set the variables that the"
        f" configuration refers to in its ~/.profile; {_HELP}"
    )
    return [in_wsl] if machine.platform == "win32" else []


def _path_in_wsl(path: PurePath) -> str:
    windows = PureWindowsPath(path)
    share = windows.drive.strip("\\").split("\\")
    if len(share) == 2 and share[0].lower() in ("wsl$", "wsl.localhost"):  # a file of the Linux inside
        return "/" + "/".join(windows.parts[1:])
    if len(windows.drive) == 2:
        return "/".join(("/mnt", windows.drive[0].lower(), *windows.parts[1:]))
    raise InvalidRequest(f"{str(path)!r} cannot be reached from WSL. Give an --output on a drive such as C:.")
