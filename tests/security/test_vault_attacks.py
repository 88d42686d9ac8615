"""Attacks on the vault: by agent code with tokens, and by somebody who can write its database or has the wrong key."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from sealyard.errors import UnknownToken, VaultError
from sealyard.privacy.vault import Keys, Vault
from sealyard.privacy.vault.seal import spell
from sealyard.store import Store, open_store

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
EMAIL = "ana@example.com"


@asynccontextmanager
async def open_vault(path: Path, *keys: bytes, **options: Any) -> AsyncIterator[Vault]:
    """A vault on a store, as a process of its own would have it."""
    async with open_store(path) as store:
        yield Vault(Keys.of(keys or [KEY]), store.vault, expires_seconds=1000.0, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store.db"


def change(path: Path, statement: str, *parameters: Any) -> None:
    """Do something to the database that the vault would not."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement, parameters).rowcount > 0
        connection.commit()


async def put(path: Path, **values: str) -> dict[str, str]:
    """The token of each value, which is of type `email`, in the scope of its name."""
    async with open_vault(path) as vault:
        return {name: (await vault.scope(name)).token("email", value) for name, value in values.items()}


# Tokens from code


async def test_token_of_another_scope_is_refused(path: Path) -> None:
    """Another session's, another principal's session of the same name, the gateway's, and a name that looks alike."""
    scopes = ("ana:main", "ben:main", "ana:other", "gateway", "ana", "ana:main ")
    async with open_vault(path) as vault:
        own = await vault.scope("ana:main")
        tokens = {name: (await vault.scope(name)).token("email", EMAIL) for name in scopes}

        assert len(set(tokens.values())) == len(scopes)
        assert own.reveal(tokens.pop("ana:main")) == EMAIL
        for token in tokens.values():
            with pytest.raises(UnknownToken):
                own.reveal({"to": f"mail {token}"})


async def test_forged_and_mangled_tokens_are_refused(path: Path) -> None:
    """Every neighbour of a good token: each digit changed, cut at each place, longer at each place, another type."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        token = scope.token("email", EMAIL)
        scope.token("phone", 5551234)
        start = token.index("_", 6) + 1
        forged = [token[:at] + ("1" if token[at] == "0" else "0") + token[at + 1 :] for at in range(start, start + 12)]
        cut = [token[:end] for end in range(len("__PII_"), len(token))]
        longer = [token[:at] + "0" + token[at:] for at in range(start, start + 13)]
        others = [token.replace("email", other) for other in ("phone", "e-mail", "emai", "email_", "email_email", "")]

        for each in (*forged, *cut, *longer, *others):
            assert not scope.has(each)
            with pytest.raises(UnknownToken):
                scope.reveal([each])


async def test_ten_thousand_guesses_find_nothing_and_leave_nothing(path: Path) -> None:
    """A refused token costs no memory and no row."""
    async with open_store(path) as store:
        scope = await Vault(Keys.of([KEY]), store.vault, expires_seconds=1000.0).scope("s")
        scope.token("email", EMAIL)
        for number in range(10_000):
            with pytest.raises(UnknownToken):
                scope.reveal(spell("email", f"{number * 7_919_777:012x}"))
        with pytest.raises(UnknownToken):
            scope.reveal([spell("email", f"{number:012x}") for number in range(10_000)])
        await store.flush()

        assert len(scope) == len(await store.vault.read_values(scope.id, after=0, now=0.0)) == 1


async def test_value_that_looks_like_a_token_does_not_reveal_another(path: Path) -> None:
    """An upstream that sends the text of a token gets that text back, not what the token stands for."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        secret = scope.token("password", "hunter2")
        literal = scope.token("literal", f"see {secret}")

        assert literal != secret
        assert scope.reveal([literal, f"<{literal}>"]) == [f"see {secret}", f"<see {secret}>"]


async def test_value_cannot_break_out_of_json_text_or_a_url(path: Path) -> None:
    """Code that wrote valid JSON, or a URL of one host, sends just that, whatever a hostile value holds."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        token = scope.token("person", '", "admin": true, "x": "')
        host = scope.token("ip", "evil.example/?@")

        assert scope.reveal(f'{{"name": "{token}"}}') == '{"name": "\\", \\"admin\\": true, \\"x\\": \\""}'
        assert scope.reveal(f"https://api.example/{token}") == (
            "https://api.example/%22%2C%20%22admin%22%3A%20true%2C%20%22x%22%3A%20%22"
        )
        assert scope.reveal(f"https://{host}.api.example/a") == "https://evil.example%2F%3F%40.api.example/a"


async def test_guesses_that_code_prints_do_not_name_a_tools_value(path: Path) -> None:
    """A thousand guesses, the right one among them: none gets the token that stands in the answer."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        wanted = scope.token("phone", "555-0123")

        guesses = {scope.token("phone", f"555-{number:04}", origin="code") for number in range(1000)}
        assert (len(guesses), wanted in guesses) == (1000, False)


