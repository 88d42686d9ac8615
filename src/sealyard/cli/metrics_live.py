"""The dashboard in a terminal: one picture every two seconds, made of lines that fit its size."""

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text

from sealyard.cli.terminal import dollars, plain, screen, seconds, share, size
from sealyard.metrics import Point, Prices, Report, tokens
from sealyard.observe.alerts import AlertView, list_alerts
from sealyard.store import Store
from sealyard.values.access import ApprovalRequest
from sealyard.values.runs import ExecutionRecord

_EVERY_SECONDS = 2.0
"""Between two pictures: an eye follows, and the store is hardly read."""
_TILE = 16
"""Columns of a figure with its name."""
_FEW_TILES = 3
"""In a row; a narrower terminal gets one line a figure."""
_WIDE = 100
"""Columns from which on sections stand side by side."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_FEW = 5
"""Lines of a section."""
_RUNS = 8
"""Last runs shown."""
_DAY = 86_400.0  # seconds
_ENDINGS = {"ok": "green", "running": "cyan"}


class Window(msgspec.Struct, frozen=True):
    """A time up to now, and the bars of its chart."""

    title: str
    seconds: float | None
    step: str
    charted_seconds: float


WINDOWS = {
    "1h": Window("the last hour", 3_600.0, "minute", 3_600.0),
    "24h": Window("the last 24 hours", _DAY, "hour", _DAY),
    "7d": Window("the last 7 days", 7 * _DAY, "hour", 7 * _DAY),
    "30d": Window("the last 30 days", 30 * _DAY, "day", 30 * _DAY),
    "all": Window("all time", None, "day", 90 * _DAY),
}


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one picture."""

    at: float
    window: Window
    report: Report
    points: list[Point]
    waiting: list[ApprovalRequest]
    runs: list[ExecutionRecord]
    """The newest first."""
    alerts: list[AlertView]


async def read_report(store: Store, prices: Prices, window: Window) -> Report:
    """Read the figures of a time up to now."""
    now = time.time()
    since = None if window.seconds is None else now - window.seconds
    sums = await store.metrics.sums(since, None)
    return Report.of(sums, since=since or 0.0, until=now, prices=prices, tokenizer=tokens.TOKENIZER)


async def read_frame(store: Store, prices: Prices, window: Window) -> Frame:
    """Read the content of one picture."""
    found = await read_report(store, prices, window)
    now = time.time()
    series = await store.metrics.series(now - window.charted_seconds, now, window.step)
    return Frame(
        at=now,
        window=window,
        report=found,
        points=[Point.of(start, sums) for start, sums in series],
        waiting=await store.approvals.waiting(),
        runs=await store.executions(limit=_RUNS),
        alerts=(await list_alerts(store)).alerts,
    )


async def follow(store: Store, prices: Prices, window: Window, *, is_live: bool) -> None:
    """Draw the store once, or again and again until q is pressed or the task is cancelled."""
    if not is_live:
        for line in draw(await read_frame(store, prices, window), screen.width, None):
            screen.print(line, no_wrap=True, crop=True)
        return
    is_over = asyncio.Event()
    with _keys(lambda key: is_over.set() if key in "qQ" else None), Live(console=screen, screen=True) as live:
        while not is_over.is_set():
            found = await read_frame(store, prices, window)
            live.update(Group(*draw(found, screen.width, screen.height)), refresh=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_SECONDS):
                    await is_over.wait()


@contextlib.contextmanager
def _keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call `pressed` with each key at once, without showing it."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        text = os.read(descriptor, 64)
        if not text:  # the terminal is gone
            loop.remove_reader(descriptor)
        pressed(text.decode("ascii", "replace") or "q")

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


# The picture


