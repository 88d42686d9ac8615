"""The MCP clients that sealyard knows, as data: their files, and the entry that each takes."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from sealyard.config.references import looks_secret
from sealyard.errors import InvalidRequest

_ENV = {"headers": {"Authorization": "Bearer ${VARIABLE}"}}
_EDITOR_ENV = {"headers": {"Authorization": "Bearer ${env:VARIABLE}"}}
_LOCAL = {"command": "COMMAND", "args": "ARGS"}


class Files(msgspec.Struct, frozen=True):
    """The places of a client's files, relative to a folder, and the object of servers in them."""

    folder: str
    """A folder that `servers` knows, such as `home` or `project`."""
    names: tuple[str, ...]
    """The first that exists counts, else the last."""
    keys: tuple[str, ...] = ("mcpServers",)
    """The path to the object; `PROJECT` stands for the folder of the project."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """One client. In its entries `COMMAND`, `ARGS`, `LINE` (both in one list), `URL` and `VARIABLE` are filled in."""

    title: str
    files: tuple[Files, ...]
    local: dict[str, Any] = msgspec.field(default_factory=_LOCAL.copy)
    """The entry that starts a gateway."""
    remote: dict[str, Any] | None
    """The entry for a gateway over HTTP; `None` if the client can only start servers."""
    token: dict[str, Any] = {}
    """What the remote entry has besides where the gateway wants a token: a reference to the variable that holds it."""


CLIENTS = {
    "claude-code": Client(
        title="Claude Code",
        files=(
            Files("project", (".mcp.json",)),
            Files("claude", (".claude.json",), ("projects", "PROJECT", "mcpServers")),
            Files("claude", (".claude.json",)),
        ),
        # It hides the tools of other servers behind a search of its own.
        local={**_LOCAL, "alwaysLoad": True},
        remote={"type": "http", "url": "URL", "alwaysLoad": True},
        token=_ENV,
    ),
    "claude-desktop": Client(
        title="Claude Desktop",
        files=(Files("programs", ("Claude/claude_desktop_config.json",)),),
        remote=None,
    ),
    "cursor": Client(
        title="Cursor",
        files=(Files("project", (".cursor/mcp.json",)), Files("home", (".cursor/mcp.json",))),
        remote={"url": "URL"},
        token=_EDITOR_ENV,
    ),
    "vscode": Client(
        title="VS Code",
        files=(
            Files("project", (".vscode/mcp.json",), ("servers",)),
            Files("programs", ("Code/User/mcp.json",), ("servers",)),
        ),
        local={"type": "stdio", **_LOCAL},
        remote={"type": "http", "url": "URL"},
        token=_EDITOR_ENV,
    ),
    "codex": Client(
        title="Codex",
        files=(Files("codex", ("config.toml",), ("mcp_servers",)),),
        # It does not wait for a server that is not required, and refuses to run code where it cannot ask. The gateway
        # decides about each call of a tool itself.
        local={**_LOCAL, "required": True, "default_tools_approval_mode": "approve"},
        remote={"url": "URL", "required": True, "default_tools_approval_mode": "approve"},
        token={"bearer_token_env_var": "VARIABLE"},
    ),
    "gemini": Client(
        title="Gemini CLI",
        files=(Files("project", (".gemini/settings.json",)), Files("home", (".gemini/settings.json",))),
        remote={"httpUrl": "URL"},  # its `url` alone is the older transport, SSE
        token=_ENV,
    ),
    "opencode": Client(
        title="opencode",
        files=(
            Files("project", ("opencode.jsonc", "opencode.json"), ("mcp",)),
            Files("settings", ("opencode/opencode.jsonc", "opencode/opencode.json"), ("mcp",)),
        ),
        local={"type": "local", "command": "LINE", "enabled": True},
        remote={"type": "remote", "url": "URL", "enabled": True},
        # Refused, it would open a browser to log in.
        token={"headers": {"Authorization": "Bearer {env:VARIABLE}"}, "oauth": False},
    ),
    "windsurf": Client(
        title="Windsurf",
        files=(Files("home", (".codeium/windsurf/mcp_config.json",)),),
        remote={"serverUrl": "URL"},
        token=_EDITOR_ENV,
    ),
}


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """What a client's entry starts, or reaches at an address.

    Raises:
        InvalidRequest: The address or the variable is not one, or holds a secret, which would stand in clients' files.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    variable: str | None = None
    """The variable with the token for the address."""

    def __post_init__(self) -> None:
        if self.url is not None:
            _check_url(self.url)
        if self.variable is not None:
            _check_variable(self.variable)

    @property
    def is_exposed(self) -> bool:
        """True if tokens for it cross a network in plain text."""
        parts = urlsplit(self.url or "")
        return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")

    def entry(self, client: str) -> dict[str, Any]:
        """The entry that a client takes.

        Raises:
            InvalidRequest: It cannot reach an address.
        """
        known, command = CLIENTS[client], list(self.command)
        if self.url is None:
            return _fill(known.local, {"COMMAND": command[0], "ARGS": command[1:], "LINE": command})
        if known.remote is None:
            raise InvalidRequest(
                f"{known.title} reads only programs to start from its file, and no address. Leave --url out to start"
                " a gateway here, or add the address in its settings under Connectors, where it must be public."
            )
        token = {} if self.variable is None else known.token
        return _fill({**known.remote, **token}, {"URL": self.url, "VARIABLE": self.variable})


def _check_url(url: str) -> None:
    # Clients read references such as $X and {env:X} in an address; a user before the host would be a secret.
    if not re.fullmatch(r"https?://(?:[\w.-]+|\[[0-9a-f:]+\])(?::\d{1,5})?/[\w./~%?=&+,-]+", url, re.ASCII):
        raise InvalidRequest(
            "--url is not the address of a gateway in plain characters. Give one such as http://127.0.0.1:8321/mcp."
        )
    if looks_secret("", url) or any(looks_secret(*pair) for pair in parse_qsl(urlsplit(url).query)):
        raise InvalidRequest("--url holds what looks like a secret. Put it into a variable and name it: --token-env.")


def _check_variable(name: str) -> None:
    # A token of `sealyard token` begins in a way that no name of a variable of ours does.
    if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name, re.ASCII) or name.startswith("sealyard_") or looks_secret("", name):
        raise InvalidRequest("--token-env takes the name of a variable, such as SEALYARD_TOKEN, and not its value.")


def _fill(template: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _fill_in(each, values) for key, each in template.items()}


def _fill_in(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, Mapping):
        return _fill(template, values)
    if not isinstance(template, str):
        return template
    return values[template] if template in values else template.replace("VARIABLE", values.get("VARIABLE") or "")
