"""`sealyard privacy`: scan a text for private values, and look after the vault beside a running gateway.

A command that shows, erases or reseals values is in the audit log, on disk, before it acts. No value is in there.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.command import CONFIG, JSON, LOCAL, YES, agrees_to, answer, load, read_config, wants_json, with_store
from sealyard.cli.keys import check_key, key_place, open_vault
from sealyard.cli.terminal import columns, minute, say, screen, warn, write, write_json
from sealyard.config import Config
from sealyard.errors import InvalidRequest, UnknownToken
from sealyard.privacy import TYPES
from sealyard.privacy.vault import Keys, RevealedValue, Vault
from sealyard.store import Store
from sealyard.values.access import AuditEntry
from sealyard.yard import build_privacy

_SAMPLES = 3
"""Masked samples shown of each type."""
_LONGEST_SAMPLE = 60
"""Characters: three samples fit a wide terminal."""
_RUN = re.compile(r"[^\W_]+")


@click.group()
def privacy() -> None:
    """Show what is private, and what was concealed."""


@privacy.command()
@click.argument("file", metavar="FILE|-")
@click.option("--all", "all_types", is_flag=True, help="Also types that are left visible unless configured.")
@CONFIG
@JSON
def scan(*, file: str, all_types: bool) -> None:
    """Show what would be concealed in FILE, or in standard input if FILE is -: types, counts and masked samples.

    Patterns, types and allowed values are those of [privacy] in the configuration. Its modes do not matter here.
    """
    text = _read(file)
    settings = read_config().privacy
    if all_types:
        settings = msgspec.structs.replace(settings, conceal=tuple(TYPES), reveal=())
    spans = build_privacy(settings).scanner.find(text)
    counts = Counter(span.type for span in spans)
    samples: dict[str, list[str]] = {name: [] for name in counts}
    for span in spans:
        sample = _mask(text[span.start : span.end])
        if len(samples[span.type]) < _SAMPLES and sample not in samples[span.type]:
            samples[span.type].append(sample)
    found = [{"type": name, "count": count, "samples": samples[name]} for name, count in sorted(counts.items())]
    rows = ((name, count, ", ".join(samples[name])) for name, count in counts.most_common())
    table = columns("type", "count", "such as", rows=rows)
    answer(
        {"characters": len(text), "found": found},
        lambda: screen.print(table if counts else "Nothing private was found."),
    )


def _read(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.buffer.read().decode(errors="replace")
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidRequest(f"{file!r} cannot be read: {error.strerror}. Name a file that can, or -.") from None


def _mask(value: str) -> str:
    """Keep the first character of each run of letters and digits, and star the rest: `a***@e***.com`."""
    runs = list(_RUN.finditer(value))
    kept = runs[-1].start() if "@" in value and len(runs) > 2 and runs[-1].end() == len(value) else len(value)
    masked = _RUN.sub(lambda run: run.group() if run.start() == kept else f"{run.group()[0]}***", value)
    return masked if len(masked) <= _LONGEST_SAMPLE else f"{masked[:_LONGEST_SAMPLE]}…"


# The vault


@privacy.command()
@click.argument("token")
@CONFIG
@JSON
def reveal(*, token: str) -> None:
    """Show the value that TOKEN stands for, after an entry in the audit log."""
    loaded = load()
    for found in with_store(loaded, lambda store: _reveal(store, loaded, token)):
        shown = {"token": found.token, "type": found.type, "scope": found.scope, "value": found.value}
        answer(shown, partial(write, f"{found.value}\n"))


async def _reveal(store: Store, config: Config, token: str) -> list[RevealedValue]:
    found = await (await open_vault(config, store)).find(token)
    if not found:
        raise UnknownToken(f"{token!r} is not a token in the vault: it is incomplete, has expired or was erased.")
    for each in found:
        await _audit(store, "privacy.reveal", token=each.token, scope=each.scope, type=each.type)
    return found


@privacy.command()
@click.argument("values", nargs=-1, metavar="[VALUE|TOKEN]...")
@click.option("--session", metavar="NAME", help="Only this one, as `status` names it; all of it if no value is given.")
@click.option("--all", "everything", is_flag=True, help="Everything in the vault, even if its key is lost.")
@YES
@CONFIG
def forget(*, values: tuple[str, ...], session: str | None, everything: bool) -> None:
    """Erase values from the vault for good, by what they are or by their tokens.

    A - stands for the lines of standard input, so that no value is in the shell's history. A value is found whatever
    its case, and as whole words in longer values. Its tokens are refused from then on.
    """
    if everything == bool(values or session):
        raise click.UsageError("Give values or tokens, or --session NAME, or --all.")
    wanted = [line for each in values for line in (_read("-").splitlines() if each == "-" else [each])]
    if values and not any(each.strip() for each in wanted):
        raise click.UsageError("Give values that are not empty.")

    loaded = load()
    count = with_store(loaded, lambda store: _forget(store, loaded, wanted, session))
    say(f"{count:,} values are erased.")


async def _forget(store: Store, config: Config, wanted: Sequence[str], session: str | None) -> int:
    counts = Counter[str]()
    for each in await store.vault.counts():
        counts[each.scope] += each.values
    scope = None if session is None else _find_scope(counts, session)
    # Whole scopes need no key.
    vault = await open_vault(config, store) if wanted else None
    if vault is not None:
        matches = await vault.match(wanted, scope=scope)
        if not matches:
            return 0
    else:
        matches = dict(counts) if scope is None else {scope: counts[scope]}
    count = sum(matches.values())
    if not agrees_to(f"Erase {count:,} values in {len(matches):,} scopes for good?"):
        raise click.Abort
    await _audit(store, "privacy.forget", count=count, scopes=sorted(matches))
    if vault is not None:
        return await vault.forget(wanted, scope=scope)
    count = await store.vault.erase_scopes(list(matches))
    await store.vault.scrub()
    return count


@privacy.command()
@CONFIG
def rotate() -> None:
    """Seal the vault with a new key. Running gateways go on, unless they have their key from the environment.

    With a key from SEALYARD_VAULT_KEY, first put the new one in front of the old one: NEW,OLD.
    """
    loaded = load()
    keys, count = with_store(loaded, lambda store: _rotate(store, loaded))
    say(f"{count:,} scopes are sealed with the key {keys.current_id} from the {keys.source} now.")
    if keys.source == "environment" and len(keys.ids) > 1:
        say("Restart the gateways with it, then take the old keys out of SEALYARD_VAULT_KEY.")


async def _rotate(store: Store, config: Config) -> tuple[Keys, int]:
    used = await store.vault.key_in_use()
    old = key_place(config).find()
    if used is not None:
        check_key(old, used)
    if old is not None and old.source == "environment" and old.current_id == used:
        raise InvalidRequest(
            f"The vault is sealed with the first key of SEALYARD_VAULT_KEY, {used}, already. Put a new one in front"
            " of it, with a comma between: `openssl rand -base64 32` makes one."
        )
    with key_place(config).rotate() as keys:
        vault = Vault(keys, store.vault, expires_seconds=config.privacy.expires_seconds)
        await _audit(store, "privacy.rotate", old_key=used or "", new_key=keys.current_id)
        return keys, await vault.rotate(keys)


@privacy.command()
@CONFIG
@JSON
def status() -> None:
    """Show the number of values of each type in the vault, its key's id, and when they expire; never a value."""
    loaded = load()
    counts = with_store(loaded, lambda store: store.vault.counts())
    used = counts[0].key_id if counts else None
    keys = key_place(loaded).find()
    is_open = used is None or (keys is not None and keys.find(used) is not None)
    if wants_json():
        shown = {
            "key": {"id": used, "source": None if keys is None else keys.source, "is_here": is_open},
            "expires_seconds": loaded.privacy.expires_seconds,
            "values": [each for each in counts if each.values],
            "scopes": sorted({each.scope for each in counts}),
        }
        write_json(shown)
        return
    rows = (
        (each.scope, each.type or "-", each.values, f"{minute(each.expires_at)} UTC" if each.values else "-")
        for each in counts
    )
    table = columns("scope", "type", "values", "the last expires", rows=rows)
    screen.print(table if counts else "The vault is empty.")
    source = "no key is here yet" if keys is None else f"key {used or keys.current_id} from the {keys.source}"
    say(f"{source}; values expire {loaded.privacy.expires_seconds:,.0f} s after they were seen last")
    if not is_open:
        warn(f"The vault is sealed with the key {used}, which is not here.")


async def _audit(store: Store, kind: str, **body: Any) -> None:
    store.audit(AuditEntry(kind=kind, principal=LOCAL, body=body))
    await store.flush()


def _find_scope(counts: Mapping[str, int], session: str) -> str:
    for name in (session, f"{LOCAL}:{session}"):
        if name in counts:
            return name
    raise InvalidRequest(f"The vault has no scope {session!r}. `sealyard privacy status` lists those that it has.")
