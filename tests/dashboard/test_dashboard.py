"""The dashboard as a person has it: a real Chromium, a real gateway, real runs. `tab` fails whatever it logs."""

import asyncio
import contextlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from playwright.sync_api import Locator, Page, expect
from tests import warm
from tests.dashboard import hostile_server
from tests.dashboard.conftest import ARTIFACTS, ASKS, EXAMPLES, WAIT_SECONDS, Gateway, Open, Serve, Tab, example, until
from tests.dashboard.hostile_server import MARKUP

PAGES = (
    "Overview",
    "Runs",
    "Approvals",
    "Tools",
    "Skills",
    "Upstreams",
    "Usage",
    "Learning",
    "Privacy and audit",
    "Alerts",
)

WORK = (
    "from servers.expenses import list_expenses\nrows = list_expenses(limit=400)\nprint(len(rows), 'rows')\n"
    "result = round(sum(row['amount'] for row in rows if row['amount'] > 400), 2)",
    "from servers.expenses import list_employees, list_expenses\nresult = len(list_employees()) + "
    "sum(len(list_expenses(category=each, limit=50)) for each in ('travel', 'meals'))",
    "from servers.customers import list_customers\nresult = [each['email'] for each in list_customers(limit=3)]",
    "from servers.trips import find_parks\nresult = len(find_parks(state='CA'))",
    "sorted(range(5_000), key=lambda n: -n)[0]",
    "{}['amount']",
)
ASKING = """
from servers.expenses import get_budget, list_expenses
print('before')
list_expenses(limit=2)
print(get_budget(department='Sales')['department'])
print('after')
"""


@contextlib.contextmanager
def load(gateway: Gateway, runs: int | None = None) -> Iterator[threading.Event]:
    """Runs code in a loop over HTTP while the body is carried out, or `runs` times if that is longer."""
    stop, one_done, failures = threading.Event(), threading.Event(), []

    def work() -> None:
        done = 0
        try:
            while not stop.is_set() or (runs is not None and done < runs):
                gateway.get("mcp/tools/search", query="expenses by category")
                gateway.execute(WORK[done % len(WORK)], session=f"load-{done % 3}")
                done += 1
                one_done.set()
        except AssertionError as error:
            failures.append(error)
            one_done.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert one_done.wait(WAIT_SECONDS)
        assert failures == []
        yield one_done
    finally:
        stop.set()
        thread.join()
    assert failures == []


def figures(page: Page) -> dict[str, str]:
    """Every figure of the report that the page shows, by its path in the report."""
    found: list[tuple[str, str]] = page.evaluate(
        "[...document.querySelectorAll('[data-metric]')].map((each) => [each.dataset.metric, each.dataset.value])"
    )
    return dict(found)


def at(report: Any, path: str) -> Any:
    """What is at a path in the report."""
    for name in path.split("."):
        report = report[name]
    return report


def differences(page: Page, report: Any) -> dict[str, tuple[str, Any]]:
    """The figures of the page that are not the report's."""
    found = {}
    for path, shown in figures(page).items():
        value = at(report, path)
        same = (
            shown == value
            if isinstance(value, str)
            else shown == ""
            if value is None
            else shown and float(shown) == value
        )
        if not same:
            found[path] = (shown, value)
    return found


def next_answer(page: Page, path: str) -> None:
    """Wait until the page has asked again."""
    page.wait_for_event("response", lambda answer: path in answer.url)


def ask_as_agent(gateway: Gateway, tool: str, /, **arguments: Any) -> None:
    """Call one of the gateway's own tools over MCP, on an event loop that the browser does not have."""
    failures: list[object] = []

    async def call() -> None:
        async with Client(f"{gateway.url}/mcp") as client:
            answer = await client.call_tool(tool, arguments)
            if answer.is_error:
                failures.append(answer)

    thread = threading.Thread(target=lambda: asyncio.run(call()))
    thread.start()
    thread.join()
    assert failures == []


def approve(tab: Tab) -> Locator:
    """The card of the one ask, once it is there."""
    card = tab.page.locator("[data-ask]")
    expect(card).to_have_count(1)
    return card


