"""Starting and ending the processes that these tests talk to."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from tests import warm
from tests.mcp.peers import ROOT

from sealyard.values.tools import UpstreamConfig

END_SECONDS = 60
RUN_SECONDS = 240


@contextmanager
def serving(command: list[str]) -> Iterator[str]:
    """The URL of a server that prints it as its first line; the server ends with the block."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), f"{command} ended with status {process.wait(END_SECONDS)}"
        yield url
    finally:
        process.terminate()
        process.communicate(timeout=END_SECONDS)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """A finished program and what it printed. Its home is a folder that nobody keeps."""
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "HOME": home},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )


def run_json(command: list[str]) -> Any:
    """The JSON that a program printed; it must have succeeded."""
    done = run(command)
    assert done.returncode == 0, done.stderr or done.stdout
    return json.loads(done.stdout)


def stdio_upstream(name: str, command: list[str], **fields: Any) -> UpstreamConfig:
    """An upstream that is a child process."""
    return UpstreamConfig(
        name=name, transport="stdio", command=command[0], args=tuple(command[1:]), cwd=str(ROOT), **fields
    )


def gateway(
    *upstreams: UpstreamConfig, options: tuple[str, ...] = (), python: Callable[..., list[str]] = warm.python
) -> list[str]:
    """The command of a gateway in front of these upstreams, in proxy mode over HTTP unless the options say other."""
    described = msgspec.json.encode(upstreams).decode()
    below = [] if "--stdio" in options else ["--", *python("-m", "sealyard")]
    return [*python("-m", "tests.mcp.gateway"), described, *options, *below]