# The database


async def test_row_moved_to_another_scope_or_id_or_type_is_noticed(path: Path) -> None:
    """It never stands for a value there."""
    moves = (
        "UPDATE vault_values SET scope_id = (SELECT id FROM vault_scopes WHERE scope = 'b')"
        " WHERE scope_id = (SELECT id FROM vault_scopes WHERE scope = 'a')",
        "UPDATE vault_values SET id = 'ffffffffffff' WHERE scope_id = (SELECT id FROM vault_scopes WHERE scope = 'b')",
        "UPDATE vault_values SET type = 'phone' WHERE scope_id = (SELECT id FROM vault_scopes WHERE scope = 'b')",
    )
    for number, move in enumerate(moves):
        file = path.with_name(f"{number}.db")
        await put(file, a=EMAIL, b="ben@example.com")
        change(file, move)
        async with open_vault(file) as vault:
            with pytest.raises(VaultError):
                await vault.scope("b")


async def test_swapped_rows_are_noticed(path: Path) -> None:
    """Two sealed values in each other's place, in one scope."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        tokens = [scope.token("email", EMAIL), scope.token("email", "ben@example.com")]
    with closing(sqlite3.connect(path)) as connection:
        (one, first), (two, second) = connection.execute("SELECT number, sealed FROM vault_values").fetchall()
        connection.executemany("UPDATE vault_values SET sealed = ? WHERE number = ?", [(second, one), (first, two)])
        connection.commit()

    async with open_vault(path) as vault:
        with pytest.raises(VaultError):
            await vault.scope("s")
        for token in tokens:
            with pytest.raises(VaultError):
                await vault.find(token)


async def test_every_flipped_bit_is_noticed(path: Path) -> None:
    """In the sealed value and in the scope's sealed secrets: each byte in turn, and what is left of a cut row."""
    tokens = await put(path, s=EMAIL)
    for table in ("vault_values", "vault_scopes"):
        with closing(sqlite3.connect(path)) as connection:
            ((sealed,),) = connection.execute(f"SELECT sealed FROM {table}").fetchall()
        broken = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
        for each in (*broken, b"", sealed[:5], sealed[:20], sealed + b"\0"):
            change(path, f"UPDATE {table} SET sealed = ?", each)
            async with open_vault(path) as vault:
                with pytest.raises(VaultError):
                    await vault.find(tokens["s"])
        change(path, f"UPDATE {table} SET sealed = ?", sealed)
    async with open_vault(path) as vault:
        assert [each.value for each in await vault.find(tokens["s"])] == [EMAIL]


async def test_broken_row_can_be_erased_by_its_token_and_the_rest_lives_on(path: Path) -> None:
    """The message says how."""
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        broken, good = scope.token("email", EMAIL), scope.token("phone", 5551234)
    change(path, "UPDATE vault_values SET sealed = x'00' WHERE type = 'email'")

    async with open_vault(path) as vault:
        with pytest.raises(VaultError) as caught:
            await vault.scope("s")
        assert str(caught.value) == (
            f"The vault's row of {broken} was changed or does not belong there. Restore a copy of the store, or erase"
            f" the row with `sealyard privacy forget {broken}`."
        )
        with pytest.raises(VaultError):
            await vault.forget(["somebody@example.com"])
        assert await vault.forget([broken]) == 1
        assert (await vault.scope("s")).reveal(good) == 5551234


async def test_scope_under_another_name_cannot_be_opened(path: Path) -> None:
    """A principal that can write the database does not get another one's session by renaming it."""
    await put(path, **{"ana:main": EMAIL})
    change(path, "UPDATE vault_scopes SET scope = 'ben:main'")

    async with open_vault(path) as vault:
        with pytest.raises(VaultError):
            await vault.scope("ben:main")


# Keys


async def test_wrong_key_is_named_and_destroys_nothing(path: Path) -> None:
    """Neither reading, nor new scopes, nor erasing, nor rotating works; with the key back all is as it was."""
    tokens = await put(path, s=EMAIL)
    async with open_vault(path, OTHER_KEY) as vault:
        for attempt in (
            vault.scope("s"),
            vault.scope("new"),
            vault.find(tokens["s"]),
            vault.forget([EMAIL]),
            vault.rotate(Keys.of([OTHER_KEY])),
        ):
            with pytest.raises(VaultError) as caught:
                await attempt
            assert str(caught.value) == (
                f"The vault is sealed with the key {Keys.of([KEY]).current_id!r}, and the given has"
                f" {Keys.of([OTHER_KEY]).current_id} only. Bring that key back, behind the current one; if it is lost,"
                " so is what it sealed, and `sealyard privacy forget --all` makes room for a new beginning."
            )
    async with open_vault(path) as vault:
        assert (await vault.scope("s")).reveal(tokens["s"]) == EMAIL


