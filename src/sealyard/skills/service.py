"""Skills as agents and people use them: saving, finding, loading, testing, serving, and checks against their tools."""

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.access import Guards, Runner, Tools
from sealyard.catalog import Recent, Snapshot
from sealyard.code import Ref
from sealyard.config.settings import SkillsConfig
from sealyard.discovery import Index
from sealyard.errors import HelperFailed, InvalidRequest, InvalidSkill, SkillUnusable, UnknownSkill
from sealyard.observe import Observer, Recorder
from sealyard.privacy import Guard
from sealyard.sandbox.review import Review, Unbound
from sealyard.skills.concealment import conceal_examples, conceal_request, conceal_skill, conceal_texts
from sealyard.skills.declarations import check_json, read_inputs
from sealyard.skills.loader import Compatibility, Known, LoadedSkill, NeedCheck, SkillLoader, SkillSession
from sealyard.skills.reading import Reading, read_skill, signature_of
from sealyard.skills.rehearsal import Rehearsals
from sealyard.skills.sharing.folder import read_frontmatter, to_folder
from sealyard.skills.shelf import Shelf, as_tool, split_pin
from sealyard.store import Store
from sealyard.values.access import AuditEntry
from sealyard.values.changes import matches
from sealyard.values.runs import RecordStatus, is_python
from sealyard.values.skills import (
    SHARED,
    Difficulty,
    FoundSkill,
    NeedState,
    SavedSkill,
    SaveSkill,
    ServedFolder,
    Skill,
    SkillAnalysis,
    SkillCandidate,
    SkillCheck,
    SkillExample,
    SkillFigures,
    SkillNeed,
    SkillRecord,
    SkillSource,
    SkillSummary,
    SkillTotals,
    TestedSkill,
    namespace_of,
    namespaces_for,
    principal_of,
)
from sealyard.values.tools import ToolSpec, bounded_limit
from sealyard.values.variants import variant
from sealyard.versioning.migrate import rewrite_beside

_log = logging.getLogger(__name__)

_INDEXES = 8  # search indexes, one for each view of the catalog: as many principals search at a time
_CANDIDATES = 20  # candidates listed, the most frequent first
_WORSE: tuple[NeedState, ...] = ("fits", "newer", "translated", "broken", "missing")
_HARDER: tuple[Difficulty | None, ...] = (None, "mechanical", "needs a look", "impossible")
_ALL = "all"  # in place of a version, those of a name together
_VERSIONS_NAMED = 5  # in a message: the newest, one of which is meant most likely
_FOLDERS = 2_000  # rendered folders, a few KiB each
_LONG_CODE = 4_000  # longer code is read by a helper: parsing it holds the interpreter for 8 ms at worst
_EXAMPLES_BYTES = 256 << 10  # examples as an agent sends them, all together; their recordings come on top


