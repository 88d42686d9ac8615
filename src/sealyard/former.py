"""Compatibility with data made while the product was called `toolyard`.

This is the one module that spells the former name. Bytes that stored data depends on, such as the label of a digest,
keep it forever; everything else is read under either name and written under the present one.
"""

import itertools
import logging
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from sealyard.disk import drafted, locked, sync_path
from sealyard.errors import StoreError

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

FORMER = "toolyard"
PRESENT = "sealyard"

VAULT_KEY_ID = b"toolyard vault key id\0"
"""Each row of a vault names its key by an id hashed with this label: with another one no row finds its key."""
ARGUMENT_DIGESTS = b"toolyard digests of arguments"
"""Approvals given forever are found by digests under this label: with another one everything is asked again."""
VAULT_SERVICE = "toolyard vault"
"""The OS keyring may still hold a vault's key under this name."""
ANALYSIS = "toolyard_analysis"
"""Saved skills import the analysis by this name."""

FORMER_ERROR = "ToolyardError"
"""The former name of the base of all our errors, in recorded calls and facts."""

SCHEMA = 7
"""The last schema of stores written under the former name."""
RENAME_ROWS = """
    -- One class of errors had the name of the product in its own.
    UPDATE metric_sums SET labels = '["SealyardError"]'
    WHERE name = 'toolyard_execution_errors_total' AND labels = '["ToolyardError"]';
    UPDATE facts SET fact = replace(fact, '"error_type":"ToolyardError"', '"error_type":"SealyardError"')
    WHERE kind = 'execution' AND fact LIKE '%"error_type":"ToolyardError"%';

    -- Sums are found by the name of their metric.
    UPDATE metric_sums SET name = 'sealyard_' || substr(name, 10)
    WHERE substr(name, 1, 9) = 'toolyard_' AND NOT EXISTS (
        SELECT 1 FROM metric_sums AS present
        WHERE present.span = metric_sums.span AND present.start = metric_sums.start
        AND present.labels = metric_sums.labels AND present.name = 'sealyard_' || substr(metric_sums.name, 10)
    );
    """
"""The migration from that schema to the next."""

_VARIABLES = ("CONFIG", "TOKEN", "VAULT_KEY")
"""Environment variables, without their prefix."""
_KEYS = ("vault.key", "{}.audit.key", "{}.skills.key")
"""Files beside a store that it is useless without."""
_TOKENS = "oauth"
"""The folder beside a store with tokens for upstreams."""
_STAGING = ".taking-over-"
_ATTEMPTS = 5
"""A copy is made again if a key changes during it, which takes a person: more than twice is odd."""
_BUSY_SECONDS = 30
"""Seconds to wait for a lock of another program."""
_LAUNCHERS = ("uvx", "uv", "pipx", "env")


# Names


def spell(name: str) -> str:
    """The former spelling of a name that begins with that of the product, for other files and signatures."""
    return re.sub(f"^{PRESENT}", FORMER, name)


def decode(content: bytes, kind: type[_T]) -> _T:
    """Decode a JSON document whose top-level keys may have the former spelling. Raises as `msgspec` does."""
    document = msgspec.json.decode(content)
    if isinstance(document, dict):
        document = {re.sub(f"^{FORMER}", PRESENT, key): value for key, value in document.items()}
    return msgspec.convert(document, kind)


