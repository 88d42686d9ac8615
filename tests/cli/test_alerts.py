"""`sealyard alerts`: the list in a terminal, with or without a gateway."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sealyard.store import open_store
from sealyard.values.access import Alert

Command = Callable[..., subprocess.CompletedProcess[str]]

DOWN = Alert(
    rule="upstream_down", subject="mail\x1b[2J", state="firing", message="The upstream is down.", since=1, changed_at=2
)
HITS = Alert(
    rule="discovery_hit_rate",
    state="pending",
    value=0.5,
    threshold=0.8,
    message="Few searches lead to a call.",
    since=3,
    changed_at=3,
)


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[str]:
    """The config of a store in which one alert fires and one is pending."""
    config = folder / "sealyard.toml"
    path = folder / "store" / "sealyard.db"
    config.write_text(f"[store]\npath = {str(path)!r}\n", encoding="utf-8")
    async with asyncio.timeout(60), open_store(path) as store:
        await store.replace_alerts([HITS, DOWN])
        yield str(config)


async def test_alerts_are_listed_for_people_and_for_programs(sealyard: Command, tmp_path: Path) -> None:
    """What fires comes first; what a terminal would obey is shown instead."""
    async with gateway(tmp_path) as config:
        listed = await asyncio.to_thread(sealyard, "alerts", "--config", config)
        same = await asyncio.to_thread(sealyard, "alerts", "list", "--config", config)
        as_json = json.loads((await asyncio.to_thread(sealyard, "alerts", "--config", config, "--json")).stdout)

    lines = listed.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["state", "alert"],
        ["firing", "upstream_down"],
        ["pending", "discovery_hit_rate"],
    ]
    assert "mail\\x1b[2J" in lines[1]
    assert lines[1].rstrip().endswith("The upstream is down.")
    assert same.stdout == listed.stdout
    first = as_json["alerts"][0]
    assert {name: first[name] for name in ("rule", "subject", "state", "severity", "undelivered")} == {
        "rule": "upstream_down",
        "subject": DOWN.subject,
        "state": "firing",
        "severity": "critical",
        "undelivered": False,
    }


async def test_nothing_is_wrong_in_a_new_store(installed: Command, tmp_path: Path) -> None:
    """It says so."""
    config = tmp_path / "sealyard.toml"
    config.write_text(f"[store]\npath = {str(tmp_path / 's.db')!r}\n", encoding="utf-8")
    listed = await asyncio.to_thread(installed, "alerts", "--config", str(config))

    assert (listed.returncode, listed.stdout) == (0, "No alerts.\n")
