"""Renders the result that an agent gets: never more than a budget of tokens, and never without a way to the rest."""

import asyncio
import re
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest, SealyardError
from sealyard.metrics import tokens
from sealyard.privacy import Guard
from sealyard.sandbox.sessions import Workspace
from sealyard.values.runs import Failure, Outcome, Result, Spill

_FRAME_TOKENS = 160  # for the sentences around a preview
_NOTE_TOKENS = 40  # reserved for the note that the text is cut
_MESSAGE_CHARACTERS = 2_000  # of an error message for the agent
_LAST_CHARACTERS = 400  # of output, which are scanned in no time
_FIRST_CHARACTERS = 80
"""Of texts left to scan when no time is left: few enough to take none."""
_LEFT_OUT = "left out: there was no time left to look through it for private values"
_TOKEN_CHARACTERS = 128
"""No token of the vocabulary is longer: a text of more characters cannot fit."""
_ESCAPED_BYTES = 6
"""Of one character in JSON, at most: \\u00e9. Of one beyond the basic plane twice that."""
_CUT_MARK = re.compile(r"… \(\+[\d,]+ characters?\)\Z")
_RAGGED_CHARACTERS = 200
"""Where a text was cut before it was scanned, its end may be the beginning of a private value."""


def preview_bytes(budget_tokens: int) -> int:
    """The longest preview that fits together with the words around it; a token is at least one byte."""
    return max(256, budget_tokens - _FRAME_TOKENS)


async def conceal_outcome(outcome: Outcome, guard: Guard, *, seconds: float | None = None) -> Outcome:
    """The outcome as shown outside the sandbox.

    Parts that cannot be scanned within `seconds` are left out: then there is the end of what was printed and the
    beginning of each word about a failure, which take no time.
    """
    is_bare = not (outcome.output or outcome.notes) and outcome.failure is None and outcome.spill is None
    if guard.is_off or (is_bare and guard.shows_plain(outcome.result)):
        return outcome
    try:
        async with asyncio.timeout(seconds):
            return await _concealed(outcome, guard)
    except TimeoutError:
        return await _concealed(_shortened(outcome), guard)


async def _concealed(outcome: Outcome, guard: Guard) -> Outcome:
    result, output = outcome.result, outcome.output
    if guard.is_holding_values:
        result = _without_ragged_ends(result) if outcome.spill is not None else result
        if not outcome.ok and not output.endswith("\n"):  # it was ended in the middle of a line
            output = output[: max(output.rfind("\n") + 1, len(output) - _RAGGED_CHARACTERS)]
    failure, spill = outcome.failure, outcome.spill
    texts = None
    if failure is not None:
        texts = {name: getattr(failure, name) for name in _FAILURE_TEXTS}
        texts = _without_ragged_ends(texts) if guard.is_holding_values else texts
    shape = "" if spill is None else spill.shape
    given = [result, output, texts, shape, list(outcome.notes)]
    result, output, texts, shape, notes = await guard.door.conceal_each(given)
    return msgspec.structs.replace(
        outcome,
        result=result,
        output=output,
        failure=None if failure is None else msgspec.structs.replace(failure, **texts),
        spill=None if spill is None else msgspec.structs.replace(spill, shape=shape),
        notes=tuple(notes),
    )


def _shortened(outcome: Outcome) -> Outcome:
    """The rest of an outcome that takes too long to scan."""
    output = outcome.output
    if len(output) > _LAST_CHARACTERS:
        # Not in the middle of a line: the second half of something private is not known alone.
        start = output.find("\n", len(output) - _LAST_CHARACTERS) + 1
        output = f"… ({_LEFT_OUT})\n" + (output[start:] if start else "")
    failure = outcome.failure
    if failure is not None:
        words = {name: (getattr(failure, name) or "")[:_FIRST_CHARACTERS] for name in _FAILURE_TEXTS}
        failure = msgspec.structs.replace(failure, **words)
    spill = outcome.spill and msgspec.structs.replace(outcome.spill, shape="")
    return msgspec.structs.replace(
        outcome, result=None, output=output, failure=failure, spill=spill, notes=(f"Its value was {_LEFT_OUT}.",)
    )


_FAILURE_TEXTS = ("type", "message", "source_line", "traceback", "hint")


