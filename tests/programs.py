"""Programs of the system that tests drive, and those of `.venv/outside`. `make test` installs them or names them."""

import os
import shutil
from pathlib import Path

import pytest

__all__ = ("need", "outside")

_OUTSIDE = Path(__file__).parent.parent / ".venv" / "outside" / "bin"


def need(*names: str) -> list[str]:
    """Where these programs are: `need("chromium")`. The test is skipped if one is missing, and fails in CI."""
    found = {name: shutil.which(name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        _give_up(f"Not installed: {' '.join(missing)}. Run `apt-get install chromium prometheus` as root.")
    return [path for path in found.values() if path is not None]


def outside(name: str) -> str:
    """Where a program of `.venv/outside` is, such as `locust`."""
    path = _OUTSIDE / name
    if not path.exists():
        _give_up(f"Not installed: {name}. `make test` and `make load` install it.")
    return str(path)


def _give_up(words: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)
