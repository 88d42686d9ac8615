"""Prometheus itself reads what the gateway tells it, and fires by the rules that are shipped, as they are."""

import asyncio
import contextlib
import json
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from mcp import Client
from tests.ports import free_port
from tests.programs import need
from tests.surfaces.conftest import serving

from sealyard.metrics.exposition import FILES, render
from sealyard.metrics.sums.names import GAUGES, METRICS, OPERATOR, Gauge
from sealyard.metrics.sums.sums import Sums

FOLDER = FILES[0].parent
RULES = FOLDER / "prometheus-rules.yml"


def promtool(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """Run promtool; its exit code and all it said."""
    (program,) = need("promtool")
    done = subprocess.run([program, *arguments], input=stdin, capture_output=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def everything() -> bytes:
    """Every metric and every gauge, with every label."""
    sums = Sums()
    for metric in METRICS.values():
        labels = ["mail" if values == OPERATOR else values[0] for values in metric.labels.values()]
        if metric.kind == "counter":
            sums.count(metric.name, *labels, amount=3)
        else:
            sums.observe(metric.name, 0.5, *labels)
    gauges = [Gauge.of(name, 1, **dict.fromkeys(info.labels, 'a "b" \\ c')) for name, info in GAUGES.items()]
    return render(sums, gauges)[0]


def test_promtool_has_no_complaint_about_what_is_exposed() -> None:
    """It checks the format and lints names, units and help texts."""
    assert promtool("check", "metrics", stdin=everything()) == (0, "")


def test_promtool_complains_about_what_is_wrong() -> None:
    """So that the silence above means something."""
    code, said = promtool("check", "metrics", stdin=everything().replace(b"_total", b"_totals"))

    assert code != 0
    assert "sealyard_sessions_totals" in said


def test_promtool_accepts_the_rules_and_what_they_do() -> None:
    """Each fires when it should, with its labels and words, and none when all is well or too little is known."""
    scenarios = Path(__file__).with_name("prometheus_rules_test.yml")

    assert promtool("check", "rules", str(RULES))[0] == 0
    code, said = promtool("test", "rules", str(scenarios))
    assert (code, "SUCCESS" in said) == (0, True), said
    tested = yaml.safe_load(scenarios.read_text(encoding="utf-8"))["tests"][-1]["alert_rule_test"]
    assert {each["alertname"] for each in tested} == {
        rule["alert"] for rule in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    }


@pytest.mark.parametrize("name", [file.name for file in FILES if file.suffix == ".json"])
def test_prometheus_understands_every_query_of_a_dashboard(tmp_path: Path, name: str) -> None:
    """With Grafana's variables filled in; as rules, since this is what promtool parses."""
    board = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    for variable in ("$__rate_interval", "$__range"):
        queries = [query.replace(variable, "5m") for query in queries]
    queries = [query.replace("$instance", ".*").replace("$upstream", ".*") for query in queries]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")

    code, said = promtool("check", "rules", str(path))

    assert (code, f"{len(queries)} rules found" in said) == (0, True), said
    assert not any("$" in query for query in queries)


# The real thing

BROKEN = """
[upstreams.broken]
command = "/nonexistent/server"
"""


@contextlib.asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[Callable[..., Any]]:
    """A Prometheus that scrapes `target` every second and has our rules; gives how to ask its API."""
    (program,) = need("prometheus")
    port = free_port()
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "sealyard", "static_configs": [{"targets": [target]}]}],
    }
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = asyncio.create_task(process.stderr.read())
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False) as client:

            async def ask(path: str, **parameters: str) -> Any:
                try:
                    answer = await client.get(path, params=parameters)
                except httpx2.TransportError:  # it is not up yet
                    return None
                return answer.json().get("data") if answer.is_success else None

            yield ask
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(60):
            await process.wait()
            await said


async def until(find: Callable[[], Any]) -> Any:
    """What `find` finds, once it finds something; a minute at most."""
    async with asyncio.timeout(60):
        while not (found := await find()):  # noqa: ASYNC110 - another program must get there
            await asyncio.sleep(0.2)
        return found


@pytest.mark.behaviour("metrics.prometheus")
async def test_prometheus_scrapes_a_gateway_and_its_rules_fire(config: Callable[..., Path], tmp_path: Path) -> None:
    """One alert fires because somebody changed the audit log; one waits because an upstream cannot be started."""
    path = config(BROKEN)
    async with serving(path) as url, Client(url, cache=None) as client:
        await client.call_tool("execute_code", {"code": "result = 1"})
    with closing(sqlite3.connect(tmp_path / "store" / "sealyard.db")) as connection, connection:
        connection.execute("UPDATE audit SET principal = 'eve' WHERE number = 1")

    async with serving(path) as url:
        target = url.removeprefix("http://").removesuffix("/mcp")
        async with Client(url, cache=None) as client, prometheus(tmp_path, target) as ask:
            for code in ("result = 1", "result = 2", "1 / 0"):
                await client.call_tool("execute_code", {"code": code})

            async def alerts() -> Any:
                found = (await ask("alerts") or {}).get("alerts", [])
                states = {(each["labels"]["rule"], each["labels"].get("upstream")): each["state"] for each in found}
                return states if len(states) == 2 else None

            async def runs() -> Any:
                query = 'sum by (status) (sealyard_execution_total{form="code"})'
                found = (await ask("query", query=query) or {}).get("result", [])
                counted = {each["metric"]["status"]: each["value"][1] for each in found}
                return counted if sum(map(int, counted.values())) == 4 else None

            states = await until(alerts)
            counted = await until(runs)
            (scraped,) = (await until(lambda: ask("targets")))["activeTargets"]
            groups = (await until(lambda: ask("rules")))["groups"]

    assert states == {("audit_chain", None): "firing", ("upstream_down", "broken"): "pending"}
    assert counted == {"ok": "3", "failed": "1"}
    assert (scraped["health"], scraped["lastError"]) == ("up", "")
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}


async def test_metrics_are_served_in_both_formats(config: Callable[..., Path]) -> None:
    """Prometheus asks for OpenMetrics, people and older programs for plain text."""
    async with serving(config()) as url, httpx2.AsyncClient(trust_env=False) as client:
        where = url.removesuffix("/mcp") + "/metrics"
        plain = await client.get(where)
        modern = await client.get(where, headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert (plain.status_code, plain.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert promtool("check", "metrics", stdin=plain.content) == (0, "")
    assert modern.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert modern.content.endswith(b"# EOF\n")
