"""The MCP clients that sealyard knows, as data: their files, and the entry that each takes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from sealyard.config.clients.documents import LISTED
from sealyard.config.clients.launch import launch, launch_notes
from sealyard.config.references import looks_secret
from sealyard.config.settings import Machine
from sealyard.errors import InvalidRequest
from sealyard.former import PRESENT

_ENV = {"headers": {"Authorization": "Bearer ${VARIABLE}"}}
_EDITOR_ENV = {"headers": {"Authorization": "Bearer ${env:VARIABLE}"}}
_LOCAL = {"command": "COMMAND", "args": "ARGS"}
_ABOUT = "All tools, found by words and used from Python in a sandbox"
"""The description where a client's file has one, which it shows to people."""
_MINUTES = 300
"""Seconds in which a call must be done, where the client has a limit in its file: a run may take minutes."""
_GOOSE = {"enabled": True, "name": PRESENT, "description": _ABOUT, "timeout": _MINUTES}

FOLDERS = {
    "claude": ("CLAUDE_CONFIG_DIR", ""),
    "codex": ("CODEX_HOME", ".codex"),
    "continue": ("CONTINUE_GLOBAL_DIR", ".continue"),
    "copilot": ("COPILOT_HOME", ".copilot"),
    "home": ("", ""),
    "qwen": ("QWEN_HOME", ".qwen"),
    "settings": ("XDG_CONFIG_HOME", ".config"),
}
"""Folders of clients: the variable that names each, and where it is in the home without that."""


class Files(msgspec.Struct, frozen=True):
    """The places of a client's files, relative to a folder, and the object of servers in them."""

    folder: str
    """One of `FOLDERS`; `project`; or `programs`, where each desktop program has a folder."""
    names: tuple[str, ...]
    """The first that exists counts, else the last."""
    keys: tuple[str, ...] = ("mcpServers",)
    """The path to the object; `PROJECT` stands for the folder of the project."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables with a path in place of all this, and where the file is below it. The first that is set counts."""
    systems: tuple[str, ...] = ()
    """The systems on which it is there, as `sys.platform` says it. By default all."""
    new: str = ""
    """The text that a new file begins with."""


class Switches(msgspec.Struct, frozen=True):
    """A list of names by which a client switches servers off, or an object that says `"enabled": false` for a name."""

    files: Files
    """`keys` is the path to the list."""
    are_on: bool = False
    """True if only the servers in the list are on."""


