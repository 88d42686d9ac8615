"""Sessions with clients that others wrote, against any server: a URL, or a command that speaks stdio."""

import json
from typing import Any

from tests.mcp import peers
from tests.mcp.processes import run, run_json

Target = str | list[str]
Json = dict[str, Any]


def typescript(version: int, target: Target, *calls: Json) -> Json:
    """What the TypeScript SDK's client 1 or 2 saw: the server's name, its tools, and the results of the calls."""
    reach = {"url": target} if isinstance(target, str) else {"command": target, "cwd": str(peers.ROOT)}
    report: Json = run_json(peers.typescript_client(version, json.dumps({**reach, "calls": calls})))
    return report


def inspected_tools(target: Target, *, era: str | None = None) -> list[str]:
    """The tools the Inspector lists; any schema it finds not portable is a failure."""
    reach = [target, "--transport", "http"] if isinstance(target, str) else target
    eras = [] if era is None else ["--protocol-era", era]
    done = run(peers.inspector(*reach, *eras, "--method", "tools/list", "--strict"))
    assert done.returncode == 0, done.stderr
    return [tool["name"] for tool in json.loads(done.stdout)["tools"]]