def _without_ragged_ends(value: Any) -> Any:
    """`value`, a preview, whose cut texts end a little earlier."""
    if isinstance(value, dict):
        return {key: _without_ragged_ends(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_ragged_ends(item) for item in value]
    if isinstance(value, str) and (mark := _CUT_MARK.search(value)):
        return value[: max(0, mark.start() - _RAGGED_CHARACTERS)] + mark[0]
    return value


async def render(
    outcome: Outcome,
    *,
    budget_tokens: int,
    workspace: Workspace | None,
    guard: Guard,
    notes: tuple[str, ...] = (),
) -> Result:
    """The answer's text: what went wrong, what was printed, what came out, in this order and only what there is.

    The outcome is concealed already; what the workspace holds is not.
    """
    parts = [_failure(outcome.failure)] if outcome.failure is not None else []
    parts += [f"note: {note}" for note in (*await guard.door.conceal(list(notes)), *outcome.notes)]
    value = await _value_text(outcome, budget_tokens, workspace, guard)
    output = outcome.output.rstrip("\n")
    whole = _join(parts, output, value)
    if not tokens.fits(whole, budget_tokens):
        # The value keeps what it needs up to half of the budget; the output gets the rest.
        rest = budget_tokens - _FRAME_TOKENS - sum(map(_size, parts))
        value = _cut_value(outcome, value, rest if not output else max(rest // 2, rest - _size(output)))
        output = _cut_output(outcome, output, max(0, rest - _size(value)), workspace)
        whole = tokens.cut(_join(parts, output, value), budget_tokens)
    if not whole:
        whole = "(The code ran. It printed nothing and its value is None.)"
    return Result(text=whole, is_error=outcome.failure is not None, outcome=outcome)


def answer_text(value: Any, budget_tokens: int) -> str:
    """A tool's answer without code: whole if it fits the budget, since there is no workspace to keep it in."""
    most = budget_tokens * _TOKEN_CHARACTERS
    if isinstance(value, msgspec.Raw):
        size, text = len(bytes(value)), _beginning(bytes(value), most)
    else:
        text = _text(value)
        size = len(text)
    if size <= most and tokens.fits(text, budget_tokens):
        return text
    note = f"… (cut: the answer has {size:,} characters. Ask the tool for less.)"
    return tokens.cut(text[:most], budget_tokens - _NOTE_TOKENS) + note


def _beginning(document: bytes, most: int) -> str:
    """The first characters of a JSON document; of one that is a text, of that text."""
    if not document.startswith(b'"'):
        return document[: most * 4].decode("utf-8", "ignore")
    piece = document[: most * _ESCAPED_BYTES]
    if len(piece) == len(document):
        return str(msgspec.json.decode(piece))
    for end in range(len(piece), len(piece) - 2 * _ESCAPED_BYTES, -1):  # where no character is cut
        try:
            return str(msgspec.json.decode(piece[:end] + b'"'))
        except ValueError:
            continue
    return ""


def failure_text(error: Exception) -> str:
    """The text for the agent about a failed request; it leaves out internal details."""
    return f"{type(error).__name__}: {error}" if isinstance(error, SealyardError) else ""


def _join(parts: list[str], output: str, value: str) -> str:
    parts = list(parts)
    if output:
        parts.append(f"output:\n{output}" if parts or value else output)
    if value:
        parts.append(f"result:\n{value}" if parts else value)
    return "\n".join(parts)


def _failure(failure: Failure) -> str:
    lines = [f"{failure.type}: {_short(failure.message)}"]
    if failure.line is not None:
        lines.append(f"line {failure.line}: {_short((failure.source_line or '').strip())}")
    # One frame says no more than the line above.
    if failure.traceback.count("\n  ") > 2:
        lines.append(_short(failure.traceback.rstrip()))
    if failure.hint:
        lines.append(f"hint: {failure.hint}")
    return "\n".join(lines)


async def _value_text(outcome: Outcome, budget: int, workspace: Workspace | None, guard: Guard) -> str:
    if outcome.spill is None:
        return "" if outcome.result is None else _text(outcome.result)
    # A token is often four bytes, so a text longer than its preview may still fit whole.
    if workspace is not None and outcome.spill.bytes <= budget * 8:
        text = _read(workspace, _relative(outcome.spill))
        if text is not None:
            whole: str = await guard.door.conceal(text)
            if tokens.fits(whole, budget):
                return whole
    return f"{_whereabouts(outcome.spill)}\n{_text(outcome.result)}"


def _cut_value(outcome: Outcome, value: str, budget: int) -> str:
    if not value or tokens.fits(value, max(budget, 0)):
        return value
    if outcome.spill is not None:
        head = _whereabouts(outcome.spill)
        return f"{head}\n{tokens.cut(_text(outcome.result), max(0, budget - _size(head)))}…"
    return f"{tokens.cut(value, max(0, budget))}… (cut; return less, or name a session and write it to a file)"


def _cut_output(outcome: Outcome, output: str, budget: int, workspace: Workspace | None) -> str:
    if tokens.fits(output, budget):
        return output
    where = ""
    if workspace is not None:
        path = f"results/{outcome.execution_id}.txt"
        try:
            workspace.write_bytes(path, outcome.output.encode())
            where = f"; whole in {path}"
        except InvalidRequest as error:
            where = f"; the whole could not be kept: {error}"
    note = f"… ({len(outcome.output):,} characters{where}) …"
    room = max(0, budget - _size(note))
    head = tokens.cut(output, room * 2 // 3)
    # A token of the end is at least one byte, so this many characters are at most as many tokens as bytes.
    tail = output[len(head) :][-(room // 3 // 4) :] if room >= 12 else ""
    return f"{head}\n{note}\n{tail}"


def _whereabouts(spill: Spill) -> str:
    path = _relative(spill)
    return f"({spill.shape}; {spill.bytes:,} bytes, whole in {path}: json.load(open({path!r})) reads it. Preview:)"


def _relative(spill: Spill) -> str:
    return "results/" + spill.path.rpartition("/")[2]


def _read(workspace: Workspace, path: str) -> str | None:
    try:
        return workspace.read_bytes(path).decode("utf-8", "replace")
    except InvalidRequest:
        return None  # another run of the session removed it: only the preview is left


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS else text[:_MESSAGE_CHARACTERS] + "…"


def _size(text: str) -> int:
    return tokens.count(text) if len(text) < 1 << 16 else len(text)