def test_figures_are_those_of_the_api_under_load(gateway: Gateway, tab: Open) -> None:
    """While agents work the page counts with them; when they stop, every figure on every page is the API's own."""
    opened = tab(gateway).open()
    page = opened.page
    with load(gateway, runs=24):
        count = page.locator("[data-metric='execution.count']")
        first = int(count.get_attribute("data-value") or "0")
        for _ in range(2):  # it counts with them, and again
            expect(count).not_to_have_attribute("data-value", str(first))
            first = int(count.get_attribute("data-value") or "0")
    page.get_by_text("all", exact=True).first.click()
    opened.settle()

    seen: set[str] = set()
    for name in PAGES:
        opened.go(name)
        opened.settle()

        until(lambda: not differences(page, gateway.get("metrics", window="all")))
        seen |= set(figures(page))

    assert {path.split(".")[0] for path in seen} == {
        "tokens", "tokenizer", "prices", "execution", "discovery", "security", "skills", "upstreams", "sessions", "sdk",
        "filtering", "learning",
    }  # fmt: skip
    report = gateway.get("metrics", window="all")
    assert (report["execution"]["count"] >= 24, report["tokens"]["saved"] > 0) == (True, True)
    assert seen >= {f"tokens.per_session.{name}" for name in ("sessions", "baseline", "actual")}
    assert seen >= {"execution.errors.KeyError", "security.hidden.email", "upstreams.expenses.calls"}


def test_charts_and_their_tables_are_those_of_the_api(gateway: Gateway, tab: Open) -> None:
    """What is drawn can be read as a table, and by arrow keys; both have the values of the series."""
    gateway.execute(WORK[0])
    opened = tab(gateway).open()
    page = opened.page
    chart = page.locator("[data-chart=runs]")
    chart.get_by_text("As a table").click()
    rows = chart.locator("tbody tr")

    def is_same() -> bool:
        points = gateway.get("metrics/series", window="24h")["points"]
        expected = [[str(point["executions"] - point["failed"]), str(point["failed"])] for point in reversed(points)]
        shown = rows.evaluate_all("rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.title))")
        return bool(shown == expected)

    until(is_same)

    chart.locator("svg.plot").focus()

    def tells_the_last() -> bool:
        page.keyboard.press("End")
        last = gateway.get("metrics/series", window="24h")["points"][-1]
        return f"succeeded {last['executions'] - last['failed']}" in (chart.locator(".tip").text_content() or "")

    until(tells_the_last)
    page.keyboard.press("Escape")
    expect(chart.locator(".tip")).not_to_be_visible()


def test_a_run_is_seen_as_it_happens_and_goes_on_when_a_click_allows_it(gateway: Gateway, tab: Open) -> None:
    """Its call, its output and its ask appear; after the click the rest of its output, and its end."""
    opened = tab(gateway).open()
    page = opened.page
    expect(page.locator("[data-link=live]")).to_be_visible()
    started = gateway.execute(ASKING, wait=False)
    run = page.locator(f"[data-run='{started['execution_id']}']")

    card = approve(opened)
    expect(run).to_contain_text("waiting for approval")
    expect(run.locator("[data-call='1']")).to_contain_text("expenses.list_expenses")
    expect(run.locator(".output")).to_have_text("before\n")
    expect(card).to_contain_text("budgets are confidential")
    expect(card.locator(".args")).to_have_text('department"Sales"')
    expect(page.locator("#spoken")).to_have_text("Waiting for approval: expenses.get_budget")
    expect(page).to_have_title("(1) Overview · sealyard")
    card.get_by_role("button", name="Once").click()

    expect(run.locator(".output")).to_have_text("before\nSales\nafter\n")
    expect(run).to_have_attribute("data-status", "ok")
    expect(card).to_have_count(0)
    done = gateway.over(started["execution_id"])
    assert (done["status"], done["output"]) == ("ok", "before\nSales\nafter\n")


def test_what_ran_before_the_page_was_opened_is_there(gateway: Gateway, tab: Open) -> None:
    """Output and calls from before are read from the journal, and the run can be cancelled by its button."""
    started = gateway.execute(ASKING, wait=False)
    until(lambda: gateway.get(f"executions/{started['execution_id']}")["waiting"] == 1)
    opened = tab(gateway).open()
    run = opened.page.locator(f"[data-run='{started['execution_id']}']")

    expect(run.locator(".output")).to_have_text("before\n")
    expect(run.locator("[data-call='1']")).to_contain_text("expenses.list_expenses")
    expect(run).to_contain_text("waiting for approval")
    run.get_by_role("button", name="Cancel").click()

    expect(run).to_have_attribute("data-status", "cancelled")
    assert gateway.over(started["execution_id"])["status"] == "cancelled"


