"""The only road from sandboxed code to a tool.

`call` is the road, and `approvals` asks people; take `Broker` and `Approvals` from there. What is exported here needs
neither store nor catalog, since every command that reads the config imports it. `upstreams/` holds the connections to
what offers tools; `upstreams/mcp/` is the only client-side use of the MCP SDK.
"""

from sealyard.broker.policy import Policy, PolicySettings, Preset, Rule, ToolLimits
from sealyard.broker.responses import Response

__all__ = ("Policy", "PolicySettings", "Preset", "Response", "Rule", "ToolLimits")
