"""An ask and its answer in words for people. Everything in an ask may be hostile: it is shown, and never obeyed."""

import msgspec

from sealyard.values import Approval, Ask

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

# Sized for a client's dialogue: longer text is cut, with its true size and the command that shows all of it.
_ARGUMENTS = 20
_LINE_CHARACTERS = 300
_NAME_CHARACTERS = 200
_REASON_CHARACTERS = 500


def is_about_run(ask: Ask) -> bool:
    """True if the ask is about running the code, before it makes any call."""
    return ask.tool == RUN


def options(ask: Ask) -> dict[str, str]:
    """The meaning of each answer, the safest first. Code can only be allowed once: the next run is another question."""
    return _RUN_OPTIONS if is_about_run(ask) else _OPTIONS


def heading(ask: Ask) -> str:
    """The question, in one sentence."""
    return f"{'Code' if is_about_run(ask) else 'A call'} waits for your approval."


def subject(ask: Ask) -> str:
    """The subject of a refusal."""
    return "Running this code was" if is_about_run(ask) else ask.tool


def ask_lines(ask: Ask) -> list[str]:
    """The facts a person needs to answer, one bounded line each: no text in it can look like another line."""
    server = ask.tool.removeprefix("mcp__").partition("__")[0]
    lines = [f"tool: {_shown(ask.tool, _NAME_CHARACTERS)}", f"server: {_shown(server, _NAME_CHARACTERS)}"]
    if is_about_run(ask):
        lines = ["code that has not begun to run"]
    arguments = ask.arguments if isinstance(ask.arguments, dict) else {"(all)": ask.arguments}
    shown = list(arguments.items())[:_ARGUMENTS]
    values = [_value(value, ask.cut.get(name)) for name, value in shown]
    lines += [
        f"argument {_shown(str(name), _NAME_CHARACTERS)} = {value}"
        for (name, _), value in zip(shown, values, strict=True)
    ]
    left_out = len(arguments) - len(shown) + ask.cut.get("…", 0)
    if left_out:
        lines.append(f"and {left_out:,} arguments more")
    if left_out or any(value.endswith(_IN_ALL) for value in values):
        lines.append(f"Read all of it before you answer: sealyard approvals show {ask.id}")
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
    """The message for the code that made the call."""
    reason = _shown(approval.reason, _REASON_CHARACTERS)
    if approval.by == "nobody":
        return f"{subject(ask)} refused: {reason}."
    who = f"{_shown(approval.by, _NAME_CHARACTERS)} ({approval.channel})"
    return f"{subject(ask)} refused by {who}" + (f": {reason}" if reason else ".")


def waiting_line(ask: Ask) -> str:
    """The message for the agent while the ask waits."""
    return f"waiting for approval of {ask.tool} ({ask.id}); answer in your client or with `sealyard approvals`"


def whole_lines(ask: Ask) -> list[str]:
    """Every argument of an ask that is not cut: a line with its name and size, and its JSON after it.

    Everything that cannot be seen is escaped, so that each argument is one line however long it is.
    """
    arguments = ask.arguments if isinstance(ask.arguments, dict) else {"(all)": ask.arguments}
    lines = []
    for name, value in arguments.items():
        text = msgspec.json.encode(value).decode()
        lines += [f"argument {_visible(str(name))}, {len(text):,} characters:", _visible(text)]
    return lines


_IN_ALL = " characters in all)"


def _value(value: object, characters: int | None) -> str:
    """The beginning of an argument's JSON; `characters` is its true length if the value is cut already."""
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError):
        return "… (nested too deeply to be shown)"
    if characters is None and len(text) <= _LINE_CHARACTERS:
        return _visible(text)
    return f"{_visible(text[:_LINE_CHARACTERS])}… ({characters or len(text):,}{_IN_ALL}"


def _shown(text: str, characters: int) -> str:
    """The text on one line, cut with its true length."""
    cut = _visible(text[:characters])
    return cut if len(text) <= characters else f"{cut}… ({len(text):,}{_IN_ALL}"


def _visible(text: str) -> str:
    """The text with an escape for everything that cannot be seen or that reorders what is around it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
