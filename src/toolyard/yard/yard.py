"""The yard: everything an agent can ask for, each as one method. `Yard.execute` is the request path."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from toolyard.broker.answers import Answer
from toolyard.broker.call import Broker, OnProgress, ToolServer
from toolyard.catalog import Catalog, Snapshot
from toolyard.errors import InvalidRequest, SandboxClosed, UnknownTool
from toolyard.sandbox.policy.levels import IsolationPolicy
from toolyard.sandbox.review import ToolNames, review
from toolyard.sandbox.run import Sandbox
from toolyard.sandbox.worker import OnCall, OnOutput, Reply
from toolyard.sandbox.workspace import check_session_name
from toolyard.store import Store
from toolyard.values import (
    ExecutionRecord,
    Failure,
    Grant,
    Limits,
    Outcome,
    RecordStatus,
    Result,
    SearchAnswer,
    ToolSpec,
    UpstreamStatus,
    Usage,
)
from toolyard.yard.executions import ExecuteRequest, Execution, Executions
from toolyard.yard.finder import Finder
from toolyard.yard.results import preview_bytes, render

__all__ = ("MAX_SECONDS", "Yard")

MAX_SECONDS = 120.0
_SESSION_CHARACTERS = 50
_FIRST_LIST_SECONDS = 15.0  # for upstreams whose tools nobody knows yet, before a first search or run goes on without


class Yard:
    """The gateway without its wires. Make one with `open_yard`."""

    def __init__(
        self,
        *,
        policy: IsolationPolicy,
        store: Store,
        catalog: Catalog,
        upstreams: Mapping[str, ToolServer],
        finder: Finder,
        sandbox: "asyncio.Future[Sandbox] | None",
        result_tokens: int,
    ) -> None:
        self.policy = policy
        self.store = store
        self.catalog = catalog
        self.upstreams = upstreams
        self.finder = finder
        self.result_tokens = result_tokens
        self.broker = Broker(upstreams, record=store.record_call)
        self.executions = Executions(self._execute)
        self.opening = sandbox
        """Done when code can be run."""
        self._names: tuple[str, ToolNames] | None = None

    async def execute(
        self,
        request: ExecuteRequest,
        *,
        principal: str = "local",
        on_output: OnOutput | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Run the code and return what the agent may see of it. It is in the journal before this returns.

        Raises:
            InvalidRequest: The request is wrong; nothing was run.
            SandboxBroken: The host side failed; whether the code ran is unknown.
            StoreError: It could not be recorded: it was not begun, or it ran and its end is not in the journal.
        """
        return await self._execute(Execution(request, principal), on_output=on_output, on_progress=on_progress)

    async def _execute(
        self, execution: Execution, *, on_output: OnOutput | None = None, on_progress: OnProgress | None = None
    ) -> Result:
        request = execution.request
        limits = self._limits(request)
        snapshot = await self.snapshot()
        sandbox = await self.sandbox()
        session = _session_of(execution.principal, request.session)
        await self.store.room()  # what cannot be recorded is not begun
        grant = Grant(execution_id=execution.id, principal=execution.principal, session=session, tools=snapshot.tools)
        record = self._begin(grant, request.code, request.context, snapshot, background=execution.background)
        outcome: Outcome | None = None
        status: RecordStatus = "cancelled"
        try:
            if execution.background:
                await self.store.flush()
                execution.recorded.set()
            verdict = review(
                request.code, self.policy, tools=self._tool_names(snapshot), packages=sandbox.packages.modules
            )
            refusal = verdict.refusal()
            if refusal is not None:
                outcome = _refused(execution.id, self.policy, refusal, session)
            else:
                outcome = await sandbox.run(
                    request.code,
                    context=request.context,
                    limits=limits,
                    on_call=self._on_call(grant, snapshot, on_progress),
                    on_output=on_output or (execution.on_output if execution.background else None),
                    session=session,
                    execution_id=execution.id,
                )
            status = outcome.status
        except Exception:
            status = "broken"
            raise
        finally:
            self._end(record, status, outcome)
        await self.store.flush()
        workspace = sandbox.workspace(session) if session in sandbox.sessions() else None
        warnings = tuple(finding.message for finding in verdict.findings if finding.severity == "warn")
        return render(outcome, budget_tokens=self.result_tokens, workspace=workspace, notes=warnings[:3])

    async def search(
        self, query: str, *, detail_level: str = "with_description", server: str | None = None, limit: int = 5
    ) -> SearchAnswer:
        """Tools for the words of `query`, the best first. Raises `InvalidRequest`."""
        await self._first_lists()
        return await self.finder.search(query, detail_level=detail_level, server=server, limit=limit)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        principal: str = "local",
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Call one tool without code: an execution of a single call, recorded as such.

        Raises:
            UnknownTool: No tool has this name.
            InvalidArguments: The arguments do not fit.
            UpstreamError: The server or the tool failed.
        """
        snapshot = await self.snapshot()
        spec = _find(snapshot, name)
        await self.store.room()
        grant = Grant(execution_id=secrets.token_hex(8), principal=principal, session=principal, tools=snapshot.tools)
        record = self._begin(grant, "", None, snapshot)
        status: RecordStatus = "failed"
        try:
            answer, _ = await self.broker.call(grant, spec, arguments, number=1, on_progress=on_progress)
            status = "ok"
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        finally:
            self._end(record, status, None)
        await self.store.flush()
        return answer

    async def snapshot(self) -> Snapshot:
        """The catalog, once every upstream has had its chance to list its tools."""
        await self._first_lists()
        return await self.finder.ready()

    async def sandbox(self) -> Sandbox:
        """The sandbox, which is built while the gateway already answers."""
        if self.opening is None:
            raise SandboxClosed("This yard was opened without a sandbox.")
        return await asyncio.shield(self.opening)

    def statuses(self) -> list[UpstreamStatus]:
        """How every upstream is, with definitions that changed since they were pinned among its warnings."""
        found = []
        for name in sorted(self.upstreams):
            status = self.upstreams[name].status()
            changes = self.catalog.changes_of(name)
            known = len(self.catalog.snapshot.by_upstream.get(name, ()))
            found.append(msgspec.structs.replace(status, tools=known, warnings=(*status.warnings, *changes)))
        return found

    async def close(self) -> None:
        """End what runs in the background."""
        await self.executions.close()

    def _begin(
        self,
        grant: Grant,
        code: str,
        context: dict[str, Any] | None,
        snapshot: Snapshot,
        *,
        background: bool = False,
    ) -> ExecutionRecord:
        record = ExecutionRecord(
            execution_id=grant.execution_id,
            principal=grant.principal,
            session=grant.session,
            code=code,
            context=context,
            started_at=time.time(),
            catalog_version=snapshot.version,
            background=background,
        )
        self.store.record_start(record)
        return record

    def _end(self, record: ExecutionRecord, status: RecordStatus, outcome: Outcome | None) -> None:
        self.store.record_end(msgspec.structs.replace(record, ended_at=time.time(), status=status, outcome=outcome))

    def _on_call(self, grant: Grant, snapshot: Snapshot, on_progress: OnProgress | None) -> OnCall:
        """What answers the calls of one execution: the broker, and the one tool of our own."""
        count = 0

        async def on_call(name: str, arguments: dict[str, Any]) -> Any:
            nonlocal count
            if name == "search_tools":
                answer = await self.finder.search(**_search_arguments(arguments))
                return [msgspec.to_builtins(hit) for hit in answer.hits]
            count += 1
            number = count
            spec = grant.tools.get(name) or _find(snapshot, name)
            await self.store.room()
            found, encoded = await self.broker.call(grant, spec, arguments, number=number, on_progress=on_progress)
            if not found.files:
                return msgspec.Raw(encoded)
            place = f"files/{grant.execution_id[:8]}-{number}"  # another run of the session must not write over it
            paths = {file.name: f"{place}-{file.name}" for file in found.files}
            return Reply(
                value=_renamed(found.value, paths), files={paths[file.name]: file.content for file in found.files}
            )

        return on_call

    def _limits(self, request: ExecuteRequest) -> Limits:
        if request.language not in ("python", "python3"):
            raise InvalidRequest(f"language is {request.language!r}. Only 'python' is run here.")
        if not request.code.strip():
            raise InvalidRequest("The code is empty. Give at least one statement.")
        seconds = request.timeout_seconds
        if seconds is not None and not 1 <= seconds <= MAX_SECONDS:
            raise InvalidRequest(f"timeout_seconds is {seconds:g}. Give 1 to {MAX_SECONDS:g}.")
        return Limits(wall_seconds=seconds, inline_bytes=preview_bytes(self.result_tokens))

    def _tool_names(self, snapshot: Snapshot) -> ToolNames:
        if self._names is None or self._names[0] != snapshot.version:
            functions = {name: (spec.module, spec.function) for name, spec in snapshot.tools.items()}
            names = ToolNames(frozenset(functions), functions, lambda name: snapshot.find(name) is not None)
            self._names = (snapshot.version, names)
        return self._names[1]

    async def _first_lists(self) -> None:
        await self.finder.listed(_FIRST_LIST_SECONDS)


def _session_of(principal: str, session: str | None) -> str:
    """The workspace's name in the sandbox. No principal has a `:` in its name, so no two of them can mean the same."""
    if session and len(check_session_name(session)) > _SESSION_CHARACTERS:
        raise InvalidRequest(f"The session's name has {len(session)} characters. Use at most {_SESSION_CHARACTERS}.")
    return f"{principal}:{session or 'default'}"


def _find(snapshot: Snapshot, name: str) -> ToolSpec:
    spec = snapshot.find(name)
    if spec is None:
        nearest = ", ".join(map(repr, snapshot.nearest(name)))
        hint = f"Nearest: {nearest}." if nearest else "Call search_tools to find one that exists."
        raise UnknownTool(f"No tool named {name!r}. {hint}")
    return spec


def _refused(execution_id: str, policy: IsolationPolicy, failure: Failure, session: str) -> Outcome:
    """The outcome of code that was never started."""
    return Outcome(
        execution_id=execution_id,
        status="failed",
        failure=failure,
        usage=Usage(wall_seconds=0.0),
        tier="",
        level=str(policy.level),
        session=session,
    )


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


def _renamed(value: Any, paths: Mapping[str, str]) -> Any:
    """`value` with the places of its files put in."""
    if isinstance(value, dict):
        if isinstance(name := value.get("file"), str) and name in paths:
            return value | {"file": paths[name]}
        return {key: _renamed(item, paths) for key, item in value.items()}
    return [_renamed(item, paths) for item in value] if isinstance(value, list) else value
