"""What an event teaches, worked out beside the event loop: parsing code and walking answers takes its time.

Nothing here fails: what a part cannot make out of an event, that part does not learn, and the others do.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from sealyard.learning.answers import AnswerSeen, prepare_answers
from sealyard.learning.causes import Cause, prepare_cause
from sealyard.learning.code import CodePrint, code_print
from sealyard.learning.domains import infer
from sealyard.learning.flows import Flow, prepare_flows
from sealyard.values import Executed, Forgotten, Hinted, LearningEvent, RunEvidence, Searched, Used

__all__ = ("Lesson", "prepare", "prepare_all", "without_forgotten")

_log = logging.getLogger(__name__)

_REST_SECONDS = 0.25
_T = TypeVar("_T")
_failures: Counter[str] = Counter()


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """An event, and what the parts need to know of it."""

    number: int
    """Of its fact in the journal."""
    event: LearningEvent
    code: CodePrint | None = None
    flows: tuple[Flow, ...] = ()
    answers: tuple[AnswerSeen, ...] = ()
    cause: Cause | None = None
    domain: str = ""
    """What its principal is said to work on, or else what its tools are for; empty if neither is known."""
    faults: tuple[str, ...] = ()
    """The parts that could make nothing of it."""

    @property
    def principal(self) -> str:
        """Whose experience it is."""
        return _principal(self.event)

    @property
    def at(self) -> float:
        """When it was made."""
        return self.event.fact.at if isinstance(self.event, RunEvidence) else self.event.at


def prepare_all(
    events: Iterable[tuple[int, LearningEvent]], forgotten: Sequence[Forgotten] = (), *, rest: float = 0.0
) -> list[Lesson]:
    """The lessons of a page, for a thread.

    It rests after each run, `rest` times as long as that took: the interpreter is for requests first, however much
    there is to learn.
    """
    lessons = []
    for number, event in events:
        started = time.perf_counter()
        if not _is_forgotten(number, event, forgotten):
            lesson = without_forgotten(prepare(event, number), forgotten)
            if lesson is not None:
                lessons.append(lesson)
        if isinstance(event, RunEvidence):
            time.sleep(min(rest * (time.perf_counter() - started), _REST_SECONDS))
    return lessons


def prepare(event: LearningEvent, number: int = 0) -> Lesson:
    """What an event teaches."""
    faults: list[str] = []
    domain = _try("domains", faults, lambda: _domain(event), "")
    if not isinstance(event, RunEvidence):
        return Lesson(number=number, event=event, domain=domain, faults=tuple(faults))
    run = event
    code = _try("code", faults, lambda: code_print(run.code) if run.code else None, None)
    return Lesson(
        number=number,
        event=run,
        code=code,
        flows=_try("chains", faults, lambda: prepare_flows(run), ()),
        answers=_try("shapes", faults, lambda: prepare_answers(run), ()),
        cause=_try("failures", faults, lambda: prepare_cause(run, code), None),
        domain=domain,
        faults=tuple(faults),
    )


def _domain(event: LearningEvent) -> str:
    fact = event.fact if isinstance(event, RunEvidence) else event
    if isinstance(fact, Searched | Executed) and fact.domain:
        return fact.domain
    tools = _tools(event)
    return infer(tools) if tools else ""


def _tools(event: LearningEvent) -> tuple[str, ...]:
    """Full names of the tools that an event is about."""
    match event:
        case Searched(found=found):
            return found
        case Used(tool=tool):
            return (tool,)
        case RunEvidence(fact=fact):
            return fact.tools
        case _:
            return ()


def _try(part: str, faults: list[str], work: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return work()
    except Exception:  # noqa: BLE001 - hostile code and answers: what one part stumbles over must not stop the others
        faults.append(part)
        _failures[part] += 1
        if _failures[part].bit_count() == 1:  # the first, the second, the fourth: not each of thousands
            _log.exception("%d events could not be made out for what is learned of %s.", _failures[part], part)
        return otherwise


# Forgetting


def without_forgotten(lesson: Lesson, forgotten: Sequence[Forgotten]) -> Lesson | None:
    """What is left of a lesson when everything forgotten is taken out; None if nothing is."""
    if _is_forgotten(lesson.number, lesson.event, forgotten):
        return None
    for each in forgotten:
        if each.what == "tool" and lesson.number <= each.number:
            if not isinstance(lesson.event, Searched):
                if _is_about(lesson, each.subject):
                    return None
            elif each.subject in lesson.event.found:
                lesson = msgspec.structs.replace(lesson, event=_without_hit(lesson.event, each.subject))
    return lesson


def _is_forgotten(number: int, event: LearningEvent, forgotten: Sequence[Forgotten]) -> bool:
    """Whether all of it is, whatever it is about."""
    return any(
        number <= each.number
        and (each.what == "all" or (each.what == "principal" and each.subject == _principal(event)))
        for each in forgotten
    )


def _is_about(lesson: Lesson, tool: str) -> bool:
    """Whether it calls, imports or names a tool. What was told of a whole run names none."""
    event = lesson.event
    if isinstance(event, Hinted):
        return tool in event.subject.split()
    if isinstance(event, RunEvidence):
        wanted = _letters(tool)
        named = () if lesson.code is None else lesson.code.tools
        return (
            tool in event.fact.tools
            or any(call.tool == tool for call in event.calls)
            or any(wanted in (_letters(name), f"mcp{_letters(name)}") for name in named)
        )
    return tool in _tools(event)


def _without_hit(search: Searched, tool: str) -> Searched:
    places = [place for place, name in enumerate(search.found) if name != tool]
    return msgspec.structs.replace(
        search,
        found=tuple(search.found[place] for place in places),
        text_ranks=tuple(search.text_ranks[place] for place in places if place < len(search.text_ranks)),
    )


def _letters(name: str) -> str:
    """A name as it is the same for a tool and for the function and module that are made of it."""
    return "".join(filter(str.isalnum, name)).lower()


def _principal(event: LearningEvent) -> str:
    return event.fact.principal if isinstance(event, RunEvidence) else event.principal
