"""Whether a tool that changed its schema still takes what it took, or still gives what it gave.

`compatible` is proven: with an input schema every value that fitted still fits, with an output schema every value that
fits now would have fitted. `breaking` is all the rest, also what is too large, too deep or too strange to be judged.

Keys that a schema neither declares nor gives a schema to are no part of the interface: a tool may declare such a key
later and it may begin to refuse unknown ones. A key that was declared must stay declared, even where the schema would
let it pass as an unknown one. What an explicit `additionalProperties: true` promised may not be withdrawn.
"""

from typing import Any, Literal

from sealyard.versioning.compare.cases import Budget, Exhausted
from sealyard.versioning.compare.proof import Prover
from sealyard.versioning.compare.schemas import Document, Numbers, TooLarge

Schema = dict[str, Any] | bool
Verdict = Literal["compatible", "breaking"]

STEPS = 10_000
"""What one comparison may cost, in steps of a proof."""


def input_verdict(before: Schema, after: Schema, *, top: bool = True) -> Verdict:
    """Whether every value that fits `before` fits `after`. `top`: they are schemas of a tool's arguments."""
    return _verdict(before, after, keep="left", top=top)


def output_verdict(before: Schema, after: Schema) -> Verdict:
    """Whether every value that fits `after` fits `before`."""
    return _verdict(after, before, keep="right", top=False)


def _verdict(left: Schema, right: Schema, *, keep: Literal["left", "right"], top: bool) -> Verdict:
    if left is right:
        return "compatible"
    documents, numbers = (Document(left), Document(right)), Numbers()
    try:
        for document in documents:
            numbers.add(document)
        prover = Prover(*documents, numbers=numbers, budget=Budget(STEPS), keep=keep)
        return "compatible" if prover.proves([left], right, top=top) else "breaking"
    except (TooLarge, Exhausted, RecursionError):  # the last one only where the caller is deep down already
        return "breaking"
