"""An ask and its answer in words for people. Everything in an ask may be hostile: it is shown, and never obeyed."""

import msgspec

from toolyard.values import Approval, Ask

__all__ = ("OPTIONS", "ask_lines", "refusal", "waiting_line")

OPTIONS = {
    "refuse": "Refuse this call",
    "once": "Allow this call once",
    "run": "Allow this tool until this run is over",
    "session": "Allow this tool for the rest of this session",
    "always": "Always allow this tool with exactly these arguments",
}
"""What each answer means, the safest first."""

_ARGUMENTS = 20
_LINE_CHARACTERS = 300
_NAME_CHARACTERS = 200
_REASON_CHARACTERS = 500


def ask_lines(ask: Ask) -> list[str]:
    """What a person must know to answer, one bounded line each: no text in it can look like another line."""
    server = ask.tool.removeprefix("mcp__").partition("__")[0]
    lines = [f"tool: {_shown(ask.tool, _NAME_CHARACTERS)}", f"server: {_shown(server, _NAME_CHARACTERS)}"]
    arguments = ask.arguments if isinstance(ask.arguments, dict) else {"(all)": ask.arguments}
    shown = list(arguments.items())[:_ARGUMENTS]
    lines += [f"argument {_shown(str(name), _NAME_CHARACTERS)} = {_value(value)}" for name, value in shown]
    if len(arguments) > _ARGUMENTS:
        lines.append(f"and {len(arguments) - _ARGUMENTS:,} arguments more (`toolyard approvals --json` has them)")
    if not arguments:
        lines.append("without arguments")
    lines.append(f"asked because of {_shown(ask.rule, _NAME_CHARACTERS)}")
    if ask.reason:
        lines.append(f"reason: {_shown(ask.reason, _REASON_CHARACTERS)}")
    who, session = _shown(ask.principal, _NAME_CHARACTERS), _shown(ask.session, _NAME_CHARACTERS)
    lines.append(f"asked by {who} in session {session}, call {ask.number} of run {ask.execution_id}")
    return lines


def refusal(ask: Ask, approval: Approval) -> str:
    """What the code that made the call is told."""
    reason = _shown(approval.reason, _REASON_CHARACTERS)
    if approval.by == "nobody":
        return f"{ask.tool} refused: {reason}."
    who = f"{_shown(approval.by, _NAME_CHARACTERS)} ({approval.channel})"
    return f"{ask.tool} refused by {who}" + (f": {reason}" if reason else ".")


def waiting_line(ask: Ask) -> str:
    """What the agent's side is told meanwhile."""
    return f"waiting for approval of {ask.tool} ({ask.id}); answer in your client or with `toolyard approvals`"


def _value(value: object) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError):
        return "… (nested too deeply to be shown)"
    return _shown(text, _LINE_CHARACTERS)


def _shown(text: str, characters: int) -> str:
    """The text on one line, with an escape for everything that cannot be seen or that reorders what is around it."""
    cut = text[:characters]
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return cut if len(text) <= characters else f"{cut}… ({len(text) - characters:,} characters more)"