async def test_vault_whose_key_is_lost_can_begin_anew(path: Path) -> None:
    """Erasing everything needs no key."""
    tokens = await put(path, s=EMAIL)
    async with open_store(path) as store:
        assert await store.vault.erase_scopes(None) == 1
    async with open_vault(path, OTHER_KEY) as vault:
        scope = await vault.scope("s")
        assert not scope.has(tokens["s"])


async def test_rotation_leaves_nothing_that_the_old_key_opens(path: Path) -> None:
    """Neither a row nor an older copy of one on the disk; tokens stay as they are."""
    tokens = await put(path, a=EMAIL, b=EMAIL)
    with closing(sqlite3.connect(path)) as connection:
        old = [sealed for (sealed,) in connection.execute("SELECT sealed FROM vault_scopes")]
    async with open_vault(path) as vault:
        assert await vault.rotate(Keys.of([OTHER_KEY, KEY])) == 2
        assert await vault.rotate(Keys.of([OTHER_KEY, KEY])) == 0
        files = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
        assert [each in files for each in old] == [False, False]
        assert (await vault.scope("a")).reveal(tokens["a"]) == EMAIL
    async with open_vault(path) as vault:
        with pytest.raises(VaultError):
            await vault.scope("a")
    async with open_vault(path, OTHER_KEY) as vault:
        scope = await vault.scope("b")
        assert (scope.reveal(tokens["b"]), scope.token("email", EMAIL)) == (EMAIL, tokens["b"])


async def test_running_gateway_goes_on_after_a_rotation(path: Path) -> None:
    """With what it uses at once; with other scopes and new ones when it can fetch the new key."""
    tokens = await put(path, loaded=EMAIL, stored=EMAIL)
    new = Keys.of([OTHER_KEY])
    async with (
        open_vault(path) as stuck,
        open_vault(path, reload_keys=lambda: new) as running,
        open_vault(path) as operator,
    ):
        in_use = [await vault.scope("loaded") for vault in (stuck, running)]
        await operator.rotate(Keys.of([OTHER_KEY, KEY]))

        for vault, scope in zip((stuck, running), in_use, strict=True):
            assert await vault.scope("loaded") is scope
            assert scope.reveal(tokens["loaded"]) == EMAIL
        assert (await running.scope("stored")).reveal(tokens["stored"]) == EMAIL
        await running.scope("new")
        for name in ("stored", "other"):
            with pytest.raises(VaultError):
                await stuck.scope(name)
    async with open_vault(path, OTHER_KEY) as vault:
        for name in ("loaded", "stored", "new"):
            await vault.scope(name)


async def test_scopes_made_while_keys_change_are_all_sealed_with_one_key(path: Path) -> None:
    """Whoever makes a scope at the same moment makes it before, and it is sealed anew, or after, with the new key."""
    async with open_store(path) as store, open_vault(path) as operator:
        await operator.scope("first")
        vault = Vault(Keys.of([KEY, OTHER_KEY]), store.vault, expires_seconds=1000.0)
        await asyncio.gather(
            *(vault.scope(f"s{number}") for number in range(10)),
            operator.rotate(Keys.of([OTHER_KEY, KEY])),
            *(vault.scope(f"t{number}") for number in range(10)),
        )
        assert {row.key_id for row in await store.vault.scopes()} == {Keys.of([OTHER_KEY]).current_id}
        assert len(await store.vault.scopes()) == 21


async def test_two_gateways_that_store_the_same_values_at_once_agree(path: Path) -> None:
    """No row is lost or doubled, and each reveals the other's tokens."""
    values = [f"user{number}@example.com" for number in range(200)]

    async def work(store: Store) -> list[str]:
        scope = await Vault(Keys.of([KEY]), store.vault, expires_seconds=1000.0).scope("s")
        tokens = []
        for value in values:
            tokens.append(scope.token("email", value))
            if len(tokens) % 20 == 0:
                await store.flush()
        return tokens

    async with open_store(path) as a, open_store(path) as b:
        one, two = await asyncio.gather(work(a), work(b))
        assert one == two
        assert [(each.type, each.values) for each in await a.vault.counts()] == [("email", 200)]
