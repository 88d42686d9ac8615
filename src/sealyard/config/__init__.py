"""`sealyard.toml`, the files of MCP clients and the environment, as one frozen `Config`.

Nothing else in sealyard reads the environment. What is secret is hidden from `repr`, messages and `describe_upstream`.
"""

from sealyard.config.display import describe_upstream
from sealyard.config.load import load_config
from sealyard.config.machine import Machine, read_machine
from sealyard.config.settings import (
    AlertsConfig,
    Config,
    DiscoveryConfig,
    HttpConfig,
    LearningConfig,
    MetricsConfig,
    OtelConfig,
    PrivacyConfig,
    PrivacyMode,
    PrivacyRule,
    SandboxConfig,
    SkillsConfig,
    StoreConfig,
    SurfaceConfig,
)

__all__ = (
    "AlertsConfig",
    "Config",
    "DiscoveryConfig",
    "HttpConfig",
    "LearningConfig",
    "Machine",
    "MetricsConfig",
    "OtelConfig",
    "PrivacyConfig",
    "PrivacyMode",
    "PrivacyRule",
    "SandboxConfig",
    "SkillsConfig",
    "StoreConfig",
    "SurfaceConfig",
    "describe_upstream",
    "load_config",
    "read_machine",
)
