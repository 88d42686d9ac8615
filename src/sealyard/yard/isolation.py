"""The isolation that a config asks for. A sandbox begins before a yard's parts are imported, so little is here."""

import msgspec

from sealyard.config import SandboxConfig
from sealyard.errors import InvalidConfig
from sealyard.sandbox.importable import find_packages
from sealyard.sandbox.policy import LEVELS, IsolationLevel, IsolationPolicy


def build_policy(settings: SandboxConfig) -> IsolationPolicy:
    """The level's policy with the config's own packages. Raises `InvalidConfig`."""
    policy = LEVELS[IsolationLevel(settings.level)]
    if not settings.data_packages:
        policy = msgspec.structs.replace(policy, packages=())
    if settings.packages:
        for name in settings.packages:
            if not find_packages((name,)).versions:
                raise InvalidConfig(
                    f"sandbox.packages names {name!r}, which is not installed. Install it, or take it out."
                )
        found = find_packages(settings.packages)
        policy = msgspec.structs.replace(
            policy,
            packages=(*policy.packages, *settings.packages),
            modules=(*policy.modules, *sorted(found.modules)),
        )
    return policy
