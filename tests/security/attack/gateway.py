"""A gateway to be killed in the middle of its work: `python -m attack.gateway TIER`, or `… TIER sweep` to just start.

Prints one line when everything is under way: a run that ignores signals and, where it may, has forked; a session with
files; a tool call that is not answered; and workers that wait.
"""

import asyncio
import sys
from typing import Any

import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.sandbox import IsolationLevel, PoolOptions, open_sandbox
from sealyard.sandbox.policy import LEVELS

STUBBORN = """
import os, signal, time
for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
try:
    child = os.fork()
except BlockingIOError:
    child = None
if child != 0:
    call_tool("ready")
while True:
    time.sleep(1)
"""
SESSION = """
import os
os.makedirs("a/b")
open("a/b/file", "w").write("x")
open(os.path.join(os.environ["TMPDIR"], "file"), "w").write("x")
call_tool("ready")
call_tool("never")
"""
RUNS: list[tuple[str, dict[str, Any]]] = [(STUBBORN, {}), (SESSION, {"session": "kept"}), (SESSION, {})]


async def serve(tier: Any, *, sweeps: bool) -> None:
    """Open a sandbox and keep it busy until somebody ends this process."""
    policy = msgspec.structs.replace(LEVELS[IsolationLevel.DEVELOPMENT], packages=())
    ready = 0

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        nonlocal ready
        if tool == "never":
            await asyncio.Event().wait()
        ready += 1
        if ready == len(RUNS):
            await sandbox.fill()
            print("ready, with forks" if sandbox.pool.can_fork else "ready", flush=True)

    async with open_sandbox(policy, tier=tier, allow_weaker=True, pool=PoolOptions(size=2)) as sandbox:
        if not sweeps:
            await asyncio.gather(*[sandbox.run(code, on_call=on_call, **options) for code, options in RUNS])


if __name__ == "__main__":
    run_to_end(serve(sys.argv[1], sweeps=sys.argv[2:] == ["sweep"]))
