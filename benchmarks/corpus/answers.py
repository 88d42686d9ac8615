"""Known operations on what tools answer."""

import random

from benchmarks.corpus.changes import ANSWER, Mutation, Truth, changed, fields_of, with_field
from benchmarks.corpus.names import other_case, shuffled, unlike
from sealyard.values.tools import ToolSpec


def _answering(spec: ToolSpec) -> ToolSpec:
    """The tool with an answer that has fields."""
    return spec if fields_of(spec) else changed(spec, output_schema=ANSWER)


def rename_field(spec: ToolSpec, chance: random.Random, kind: str) -> Mutation | None:
    """A field of the answer has another name."""
    spec = _answering(spec)
    fields = fields_of(spec)
    for steps, schema in shuffled(fields, chance):
        others = {key[-1]: value for key, value in fields.items() if key[:-1] == steps[:-1]}
        if steps[-1] == "[]":
            continue
        found = (other_case if kind == "case" else unlike)(steps[-1], schema, chance, others)
        if found is None or found[0] in others:
            continue
        return Mutation(
            operation=f"output field renamed, {kind}",
            before=spec,
            after=with_field(spec, steps, found[0], found[1]),
            truths=(Truth(field=steps, field_after=found[0]),),
            is_mechanical=found[2],
            field=steps,
        )
    return None


def remove_field(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """A field of the answer is gone."""
    spec = _answering(spec)
    steps = chance.choice([steps for steps in fields_of(spec) if steps[-1] != "[]"])
    return Mutation(
        operation="output field removed",
        before=spec,
        after=with_field(spec, steps, None),
        truths=(Truth(field=steps),),
        is_mechanical=False,
        field=steps,
    )


def wrap_answer(spec: ToolSpec, chance: random.Random) -> Mutation | None:
    """The whole answer lies under a key now."""
    spec = changed(spec, output_schema=ANSWER)
    wrapped = {"type": "object", "properties": {"payload": ANSWER, "took": {"type": "number"}}, "required": ["payload"]}
    return Mutation(
        operation="answer wrapped",
        before=spec,
        after=changed(spec, output_schema=wrapped),
        truths=(Truth(wrapped="payload"),),
        is_mechanical=False,
        field=chance.choice([steps for steps in fields_of(spec) if steps[-1] != "[]"]),
    )
