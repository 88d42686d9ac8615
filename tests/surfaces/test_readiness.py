"""`/readyz` says which part of the gateway does not work, and the log says it once; `/healthz` stays 200."""

import functools
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.security.test_connection_attacks import Served, served
from tests.surfaces.api_gateway import gateway, until

MEBIBYTE = 1 << 20
IMPATIENT = """
from sealyard.cli import main
from sealyard.observe.health import readiness

readiness._FRESH_SECONDS = 0.1
main()
"""
"""`sealyard`, which looks anew when what it saw is a tenth of a second old instead of two."""

impatient = functools.partial(served, program=("-c", IMPATIENT))


async def ready(gate: Served, *, ok: bool, part: str = "") -> dict[str, Any]:
    """The parts, when all of them work, or when `part` does not."""
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await until(
            lambda: client.get(f"{gate.url}/readyz"),
            lambda seen: seen.json()["ready"] if ok else not seen.json()["parts"].get(part, {"ok": True})["ok"],
        )
        healthy = await client.get(f"{gate.url}/healthz")
    assert (answer.status_code, healthy.status_code) == (200 if ok else 503, 200)
    parts: dict[str, Any] = answer.json()["parts"]
    assert ok or parts[part]["reason"] in answer.json()["reason"]
    return parts


def said_of(gate: Served, part: dict[str, Any]) -> list[str]:
    """The lines of the log that give the reason of a part, from the path in it on: figures before it change."""
    reason = part["reason"]
    return [line for line in gate.log() if "Not ready" in line and line.endswith(reason[reason.index("'") :])]


async def test_a_temporary_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    """As after a cleaner; a file in its place keeps the gateway from making it anew."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    async with impatient(tmp_path, environment={"TMPDIR": str(temporary)}) as gate:
        await ready(gate, ok=True)
        temporary.rename(tmp_path / "elsewhere")
        temporary.write_text("", encoding="utf-8")
        parts = await ready(gate, ok=False, part="temporary")
        log = said_of(gate, parts["temporary"])

    assert parts["temporary"]["reason"].startswith(f"No temporary file can be written in {str(temporary)!r}: ")
    assert len(log) == 1


async def test_a_store_that_cannot_be_written_is_told_until_it_can(tmp_path: Path) -> None:
    """A write is tried, although nothing happens that would have to be recorded."""
    store = tmp_path / "store" / "sealyard.db"
    async with impatient(tmp_path) as gate:
        await ready(gate, ok=True)
        store.rename(store.with_suffix(".aside"))
        parts = await ready(gate, ok=False, part="store")
        store.with_suffix(".aside").rename(store)
        await ready(gate, ok=True)
        log = [line for line in gate.log() if "eady" in line]

    assert "was removed or replaced" in parts["store"]["reason"]
    assert len(log) == 2
    assert log[1] == "sealyard.observe.health.readiness: Ready again: store."


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 MiB."""
    if os.geteuid() != 0:
        pytest.skip("A small disk is a tmpfs, and mounting one needs root.")
    folder = tmp_path / "store"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_full_disk_is_told_and_logged(tmp_path: Path, small_disk: Path) -> None:
    """Before the store fails; what is free is said in bytes."""
    filler = small_disk / "filler"
    async with impatient(tmp_path) as gate:
        before = await ready(gate, ok=True)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, before["disk"]["left"] - MEBIBYTE)
        parts = await ready(gate, ok=False, part="disk")
        log = said_of(gate, parts["disk"])
        filler.unlink()
        after = await ready(gate, ok=True)

    assert 64 * MEBIBYTE < before["disk"]["left"] <= 128 * MEBIBYTE
    assert parts["disk"]["left"] <= MEBIBYTE
    assert len(log) == 1
    assert after["disk"]["ok"]


async def test_a_gateway_without_a_sandbox_is_ready_without_one(tmp_path: Path) -> None:
    """In proxy mode no code runs, and all else is tried."""
    async with impatient(tmp_path, '[surface]\nmode = "proxy"\n') as gate:
        parts = await ready(gate, ok=True)

    assert set(parts) == {"store", "temporary", "disk", "descriptors"}


async def test_too_few_descriptors_are_told_and_logged(tmp_path: Path) -> None:
    """Some are left when it is said: enough to say it."""
    async with impatient(tmp_path, is_warm=False) as gate:
        before = await ready(gate, ok=True)
        hard = resource.prlimit(gate.pid, resource.RLIMIT_NOFILE)[1]
        used = len(os.listdir(f"/proc/{gate.pid}/fd"))
        resource.prlimit(gate.pid, resource.RLIMIT_NOFILE, (used + 30, hard))
        parts = await ready(gate, ok=False, part="descriptors")
        log = [line for line in gate.log() if "descriptors are left" in line]

    assert before["descriptors"]["left"] > parts["descriptors"]["left"]
    assert len(log) == 1


async def test_a_sandbox_that_runs_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is started to find out; the gauge says what was found."""
    monkeypatch.setattr("sealyard.observe.health.readiness._FRESH_SECONDS", 0.1)
    async with gateway(tmp_path) as gate:
        client = await gate.client()
        look = f"{gate.url}/readyz"
        await until(lambda: client.get(look), lambda seen: seen.status_code == 200)
        sandbox = await gate.yard.sandbox()
        await sandbox.prove()
        await sandbox.pool.close()
        gate.yard.operations.readiness._proven_at = 0.0  # what was proven is half a minute old
        broken = await until(lambda: client.get(look), lambda seen: seen.status_code == 503)
        figures = (await client.get(f"{gate.url}/metrics")).text.splitlines()

    assert broken.json()["parts"]["sandbox"] == {"ok": False, "reason": "The sandbox is closed."}
    assert 'sealyard_ready{part="sandbox"} 0.0' in figures
    assert 'sealyard_ready{part="store"} 1.0' in figures