class Skills:
    """The skills of one gateway."""

    def __init__(
        self,
        settings: SkillsConfig,
        *,
        store: Store,
        tools: Tools,
        runner: Runner,
        guards: Guards,
        recorder: Recorder,
        observer: Observer,
    ) -> None:
        self._settings = settings
        self.store = store
        self.tools = tools
        self._runner = runner
        self.guards = guards
        self.observer = observer
        self.shelf = Shelf(store)
        self.compatibility = Compatibility(store, tools.catalog)
        self.loading = SkillLoader(store, tools, self.shelf, self.compatibility)
        self.rehearsals = Rehearsals(store=store, tools=tools, runner=runner, guards=guards, recorder=recorder)
        self._folders: Recent[tuple[str, str, str], ServedFolder] = Recent(_FOLDERS)
        self._indexes: Recent[tuple[str, str, str], tuple[Index, dict[str, Skill]]] = Recent(_INDEXES)

    def narrowed(self, tools: Tools, runner: Runner) -> "Skills":
        """The same skills, for runs that see only `tools` and get no more than `runner` gives."""
        return variant(
            self,
            tools=tools,
            _runner=runner,
            loading=self.loading.narrowed(tools),
            rehearsals=variant(self.rehearsals, _tools=tools, _runner=runner),
            _folders=Recent(_FOLDERS),  # concealed by the guards of other sessions
            _indexes=Recent(_INDEXES),  # the same tools may be listed here and there while others are hidden here
        )

    # Saving

    async def save(self, request: SaveSkill, *, principal: str) -> SavedSkill:
        """Check a skill, run its examples, and keep it: as a draft if no example passes.

        Raises:
            InvalidSkill: It cannot be kept. Nothing was.
            StoreError: It could not be written.
        """
        try:
            return await self._save(request, principal)
        except InvalidSkill:
            self.observer.skill("rejected", principal)
            raise

    async def _save(self, request: SaveSkill, principal: str) -> SavedSkill:
        if not is_python(request.language):
            raise InvalidSkill(f"language is {request.language!r}. Only 'python' is kept here.")
        namespace = SHARED if self._settings.save_to == "shared" else namespace_of(principal)
        self._check_bounds(request, namespace, len(request.examples))
        guard = await self.guards.of(self._runner.session_of(principal))
        view = await self.tools.view(principal)
        await self.loading.check_free(request.name, principal, view)
        await self.store.room()
        request, warnings = await conceal_request(request, guard)
        request, imports = await self._with_imports(request, principal, view)
        skill, more = await self._read(request, namespace, principal, view)
        warnings += [*imports, *more]
        load = partial(self.loading.load_for, principal, view, {skill.name: skill})
        sandbox = await self._runner.sandbox()
        examples = []
        for each in request.examples:
            opening = self.rehearsals.open_recording(
                skill, each.inputs, principal=principal, load=load, view=view, guard=guard
            )
            async with opening as recording:
                recording.outcome = await sandbox.run(recording.code, **recording.options)
            examples.append(await recording.judged(each.output))
        if not examples:
            examples = await self._earlier_examples(skill, principal, view, load)
        skill = msgspec.structs.replace(skill, examples=tuple(examples))
        await self.loading.check_free(request.name, principal, view)  # the examples may have run for long
        saved = await self.keep(await self._judged(skill), principal=principal)
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
        """Keep a skill of another author in quarantine until a person approves it. Its examples are replayed then.

        Raises:
            InvalidSkill: It cannot be kept. Nothing was.
            StoreError: It could not be written.
        """
        self._check_bounds(request, namespace, len(examples))
        view = await self.tools.view()
        guard = await self.guards.of(self._runner.session_of(principal))
        request, warnings = await conceal_request(request, guard)
        examples = await conceal_examples(examples, guard)
        owner = principal if namespace == SHARED else principal_of(namespace)  # the source names the author
        skill, more = await self._read(request, namespace, owner, view, is_foreign=True)
        untried = tuple(msgspec.structs.replace(each, passed=False, problem="Not tried yet.") for each in examples)
        note = "It came from elsewhere and waits for approval: sealyard skills approve."
        skill = msgspec.structs.replace(
            skill, examples=untried, author=source.author, origin=source.origin, status="quarantined", note=note
        )
        saved = await self.keep(skill, principal=principal)
        return SavedSkill(skill=saved, warnings=tuple(dict.fromkeys([*warnings, *more])))

    async def approve(self, namespace: str, name: str, version: str, *, principal: str) -> Skill:
        """Make a quarantined skill or a draft active on a person's word, and replay its examples.

        Raises:
            UnknownSkill: There is no such version.
        """
        tested = await self.test(namespace, name, version, principal=principal)
        skill = tested.skill
        examples = tuple(each.example for each in tested.rehearsals)
        note = f"Approved by {principal}."
        await self.shelf.update(msgspec.structs.replace(skill, status="active", note=note, examples=examples))
        self._audit("skill.status", principal, skill, {"status": "active", "was": skill.status})
        await self.store.flush()
        return await self.get(namespace, name, skill.version)

    async def share(self, namespace: str, name: str, *, principal: str) -> Skill:
        """Copy the newest active version of a skill into the shared namespace.

        Raises:
            UnknownSkill: It has no active version.
        """
        versions = await self.store.skills.versions(namespace, name, with_examples=True)
        skill = next((each for each in versions if each.status == "active"), None)
        if skill is None:
            raise UnknownSkill(f"No active version of {name!r} is there to be shared. Approve one first.")
        shared = msgspec.structs.replace(skill, namespace=SHARED, origin=f"shared from {namespace} {skill.version}")
        return await self.keep(shared, principal=principal)

    async def restore(self, namespace: str, name: str, version: str, *, principal: str) -> Skill:
        """Make an older version the newest again, under a new number. Raises `UnknownSkill`."""
        skill = await self.shelf.restore(namespace, name, version, author=principal)
        self._audit("skill.save", principal, skill, {"status": skill.status, "origin": skill.origin})
        await self.store.flush()
        return skill

    async def delete(self, namespace: str, name: str, version: str | None, *, principal: str) -> list[Skill]:
        """Delete one version, or all of them. Their uses stay in the record.

        Raises:
            UnknownSkill: There is no such version.
        """
        versions = await self.store.skills.versions(namespace, name)
        gone = [each for each in versions if version is None or matches(version, each.version)]
        if not gone:
            raise UnknownSkill(f"No skill named {name!r}{f' of version {version}' if version else ''} is there.")
        return await self._delete(gone, principal)

    async def _delete(self, gone: list[Skill], principal: str) -> list[Skill]:
        for each in gone:
            await self.shelf.delete(each.namespace, each.name, each.version)
            self._audit("skill.status", principal, each, {"status": "deleted", "was": each.status})
        await self.store.flush()
        return gone

    async def delete_own(self, name: str, version: str | None, *, principal: str) -> list[Skill]:
        """Delete a version of a skill of the principal's own, by `name` or `name@1.2`, or `all` that it sees.

        A version may be left out if there is only one: clients that fill in every argument send an empty text for one.

        Raises:
            UnknownSkill: The principal sees no such version.
            InvalidRequest: There are several, and none is named.
        """
        name, version = split_pin(name, version)
        namespace, view = namespace_of(principal), await self.tools.view(principal)
        seen = await self.loading.versions(namespace, name, principal, view)
        gone = [each for each in seen if version in (None, _ALL) or matches(version, each.version)]
        if not gone:
            raise UnknownSkill(
                f"No skill named {name!r}{f' of version {version}' if version else ''} is there. find_skills shows "
                "those that are; only a person deletes a shared one."
            )
        if version is None and len(gone) > 1:
            shown = ", ".join(each.version for each in gone[:_VERSIONS_NAMED])
            raise InvalidRequest(
                f"The skill {name!r} has {len(gone)} versions, such as {shown}. Name the one to delete, or {_ALL!r}."
            )
        return await self._delete(gone, principal)

    def _check_bounds(self, request: SaveSkill, namespace: str, examples: int) -> None:
        """Raise `InvalidSkill` for a request over a limit, before anything slow is done with it."""
        self.shelf.check(
            Skill(
                namespace=namespace,
                name=request.name,
                form="function",
                code=request.code,
                description=request.description.strip(),
                tags=request.tags,
                examples=(SkillExample(),) * examples,
            )
        )
        check_json("inputs", request.inputs)
        check_json("output", request.output)
        check_json("examples", request.examples, most_bytes=_EXAMPLES_BYTES)

    async def _read(
        self, request: SaveSkill, namespace: str, author: str, view: Snapshot, *, is_foreign: bool = False
    ) -> tuple[Skill, list[str]]:
        """Build the skill that a request describes, with every check that needs no run."""
        reading = await self._reading(request, view, author)
        verdict = await self._review(request, view, author)
        refusal = verdict.refusal()
        if refusal is not None:
            line = f"Line {refusal.line}: " if refusal.line else ""
            hint = f" {refusal.hint}" if refusal.hint else ""
            raise InvalidSkill(f"{line}{refusal.message}{hint}")
        needs = []
        for ref in reading.skills:
            if ref.name == request.name:
                raise InvalidSkill(f"Line {ref.lines[0]}: {request.name} imports itself. Call the function directly.")
            needed = await self._needed(request.name, ref, author, view, is_foreign=is_foreign)
            needs.append(SkillNeed(name=ref.name, version=needed.version, lines=ref.lines))
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
            level=str(self._runner.policy_of(author).level),
        )
        warned = [finding.message for finding in verdict.findings if finding.severity == "warn"]
        return skill, [*reading.warnings, *warned[:3]]

    async def _with_imports(self, request: SaveSkill, author: str, view: Snapshot) -> tuple[SaveSkill, list[str]]:
        """The request with an import of each tool that a run of its code would find without one.

        A skill is read and migrated by its imports, and a tool that comes later must not take the place of one.
        """
        verdict = await self._review(request, view, author)
        if not verdict.unbound:
            return request, []
        given = {request.name, *read_inputs(request.inputs).named}
        implied = await self.implied_tools(verdict.unbound, view, principal=author, given=given)
        lines = [f"from servers.{server} import {name}" for name, server in implied.items()]
        code, at = request.code, verdict.imports_at
        code = "\n".join([code[:at] + lines[0], *lines[1:], code[at:]]) if lines else code
        return msgspec.structs.replace(request, code=code), [f"Added `{line}`." for line in lines]

    async def _review(self, request: SaveSkill, view: Snapshot, author: str) -> Review:
        packages = (await self._runner.sandbox()).packages.modules
        return await self._runner.review(request.code, self._runner.policy_of(author), view, packages, author)

    async def _reading(self, request: SaveSkill, view: Snapshot, author: str) -> Reading:
        """Read the code of a request, long code in a helper process. Raises `InvalidSkill`."""
        given = {"name": request.name, "inputs": request.inputs, "output": request.output}
        code, offload = request.code, self.guards.offload
        if len(code) <= _LONG_CODE or offload is None:
            return await asyncio.to_thread(read_skill, code=code, find=view.find, **given)

        async def answer(name: Any) -> Any:
            return msgspec.to_builtins(view.find(msgspec.convert(name, str)))

        try:
            found = await offload.run("read_skill", given, code.encode(), who=author, on_query=answer)
        except HelperFailed as error:
            raise InvalidSkill(f"The code could not be read: {error}") from None
        return msgspec.convert(found.result, Reading)

    async def _needed(self, user: str, ref: Ref, author: str, view: Snapshot, *, is_foreign: bool) -> Skill:
        """Find the skill that `user` imports. A skill from elsewhere may import one that is in quarantine too."""
        if is_foreign:
            return await self.shelf.get(ref.name, ref.pin, author)
        known: Known = {user: None, ref.name: None}  # an import that leads back to one of them is a circle
        try:
            return (await self.loading.resolve(ref.name, ref.pin, author, view, known=known)).skill
        except SkillUnusable as error:
            raise InvalidSkill(str(error)) from error

    async def _earlier_examples(self, skill: Skill, principal: str, view: Snapshot, load: Any) -> list[SkillExample]:
        """Return the examples of the newest active version that the new code passes too.

        Of a shared skill, only the author's own examples: the new code must not see answers to another author's tools.
        """
        versions = await self.loading.versions(skill.namespace, skill.name, principal, view)
        newest = next((each for each in versions if each.status == "active"), None)
        if newest is None or (skill.namespace == SHARED and newest.author != skill.author):
            return []
        whole = await self.store.skills.get(newest.namespace, newest.name, newest.version)
        earlier = () if whole is None else whole.examples
        rehearsals = [
            await self.rehearsals.replay(skill, each, principal=principal, load=load, view=view)
            for each in earlier
            if each.passed
        ]
        return [each.example for each in rehearsals if each.example.passed]

    async def _judged(self, skill: Skill) -> Skill:
        """Set the status that the examples of a skill give it.

        A version that would replace a shared skill of another author stays a draft until a person approves it: it would
        run as every principal that imports the skill.
        """
        failed = sum(not example.passed for example in skill.examples)
        if failed == len(skill.examples):
            note = "No example has passed." if skill.examples else "It has no example."
            return msgspec.structs.replace(skill, status="draft", note=note)
        note = f"{failed} of {len(skill.examples)} examples did not pass." if failed else ""
        versions = await self.store.skills.versions(SHARED, skill.name) if skill.namespace == SHARED else []
        authors = {each.author for each in versions if each.status == "active"}
        if not authors or skill.author in authors:
            return msgspec.structs.replace(skill, status="active", note=note)
        note = f"The active version is by {min(authors)}. A person has to approve this one: sealyard skills approve."
        return msgspec.structs.replace(skill, status="draft", note=note)

    async def keep(self, skill: Skill, *, principal: str) -> Skill:
        """Put a checked skill on the shelf, durably. Cancelling the caller does not interrupt it half way."""
        keeping = asyncio.ensure_future(self._keep(skill, principal))
        try:
            return await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await asyncio.wait({keeping})
            if not keeping.cancelled():
                keeping.exception()  # the caller is gone
            raise

    async def _keep(self, skill: Skill, principal: str) -> Skill:
        saved = await self.shelf.save(skill)
        body = {
            "status": saved.status,
            "digest": saved.digest,
            "origin": saved.origin,
            "tools": {need.tool: need.version for need in saved.tools},
        }
        self._audit("skill.save", principal, saved, body)
        self.observer.skill("saved" if saved.status == "active" else "draft", principal)
        await self.store.flush()
        return saved

    def _audit(self, kind: str, principal: str, skill: Skill, body: dict[str, Any]) -> None:
        body = {"namespace": skill.namespace, "name": skill.name, "version": skill.version, **body}
        self.store.audit(AuditEntry(kind=kind, principal=principal, body=body))

    async def implied_tools(
        self, unbound: Sequence[Unbound], view: Snapshot, *, principal: str, given: Collection[str]
    ) -> dict[str, str]:
        """The servers of the functions that code calls without an import, by function.

        Only exactly one server may have it, and neither a value that is `given` nor a skill may have its name.
        """
        found = {
            each.name: servers[0]
            for each in unbound
            if each.name not in given and len(servers := view.servers_of(each.name)) == 1
        }
        skills = {skill.name for skill in await self.loading.visible(principal, view)} if found else set()
        return {name: server for name, server in found.items() if name not in skills}

    # Finding and loading

    async def find(self, query: str, *, limit: int = 5, principal: str) -> list[FoundSkill]:
        """Search the skills that `principal` can use, the best first. Raises `InvalidRequest`."""
        limit = bounded_limit(limit)
        view = await self.tools.view(principal)
        index, skills = await self._index(principal, view)
        if query.strip():
            names = index.search(query, limit=limit).names
        else:
            newest = sorted(skills.items(), key=lambda item: -item[1].modified_at)
            names = [name for name, _ in newest[:limit]]
        records = await self.loading.records()
        found = [await self._found(skills[name], records, view) for name in names]
        guard = await self.guards.of(self._runner.session_of(principal))
        shown = [{"signature": each.signature, "description": each.description} for each in found]
        shown = await conceal_texts(shown, guard)
        return [msgspec.structs.replace(each, **texts) for each, texts in zip(found, shown, strict=True)]

    async def load(self, name: str, version: str | None = None, *, principal: str) -> LoadedSkill:
        """Load a skill as `principal` would import it, by `name` or `name@1.2`, with its text concealed.

        Raises:
            UnknownSkill: The principal sees no skill of this name or version.
            SkillUnusable: It cannot be used; the message says why.
        """
        view = await self.tools.view(principal)
        loaded = await self.loading.resolve(name, version, principal, view)
        return msgspec.structs.replace(loaded, skill=await self.concealed(loaded.skill, principal=principal))

    async def concealed(self, skill: Skill, *, principal: str) -> Skill:
        """A skill with private values in its text concealed: it may have been saved under weaker rules."""
        return await conceal_skill(skill, await self.guards.of(self._runner.session_of(principal)))

    async def unused(self, since: float) -> list[Skill]:
        """List skills that were neither saved nor used since a time."""
        records = await self.store.skills.uses()
        used = {(each.namespace, each.name) for each in records if (each.last_used_at or 0.0) >= since}
        return [
            skill
            for skill in await self.shelf.list_all()
            if skill.modified_at < since and (skill.namespace, skill.name) not in used
        ]

    def session(self, principal: str, view: Snapshot, guard: Guard) -> SkillSession:
        """Open the skills of one execution."""
        return SkillSession(partial(self.loading.load_for, principal, view, {}), view, guard)

    def note_uses(self, session: SkillSession, execution_id: str, principal: str, status: RecordStatus) -> int:
        """Record the skill uses of an execution and return their number. Only enqueues."""
        uses = session.uses(execution_id, principal, status)
        if uses:
            self.store.skills.record_uses(uses)
            self.observer.skills_used(uses)
        return len(uses)

    async def versions(self, namespace: str, name: str, *, principal: str | None = None) -> list[Skill]:
        """The versions of a name, the newest first, without examples; of those, what `principal` may see."""
        if principal is None:
            return await self.store.skills.versions(namespace, name)
        return await self.loading.versions(namespace, name, principal, await self.tools.view(principal))

    async def get(self, namespace: str, name: str, version: str = "", *, principal: str | None = None) -> Skill:
        """One version with its examples: `1.2` means the newest 1.2.x, an empty version the newest of all.

        Raises:
            UnknownSkill: There is no such version, or `principal` may not see it.
        """
        versions = await self.versions(namespace, name, principal=principal)
        for each in versions:
            if not version or matches(version, each.version):
                return await self.store.skills.get(namespace, name, each.version) or each
        known = ", ".join(each.version for each in versions[:5]) or "none"
        raise UnknownSkill(
            f"No version {version or 'at all'} of the skill {name!r} in {namespace!r}. There are: {known}."
        )

    async def _index(self, principal: str, view: Snapshot) -> tuple[Index, dict[str, Skill]]:
        whole = self.tools.catalog.snapshot.version  # skills hidden from the principal depend on it
        key = (principal, view.version, f"{whole} {await self.store.skills.stamp()}")
        found = self._indexes.find(key)
        if found is None:
            visible = await self.loading.visible(principal, view)
            # Without the code, which no search reads: a thousand texts take much memory.
            skills = {f"mcp__skills__{each.name}": msgspec.structs.replace(each, code="") for each in visible}
            specs = [_indexed(name, skill) for name, skill in skills.items()]
            found = await asyncio.to_thread(Index, specs), skills
            self._indexes.put(key, found)
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
            effectiveness=None if known is None else round(known.effectiveness(now=time.time()), 2),
            status=skill.status,
            shared=skill.namespace == SHARED,
            warnings=tuple(check.reason for check in checks if check.reason),
        )

    async def check_all(self, tool: str | None = None) -> list[SkillCheck]:
        """Check the tools that skills need, for the version of each skill in use, or only `tool`."""
        view = await self.tools.view()
        return [
            SkillCheck(
                namespace=skill.namespace,
                name=skill.name,
                version=skill.version,
                status=skill.status,
                tool=check.tool,
                need=check.need,
                current=check.current,
                state=check.state,
                difficulty=await self.difficulty(skill, check),
                reason=check.reason,
            )
            for skill in await self.shelf.list_used()
            for check in await self.compatibility.check(skill, view)
            if tool in (None, check.tool, check.now)
        ]

    async def difficulty(self, skill: Skill, check: NeedCheck) -> Difficulty | None:
        """The difficulty of migrating this code for a checked tool; None if it needs none."""
        if check.difficulty is None or check.plan is None or check.plan.after is None:
            return check.difficulty
        whole = await self.store.skills.get(skill.namespace, skill.name, skill.version) or skill
        try:
            migration = await rewrite_beside(
                whole.code, check.plan, form=whole.form, name=whole.name, offload=self.guards.offload, who=whole.author
            )
        except HelperFailed:
            return "impossible"  # no helper reads it in time
        return foreseen(migration.difficulty, whole)

    async def analyze(self, candidates: Sequence[SkillCandidate] = ()) -> SkillAnalysis:
        """Figures of every skill, the most effective first, and code that could become a skill."""
        view = await self.tools.view()
        newest = await self.shelf.list_all()
        records = await self.loading.records()
        past = await self.store.skills.migrations()
        figures = []
        for skill in newest:
            checks = await self.compatibility.check(skill, view)
            hardest = max([await self.difficulty(skill, check) for check in checks], key=_HARDER.index, default=None)
            figures.append(_figures_of(skill, records.get((skill.namespace, skill.name)), checks, hardest))
        figures.sort(key=lambda each: (-each.effectiveness, each.namespace, each.name))
        statuses = Counter(skill.status for skill in newest)
        sums = await self.store.metrics.sums()
        runs = sums.value("sealyard_execution_total", form="code")
        summary = SkillSummary(
            skills=len(newest),
            active=statuses["active"],
            drafts=statuses["draft"],
            quarantined=statuses["quarantined"],
            uses=sum(each.uses for each in figures),
            executions_share=sums.value("sealyard_skill_runs_total") / runs if runs else 0.0,
            translated=sum(each.translated for each in figures),
            migrations=len(past),
            migrated=sum(each.outcome == "migrated" for each in past),
            predictions_right=sum((each.predicted == "mechanical") == (each.outcome == "migrated") for each in past),
        )
        return SkillAnalysis(summary=summary, skills=tuple(figures), candidates=tuple(candidates[:_CANDIDATES]))

    # Serving

    async def folders(self, principal: str) -> list[ServedFolder]:
        """The active skills that `principal` can import, as Agent Skills folders for other programs.

        Recorded answers are left out, and so are the examples of shared skills: a principal that may use a skill need
        not be allowed to see its author's data.
        """
        view = await self.tools.view(principal)
        guard = await self.guards.of(self._runner.session_of(principal))
        visible = await self.loading.visible(principal, view)
        found = []
        for skill in visible:
            try:
                found += [await self._folder(skill, principal, guard)] if skill.status == "active" else []
            except InvalidSkill as error:  # the others are served
                _log.warning("The skill %s/%s is not served: %s", skill.namespace, skill.name, error)
        return found

    async def _folder(self, skill: Skill, principal: str, guard: Guard) -> ServedFolder:
        key = (principal, f"{skill.namespace}/{skill.name}", f"{skill.version} {skill.digest}")
        known = self._folders.find(key)
        if known is None:
            whole = await self.store.skills.get(skill.namespace, skill.name, skill.version) or skill
            known = await _serve(whole, guard)
            self._folders.put(key, known)
        return known

    # Testing

    async def test(self, namespace: str, name: str, version: str | None = None, *, principal: str) -> TestedSkill:
        """Replay every example of a skill, by default of its newest version, without any upstream.

        Raises:
            UnknownSkill: There is no such version.
            SkillUnusable: The definition of a tool that it needs is no longer stored.
        """
        skill = await self.get(namespace, name, version or "")
        view = await self.tools.view()
        owner = principal if namespace == SHARED else principal_of(namespace)
        load = partial(self.loading.load_for, owner, view, await self._recorded(skill, owner))
        rehearsals = [
            await self.rehearsals.replay(skill, each, principal=principal, load=load, view=view)
            for each in skill.examples
        ]
        return TestedSkill(skill=skill, rehearsals=tuple(rehearsals))

    async def _recorded(self, skill: Skill, owner: str) -> dict[str, Skill]:
        """The skill and everything it imports by name, as they were when it was saved, if they are kept."""
        found = {skill.name: skill}
        waiting = list(skill.skills)
        while waiting:
            need = waiting.pop()
            for namespace in namespaces_for(owner) if need.name not in found else ():
                kept = await self.store.skills.get(namespace, need.name, need.version, with_examples=False)
                if kept is not None:
                    found[need.name] = kept
                    waiting += kept.skills
                    break
        return found


