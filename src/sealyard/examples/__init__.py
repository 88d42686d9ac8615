"""MCP servers to try sealyard with: `python -m sealyard.examples.expenses`, `trips`, `customers`, `mail` and `files`.

Their data is made up when they start, always the same, and forgotten when they end. Only the mail server touches the
disk: the file that it is given.
"""

import sys
from pathlib import Path

from sealyard.config.settings import PrivacyRule
from sealyard.values.tools import UpstreamConfig

__all__ = ("MAIL_RULE", "demo_upstreams", "outbox_of")

MAIL_RULE = PrivacyRule(tools=("mcp__mail__send_mail",), reveal="inside")
"""A mail greets people by name: there a token is inside a longer text."""


def demo_upstreams(directory: Path) -> dict[str, UpstreamConfig]:
    """Their commands, by name. The mail server writes beside `directory`."""
    arguments: dict[str, tuple[str, ...]] = {
        "expenses": (),
        "trips": (),
        "customers": (),
        "mail": ("--outbox", str(outbox_of(directory))),
        "files": (),
    }
    return {
        name: UpstreamConfig(
            name=name,
            transport="stdio",
            command=sys.executable,
            args=("-P", "-m", f"{__name__}.{name}", *more),  # -P: what lies in the current directory is not imported
        )
        for name, more in arguments.items()
    }


def outbox_of(directory: Path) -> Path:
    """The file beside the directory to which the mail server appends sent mails."""
    return directory.with_name(f"{directory.name}-outbox.jsonl")
