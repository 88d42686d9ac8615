"""Recorded answers in the place of upstreams: the same call gets the same answer, in the order in which it got them.

Nothing here reaches a tool. What a trace does not hold is refused with what it does hold, so that a person or a model
can see how the code now asks otherwise than when it was recorded.
"""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sealyard import errors
from sealyard.errors import NotRecorded, SealyardError, ToolFailed
from sealyard.former import FORMER_ERROR
from sealyard.values import CallRecord, Trace, TraceCall

_SHOWN_CHARACTERS = 300
_TOLERANCE = 1e-9
_CUT = "its answer of {:,} bytes was too large to be recorded"
_FILES = "its answer came with files, which are not recorded"
_FAILURES = {
    name: kind
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and issubclass(kind, SealyardError)
}
_FAILURES[FORMER_ERROR] = SealyardError


class Replay:
    """Answers calls from one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.calls = 0
        self.problems: list[str] = []
        """What was asked for and is not in the trace."""
        self._answers: defaultdict[tuple[str, bytes], list[TraceCall]] = defaultdict(list)
        for call in trace.calls:
            self._answers[_key(call.tool, call.arguments)].append(call)
        self._given: defaultdict[tuple[str, bytes], int] = defaultdict(int)

    def answer(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The recorded answer to this call. What was asked more often than recorded gets the last answer again.

        Raises:
            NotRecorded: The trace has no such call.
            SealyardError: The call failed when it was recorded; this is that error.
        """
        call = self.take(tool, arguments)
        if call.error is not None:
            raise replayed_error(call.error)
        return call.answer

    def has(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Whether the trace holds this call."""
        return _key(tool, arguments) in self._answers

    def take(self, tool: str, arguments: dict[str, Any]) -> TraceCall:
        """The recorded call. Raises `NotRecorded`."""
        self.calls += 1
        key = _key(tool, arguments)
        found = self._answers.get(key)
        if not found:
            raise self._missing(f"{tool} with {_shown(arguments)} is not in the recording. {self._nearest(tool)}")
        call = found[min(self._given[key], len(found) - 1)]
        self._given[key] += 1
        if call.missing is not None:
            raise self._missing(f"{tool} with {_shown(arguments)} was called, but {call.missing}.")
        return call

    def _missing(self, problem: str) -> NotRecorded:
        self.problems.append(problem)
        return NotRecorded(problem)

    def _nearest(self, tool: str) -> str:
        """What was recorded instead, in a sentence."""
        same = [call for call in self.trace.calls if call.tool == tool]
        if same:
            return f"It holds {tool} with {_shown(same[0].arguments)}" + (
                f" and {len(same) - 1} more." if len(same) > 1 else "."
            )
        tools = sorted({call.tool for call in self.trace.calls})
        near = difflib.get_close_matches(tool, tools, n=3) or tools[:3]
        return f"It holds calls of {', '.join(near)}." if near else "It holds no call at all."


class Recordings:
    """The calls of several executions, the newest first, as a source of answers for a first recording."""

    def __init__(self, calls: Iterable[CallRecord]) -> None:
        by_execution: dict[str, dict[tuple[str, bytes], list[CallRecord]]] = {}
        for call in calls:
            if isinstance(call.arguments, dict):
                runs = by_execution.setdefault(call.execution_id, {})
                runs.setdefault(_key(call.tool, call.arguments), []).append(call)
        self._executions: Sequence[dict[tuple[str, bytes], list[CallRecord]]] = list(by_execution.values())
        self._given: defaultdict[tuple[str, bytes], int] = defaultdict(int)

    def find(self, tool: str, arguments: dict[str, Any]) -> TraceCall | None:
        """What the newest execution that made this call was answered; None if none did.

        Asked again, its next answer to the same call.
        """
        key = _key(tool, arguments)
        found = next((run[key] for run in self._executions if key in run), None)
        if found is None:
            return None
        call = found[min(self._given[key], len(found) - 1)]
        self._given[key] += 1
        missing = None
        if call.error is None and call.answer is None and call.answer_bytes > len("null"):
            missing = _CUT.format(call.answer_bytes)
        elif _has_files(call.answer):
            missing = _FILES
        return TraceCall(
            tool=call.tool,
            version=call.version,
            arguments=arguments,
            answer=None if missing else call.answer,
            error=call.error,
            missing=missing,
        )


def replayed_error(recorded: str) -> SealyardError:
    """The error that was recorded as `Type: message`."""
    name, _, message = recorded.partition(": ")
    return _FAILURES.get(name, ToolFailed)(message or recorded)


def equal(expected: Any, value: Any) -> bool:
    """Whether two JSON values are the same, but for the last digits of numbers."""
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return expected == value or abs(expected - value) <= _TOLERANCE * max(abs(expected), abs(value))
    if isinstance(expected, dict) and isinstance(value, dict):
        return expected.keys() == value.keys() and all(equal(expected[key], value[key]) for key in expected)
    if isinstance(expected, list) and isinstance(value, list):
        return len(expected) == len(value) and all(map(equal, expected, value))
    return bool(expected == value)


def _key(tool: str, arguments: dict[str, Any]) -> tuple[str, bytes]:
    return tool, msgspec.json.encode(arguments, order="sorted")


def _has_files(answer: Any) -> bool:
    waiting = [answer]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(each.get("file"), str) and each.keys() >= {"mime_type", "bytes"}:
                return True
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return False


def _shown(arguments: dict[str, Any]) -> str:
    text = msgspec.json.encode(arguments).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
