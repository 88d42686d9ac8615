"""Skills as agents and people use them: saved by checking, found, loaded, tested, and kept in step with their tools."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.catalog import Snapshot
from toolyard.catalog.recent import Recent
from toolyard.config import SkillsConfig
from toolyard.discovery import Index
from toolyard.errors import InvalidRequest, InvalidSkill, SkillUnusable, UnknownSkill
from toolyard.privacy.guard import Guard
from toolyard.privacy.span import TOKEN
from toolyard.sandbox.review import review
from toolyard.skills.folder import to_folder
from toolyard.skills.reading import read_skill, signature_of
from toolyard.skills.record import combined, effectiveness
from toolyard.skills.shelf import Shelf, check_name, closure, namespace_of, namespaces_for
from toolyard.skills.skill_md import read_frontmatter
from toolyard.store.skills import SkillRecord
from toolyard.values import (
    SHARED,
    AuditEntry,
    RecordStatus,
    Skill,
    SkillExample,
    SkillNeed,
    SkillStatus,
    ToolNeed,
    ToolSpec,
)
from toolyard.versioning.plan import Difficulty, Plan
from toolyard.versioning.semver import fit, matches
from toolyard.versioning.uses import ToolRef
from toolyard.yard.analysis import SkillAnalysis, analyze_skills
from toolyard.yard.compatibility import Compatibility, NeedCheck, State
from toolyard.yard.rehearsal import Rehearsal, record, replay
from toolyard.yard.skill_session import LoadedSkill, SkillSession

if TYPE_CHECKING:
    from toolyard.yard.yard import Yard

__all__ = (
    "FoundSkill",
    "SaveExample",
    "SaveSkill",
    "SavedSkill",
    "ServedFolder",
    "SkillCheck",
    "SkillSource",
    "Skills",
    "TestedSkill",
)

_MOST_FOUND = 50
_INDEXES = 8
_FOLDERS = 2_000


class SaveSkill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent asks to be kept."""

    name: str
    code: str
    description: str = ""
    inputs: Any = None
    output: Any = None
    tags: tuple[str, ...] = ()
    examples: tuple["SaveExample", ...] = ()
    language: str = "python"


class SaveExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Inputs, and the value that the skill should have for them, if it is known."""

    inputs: dict[str, Any] = {}
    output: Any = msgspec.UNSET


class SavedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept, and what its author should know."""

    skill: Skill
    warnings: tuple[str, ...] = ()


class FoundSkill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One found skill, for somebody who looks for something to use."""

    name: str
    version: str
    use: str
    signature: str
    description: str
    effectiveness: float | None = None
    """From 0 to 1; None if nobody has used it yet."""
    status: SkillStatus = "active"
    shared: bool = False
    warnings: tuple[str, ...] = ()


class TestedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """How the examples of a skill went."""

    skill: Skill
    rehearsals: tuple[Rehearsal, ...]

    @property
    def passed(self) -> bool:
        """Whether there are examples and all of them passed."""
        return bool(self.rehearsals) and all(each.example.passed for each in self.rehearsals)


class SkillSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a skill comes from that somebody else wrote."""

    origin: str
    """Such as `import sha256:…`."""
    author: str
    status: SkillStatus = "quarantined"


class SkillCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, one tool that it needs, and whether that is still so."""

    namespace: str
    name: str
    version: str
    status: SkillStatus
    tool: str
    need: str
    current: str | None
    state: State
    difficulty: Difficulty | None
    """Predicted, for a migration of this very code; None where none is needed."""
    reason: str


class ServedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as the skills extension of MCP serves it."""

    path: str
    """Such as `own/monthly-total`."""
    frontmatter: dict[str, Any]
    files: dict[str, bytes]


