"""The sandboxes in which each principal's code runs, and the isolation policy of each."""

import asyncio
import difflib
from collections.abc import Callable, Collection, Mapping

from sealyard.catalog import Snapshot
from sealyard.errors import InvalidRequest, SandboxClosed
from sealyard.offload import Offload, short_work
from sealyard.sandbox import Sandbox
from sealyard.sandbox.policy import IsolationLevel, IsolationPolicy
from sealyard.sandbox.pool import Slots
from sealyard.sandbox.review import Finding, Review, ToolReference, offloaded_review
from sealyard.sandbox.sessions import check_session_name
from sealyard.values.access import OPERATOR, PrincipalScope, Profile
from sealyard.values.variants import variant

_HINTS = 3  # unknown names whose nearest are looked for: with ten thousand tools each search takes some 20 ms
_SESSION_CHARACTERS = 50  # beside a principal of up to 40 it stays below the 100 that name a workspace
_SHOWN_CHARACTERS = 80  # of a name that the code chose, in a message and in the search for its nearest


class Runner:
    """The sandbox of a gateway, its slots, and the isolation that each principal gets."""

    def __init__(
        self,
        policy: IsolationPolicy,
        *,
        levels: Callable[[str], IsolationPolicy],
        scopes: Mapping[str, PrincipalScope],
        profiles: Mapping[str, Profile],
        opening: "asyncio.Future[Sandbox] | None",
        slots: Slots,
        offload: Offload | None,
        result_tokens: int,
    ) -> None:
        """`levels` gives the policy of a level. `result_tokens` bounds a result, in model tokens."""
        self.policy = policy
        self.scopes = scopes
        self.profiles = profiles
        self.opening = opening
        """Completes when code can run; None for a gateway without a sandbox."""
        self.slots = slots
        """The order of waiting runs and calls."""
        self.result_tokens = result_tokens
        self._levels = levels
        self._offload = offload
        self._place = ""
        """Begins the names of sessions: see `Profile`."""
        self._floor: str | None = None
        """The weakest level of any run."""

    def narrowed(self, profile: Profile) -> "Runner":
        """The same, with sessions of the profile's own and an isolation no weaker than its level."""
        return variant(self, _place=profile.place, _floor=profile.level)

    async def sandbox(self) -> Sandbox:
        """The sandbox. It is built while the gateway already serves requests."""
        if self.opening is None:
            raise SandboxClosed("This yard was opened without a sandbox.")
        return await asyncio.shield(self.opening)

    def scope_of(self, principal: str) -> PrincipalScope:
        """The rights of a principal. Without required tokens, every principal may see everything."""
        if principal == OPERATOR:
            return PrincipalScope(name=principal, observe=True, approve=True)
        return self.scopes.get(principal) or PrincipalScope(name=principal, observe=not self.scopes)

    def policy_of(self, principal: str, level: str | None = None) -> IsolationPolicy:
        """The isolation that runs of a principal get: the gateway's, a stricter one of its own, or of `level`.

        Raises:
            InvalidRequest: `level` is none, or looser than the principal's.
        """
        scope = self.scopes.get(principal)
        own = self.policy if scope is None or scope.level is None else self._levels(scope.level)
        own = (
            own if self._floor is None or self._floor not in _not_looser(own) else self._levels(self._floor).within(own)
        )
        if not level or level == own.level:
            return own
        allowed = _not_looser(own)
        if level not in allowed:
            raise InvalidRequest(
                f"isolation_level is {level[:_SHOWN_CHARACTERS]!r}. Give {' or '.join(allowed)}: a run may be stricter "
                "than its client is, not looser."
            )
        return self._levels(level).within(own)

    def session_of(self, principal: str, session: str | None = None) -> str:
        """The name of a session's workspace and guard. A principal's name has no `:`, so each name has one owner.

        Raises:
            InvalidRequest: The client's own name for it is too long or has other characters than such a name may have.
        """
        most = _SESSION_CHARACTERS - len(self._place)
        if session and len(check_session_name(session)) > most:
            raise InvalidRequest(f"The session's name has {len(session)} characters. Use at most {most}.")
        return f"{principal}:{self._place}{session or 'default'}"

    async def review(
        self, code: str, policy: IsolationPolicy, view: Snapshot, packages: Collection[str], principal: str
    ) -> Review:
        """Review code that may call the tools of `view`; long code in a helper process."""
        verdict = await offloaded_review(code, policy, packages, offload=self._offload, who=principal)
        unknown = [each for each in verdict.references if not _is_known(each, view)]
        findings = []
        for number, reference in enumerate(unknown):
            async with short_work():  # others have a turn between two searches
                findings.append(_unknown_tool(reference, _nearest(reference, view) if number < _HINTS else []))
        return verdict.with_findings(findings)


def _not_looser(policy: IsolationPolicy) -> list[IsolationLevel]:
    levels = list(IsolationLevel)
    return levels[levels.index(IsolationLevel(policy.level)) :]


def _is_known(reference: ToolReference, view: Snapshot) -> bool:
    """True if `view` has the tool or the server. A server that it lacks has a reference of its own."""
    if reference.server is None:
        return view.find(reference.name or "") is not None
    functions = view.modules.get(reference.server)
    if functions is None:
        return reference.name is not None
    return reference.name is None or reference.name in functions


def _nearest(reference: ToolReference, view: Snapshot) -> list[str]:
    """Existing names like the unknown one, in the form in which the code uses it."""
    if reference.server is None:
        return view.nearest(reference.name or "")
    if reference.name is None:
        return difflib.get_close_matches(reference.server[:_SHOWN_CHARACTERS], view.modules)
    tools = (view.tools[name] for name in view.nearest(reference.name))
    return [f"servers.{spec.module}.{spec.function}" for spec in tools]


def _unknown_tool(reference: ToolReference, nearest: list[str]) -> Finding:
    server, name = (each and repr(each[:_SHOWN_CHARACTERS]) for each in (reference.server, reference.name))
    if name is None:
        message = f"No server named {server}."
    else:
        message = f"No tool named {name}." if server is None else f"No tool named {name} on server {server}."
    hint = "Call search_tools to find one that exists."
    if nearest:
        hint = f"Nearest: {', '.join(map(repr, nearest))}. search_tools finds others."
    return Finding(
        severity="refuse",
        rule="unknown-tool",
        line=reference.line,
        column=reference.column,
        source_line=reference.source_line,
        message=message,
        hint=hint,
    )
