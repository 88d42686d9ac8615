"""The page of what was learned: its numbers are the API's, and what is forgotten by a click is forgotten."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import ARTIFACTS, Gateway, Open, Serve, Tab, example, until

WORK = (
    "from servers.expenses import list_employees, list_expenses\nlen(list_employees())\nlen(list_expenses(limit=5))",
    "from servers.expenses import list_expenses\nlist_expenses(limit=5)['amount']",
)
TOOL = "mcp__expenses__list_expenses"


def work(gateway: Gateway, runs: int = 4) -> None:
    """Some runs that end well and some that fail, learned from: all of them, by every part."""
    gateway.get("mcp/tools/search", query="expenses by category")
    for number in range(runs):
        gateway.execute(WORK[number % len(WORK)])

    def is_learned() -> bool:
        value = gateway.get("learning/insights")
        evidence = {part["part"]: part["evidence"] for part in value["parts"]}
        return bool(evidence["risk"] == runs and evidence["shapes"] > 0)

    until(is_learned)


def shown(page: Page) -> dict[str, str]:
    """Every figure of what was learned, by its path in the answer of the API."""
    found: list[tuple[str, str]] = page.evaluate(
        "[...document.querySelectorAll('[data-insight]')].map((each) => [each.dataset.insight, each.dataset.value])"
    )
    return dict(found)


def at(value: Any, path: str) -> float | None:
    """What is at a path in the answer."""
    for name in path.split("."):
        value = value[int(name) if isinstance(value, list) else name]
    return None if value is None else float(value)


def opened(tab: Open, gateway: Gateway, **options: Any) -> Tab:
    """The page, as the operator."""
    found = tab(gateway, **options).open()
    found.go("Learning")
    found.settle()
    return found


def is_same(page: Page, gateway: Gateway) -> bool:
    """Whether every figure is that of the API now."""
    value = gateway.get("learning/insights")
    return all((float(each) if each else None) == at(value, path) for path, each in shown(page).items())


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that has learned from four runs, for tests that leave it as it is."""
    made = Gateway(tmp_path_factory.mktemp("learned"), {"expenses": example("expenses")}, "")
    try:
        made.ready()
        work(made)
        yield made
    finally:
        made.stop()


@pytest.fixture
def learning(serve: Serve) -> Gateway:
    """One of the test's own, which may have it forgotten."""
    gateway = serve({"expenses": example("expenses")})
    work(gateway)
    return gateway


def test_figures_are_those_of_the_api(learned: Gateway, tab: Open) -> None:
    """All counts and shares, and each thing that was learned in its part's table."""
    page = opened(tab, learned).page
    until(lambda: is_same(page, learned))

    value = learned.get("learning/insights")
    paths = set(shown(page))
    assert paths >= {f"parts.{n}.{name}" for n in range(7) for name in ("learned", "evidence", "checked", "accuracy")}
    for part in value["parts"]:
        rows = page.locator(f"#learned-{part['part']} tbody tr")
        assert rows.count() == len(part["items"])
        for place, item in enumerate(part["items"]):
            expect(rows.nth(place)).to_contain_text(item["text"])


def test_what_is_forgotten_by_a_click_is_forgotten(learning: Gateway, tab: Open) -> None:
    """Not without a yes; after it the tool is in no table any more, and the page says what was forgotten."""
    page = opened(tab, learning).page
    expect(page.locator(f"#learned-shapes [title='{TOOL}']")).to_have_count(1)
    subject = page.get_by_label("Tool, principal or ALL")
    dialog = page.locator("#confirm")

    subject.fill("expenses.list_expenses")
    page.get_by_role("button", name="Forget…").click()
    expect(dialog).to_contain_text("what it learned about expenses.list_expenses")
    dialog.get_by_role("button", name="Cancel").click()
    assert learning.get("learning/insights")["forgotten"] == []
    expect(subject).to_have_value("expenses.list_expenses")

    page.get_by_role("button", name="Forget…").click()
    dialog.get_by_role("button", name="Forget").click()
    expect(page.get_by_text(f"Forgotten: tool {TOOL}")).to_be_visible()
    expect(subject).to_have_value("")
    expect(page.locator(f"#learned-shapes [title='{TOOL}']")).to_have_count(0)
    expect(page.locator("#learned .facts")).to_contain_text(f"tool {TOOL}")
    kept = learning.get("learning/insights")["forgotten"]
    assert [(each["what"], each["subject"]) for each in kept] == [("tool", TOOL)]


def test_everything_is_forgotten_with_the_keyboard_alone(learning: Gateway, tab: Open) -> None:
    """Escape takes it back, and Enter on the button means it."""
    page = opened(tab, learning).page
    subject = page.get_by_label("Tool, principal or ALL")
    subject.focus()
    page.keyboard.type("local")
    page.keyboard.press("Enter")
    expect(page.locator("#confirm")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#confirm")).not_to_be_visible()
    assert learning.get("learning/insights")["forgotten"] == []

    subject.fill("ALL")
    subject.press("Enter")
    expect(page.locator("#confirm")).to_contain_text("what it learned about everything")
    for _ in range(5):
        if page.evaluate("document.activeElement.matches('[data-decision=confirm]')"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Forgotten: everything")).to_be_visible()
    expect(page.locator("[data-insight='risk.0.assessed']")).to_have_count(0)


def test_a_name_that_nobody_knows_is_refused_in_words(learned: Gateway, tab: Open) -> None:
    """What the API says is shown, and what was typed stays; it is text, whatever it is."""
    looking = opened(tab, learned)
    looking.expected.append("status of 400 .*learning/forget")
    page = looking.page
    page.get_by_label("Tool, principal or ALL").fill("<img src=x onerror=window.pwned=1>")
    page.get_by_role("button", name="Forget…").click()
    expect(page.locator("#confirm")).to_contain_text("<img src=x onerror=window.pwned=1>")
    page.locator("#confirm").get_by_role("button", name="Forget").click()

    expect(page.get_by_text("Nothing was learned of '<img src=x onerror=window.pwned=1>'.")).to_be_visible()
    assert page.locator("img").count() == 0


def test_who_may_not_observe_is_told_so_and_sees_no_form(serve: Serve, tab: Open) -> None:
    """On a gateway with tokens, one who works sees nothing of what was learned."""
    gateway = serve({}, "[http.principals.ann]\ntoken = 'token-of-ann'\n", "token-of-ann")
    looking = tab(gateway).open("#/learning")
    looking.expected.append("status of 401 .*me")
    looking.page.get_by_label("Token").fill("token-of-ann")
    looking.page.keyboard.press("Enter")

    expect(looking.page.locator("#learned")).to_contain_text("You do not have access.")
    expect(looking.page.locator("#forget")).to_have_count(0)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_the_page_fits_and_can_be_looked_at(learned: Gateway, tab: Open, width: int, theme: str) -> None:
    """In light and dark, and at the width of a phone without scrolling sideways."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page = opened(tab, learned, width=width, theme=theme).page
    expect(page.locator("#learned-shapes")).to_be_visible()
    page.screenshot(path=ARTIFACTS / f"learning-{theme}-{width}.png", full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") == width
