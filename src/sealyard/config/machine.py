"""The environment that a configuration depends on: variables, folders and the platform."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sealyard.former import FORMER


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that a configuration depends on. Tests give another one."""

    environ: Mapping[str, str]
    home: Path
    directory: Path
    """The project: where the command was started."""
    platform: str
    """As `sys.platform` says it: `linux`, `darwin`, `win32`."""

    def __repr__(self) -> str:  # the environment holds secrets
        return f"Machine(home={self.home!r}, directory={self.directory!r}, platform={self.platform!r})"

    @property
    def data_folder(self) -> Path:
        """The folder of sealyard's own data."""
        return self._folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local") / "sealyard"

    @property
    def store_path(self) -> Path:
        """The store, unless the configuration names another."""
        return self.data_folder / "sealyard.db"

    @property
    def config_folder(self) -> Path:
        """The folder of a user's `sealyard.toml`."""
        return self._folder("XDG_CONFIG_HOME", ".config", "LOCALAPPDATA", "Local") / "sealyard"

    def former_config(self, path: Path) -> Path:
        """The place of the configuration at `path` under the product's former name."""
        folder = path.parent
        return (folder.with_name(FORMER) if folder == self.config_folder else folder) / f"{FORMER}.toml"

    @property
    def applications_folder(self) -> Path:
        """The folder in which each desktop program has a folder of settings."""
        return self._folder("XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")

    def _folder(self, xdg: str, unix: str, variable: str, windows: str) -> Path:
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get(variable) or self.home / "AppData" / windows)
        given = Path(self.environ.get(xdg, ""))
        return given if given.is_absolute() else self.home / unix  # XDG says to ignore a relative one


def read_machine(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None, platform: str = sys.platform
) -> Machine:
    """The machine as the environment describes it; by default that of this process."""
    environ = os.environ if environ is None else environ
    home = environ.get("USERPROFILE" if platform == "win32" else "HOME")
    return Machine(
        environ=dict(environ),
        home=Path(home) if home else Path.home(),
        directory=(directory or Path.cwd()).absolute(),
        platform=platform,
    )
