"""Measures how fast answers are searched for private values, by the kind of text they hold.

Each kind is generated from a seed, about a megabyte of it, and handed to `Guard.admit` in mode `strict`, as the answer
of a tool is. Every round has another seed, so that nothing remembered from one round makes the next one cheaper.
"""

import base64
import gc
import random
import secrets
import statistics
import string
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from sealyard.cli.terminal import columns, plain, screen
from sealyard.privacy import Guard, Privacy
from sealyard.privacy.detect import Scanner
from sealyard.privacy.vault import Keys, Scope
from sealyard.privacy.vault.seal import VaultStorage, make_scope, open_scope
from sealyard.values.tools import ToolSpec

_CHARACTERS = 1_000_000
_ROUNDS = 3
_EXPIRES_SECONDS = 3600.0

_WORDS = tuple(
    """account archive balance batch branch buffer build cache catalog change channel check client cloud cluster code
    column commit config count course create current daily data default delete design detail device docs domain draft
    early edge engine entry error event export family field file filter final folder font format frame gallery garden
    graph green group handle header helper history hotel image import index input invoice island item journal kernel
    label language layer layout library limit line list local machine main market matrix memory merge message metric
    mobile model module month mountain music network node note number object office old open option order output owner
    package page paper parent partner patch path pattern payment phase picture plan plugin point policy pool port post
    primary printer process product profile project queue random range record region release remote render report
    request resource result review river route router sample schedule schema score screen script search season second
    section sensor series server service session setting shadow shape signal single size small social source space
    spring stage start state status stream street string style summer system table target task team template test text
    theme thread ticket timer title tools topic track traffic tree trend unit update upload user utils value vendor
    version video view volume water weather week widget window winter worker writer yellow zone""".split()
)
_EXTENSIONS = ("py", "ts", "go", "rs", "md", "json", "yaml", "css", "png", "test.ts", "spec.js", "sql", "html")
_FIRST = ("Anna", "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hanna", "Ivan", "Julia", "Karl", "Laura")
_LAST = ("Adler", "Bauer", "Costa", "Dietz", "Engel", "Fuchs", "Gross", "Hagen", "Jansen", "Keller", "Lorenz")

_Random = random.Random
_Make = Callable[[_Random, int], Any]


def generate(kind: str, *, seed: int = 1, characters: int = _CHARACTERS) -> Any:
    """An answer of one of `KINDS`, the same for the same seed: a text, or JSON data of about that size."""
    return KINDS[kind](random.Random(f"{kind} {seed}"), characters)  # noqa: S311 - made up, not secret


