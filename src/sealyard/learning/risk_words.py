"""What an agent is told about a risk: sentences of ours, with names that were checked and numbers."""

from sealyard.learning.code import IDENTIFIER
from sealyard.learning.risk_arguments import WrongCall
from sealyard.learning.risk_repeats import AGAIN_SECONDS, Repeat, is_known_error
from sealyard.learning.sketch import is_name
from sealyard.sandbox.review import Finding
from sealyard.values import ToolSpec

__all__ = (
    "FIRM_RULES",
    "about_all",
    "about_certain_repeat",
    "about_cost",
    "about_form",
    "about_new_tool",
    "about_repeat",
    "about_rule",
    "about_similar",
    "about_tool",
    "about_wrong_call",
)

_NAMES = 8
_USE_A_TOOL = "Call a tool for it: search_tools finds one."

FIRM_RULES: dict[str, tuple[str, str]] = {
    "network": ("needs a network, and there is none", _USE_A_TOOL),
    "open-outside": ("opens a file that cannot be reached", "Keep files in the working directory, or call a tool."),
    "input": ("waits for input, and there is none", "Pass values in through `context`."),
    "sleep": ("sleeps longer than the run may last", "Sleep less, or give timeout_seconds."),
    "memory": ("makes a value that is larger than the memory of the run", "Work in smaller pieces."),
    "endless-loop": ("is a loop that nothing ends", "Add a `break`."),
    "subprocess": ("starts another program, and none runs here", "Do the work in Python, or call a tool."),
}
"""Rules of the review that say that code will not get what it wants, while others only warn: what such a line does, and
what to do instead."""


def about_wrong_call(wrong: WrongCall) -> str:
    """A call that cannot fit."""
    tool, names = _tool(wrong.tool), _listed(wrong.names)
    if wrong.problem == "missing":
        said = f"Line {wrong.line} calls {tool} without what it needs{f': {names}' if names else ''}."
    elif wrong.problem == "many":
        said = f"Line {wrong.line} gives {tool} more values than it takes{f': {names}' if names else ''}."
    else:
        takes = f" It takes: {names}." if names else " It takes none."
        said = f"Line {wrong.line} gives {tool} a parameter that it does not have.{takes}"
    return f"{said} Change that call before running this."


def about_repeat(repeat: Repeat, now: float) -> str:
    """Code that failed as it is; certain or not."""
    times, line = repeat.recent(now), "" if repeat.line is None else f" at line {repeat.line}"
    error = f" with {repeat.error}" if is_known_error(repeat.error) else ""
    often = "once" if times == 1 else f"{times} times"
    return f"This very code failed {often} in the last hour, last{error}{line}. Change it instead of repeating it."


def about_certain_repeat(repeat: Repeat, now: float) -> str:
    """Code that failed as it is, and will again."""
    minutes = max(1, round((repeat.times[-1] + AGAIN_SECONDS - now) / 60))
    return f"{about_repeat(repeat, now)} Nothing that it depends on has changed; try it as it is in {minutes} min."


def about_form(share: float) -> str:
    """Code that differs in its values only."""
    return (
        f"Code like this, whatever its values, failed in {_percent(share)} of its runs. "
        "Check what it does with values that are missing or empty."
    )


def about_similar(share: float) -> str:
    """Code that is like it."""
    return (
        f"Code much like this failed in {_percent(share)} of its runs. "
        "Run its first steps alone and look at what they give."
    )


def about_tool(spec: ToolSpec, share: float) -> str:
    """A tool whose runs fail."""
    return f"Runs with {_tool(spec)} fail in {_percent(share)} of cases. Call it alone first, or catch its errors."


def about_new_tool(spec: ToolSpec, share: float) -> str:
    """A tool that nobody has called."""
    return (
        f"Nobody has called {_tool(spec)} yet, and first runs with a tool fail in {_percent(share)} of cases. "
        "Call it alone first and look at its answer."
    )


def about_rule(finding: Finding) -> str:
    """What the review warns of."""
    does, instead = FIRM_RULES[finding.rule]
    return f"{f'Line {finding.line}' if finding.line else 'The code'} {does}. {instead}"


def about_cost(needed: float, given: float, unit: str) -> str:
    """What it needs is more than it has."""
    instead = "Do less in one run" + (", or give timeout_seconds." if unit == "s" else ".")
    return f"Runs like this needed {needed:.0f} {unit} or more, and it has {given:.0f} {unit}. {instead}"


def about_all(share: float) -> str:
    """Code of which nothing is known where much fails."""
    return f"Runs here fail in {_percent(share)} of cases. Run its first steps alone and look at what they give."


def _tool(spec: ToolSpec) -> str:
    """The name of a tool of the viewer's own view, as code writes it."""
    name = f"{spec.module}.{spec.function}"
    return name if all(map(IDENTIFIER.fullmatch, (spec.module, spec.function))) else "a tool"


def _listed(names: tuple[str, ...]) -> str:
    """Of the names of parameters those that are names, and no sentences."""
    told = list(filter(is_name, names))
    return ", ".join(told[:_NAMES]) + (", …" if len(told) > _NAMES else "")


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
