"""`toolyard.toml`, the files of MCP clients and the environment, as one frozen `Config`.

Nothing else in toolyard reads the environment. What is secret is hidden from `repr`, messages and `describe_upstream`.
"""

from toolyard.config.display import describe_upstream
from toolyard.config.load import load_config
from toolyard.config.machine import Machine, read_machine
from toolyard.config.settings import (
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
