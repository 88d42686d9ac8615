"""Migrations that do not hold up the event loop: a helper process rewrites code that anybody may have written."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from sealyard.offload import Offload
from sealyard.values import SkillForm
from sealyard.versioning.steps import Difficulty, Plan

if TYPE_CHECKING:
    from sealyard.versioning.migrate.migration import Migration


async def rewrite_beside(
    code: str, plan: Plan, *, form: SkillForm, name: str, offload: Offload | None, who: str
) -> "tuple[Difficulty, Migration]":
    """How hard it is to migrate `code`, and what comes of it. Raises `HelperFailed` if that takes too long."""
    from sealyard.versioning.migrate.migration import Migration, migrate, predict  # noqa: PLC0415 - it takes a large library

    if offload is None:
        predicted = await asyncio.to_thread(predict, code, [plan], form=form, name=name)
        return predicted, await asyncio.to_thread(migrate, code, [plan], form=form, name=name)
    params = {"plan": plan, "form": form, "name": name}
    made = (await offload.run("rewrite", params, code.encode("utf-8", "surrogatepass"), who=who)).result
    return made["predicted"], msgspec.convert(made["migration"], Migration)
