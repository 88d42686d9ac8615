"""`sealyard serve` over the given upstreams, as a process of its own.

`python -m tests.mcp.gateway '[{"name": ..., ...}]' [--mode MODE] (--stdio | -- COMMAND)`; COMMAND is how to start
`sealyard`, which serves HTTP then, and the URL is printed first.
"""

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from sealyard.cli import main as sealyard
from sealyard.config.clients.documents import dump_toml
from sealyard.values.tools import UpstreamConfig

_FIELDS = ("command", "args", "env", "cwd", "url")


def main() -> None:
    """Write a config and serve it until this process is ended."""
    upstreams = msgspec.json.decode(sys.argv[1], type=list[UpstreamConfig])
    mode = sys.argv[sys.argv.index("--mode") + 1] if "--mode" in sys.argv else "proxy"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sealyard.toml"
        tables = {each.name: {name: getattr(each, name) for name in _FIELDS} for each in upstreams}
        sandbox = {"allow_weaker": True, "data_packages": False, "pool_size": 1}
        store = {"path": str(Path(folder) / "sealyard.db")}
        path.write_text(dump_toml({"upstreams": tables, "sandbox": sandbox, "store": store}), encoding="utf-8")
        command = ["serve", str(path), "--mode", mode]
        if "--stdio" in sys.argv:
            sys.argv = ["sealyard", *command]
            sealyard()
        else:
            _serve_http([*sys.argv[sys.argv.index("--") + 1 :], *command, "--http", "127.0.0.1:0"])


def _serve_http(command: list[str]) -> None:
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"at (http://\S+)", line):
            print(found[1], flush=True)
        else:
            sys.stderr.write(line)
    process.wait()


if __name__ == "__main__":
    main()
