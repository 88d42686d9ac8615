"""Failures of the agent's code as plain data: the error, its line, and only the agent's own frames.

Exceptions are hostile values here: each of their attributes may raise or hold megabytes. Standard library only.
"""

import errno
import io
import linecache
import traceback
from types import TracebackType
from typing import Any

import hints
from encode import TooLarge, Unrepresentable
from imports import ImportRefused
from wire import ToolError

AGENT_FILE = "<agent>"
SKILL_FOLDER = "skills/"
"""Begins the file name of a skill's code, which lies in no folder."""

_MESSAGE_CHARACTERS = 4_000  # of an exception's text, which the code chooses: the answer shows half of it
_NAME_CHARACTERS = 200  # of a class or a file, which the code chooses too
_LINE_CHARACTERS = 400  # of a source line: generated code has longer ones
_MEMBERS = 5  # of a group of exceptions: tasks that run together fail alike
_OUTER_FRAMES, _INNER_FRAMES = 3, 7  # of a long traceback: where it began and where it failed
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORKS = frozenset({"fork", "forkpty", "fork_exec", "_fork_exec", "posix_spawn", "posix_spawnp"})
"""Functions that make a process: with `EAGAIN` when the limit is reached, as others say that they would wait."""

_LIMITS = {
    "memory": (
        "MemoryExceeded",
        "The code used more memory than its limit allows.",
        "Work on smaller pieces: filter early, use generators, drop what is no longer needed.",
    ),
    "open_files": (
        "OpenFilesExceeded",
        "The code opened more files than its limit allows.",
        "Close files when done: use `with open(...)`.",
    ),
    "workspace": (
        "WorkspaceExceeded",
        "The workspace or the temporary directory is full.",
        "Delete files that are no longer needed, or write less.",
    ),
    "processes": (
        "ProcessesExceeded",
        "The code started more threads or processes than its limit allows.",
        "Use fewer threads; code here cannot start processes unless its policy allows them.",
    ),
}
"""The name, the sentence and the way out of each limit that the code meets as an exception."""


def remember(file: str, code: str) -> list[str]:
    """Keep the lines of what is executed under this name where tracebacks look for them.

    They are the lines as the compiler counts them; `splitlines` would also split at form feeds and the like.
    """
    lines = io.StringIO(code, newline=None).readlines()
    linecache.cache[file] = (len(code), None, lines, file)
    return lines


def describe(error: BaseException, source: list[str]) -> dict[str, Any]:
    """The failure of a run that ended with `error`."""
    try:
        return _describe(error, source)
    except BaseException as worse:
        message = f"(the exception could not be described: that raised {type_name(worse)})"
        return {"kind": "exception", "type": type_name(error), "message": message}


def _describe(error: BaseException, source: list[str]) -> dict[str, Any]:
    kind = kind_of(error)
    name, message, hint = type_name(error), text_of(error), None
    if kind in _LIMITS:
        name, general, hint = _LIMITS[kind]
        message = f"{general} ({type_name(error)}: {message})" if message else general
    frames = own_frames(error.__traceback__)
    line = next((number for file, number, _ in reversed(frames) if file == AGENT_FILE), None)
    if isinstance(error, SyntaxError) and error.filename == AGENT_FILE:
        line = error.lineno
        message = str(error.msg)
    place, hint = _place(frames), hint or _hint(error, message, _find_place(error, source))
    return {
        "kind": kind,
        "type": name,
        "message": message,
        "line": line,
        "source_line": _source_line(source, line),
        "traceback": _format(frames, source),
        "hint": f"{place.rstrip('.')}. {hint}" if place and hint else place or hint,
    }


def kind_of(error: BaseException) -> str:
    """The limit or rule behind an uncaught exception."""
    if isinstance(error, ToolError):  # whatever else it is, the host raised it
        return "calls" if type_name(error) == "CallsExceeded" else "exception"
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError):
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return "open_files"
        if error.errno in _DISK_ERRORS:
            return "workspace"
        if error.errno == errno.EAGAIN and _has_forked(error.__traceback__):
            return "processes"
    if isinstance(error, RuntimeError) and error.args == ("can't start new thread",):
        return "processes"
    if isinstance(error, ImportRefused):
        return "import"
    if isinstance(error, SyntaxError) and error.filename == AGENT_FILE:
        return "syntax"
    if isinstance(error, Unrepresentable | TooLarge):
        return "result"
    return "exit" if isinstance(error, SystemExit) else "exception"


