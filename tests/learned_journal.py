"""A journal to learn from: runs of two principals with one bank's tools, of which some fail."""

import time
from collections.abc import Sequence
from typing import Any

from sealyard.store import Store
from sealyard.store.tools import Release
from sealyard.values.changes import Comparison
from sealyard.values.facts import Assessed, Executed, Risk
from sealyard.values.runs import CallRecord, ExecutionRecord, Failure, Outcome, Usage
from sealyard.values.tools import ToolSpec

PAY, LIST, MAIL = "mcp__bank__pay", "mcp__bank__list_accounts", "mcp__mail__sendMail"


def tool(full_name: str, **changes: Any) -> ToolSpec:
    """A tool, but for the changes."""
    server, name = full_name.removeprefix("mcp__").split("__")
    known = {"upstream": server, "name": name, "full_name": full_name, "module": server, "function": name.lower()}
    return ToolSpec(**{**known, "input_schema": {"type": "object", "properties": {}}, "digest": "d", **changes})


async def save_tools(store: Store, *specs: ToolSpec) -> None:
    """Have the store know these tools."""
    for upstream in dict.fromkeys(spec.upstream for spec in specs):
        own = [spec for spec in specs if spec.upstream == upstream]
        releases = [
            Release(
                upstream=upstream, name=spec.name, number=1, version="1.0.0", kind="added", spec=spec,
                comparison=Comparison(bump="none"), released_at=1.0,
            )
            for spec in own
        ]  # fmt: skip
        assert await store.save_tools(upstream, own, releases=releases)


def record_run(
    store: Store,
    name: str,
    *,
    principal: str = "ann",
    tools: Sequence[str] = (PAY,),
    answer: Any = None,
    risk: Risk = "low",
    chance: float = 0.1,
    is_ok: bool = True,
    at: float | None = None,
) -> None:
    """A run that was told its risk, called these tools, and ended well or with a KeyError."""
    at = time.time() - 60 if at is None else at
    parts = [each.removeprefix("mcp__").split("__") for each in tools]
    lines = [f"from servers.{server} import {function.lower()}" for server, function in parts]
    lines += [f"r{place} = {function.lower()}(id={place})" for place, (_, function) in enumerate(parts)]
    failure = None if is_ok else Failure(kind="exception", type="KeyError", message="'name'", line=len(lines))
    status: Any = "ok" if is_ok else "failed"
    outcome = Outcome(
        execution_id=name, status=status, failure=failure, usage=Usage(wall_seconds=0.5), tier="t", level="production"
    )
    told: dict[str, Any] = {"at": at, "principal": principal, "session": f"{principal}-visit", "execution_id": name}
    limits: dict[str, Any] = {"wall_seconds": 30.0, "memory_mib": 512, "usual_seconds": 30.0, "usual_mib": 512}
    for number, each in enumerate(tools, 1):
        store.record_call(
            CallRecord(
                execution_id=name, number=number, tool=each, digest="d", arguments={"id": number},
                answer={"state": "open"} if answer is None else answer, started_at=at, seconds=0.1, answer_bytes=20,
            )
        )  # fmt: skip
    store.record_end(
        ExecutionRecord(
            execution_id=name, principal=principal, session=f"{principal}:main", code="\n".join(lines), started_at=at,
            ended_at=at + 0.5, status=status, outcome=outcome,
        )
    )  # fmt: skip
    store.metrics.record(
        Executed(
            form="code", status=status, failure="" if is_ok else "exception", error_type="" if is_ok else "KeyError",
            seconds=0.5, calls=len(tools), tools=tuple(sorted(tools)), use_case="workflow", level="production",
            assessed=Assessed(risk=risk, chance=chance, **limits), **told,
        )
    )  # fmt: skip


async def fill(store: Store) -> None:
    """Three tools, eight good runs and two failed ones, half of each principal."""
    await save_tools(store, tool(PAY), tool(LIST), tool(MAIL))
    for number in range(8):
        principal = ("ann", "ben")[number % 2]
        record_run(store, f"e{number}", principal=principal, tools=(LIST, PAY))
    for number, principal in enumerate(("ann", "ben")):
        record_run(store, f"f{number}", principal=principal, risk="high", chance=0.75, is_ok=number == 1)
    await store.flush()
