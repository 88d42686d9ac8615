"""The policy as data: rules that allow, ask for or deny calls, and limits on them.

It needs neither store nor catalog, since every command that reads the config imports it.
"""

from sealyard.broker.policy.rules import (
    UNLIMITED,
    Policy,
    PolicySettings,
    Preset,
    Rule,
    Step,
    ToolLimits,
    default_preset,
)

__all__ = (
    "UNLIMITED",
    "Policy",
    "PolicySettings",
    "Preset",
    "Rule",
    "Step",
    "ToolLimits",
    "default_preset",
)
