"""Runs the agent's code on the real interpreter and reports how it ended.

By the time `run` is called the process is sealed, so nothing here is a protection: the code can rewrite every
function of this file, and then it has only lied about its own result. Standard library only.
"""

import asyncio
import builtins
import gc
import inspect
import io
import json
import os
import resource
import site
import sys
import threading
import traceback
import types
from _thread import _count as count_threads
from typing import Any

import encode
import failures
import imports
import preview
import replay
import skills
import tools
import transform
import wire
import words

_WARM_CODE = """
class Point:
    def __init__(self, x): self.x = x
total = sum(point.x for point in [Point(n) for n in range(9)])
text = f"{total:>8}"
{"total": total, "text": text, "rows": [{"a": 1.5, "b": None}]}
"""
WARM_JOB: dict[str, Any] = {
    "kind": "run",
    "code": _WARM_CODE,
    "value_at": (_WARM_CODE.index('{"total'), len(_WARM_CODE) - 1),
    "context": {},
    "tools": {},
    "call_bytes": 1 << 20,
    "result_bytes": 1 << 20,
    "inline_bytes": 1 << 20,
    "spill": None,
    "stubs": None,
    "imports": None,
    "replay": None,
}
_reserve = [bytes(4 << 20)]
"""Zeros that nothing touches: they cost an address range and no memory, until a failure for want of memory needs it."""
_builtins: dict[str, Any] = dict(vars(builtins))
_main = types.ModuleType("__main__")
"""The module in which the agent's code runs."""
_limits = {"call_bytes": 0}


def set_import_rule(allowed: list[str] | None, refused: list[str], level: str) -> None:
    """Take the rule for the agent's own imports; once, in the zygote. A run may bring a stricter one."""
    site.setquit()  # `exit` and `quit`, which an interpreter without site-packages lacks
    _builtins.update(imports.guarded_builtins(allowed, refused, level))


def run(job: dict[str, Any], channel: wire.Channel) -> None:
    """Execute the job's code and send the one `done` frame."""
    if job["imports"] is not None:
        _builtins.update(imports.guarded_builtins(**job["imports"]))
    if job["replay"] is not None:
        replay.install(**job["replay"])
    source = failures.remember(failures.AGENT_FILE, job["code"])
    names: dict[str, Any] = {}
    try:
        names = _furnish(job)
        value = _execute(job["code"], names, job["value_at"])
        if count_threads():
            # Waits for threads that the code started, as the interpreter does at its end. Idle threads of an executor
            # wait for this signal to end, so joining them without it would wait for ever.
            threading._shutdown()  # type: ignore[attr-defined]
        body = _success(job, value)
    except BaseException as error:  # whatever the code raised is its result
        _reserve.clear()
        try:
            body = _failure(error, source)
        except MemoryError:
            # Free what filled the memory, or none is left for the report.
            traceback.clear_frames(error.__traceback__)
            names.clear()
            body = _failure(error, source)
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        pass  # the code closed or replaced its own output; the report matters more
    channel.send(body)


def warm() -> None:
    """Exercise the whole path once, in the zygote."""
    _execute(_WARM_CODE, dict(_furnish(WARM_JOB)), None)
    _failure(ValueError("x"), failures.remember(failures.AGENT_FILE, _WARM_CODE))
    _warm_success()


def _warm_success() -> None:
    value = _execute(_WARM_CODE, dict(_furnish(WARM_JOB)), WARM_JOB["value_at"])
    _success(WARM_JOB, value)
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        _warm_tables(pandas)