def test_a_refusal_tells_the_agent_the_reason(gateway: Gateway, tab: Open) -> None:
    """What the person writes beside the buttons is what the code is told."""
    started = gateway.execute(ASKING, wait=False)
    opened = tab(gateway).open("#/approvals")
    expect(opened.page.get_by_text("You are signed in as local, which cannot approve calls.")).to_be_visible()
    opened.open()
    opened.go("Approvals")
    card = approve(opened)

    card.get_by_label("Reason").fill("not on Fridays")
    card.get_by_role("button", name="Refuse").click()

    expect(opened.page.get_by_text("Refused: expenses.get_budget")).to_be_visible()
    failure = gateway.over(started["execution_id"])["failure"]
    assert failure == {
        "type": "ApprovalRefused",
        "message": "mcp__expenses__get_budget refused by operator (http): not on Fridays",
    }


def test_a_rule_that_fits_no_tool_is_shown_with_what_may_be_meant(gateway: Gateway, tab: Open) -> None:
    """Its author believes that it denies something."""
    gateway.execute("1")
    opened = tab(gateway).open()
    said = "names 'expenses/list_expense', which fits no tool. Did you mean 'expenses/list_expenses'?"

    expect(opened.page.locator("#unmatched")).to_contain_text(said)
    opened.go("Approvals")
    expect(opened.page.locator("#unmatched")).to_contain_text(said)


def test_all_of_a_long_argument_can_be_read_before_it_is_approved(gateway: Gateway, tab: Open) -> None:
    """The card says how long it is, and shows every character on demand."""
    code = "from servers.expenses import add_note\nadd_note(expense_id='ab' * 200_000, text='x')"
    gateway.execute(code, wait=False)
    opened = tab(gateway).open()
    opened.go("Approvals")
    card = approve(opened)
    expect(card.get_by_text("(400,002 characters)")).to_be_visible()

    card.get_by_role("button", name="Show all").click()

    expect(card.locator("dd").first).to_have_text(f'"{"ab" * 200_000}"')
    card.get_by_role("button", name="Refuse").click()


def test_private_values_are_shown_to_who_may_see_them(serve: Serve, tab: Open) -> None:
    """Beside the call, on demand; who holds the printed key is told another way, and the values are not in the page."""
    more = """
        [[policy.rules]]
        decision = "ask"
        tools = ["mail/send_mail"]

        [http.principals.agent]
        token = "agent-token"

        [http.principals.desk]
        token = "desk-token"
        approve = true
        reveal = true
    """
    gateway = serve({name: example(name) for name in ("customers", "mail")}, more, "agent-token")
    started = gateway.execute(
        "from servers.customers import list_customers\nfrom servers.mail import send_mail\n"
        "send_mail(to=list_customers(limit=1)[0]['email'], subject='<b>Hi</b>', body='Hello')",
        wait=False,
    )
    opened = tab(gateway).open()
    opened.go("Approvals")
    card = approve(opened)
    expect(card.get_by_text("sealyard approvals --reveal")).to_be_visible()
    expect(card.get_by_role("button", name="Show private values")).to_have_count(0)
    other = tab(gateway)
    other.page.goto(f"{gateway.url}/#key=desk-token")
    other.go("Approvals")
    card = approve(other)
    expect(card).not_to_contain_text("@example.com")

    card.get_by_role("button", name="Show private values").click()

    expect(card.get_by_label("Private values").locator("dd")).to_have_text(re.compile(r'^"\S+@example\.com"$'))
    expect(card.get_by_label("Private values").locator("dt")).to_have_text(re.compile(r"^__PII_email_[0-9a-f]{12}__$"))
    assert "@example.com" not in opened.page.content()
    card.get_by_role("button", name="Allow once").click()
    assert gateway.over(started["execution_id"])["status"] == "ok"
    expect(other.page.locator("[data-ask]")).to_have_count(0)
    assert "@example.com" not in other.page.content()


