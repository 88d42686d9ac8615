"""Renders the result that an agent gets: never more than a budget of tokens, and never without a way to the rest."""

from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.metrics import tokens
from sealyard.privacy import Guard
from sealyard.sandbox.sessions import Workspace
from sealyard.values.runs import Failure, Outcome, Result, Spill

_FRAME_TOKENS = 160  # for the sentences around a preview
_NOTE_TOKENS = 40  # reserved for the note that the text is cut
_MESSAGE_CHARACTERS = 2_000  # of an error message for the agent
_TOKEN_CHARACTERS = 128
"""No token of the vocabulary is longer: a text of more characters cannot fit."""
_ESCAPED_BYTES = 6
"""Of one character in JSON, at most: \\u00e9. Of one beyond the basic plane twice that."""


def preview_bytes(budget_tokens: int) -> int:
    """The longest preview that fits together with the words around it; a token is at least one byte."""
    return max(256, budget_tokens - _FRAME_TOKENS)


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
