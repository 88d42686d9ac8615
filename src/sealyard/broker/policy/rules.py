"""Rules that allow, ask for or deny calls, and limits on them.

The first matching rule decides. Annotations of an upstream relax nothing unless the config marks it as trusted. If a
condition on arguments is in doubt, the strictest possible decision holds.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sealyard.broker.policy.conditions import Condition, Doubt, all_of
from sealyard.values.access import ApprovalChannel
from sealyard.values.tools import ToolSpec, checked_glob, tool_names

Verdict = Literal["allow", "ask", "deny"]
Preset = Literal["open", "guarded", "readonly"]
Effect = Literal["any", "read_only", "write", "destructive"]
Fit = Literal["yes", "no", "doubt", "depends", "unreached"]
"""`depends`: on unknown arguments. `unreached`: an earlier rule matches."""
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_MOST_TOOLS = 100_000  # facts kept; beyond it they are computed anew
_MOST_PRINCIPALS = 100  # answers kept; beyond it they are computed anew
_UNREACHED: tuple[Fit, str] = ("unreached", "a rule before it fits")


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[policy.rules]]`. Every condition that is given must hold."""

    decision: Verdict
    tools: tuple[str, ...] = ("*",)
    """Patterns over full names, `mcp__mail__send*`, or over the servers' own, `mail/send*`. One must fit."""
    effect: Effect = "any"
    """By the tool's annotations. `write`: not known to be read-only. `destructive`: not known to be harmless."""
    principals: tuple[str, ...] = ("*",)
    """Patterns over the caller's name."""
    when: dict[str, Any] = {}
    """Conditions on arguments by name (`a.b` for nested ones, `a.*` for every item of a list)."""
    reason: str = ""
    """Shown to operators, to the approving person, and to refused code."""
    channels: tuple[ApprovalChannel, ...] = ()
    """Who may answer where it asks. By default those of `approval.channels`."""


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[policy.limits]]`: of the tools that `tools` names, each by itself. The first that names a tool counts."""

    tools: tuple[str, ...] = ("*",)
    calls_per_run: _Count | None = None
    calls_per_minute: _Count | None = None
    """Over the whole gateway and all principals, in any 60 seconds."""
    concurrent_calls: _Count | None = None
    """Of the whole gateway. Further calls wait for their turn."""
    timeout_seconds: _Seconds | None = None
    """Of each attempt; waiting for a turn is not counted."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 0
    """After a failure of the server, and only for tools that a trusted upstream marks idempotent or read-only."""
    breaker_failures: _Count | None = None
    """This many failures of the server in a row open the circuit breaker."""
    breaker_seconds: _Seconds = 30.0


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[policy]`."""

    preset: Preset | None = None
    """Decides if no rule matches. By default `open` on stdio and loopback, `guarded` elsewhere."""
    rules: tuple[Rule, ...] = ()
    limits: tuple[ToolLimits, ...] = ()
    ask_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    """An ask without an answer is refused then."""
    unanswerable: Literal["deny", "allow"] = "deny"
    """The answer to an ask that reaches no person."""
    operators: bool = True
    """False takes `operator` out of `approval.channels`."""


UNLIMITED = ToolLimits()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The policy's decision about a call."""

    verdict: Verdict
    rule: str
    """`policy.rules[2]`, counted from 0, or `preset guarded`."""
    reason: str
    """The rule's text, or a standard one. It contains no value of an argument."""
    channels: tuple[ApprovalChannel, ...] = ()
    """Who may answer if it asks; empty: as `approval.channels` says."""
    doubt: str = ""
    """The end of the reason, which names the doubt about an argument."""

    def public_reason(self, *, is_private: bool) -> str:
        """The reason for the code. It leaves out doubts about a private value, which would reveal part of it."""
        return self.reason.removesuffix(self.doubt) + "." * bool(self.doubt) if is_private else self.reason


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, or the preset, as seen by one call."""

    rule: str
    verdict: Verdict
    fits: Fit
    decides: bool
    """True if this rule decides. Without arguments: if no rule that depends on them matches."""
    why: str


def default_preset(*, is_local: bool) -> Preset:
    """The preset if the config names none. `is_local`: only this machine can reach the gateway."""
    return "open" if is_local else "guarded"


class _Entry:
    """A rule, compiled."""

    def __init__(self, number: int, rule: Rule) -> None:
        self.name = f"policy.rules[{number}]"
        self.rule = rule
        self.names = tool_names(rule.tools, f"{self.name}.tools")
        self.is_for = None if "*" in rule.principals else checked_glob(rule.principals, f"{self.name}.principals")
        self.conditions = tuple(Condition(name, wanted, at=self.name) for name, wanted in rule.when.items())
        self.decision = Decision(
            verdict=rule.decision, rule=self.name, reason=rule.reason or _reason(rule), channels=rule.channels
        )

    def why_not_tool(self, spec: ToolSpec, effect: Effect) -> str | None:
        if not self.names(spec):
            return f"it names other tools: {', '.join(self.rule.tools)}"
        if self.rule.effect not in ("any", effect) and not (self.rule.effect == "write" and effect == "destructive"):
            return f"it is for effect {self.rule.effect!r}, and this tool counts as {effect!r}"
        return None

    def fits_principal(self, principal: str) -> bool:
        return self.is_for is None or self.is_for(principal) is not None


class _Facts(NamedTuple):
    """The facts about a tool that do not depend on arguments."""

    spec: ToolSpec
    effect: Effect
    entries: tuple[_Entry, ...]
    preset: Decision
    limits: ToolLimits


class Policy:
    """The rules, compiled. `trusted` are the upstreams whose annotations count.

    Raises:
        InvalidConfig: As written, a rule can never work.
    """

    def __init__(self, settings: PolicySettings, *, preset: Preset, trusted: Collection[str] = ()) -> None:
        self.preset: Preset = preset
        self.settings = settings
        self.trusted = frozenset(trusted)
        self._entries = tuple(_Entry(number, rule) for number, rule in enumerate(settings.rules))
        self._limits = tuple(
            (tool_names(limits.tools, f"policy.limits[{number}].tools"), limits)
            for number, limits in enumerate(settings.limits)
        )
        self.may_hide = preset == "readonly" or any(
            entry.rule.decision == "deny" and not entry.conditions for entry in self._entries
        )
        """False if no tool is ever hidden."""
        self._known: dict[str, _Facts] = {}
        self._hidden: dict[tuple[bool, ...], tuple[Mapping[str, ToolSpec], frozenset[str]]] = {}

    def decide(self, spec: ToolSpec, principal: str, arguments: Mapping[str, Any]) -> Decision:
        """Decide a call. `arguments` are those that the tool would get, private values revealed."""
        facts = self._facts(spec)
        decision, doubted = facts.preset, None
        for entry in facts.entries:
            if not entry.fits_principal(principal):
                continue
            holds = all_of(each.check(arguments, spec.input_schema) for each in entry.conditions)
            if holds is True:
                decision = entry.decision
                break
            if isinstance(holds, Doubt) and entry.rule.decision != "allow":
                found = _in_doubt(entry, holds)
                if found.verdict == "deny":
                    return found
                doubted = doubted or found  # an ask: the next rules may be stricter
        return decision if doubted is None or decision.verdict == "deny" else doubted

    def is_hidden(self, spec: ToolSpec, principal: str) -> bool:
        """True if the tool is denied with any arguments, and so left out of searches, stubs and grants."""
        if not self.may_hide:
            return False
        facts = self._facts(spec)
        for entry in facts.entries:
            if entry.fits_principal(principal):
                if entry.rule.decision != "deny":
                    return False
                if not entry.conditions:
                    return True
        return facts.preset.verdict == "deny"

    def hidden(self, tools: Mapping[str, ToolSpec], principal: str) -> frozenset[str]:
        """The full names of those of `tools` that are hidden.

        Results are cached by mapping, and shared by principals that the rules treat alike.
        """
        if not self.may_hide:
            return frozenset()
        alike = tuple(entry.fits_principal(principal) for entry in self._entries if entry.is_for is not None)
        known = self._hidden.get(alike)
        if known is None or known[0] is not tools:
            known = (tools, frozenset(name for name, spec in tools.items() if self.is_hidden(spec, principal)))
            if len(self._hidden) >= _MOST_PRINCIPALS:
                self._hidden.clear()
            self._hidden[alike] = known
        return known[1]

    def explain(self, spec: ToolSpec, principal: str, arguments: Mapping[str, Any] | None = None) -> list[Step]:
        """Every rule in order and the preset, with its match, the reason, and the one that decides."""
        facts = self._facts(spec)
        looks: list[tuple[Decision, Fit, str]] = []
        is_over = False
        for entry in self._entries:
            fits, why = _UNREACHED if is_over else _look(entry, facts, principal, arguments)
            is_over = is_over or fits == "yes" or (fits == "doubt" and entry.rule.decision == "deny")
            looks.append((entry.decision, fits, why))
        looks.append((facts.preset, *(_UNREACHED if is_over else ("yes", facts.preset.reason))))
        if arguments is None:
            decider = next(decision.rule for decision, fits, _ in looks if fits == "yes")
        else:
            decider = self.decide(spec, principal, arguments).rule
        return [
            Step(rule=each.rule, verdict=each.verdict, fits=fits, decides=each.rule == decider, why=why)
            for each, fits, why in looks
        ]

    def limits(self, spec: ToolSpec) -> ToolLimits:
        """The limits of the tool: `UNLIMITED` itself if no entry names it."""
        return self._facts(spec).limits

    def effect(self, spec: ToolSpec) -> Effect:
        """The tool's effect: `read_only`, `write` (known to destroy nothing) or `destructive`."""
        return self._facts(spec).effect

    def is_idempotent(self, spec: ToolSpec) -> bool:
        """True if calling it twice has the effect of one call. Only annotations of a trusted upstream count."""
        said = spec.annotations
        return spec.upstream in self.trusted and (said.read_only is True or said.idempotent is True)

    def _facts(self, spec: ToolSpec) -> _Facts:
        known = self._known.get(spec.full_name)
        if known is None or known.spec is not spec:
            effect = _effect(spec, is_trusted=spec.upstream in self.trusted)
            entries = tuple(entry for entry in self._entries if entry.why_not_tool(spec, effect) is None)
            limits = next((limits for names, limits in self._limits if names(spec)), UNLIMITED)
            known = _Facts(spec, effect, entries, self._preset_decision(spec, effect), limits)
            if len(self._known) >= _MOST_TOOLS:
                self._known.clear()
            self._known[spec.full_name] = known
        return known

    def _preset_decision(self, spec: ToolSpec, effect: Effect) -> Decision:
        name = f"preset {self.preset}"
        if self.preset == "open":
            return Decision(verdict="allow", rule=name, reason="It allows every call that no rule covers.")
        is_right = effect == "read_only" or (self.preset == "guarded" and effect == "write")
        if is_right:
            said = "reads only" if effect == "read_only" else "destroys nothing"
            reason = f"The trusted server {spec.upstream!r} says that the tool {said}."
            return Decision(verdict="allow", rule=name, reason=reason)
        wanted = "to be harmless" if self.preset == "guarded" else "to read only"
        why = "" if spec.upstream in self.trusted else f", since its server {spec.upstream!r} is not marked trusted"
        reason = f"The tool is not known {wanted}{why}."
        return Decision(verdict="ask" if self.preset == "guarded" else "deny", rule=name, reason=reason)


