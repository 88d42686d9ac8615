"""The `sealyard` command. A command's module is imported when it runs, so `--help` costs little more than Python.

Exit codes: 0 done, 1 the agent's code failed or was refused, 2 a mistake in the request or a failure of this machine,
130 after Ctrl-C, 143 after SIGTERM.
"""

import gc
import importlib
import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from sealyard import SealyardError, __version__

__all__ = ("USUAL_COLLECTION", "exit_after", "find_command", "main", "own_command")

USUAL_COLLECTION = gc.get_threshold()
"""When Python looks for garbage. `main` has it look later: see there."""
_STARTING_OBJECTS = 100_000
"""Made between two looks for garbage. Imports make 120,000 objects that stay, and to go through them again and again
takes a sixth of the time in which a command starts."""

_COMMANDS = {
    "alerts": "List alerts and test the webhook.",
    "analyze": "Filter, aggregate, transform, validate or describe rows without writing code.",
    "approvals": "List and answer the calls that wait for approval.",
    "audit": "Show who ran what and what was decided, and prove that nobody changed it.",
    "backup": "Write everything the store holds into one file.",
    "bench": "Say how to run the benchmarks, which are not installed.",
    "call": "Call one tool of a configured server.",
    "chat": "Talk with an agent that works through the gateway.",
    "demo": "Show the gateway at work.",
    "doctor": "Show what isolation this machine offers.",
    "init": "Make a sealyard.toml from your MCP clients.",
    "insights": "Show what was learned from experience, and forget it.",
    "metrics": "Show what was done, how well, and what it saved.",
    "migrate-skills": "Rewrite skills for a tool that has changed, and prove that they still work.",
    "policy": "Show which calls are allowed, asked for or denied, and why.",
    "privacy": "Show what is private, and what was concealed.",
    "prompt": "Print a system prompt that teaches an agent to work through code.",
    "rebuild-metrics": "Count all metrics again from the journal.",
    "restore": "Bring back what a backup holds.",
    "run": "Run Python code in the sandbox.",
    "search": "Find tools of all configured servers by what you want to do.",
    "serve": "Serve all configured MCP servers as one.",
    "skills": "Look after the skills that agents have saved.",
    "token": "Make a token for a client called NAME, and the lines of sealyard.toml that let it in.",
    "tools": "List the tools of all configured servers.",
}
"""Each is the function of the same name, with an underscore for a hyphen, in a module of this package."""
_MODULES = {"migrate-skills": "skills", "rebuild-metrics": "metrics", "restore": "backup", "search": "tools"}
"""Where the module is not named as the command."""


class _LazyGroup(click.Group):
    """Lists its commands from the table above and imports one only to run it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, placeholder, rest = super().resolve_command(ctx, args)
        if name is None or placeholder is None:
            return name, placeholder, rest
        return name, find_command(name), rest


def find_command(name: str) -> click.Command:
    """Import the command of this name."""
    attribute = name.replace("-", "_")
    command: click.Command = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, attribute)}"), attribute)
    return command


def own_command() -> list[str]:
    """Return the command that starts this very sealyard from another folder and search path."""
    script = Path(sys.executable).with_name("sealyard.exe" if sys.platform == "win32" else "sealyard")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "sealyard"]


@click.group(
    cls=_LazyGroup,
    commands={name: click.Command(name, help=sentence) for name, sentence in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="sealyard %(version)s")
def _sealyard() -> None:
    """One MCP server in front of all your MCP servers."""


def _take_over(arguments: list[str]) -> None:
    """Take over the files of the product's former name that a command may need, and say so."""
    if not arguments or arguments[0] not in _COMMANDS or {"-h", "--help"} & set(arguments):
        return
    machine = importlib.import_module("sealyard.config").read_machine()
    for note in importlib.import_module("sealyard.config.clients").take_over_files(machine, own_command()):
        click.echo(f"note: {note}", err=True)


def _cut_frames(record: logging.LogRecord) -> bool:
    from sealyard.serve import ConcealingFilter  # noqa: PLC0415

    return ConcealingFilter(str).filter(record)


def main() -> None:
    """Run the command that the arguments name and exit with its code."""
    gc.set_threshold(_STARTING_OBJECTS)
    _open_missing()
    exit_after(_run)


def _open_missing() -> None:
    """Give each standard stream that is closed the null device: what is opened first would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 - for good
            os.set_inheritable(number, True)  # the lowest that was free; programs that are started need it too


def _run() -> int | None:
    _take_over(sys.argv[1:])
    code: int | None = _sealyard.main(prog_name="sealyard", standalone_mode=False)
    return code


def exit_after(run: Callable[[], int | None]) -> NoReturn:
    """Run a command and exit with its code; report a failure on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # agent code prints characters that the locale may lack
    if logging.lastResort is not None:  # a logged failure is one line, without frames
        logging.lastResort.addFilter(_cut_frames)
    try:
        code = run()
    except click.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except SealyardError as error:
        click.echo(f"error: {error}", err=True)
        code = 2
    except Exception:  # noqa: BLE001 - the last frame: exit code 1 would say that the agent's code failed
        sys.excepthook(*sys.exc_info())
        click.echo("error: This is a fault in sealyard. Report it with the lines above.", err=True)
        code = 2
    sys.exit(code)