class Skills:
    """The skills of one yard."""

    def __init__(self, yard: "Yard", settings: SkillsConfig) -> None:
        self._yard = yard
        self._settings = settings
        self.shelf = Shelf(yard.store.skills)
        self.compatibility = Compatibility(yard.store, yard.catalog)
        self._folders: Recent[tuple[str, str, str], ServedFolder] = Recent(_FOLDERS)
        self._indexes: dict[tuple[str, str, str], tuple[Index, dict[str, Skill]]] = {}

    # Saving

    async def save(self, request: SaveSkill, *, principal: str) -> SavedSkill:
        """Check a skill, run its examples, and keep it: as a draft if none of them passes.

        Raises:
            InvalidSkill: It cannot be kept as it is; nothing was.
            StoreError: It could not be written.
        """
        if request.language not in ("python", "python3"):
            raise InvalidSkill(f"language is {request.language!r}. Only 'python' is kept here.")
        namespace = SHARED if self._settings.save_to == "shared" else namespace_of(principal)
        guard = await self._yard.guards.of(f"{principal}:default")
        view = await self._yard.snapshot(principal)
        await self._yard.store.room()
        request, warnings = _conceal(request, guard)
        skill, more = await self._read(request, namespace, principal, view)
        warnings += more
        load = partial(self.load_for, principal, view, {skill.name: skill})
        examples = []
        for each in request.examples:
            rehearsal = await record(
                self._yard, skill, each.inputs, each.output, principal=principal, load=load, view=view, guard=guard
            )
            examples.append(rehearsal.example)
        if not examples:
            examples = await self._earlier_examples(skill, principal, view, load)
        skill = msgspec.structs.replace(skill, examples=tuple(examples))
        saved = await self.keep(_judged(skill), principal=principal)
        return SavedSkill(skill=saved, warnings=tuple(dict.fromkeys(warnings)))

    async def add(
        self,
        request: SaveSkill,
        examples: Sequence[SkillExample],
        source: SkillSource,
        *,
        namespace: str,
        principal: str,
    ) -> SavedSkill:
        """Keep a skill of somebody else's, in quarantine until a person approves it. Its examples are replayed then.

        Raises:
            InvalidSkill: It cannot be kept as it is; nothing was.
            StoreError: It could not be written.
        """
        view = await self._yard.snapshot()
        guard = await self._yard.guards.of(f"{principal}:default")
        request, warnings = _conceal(request, guard)
        skill, more = await self._read(request, namespace, source.author, view)
        untried = tuple(msgspec.structs.replace(each, passed=False, problem="Not tried yet.") for each in examples)
        note = "It came from elsewhere and waits for approval: toolyard skills approve."
        skill = msgspec.structs.replace(skill, examples=untried, origin=source.origin, status=source.status, note=note)
        saved = await self.keep(skill, principal=principal)
        return SavedSkill(skill=saved, warnings=tuple(dict.fromkeys([*warnings, *more])))

    async def approve(self, namespace: str, name: str, version: str, *, principal: str) -> Skill:
        """Take a skill out of quarantine or make a draft an active one, on a person's word. Its examples are tried.

        Raises:
            UnknownSkill: There is no such version.
        """
        tested = await self.test(namespace, name, version, principal=principal)
        skill = tested.skill
        examples = [each.example for each in tested.rehearsals]
        note = f"Approved by {principal}."
        await self.shelf.set_status(namespace, name, skill.version, "active", note, examples=examples)
        self._audit("skill.status", principal, skill, {"status": "active", "was": skill.status})
        await self._yard.store.flush()
        return await self.get(namespace, name, skill.version)

    async def share(self, namespace: str, name: str, *, principal: str) -> Skill:
        """Put the newest active version of a skill where all principals find it.

        Raises:
            UnknownSkill: There is no active version of it.
        """
        versions = await self._yard.store.skills.versions(namespace, name, with_examples=True)
        skill = next((each for each in versions if each.status == "active"), None)
        if skill is None:
            raise UnknownSkill(f"No active version of {name!r} is there to be shared. Approve one first.")
        shared = msgspec.structs.replace(skill, namespace=SHARED, origin=f"shared from {namespace} {skill.version}")
        return await self.keep(shared, principal=principal)

    async def restore(self, namespace: str, name: str, version: str, *, principal: str) -> Skill:
        """Make an older version the newest again, under a new number. Raises `UnknownSkill`."""
        skill = await self.shelf.restore(namespace, name, version, author=principal)
        self._audit("skill.save", principal, skill, {"status": skill.status, "origin": skill.origin})
        await self._yard.store.flush()
        return skill

    async def delete(self, namespace: str, name: str, version: str | None, *, principal: str) -> list[Skill]:
        """Take one version, or all of them, off the shelf. What executions used of it stays known.

        Raises:
            UnknownSkill: There is none.
        """
        versions = await self.shelf.history(namespace, name)
        gone = [each for each in versions if version is None or matches(version, each.version)]
        if not gone:
            raise UnknownSkill(f"No skill named {name!r}{f' of version {version}' if version else ''} is there.")
        for each in gone:
            await self.shelf.delete(namespace, name, each.version)
            self._audit("skill.status", principal, each, {"status": "deleted", "was": each.status})
        await self._yard.store.flush()
        return gone

    async def _read(self, request: SaveSkill, namespace: str, author: str, view: Snapshot) -> tuple[Skill, list[str]]:
        """The skill that a request describes, checked as far as that goes without running it."""
        check_name(request.name)
        reading = await asyncio.to_thread(
            read_skill,
            request.name,
            request.code,
            inputs=request.inputs,
            output=request.output,
            find=partial(_find_tool, view),
        )
        policy = self._yard.policy_of(author)
        packages = (await self._yard.sandbox()).packages.modules
        verdict = review(request.code, policy, tools=self._yard.tool_names(view), packages=packages)
        refusal = verdict.refusal()
        if refusal is not None:
            line = f"Line {refusal.line}: " if refusal.line else ""
            hint = f" {refusal.hint}" if refusal.hint else ""
            raise InvalidSkill(f"{line}{refusal.message}{hint}")
        needs = []
        for ref in reading.skills:
            if ref.name == request.name:
                raise InvalidSkill(f"Line {ref.lines[0]}: {request.name} imports itself. Call the function directly.")
            needed = await self._resolve(ref.name, ref.pin, author, view)
            needs.append(SkillNeed(name=ref.name, version=needed.skill.version, lines=ref.lines))
        skill = Skill(
            namespace=namespace,
            name=request.name,
            form=reading.form,
            code=request.code,
            description=request.description.strip(),
            input_schema=reading.input_schema,
            output_schema=reading.output_schema,
            tags=request.tags,
            tools=reading.tools,
            skills=tuple(needs),
            author=author,
            level=str(policy.level),
        )
        await self._check_cycles(skill, author, view)
        warned = [finding.message for finding in verdict.findings if finding.severity == "warn"]
        return skill, [*reading.warnings, *warned[:3]]

    async def _check_cycles(self, skill: Skill, principal: str, view: Snapshot) -> None:
        """Raise `InvalidSkill` if what it imports leads back to it, or is not there."""

        async def get(need: SkillNeed) -> Skill:
            if need.name == skill.name:
                return skill
            return (await self._resolve(need.name, None, principal, view, is_deep=False)).skill

        await closure(skill, get)

    async def _earlier_examples(self, skill: Skill, principal: str, view: Snapshot, load: Any) -> list[SkillExample]:
        """Those of the newest version's examples that the new code passes too."""
        versions = await self._yard.store.skills.versions(skill.namespace, skill.name, with_examples=True)
        earlier = versions[0].examples if versions else ()
        rehearsals = [
            await replay(self._yard, skill, each, principal=principal, load=load, view=view)
            for each in earlier
            if each.passed
        ]
        return [each.example for each in rehearsals if each.example.passed]

    async def keep(self, skill: Skill, *, principal: str) -> Skill:
        """Put a skill that was checked on the shelf, durably."""
        saved = await self.shelf.save(skill)
        body = {
            "status": saved.status,
            "digest": saved.digest,
            "origin": saved.origin,
            "tools": {need.tool: need.version for need in saved.tools},
        }
        self._audit("skill.save", principal, saved, body)
        await self._yard.store.flush()
        return saved

    def _audit(self, kind: str, principal: str, skill: Skill, body: dict[str, Any]) -> None:
        told = {"namespace": skill.namespace, "name": skill.name, "version": skill.version, **body}
        self._yard.store.audit(AuditEntry(kind=kind, principal=principal, body=told))

    # Finding and loading

    async def find(self, query: str, *, limit: int = 5, principal: str) -> list[FoundSkill]:
        """Skills for the words of `query` that `principal` can use, the best first. Raises `InvalidRequest`."""
        if not 1 <= limit <= _MOST_FOUND:
            raise InvalidRequest(f"limit is {limit!r}. Give 1 to {_MOST_FOUND}.")
        view = await self._yard.snapshot(principal)
        index, skills = await self._index(principal, view)
        if query.strip():
            names = index.search(query, limit=limit).names
        else:
            newest = sorted(skills.items(), key=lambda item: -item[1].modified_at)
            names = [name for name, _ in newest[:limit]]
        records = combined(await self._yard.store.skills.uses())
        found = [await self._found(skills[name], records, view) for name in names]
        guard = await self._yard.guards.of(f"{principal}:default")
        return [
            msgspec.structs.replace(
                each,
                **_conceal_texts({"signature": each.signature, "description": each.description}, guard),
            )
            for each in found
        ]

    async def load(self, name: str, version: str | None = None, *, principal: str) -> LoadedSkill:
        """A skill as `principal` would import it, `name` or `name@1.2`; its text is concealed.

        Raises:
            UnknownSkill: No skill of this name or version is there for it.
            SkillUnusable: It is there and cannot be used; the message says why.
        """
        view = await self._yard.snapshot(principal)
        loaded = await self._resolve(name, version, principal, view)
        guard = await self._yard.guards.of(f"{principal}:default")
        told = {key: getattr(loaded.skill, key) for key in ("code", "description", "input_schema", "output_schema")}
        shown = msgspec.structs.replace(loaded.skill, **_conceal_texts(told, guard))
        return msgspec.structs.replace(loaded, skill=shown)

    async def visible(self, principal: str, view: Snapshot) -> list[Skill]:
        """The newest version of every skill that code of `principal` can import, its own before the shared ones."""
        own, shared = namespaces_for(principal)
        by_name: dict[str, Skill] = {}
        places: tuple[tuple[str, SkillStatus], ...] = ((own, "active"), (own, "draft"), (shared, "active"))
        for namespace, status in places:
            for skill in await self._yard.store.skills.newest((namespace,), status=status):
                if not self._is_hidden(skill, view):
                    by_name.setdefault(skill.name, skill)
        return list(by_name.values())

    def _is_hidden(self, skill: Skill, view: Snapshot) -> bool:
        """Whether it needs a tool that exists and is not for this principal: then it does not exist either."""
        whole = self._yard.catalog.snapshot.tools
        return any(need.tool in whole and need.tool not in view.tools for need in skill.tools)

    async def analysis(self) -> SkillAnalysis:
        """How well every skill works."""
        return await analyze_skills(self._yard)

    async def unused(self, since: float) -> list[Skill]:
        """Skills that were neither saved nor used since then."""
        used = {(each.namespace, each.name) for each in await self._yard.store.skills.uses(since)}
        return [
            skill
            for skill in await self.shelf.list_all()
            if skill.modified_at < since and (skill.namespace, skill.name) not in used
        ]

    def session(self, principal: str, view: Snapshot, guard: Guard) -> SkillSession:
        """The skills of one execution."""
        return SkillSession(partial(self.load_for, principal, view, {}), view, guard)

    def note_uses(self, session: SkillSession, execution_id: str, principal: str, status: RecordStatus) -> None:
        """Record what an execution made of its skills. Only enqueues."""
        uses = session.uses(execution_id, principal, status)
        if uses:
            self._yard.store.skills.record_uses(uses)

    async def load_for(
        self, principal: str, view: Snapshot, own: dict[str, Skill], name: str, version: str | None
    ) -> LoadedSkill:
        """What an import gets; `own` are skills that are not on the shelf yet, with every need as it was written."""
        skill = own.get(name) if version is None else None
        if skill is None:
            return await self._resolve(name, version, principal, view)
        return LoadedSkill(skill=skill, checks=await self._pinned(skill, view))

    async def _pinned(self, skill: Skill, view: Snapshot) -> tuple[NeedCheck, ...]:
        """Checks that give the skill's own code every tool as it was when it was written."""
        checks = []
        for need in skill.tools:
            spec = view.tools.get(need.tool)
            if spec is not None and spec.digest == need.digest:
                continue
            before = await self._definition(need)
            plan = Plan(before=before, after=None)
            checks.append(NeedCheck(tool=need.tool, need=need.version, state="translated", plan=plan))
        return tuple(checks)

    async def _definition(self, need: ToolNeed) -> ToolSpec:
        release = await self._yard.store.releases.get(need.tool, need.version)
        if release is None:
            raise SkillUnusable(f"The definition of {need.tool} {need.version} is not kept any more.")
        return release.spec

    async def _resolve(
        self, name: str, version: str | None, principal: str, view: Snapshot, *, is_deep: bool = True
    ) -> LoadedSkill:
        checked: dict[str, tuple[NeedCheck, ...]] = {}

        async def why_not(skill: Skill) -> str:
            checks = checked[skill.version] = await self.compatibility.check(skill, view)
            return await self._why_not(skill, checks, principal, view, is_deep=is_deep)

        skill = await self.shelf.resolve(
            name, version, principal, why_not=why_not, is_visible=lambda each: not self._is_hidden(each, view)
        )
        return LoadedSkill(skill=skill, checks=checked[skill.version])

    async def _why_not(
        self, skill: Skill, checks: Sequence[NeedCheck], principal: str, view: Snapshot, *, is_deep: bool
    ) -> str:
        """Why a version cannot be used with the tools and skills that are there; empty if it can."""
        broken = next((check for check in checks if not check.is_usable), None)
        if broken is not None:
            return (
                f"it was written for {broken.tool} {broken.need}. {broken.reason}"
                f" Migrate it: toolyard migrate-skills --tool {broken.tool}."
            )
        for need in skill.skills if is_deep else ():
            needed = (await self._resolve(need.name, None, principal, view)).skill
            if fit(need.version, needed.version) in ("other_major", "older"):
                return (
                    f"it was written for the skill {need.name} {need.version}, which is at {needed.version} now. Look"
                    " at it, and save it again."
                )
        return ""

    async def get(self, namespace: str, name: str, version: str = "") -> Skill:
        """One version with its examples: `1.2` means the newest 1.2.x, and nothing the newest of all.

        Raises:
            UnknownSkill: There is none.
        """
        versions = await self.shelf.history(namespace, name)
        for each in versions:
            if not version or matches(version, each.version):
                return await self.shelf.find_version(namespace, name, each.version) or each
        known = ", ".join(each.version for each in versions[:5]) or "none"
        raise UnknownSkill(
            f"No version {version or 'at all'} of the skill {name!r} in {namespace!r}. There are: {known}."
        )

    async def _index(self, principal: str, view: Snapshot) -> tuple[Index, dict[str, Skill]]:
        key = (principal, view.version, str(await self._yard.store.skills.stamp()))
        found = self._indexes.pop(key, None)
        if found is None:
            skills = {f"mcp__skills__{skill.name}": skill for skill in await self.visible(principal, view)}
            found = Index([_as_tool(name, skill) for name, skill in skills.items()]), skills
        self._indexes[key] = found
        for old in list(self._indexes)[:-_INDEXES]:
            del self._indexes[old]
        return found

    async def _found(self, skill: Skill, records: dict[tuple[str, str], SkillRecord], view: Snapshot) -> FoundSkill:
        known = records.get((skill.namespace, skill.name))
        checks = await self.compatibility.check(skill, view)
        return FoundSkill(
            name=skill.name,
            version=skill.version,
            use=f"from skills import {skill.name}",
            signature=signature_of(skill),
            description=skill.description,
            effectiveness=None if known is None else round(effectiveness(known, now=time.time()), 2),
            status=skill.status,
            shared=skill.namespace == SHARED,
            warnings=tuple(check.reason for check in checks if check.reason),
        )

    async def check_all(self, tool: str | None = None) -> list[SkillCheck]:
        """What became of the tools that skills need: of the newest version of each, or only of `tool`."""
        view = await self._yard.snapshot()
        return [
            await self._predicted(skill, check)
            for skill in await self.shelf.list_all()
            for check in await self.compatibility.check(skill, view)
            if tool in (None, check.tool, check.now)
        ]

    async def _predicted(self, skill: Skill, check: NeedCheck) -> SkillCheck:
        difficulty = check.difficulty
        if check.plan is not None and check.plan.after is not None:
            difficulty = await asyncio.to_thread(_predict, skill, check.plan)
        return SkillCheck(
            namespace=skill.namespace,
            name=skill.name,
            version=skill.version,
            status=skill.status,
            tool=check.tool,
            need=check.need,
            current=check.current,
            state=check.state,
            difficulty=difficulty,
            reason=check.reason,
        )

    # Serving

    async def folders(self, principal: str) -> list[ServedFolder]:
        """The active skills that `principal` can import, as Agent Skills folders for other programs.

        What tools answered when they were recorded is left out, and so are the values of others' examples: whoever
        may use a skill need not be allowed to see what its author saw.
        """
        view = await self._yard.snapshot(principal)
        return [await self._folder(skill) for skill in await self.visible(principal, view) if skill.status == "active"]

    async def _folder(self, skill: Skill) -> ServedFolder:
        key = (skill.namespace, skill.name, f"{skill.version} {skill.digest}")
        known = self._folders.find(key)
        if known is None:
            is_shared = skill.namespace == SHARED
            whole = await self.shelf.find_version(skill.namespace, skill.name, skill.version) or skill
            examples = tuple(
                msgspec.structs.replace(each, trace=None, output=None if is_shared else each.output)
                for each in whole.examples
            )
            folder = to_folder(msgspec.structs.replace(whole, examples=examples), signature=signature_of(whole))
            known = ServedFolder(
                path=f"{'shared' if is_shared else 'own'}/{folder.name}",
                frontmatter=read_frontmatter(folder.files["SKILL.md"]),
                files=dict(folder.files),
            )
            self._folders.put(key, known)
        return known

    # Testing

    async def test(self, namespace: str, name: str, version: str | None = None, *, principal: str) -> TestedSkill:
        """Replay every example of a skill, by default of its newest version. No upstream is asked.

        Raises:
            UnknownSkill: There is no such version.
            SkillUnusable: The definition of a tool that it needs is not kept any more.
        """
        skill = await self.get(namespace, name, version or "")
        view = await self._yard.snapshot()
        owner = principal if namespace == SHARED else namespace
        load = partial(self.load_for, owner, view, {skill.name: skill})
        rehearsals = [
            await replay(self._yard, skill, each, principal=principal, load=load, view=view) for each in skill.examples
        ]
        return TestedSkill(skill=skill, rehearsals=tuple(rehearsals))


