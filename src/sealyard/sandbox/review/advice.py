"""What the review knows by name, and what it says: the declarative half of the review.

Nothing here protects anybody; it saves an agent a failed run and tells it what to do instead.
"""

from typing import Literal

from sealyard.sandbox.policy.levels import NATIVE_MODULES, NETWORK_MODULES, PROCESS_MODULES

Severity = Literal["refuse", "warn"]

SEVERITIES: dict[str, tuple[Severity | None, Severity | None, Severity | None]] = {
    "syntax": ("refuse", "refuse", "refuse"),
    "size": ("refuse", "refuse", "refuse"),
    "import": ("refuse", "refuse", "refuse"),
    "unknown-tool": ("refuse", "refuse", "refuse"),
    "fork": ("refuse", "refuse", "refuse"),  # asked only where the policy allows a single process
    "subprocess": ("warn", "refuse", "refuse"),
    "dunder-chain": ("warn", "refuse", "refuse"),
    "dunder-walk": (None, "warn", "refuse"),
    "eval": (None, "warn", "refuse"),
    "signal": (None, "warn", "refuse"),
    "ctypes": ("warn", "warn", "refuse"),
    "network": ("warn", "warn", "warn"),
    "open-outside": ("warn", "warn", "warn"),
    "sandbox-file": ("warn", "warn", "warn"),
    "input": ("warn", "warn", "warn"),
    "sleep": ("warn", "warn", "warn"),
    "memory": ("warn", "warn", "warn"),
    "endless-loop": ("warn", "warn", "warn"),
    "sql-text": ("warn", "warn", "warn"),
}
"""What each rule means at development, production and hardened; `None` keeps silent."""

_ASK_A_TOOL = "Call a tool: search_tools finds one."
_NO_NETWORK = f"There is no network inside. {_ASK_A_TOOL}"
_NO_PROGRAMS = "No other program runs inside. Do the work in Python, or call a tool: search_tools finds one."
_USE_THREADS = "Use concurrent.futures.ThreadPoolExecutor or asyncio.gather."
_NO_NATIVE_CODE = "Use the standard library or an installed package."

TEXTS: dict[str, tuple[str, str]] = {
    "subprocess": ("{name} starts another program.", _NO_PROGRAMS),
    "fork": ("{name} starts a process, and policy {policy} allows only one.", _USE_THREADS),
    "eval": ("{name} runs text as code.", "Write the code out; read data with json.loads."),
    "signal": ("{name} reaches no process but the code's own.", "Raise an exception to stop early."),
    "ctypes": ("{name} calls native code, and the kernel refuses most of what that can do.", _NO_NATIVE_CODE),
    "network": ("{name} needs a network, and there is none inside.", _ASK_A_TOOL),
    "input": ("{name} waits for an answer, and standard input is empty.", "Pass values in through `context`."),
}
"""For rules about a name: the message and the hint."""

_FORMS = ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
REFERENCES: dict[str, str] = {
    **dict.fromkeys(("builtins.eval", "builtins.exec", "builtins.compile"), "eval"),
    **dict.fromkeys(("os.system", "os.popen", "os.posix_spawn", "os.posix_spawnp"), "subprocess"),
    **dict.fromkeys((f"os.{verb}{form}" for verb in ("exec", "spawn") for form in _FORMS), "subprocess"),
    **dict.fromkeys(("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"), "subprocess"),
    **dict.fromkeys(("os.fork", "os.forkpty", "concurrent.futures.ProcessPoolExecutor"), "fork"),
    **dict.fromkeys(("os.kill", "os.killpg"), "signal"),
    **dict.fromkeys(("asyncio.open_connection", "asyncio.start_server"), "network"),
}
"""Functions that fall under a rule wherever they are named, called or not."""

CALLS: dict[str, str] = dict.fromkeys(("builtins.input", "builtins.breakpoint", "getpass.getpass"), "input")
"""Functions that fall under a rule when they are called: `input` is a common name for a variable."""

_NETWORK_PACKAGES = (
    *("aiohttp", "anthropic", "boto3", "botocore", "grpc", "httplib2", "httpx", "mcp", "openai", "paramiko"),
    *("playwright", "psycopg", "psycopg2", "pycurl", "pymongo", "redis", "requests", "selenium", "urllib3"),
    *("websocket", "websockets"),
)
MODULE_CALLS: dict[str, str] = {
    **dict.fromkeys(("pexpect", "pty", "sh", "subprocess"), "subprocess"),
    **dict.fromkeys(("_ctypes", "cffi", "ctypes"), "ctypes"),
    **dict.fromkeys((*NETWORK_MODULES, *_NETWORK_PACKAGES), "network"),
    "multiprocessing": "fork",
}
"""Modules whose every function falls under a rule, where the policy lets them be imported at all."""

IMPORT_HINTS: dict[str, str] = {
    **dict.fromkeys((*PROCESS_MODULES, "pexpect", "psutil", "sh"), _NO_PROGRAMS),
    **dict.fromkeys((*NETWORK_MODULES, *_NETWORK_PACKAGES), _NO_NETWORK),
    **dict.fromkeys(NATIVE_MODULES, _NO_NATIVE_CODE),
    "multiprocessing": _USE_THREADS,
}
"""What to do instead of an import that is refused."""

ALTERNATIVES: dict[str, tuple[str, ...]] = {
    "bs4": ("html.parser", "re"),
    "dateutil": ("datetime",),
    "lxml": ("xml.etree.ElementTree", "re"),
    "numpy": ("statistics", "math"),
    "orjson": ("json",),
    "pandas": ("csv", "statistics", "collections"),
    "polars": ("csv", "statistics", "collections"),
    "pytz": ("zoneinfo", "datetime"),
    "ujson": ("json",),
    "yaml": ("json",),
}
"""What the standard library has for a package that is not there."""

WALK_ENDS = frozenset(("__subclasses__", "__globals__", "__builtins__"))
WALKS = WALK_ENDS | frozenset(
    ("__code__", "__closure__", "f_globals", "f_builtins", "f_back", "gi_frame", "cr_frame", "ag_frame", "tb_frame")
)
"""Attributes that lead out of an object into the interpreter."""
PARENTS = frozenset(("__mro__", "__base__", "__bases__"))
"""Attributes that are ordinary on a class and the first half of an escape on `x.__class__`."""
WALK_STEPS = WALK_ENDS | PARENTS | {"__init__"}
"""One of these below one of `WALK_ENDS` has no honest purpose."""
