"""What answers the calls of one execution: the broker, the search, and the skills that its code imports."""

from typing import TYPE_CHECKING, Any

import msgspec

from sealyard.broker.answers import Answer, renamed
from sealyard.broker.call import Passage
from sealyard.catalog import Snapshot
from sealyard.errors import InvalidRequest, UnknownTool
from sealyard.offload import decode
from sealyard.sandbox.worker import OWN_CALLS
from sealyard.values import Grant, Reply, ToolSpec
from sealyard.versioning.plan import Plan, translate_answer, translate_arguments
from sealyard.yard.observing import Run
from sealyard.yard.skill_session import SkillSession

if TYPE_CHECKING:
    from sealyard.yard.yard import Yard

__all__ = ("Calls", "find_tool")

_NAME_CHARACTERS = 200
"""Of a name that no tool has, in what is said about it."""


class Calls:
    """Answers one execution's calls. Each is hostile input."""

    def __init__(
        self, yard: "Yard", grant: Grant, snapshot: Snapshot, passage: Passage, skills: SkillSession, run: Run
    ) -> None:
        self._yard = yard
        self._grant = grant
        self._snapshot = snapshot
        self._passage = passage
        self._skills = skills
        self._run = run
        self._count = 0

    async def answer(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the code gets. Raises what it is to see raised."""
        if name in OWN_CALLS:
            return await self._skills.answer(name, arguments)
        if name == "search_tools":
            asked = _search_arguments(arguments)
            found = await self._yard.find_tools(
                **asked,
                visit=self._run.visit,
                view=self._snapshot,
                guard=self._passage.guard,
                execution_id=self._grant.execution_id,
            )
            return [msgspec.to_builtins(hit) for hit in found.hits]
        self._count += 1
        number = self._count
        try:
            spec, plan = self._skills.find_plan(name) or (self._find(name), None)
        except UnknownTool as error:
            await self._yard.journal.note_unknown(self._grant, self._passage.guard, name, error, number=number)
            raise
        if plan is not None:
            arguments = translate_arguments(plan, arguments)
        await self._yard.store.room()
        answer, encoded = await self._yard.call_tool(
            self._grant, spec, arguments, number=number, passage=self._passage, run=self._run
        )
        if isinstance(answer.value, msgspec.Raw) and (plan is not None or answer.files):
            # It has to be changed, so it has to be read after all.
            who, what = self._grant.principal, f"The answer of {spec.full_name!r}"
            value = await decode(encoded, self._yard.offload, who=who, what=what)
            answer = msgspec.structs.replace(answer, value=value)
        if plan is not None:
            answer, encoded = _as_before(plan, answer, encoded)
        if not answer.files:
            return msgspec.Raw(encoded)
        # Another run of the session must not write over it.
        place = f"files/{self._grant.execution_id[:8]}-{number}"
        paths = {file.name: f"{place}-{file.name}" for file in answer.files}
        return Reply(
            value=renamed(answer.value, paths), files={paths[file.name]: file.content for file in answer.files}
        )

    def _find(self, name: str) -> ToolSpec:
        return self._grant.tools.get(name) or find_tool(self._snapshot, name)


def find_tool(snapshot: Snapshot, name: str) -> ToolSpec:
    """The tool of this name. Raises `UnknownTool` with those whose names are like it."""
    spec = snapshot.find(name)
    if spec is None:
        nearest = ", ".join(map(repr, snapshot.nearest(name)))
        hint = f"Nearest: {nearest}." if nearest else "Call search_tools to find one that exists."
        raise UnknownTool(f"No tool named {name[:_NAME_CHARACTERS]!r}. {hint}")
    return spec


def _as_before(plan: Plan, answer: Answer, encoded: bytes) -> tuple[Answer, bytes]:
    """The answer as the older version of the tool would have given it."""
    value = translate_answer(plan, answer.value)
    if value is answer.value:
        return answer, encoded
    return msgspec.structs.replace(answer, value=value), msgspec.json.encode(value)


def _search_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """A search from inside the sandbox, where nothing has checked it yet. Raises `InvalidRequest`."""
    try:
        return msgspec.to_builtins(msgspec.convert(arguments, _Search))  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"search_tools cannot be asked so: {error}.") from None


class _Search(msgspec.Struct, frozen=True, kw_only=True):
    query: str = ""
    detail_level: str = "with_description"
    server: str | None = None
    limit: int = 5
