"""The skills of one execution: what its code imports, what became of each call, and the tool calls made for old ones.

The guest asks with calls of reserved names. Whatever it reports is the code's own word: it is bounded, it can only be
about skills that this execution was given, and it counts as one use of each.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.stubs import stub_file
from sealyard.errors import InvalidRequest, UnknownTool
from sealyard.privacy import Guard
from sealyard.skills.compatibility import NeedCheck
from sealyard.values import RecordStatus, Skill, SkillUse, ToolSpec
from sealyard.versioning import Plan

_MOST_SKILLS = 100
_MOST_ASKED = 2 * _MOST_SKILLS
_MOST_REPORTS = 10_000
_ERROR_CHARACTERS = 500
_MOST_SECONDS = 86_400.0


class LoadedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that may be used, with what became of the tools it needs."""

    skill: Skill
    checks: tuple[NeedCheck, ...]

    @property
    def warnings(self) -> list[str]:
        """What whoever uses it should know."""
        return [check.reason for check in self.checks if check.reason]


Load = Callable[[str, str | None], Awaitable[LoadedSkill]]
"""Gives a skill by name and version. Raises `UnknownSkill` or `SkillUnusable`."""


class _LoadArguments(msgspec.Struct):
    name: str
    version: str | None = None


class _StubArguments(msgspec.Struct):
    server: str
    function: str


class _Report(msgspec.Struct):
    name: str
    version: str
    seconds: float = 0.0
    error: str | None = None


class _Use:
    def __init__(self, skill: Skill) -> None:
        self.skill = skill
        self.calls = 0
        self.open = 0
        self.failures = 0
        self.seconds = 0.0
        self.error: str | None = None
        """Concealed."""
        self.translated = 0


class SkillSession:
    """Gives one execution its skills, and remembers what it made of them."""

    def __init__(self, load: Load, snapshot: Snapshot, guard: Guard) -> None:
        self._load = load
        self._snapshot = snapshot
        self._guard = guard
        self._uses: dict[tuple[str, str], _Use] = {}
        self._plans: dict[str, tuple[Plan, _Use]] = {}
        """`mcp__x__y@1.2.0` -> how a call of that version is carried out now, and for which skill."""
        self._asked = 0
        self._reports = 0
        self.notes: list[str] = []

    async def answer(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the guest gets for a call of a reserved name. Raises what is wrong with it."""
        if name == "load_skill":
            asked = _convert(arguments, _LoadArguments)
            return await self._give(asked.name, asked.version)
        if name == "load_stub":
            return self._stub(_convert(arguments, _StubArguments))
        report = _convert(arguments, _Report)
        self._reports += 1
        use = self._uses.get((report.name, report.version))
        if use is not None and self._reports <= _MOST_REPORTS:
            await self._note(name, report, use)
        return None

    def find_plan(self, name: str, *, is_used: bool = True) -> tuple[ToolSpec, Plan] | None:
        """The tool that a call of `tool@version` means now, and how to translate it; None for any other name.

        It counts as a translated call of the skill unless `is_used` is false.

        Raises:
            UnknownTool: No skill of this execution needs that version.
        """
        if "@" not in name:
            return None
        found = self._plans.get(name)
        if found is None or found[0].after is None:
            raise UnknownTool(f"No tool named {name!r}. Name it without a version: only skills call older ones.")
        plan, use = found
        use.translated += is_used
        assert plan.after is not None
        return self._snapshot.tools[plan.after.full_name], plan

    def uses(self, execution_id: str, principal: str, status: RecordStatus) -> list[SkillUse]:
        """One record for each skill that was called, now that the execution has ended so."""
        found = []
        for use in self._uses.values():
            if not use.calls:
                continue
            failures, error = use.failures, use.error
            if use.open and status != "ok":  # it was running when the execution was ended
                failures, error = failures + 1, error or f"The execution ended: {status}."
            found.append(
                SkillUse(
                    namespace=use.skill.namespace,
                    name=use.skill.name,
                    version=use.skill.version,
                    execution_id=execution_id,
                    principal=principal,
                    at=time.time(),
                    calls=use.calls,
                    failures=failures,
                    seconds=use.seconds,
                    error=error,
                    translated=use.translated,
                )
            )
        return found

    def _stub(self, asked: "_StubArguments") -> str:
        """The text of a tool's stub, for code that imports it before its file is written. Raises `UnknownTool`."""
        spec = self._snapshot.find(f"servers.{asked.server}.{asked.function}")
        if spec is None:
            raise UnknownTool(f"No tool named {asked.function!r} on server {asked.server!r}.")
        return stub_file(spec, self._snapshot.shapes.get(spec.full_name))

    async def _give(self, name: str, version: str | None) -> dict[str, Any]:
        self._asked += 1  # the guest asks once for each name and version, also for what is not there
        if len(self._uses) >= _MOST_SKILLS or self._asked > _MOST_ASKED:
            raise InvalidRequest(f"This run has loaded {_MOST_SKILLS} skills. Split the job.")
        loaded = await self._load(name, version)
        skill = loaded.skill
        use = self._uses.setdefault((skill.name, skill.version), _Use(skill))
        shims = []
        for check in loaded.checks:
            if check.plan is None or not check.is_usable:
                continue
            before = check.plan.before
            versioned = f"{check.tool}@{check.need}"
            self._plans[versioned] = (check.plan, use)
            stub = stub_file(msgspec.structs.replace(before, full_name=versioned))
            shims.append({"module": before.module, "function": before.function, "stub": stub})
        self.notes += [f"skill {skill.name} {skill.version}: {warning}" for warning in loaded.warnings]
        return {
            "name": skill.name,
            "version": skill.version,
            "form": skill.form,
            "code": skill.code,
            "inputs": skill.input_schema,
            "status": skill.status,
            "warnings": loaded.warnings,
            "shims": shims,
            "tools": {need.tool: need.version for need in skill.tools},
        }

    async def _note(self, name: str, report: _Report, use: _Use) -> None:
        if name == "skill_began":
            use.calls += 1
            use.open += 1
            return
        if use.open:
            use.open -= 1
            use.seconds += min(max(report.seconds, 0.0), _MOST_SECONDS)
            if report.error is not None:
                use.failures += 1
                use.error = await self._guard.door.conceal(report.error[:_ERROR_CHARACTERS])


def _convert(arguments: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The guest asked in the wrong way: {error}.") from None