def _warm_tables(pandas: Any) -> None:
    """Do what code does with tables most: make one, pick rows, group, sum up, sort, and turn it into plain data."""
    frame = pandas.DataFrame({"k": ["a", "b", "a"], "v": range(3), "w": [0.5, 1.5, 2.5]})
    frame.groupby("k").agg({"v": "sum", "w": "mean"}).sort_values("v").reset_index().to_dict("records")
    frame.groupby("k")["v"].sum().to_dict()
    rows = pandas.DataFrame([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    rows[rows["v"] > 1].head().to_dict("records")
    float(rows["v"].mean())


def rehearse(job: dict[str, Any], channel: wire.Channel) -> None:
    """Run a job in the zygote, and forget what it left in the namespace of the agent's code."""
    names = dict(_main.__dict__)
    run(job, channel)
    _main.__dict__.clear()
    _main.__dict__.update(names)


def prewarm() -> None:
    """Do what a successful run does in a waiting worker, so that its own copies of the pages exist before its run."""
    json.loads(json.dumps(WARM_JOB))
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC):
        resource.getrlimit(limit)
    _warm_success()
    gc.collect()  # its class; all that is older is frozen, so this looks at little


def prepare_streams() -> None:
    """Point the standard streams at whatever is descriptor 1 later, unbuffered; in the zygote, for every worker."""
    for stream in ("stdout", "stderr"):
        raw = io.FileIO(1, "w", closefd=False)
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
        setattr(sys, stream, text)
        setattr(sys, f"__{stream}__", text)
    if "tempfile" in sys.modules:
        sys.modules["tempfile"]._name_sequence = None  # type: ignore[attr-defined]  # seeded by pid, and all are 1


def reseed() -> None:
    """Give this worker randomness of its own where a library does not do so itself after a fork."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def prepare(channel: wire.Channel) -> None:
    """Lay out the namespace of the agent's code, except the parts of its job; in the zygote."""
    sys.modules["__main__"] = _main
    names = _main.__dict__
    names["__builtins__"] = _builtins
    names["call_tool"] = _tool_caller(channel)
    skills.connect(names["call_tool"], _builtins)
    names["call_mcp_tool"] = _mcp_caller(names["call_tool"])
    names["search_tools"] = tools.search_tools
    names["ToolError"] = wire.ToolError
    names.update(transform.names())


def _furnish(job: dict[str, Any]) -> dict[str, Any]:
    """The namespace of the agent's code, with what its job brings."""
    names = _main.__dict__
    _limits["call_bytes"] = job["call_bytes"]
    call_tool = names["call_tool"]
    tools.connect(job["stubs"], (call_tool, call_tool.__sealyard_async__))
    skills.provide(names, job["context"])
    if job["tools"]:
        # Behind all other names, and in no namespace that the code can look through.
        found = {function: tools.find(server, function) for function, server in job["tools"].items()}
        names["__builtins__"] = {**found, **_builtins}
    return names


def _tool_caller(channel: wire.Channel) -> Any:
    def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool by its full name and return its answer; also awaitable."""
        return channel.call(name, _arguments(name, arguments, _limits["call_bytes"]))

    async def call_tool_async(name: str, arguments: dict[str, Any] | None = None) -> Any:
        return await channel.call_async(name, _arguments(name, arguments, _limits["call_bytes"]))

    call_tool.__sealyard_async__ = call_tool_async  # type: ignore[attr-defined]
    return call_tool


def _mcp_caller(call_tool: Any) -> Any:
    def meant(server: str, tool: Any, arguments: Any) -> tuple[str, Any]:
        if isinstance(tool, str):
            return f"{server}.{tool}", arguments
        return server, arguments if tool is None else tool

    def call_mcp_tool(server: str, tool: Any = None, arguments: Any = None, *_: Any) -> Any:
        """`call_tool` for code that says (server, tool, arguments), or (full name, arguments, type of the answer)."""
        return call_tool(*meant(server, tool, arguments))

    async def call_mcp_tool_async(server: str, tool: Any = None, arguments: Any = None, *_: Any) -> Any:
        return await call_tool.__sealyard_async__(*meant(server, tool, arguments))

    call_mcp_tool.__sealyard_async__ = call_mcp_tool_async  # type: ignore[attr-defined]
    return call_mcp_tool


def _arguments(name: str, arguments: dict[str, Any] | None, max_bytes: int) -> str:
    if not isinstance(name, str):
        raise TypeError(f"A tool's name is text, not {type(name).__name__}.")
    if arguments is None:
        return "{}"
    if not isinstance(arguments, dict):
        raise TypeError(f"Arguments of {name!r} are a dict of names and values, not {type(arguments).__name__}.")
    return encode.encode(arguments, max_bytes=max_bytes, root="arguments")[0]


def _execute(code: str, names: dict[str, Any], value_at: tuple[int, int] | None) -> Any:
    """Run `code` in `names`; its value is `result` if it set that, else its last expression, which is at `value_at`.

    None there: it is not known, or the code needs to be rewritten.
    """
    body: types.CodeType | None = None
    last: types.CodeType | None = None
    if value_at is not None:
        try:
            body, last = transform.split(code, failures.AGENT_FILE, *value_at)
        except SyntaxError:
            pass  # one level of parentheses too many
    if body is None:
        body = transform.compiled(code, failures.AGENT_FILE)
    with transform.leaving:
        if body.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(body, names))
        else:
            exec(body, names)
        if last is not None:
            names[transform.LAST] = eval(last, names)
    return transform.value(names)


def _success(job: dict[str, Any], value: Any) -> str:
    text, notes = encode.encode(value, max_bytes=job["result_bytes"])
    spill = None
    size = len(text.encode())
    if job["spill"] and size > job["inline_bytes"]:
        os.makedirs(os.path.dirname(job["spill"]), exist_ok=True)
        with open(job["spill"], "w", encoding="utf-8") as file:
            file.write(text)
        plain = json.loads(text)
        spill = {"path": job["spill"], "bytes": size, "shape": preview.describe(plain)}
        text = words.dumps(preview.shorten(plain, max_bytes=job["inline_bytes"]))
    return (
        f'{{"t":"done","ok":true,"result":{text},"notes":{words.dumps(notes)},"spill":{words.dumps(spill)},{_usage()}}}'
    )


def _failure(error: BaseException, source: list[str]) -> str:
    failure = failures.describe(error, source)
    return f'{{"t":"done","ok":false,"failure":{json.dumps(failure)},{_usage()}}}'


def _usage() -> str:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return f'"cpu_seconds":{used.ru_utime + used.ru_stime:.6f},"memory_peak_bytes":{used.ru_maxrss * 1024}'