def _settings(*files: Files) -> tuple[Switches, ...]:
    """The switches of Gemini CLI and its descendants."""
    return tuple(
        Switches(msgspec.structs.replace(each, keys=("mcp", key)), are_on=key == "allowed")
        for each in files
        for key in ("excluded", "allowed")
    )


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """One client. In its entries `COMMAND`, `ARGS`, `LINE` (both in one list), `URL` and `VARIABLE` are filled in."""

    title: str
    files: tuple[Files, ...]
    local: dict[str, Any] = msgspec.field(default_factory=_LOCAL.copy)
    """The entry that starts a gateway."""
    remote: dict[str, Any] | None
    """The entry for a gateway over HTTP; `None` if the client can only start servers."""
    token: dict[str, Any] | None = None
    """Added to the remote entry where the gateway wants a token: a reference to the variable that holds it.
    `None` if the client knows no references."""
    switches: tuple[Switches, ...] = ()


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
        switches=tuple(
            Switches(Files("claude", (".claude.json",), ("projects", "PROJECT", key)))
            for key in ("disabledMcpServers", "disabledMcpjsonServers")
        ),
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
        switches=(
            *_settings(Files("project", (".gemini/settings.json",)), Files("home", (".gemini/settings.json",))),
            Switches(Files("home", (".gemini/mcp-server-enablement.json",), ())),
        ),
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
    "copilot": Client(
        title="Copilot CLI",
        files=(Files("project", (".github/mcp.json",)), Files("copilot", ("mcp-config.json",))),
        # It hides tools behind a search of its own unless told not to.
        local={"type": "local", **_LOCAL, "tools": ["*"], "deferTools": "never"},
        remote={"type": "http", "url": "URL", "tools": ["*"], "deferTools": "never"},
        token=_ENV,
        switches=(Switches(Files("copilot", ("settings.json",), ("disabledMcpServers",))),),
    ),
    "zed": Client(
        title="Zed",
        files=(
            Files("project", (".zed/settings.json",), ("context_servers",)),
            Files("settings", ("zed/settings.json",), ("context_servers",), systems=("linux", "darwin")),
            Files("programs", ("Zed/settings.json",), ("context_servers",), systems=("win32",)),
        ),
        local={**_LOCAL, "timeout": _MINUTES},
        remote={"url": "URL", "timeout": _MINUTES},
    ),
    "cline": Client(
        title="Cline",
        files=(
            Files(
                *("home", (".cline/data/settings/cline_mcp_settings.json",)),
                variables=(
                    ("CLINE_MCP_SETTINGS_PATH", ""),
                    ("CLINE_DATA_DIR", "settings/cline_mcp_settings.json"),
                    ("CLINE_DIR", "data/settings/cline_mcp_settings.json"),
                ),
            ),
            Files(
                "programs",
                ("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",),
            ),
        ),
        local={"type": "stdio", **_LOCAL, "timeout": _MINUTES},
        remote={"type": "streamableHttp", "url": "URL", "timeout": _MINUTES},  # without a type it speaks SSE
    ),
    "goose": Client(
        title="Goose",
        files=(
            Files(
                *("settings", ("goose/config.yaml",), ("extensions",)),
                variables=(("GOOSE_PATH_ROOT", "config/config.yaml"),),
                systems=("linux", "darwin"),
            ),
            Files(
                *("programs", ("Block/goose/config/config.yaml",), ("extensions",)),
                variables=(("GOOSE_PATH_ROOT", "config/config.yaml"),),
                systems=("win32",),
            ),
        ),
        local={**_GOOSE, "type": "stdio", "cmd": "COMMAND", "args": "ARGS"},
        remote={**_GOOSE, "type": "streamable_http", "uri": "URL"},
        token={"env_keys": ["VARIABLE"], **_ENV},
    ),
    "qwen": Client(
        title="Qwen Code",
        files=(
            Files("project", (".qwen/settings.local.json",)),
            Files("project", (".qwen/settings.json",)),
            Files("qwen", ("settings.json",)),
        ),
        local={**_LOCAL, "alwaysLoadTools": True},  # it hides tools behind a search of its own
        remote={"httpUrl": "URL", "alwaysLoadTools": True},
        token=_ENV,
        switches=_settings(Files("project", (".qwen/settings.json",)), Files("qwen", ("settings.json",))),
    ),
    "continue": Client(
        title="Continue",
        files=(
            Files(
                "continue",
                ("config.yaml",),
                ("mcpServers", LISTED),
                new="name: Local Agent\nversion: 1.0.0\nschema: v1\n",  # it refuses a file without these
            ),
        ),
        local={"name": PRESENT, "type": "stdio", **_LOCAL},
        remote={"name": PRESENT, "type": "streamable-http", "url": "URL"},
        token={"requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.VARIABLE }}"}}},
    ),
    "amp": Client(
        title="Amp",
        files=(
            Files("project", (".amp/settings.jsonc", ".amp/settings.json"), ("amp.mcpServers",)),
            Files(
                *("settings", ("amp/settings.jsonc", "amp/settings.json"), ("amp.mcpServers",)),
                variables=(("AMP_SETTINGS_FILE", ""),),
            ),
        ),
        remote={"url": "URL"},
        token=_ENV,
    ),
}


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway that a client's entry starts, or reaches at an address.

    Raises:
        InvalidRequest: The address or the variable is not one, or holds a secret, which would stand in clients' files.
    """

    command: tuple[str, ...] = ()
    everywhere: tuple[str, ...] = ()
    """The command in a file that counts in every folder; by default the same."""
    url: str | None = None
    variable: str | None = None
    """The variable with the token for the address."""
    launch_notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.url is not None:
            _check_url(self.url)
        if self.variable is not None:
            _check_variable(self.variable)

    @classmethod
    def started(cls, machine: Machine, own: list[str], *, config: Path, users: Path) -> Self:
        """A gateway that the client starts; `own` starts this program. `users` is the configuration for every folder.

        Raises:
            InvalidRequest: No Linux can be reached from this machine.
        """
        return cls(
            command=launch(machine, own, config),
            everywhere=launch(machine, own, users),
            launch_notes=tuple(launch_notes(machine)),
        )

    @property
    def notes(self) -> list[str]:
        """The steps that are left to a person."""
        notes = list(self.launch_notes)
        if self.variable is not None:
            notes.append(f"set {self.variable} where the client runs: `sealyard token NAME` makes a token")
            parts = urlsplit(self.url or "")
            if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
                notes.append("the token crosses the network in plain text: use https, or a tunnel")
        return notes

    def entry(self, client: str, *, everywhere: bool = False) -> dict[str, Any]:
        """The entry that a client takes; `everywhere` for a file that counts in every folder.

        Raises:
            InvalidRequest: It cannot reach an address.
        """
        known, command = CLIENTS[client], list((self.everywhere if everywhere else ()) or self.command)
        if self.url is None:
            return _fill(known.local, {"COMMAND": command[0], "ARGS": command[1:], "LINE": command})
        if known.remote is None:
            raise InvalidRequest(
                f"{known.title} reads only programs to start from its file, and no address. Leave --url out to start"
                " a gateway here, or add the address in its settings under Connectors, where it must be public."
            )
        if self.variable is not None and known.token is None:
            raise InvalidRequest(
                f"{known.title} reads tokens only in plain text, which sealyard does not write. Leave --url out to"
                " start a gateway here, or --token-env, and add the header to its file yourself."
            )
        token = known.token if self.variable is not None and known.token is not None else {}
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
    """The template with the values in place of their names."""
    return {key: _fill_in(each, values) for key, each in template.items()}


def _fill_in(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, Mapping):
        return _fill(template, values)
    if isinstance(template, list):
        return [_fill_in(each, values) for each in template]
    if not isinstance(template, str):
        return template
    return values[template] if template in values else template.replace("VARIABLE", values.get("VARIABLE") or "")
