"""`sealyard alerts`: a person at a terminal sees what is wrong and answers it, with or without a gateway."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sealyard.observe.alerts import RULES, Finding, Look, advance, find_due
from sealyard.store import Store, open_store
from sealyard.store.alerts import Alert

Command = Callable[..., subprocess.CompletedProcess[str]]

DOWN = Finding(rule="upstream_down", subject="mail\x1b[2J", message="The upstream is down.")
HITS = Finding(rule="discovery_hit_rate", value=0.5, threshold=0.8, message="Few searches lead to a call.")


@asynccontextmanager
async def gateway(folder: Path, more: str = "") -> AsyncIterator[tuple[Store, str]]:
    """A store in which one alert fires and one is pending, and the config that the command is given."""
    config = folder / "sealyard.toml"
    path = folder / "store" / "sealyard.db"
    config.write_text(f"[store]\npath = {str(path)!r}\n{more}", encoding="utf-8")
    async with asyncio.timeout(60), open_store(path) as store:
        await look(store, DOWN, ago=60)
        for alert in await look(store, DOWN, HITS):
            store.alerts.note_delivery(alert, is_delivered=True)
        await store.flush()
        yield store, str(config)


async def look(store: Store, *findings: Finding, ago: float = 0) -> list[Alert]:
    """Check as a gateway does; the alerts that it is to deliver."""
    owner, now = store.alerts.owner, time.time() - ago
    seen = Look(findings=findings, judged={"upstream_down"}, now=now, for_seconds=30, owner=owner)
    done = await store.alerts.change(partial(advance, seen), now=now)
    return find_due(done.before, done.after, owner)


async def test_alerts_are_listed_for_people_and_for_programs(sealyard: Command, tmp_path: Path) -> None:
    """What fires comes first; what a terminal would obey is shown instead."""
    async with gateway(tmp_path) as (_, config):
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
    assert as_json["silences"] == []
    first = as_json["alerts"][0]
    assert {name: first[name] for name in ("rule", "subject", "state", "severity", "silenced", "undelivered")} == {
        "rule": "upstream_down",
        "subject": DOWN.subject,
        "state": "firing",
        "severity": "critical",
        "silenced": False,
        "undelivered": False,
    }


async def test_nothing_is_wrong_in_a_new_store(installed: Command, tmp_path: Path) -> None:
    """It says so."""
    config = tmp_path / "sealyard.toml"
    config.write_text(f"[store]\npath = {str(tmp_path / 's.db')!r}\n", encoding="utf-8")
    listed = await asyncio.to_thread(installed, "alerts", "--config", str(config))

    assert (listed.returncode, listed.stdout) == (0, "Nothing is wrong, and nothing was.\n")


async def test_an_alert_is_silenced_and_heard_again(sealyard: Command, tmp_path: Path) -> None:
    """The list shows until when, by whom and why; the audit log keeps it."""
    async with gateway(tmp_path) as (store, config):
        done = await asyncio.to_thread(
            sealyard, "alerts", "silence", "upstream_down", "--for", "8h", "--reason", "moving", "--config", config
        )
        (silence,) = await store.alerts.silences()
        listed = await asyncio.to_thread(sealyard, "alerts", "--config", config)
        ended = await asyncio.to_thread(sealyard, "alerts", "--config", config, "unsilence", "upstream_down")
        again = await asyncio.to_thread(sealyard, "alerts", "unsilence", "upstream_down", "--config", config)
        entries = await store.audit_entries()

    assert (done.returncode, done.stdout.startswith("silenced: upstream_down until ")) == (0, True)
    assert abs(silence.until - time.time() - 8 * 3600) < 120
    assert (silence.principal, silence.reason) == ("local", "moving")
    assert listed.stdout.splitlines()[1].rstrip().endswith("The upstream is down. It is silenced.")
    assert listed.stdout.splitlines()[3].endswith(" by local: upstream_down: moving")
    assert (ended.returncode, ended.stdout) == (0, "no longer silenced: upstream_down\n")
    assert (again.returncode, again.stderr) == (
        2,
        "error: 'upstream_down' is not silenced. `sealyard alerts` lists what is.\n",
    )
    assert [entry.kind for entry in entries] == ["alert.unsilence", "alert.silence"]


async def test_an_alert_is_resolved_and_a_gateway_tells_it(sealyard: Command, tmp_path: Path) -> None:
    """The command is gone when the message is due, so the next gateway that looks takes it over, once."""
    async with gateway(tmp_path) as (store, config):
        done = await asyncio.to_thread(sealyard, "alerts", "resolve", "upstream_down", DOWN.subject, "--config", config)
        looks = [await look(store, DOWN, HITS) for _ in range(2)]
        unknown = await asyncio.to_thread(sealyard, "alerts", "resolve", "timeouts", "--config", config)

    assert (done.returncode, done.stdout) == (0, "resolved: upstream_down mail\\x1b[2J\n")
    assert [[(each.rule, each.state) for each in due] for due in looks] == [[("upstream_down", "resolved")], []]
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "error: There is no alert 'timeouts'. `sealyard alerts` lists those that are.\n",
    )


async def test_a_mistake_is_named(sealyard: Command, tmp_path: Path) -> None:
    """A rule that does not exist, a time that is none, one that is too long."""
    async with gateway(tmp_path) as (_, config):
        rule = await asyncio.to_thread(sealyard, "alerts", "silence", "party", "--config", config)
        none = await asyncio.to_thread(sealyard, "alerts", "silence", "timeouts", "--for", "soon", "--config", config)
        long = await asyncio.to_thread(
            sealyard, "alerts", "silence", "timeouts", "--for", "1000days", "--config", config
        )

    assert (rule.returncode, all(name in rule.stderr for name in RULES)) == (2, True)
    assert none.stderr == "error: 'soon' is not a duration. Write it as 30days, 12h or '2 weeks'.\n"
    assert long.stderr == "error: A silence cannot last 8.64e+07 s. Give more than 0 and at most 2,592,000.\n"


async def test_a_webhook_is_tried_out(sealyard: Command, tmp_path: Path) -> None:
    """What came of it is said, and the address is not."""
    bodies: list[dict[str, Any]] = []
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"]

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        bodies.append(json.loads(await reader.readexactly(length)))
        writer.write(answers.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, gateway(tmp_path, f'[alerts]\nwebhook = "http://127.0.0.1:{port}/s3cret"\n') as (_, config):
        taken = await asyncio.to_thread(sealyard, "alerts", "test", "--config", config)
        refused = await asyncio.to_thread(sealyard, "alerts", "test", "--config", config)
    async with gateway(tmp_path) as (_, config):
        without = await asyncio.to_thread(sealyard, "alerts", "test", "--config", config)

    assert (taken.returncode, taken.stdout) == (0, "The webhook took it.\n")
    assert [body["alerts"][0]["message"] for body in bodies] == ["This is a test: nothing is wrong."] * 2
    assert (refused.returncode, refused.stderr) == (
        2,
        "error: The webhook did not take it: it answered with status 403. Look at webhook in [alerts].\n",
    )
    assert without.stderr == "error: No webhook is configured. Give its URL as webhook in [alerts].\n"