def measure(
    *, rounds: int = _ROUNDS, characters: int = _CHARACTERS, kinds: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """Megabytes a second of one thread by kind of text, the best of some rounds, and the harmonic mean of all kinds.

    The harmonic mean is the speed of an answer that holds as much of each kind: one slow kind pulls it down.
    """
    speeds: dict[str, float] = {}
    for kind in kinds or KINDS:
        found = []
        for seed in range(rounds):
            value = generate(kind, seed=seed, characters=characters)
            size = len(value if isinstance(value, str) else msgspec.json.encode(value))
            found.append(size / 1e6 / _seconds(value))
        speeds[kind] = max(found)
    return {"mb_per_second_by_kind": speeds, "mb_per_second": statistics.harmonic_mean(list(speeds.values()))}


def show(figures: dict[str, Any]) -> None:
    """The same figures as a table."""
    table = columns("what an answer holds", "MB/s in strict")
    for kind, speed in figures["mb_per_second_by_kind"].items():
        table.add_row(plain(kind.replace("_", " ")), f"{speed:.1f}")
    table.add_row(plain("harmonic mean"), f"{figures['mb_per_second']:.1f}", style="bold")
    screen.print(table)


def _seconds(value: Any) -> float:
    """The processor's time of one look at an answer by a guard that has seen nothing yet."""
    guard = Guard(Privacy(Scanner()), _scope())
    gc.collect()
    started = time.thread_time()
    guard.admit(_TOOL, value)
    return time.thread_time() - started


_TOOL = ToolSpec(
    upstream="bench",
    name="answer",
    full_name="mcp__bench__answer",
    module="bench",
    function="answer",
    input_schema={"type": "object"},
    digest="",
)


class _Unwritten:
    """Takes values and drops them: in the gateway, the thread of the store seals and writes them."""

    def put_values(self, seal: Callable[[], object], count: int, size_bytes: int) -> None:
        """Called for new values."""


def _scope() -> Scope:
    keys = Keys.of([secrets.token_bytes(32)])
    row = make_scope("bench", key_id=keys.current_id, keys=keys, now=time.time())
    storage = cast(VaultStorage, _Unwritten())
    return Scope(row, open_scope(row, keys), storage, expires_seconds=_EXPIRES_SECONDS, clock=time.time)


# What answers hold


def _listed(each: Callable[[_Random], Any]) -> _Make:
    """A list of such values."""

    def make(chance: _Random, characters: int) -> list[Any]:
        return list(_until(chance, characters, each))

    return make


def _lines(each: Callable[[_Random], str], head: str = "") -> _Make:
    """A text of such lines."""

    def make(chance: _Random, characters: int) -> str:
        return head + "\n".join(_until(chance, characters, each))

    return make


def _repeated(piece: str) -> _Make:
    """The same few characters over and over, which no answer needs and any server can send."""

    def make(chance: _Random, characters: int) -> str:
        return piece * (characters // len(piece))

    return make


def _until(chance: _Random, characters: int, each: Callable[[_Random], Any]) -> Iterator[Any]:
    while characters > 0:
        value = each(chance)
        characters -= len(value) + 4 if isinstance(value, str) else len(msgspec.json.encode(value)) + 1
        yield value


def _path(chance: _Random) -> str:
    folders = (chance.choice(_WORDS) for _ in range(chance.randint(2, 5)))
    name = f"{chance.choice(_WORDS)}_{chance.choice(_WORDS)}"
    number = f"_{chance.randint(1, 999):03d}" if chance.random() < 0.3 else ""
    return f"{'/'.join(folders)}/{name}{number}.{chance.choice(_EXTENSIONS)}"


def _url(chance: _Random) -> str:
    host = f"{chance.choice(_WORDS)}.{chance.choice(_WORDS)}.example"
    query = f"?page={chance.randint(1, 99)}&sort={chance.choice(_WORDS)}" if chance.random() < 0.5 else ""
    return f"https://{host}/{chance.choice(_WORDS)}/{chance.choice(_WORDS)}-{chance.randint(1, 99_999)}{query}"


def _hash(chance: _Random) -> str:
    return chance.randbytes(chance.choice((16, 20, 32))).hex()


def _uuid(chance: _Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def _clock(chance: _Random) -> str:
    return f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:{chance.randint(0, 59):02d}"


def _log_line(chance: _Random) -> str:
    level = chance.choice(("INFO", "INFO", "INFO", "WARN", "ERROR", "DEBUG"))
    what = f"{chance.choice(_WORDS)} {chance.choice(_WORDS)} {chance.choice(_WORDS)}"
    return (
        f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}T{_clock(chance)}.{chance.randint(0, 999):03d}Z"
        f" {level} [{chance.choice(_WORDS)}-{chance.randint(1, 64)}] {what} request_id={chance.randbytes(8).hex()}"
        f" status={chance.choice((200, 201, 304, 404, 500))} took {chance.randint(1, 9_000)} ms"
    )


def _source_line(chance: _Random) -> str:
    first, second, third = (chance.choice(_WORDS) for _ in range(3))
    return chance.choice(
        (
            f"def {first}_{second}({third}: int, {first}: str = '{second}') -> None:",
            f"    {first} = self._{second}.{third}({chance.randint(0, 500)}, {second}={third})",
            f"    if {first}.{second} is None or {third}[{chance.randint(0, 9)}] == '{first}':",
            f"        return [{third}.{first} for {third} in {second}s if not {third}.is_{first}]",
            f"# The {first} of a {second} is read before its {third} is known.",
            f'    {{"{first}": {second}, "{third}": {chance.randint(0, 9_999)}}},',
            "",
            f"const {first}{second.title()} = await {third}.{second}(({first}) => {first}.{third} > 0);",
        )
    )


def _base64(chance: _Random, characters: int) -> str:
    return base64.b64encode(chance.randbytes(characters * 3 // 4)).decode()


def _base64_line(chance: _Random) -> str:
    return base64.b64encode(chance.randbytes(57)).decode()


def _plain_row(chance: _Random) -> dict[str, Any]:
    return {
        "id": chance.randint(1, 10**6),
        "sku": f"{chance.choice(_WORDS).upper()[:3]}-{chance.randint(1_000, 99_999)}",
        "title": f"{chance.choice(_WORDS)} {chance.choice(_WORDS)}",
        "status": chance.choice(("open", "closed", "waiting")),
        "price": round(chance.uniform(1, 900), 2),
        "in_stock": chance.random() < 0.5,
        "created_at": f"2026-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}T{_clock(chance)}Z",
        "tags": [chance.choice(_WORDS), chance.choice(_WORDS)],
    }


def _private_row(chance: _Random) -> dict[str, Any]:
    return {
        "id": chance.randint(1, 10**6),
        "first_name": chance.choice(_FIRST),
        "last_name": chance.choice(_LAST),
        "email": _email(chance),
        "phone": f"+49 30 {chance.randint(10**6, 10**7 - 1)}",
        "plan": chance.choice(("free", "pro")),
        "notes": f"asked about the {chance.choice(_WORDS)} of the {chance.choice(_WORDS)} {chance.choice(_WORDS)}",
        "created_at": f"2026-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}T{_clock(chance)}Z",
        "spent": round(chance.uniform(1, 9_000), 2),
        "order_ids": [chance.randint(10**5, 10**6) for _ in range(4)],
    }


def _email(chance: _Random) -> str:
    name = f"{chance.choice(_FIRST)}.{chance.choice(_LAST)}{chance.randint(1, 9_999)}".lower()
    return f"{name}@{chance.choice(_WORDS)}.example"


def _csv_line(chance: _Random) -> str:
    return (
        f"{chance.randint(1, 10**6)},{chance.choice(_WORDS)},{chance.choice(_WORDS)} {chance.choice(_WORDS)},"
        f"{chance.uniform(1, 900):.2f},2026-0{chance.randint(1, 9)}-1{chance.randint(0, 9)},{chance.choice(_WORDS)}"
    )


def _sentence(chance: _Random) -> str:
    words = [chance.choice(_WORDS) for _ in range(chance.randint(8, 20))]
    return " ".join(["The", *words, "is in", chance.choice(_WORDS)]) + "."


def _html_line(chance: _Random) -> str:
    first, second, third = (chance.choice(_WORDS) for _ in range(3))
    return (
        f'<div class="{first}-{second}"><a href="/{second}/{third}" title="{third}">The {first} {second}</a>'
        f"<p>About the {third} &amp; its {first}</p></div>"
    )


def _number(chance: _Random) -> Any:
    return chance.choice((chance.randint(0, 10**6), chance.randint(0, 10**10), round(chance.uniform(0, 9_999), 4)))


def _digits(chance: _Random, characters: int) -> str:
    return "".join(chance.choices(string.digits, k=characters))


KINDS: dict[str, _Make] = {
    "paths": _listed(_path),
    "urls": _listed(_url),
    "hashes": _listed(_hash),
    "uuids": _listed(_uuid),
    "words": _listed(lambda chance: chance.choice(_WORDS)),
    "json_rows": _listed(_plain_row),
    "json_rows_private": _listed(_private_row),
    "numbers": _listed(_number),
    "emails": _listed(_email),
    "path_lines": _lines(_path),
    "log_lines": _lines(_log_line),
    "source_code": _lines(_source_line),
    "csv": _lines(_csv_line, "id,kind,title,price,day,status\n"),
    "prose": _lines(_sentence),
    "html": _lines(_html_line),
    "base64": _base64,
    "base64_lines": _lines(_base64_line),
    "digits": _digits,
    "tabs": _repeated("a\tb\n"),
    "open_objects": _repeated('{"a":'),
    "open_lists": _repeated("["),
    "backslashes": _repeated("\\"),
    "escapes": _repeated("\\u0041%41&#65;"),
    "colons": _repeated(":"),
    "assignments": _repeated("key=a:"),
    "quotes": _repeated("\"'"),
    "dots": _repeated("1."),
    "at_signs": _repeated("a@b."),
    "tags": _repeated("<a>"),
    "spaces": _repeated("a  b "),
}
"""A maker of each kind of answer. Those from `digits` on are hostile: made to cost as much as they can."""
