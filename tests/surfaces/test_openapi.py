"""The OpenAPI document: it is valid, names every route, and every answer is what it says."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest
from starlette.routing import Route
from tests.programs import outside
from tests.surfaces.api_gateway import KEY, TEAM, Gateway, expenses, gateway, until

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config.settings import HttpConfig, PrincipalEntry
from sealyard.serve import api
from sealyard.serve.api import ENDPOINTS
from sealyard.serve.api.openapi import build_document
from sealyard.values.skills import SaveSkill

ALL = PrincipalEntry(token="all-token", observe=True, approve=True, reveal=True)
VALIDATE = """
import json, sys
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
print(json.dumps([str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(json.load(sys.stdin))]))
"""


def test_the_document_is_valid() -> None:
    """By the schema of OpenAPI 3.1, which knows what a typing error in a key is."""
    document = build_document(ENDPOINTS)
    wrong = document | {"paths": {"/x": {"get": {"responses": {"200": {"descripton": "misspelt"}}}}}}

    def errors(each: dict[str, Any]) -> list[str]:
        done = subprocess.run(
            [outside("python"), "-c", VALIDATE], input=json.dumps(each), capture_output=True, text=True, check=True
        )
        found: list[str] = json.loads(done.stdout)
        return found

    assert errors(document) == []
    assert errors(wrong) != []


def test_every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() -> None:
    """A generator of clients can follow all of it."""
    document = build_document(ENDPOINTS)
    text = json.dumps(document)
    places = set(re.findall(r'"\$ref": "#/components/(\w+)/(\w+)"', text))
    operations = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]

    assert [place for place in places if place[1] not in document["components"][place[0]]] == []
    assert sorted(set(operations)) == sorted(operations)
    assert [each.name for each in ENDPOINTS if not each.summary.endswith(".")] == []


async def test_every_route_is_in_the_document_and_the_other_way_round(tmp_path: Path) -> None:
    """What is answered and what is said come from the same declarations."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        routes = api.routes(gate.yard)
        served = (await (await gate.client()).get("openapi.json")).json()

    assert all(isinstance(each, Route) for each in routes)
    answered = {(route.path, method) for route in routes[:-1] for method in (route.methods or set()) - {"HEAD"}}
    told = {(path, method.upper()) for path, methods in served["paths"].items() for method in methods}
    assert answered == told
    assert (routes[-1].path, routes[-1].methods) == ("/api{rest:path}", None)


class Checked:
    """A client whose every answer is held against the document."""

    def __init__(self, gate: Gateway, client: httpx2.AsyncClient, seen: set[tuple[str, int]]) -> None:
        self._gate = gate
        self._client = client
        self.seen = seen
        """Operations and the statuses that they answered with."""
        self._document = build_document(ENDPOINTS)

    async def __call__(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """The answer, if the document allows it."""
        url = f"{self._gate.url}{path if path.startswith('/') else f'/api/v1/{path}'}"
        answer = await self._client.request(method, url, **options)
        operation = self._operation(method, answer.url.path)
        self.seen.add((operation["operationId"], answer.status_code))
        declared = operation["responses"][str(answer.status_code)]
        if "$ref" in declared:
            declared = self._document["components"]["responses"][declared["$ref"].rpartition("/")[2]]
        if "content" in declared:
            kind = answer.headers["content-type"].partition(";")[0]
            schema = declared["content"][kind]["schema"]
            validator = jsonschema_rs.validator_for(
                _closed({**schema, "components": self._document["components"]}), validate_formats=True
            )
            for value in _values(kind, answer.text):
                validator.validate(value)
        return answer

    def _operation(self, method: str, path: str) -> Any:
        for template, methods in self._document["paths"].items():
            if method.lower() in methods and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path):
                return methods[method.lower()]
        raise AssertionError(f"{method} {path} is not in the document")