def _look(entry: _Entry, facts: _Facts, principal: str, arguments: Mapping[str, Any] | None) -> tuple[Fit, str]:
    spec = facts.spec
    why_not = entry.why_not_tool(spec, facts.effect)
    if why_not is not None:
        return "no", why_not
    if not entry.fits_principal(principal):
        return "no", f"it is for other principals: {', '.join(entry.rule.principals)}"
    if arguments is None and entry.conditions:
        texts = (f"{each.text}{_undeclared(each, spec)}" for each in entry.conditions)
        return "depends", f"it applies if {' and '.join(texts)}"
    doubts = []
    for condition in entry.conditions:
        holds = condition.check(arguments or {}, spec.input_schema)
        if holds is False:
            return "no", f"it does not hold that {condition.text}{_undeclared(condition, spec)}"
        if holds is not True:
            doubts.append(f"whether {condition.text} is in doubt: {holds.why}")
    if doubts:
        return "doubt", "; ".join(doubts)
    return "yes", entry.decision.reason


def _undeclared(condition: Condition, spec: ToolSpec) -> str:
    """A note on an argument that the tool does not declare: the rule may be misspelled."""
    properties = spec.input_schema.get("properties")
    names = (condition.argument, condition.argument.partition(".")[0])
    is_known = not isinstance(properties, dict) or any(name in properties for name in names)
    return "" if is_known else f" (the tool declares no {names[1]!r})"


def _in_doubt(entry: _Entry, doubt: Doubt) -> Decision:
    why = f": {doubt.why}."
    reason = f"{entry.decision.reason} Its condition on an argument is in doubt, which counts as fitting{why}"
    return msgspec.structs.replace(entry.decision, reason=reason, doubt=why)


def _effect(spec: ToolSpec, *, is_trusted: bool) -> Effect:
    """By MCP's defaults: a tool writes unless marked read-only, and is destructive unless marked otherwise."""
    if is_trusted and spec.annotations.read_only is True:
        return "read_only"
    return "write" if is_trusted and spec.annotations.destructive is False else "destructive"


def _reason(rule: Rule) -> str:
    more = f" and {len(rule.tools) - 3} more" if len(rule.tools) > 3 else ""
    does = {"allow": "allows it", "ask": "asks a person first", "deny": "denies it"}[rule.decision]
    return f"A rule for {', '.join(rule.tools[:3])}{more} {does}."