def _predict(skill: Skill, plan: Plan) -> Difficulty:
    from toolyard.versioning.migrate import predict  # noqa: PLC0415 - it takes a large library

    return predict(skill.code, [plan], form=skill.form, name=skill.name)


def _judged(skill: Skill) -> Skill:
    """The skill with the status that its examples give it."""
    if any(example.passed for example in skill.examples):
        failed = [example for example in skill.examples if not example.passed]
        note = f"{len(failed)} of {len(skill.examples)} examples did not pass." if failed else ""
        return msgspec.structs.replace(skill, status="active", note=note)
    note = "No example has passed." if skill.examples else "It has no example."
    return msgspec.structs.replace(skill, status="draft", note=note)


def _conceal(request: SaveSkill, guard: Guard) -> tuple[SaveSkill, list[str]]:
    """The request with nothing private in it, and a word about each line that has changed by that."""
    examples = tuple(
        msgspec.structs.replace(
            each,
            inputs=guard.conceal(each.inputs),
            output=each.output if each.output is msgspec.UNSET else guard.conceal(each.output),
        )
        for each in request.examples
    )
    told = {key: getattr(request, key) for key in ("code", "description", "inputs", "output")}
    told["tags"] = list(request.tags)
    told = _conceal_texts(told, guard)
    told["tags"] = tuple(told["tags"])
    concealed = msgspec.structs.replace(request, examples=examples, **told)
    lines = [number for number, line in enumerate(concealed.code.splitlines(), 1) if TOKEN.search(line)]
    warnings = [
        f"Line {number} holds a private value. It is kept as a token, which is good for this session only: make it an"
        " input."
        for number in lines[:5]
    ]
    return concealed, warnings