def _values(kind: str, text: str) -> list[Any]:
    """What an answer holds, as far as it is described: JSON, text, or events."""
    if kind == "application/json":
        return [json.loads(text)]
    if kind == "text/event-stream":
        blocks = [block.splitlines() for block in text.split("\n\n") if block]
        return [dict(line.split(": ", 1) for line in block) for block in blocks]
    return [text]


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with nothing allowed that it does not name: an answer must not say more than is documented."""

    def close(value: Any) -> Any:
        if isinstance(value, list):
            return [close(each) for each in value]
        if not isinstance(value, dict):
            return value
        closed = {key: close(each) for key, each in value.items()}
        if closed.get("type") == "object" and "properties" in closed and closed.get("title") != "Document":
            closed.setdefault("additionalProperties", False)
        return closed

    return dict(close(schema))


@pytest.mark.behaviour("http.openapi")
async def test_every_answer_of_a_session_is_as_the_document_says(tmp_path: Path) -> None:
    """Every operation is asked at least once with success, and a good part of the refusals too."""
    rules = PolicySettings(rules=(Rule(decision="ask", tools=("mcp__expenses__get_budget",)),))
    http = HttpConfig(principals={**TEAM.principals, "all": ALL})
    upstream = expenses()
    async with gateway(tmp_path, upstream, http=http, policy=rules) as gate:
        seen: set[tuple[str, int]] = set()
        ask = Checked(gate, await gate.client("all"), seen)
        ann = Checked(gate, await gate.client("ann"), seen)
        nobody = Checked(gate, await gate.client(), seen)
        await _run_some(gate, ask)
        await _answer_an_ask(ann, ask)
        upstream.is_dead = True
        await gate.yard.operations.alerting.check()
        await _look_around(gate, ask)
        for method, path in (("GET", "me"), ("GET", "metrics"), ("POST", "executions"), ("GET", "/metrics")):
            await nobody(method, path, **({} if method == "GET" else {"json": {}}))
        await nobody("POST", "login", json={"token": KEY})
        for path in ("metrics", "approvals", "alerts", "/metrics", "executions?principal=bob", "learning/insights"):
            await ann("GET", path)
        await ann("POST", "privacy/reveal", json={"token": "x"})
        await ann("POST", "learning/forget", json={"subject": "ALL"})
        await ask("POST", "logout", json={})

    succeeded = {name for name, status in seen if status < 300}
    assert succeeded == {each.name for each in ENDPOINTS} - {"follow_gateway"}  # which has no end
    assert {status for _, status in seen} == {200, 202, 204, 400, 401, 403, 404, 409, 413}


async def _run_some(gate: Gateway, ask: Checked) -> None:
    code = "from servers.expenses import *\nprint('hello')\nlen(list_expenses())"
    key = {"idempotency-key": "k"}
    done = (await ask("POST", "executions", json={"code": code, "wait": True}, headers=key)).json()
    await ask("POST", "executions", json={"code": "1"}, headers=key)
    await ask("POST", "executions", json={"code": "fail()\n1 / 0", "wait": True})
    await ask("POST", "executions", json={"code": "list(range(9_000))", "wait": True})
    await ask("POST", "executions", json={"code": " "})
    await ask("POST", "executions", json={"code": "1", "context": {"a": "x" * (5 << 20)}})
    started = (await ask("POST", "executions", json={"code": "while True: pass"})).json()
    await ask("GET", f"executions/{started['execution_id']}")
    await ask("POST", f"executions/{started['execution_id']}/cancel")
    for name in (done["execution_id"], "nothing"):
        for path in (f"executions/{name}", f"executions/{name}/calls", f"executions/{name}/events"):
            await ask("GET", path)
    await ask("GET", f"executions/{done['execution_id']}/events", headers={"last-event-id": "ended"})
    await ask("POST", "analyses", json={"analysis_type": "filter", "data": [{"a": 1}], "parameters": {}})
    await ask("POST", "analyses", json={"analysis_type": "x"})
    skill = SaveSkill(name="one", code="def one() -> int:\n    return 1", description="One.", tags=("n",))
    await gate.yard.skills.save(skill, principal="all")


async def _answer_an_ask(other: Checked, ask: Checked) -> None:
    await other("POST", "executions", json={"code": "from servers.expenses import *\nget_budget(department='Sales')"})
    answer = await until(lambda: ask("GET", "approvals"), lambda seen: seen.json()["approvals"])
    waiting = answer.json()["approvals"]
    await ask("GET", "executions?status=running")
    await ask("GET", f"approvals/{waiting[0]['id']}")
    await ask("POST", f"approvals/{waiting[0]['id']}/reveal", json={})
    await ask("GET", "policy")
    await ask("POST", f"approvals/{waiting[0]['id']}", json={"decision": "refuse", "reason": "no"})
    await ask("POST", f"approvals/{waiting[0]['id']}", json={"decision": "once"})


async def _look_around(gate: Gateway, ask: Checked) -> None:
    scope = (await gate.yard.guards.of("all:s")).scope
    assert scope is not None
    token = scope.token("email", "a@x.example")
    for path in (
        "me",
        "openapi.json",
        "mcp/tools/search?query=expenses&detail_level=full",
        "mcp/tools/search?query=zebra",
        "tools?limit=2",
        "tools/mcp__expenses__fail",
        "tools/nothing",
        "upstreams",
        "profiles",
        "executions?limit=2",
        "skills",
        "skills?query=one",
        "skills/one",
        "skills/nothing",
        "metrics?window=all",
        "metrics/series?window=all",
        "metrics/series?window=7d",
        "usage?window=all",
        "usage?window=2y",
        "audit?limit=5",
        "audit?limit=x",
        "alerts",
        "/metrics",
    ):
        await ask("GET", path)
    await ask("POST", "privacy/reveal", json={"token": token})
    await ask("POST", "privacy/reveal", json={"token": "__PII_email_cccccccccccc__"})
    await gate.yard.guidance.learner.once()
    await ask("GET", "learning/insights")
    for code in ("from servers.expenses import *\nlist_expenses(nothing=1)", " "):
        await ask("POST", "learning/assess", json={"code": code})
    for subject in ("all", "nobody at all", "ALL"):
        await ask("POST", "learning/forget", json={"subject": subject})
    await ask("GET", "learning/insights")
