"""The sandboxes in which each principal's code runs, and the isolation policy of each."""

import asyncio
from collections.abc import Collection, Mapping

from sealyard.errors import SandboxClosed
from sealyard.offload import Offload
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.review import Review, ToolNames
from sealyard.sandbox.review.beside import review_beside
from sealyard.sandbox.run import Sandbox
from sealyard.sandbox.slots import Slots
from sealyard.values.access import PrincipalScope

OPERATOR = "operator"
"""The principal that holds the key which `sealyard serve --http` prints at start."""


class Runner:
    """The sandbox of a gateway, its slots, and the isolation that each principal gets."""

    def __init__(
        self,
        policy: IsolationPolicy,
        *,
        levels: Mapping[str, IsolationPolicy],
        scopes: Mapping[str, PrincipalScope],
        opening: "asyncio.Future[Sandbox] | None",
        slots: Slots,
        offload: Offload | None,
        result_tokens: int,
    ) -> None:
        """`result_tokens` bounds a result, in model tokens."""
        self.policy = policy
        self.scopes = scopes
        self.opening = opening
        """Completes when code can run; None for a gateway without a sandbox."""
        self.slots = slots
        """The order of waiting runs and calls."""
        self.result_tokens = result_tokens
        self._levels = levels
        self._offload = offload

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

    def policy_of(self, principal: str) -> IsolationPolicy:
        """The isolation that runs of a principal get: the gateway's, or a stricter one of its own."""
        scope = self.scopes.get(principal)
        return self.policy if scope is None or scope.level is None else self._levels[scope.level]

    async def review(
        self, code: str, policy: IsolationPolicy, names: ToolNames, packages: Collection[str], principal: str
    ) -> Review:
        """Review code against the names that it may call; long code in a helper process."""
        return await review_beside(code, policy, names, packages, offload=self._offload, who=principal)
