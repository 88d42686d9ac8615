"""The files of MCP clients: where they are, the servers in them, and sealyard in place of these servers.

From the top layer down: `merging` makes a `sealyard.toml` of the servers, `rewrite` changes clients' files and undoes
that, `backups` keeps what was there, `servers` finds the places and reads entries, `known` is what each client takes,
`launch` starts the gateway from other systems, `documents` reads and changes text, that of YAML in `blocks`.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.config.clients.known import CLIENTS, Gateway
    from sealyard.config.clients.merging import plan_config
    from sealyard.config.clients.rewrite import Change, plan_apply, plan_undo, take_over_files
    from sealyard.config.clients.servers import find_servers

__all__ = (
    "CLIENTS",
    "Change",
    "Gateway",
    "find_servers",
    "plan_apply",
    "plan_config",
    "plan_undo",
    "take_over_files",
)

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        known="CLIENTS Gateway",
        merging="plan_config",
        rewrite="Change plan_apply plan_undo take_over_files",
        servers="find_servers",
    )