def draw(frame: Frame, width: int, height: int | None) -> list[Text]:
    """Return the lines of one picture, the most important first; those below the last row are left out."""
    at = time.strftime("%H:%M:%S UTC", time.gmtime(frame.at))
    lines = [plain(f"sealyard, {frame.window.title}, {at}", "bold"), *_tiles(frame, width), *_charts(frame, width)]
    sections = [section for section in _sections(frame) if section]
    if width < _WIDE:
        for section in sections:
            lines += [Text(), *section]
    else:
        lines += _side_by_side(sections, (width - 2) // 2)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines if height is None else lines[:height]


def _tiles(frame: Frame, width: int) -> list[Text]:
    """Return two lines per row of tiles: figures and their names."""
    report = frame.report
    firing = sum(each.state == "firing" for each in frame.alerts)
    tiles = [
        (f"{report.execution.count:,}", "runs", ""),
        (share(report.execution.success_rate), "ended well", "green"),
        (seconds(report.execution.p95_seconds), "p95 of runs", ""),
        (f"{len(frame.waiting):,}", "to approve", "yellow" if frame.waiting else ""),
        (f"{firing:,}", "alerts", "red" if firing else ""),
        (f"{report.tokens.saved:,}", "tokens saved", "green"),
        (dollars(report.tokens.dollars_saved), "money saved", "green"),
        (share(report.discovery.hit_rate), "searches hit", ""),
        (f"{report.security.hidden_total:,}", "values hidden", ""),
        (size(report.filtering.bytes_in), "from tools", ""),
    ]
    in_row = width // _TILE
    if in_row < _FEW_TILES:  # no room to waste on a second line
        return [Text.assemble((f"{label:<{_TILE}}", "dim"), (value, f"bold {style}")) for value, label, style in tiles]
    lines = []
    for first in range(0, len(tiles), in_row):
        row = tiles[first : first + in_row]
        lines.append(Text.assemble(*((f"{value:<{_TILE}}", f"bold {style}") for value, _, style in row)))
        lines.append(Text.assemble(*((f"{label:<{_TILE}}", "dim") for _, label, _ in row)))
    return lines


def _charts(frame: Frame, width: int) -> list[Text]:
    """Return charts over time, the newest at the right."""
    room = max(1, width - 14)
    charts: dict[str, Callable[[Point], int]] = {
        "runs": lambda point: point.executions,
        "that failed": lambda point: point.failed,
        "tokens saved": lambda point: max(0, point.baseline_tokens - point.actual_tokens),
    }
    lines = [Text()]
    for name, of in charts.items():
        bars = _spark([of(point) for point in frame.points], room)
        lines.append(Text.assemble((f"{name:<13}", "dim"), (bars, "red" if name == "that failed" else "cyan")))
    return lines


def _spark(values: Sequence[int], room: int) -> str:
    """Return a bar for each value; with less room than values, for the sum of some neighbours."""
    each = -(-len(values) // room) if values else 1
    sums = [sum(values[first : first + each]) for first in range(0, len(values), each)]
    most = max(sums, default=0)
    return "".join(_BLOCKS[0 if not value else 1 + value * (len(_BLOCKS) - 2) // most] for value in sums)


def _sections(frame: Frame) -> list[list[Text]]:
    report = frame.report
    firing = [each for each in frame.alerts if each.state == "firing"]
    times = {
        "p50": report.execution.p50_seconds,
        "p95": report.execution.p95_seconds,
        "p99": report.execution.p99_seconds,
    }
    longest = max((value for value in times.values() if value is not None), default=0.0)
    waits = [
        plain(f"{each.id}  {each.tool}  by {each.principal}: {each.reason}", "yellow") for each in frame.waiting[:_FEW]
    ]
    upstreams = [
        plain(
            f"{name:<18} {each.calls:>9,} calls {share(each.error_rate):>8} failed {seconds(each.p95_seconds):>8} p95",
            "red" if each.error_rate else "",
        )
        for name, each in report.upstreams.items()
    ]
    return [
        _section("alerts", [plain(f"{each.rule} {each.subject}: {each.message}", "red") for each in firing[:_FEW]]),
        _section("waiting for approval (answer with `sealyard approvals`)", waits),
        _section(
            "how long runs take", [_bar(name, seconds(value), (value or 0.0), longest) for name, value in times.items()]
        ),
        _section("errors", _counted(report.execution.errors)),
        _section("what runs are for", _counted(report.execution.use_cases)),
        _section("upstreams", upstreams),
        _section("last runs", [_run(each) for each in frame.runs]),
    ]


def _section(title: str, lines: list[Text]) -> list[Text]:
    return [plain(title, "bold"), *lines] if lines else []


def _counted(counts: Mapping[str, int]) -> list[Text]:
    busiest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_FEW]
    return [_bar(name, f"{count:,}", count, busiest[0][1]) for name, count in busiest]


def _bar(name: str, text: str, value: float, most: float) -> Text:
    length = round(16 * value / most) if most else 0
    return Text.assemble(plain(f"{name:<16} {text:>10} "), ("█" * length, "cyan"))


def _run(record: ExecutionRecord) -> Text:
    at = time.strftime("%H:%M:%S", time.gmtime(record.started_at))
    taken = "" if record.ended_at is None else seconds(record.ended_at - record.started_at)
    code = " ".join(record.code.split())[:200]
    return Text.assemble(
        (f"{at} ", "dim"),
        (f"{record.status:<9} ", _ENDINGS.get(record.status, "red")),
        plain(f"{taken:>7} {record.principal}  "),
        plain(code, "dim"),
    )


def _side_by_side(sections: list[list[Text]], width: int) -> list[Text]:
    """Return the sections in two columns of about the same length, in their order."""
    total = sum(len(section) + 1 for section in sections)
    left: list[Text] = []
    right: list[Text] = []
    for section in sections:
        column = left if len(left) + len(section) // 2 < total / 2 and not right else right
        column += [Text(), *section]
    lines = []
    for number in range(max(len(left), len(right))):
        line = left[number].copy() if number < len(left) else Text()
        line.truncate(width, overflow="ellipsis", pad=True)
        lines.append(Text.assemble(line, "  ", right[number] if number < len(right) else ""))
    return lines