def foreseen(predicted: Difficulty, skill: Skill) -> Difficulty:
    """A migration needs a look if no example of the skill passed and can be replayed: nothing would prove it."""
    is_provable = any(example.passed and example.trace is not None for example in skill.examples)
    return predicted if is_provable or predicted != "mechanical" else "needs a look"


def _figures_of(
    skill: Skill, record: SkillRecord | None, checks: tuple[NeedCheck, ...], hardest: Difficulty | None
) -> SkillFigures:
    """The figures of a skill, from the record of all its versions and the checks of its tools."""
    whole = record or SkillRecord(namespace=skill.namespace, name=skill.name, version=skill.version)
    now = time.time()
    details = [f"{check.tool} {check.need}: {check.state}. {check.reason}".rstrip() for check in checks]
    details += [f"last error: {whole.last_error}"] if whole.last_error else []
    details += [f"its worst need: {max((check.state for check in checks), key=_WORSE.index)}"] if checks else []
    details += [f"its migration, as predicted: {hardest}"] if hardest else []
    details += [skill.note] if skill.note else []
    totals = {name: getattr(whole, name) for name in SkillTotals.__struct_fields__}
    return SkillFigures(
        **totals | {"version": skill.version},
        status=skill.status,
        mean_seconds=whole.seconds / whole.calls if whole.calls else 0.0,
        effectiveness=round(whole.effectiveness(now=now), 3),
        judgement=whole.judge(modified_at=skill.modified_at, now=now),
        difficulty=hardest,
        details=tuple(details),
    )


async def _serve(skill: Skill, guard: Guard) -> ServedFolder:
    """Render the folder of a skill as a principal may see it."""
    is_shared = skill.namespace == SHARED
    examples = () if is_shared else [msgspec.structs.replace(each, trace=None) for each in skill.examples]
    shown = await conceal_skill(skill, guard)
    shown = msgspec.structs.replace(shown, examples=tuple(await conceal_examples(examples, guard)))
    folder = to_folder(shown, signature=signature_of(shown))
    return ServedFolder(
        path=f"{'shared' if is_shared else 'own'}/{folder.name}",
        frontmatter=read_frontmatter(folder.files["SKILL.md"]),
        files=dict(folder.files),
    )


def _indexed(full_name: str, skill: Skill) -> ToolSpec:
    """The skill in the form that the ranker reads."""
    tags = f" {' '.join(skill.tags)}" if skill.tags else ""
    return msgspec.structs.replace(
        as_tool(skill),
        full_name=full_name,
        description=f"{skill.description}{tags}",
        digest=hashlib.sha256(f"{skill.namespace} {skill.digest} {skill.version}".encode()).hexdigest(),
    )
