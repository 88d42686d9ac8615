"""Which mode a client gets: the order of what decides, and the part of a URL that does."""

from pathlib import Path
from typing import Any

import pytest

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import HttpConfig, PrincipalEntry, ProfileEntry, StoreConfig, SurfaceConfig
from sealyard.serve.envelope import Refusal
from sealyard.serve.modes import _QUERY_BYTES, Entrance, Modes, _Faces, find_entrance
from sealyard.testing import FakeUpstream
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import open_yard

CONFIG = Config(
    surface=SurfaceConfig(clients={"weak-*": "search", "w*": "hybrid"}),
    profiles={"plain": ProfileEntry(), "set": ProfileEntry(mode="hybrid")},
    http=HttpConfig(
        tokens={"other": "o"},
        principals={"ann": PrincipalEntry(token="a", mode="search"), "bob": PrincipalEntry(token="b")},
    ),
)


@pytest.mark.parametrize(
    ("entrance", "principal", "client", "mode"),
    [
        (Entrance("set", has_code_mode=False), "ann", "weak-1", "proxy"),
        (Entrance("set"), "ann", "weak-1", "hybrid"),
        (Entrance("plain"), "ann", "wide", "search"),
        (Entrance(), "ann", "wide", "search"),
        (Entrance("plain"), "bob", "weak-1", "search"),
        (Entrance(), "other", "wide", "hybrid"),
        (Entrance(), "local", "WEAK-1", "code"),
        (Entrance(), "local", "", "code"),
        (Entrance(has_code_mode=False), "local", "", "proxy"),
    ],
)
def test_the_first_that_names_a_mode_decides(entrance: Entrance, principal: str, client: str, mode: str) -> None:
    """The query, the profile, the principal, the name of the client, the config or `--mode`."""
    assert Modes(CONFIG, "code").of(entrance, principal, client) == mode


@pytest.mark.parametrize("name", ["w" + "*" * 5_000, "w" * 2_000_000, "weak-\n\0", "wé\ud800"])
def test_no_name_takes_long_or_fails(name: str) -> None:
    """Only its beginning is compared, in linear time."""
    assert Modes(CONFIG, "code").of(Entrance(), "local", name) in ("search", "hybrid")


def test_all_modes_that_may_come_up_are_known() -> None:
    """A gateway of relays alone opens no sandbox, so what needs one must not come up later."""
    assert Modes(CONFIG, "proxy").all == {"proxy", "search", "hybrid"}
    assert Modes(Config(), "proxy").all == {"proxy"}


@pytest.mark.parametrize(
    ("config", "is_one"),
    [
        (Config(), True),
        (Config(policy=PolicySettings(rules=(Rule(decision="deny", tools=("a/*",)),))), True),
        (Config(policy=PolicySettings(rules=(Rule(decision="deny", principals=("c*",)),))), False),
        (Config(policy=PolicySettings(rules=(Rule(decision="allow", principals=("local", "boss")),))), False),
        (Config(http=HttpConfig(principals={"ann": PrincipalEntry(token="a", upstreams=("x",))})), False),
        (Config(http=HttpConfig(principals={"ann": PrincipalEntry(token="a", mode="search")})), False),
        (Config(http=HttpConfig(principals={"ann": PrincipalEntry(token="a")})), True),
    ],
)
def test_lists_are_the_same_for_all_only_if_nothing_looks_at_the_principal(config: Config, *, is_one: bool) -> None:
    """Else a cache between the gateway and its clients would show one of them the list of another."""
    assert Modes(config, "proxy").is_one is is_one


@pytest.mark.parametrize(
    ("path", "query", "found"),
    [
        ("/mcp", "", Entrance()),
        ("/mcp", "codemode=off&x=1", Entrance(has_code_mode=False)),
        ("/mcp", "CodeMode=False", Entrance(has_code_mode=False)),
        ("/mcp", "codemode=false&codemode=0", Entrance(has_code_mode=False)),
        ("/mcp/p/a", "codemode=yes", Entrance("a")),
        ("/mcp/p/a/", "", Entrance("a")),
        ("/mcp/", "", None),
        ("/mcp/p", "", None),
        ("/mcpx", "codemode=maybe", None),
        ("/api/v1/mcp", "codemode=maybe", None),
        ("/mcp/p/", "", "not_found"),
        ("/mcp/p/b", "", "not_found"),
        ("/mcp/p/a/b", "", "not_found"),
        ("/mcp/p/../p/a", "", "not_found"),
        ("/mcp/p/a//", "", "not_found"),
        ("/mcp", "codemode=", "invalid_request"),
        ("/mcp", "codemode=off&codemode=on", "invalid_request"),
        ("/mcp/p/a", "codemode=%66alse%00", "invalid_request"),
        ("/mcp", f"codemode=off&x={'y' * (_QUERY_BYTES - 15)}", Entrance(has_code_mode=False)),
        ("/mcp", f"codemode=off&x={'y' * (_QUERY_BYTES - 14)}", "invalid_request"),
    ],
)
def test_a_url_is_an_entrance_or_refused(path: str, query: str, found: Any) -> None:
    """Every other path is left as it is."""
    scope = {"path": path, "raw_path": path.encode(), "query_string": query.encode()}
    try:
        entrance: Any = find_entrance(scope, ["a"])
    except Refusal as refusal:
        entrance = refusal.code

    assert entrance == found
    assert scope["path"] == ("/mcp" if isinstance(found, Entrance) else path)


async def test_the_upstreams_of_a_relay_are_those_of_its_first_request(tmp_path: Path) -> None:
    """Its connections last. One whose tools have all become denied meanwhile does not change under them."""
    config = Config(
        store=StoreConfig(path=tmp_path / "s.db"),
        upstreams={name: UpstreamConfig(name=name, transport="stdio", command="false") for name in ("bank", "shop")},
        policy=PolicySettings(rules=(Rule(decision="deny", tools=("shop/steal",)),)),
    )
    bank, shop = FakeUpstream("bank", pay=lambda: 1), FakeUpstream("shop", buy=lambda: 2)
    async with open_yard(config, upstreams={"bank": bank, "shop": shop}, with_sandbox=False) as yard:
        faces, others = (_Faces(Modes(config, "proxy"), yard, "") for _ in range(2))
        await faces._reach("", "local")
        shop.tools = {"steal": lambda: 3}
        await shop.refresh()
        for each in (faces, others):
            await each._reach("", "local")

    assert faces._reached == {("", "local"): ("bank", "shop")}
    assert others._reached == {("", "local"): ("bank",)}
