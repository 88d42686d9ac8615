"""`sealyard analyze`: `execute_analysis` over a file, standard input or a tool's answer.

Rows are never read here: a file goes as it is into the workspace of a sandbox that lives as long as this command.
"""

import codecs
import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.command import CONFIG, EXISTING_FILE, JSON, answer, read_config, read_object
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, remark, screen, show_hint, write_json
from sealyard.config import Config
from sealyard.errors import InvalidRequest
from sealyard.sandbox.policy import ANALYSIS, IsolationPolicy
from sealyard.values.runs import Outcome
from sealyard.yard import AnalyzeRequest, Yard, open_yard

_TYPES = ("filter", "aggregate", "transform", "validate", "statistics")
_SESSION = "analysis"
_WORKSPACE = f"local:{_SESSION}"
_MIB = 1 << 20  # bytes
_LARGE_BYTES = _MIB
"""From here on DuckDB may help; loading it takes longer than plain Python takes for less."""
_SPARE_MIB = 64
"""Room beside the file and its answer, for an engine's own files."""


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rows are: a tool, or bytes with the name that they get in the workspace."""

    source: dict[str, Any]
    name: str = ""
    content: bytes | None = None


@click.command()
@click.argument("kind", metavar="TYPE", type=click.Choice(_TYPES))
@click.option("--file", type=EXISTING_FILE, help="Rows: JSON, JSON lines, CSV or Parquet.")
@click.option("--tool", metavar="NAME", help="Rows from a call of this tool, by its full name.")
@click.option("--arguments", metavar="JSON", help="What the tool is called with.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "jsonl", "csv", "parquet"]),
    help="Of the rows, if their name does not show it.",
)
@click.option("--path", metavar="FIELD", help="Where in the document or the answer the rows are, such as data.items.")
@click.option("--parameters", metavar="JSON|@FILE", help="What to do, as execute_analysis takes it.")
@click.option("--where", multiple=True, metavar="TEXT", help="A condition such as 'amount > 100'; again for more.")
@click.option("--group-by", metavar="FIELDS", help="Such as department,month.")
@click.option("--agg", multiple=True, metavar="TEXT", help="Such as 'sum(amount)' or 'p95(amount)'; again for more.")
@click.option("--fields", metavar="FIELDS", help="Only these, such as id,amount.")
@click.option("--sort", metavar="FIELDS", help="Such as department,-amount: the largest amount first.")
@click.option("--limit", type=click.IntRange(0), help="The most rows.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write all rows there, as JSON lines."
)
@click.option("--timeout", type=click.FloatRange(1, 120), metavar="SECONDS", help="Wall time, 1 to 120.")
@CONFIG
@JSON
def analyze(
    *,
    kind: str,
    file: Path | None,
    tool: str | None,
    arguments: str | None,
    form: str | None,
    path: str | None,
    parameters: str | None,
    output: Path | None,
    timeout: float | None,
    **short: Any,
) -> int:
    """Filter, aggregate, transform, validate or describe rows without writing code.

    TYPE is filter, aggregate, transform, validate or statistics. The rows come from a file, from a tool or from
    standard input, and do not leave the sandbox: what is printed is the answer.

    Exit code 0: there is an answer; 1: the request does not fit the rows, or took too long.
    """
    if output is not None and output.exists():
        raise InvalidRequest(f"{str(output)!r} exists already. Name another file.")
    asked = _read_object(parameters, "--parameters") | _from_short_forms(**short)
    source = _find_source(file, tool, arguments, form, path)
    loaded = read_config()
    request = AnalyzeRequest(
        analysis_type=kind, source=source.source, parameters=asked, session=_SESSION, timeout_seconds=timeout
    )
    outcome, rows = run_to_end(_analyze(request, source, loaded, with_rows=output is not None))
    if output is not None and rows is not None:
        _write_rows(output, rows)
    answer(outcome.to_json(), lambda: _show(outcome, output))
    return 0 if outcome.ok else 1


# The request


def _read_object(text: str | None, option: str) -> dict[str, Any]:
    if text is None:
        return {}
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"{option} cannot be read: {error}. Give a JSON object, or @FILE with one.") from None
    return read_object(text, option)


def _from_short_forms(
    where: tuple[str, ...],
    group_by: str | None,
    agg: tuple[str, ...],
    fields: str | None,
    sort: str | None,
    limit: int | None,
) -> dict[str, Any]:
    """Return the parameters that the short options stand for. The engine checks that they fit the type."""
    found: dict[str, Any] = {
        "conditions": list(where),
        "group_by": _split(group_by),
        "aggregations": list(agg),
        "fields": _split(fields),
        "sort": [{"field": each.removeprefix("-"), "descending": each.startswith("-")} for each in _split(sort)],
        "limit": limit,
    }
    return {key: value for key, value in found.items() if value not in ([], None)}


def _split(names: str | None) -> list[str]:
    return [] if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _find_source(
    file: Path | None, tool: str | None, arguments: str | None, form: str | None, path: str | None
) -> _Source:
    more = {key: value for key, value in (("format", form), ("path", path)) if value is not None}
    if tool is not None:
        if file is not None:
            raise click.UsageError("Of --file and --tool, name one.")
        return _Source(source={"tool": tool, "arguments": _read_object(arguments, "--arguments"), **more})
    if arguments is not None:
        raise click.UsageError("--arguments are those of a tool. Name it by --tool.")
    if file is None and sys.stdin.isatty():
        raise InvalidRequest("There are no rows. Name a --file or a --tool, or give the rows to standard input.")
    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    ending = form or ("" if file is None else file.suffix.removeprefix(".")) or _guess(content)
    return _Source(source={"workspace": f"rows.{ending}", **more}, name=f"rows.{ending}", content=content)


def _guess(content: bytes) -> str:
    """Guess the format of rows without a name from their beginning."""
    text = content.removeprefix(codecs.BOM_UTF8).strip()
    if text.startswith(b"PAR1"):
        return "parquet"
    if not text.startswith((b"[", b"{")):
        return "csv"
    first, more, _ = text.partition(b"\n")
    if more:
        return "jsonl" if text.startswith(b"{") and first.rstrip().endswith(b"}") else "json"
    is_flat = text.startswith(b"{") and text.count(b"{") == 1 and b"[" not in text
    return "jsonl" if is_flat else "json"  # one object is a row, or a document with rows in it


# The run


async def _analyze(
    request: AnalyzeRequest, source: _Source, config: Config, *, with_rows: bool
) -> tuple[Outcome, list[Any] | None]:
    """Return the outcome, and all rows of the answer if they are wanted, with private values concealed."""
    size_bytes = len(source.content or b"")
    # What stays here has room for the whole answer; `limits` of the engine still bound its rows.
    settings = msgspec.structs.replace(
        config,
        upstreams=config.upstreams if source.content is None else {},
        surface=msgspec.structs.replace(config.surface, result_tokens=ANALYSIS.result_bytes),
        sandbox=msgspec.structs.replace(config.sandbox, pool_size=1),
    )
    policy = _policy(request.analysis_type, size_bytes)
    async with open_yard(settings, policy=policy) as yard:
        if source.content is not None:
            await _put(yard, source.name, source.content)
        else:
            await yard.snapshot()
        outcome = (await yard.analyze(request)).outcome
        rows = await _all_rows(yard, outcome, policy) if with_rows and outcome.ok else None
    return outcome, rows


def _policy(analysis_type: str, size_bytes: int) -> IsolationPolicy:
    """Return a policy with room for the file and as much again, and the packages that may help."""
    packages = ("duckdb",) if size_bytes >= _LARGE_BYTES else ()
    statistics = ("scipy",) if analysis_type == "statistics" else ()
    room_mib = 2 * (size_bytes // _MIB) + _SPARE_MIB
    return msgspec.structs.replace(
        ANALYSIS,
        workspace_mib=max(ANALYSIS.workspace_mib, room_mib),
        packages=(*packages, *statistics),
    )


async def _put(yard: Yard, name: str, content: bytes) -> None:
    sandbox = await yard.sandbox()
    await sandbox.run("pass", session=_WORKSPACE)  # which makes the workspace
    workspace = sandbox.workspace(_WORKSPACE)
    await workspace.quiet()
    workspace.write_bytes(name, content)


async def _all_rows(yard: Yard, outcome: Outcome, policy: IsolationPolicy) -> list[Any]:
    answer = outcome.result
    if not isinstance(answer, dict) or "rows" not in answer:
        raise InvalidRequest("This analysis gives no rows to write. Leave out -o.")
    if not answer.get("truncated"):
        return list(answer["rows"])
    workspace = (await yard.sandbox()).workspace(_WORKSPACE)
    await workspace.quiet()
    text = workspace.read_bytes(answer["file"], max_bytes=policy.workspace_mib * _MIB)
    guard = await yard.guards.of(_WORKSPACE)
    return [guard.conceal(msgspec.json.decode(line)) for line in text.splitlines()]


# The answer


def _write_rows(output: Path, rows: list[Any]) -> None:
    try:
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
    except OSError as error:
        raise InvalidRequest(f"{str(output)!r} cannot be written: {error.strerror}. Name another file.") from error


def _show(outcome: Outcome, output: Path | None) -> None:
    answer = outcome.result
    if outcome.failure is not None:
        remark(outcome.failure.message, "bold red")
        show_hint(outcome.failure.hint)
        return
    if not isinstance(answer, dict) or not isinstance(answer.get("rows"), list):
        write_json(answer, indent=2)
        return
    names = list(dict.fromkeys(name for row in answer["rows"] for name in row))
    screen.print(columns(*names, rows=([_cell(row.get(name)) for name in names] for row in answer["rows"])))
    for note in (*answer.get("notes", ()), *outcome.notes):
        remark(f"note: {note}", "dim")
    cut = "" if not answer.get("truncated") else f", of which {len(answer['rows']):,} are shown"
    more = " All of them: -o FILE." if cut and output is None else ""
    remark(f"{answer['rows_in']:,} rows in, {answer['rows_out']:,} out{cut} ({answer['engine']}).{more}", "dim")


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
