"""What every command does first: files of the product's former name become those of the present one."""

import sys
from pathlib import Path

from sealyard.config.files import read_machine
from sealyard.config.rewrite import take_over_files


def take_over() -> list[str]:
    """Take over configurations and clients' entries; what was done, in sentences."""
    return take_over_files(read_machine(), own_command())


def own_command() -> list[str]:
    """How a client, which has another search path and folder, starts this very sealyard."""
    script = Path(sys.executable).with_name("sealyard.exe" if sys.platform == "win32" else "sealyard")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "sealyard"]
