"""The official conformance suite: against the fixture, and against the gateway in front of it."""

import sys
from collections.abc import Iterator

import pytest
from tests.mcp.conformance import passed, required
from tests.mcp.peers import everything
from tests.mcp.processes import gateway, serving

from sealyard.values.tools import UpstreamConfig

REVISIONS = {"2025-11-25": 30, "2026-07-28": 37}
CODE_MODE = {
    "2025-11-25": [
        "server-initialize",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ],
    "2026-07-28": [
        "tools-list",
        "server-sse-multiple-streams",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
    ],
}


def python(*arguments: str) -> list[str]:
    """Python as everyone starts it."""
    return [sys.executable, *arguments]


@pytest.fixture(scope="module")
def fixture_url() -> Iterator[str]:
    """The server that has everything the suite asks for."""
    with serving([*everything(), "--http"]) as url:
        yield url


@pytest.fixture(scope="module")
def gateway_url(fixture_url: str) -> Iterator[str]:
    """The gateway in proxy mode with that server behind it."""
    upstream = UpstreamConfig(name="everything", transport="http", url=fixture_url)
    with serving(gateway(upstream, python=python)) as url:
        yield url


@pytest.mark.parametrize("revision", REVISIONS)
def test_suite_requires_as_many_scenarios_as_it_did(revision: str) -> None:
    """The lists below are not empty by accident."""
    assert len(required(revision)) == REVISIONS[revision]


@pytest.mark.behaviour("surface.conformance_proxy")
@pytest.mark.parametrize("revision", REVISIONS)
def test_proxy_passes_every_scenario_its_upstream_passes(gateway_url: str, revision: str) -> None:
    """In proxy mode a client cannot tell that the gateway is there. What its upstream fails it cannot pass."""
    assert passed(gateway_url, revision, required(revision)) == required(revision)


@pytest.fixture(scope="module")
def code_url(fixture_url: str) -> Iterator[str]:
    """The gateway in code mode: a server that has tools of its own, and saved skills as resources."""
    upstream = UpstreamConfig(name="everything", transport="http", url=fixture_url)
    with serving(gateway(upstream, options=("--mode", "code"), python=python)) as url:
        yield url


@pytest.mark.behaviour("surface.conformance_code")
@pytest.mark.parametrize("revision", REVISIONS)
def test_code_mode_passes_what_applies_to_a_server_with_tools(code_url: str, revision: str) -> None:
    """Every other required scenario asks for a tool, prompt or resource of the suite's own by name."""
    found = passed(code_url, revision, CODE_MODE[revision])

    assert [each for each in CODE_MODE[revision] if each not in found] == []
    assert "prompts-list" not in found  # the measure can fail: in code mode there are no prompts
