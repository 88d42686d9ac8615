"""An ask and its answer in words for people. Everything in an ask may be hostile: it is shown, and never obeyed."""

import msgspec

from sealyard.values import Approval, Ask

__all__ = ("RUN", "ask_lines", "heading", "is_about_run", "options", "refusal", "subject", "waiting_line")

RUN = "execute_code"
"""In the place of a tool in an ask that is about the code of a run. No tool of an upstream can be called so here."""

_OPTIONS = {
    "refuse": "Refuse this call",
    "once": "Allow this call once",
    "run": "Allow this tool until this run is over",
    "session": "Allow this tool for the rest of this session",
    "always": "Always allow this tool with exactly these arguments",
}
_RUN_OPTIONS = {"refuse": "Do not run this code", "once": "Run this code once"}

_ARGUMENTS = 20
_LINE_CHARACTERS = 300
_NAME_CHARACTERS = 200
_REASON_CHARACTERS = 500


def is_about_run(ask: Ask) -> bool:
    """Whether code asks to be run at all, before it has made any call."""
    return ask.tool == RUN


def options(ask: Ask) -> dict[str, str]:
    """What each answer to it means, the safest first. Code is allowed once: the next one is another question."""
    return _RUN_OPTIONS if is_about_run(ask) else _OPTIONS


def heading(ask: Ask) -> str:
    """What is asked, in one sentence."""
    return f"{'Code' if is_about_run(ask) else 'A call'} waits for your approval."


def subject(ask: Ask) -> str:
    """What a refusal is about."""
    return "Running this code was" if is_about_run(ask) else ask.tool


def ask_lines(ask: Ask) -> list[str]:
    """What a person must know to answer, one bounded line each: no text in it can look like another line."""
    server = ask.tool.removeprefix("mcp__").partition("__")[0]
    lines = [f"tool: {_shown(ask.tool, _NAME_CHARACTERS)}", f"server: {_shown(server, _NAME_CHARACTERS)}"]
    if is_about_run(ask):
        lines = ["code that has not begun to run"]
    arguments = ask.arguments if isinstance(ask.arguments, dict) else {"(all)": ask.arguments}
    shown = list(arguments.items())[:_ARGUMENTS]
    lines += [f"argument {_shown(str(name), _NAME_CHARACTERS)} = {_value(value)}" for name, value in shown]
    if len(arguments) > _ARGUMENTS:
        lines.append(f"and {len(arguments) - _ARGUMENTS:,} arguments more (`sealyard approvals --json` has them)")
    if not arguments:
        lines.append("without arguments")
    lines.append(f"asked because of {_shown(ask.rule, _NAME_CHARACTERS)}")
    if ask.reason:
        lines.append(f"reason: {_shown(ask.reason, _REASON_CHARACTERS)}")
    who, session = _shown(ask.principal, _NAME_CHARACTERS), _shown(ask.session, _NAME_CHARACTERS)
    place = "before" if is_about_run(ask) else f"call {ask.number} of"
    lines.append(f"asked by {who} in session {session}, {place} run {ask.execution_id}")
    return lines


def refusal(ask: Ask, approval: Approval) -> str:
    """What the code that made the call is told."""
    reason = _shown(approval.reason, _REASON_CHARACTERS)
    if approval.by == "nobody":
        return f"{subject(ask)} refused: {reason}."
    who = f"{_shown(approval.by, _NAME_CHARACTERS)} ({approval.channel})"
    return f"{subject(ask)} refused by {who}" + (f": {reason}" if reason else ".")


def waiting_line(ask: Ask) -> str:
    """What the agent's side is told meanwhile."""
    return f"waiting for approval of {ask.tool} ({ask.id}); answer in your client or with `sealyard approvals`"


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