def _has_forked(trace: TracebackType | None) -> bool:
    """True if the innermost code names a function that makes a process."""
    names = [frame.f_code.co_names for frame, _ in traceback.walk_tb(trace)]
    return bool(names) and not _FORKS.isdisjoint(names[-1])


def text_of(error: BaseException) -> str:
    """The exception's own words, bounded; survives an exception that misbehaves when asked."""
    try:
        text = str(error)
        if isinstance(error, BaseExceptionGroup):
            inner = "; ".join(f"{type_name(item)}: {item}" for item in error.exceptions[:_MEMBERS])
            text = f"{text}: {inner}"
    except BaseException as failure:
        return f"(the exception's text could not be had: its __str__ raised {type_name(failure)})"
    if len(text) > _MESSAGE_CHARACTERS:
        text = f"{text[:_MESSAGE_CHARACTERS]}… (+{len(text) - _MESSAGE_CHARACTERS} characters)"
    return text.encode("utf-8", "backslashreplace").decode()


def type_name(error: BaseException) -> str:
    """The real name of the class, past what a metaclass may answer to `__name__`."""
    return str(type.__dict__["__name__"].__get__(type(error)))[:_NAME_CHARACTERS]


def own_frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """File, line and function name of the frames that are the agent's or a skill's, outermost first."""
    return [
        (file, number, frame.f_code.co_name)
        for frame, number in traceback.walk_tb(trace)
        if (file := frame.f_code.co_filename) == AGENT_FILE or file.startswith(SKILL_FOLDER)
    ]


def _place(frames: list[tuple[str, int, str]]) -> str | None:
    """The place inside a skill where it happened, if it did."""
    if not frames or frames[-1][0] == AGENT_FILE:
        return None
    file, number, _ = frames[-1]
    text = _source_line(linecache.getlines(file), number)
    return f"It happened in {file[:_NAME_CHARACTERS]}, line {number}" + (f": {text}" if text else ".")


def _format(frames: list[tuple[str, int, str]], source: list[str]) -> str:
    lines = []
    skipped = len(frames) - _OUTER_FRAMES - _INNER_FRAMES
    for index, (file, number, function) in enumerate(frames):
        if skipped > 0 and _OUTER_FRAMES <= index < _OUTER_FRAMES + skipped:
            if index == _OUTER_FRAMES:
                lines.append(f"… {skipped} more frames …")
            continue
        place = "" if file == AGENT_FILE else f"{file[:_NAME_CHARACTERS]}, "
        lines.append(f"{place}line {number}, in {function}")
        text = _source_line(linecache.getlines(file) if place else source, number)
        if text:
            lines.append(f"    {text}")
    return "\n".join(lines)


def _source_line(source: list[str], number: int | None) -> str | None:
    if number is None or not 1 <= number <= len(source):
        return None
    return source[number - 1].strip()[:_LINE_CHARACTERS]


def _hint(error: BaseException, message: str, place: hints.Place) -> str | None:
    if isinstance(error, ToolError):
        is_limit = kind_of(error) == "calls"
        # About other errors of tools the gateway knows more.
        return "Call tools fewer times: ask for more in one call, or split the job." if is_limit else None
    if isinstance(error, BaseExceptionGroup):
        inner = error.exceptions[0]
        return _hint(inner, text_of(inner), _find_place(inner, []))
    if isinstance(error, ImportRefused):
        return "Tools are functions: call them for what lies outside. Other modules need another isolation level."
    if isinstance(error, RuntimeError) and "event loop" in message:
        return "The code already runs in an event loop when it uses await: write `await main()`, not asyncio.run()."
    if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.EROFS):
        return "The sandbox forbids it: no network, no processes, no writing outside the workspace."
    try:
        return hints.way_out(error, message, place)
    except BaseException:  # the exception and the values are hostile, and a hint is not worth losing the report
        return None


def _find_place(error: BaseException, source: list[str]) -> hints.Place:
    """The innermost place that is the agent's or a skill's."""
    frame, lasti, trace = None, -1, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file == AGENT_FILE or file.startswith(SKILL_FOLDER):
            frame, lasti = trace.tb_frame, trace.tb_lasti
            source = linecache.getlines(file)
        trace = trace.tb_next
    return hints.place_of(frame, lasti, source)
