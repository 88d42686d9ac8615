"""Which calls are allowed, asked for or denied, and within which limits. The first rule that fits decides."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

__all__ = ("Effect", "PolicySettings", "Preset", "Rule", "ToolLimits", "Verdict")

Verdict = Literal["allow", "ask", "deny"]
Preset = Literal["open", "guarded", "readonly"]
Effect = Literal["any", "read_only", "write", "destructive"]
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[policy.rules]]`. Every condition that is given must hold."""

    decision: Verdict
    tools: tuple[str, ...] = ("*",)
    """Patterns over full names: `mcp__mail__send*`."""
    effect: Effect = "any"
    """By the tool's annotations. `write`: not known to be read-only. `destructive`: not known to be harmless."""
    principals: tuple[str, ...] = ("*",)
    when: dict[str, Any] = {}
    """Conditions on arguments by name (`a.b` for nested ones)."""
    reason: str = ""
    """Shown to who asks why, to the person who is asked, and to the code that is refused."""


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[policy.limits]]`: of the tools that `tools` names, each by itself. The first that names a tool counts."""

    tools: tuple[str, ...] = ("*",)
    calls_per_run: _Count | None = None
    calls_per_minute: _Count | None = None
    concurrent_calls: _Count | None = None
    timeout_seconds: _Seconds | None = None
    retries: Annotated[int, Meta(ge=0, le=10)] = 0
    """After a failure of the server, and only for tools that are marked idempotent or read-only."""
    breaker_failures: _Count | None = None
    """So many failures of the server in a row open the circuit breaker."""
    breaker_seconds: _Seconds = 30.0


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[policy]`."""

    preset: Preset | None = None
    """What holds where no rule fits. By default `open` on stdio and loopback, `guarded` elsewhere."""
    rules: tuple[Rule, ...] = ()
    limits: tuple[ToolLimits, ...] = ()
    ask_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    """An ask without an answer is refused then."""
    unanswerable: Literal["deny", "allow"] = "deny"
    """What becomes of an ask when there is no way to a person."""
    operators: bool = True
    """Whether `toolyard approvals` and HTTP are a way to a person, beside the client's own dialogue."""