def rename_variables(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment with both names of each of our variables, and notes about those to rename.

    Where both are set, each keeps its value, and only the present one is used.
    """
    known, notes = dict(environ), []
    for suffix in _VARIABLES:
        old, new = f"{FORMER.upper()}_{suffix}", f"{PRESENT.upper()}_{suffix}"
        if old in environ and new not in environ:
            known[new] = environ[old]
            notes.append(f"{old} is read as {new}. Rename the variable.")
        elif new in environ and old not in environ:
            known[old] = environ[new]  # a configuration may still use it
    return known, notes


def starts(command: str | None, arguments: tuple[str, ...], *, names: tuple[str, ...] = (PRESENT, FORMER)) -> bool:
    """True if a command starts this product under one of these names."""
    program = re.split(r"[/\\]", command or "")[-1].lower().removesuffix(".exe")
    if program in names:
        return True
    modules = (after for before, after in itertools.pairwise(arguments) if before == "-m")
    if any(module in names for module in modules):
        return True
    package = re.compile(rf"({'|'.join(names)})(\[[^\]]*\])?([@=<>~!].*)?")
    return program in _LAUNCHERS and any(package.fullmatch(each) for each in arguments)


# The store


def find_former(path: Path) -> Path | None:
    """The store of the former name that `path` would replace: both lie in a folder of their name, side by side.

    Raises:
        StoreError: There may be one, and it cannot be examined.
    """
    if (path.parent.name, path.name) != (PRESENT, f"{PRESENT}.db"):
        return None
    old = path.parent.with_name(FORMER) / f"{FORMER}.db"
    try:
        return old if stat.S_ISREG(old.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _not_taken(old, path, error) from error


def take_over_store(path: Path, migrate: Callable[[Path], None]) -> None:
    """Copy the store of the former name, with its keys, to `path` if that is free. The old folder stays.

    A gateway may go on using the old store. The database comes last and in one step, so that a killed process leaves
    nothing that looks like a store. `migrate` migrates the copy.

    Raises:
        StoreError: It cannot be copied. A new store in its place would hide it forever.
    """
    if os.path.exists(path) or (old := find_former(path)) is None:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path.parent):
            if os.path.exists(path):
                return  # another process was faster
            with _staging(path) as staged:
                keys = _copy_with_keys(old, staged)
                migrate(staged)
                _put_keys(keys, path)
                _put_tokens(old, path)
                sync_path(path.parent)
                staged.rename(path)
            sync_path(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise _not_taken(old, path, error) from error
    _log.warning("The data in %s was copied to %s. The old folder stays as a backup.", old.parent, path.parent)


def copy_beside(path: Path) -> Path:
    """Copy a store beside itself before its rows are renamed, wholly or not at all.

    The caller excludes concurrent calls. Raises `OSError` and `sqlite3.Error`.
    """
    kept = path.with_name(f"{path.name}.before-{PRESENT}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    with _staging(path) as staged:
        _copy_database(path, staged)
        staged.rename(kept)
    sync_path(kept.parent)
    return kept


@contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """The place of a copy before it gets its name. Leftovers, also of killed processes, are removed."""
    staged = path.with_name(f"{_STAGING}{path.name}")
    _remove_staged(staged)
    try:
        yield staged
    finally:
        _remove_staged(staged)


def _remove_staged(staged: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        staged.with_name(staged.name + ending).unlink(missing_ok=True)


def _copy_with_keys(old: Path, new: Path) -> dict[str, bytes]:
    """Copy a database; returns the keys of that moment, by their pattern in `_KEYS`."""
    for _ in range(_ATTEMPTS):
        keys = _read_keys(old)
        _copy_database(old, new)
        if _read_keys(old) == keys:
            return keys
    raise OSError(0, "its keys change all the time", str(old))


def _read_keys(store: Path) -> dict[str, bytes]:
    found = {}
    for pattern in _KEYS:
        with suppress(FileNotFoundError):
            found[pattern] = store.with_name(pattern.format(store.name)).read_bytes()
    return found


def _copy_database(old: Path, new: Path) -> None:
    """Copy a database as of one moment, also while it is written."""
    _remove_staged(new)
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    source = sqlite3.connect(f"file:{quote(str(old))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
    with closing(source), closing(sqlite3.connect(new, isolation_level=None)) as target:
        source.backup(target)
    sync_path(new)


def _put_keys(keys: Mapping[str, bytes], path: Path) -> None:
    """Put keys beside the store at `path`.

    Raises:
        OSError: Another key is there already. A killed process leaves the same keys.
    """
    there = _read_keys(path)
    for pattern, content in keys.items():
        file = path.with_name(pattern.format(path.name))
        if there.get(pattern, content) != content:
            raise FileExistsError(0, f"{str(file)!r} is another key; move it away", str(file))
    for pattern, content in keys.items():
        _write(path.with_name(pattern.format(path.name)), content)


def _put_tokens(old: Path, new: Path) -> None:
    for file in sorted((old.parent / _TOKENS).glob("*.json")):
        new.with_name(_TOKENS).mkdir(mode=0o700, exist_ok=True)
        _write(new.with_name(_TOKENS) / file.name, file.read_bytes())


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, wholly or not at all."""
    with drafted(path, draft_name=f"{_STAGING}{path.name}") as file:
        file.write(content)


def _not_taken(old: Path, new: Path, error: OSError | sqlite3.Error) -> StoreError:
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return StoreError(
        f"The data in {str(old.parent)!r} cannot be copied to {str(new.parent)!r}: {reason}. Nothing was changed; make"
        " room and make both folders usable, or move the old one away to start with nothing."
    )
