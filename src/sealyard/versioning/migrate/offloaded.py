"""A migration as a helper process makes it."""

from typing import Any

import msgspec

from sealyard.offload.child import Ask
from sealyard.values import SkillForm
from sealyard.versioning.migrate.migration import migrate, predict
from sealyard.versioning.steps import Plan


class _Given(msgspec.Struct):
    plan: Plan
    form: SkillForm
    name: str


def rewrite(params: Any, body: bytes, memory: Any, ask: Ask) -> tuple[Any, bytes]:
    """`predict` and `migrate` for one plan."""
    given = msgspec.convert(params, _Given)
    code = body.decode("utf-8", "surrogatepass")
    predicted = predict(code, [given.plan], form=given.form, name=given.name)
    migration = migrate(code, [given.plan], form=given.form, name=given.name)
    return {"predicted": predicted, "migration": msgspec.to_builtins(migration)}, b""
