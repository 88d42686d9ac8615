"""Fifty thousand paths from a server of the SDK, narrowed down by code: what an agent should never have to read."""

import json
import sys
from pathlib import Path

import pytest

from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import ExecuteRequest, open_yard

SERVER = '''
from mcp.server import MCPServer

server = MCPServer("repository")


@server.tool()
def list_files() -> list[str]:
    """List every file of the repository."""
    paths = [f"src/package_{number % 400:03d}/module_{number:05d}.py" for number in range(49_950)]
    return paths + [f"tests/unit/test_module_{number:02d}.py" for number in range(50)]


server.run("stdio")
'''

CODE = """
from servers.repository import list_files

paths = list_files()
tests = [path for path in paths if path.startswith("tests/")]
result = {"paths": len(paths), "tests": len(tests), "names": [path.rpartition("/")[2] for path in tests[:5]]}
"""


@pytest.mark.behaviour("privacy.many_paths")
async def test_fifty_thousand_paths_become_five_names(tmp_path: Path) -> None:
    """With default settings, `strict` among them: the server repeats each path as a block of its own besides."""
    script = tmp_path / "repository.py"
    script.write_text(SERVER, encoding="utf-8")
    upstream = UpstreamConfig(name="repository", transport="stdio", command=sys.executable, args=(str(script),))
    config = Config(upstreams={"repository": upstream}, store=StoreConfig(path=tmp_path / "sealyard.db"))

    async with open_yard(config) as yard:
        await yard.snapshot()
        answer = await yard.execute(ExecuteRequest(code=CODE))

    names = [f"test_module_{number:02d}.py" for number in range(5)]
    assert json.loads(answer.text.splitlines()[-1]) == {"paths": 50_000, "tests": 50, "names": names}
