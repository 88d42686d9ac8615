"""A home with the files of clients in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sealyard.config import Machine, read_machine

Put = Callable[[str, str | dict[str, Any]], Path]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Linux home with a project `shop` in it."""
    (tmp_path / "shop").mkdir()
    return read_machine(environ={"HOME": str(tmp_path)}, directory=tmp_path / "shop", platform="linux")


@pytest.fixture
def put(machine: Machine) -> Put:
    """Writes a file below the home."""

    def write(name: str, content: str | dict[str, Any]) -> Path:
        file = machine.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
        return file

    return write