def test_who_may_not_answer_a_call_sees_it_without_buttons(serve: Serve, tab: Open) -> None:
    """The card says who may."""
    gateway = serve({"expenses": example("expenses")}, f'{ASKS}\n[approval]\nchannels = ["client"]\n')
    asked = threading.Event()
    running = threading.Thread(target=asyncio.run, args=(_ask(gateway, asked),))
    running.start()
    opened = tab(gateway).open()
    opened.go("Approvals")
    card = approve(opened)

    expect(card.get_by_text("Only the person at the client may answer this one.")).to_be_visible()
    expect(card.get_by_role("button", name="Allow once")).to_have_count(0)
    asked.set()
    running.join()
    expect(opened.page.locator("[data-ask]")).to_have_count(0)


async def _ask(gateway: Gateway, asked: threading.Event) -> None:
    """A client whose user refuses a call once `asked` is set."""

    async def person(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        await asyncio.to_thread(asked.wait)
        return types.ElicitResult(action="decline")

    async with Client(f"{gateway.url}/mcp", elicitation_callback=person) as client:
        await client.call_tool("execute_code", {"code": ASKING})


def test_what_a_person_types_survives_what_happens_meanwhile(gateway: Gateway, tab: Open) -> None:
    """The page is drawn again many times under load; the text and the focus stay where they are."""
    gateway.execute(ASKING, wait=False)
    opened = tab(gateway).open()
    reason = approve(opened).get_by_label("Reason")
    reason.press_sequentially("half a sen")
    with load(gateway):
        for _ in range(2):
            next_answer(opened.page, "/api/v1/metrics?")
        reason.press_sequentially("tence")

    expect(reason).to_have_value("half a sentence")
    expect(reason).to_be_focused()


def test_what_is_typed_in_stays_where_it_is_when_something_before_it_goes(gateway: Gateway, tab: Open) -> None:
    """An element that is moved loses the focus and the caret; so the others move."""
    opened = tab(gateway).open()
    found = opened.page.evaluate(
        """async () => {
          const { el, render } = await import("./dashboard/dom.js");
          const host = document.body.appendChild(document.createElement("div"));
          const field = (key) => el("div", { key }, el("input", { type: "text" }));
          const seen = [];
          for (const before of [[el("p", {}, "a")], [el("p", { key: "b" }, "b")], [field("c"), field("d")]]) {
            render(host, before, field("mine"));
            const input = host.lastChild.firstChild;
            input.focus();
            input.value = "half a sen";
            input.setSelectionRange(6, 6);
            render(host, field("mine"), before.slice(1).map(() => field("d")));
            seen.push([document.activeElement === input, input.selectionStart, host.children.length]);
            render(host);
          }
          host.remove();
          return seen;
        }"""
    )

    assert found == [[True, 6, 1], [True, 6, 1], [True, 6, 2]]


def test_a_tab_that_nobody_looks_at_leaves_its_connection_to_others(gateway: Gateway, tab: Open) -> None:
    """After half a minute out of sight the stream is closed, and opened again when somebody looks."""
    opened = tab(gateway)
    page = opened.page
    page.clock.install()
    opened.open()
    expect(page.locator("[data-link=live]")).to_be_visible()
    turn = "value => (Object.defineProperty(document, 'hidden', { value, configurable: true }), 0)"

    page.evaluate(turn, True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange')), 0")
    page.clock.fast_forward(31_000)
    expect(page.locator("[data-link=paused]")).to_be_visible()
    page.evaluate(turn, False)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange')), 0")
    expect(page.locator("[data-link=live]")).to_be_visible()


def test_a_gateway_that_falls_silent_in_the_middle_of_an_answer_is_no_error_of_the_page(
    gateway: Gateway, tab: Open
) -> None:
    """The page says that nothing answers, as when no answer begins."""
    opened = tab(gateway).open()
    page = opened.page
    opened.settle()
    page.evaluate(
        "window.fetch = () => Promise.resolve({ ok: true, status: 200, headers: new Headers(),"
        " text: () => Promise.reject(new DOMException('signal timed out', 'TimeoutError')) }), 0"
    )

    opened.go("Runs")

    expect(page.locator("#main")).to_contain_text("No response from the gateway.")


def test_always_asks_back_and_is_remembered(serve: Serve, tab: Open) -> None:
    """Escape in the question answers nothing; yes lets this run go on and the next one pass without asking."""
    gateway = serve({"expenses": example("expenses")}, ASKS)
    started = gateway.execute(ASKING, wait=False)
    opened = tab(gateway).open()
    page, card = opened.page, approve(opened)

    card.get_by_role("button", name="Always…").click()
    expect(page.get_by_role("heading", name="Always allow this?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#confirm")).not_to_be_visible()
    assert gateway.get(f"executions/{started['execution_id']}")["waiting"] == 1
    card.get_by_role("button", name="Always…").click()
    page.get_by_role("button", name="Always allow").click()

    assert gateway.over(started["execution_id"])["status"] == "ok"
    assert gateway.execute(ASKING)["status"] == "ok"


def test_the_drawer_shows_a_run_whole(gateway: Gateway, tab: Open) -> None:
    """Code with the line that failed, calls with arguments and answers, output, error; it has an address of its own."""
    code = "from servers.expenses import list_expenses\nrows = list_expenses(limit=1)\nprint('seen')\nrows[7]"
    run = gateway.execute(code)
    opened = tab(gateway).open(f"#/runs/{run['execution_id']}")
    drawer = opened.page.locator("#drawer")

    expect(drawer.get_by_role("heading", name=f"Run {run['execution_id']}")).to_be_visible()
    expect(drawer.locator(".failure")).to_contain_text("IndexError: list index out of range (line 4)")
    expect(drawer.locator(".source .is-failed")).to_have_text("rows[7]")
    expect(drawer.locator(".source li")).to_have_text(code.split("\n"))
    expect(drawer.locator(".output")).to_have_text("seen\n")
    drawer.get_by_text("Arguments and response").click()
    expect(drawer.locator(".args")).to_have_text("limit1")
    expect(drawer.locator(".exchange .data")).to_contain_text('"amount"')
    opened.page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()
    opened.page.wait_for_function("location.hash === '#/runs'")


def test_older_runs_are_read_page_by_page(serve: Serve, tab: Open) -> None:
    """The history has every run once, the newest first, and a filter leaves those that it names."""
    gateway = serve()
    ran = [gateway.execute("1/0" if number % 10 == 0 else str(number))["execution_id"] for number in range(60)]
    opened = tab(gateway).open()
    opened.go("Runs")
    links = opened.page.locator("#history a.code")
    expect(links).to_have_count(50)

    opened.page.get_by_role("button", name="Older runs").click()
    expect(links).to_have_count(60)
    assert links.all_text_contents() == ran[::-1]
    opened.page.get_by_label("Status").select_option("failed")
    expect(links).to_have_count(6)
    assert links.all_text_contents() == ran[::10][::-1]


def test_tools_are_listed_with_their_versions(gateway: Gateway, tab: Open) -> None:
    """Every tool of the catalog is listed with its version; one by itself has its signature and schema."""
    gateway.execute(WORK[0])
    until(lambda: {each["upstream"] for each in gateway.get("tools", limit=200)["tools"]} == set(EXAMPLES))
    names = {each["name"] for each in gateway.get("tools", limit=200)["tools"]}
    opened = tab(gateway).open()
    opened.go("Tools")
    expect(opened.page.locator("#tools tbody .tool")).to_have_count(len(names))
    shown = opened.page.locator("#tools tbody .tool").evaluate_all("all => all.map(each => each.title)")
    assert set(shown) == names

    opened.page.get_by_label("Filter").fill("list_exp")
    expect(opened.page.locator("#tools tbody tr")).to_have_count(1)
    opened.page.get_by_role("link", name="expenses.list_expenses").click()
    drawer = opened.page.locator("#drawer")
    expect(drawer.locator(".source")).to_contain_text("list_expenses(user_id: str | None = None")
    expect(drawer.get_by_role("heading", name="Input schema")).to_be_visible()


def test_skills_are_shown_with_what_was_made_of_them(serve: Serve, tab: Open) -> None:
    """A saved skill has its version, state and effectiveness in the list, and its code in the drawer."""
    gateway = serve()
    code = 'def twice(n: int) -> int:\n    """Two times."""\n    return 2 * n'
    example = {"inputs": {"n": 2}, "output": 4}
    ask_as_agent(gateway, "save_skill", name="twice", code=code, description="Two times.", examples=[example])
    assert gateway.execute("from skills import twice\ntwice(4)")["result"] == 8
    until(lambda: gateway.get("skills")["skills"][0]["uses"] == 1)
    opened = tab(gateway).open()
    opened.go("Skills")

    row = opened.page.locator("#skills tbody tr")
    kept = gateway.get("skills")["skills"][0]
    assert kept["effectiveness"] > 0
    expect(row.locator("td")).to_contain_text(["twice", "1.0.0", "active", "%", "1", "0", ":"])
    expect(row.locator("[data-value]").first).to_have_attribute("data-value", str(kept["effectiveness"]))
    row.get_by_role("link", name="twice").click()
    expect(opened.page.locator("#drawer .source li")).to_have_text(code.split("\n"))


def test_profiles_are_shown_with_what_they_let_through(serve: Serve, tab: Open) -> None:
    """Each with its URL, mode, level, upstreams and the principals that are bound to it."""
    more = """
[profiles.money]
upstreams = ["exp*"]
level = "hardened"

[profiles.rest]
upstreams = ["mail", "trips"]
mode = "search"

[http.principals.alice]
token = "token-of-alice"
observe = true

[http.principals.desk]
token = "token-of-desk"
profiles = ["money"]

[http.principals.both]
token = "token-of-both"
profiles = ["rest", "money"]
"""
    gateway = serve({name: example(name) for name in ("expenses", "trips", "mail")}, more, "token-of-alice")
    opened = tab(gateway).open()
    opened.go("Upstreams")

    rows = opened.page.locator("#profiles tbody tr")
    expect(rows).to_have_count(2)
    texts = [[cell.strip() for cell in row.locator("td").all_text_contents()] for row in rows.all()]
    assert texts == [
        ["money /mcp/p/money", "by client", "hardened", "expenses", "both, desk"],
        ["rest /mcp/p/rest", "search", "production", "mail, trips", "both"],
    ]


def test_a_part_that_cannot_be_read_says_why_and_recovers(gateway: Gateway, tab: Open) -> None:
    """One endpoint that fails costs its own place; what was there before stays, marked, until it answers again."""
    opened = tab(gateway)
    opened.expected.append("status of 503 .*upstreams")
    page = opened.page
    page.clock.install()
    error = {"code": "unavailable", "message": "The store does not work.", "request_id": "4f1a"}
    page.route("**/api/v1/upstreams", lambda route: route.fulfill(status=503, json={"error": error}))
    opened.open()
    expect(page.locator("#health .failed")).to_contain_text("The store does not work. Request 4f1a.")
    expect(page.locator("[data-metric='execution.count']")).to_be_visible()

    page.unroute("**/api/v1/upstreams")
    page.locator("#health").get_by_role("button", name="Retry").click()
    expect(page.locator("#health li")).to_have_count(4)
    page.route("**/api/v1/upstreams", lambda route: route.fulfill(status=503, json={"error": error}))
    page.clock.fast_forward(15_000)  # it is time to ask again
    expect(page.locator("#health .stale")).to_contain_text("The store does not work.")
    expect(page.locator("#health li")).to_have_count(4)


def test_an_alert_is_shown_with_its_upstream(serve: Serve, tab: Open) -> None:
    """A server that cannot be started fires."""
    gateway = serve({"gone": ["/nonexistent/server"]}, "[alerts]\nfor_seconds = 0\n")
    until(lambda: [each["state"] for each in gateway.get("alerts")["alerts"]] == ["firing"])
    opened = tab(gateway).open()
    page = opened.page
    opened.go("Alerts")
    alert = page.locator("[data-alert='upstream_down gone']")
    expect(alert).to_have_attribute("data-state", "firing")
    expect(alert).to_contain_text("could not be started")
    opened.go("Upstreams")
    expect(page.locator("[data-upstream=gone]")).to_contain_text("cannot be started")


def test_hostile_texts_stay_texts(serve: Serve, tab: Open) -> None:
    """Names, descriptions, code, output, answers, errors and arguments that are markup are shown, and never obeyed."""
    more = '[policy]\npreset = "open"\n[[policy.rules]]\ndecision = "ask"\ntools = ["*fail"]\n'
    gateway = serve({"evil": warm.python(hostile_server.__file__)}, more)
    until(lambda: len(gateway.get("tools")["tools"]) >= 2)
    said = f"# {MARKUP}\nfrom servers.evil import speak, fail\nprint({MARKUP!r})\nprint(speak())\n"
    code = f"{said}fail(**{{'a\\u202e': {MARKUP!r}}})"
    started = gateway.execute(code, wait=False)
    opened = tab(gateway).open()
    page = opened.page
    card = approve(opened)
    expect(card.locator(".args")).to_contain_text("a\\u{202e}")
    expect(card.locator(".args")).to_contain_text("<script>window.pwned=1</script>")
    run = page.locator(f"[data-run='{started['execution_id']}']")
    expect(run.locator(".output")).to_contain_text(f"{MARKUP}\n")
    card.get_by_role("button", name="Once").click()
    expect(run).to_have_attribute("data-status", "failed")
    assert run.locator(".error").last.text_content() != ""
    elements = "document.querySelectorAll('img, script:not([src]), iframe, a[href^=\"javascript\"]').length"
    assert page.evaluate(elements) == 0
    for name in PAGES:
        opened.go(name)
        opened.settle()
        assert page.evaluate(elements) == 0
    opened.go("Tools")
    expect(page.locator("#tools tbody")).to_contain_text(f"Says {MARKUP}")
    opened.open(f"#/runs/{started['execution_id']}")
    expect(page.locator("#drawer .source")).to_contain_text(MARKUP)
    expect(page.locator("#drawer .failure")).to_contain_text("<img src=x")
    assert page.evaluate(elements) == 0
    opened.expected.append(r"the server responded with a status of 404 .*/(executions|skills)/")
    for place in ("#/__proto__/x", "#/runs/<img src=x onerror=window.pwned=1>", "#/skills/%/%E0%A4%A", "#/constructor"):
        opened.open(place)
        expect(page.locator("#nav [aria-current=page]")).to_be_visible()
        assert page.evaluate(elements) == 0


def test_the_key_leaves_the_address_at_once(gateway: Gateway, tab: Open) -> None:
    """Neither the address nor the history has it, and nothing of it is stored where a script could read it."""
    opened = tab(gateway).open()
    page = opened.page
    expect(page.locator(".who")).to_contain_text("operator")

    assert page.url == f"{gateway.url}/"
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
    assert [url for url in opened.asked if gateway.key in url] == []
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator(".who")).to_contain_text("local")


def test_a_wrong_key_says_so(gateway: Gateway, tab: Open) -> None:
    """A bookmark of yesterday's key leads to the form, which says what is wrong; one goes on without it."""
    opened = tab(gateway).open("#key=of-yesterday")
    opened.expected.append("status of 401 .*login")
    expect(opened.page.get_by_role("alert")).to_contain_text("This is not a token of the gateway.")

    opened.page.get_by_role("button", name="Back").click()
    expect(opened.page.locator(".who")).to_contain_text("local")


def test_without_a_token_there_is_a_form_and_with_one_what_it_may_see(serve: Serve, tab: Open) -> None:
    """A token that may not observe sees its own runs, and is told what it does not see without being refused."""
    principals = "\n".join(
        f"[http.principals.{name}]\ntoken = 'token-of-{name}'\nobserve = {observe}\n"
        for name, observe in (("alice", "false"), ("bob", "true"))
    )
    gateway = serve({}, principals, "token-of-alice")
    own = gateway.execute("'own'")["execution_id"]
    gateway.client.headers["Authorization"] = "Bearer token-of-bob"
    gateway.execute("'of bob'")
    opened = tab(gateway).open("#/runs")
    opened.expected.append("status of 401 .*(me|login)")
    page = opened.page
    page.get_by_label("Token").fill("token-of-nobody")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not a token of the gateway.")

    page.get_by_label("Token").fill("token-of-alice")
    page.keyboard.press("Enter")

    expect(page.locator("#history a.code")).to_have_text([own])
    opened.go("Overview")
    expect(page.locator("#main")).to_contain_text("You do not have access.")
    opened.settle()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.locator("#nav a")).to_have_count(0)


