"""`sealyard.toml`, the files of MCP clients and the environment, as one frozen `Config`.

Nothing else in sealyard reads the environment. Secrets are hidden from `repr`, messages and `describe_upstream`.
`sealyard.config.settings` holds a class for each table of the file, and is imported from by name.
`sealyard.config.clients` is the door of all that reads and changes clients' files.
"""

from sealyard.config.loader import load_config
from sealyard.config.references import describe_upstream
from sealyard.config.settings import Config, HttpConfig, Machine, SandboxConfig, StoreConfig, read_machine

__all__ = (
    "Config",
    "HttpConfig",
    "Machine",
    "SandboxConfig",
    "StoreConfig",
    "describe_upstream",
    "load_config",
    "read_machine",
)