def _conceal_texts(value: Any, guard: Guard) -> Any:
    """`value` with nothing private in its texts. Its keys are ours, or names of inputs: they say nothing about them."""
    texts: list[str] = []

    def collect(item: Any) -> None:
        if isinstance(item, str):
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
        if isinstance(item, str):
            return next(concealed)
        if isinstance(item, dict):
            return {key: put_back(each) for key, each in item.items()}
        if isinstance(item, list):
            return [put_back(each) for each in item]
        return item

    return put_back(value)


def _find_tool(view: Snapshot, ref: ToolRef) -> ToolSpec | None:
    if ref.full_name is not None:
        return view.find(ref.full_name)
    return view.find(f"servers.{ref.module}.{ref.function}")


def _as_tool(full_name: str, skill: Skill) -> ToolSpec:
    """The skill as the ranker reads it."""
    tags = f" {' '.join(skill.tags)}" if skill.tags else ""
    return ToolSpec(
        upstream="skills",
        name=skill.name,
        full_name=full_name,
        module="skills",
        function=skill.name,
        description=f"{skill.description}{tags}",
        input_schema=skill.input_schema,
        output_schema=skill.output_schema,
        digest=hashlib.sha256(f"{skill.namespace} {skill.digest} {skill.version}".encode()).hexdigest(),
    )
