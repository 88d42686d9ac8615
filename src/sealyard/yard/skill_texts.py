"""Skills with nothing private in them: as they are saved, and as they are shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sealyard.errors import InvalidSkill
from sealyard.privacy.guard import Guard
from sealyard.privacy.span import TOKEN
from sealyard.values import Skill, SkillExample, TraceCall

if TYPE_CHECKING:
    from sealyard.yard.skill_values import SaveSkill

__all__ = ("conceal_examples", "conceal_request", "conceal_skill", "conceal_texts")


def conceal_request(request: "SaveSkill", guard: Guard) -> tuple["SaveSkill", list[str]]:
    """The request with nothing private in it, and a word about each line that has changed by that."""
    examples = tuple(
        msgspec.structs.replace(
            each,
            inputs=_conceal_object(each.inputs, guard),
            output=each.output if each.output is msgspec.UNSET else guard.conceal(each.output),
        )
        for each in request.examples
    )
    told = {key: getattr(request, key) for key in ("code", "description", "inputs", "output")}
    told["tags"] = list(request.tags)
    try:
        told = conceal_texts(told, guard)
    except RecursionError:
        raise InvalidSkill("`inputs` or `output` is nested too deep. Use plain, shallow data.") from None
    told["tags"] = tuple(told["tags"])
    concealed = msgspec.structs.replace(request, examples=examples, **told)
    lines = [number for number, line in enumerate(concealed.code.splitlines(), 1) if TOKEN.search(line)]
    warnings = [
        f"Line {number} holds a private value. It is kept as a token, which is good for this session only: make it an"
        " input."
        for number in lines[:5]
    ]
    return concealed, warnings


def conceal_examples(examples: Sequence[SkillExample], guard: Guard) -> list[SkillExample]:
    """Examples that somebody else recorded, with nothing private in them."""

    def conceal(call: TraceCall) -> TraceCall:
        return msgspec.structs.replace(
            call,
            arguments=_conceal_object(call.arguments, guard),
            answer=guard.conceal(call.answer),
            error=guard.conceal(call.error),
        )

    return [
        msgspec.structs.replace(
            each,
            inputs=_conceal_object(each.inputs, guard),
            output=guard.conceal(each.output),
            trace=each.trace and msgspec.structs.replace(each.trace, calls=tuple(map(conceal, each.trace.calls))),
            problem=guard.conceal(each.problem),
        )
        for each in examples
    ]


def _conceal_object(value: dict[str, Any], guard: Guard) -> dict[str, Any]:
    concealed = guard.conceal(value)
    if not isinstance(concealed, dict):  # where code may hold values, one that is in pieces takes all around it along
        raise InvalidSkill("An example spells out a private value. Use another one.")
    return concealed


def conceal_skill(skill: Skill, guard: Guard) -> Skill:
    """The skill with nothing private in its text: it may have been saved when less was concealed."""
    told = {key: getattr(skill, key) for key in ("code", "description", "input_schema", "output_schema")}
    told = conceal_texts(told | {"tags": list(skill.tags)}, guard)
    return msgspec.structs.replace(skill, **told | {"tags": tuple(told["tags"])})


def conceal_texts(value: Any, guard: Guard) -> Any:
    """`value` with nothing private in its texts and numbers, each looked at alone.

    Its keys are ours, or the names of inputs: they say nothing about what is below them.
    """
    texts: list[str | float] = []

    def collect(item: Any) -> None:
        if isinstance(item, str | int | float):
            texts.append(item)
        elif isinstance(item, dict):
            for each in item.values():
                collect(each)
        elif isinstance(item, list):
            for each in item:
                collect(each)

    collect(value)
    concealed = iter([guard.conceal(text) for text in texts])

    def put_back(item: Any) -> Any:
        if isinstance(item, str | int | float):
            return next(concealed)
        if isinstance(item, dict):
            return {key: put_back(each) for key, each in item.items()}
        if isinstance(item, list):
            return [put_back(each) for each in item]
        return item

    return put_back(value)
