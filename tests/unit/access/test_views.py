"""What each principal sees of the catalog: cut down by its scope and by the policy, and telling nothing of the rest."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sealyard.access.finder import Finder
from sealyard.access.tools import Views
from sealyard.broker.policy import Policy, PolicySettings, Rule
from sealyard.catalog import Catalog, Snapshot
from sealyard.errors import InvalidRequest
from sealyard.sandbox.importable import Library, open_library
from sealyard.store import open_store
from sealyard.testing import FakeUpstream
from sealyard.values.access import PrincipalScope
from sealyard.values.tools import SearchRequest, ToolSpec

DENY_PAY = Rule(decision="deny", tools=("mcp__bank__pay",), principals=("ci", "bob"))


def spec(upstream: str, name: str) -> ToolSpec:
    """A tool without arguments."""
    return ToolSpec(
        upstream=upstream,
        name=name,
        full_name=f"mcp__{upstream}__{name}",
        module=upstream,
        function=name,
        input_schema={"type": "object"},
        digest=f"{upstream}.{name}",
    )


SNAPSHOT = Snapshot(
    {
        "bank": [spec("bank", "pay"), spec("bank", "balance")],
        "jira-eu": [spec("jira-eu", "find_issue")],
        "notes": [spec("notes", "write")],
    }
)


def views(*rules: Rule, preset: str = "open", **scopes: tuple[str, ...] | None) -> Views:
    """Views under these rules; each principal sees the upstreams that are named."""
    policy = Policy(PolicySettings(rules=rules), preset=preset)  # type: ignore[arg-type]
    return Views(policy, {name: PrincipalScope(name=name, upstreams=seen) for name, seen in scopes.items()})


def test_who_may_see_all_gets_the_catalog_itself() -> None:
    """No copy is made for it, whether the config names it or not."""
    every = views(DENY_PAY, ada=None)

    assert [every.of(SNAPSHOT, name) is SNAPSHOT for name in ("ada", "local", "unheard-of")] == [True] * 3


def test_a_view_holds_what_the_scope_names_and_the_policy_does_not_deny() -> None:
    """Patterns name upstreams whole; a rule for others changes nothing."""
    cut = views(DENY_PAY, ci=("bank", "jira*"), ada=("jira*",), none=(), bob=None)

    seen = {name: list(cut.of(SNAPSHOT, name).tools) for name in ("ci", "ada", "none", "bob")}
    assert seen == {
        "ci": ["mcp__bank__balance", "mcp__jira-eu__find_issue"],
        "ada": ["mcp__jira-eu__find_issue"],
        "none": [],
        "bob": ["mcp__bank__balance", "mcp__jira-eu__find_issue", "mcp__notes__write"],
    }
    assert list(cut.of(SNAPSHOT, "ada").by_upstream) == ["jira-eu"]


def test_a_tool_that_is_denied_for_some_arguments_only_is_seen() -> None:
    """Whether a call is refused is known when it is made."""
    when = Rule(decision="deny", tools=("mcp__bank__pay",), when={"amount": {"above": 100}})

    assert views(when).of(SNAPSHOT, "local") is SNAPSHOT


def test_every_view_has_a_version_of_its_own_and_equal_ones_are_one() -> None:
    """Stubs and indexes are made once for all who see the same, and never shared by those who do not."""
    cut = views(ci=("notes",), ada=("not*",), bob=("bank",))
    ci, ada, bob = (cut.of(SNAPSHOT, name) for name in ("ci", "ada", "bob"))

    assert ci is ada
    assert len({SNAPSHOT.version, ci.version, bob.version}) == 3
    assert cut.of(SNAPSHOT, "ci") is ci


def test_a_new_catalog_is_cut_anew() -> None:
    """What a view holds follows what the servers list."""
    cut = views(ci=("notes",))
    cut.of(SNAPSHOT, "ci")
    later = Snapshot({"notes": [spec("notes", "write"), spec("notes", "read")], "bank": [spec("bank", "pay")]})

    assert list(cut.of(later, "ci").tools) == ["mcp__notes__write", "mcp__notes__read"]


def test_a_server_is_named_only_to_who_sees_something_of_it() -> None:
    """One that has not listed its tools yet is known by the scope alone."""
    cut = views(Rule(decision="deny", tools=("mcp__bank__*",)), ci=("notes", "later", "bank"), ada=None)
    names = ["bank", "jira-eu", "later", "notes", "secret"]

    assert cut.servers(names, SNAPSHOT, "ci") == ["later", "notes"]
    assert cut.servers(names, SNAPSHOT, "ada") == ["jira-eu", "later", "notes", "secret"]


def test_a_hidden_tool_is_no_hint_and_no_alias() -> None:
    """Neither a near name nor a shorter one leads to it, and it takes no name away from a visible tool."""
    snapshot = Snapshot({"bank": [spec("bank", "write")], "notes": [spec("notes", "write")]})
    view = views(ci=("notes",)).of(snapshot, "ci")

    assert (snapshot.find("write"), view.find("write")) == (None, snapshot.tools["mcp__notes__write"])
    assert [view.find(name) for name in ("mcp__bank__write", "bank.write", "bank/write")] == [None] * 3
    assert view.nearest("mcp__bank__writ") == ["mcp__notes__write"]


@contextlib.asynccontextmanager
async def found(folder: Path) -> AsyncIterator[tuple[Catalog, Finder, Library]]:
    """A finder over three servers that have listed their tools."""

    def transfer_money() -> None:
        """Wires a remittance to the beneficiary."""

    def write_note() -> None:
        """Writes down what was said."""

    servers = {
        "bank": FakeUpstream("bank", transfer_money=transfer_money),
        "mail": FakeUpstream("mail", send=lambda: None),
        "notes": FakeUpstream("notes", write_note=write_note),
    }
    async with open_store(folder / "sealyard.db") as store, open_library() as library:
        catalog = Catalog(store)
        finder = Finder(catalog, library, servers)

        async def on_tools(upstream: str, definitions: list[object]) -> None:
            await catalog.update(upstream, definitions)  # type: ignore[arg-type]
            finder.note_listed(upstream)

        for server in servers.values():
            server.on_tools = on_tools  # type: ignore[assignment]
            await server.refresh()
        yield catalog, finder, library
        await finder.close()


@pytest.mark.parametrize("query", ["transfer", "remittance", "transfer money", "bank", "transfer_money", ""])
async def test_a_search_tells_nothing_of_what_is_hidden(tmp_path: Path, query: str) -> None:
    """Hits, words that match nothing and the count are what they would be without the hidden tools."""
    async with found(tmp_path) as (catalog, finder, _):
        view = views(ci=("notes",)).of(catalog.snapshot, "ci")
        await finder.search(SearchRequest(query=query))  # the whole catalog is indexed by then
        answer = await finder.search(SearchRequest(query=query, limit=5), view=view)

    assert [hit.name for hit in answer.hits] == ([] if query else ["mcp__notes__write_note"])
    assert (list(answer.unmatched), answer.total) == (query.replace("_", " ").split(), 1)


async def test_a_search_within_a_view_gives_as_many_as_were_asked_for(tmp_path: Path) -> None:
    """Hidden tools take no place among the hits."""
    async with found(tmp_path) as (catalog, finder, _):
        view = views(ci=("notes",)).of(catalog.snapshot, "ci")
        hidden = await finder.search(SearchRequest(query="note money", limit=1), view=view)
        whole = await finder.search(SearchRequest(query="note money", limit=2))

    assert [hit.name for hit in hidden.hits] == ["mcp__notes__write_note"]
    assert {hit.name for hit in whole.hits} == {"mcp__notes__write_note", "mcp__bank__transfer_money"}


async def test_a_hidden_server_is_as_unknown_as_one_that_does_not_exist(tmp_path: Path) -> None:
    """The message names the visible ones in both cases."""
    async with found(tmp_path) as (catalog, finder, _):
        view = views(ci=("notes",)).of(catalog.snapshot, "ci")
        messages = []
        for server in ("bank", "bnak"):
            with pytest.raises(InvalidRequest) as caught:
                await finder.search(SearchRequest(query="money", server=server), view=view)
            messages.append(str(caught.value))

    assert messages == [f"No server named {name!r}. There are: notes." for name in ("bank", "bnak")]


async def test_stubs_of_every_view_lie_side_by_side_until_the_catalog_changes(tmp_path: Path) -> None:
    """What shows an older catalog goes when a newer one is published, unless a run uses it."""
    async with found(tmp_path) as (catalog, finder, library):
        cut = views(ci=("notes",), bob=("bank", "notes"))
        first = [catalog.snapshot, cut.of(catalog.snapshot, "ci"), cut.of(catalog.snapshot, "bob")]
        for view in first:
            await finder.ready(view)
        assert [library.has(view.version) for view in first] == [True, True, True]

        with library.in_use(first[2].version):
            await catalog.update("notes", [])
            await finder.ready(catalog.snapshot)
            kept = [library.has(view.version) for view in first]
        await catalog.update("mail", [])
        await finder.ready(catalog.snapshot)
        later = [library.has(view.version) for view in (*first, catalog.snapshot)]

    assert kept == [False, False, True]
    assert later == [False, False, False, True]
