"""`sealyard privacy`: what is private in a text, and what the operator may do with what was concealed."""

import re
import sys
from collections import Counter
from pathlib import Path

import click
import msgspec

from sealyard.cli.privacy_vault import forget, reveal, rotate, status
from sealyard.cli.terminal import columns, plain, screen, write
from sealyard.config import load_config
from sealyard.errors import InvalidRequest
from sealyard.privacy import TYPES
from sealyard.yard.assembly import build_privacy

_SAMPLES = 3
"""Masked samples shown of each type."""
_LONGEST_SAMPLE = 60
_RUN = re.compile(r"[^\W_]+")


@click.group()
def privacy() -> None:
    """Show what is private, and what was concealed."""


for _command in (forget, reveal, rotate, status):
    privacy.add_command(_command)


@privacy.command()
@click.argument("file", metavar="FILE|-")
@click.option("--all", "all_types", is_flag=True, help="Also types that are left visible unless configured.")
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
def scan(*, file: str, all_types: bool, config: Path | None, as_json: bool) -> None:
    """Show what would be concealed in FILE, or in standard input if FILE is -: types, counts and masked samples.

    Patterns, types and allowed values are those of [privacy] in the configuration. Its modes do not matter here.
    """
    text = _read(file)
    settings = load_config(config).privacy
    if all_types:
        settings = msgspec.structs.replace(settings, conceal=tuple(TYPES), reveal=())
    spans = build_privacy(settings).scanner.find(text)
    counts = Counter(span.type for span in spans)
    samples: dict[str, list[str]] = {name: [] for name in counts}
    for span in spans:
        sample = _mask(text[span.start : span.end])
        if len(samples[span.type]) < _SAMPLES and sample not in samples[span.type]:
            samples[span.type].append(sample)
    if as_json:
        found = [{"type": name, "count": count, "samples": samples[name]} for name, count in sorted(counts.items())]
        write(msgspec.json.encode({"characters": len(text), "found": found}).decode() + "\n")
        return
    table = columns("type", "count", "such as")
    for name, count in counts.most_common():
        table.add_row(plain(name), f"{count:,}", plain(", ".join(samples[name])))
    screen.print(table if counts else plain("Nothing private was found."))


def _read(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.buffer.read().decode(errors="replace")
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidRequest(f"{file!r} cannot be read: {error.strerror}. Name a file that can, or -.") from None


def _mask(value: str) -> str:
    """The first character of each run of letters and digits, the rest starred: `a***@e***.com`."""
    runs = list(_RUN.finditer(value))
    kept = runs[-1].start() if "@" in value and len(runs) > 2 and runs[-1].end() == len(value) else len(value)
    masked = _RUN.sub(lambda run: run.group() if run.start() == kept else f"{run.group()[0]}***", value)
    return masked if len(masked) <= _LONGEST_SAMPLE else f"{masked[:_LONGEST_SAMPLE]}…"
