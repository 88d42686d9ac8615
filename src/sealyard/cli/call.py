"""`sealyard call`: one call of one tool, through all that a call of an agent goes through."""

import ast
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from sealyard.broker.upstreams import Response
from sealyard.catalog.stubs import Stub
from sealyard.cli.approvals import answered_here
from sealyard.cli.command import CONFIG, JSON, LOCAL, answer, load, read_object, read_text
from sealyard.cli.gateway import tool_hint, with_yard
from sealyard.cli.terminal import count, errors, remark, seconds, warn, write, write_json
from sealyard.errors import CallRefused, InvalidRequest, PolicyRefused, SealyardError, UnknownTool, UpstreamError
from sealyard.values.tools import ToolSpec
from sealyard.yard import Yard

_ITEM = re.compile(r"([^=]*?)(:?=)(.*)", re.DOTALL)


@click.command()
@click.argument("tool", metavar="SERVER.TOOL")
@click.argument("items", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--arguments", metavar="FILE", help="A JSON object of arguments: a file, - for standard input, or JSON.")
@CONFIG
@JSON
def call(*, tool: str, items: tuple[str, ...], arguments: str | None) -> int:
    """Call one tool of a configured server.

    SERVER.TOOL may also be the full name mcp__server__tool, or the tool's name alone if only one server has it. The
    call is checked, approved, limited and recorded as one that code makes, and private values come as tokens.

    \b
    name=text       what the tool's schema takes: text, a number, true, a list as JSON
    name:=JSON      JSON, whatever the schema says
    name=@file      the same from a file
    -               a JSON object of all arguments from standard input

    \b
    sealyard call expenses.get_budget department=Sales
    sealyard call list_expenses category=travel limit=5 --json
    sealyard call notes.save text=@letter.txt tags:='["home"]'
    echo '{"limit": 5}' | sealyard call mcp__expenses__list_expenses -

    Exit code 0: the tool answered; 1: it failed, or the call was refused; 2: it could not be made.
    """  # noqa: D301 - \b keeps the lines of a paragraph
    given = _Given(items, arguments)
    status = errors.status(f"Calling {tool}")
    loaded = load()

    async def work(yard: Yard) -> dict[str, Any]:
        snapshot = await yard.snapshot(LOCAL)
        spec = snapshot.find(tool)
        if spec is None:
            for name in yard.tools.finder.unlisted():
                warn(f"{name} did not list its tools. See `sealyard tools --status`.")
        execution_id = secrets.token_hex(8)
        made = {"execution_id": execution_id, "tool": tool if spec is None else spec.full_name}
        started = time.perf_counter()
        with answered_here(yard.approvals, execution_id, status):
            try:
                found = await yard.call(tool, given.fitting(spec), principal=LOCAL, execution_id=execution_id)
                ended = _answered(found)
            except UnknownTool:
                ended = _failed(await _hidden(yard, tool))
            except (CallRefused, UpstreamError) as error:
                ended = _failed(error)
        return made | ended | {"execution_time_ms": round((time.perf_counter() - started) * 1000)}

    done = with_yard(work, config=loaded, doing=status)
    answer(done, lambda: _show(done))
    return 0 if done["success"] else 1


async def _hidden(yard: Yard, tool: str) -> PolicyRefused:
    """Return why a tool is not there for this call. Raises `UnknownTool` if it does not exist.

    To whoever runs a command here the policy is no secret.
    """
    whole = await yard.snapshot()
    spec = whole.find(tool)
    if spec is None:
        raise UnknownTool(f"No tool named {tool!r}. {tool_hint(whole, tool)}")
    name = spec.full_name
    return PolicyRefused(f"The policy denies {name}. `sealyard policy explain {name}` names the rule.")


# The request


class _Given:
    """The arguments as they were typed. Their types are known when the tool is."""

    def __init__(self, items: Sequence[str], arguments: str | None) -> None:
        """Raises `InvalidRequest`."""
        sources = [*([] if arguments is None else [arguments]), *(item for item in items if item == "-")]
        if len(sources) > 1:
            raise InvalidRequest("Give the object of arguments once: with - or with --arguments.")
        self._whole: dict[str, Any] = {}
        for source in sources:
            is_json = source.lstrip().startswith("{")
            text = source if is_json else read_text(source, "Name a file with a JSON object, or - for standard input.")
            self._whole = read_object(text, "Standard input" if source == "-" else "--arguments")
        self._typed: dict[str, tuple[str, bool]] = {}
        """Name -> the text, and whether it is JSON whatever the schema says."""
        for item in items:
            if item != "-":
                self._take(item)

    def _take(self, item: str) -> None:
        found = _ITEM.fullmatch(item)
        if found is None or not found[1]:
            raise InvalidRequest(
                f"{item!r} is not an argument. Write name=value, such as limit=5, or name:=JSON or name=@FILE."
            )
        name, sign, text = found.groups()
        if name in self._typed or name in self._whole:
            raise InvalidRequest(f"{name!r} is given twice. Give one value, or a list as JSON: {name}:='[1, 2]'.")
        is_json = sign == ":="
        if text.startswith("@"):
            text = read_text(text[1:], f"For the text itself write {name}:='\"{text}\"'.")
        if is_json:
            _decode(name, text)
        self._typed[name] = text, is_json

    def fitting(self, spec: ToolSpec | None) -> dict[str, Any]:
        """The arguments, each with the type that the tool's schema has for it. `Broker.call` checks them."""
        if spec is None:
            return self._whole
        known = {name: each for each in Stub(spec).parameters for name in (each.key, each.name)}
        found = dict(self._whole)
        for name, (text, is_json) in self._typed.items():
            parameter = known.get(name)
            key = name if parameter is None else parameter.key
            found[key] = (
                _decode(name, text) if is_json else _typed(text, "Any" if parameter is None else parameter.annotation)
            )
        return found


def _decode(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{name} is not JSON: {error}. Write {name}=… for text.") from None


def _typed(text: str, annotation: str) -> Any:
    """The value of a text for a parameter of this type, as its stub has it.

    A text is never taken for anything else where a text fits; and one that is not JSON stays what it is, so that the
    complaint about it names it as it was typed.
    """
    if _takes_text(annotation):
        return text
    if annotation.startswith("bool") and text in ("True", "False"):
        return text == "True"
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _takes_text(annotation: str) -> bool:
    branches: list[ast.expr] = [ast.parse(annotation, mode="eval").body]
    while branches:
        match branches.pop():
            case ast.BinOp(left=left, right=right):
                branches += [left, right]
            case ast.Name("str"):
                return True
            case ast.Subscript(value=ast.Name("Literal"), slice=choices):
                if any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(choices)):
                    return True
    return False


# The answer


def _answered(found: Response) -> dict[str, Any]:
    """The keys of an answered call; those that a run has too have the same names."""
    files = [{"name": each.name, "mime": each.mime, "bytes": len(each.content)} for each in found.files]
    return {"status": "ok", "success": True, "result": found.value, "failure": None, "error": None, "files": files}


def _failed(error: SealyardError) -> dict[str, Any]:
    kind, message = type(error).__name__, str(error)
    failure = {"type": kind, "message": message}
    return {
        "status": "failed",
        "success": False,
        "result": None,
        "failure": failure,
        "error": f"{kind}: {message}",
        "files": [],
    }


def _show(done: Mapping[str, Any]) -> None:
    """Print a text as it is and any other value as JSON, then one line about the call on standard error."""
    value, files = done["result"], done["files"]
    if isinstance(value, msgspec.Raw):  # too large to have been decoded
        value = msgspec.json.decode(value)
    if isinstance(value, str):
        write(value if value.endswith("\n") else f"{value}\n")
    elif value is not None:
        write_json(value, indent=2)
    if done["error"] is not None:
        remark(done["error"], "bold red")
    if files:
        names = ", ".join(each["name"] for each in files)
        remark(f"note: {count(len(files), 'file')} came with it: {names}. `sealyard run` keeps files for code.", "dim")
    remark(f"{done['status']} in {seconds(done['execution_time_ms'] / 1000)} ({done['tool']})", "dim")
