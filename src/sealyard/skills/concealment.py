"""Concealment of private values in requests to save a skill, in skills and in their examples."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from sealyard.errors import InvalidSkill
from sealyard.privacy import TOKEN, Guard
from sealyard.values.skills import SaveSkill, Skill, SkillExample, TraceCall

_Tagged = TypeVar("_Tagged", SaveSkill, Skill)


async def conceal_request(request: SaveSkill, guard: Guard) -> tuple[SaveSkill, list[str]]:
    """Conceal private values in a request, and warn of each line of code that has one."""
    examples = [
        msgspec.structs.replace(
            each,
            inputs=await _conceal_object(each.inputs, guard),
            output=each.output if each.output is msgspec.UNSET else await _conceal(each.output, guard),
        )
        for each in request.examples
    ]
    try:
        concealed = await _conceal_fields(request, ("code", "description", "inputs", "output"), guard)
    except RecursionError:
        raise InvalidSkill("`inputs` or `output` is nested too deep. Use plain, shallow data.") from None
    concealed = msgspec.structs.replace(concealed, examples=tuple(examples))
    lines = [number for number, line in enumerate(concealed.code.splitlines(), 1) if TOKEN.search(line)]
    warnings = [
        f"Line {number} holds a private value. It is kept as a token, which is good for this session only: make it an"
        " input."
        for number in lines[:5]
    ]
    return concealed, warnings


async def conceal_examples(examples: Sequence[SkillExample], guard: Guard) -> list[SkillExample]:
    """Conceal private values in examples that somebody else recorded."""

    async def conceal(call: TraceCall) -> TraceCall:
        return msgspec.structs.replace(
            call,
            arguments=await _conceal_object(call.arguments, guard),
            answer=await _conceal(call.answer, guard),
            error=await _conceal(call.error, guard),
        )

    concealed = []
    for each in examples:
        trace = each.trace
        if trace is not None:
            trace = msgspec.structs.replace(trace, calls=tuple([await conceal(call) for call in trace.calls]))
        inputs = await _conceal_object(each.inputs, guard)
        output, problem = await _conceal(each.output, guard), await _conceal(each.problem, guard)
        concealed.append(msgspec.structs.replace(each, inputs=inputs, output=output, trace=trace, problem=problem))
    return concealed


async def _conceal(value: Any, guard: Guard) -> Any:
    concealed = await guard.door.conceal(value)
    # Examples have a bounded size, so decoding is cheap.
    return msgspec.json.decode(concealed) if isinstance(concealed, msgspec.Raw) else concealed


async def _conceal_object(value: dict[str, Any], guard: Guard) -> dict[str, Any]:
    concealed = await _conceal(value, guard)
    if not isinstance(concealed, dict):  # a value in pieces conceals everything around it
        raise InvalidSkill("An example spells out a private value. Use another one.")
    return concealed


async def conceal_skill(skill: Skill, guard: Guard) -> Skill:
    """Conceal private values in the text of a skill: it may have been saved under weaker rules."""
    return await _conceal_fields(skill, ("code", "description", "input_schema", "output_schema"), guard)


async def _conceal_fields(value: _Tagged, fields: Sequence[str], guard: Guard) -> _Tagged:
    """Conceal private values in these fields of a request or a skill, and in its tags."""
    texts = {name: getattr(value, name) for name in fields} | {"tags": list(value.tags)}
    texts = await conceal_texts(texts, guard)
    return msgspec.structs.replace(value, **texts | {"tags": tuple(texts["tags"])})


async def conceal_texts(value: Any, guard: Guard) -> Any:
    """Conceal private values in the texts and numbers of `value`, each looked at alone.

    Keys are ours, or names of inputs: they say nothing about the values below them.
    """
    texts: list[Any] = []
    _replaced(value, texts.append)
    concealed = iter(await guard.door.conceal_each(texts))
    return _replaced(value, lambda _: next(concealed))


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Replace each text and number in `value`, in their order."""
    if isinstance(value, str | int | float):
        return replace(value)
    if isinstance(value, dict):
        return {key: _replaced(each, replace) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, replace) for each in value]
    return value
