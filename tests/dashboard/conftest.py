"""A real Chromium that looks at a real gateway. Whatever a test does, the page logs nothing and asks nobody else."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from tests import warm
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
ARTIFACTS = ROOT / ".artifacts" / "dashboard"
EXAMPLES = ("expenses", "trips", "customers", "mail")
WAIT_SECONDS = 60.0

CONFIG = """
{upstreams}
[sandbox]
allow_weaker = true
pool_size = 1
data_packages = false

[store]
path = {store!r}

{more}
"""
ASKS = """
[policy]
preset = "open"

[[policy.rules]]
decision = "ask"
tools = ["mcp__expenses__get_budget", "mcp__expenses__add_note"]
reason = "budgets are confidential"

[[policy.rules]]
decision = "deny"
tools = ["expenses/list_expense"]
"""
expect.set_options(timeout=WAIT_SECONDS * 1000)
_ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run --disable-dev-shm-usage"
).split()


class Gateway:
    """`sealyard serve --http` with a store of its own, at a port that stays its own while it is not running."""

    def __init__(self, folder: Path, upstreams: dict[str, list[str]], more: str, token: str | None = None) -> None:
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        tables = [
            f"[upstreams.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(rest)}\n"
            for name, (command, *rest) in upstreams.items()
        ]
        self._config = folder / "sealyard.toml"
        text = CONFIG.format(upstreams="\n".join(tables), store=str(folder / "store" / "sealyard.db"), more=more)
        self._config.write_text(text, encoding="utf-8")
        self.url = ""
        self.key = ""
        self._port = free_port()
        self.start()

    def start(self) -> None:
        """Start it; returns when it listens."""
        self._said: list[str] = []
        self._listens = threading.Event()
        self._process = subprocess.Popen(
            warm.python("-m", "sealyard", "serve", str(self._config), "--http", f"127.0.0.1:{self._port}"),
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._listens.wait(WAIT_SECONDS), self._said
        said = "".join(self._said)
        found = re.search(r"at (http://[^/]+)/mcp", said)
        assert found is not None, said
        self.url = found[1]
        self.key = re.findall(r"#key=(\S+)", said)[0]
        self.client = httpx2.Client(base_url=self.url, timeout=60, headers=self._headers)

    def stop(self) -> None:
        """End it in order."""
        self.client.close()
        self._process.terminate()
        assert self._process.wait(WAIT_SECONDS) == 143, "".join(self._said)
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._said.append(line)
                if "sealyard serves" in line:
                    self._listens.set()
        self._listens.set()

    def ready(self) -> None:
        """Return when code can be run."""
        until(lambda: self.client.get("/readyz").status_code == 200)

    def get(self, path: str, **query: Any) -> Any:
        """What the API answers."""
        answer = self.client.get(f"/api/v1/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def execute(self, code: str, *, wait: bool = True, **fields: Any) -> dict[str, Any]:
        """Run code, as an agent's program would."""
        answer = self.client.post("/api/v1/executions", json={"code": code, "wait": wait, **fields})
        assert answer.status_code in (200, 202), answer.text
        return dict(answer.json())

    def over(self, execution_id: str) -> dict[str, Any]:
        """An execution, when it is over."""
        found: list[dict[str, Any]] = []

        def is_over() -> bool:
            found.append(self.get(f"executions/{execution_id}"))
            return bool(found[-1]["status"] != "running")

        until(is_over)
        return found[-1]

    def tidy(self) -> None:
        """Cancel what still runs: no other test should see it."""
        for run in self.get("executions", status="running")["executions"]:
            self.client.post(f"/api/v1/executions/{run['execution_id']}/cancel")
            self.over(run["execution_id"])


class Tab:
    """A page, and all that it logged and asked for."""

    def __init__(self, context: BrowserContext, gateway: Gateway) -> None:
        self.gateway = gateway
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_SECONDS * 1000)
        self.logged: list[str] = []
        self.asked: list[str] = []
        self.expected: list[str] = []
        """Patterns of what the browser may log about this page."""
        self.page.on("console", self._log)
        self.page.on("pageerror", lambda error: self.logged.append(f"pageerror: {error}"))
        self.page.on("dialog", lambda dialog: self.logged.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def _log(self, message: ConsoleMessage) -> None:
        self.logged.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def open(self, place: str = "") -> "Tab":
        """Go to a place of the page; as the operator the first time."""
        fragment = place or f"#key={self.gateway.key}"
        self.page.goto(f"{self.gateway.url}/{fragment}")
        return self

    def go(self, name: str) -> None:
        """Go to another page by its link."""
        self.page.get_by_role("navigation").get_by_role("link", name=re.compile(f"^{name}")).click()
        self.page.locator("#nav [aria-current=page]", has_text=name).wait_for()

    def text(self, selector: str) -> str:
        """The text of an element."""
        return self.page.locator(selector).first.text_content() or ""

    def settle(self) -> None:
        """Wait until somebody is inside and nothing is loading. Before the page knows who looks, nothing is either."""
        self.page.locator("#nav [aria-current=page]").wait_for()
        expect(self.page.locator("#main .loading")).to_have_count(0)

    def check(self) -> None:
        """Nothing was logged but what is expected, and no other host was asked."""
        unexpected = [line for line in self.logged if not any(re.search(each, line) for each in self.expected)]
        assert unexpected == []
        assert {url for url in self.asked if not url.startswith(f"{self.gateway.url}/")} == set()
        assert self.page.evaluate("window.pwned") is None


Open = Callable[..., Tab]
Serve = Callable[..., Gateway]


def until(is_so: Callable[[], bool]) -> None:
    """Ask again and again until it is so, for a bounded time, and not more often than the API lets anybody ask."""
    end, pause = time.monotonic() + WAIT_SECONDS, threading.Event()
    while not is_so():
        assert time.monotonic() < end, "It did not come to be so in time."
        pause.wait(0.1)


def example(name: str) -> list[str]:
    """The command of an example server."""
    return warm.python("-m", f"sealyard.examples.{name}")


def missing(what: str) -> NoReturn:
    """Skip where a part is missing; in CI, where all must be there, fail."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium, once for each file: while it is open no test of this process may have an event loop of its own."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if path is None:
        missing("Chromium is not installed. Install it: apt-get install chromium (Debian and Ubuntu).")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Iterator[Gateway]:
    """A gateway over the example servers. The tests of a file share it, but not what they leave running."""
    yield shared_gateway
    shared_gateway.tidy()


@pytest.fixture(scope="module")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The one that they share."""
    made = Gateway(tmp_path_factory.mktemp("gateway"), {name: example(name) for name in EXAMPLES}, ASKS)
    try:
        made.ready()
        yield made
    finally:
        made.stop()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a gateway of the test's own."""
    with contextlib.ExitStack() as stack:

        def start(upstreams: dict[str, list[str]] | None = None, more: str = "", token: str | None = None) -> Gateway:
            made = Gateway(tmp_path, upstreams or {}, more, token)
            stack.callback(made.stop)
            made.ready()
            return made

        yield start


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Open]:
    """Opens a page at a gateway. In the end it must have logged nothing and asked nobody else."""
    tabs: list[Tab] = []
    with contextlib.ExitStack() as stack:

        def start(gateway: Gateway, *, width: int = 1280, theme: Any = "light", **options: Any) -> Tab:
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
            stack.callback(context.close)
            tabs.append(Tab(context, gateway))
            return tabs[-1]

        yield start
        for each in tabs:
            each.check()
