"""A gateway in this process that listens on loopback, for tests of what it answers over HTTP."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from sealyard.broker.policy import PolicySettings
from sealyard.config import Config, SandboxConfig, StoreConfig
from sealyard.config.settings import HttpConfig, LearningConfig, PrincipalEntry, PrivacyConfig
from sealyard.serve import api
from sealyard.serve.http import open_http
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.yard import Yard, open_yard

KEY = "the-operators-key"
WAIT_SECONDS = 60
T = TypeVar("T")

TEAM = HttpConfig(
    principals={
        "ann": PrincipalEntry(token="ann-token"),
        "bob": PrincipalEntry(token="bob-token"),
        "eve": PrincipalEntry(token="eve-token", upstreams=("none",)),
        "obs": PrincipalEntry(token="obs-token", observe=True),
        "ops": PrincipalEntry(token="ops-token", observe=True, approve=True),
        "key": PrincipalEntry(token="key-token", reveal=True),
    }
)
"""Two who work, one who may use no tool, and three who look after them, each with one more right."""


class Gateway:
    """The yard, and who asks it over HTTP."""

    def __init__(self, yard: Yard, url: str, clients: contextlib.AsyncExitStack) -> None:
        self.yard = yard
        self.url = url
        self._clients = clients

    async def client(self, principal: str | None = None, **options: Any) -> httpx2.AsyncClient:
        """A client with the token of a principal, if one is named."""
        headers = {"authorization": f"Bearer {principal}-token"} if principal else {}
        client = httpx2.AsyncClient(base_url=f"{self.url}/api/v1/", headers=headers, timeout=60, **options)
        return await self._clients.enter_async_context(client)


@contextlib.asynccontextmanager
async def gateway(
    folder: Path,
    *upstreams: FakeUpstream,
    http: HttpConfig | None = None,
    with_sandbox: bool = True,
    policy: PolicySettings | None = None,
    privacy: Mapping[str, Any] | None = None,
    learning: LearningConfig | None = None,
    sandbox: Mapping[str, Any] | None = None,
) -> AsyncIterator[Gateway]:
    """A gateway over fake upstreams and a store in `folder`."""
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        http=http or HttpConfig(),
        sandbox=SandboxConfig(allow_weaker=True, pool_size=1, data_packages=False, **(sandbox or {})),
        policy=policy or PolicySettings(),
        privacy=PrivacyConfig(**(privacy or {})),
        learning=learning or LearningConfig(),
    )
    async with contextlib.AsyncExitStack() as stack:
        servers = {each.name: each for each in upstreams}
        yard = await stack.enter_async_context(open_yard(config, upstreams=servers, with_sandbox=with_sandbox))
        server = build_server(yard, config.surface)
        listening = open_http(
            server,
            config.http,
            address=("127.0.0.1", 0),
            readiness=yard.operations.readiness,
            routes=api.routes(yard),
            operator_key=KEY,
        )
        url, uvicorn = await stack.enter_async_context(listening)
        serving = asyncio.create_task(uvicorn.run_until_cancelled())
        stack.push_async_callback(_end, serving)
        clients = await stack.enter_async_context(contextlib.AsyncExitStack())
        yield Gateway(yard, url.removesuffix("/mcp"), clients)


async def _end(serving: "asyncio.Task[None]") -> None:
    serving.cancel()
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.wait({serving})


def expenses() -> FakeUpstream:
    """An upstream with three tools."""

    def list_expenses(user: str = "all") -> list[dict[str, Any]]:
        """List what was spent."""
        return [{"id": number, "user": user, "amount": number * 10} for number in range(3)]

    def get_budget(department: str) -> dict[str, Any]:
        """Get the budget of a department."""
        return {"department": department, "budget": 100}

    def fail() -> None:
        """Fail."""
        raise ValueError("no luck")

    return FakeUpstream("expenses", list_expenses=list_expenses, get_budget=get_budget, fail=fail)


async def until(look: Callable[[], Awaitable[T]], is_so: Callable[[T], object]) -> T:
    """What is seen once it is so. Nobody looks more often than the gateway lets anybody ask, or for ever."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_so(seen := await look()):  # noqa: ASYNC110 - it is asked over HTTP
            await asyncio.sleep(0.05)
    return seen


async def over(client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    """An execution, when it is over."""

    async def look() -> dict[str, Any]:
        found: dict[str, Any] = (await client.get(path)).json()
        return found

    return await until(look, lambda seen: seen["status"] != "running")


async def asks(client: httpx2.AsyncClient, path: str = "approvals") -> list[dict[str, Any]]:
    """What waits for approval, when something does."""

    async def look() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.get(path)).json()["approvals"]
        return found

    return await until(look, bool)


async def events_of(lines: AsyncIterator[str], *, until: str = "ended") -> list[dict[str, Any]]:
    """The events of a stream with their ids and kinds, up to the first of the kind `until`."""
    found: list[dict[str, Any]] = []
    current: dict[str, Any] = {}
    async with asyncio.timeout(WAIT_SECONDS):
        async for line in lines:
            name, _, value = line.partition(": ")
            if name == "data":
                current["data"] = json.loads(value)
            elif name in ("id", "event"):
                current[name] = value
            elif not line and current:
                found.append(current)
                if current["event"] == until:
                    return found
                current = {}
    return found