def test_a_gateway_that_is_gone_is_said_and_comes_back(serve: Serve, tab: Open) -> None:
    """What was there stays, marked as old; when the gateway is back, so is the page, for whoever may still see it."""
    gateway = serve()
    gateway.execute("1")
    opened = tab(gateway).open()
    opened.expected += ["net::ERR_", "status of (401|403|503)"]
    page = opened.page
    expect(page.locator("[data-metric='execution.count']")).to_have_attribute("data-value", "1")

    gateway.stop()
    expect(page.locator("[data-link=lost]")).to_be_visible()
    expect(page.locator("#notice")).to_contain_text("No response from the gateway since")
    expect(page.locator("[data-metric='execution.count']")).to_have_attribute("data-value", "1")
    gateway.start()

    expect(page.locator("[data-link=live]")).to_be_visible()
    expect(page.locator(".who")).to_contain_text("local")
    expect(page.locator("#notice p")).to_have_count(0)


def test_everything_can_be_done_with_the_keyboard(gateway: Gateway, tab: Open) -> None:
    """Skip link, pages, a run and back, the theme, an approval: without a pointer, and the focus is always seen."""
    ran = gateway.execute("'by keys'")["execution_id"]
    started = gateway.execute(ASKING, wait=False)
    opened = tab(gateway).open()
    page = opened.page
    approve(opened)

    def press_until(selector: str, key: str = "Tab") -> None:
        for _ in range(80):
            page.keyboard.press(key)
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                assert (
                    page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
                    or "input" in selector
                )
                return
        raise AssertionError(f"{selector} cannot be reached")

    press_until(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    press_until("[data-decision=once]")
    page.keyboard.press("Enter")
    assert gateway.over(started["execution_id"])["status"] == "ok"
    press_until("#top input[name=theme]", "Shift+Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    press_until("#nav a[href='#/runs']")
    page.keyboard.press("Enter")
    page.locator("#nav [aria-current=page]", has_text="Runs").wait_for()  # the page before has a heading like this too
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "main"
    link = f"#history a[href='#/runs/{ran}']"
    page.locator(link).wait_for()
    press_until(link)
    page.keyboard.press("Enter")
    expect(page.locator("#drawer")).to_be_visible()
    expect(page.locator("#drawer .data")).to_have_text("by keys")
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).not_to_be_visible()
    assert page.evaluate("selector => document.activeElement.matches(selector)", link)


@pytest.mark.parametrize("width", [360, 390, 768])
def test_no_page_scrolls_sideways(gateway: Gateway, tab: Open, width: int) -> None:
    """At the width of a phone everything is there, one below the other."""
    gateway.execute("from servers.expenses import list_expenses\nprint('x' * 300)\nlist_expenses(limit=1)[7]")
    opened = tab(gateway, width=width, has_touch=True).open()
    for name in PAGES:
        opened.go(name)
        opened.settle()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width, name
    opened.go("Runs")
    opened.page.locator("#history a.code").first.click()
    expect(opened.page.locator("#drawer .source")).to_be_visible()
    assert opened.page.evaluate("document.getElementById('drawer').scrollWidth") <= width


def test_what_is_empty_is_said(serve: Serve, tab: Open) -> None:
    """A gateway that just began, without servers, has a word for every place where nothing is yet."""
    opened = tab(serve()).open()
    texts = {
        "Overview": [
            "No active runs.",
            "No errors in this time range.",
            "No upstreams configured.",
            "No conversation began in this time range.",
        ],
        "Runs": ["No runs found."],
        "Approvals": ["No pending approvals."],
        "Tools": ["No tools yet."],
        "Skills": ["No skills yet."],
        "Upstreams": ["No upstreams configured."],
        "Usage": ["No runs in this time range.", "No tokens counted in this time range."],
        "Learning": ["No hints in this time range."],
        "Privacy and audit": ["No private values in this time range."],
        "Alerts": ["No alerts."],
    }
    for name, expected in texts.items():
        opened.go(name)
        for text in expected:
            expect(opened.page.locator("#main")).to_contain_text(text)


@pytest.mark.parametrize(
    ("name", "width", "theme"), [("light", 1280, "light"), ("dark", 1280, "dark"), ("narrow", 390, "light")]
)
def test_screenshots_are_kept(gateway: Gateway, tab: Open, name: str, width: int, theme: str) -> None:
    """The overview under load and a run in the drawer, to be looked at by people."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    waiting = gateway.execute(ASKING, wait=False)
    with load(gateway, runs=6):
        opened = tab(gateway, width=width, theme=theme).open()
        approve(opened)
        opened.page.locator("[data-chart=tokens] svg .data *").first.wait_for(state="attached")
        opened.settle()
        opened.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)
    opened.open(f"#/runs/{waiting['execution_id']}")
    expect(opened.page.locator("#drawer .source")).to_be_visible()
    opened.page.screenshot(path=ARTIFACTS / f"{name}-run.png")
    back = "rgb(245, 246, 248)" if theme == "light" else "rgb(16, 19, 24)"
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == back
