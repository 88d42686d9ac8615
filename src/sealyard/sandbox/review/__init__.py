"""Reviews agent code before it runs: code that cannot work, code that is plainly hostile, and how much it seems to do.

This is advice and good error messages, never the boundary. Code that fools the review meets the kernel, so only code
without a chance or an honest purpose at its level is refused, and the rest is warned about.

The code is parsed, never compiled: compiling 700 bytes of nested `finally` takes seconds, and the gateway would stand
still meanwhile. The guest reports the few errors that only the compiler finds. Cost is linear in the code, and a helper
process reviews long code.
"""

import ast
import builtins
import contextlib
import functools
import importlib
import posixpath
import re
import sys
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from sealyard.code import Names, Place, Source, read
from sealyard.errors import HelperFailed, InvalidRequest
from sealyard.offload import Offload, Query, short_work
from sealyard.sandbox.guest.words import ELSEWHERE, LIBRARY
from sealyard.sandbox.policy import (
    NATIVE_MODULES,
    NETWORK_MODULES,
    PROCESS_MODULES,
    IsolationLevel,
    IsolationPolicy,
)
from sealyard.values.runs import Failure, FailureKind

__all__ = ("Estimate", "Finding", "Review", "ToolReference", "check_code", "offloaded_review", "review")

MAX_FINDINGS = 50  # a bound on the answer
MAX_IMPORTS = 100  # the same
MAX_REFERENCES = 200  # the same; no honest code names as many tools
_LONG_CHARACTERS = 2_000  # of code that a helper reads: it takes 6 ms here at worst
_NAME_CHARACTERS = 200  # of a name in a reference: longer than any tool's
_DEPTH = 12  # parts of an expression that are followed: honest ones are shorter, and the bound keeps the cost linear

Severity = Literal["refuse", "warn"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the code should not do, its place, and advice."""

    severity: Severity
    rule: str
    """A short stable name, such as `import` or `endless-loop`."""
    line: int | None = None
    """1-based; `None` when the finding is about the code as a whole."""
    column: int | None = None
    """1-based, in characters."""
    source_line: str | None = None
    message: str
    hint: str | None = None


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The amount of work in the code; all zero when it cannot be parsed."""

    calls: int = 0
    """Calls in the text, of anything."""
    tool_calls: int | None = 0
    """Tool calls at run time, at most; `None` when some are in loops or functions, so that it depends on data."""
    imports: tuple[str, ...] = ()
    """Modules that the text imports, sorted; at most 100."""


class ToolReference(msgspec.Struct, frozen=True, kw_only=True):
    """A tool or a server that the code names, at its first mention. The review itself knows no tools."""

    server: str | None = None
    """The module of `servers`; `None` for a name that `call_tool` gets."""
    name: str | None = None
    """The function of that module, or the name that `call_tool` gets; `None` for a server alone."""
    line: int
    column: int
    source_line: str | None


class Unbound(ToolReference, frozen=True, kw_only=True):
    """A function that the code calls, and whose every use ends the run, since nothing binds it.

    It may be a tool that was not imported.
    """

    name: str
    calls: int | None = 0
    """Calls at run time, at most; `None` as in an `Estimate`."""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict over a piece of code: its gravest finding, or `allow`."""

    verdict: Literal["allow", "warn", "refuse"]
    findings: tuple[Finding, ...] = ()
    """In the order of the text; of more than 50, refusals are kept before warnings."""
    estimate: Estimate = Estimate()
    references: tuple[ToolReference, ...] = ()
    """The tools and servers that the code names, in the order of the text; at most 200."""
    unbound: tuple[Unbound, ...] = ()
    """Functions that it calls, that nothing binds, and whose absence it does not notice, at most 200: none that is
    built in, or usually imported from Python's own library, so that no tool can stand in for those."""

    imports_at: int = 0
    """With `unbound`, the place in the code for further imports, in characters: behind a docstring and what it takes
    from `__future__`, which must come first."""

    def with_tools(self, servers: Mapping[str, str]) -> "Review":
        """The verdict over the code if it imported these functions, each from its server."""
        named = [each for each in self.unbound if each.name in servers]
        references = [
            ToolReference(
                server=servers[each.name],
                name=each.name,
                line=each.line,
                column=each.column,
                source_line=each.source_line,
            )
            for each in named
        ]
        calls = [self.estimate.tool_calls, *(each.calls for each in named)]
        known = [each for each in calls if each is not None]
        return msgspec.structs.replace(
            self,
            references=(*self.references, *references)[:MAX_REFERENCES],
            estimate=msgspec.structs.replace(
                self.estimate, tool_calls=sum(known) if len(known) == len(calls) else None
            ),
        )

    def with_findings(self, more: Sequence[Finding]) -> "Review":
        """The verdict with further findings."""
        if not more:
            return self
        # "refuse" sorts before "warn".
        kept = sorted((*self.findings, *more), key=lambda each: (each.severity, *_place(each)))[:MAX_FINDINGS]
        return msgspec.structs.replace(self, verdict=kept[0].severity, findings=tuple(sorted(kept, key=_place)))

    def refusal(self) -> Failure | None:
        """The failure that refused code ends with; None when the code may run."""
        if self.verdict != "refuse":
            return None
        first = next(finding for finding in self.findings if finding.severity == "refuse")
        kinds: dict[str, FailureKind] = {"syntax": "syntax", "import": "import"}
        return Failure(
            kind=kinds.get(first.rule, "refused"),
            type="Refused",
            message=first.message,
            line=first.line,
            source_line=first.source_line,
            hint=first.hint,
        )


def _place(finding: Finding) -> tuple[int, int]:
    return finding.line or 0, finding.column or 0


# Names that the review knows, and its texts

SEVERITIES: dict[str, tuple[Severity | None, Severity | None, Severity | None]] = {
    "syntax": ("refuse", "refuse", "refuse"),
    "size": ("refuse", "refuse", "refuse"),
    "import": ("refuse", "refuse", "refuse"),
    "unknown-tool": ("refuse", "refuse", "refuse"),  # by the gateway, which knows the tools
    "fork": ("refuse", "refuse", "refuse"),  # asked only where the policy allows a single process
    "subprocess": ("warn", "refuse", "refuse"),
    "dunder-chain": ("warn", "refuse", "refuse"),
    "dunder-walk": (None, "warn", "refuse"),
    "eval": (None, "warn", "refuse"),
    "signal": (None, "warn", "refuse"),
    "ctypes": ("warn", "warn", "refuse"),
    "network": ("warn", "warn", "warn"),
    "open-outside": ("warn", "warn", "warn"),
    "input": ("warn", "warn", "warn"),
    "sleep": ("warn", "warn", "warn"),
    "memory": ("warn", "warn", "warn"),
    "endless-loop": ("warn", "warn", "warn"),
}
"""The severity of each rule at development, production and hardened; `None` keeps silent."""

_ASK_A_TOOL = "Call a tool: search_tools finds one."
_NO_NETWORK = f"There is no network inside. {_ASK_A_TOOL}"
_NO_PROGRAMS = "No other program runs inside. Do the work in Python, or call a tool: search_tools finds one."
_USE_THREADS = "Use concurrent.futures.ThreadPoolExecutor or asyncio.gather."
_NO_NATIVE_CODE = "Use the standard library or an installed package."

_TEXTS: dict[str, tuple[str, str]] = {
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
_REFERENCES: dict[str, str] = {
    **dict.fromkeys(("builtins.eval", "builtins.exec", "builtins.compile"), "eval"),
    **dict.fromkeys(("os.system", "os.popen", "os.posix_spawn", "os.posix_spawnp"), "subprocess"),
    **dict.fromkeys((f"os.{verb}{form}" for verb in ("exec", "spawn") for form in _FORMS), "subprocess"),
    **dict.fromkeys(("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"), "subprocess"),
    **dict.fromkeys(("os.fork", "os.forkpty", "concurrent.futures.ProcessPoolExecutor"), "fork"),
    **dict.fromkeys(("os.kill", "os.killpg"), "signal"),
    **dict.fromkeys(("asyncio.open_connection", "asyncio.start_server"), "network"),
}
"""Functions that fall under a rule wherever they are named, called or not."""

_CALLS: dict[str, str] = dict.fromkeys(("builtins.input", "builtins.breakpoint", "getpass.getpass"), "input")
"""Functions that fall under a rule when they are called: `input` is a common name for a variable."""

_NETWORK_PACKAGES = (
    *("aiohttp", "anthropic", "boto3", "botocore", "grpc", "httplib2", "httpx", "mcp", "openai", "paramiko"),
    *("playwright", "psycopg", "psycopg2", "pycurl", "pymongo", "redis", "requests", "selenium", "urllib3"),
    *("websocket", "websockets"),
)
_MODULE_CALLS: dict[str, str] = {
    **dict.fromkeys(("pexpect", "pty", "sh", "subprocess"), "subprocess"),
    **dict.fromkeys(("_ctypes", "cffi", "ctypes"), "ctypes"),
    **dict.fromkeys((*NETWORK_MODULES, *_NETWORK_PACKAGES), "network"),
    "multiprocessing": "fork",
}
"""Modules whose every function falls under a rule, where the policy lets them be imported at all."""

_IMPORT_HINTS: dict[str, str] = {
    **dict.fromkeys((*PROCESS_MODULES, "pexpect", "psutil", "sh"), _NO_PROGRAMS),
    **dict.fromkeys((*NETWORK_MODULES, *_NETWORK_PACKAGES), _NO_NETWORK),
    **dict.fromkeys(NATIVE_MODULES, _NO_NATIVE_CODE),
    "multiprocessing": _USE_THREADS,
}
"""Advice for an import that is refused."""

_WALK_ENDS = frozenset(("__subclasses__", "__globals__", "__builtins__"))
_WALKS = _WALK_ENDS | frozenset(
    ("__code__", "__closure__", "f_globals", "f_builtins", "f_back", "gi_frame", "cr_frame", "ag_frame", "tb_frame")
)
"""Attributes that lead out of an object into the interpreter."""
_PARENTS = frozenset(("__mro__", "__base__", "__bases__"))
"""Attributes that are ordinary on a class and the first half of an escape on `x.__class__`."""
_WALK_STEPS = _WALK_ENDS | _PARENTS | {"__init__"}
"""One of these below one of `_WALK_ENDS` has no honest purpose."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_STDLIB = frozenset(sys.stdlib_module_names)
_WORKING_DIRECTORY = "/workspace"
_SYSTEM_FILES = ("/etc/localtime", "/usr/share/zoneinfo", "/etc/passwd")  # the sandbox has a passwd file of its own
_REACHABLE = (_WORKING_DIRECTORY, "/tmp", "/servers", *_SYSTEM_FILES)  # noqa: S108 - inside the sandbox
_DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_PATH_METHODS = frozenset(("open", "read_bytes", "read_text", "write_bytes", "write_text"))
_IMPORTERS = frozenset(("builtins.__import__", "importlib.import_module", "importlib.__import__"))
_TOOL_CALLERS = frozenset(
    ("builtins.call_mcp_tool", "builtins.call_tool", "servers.call_tool", "tool_discovery.call_tool")
)
_GUEST_NAMES = ("ToolError", "call_mcp_tool", "call_tool", "context", "result", "search_tools")
"""Names that every run has or asks for."""


@functools.cache
def _familiar() -> frozenset[str]:
    """Names that code calls when its author forgot an import: a tool named so would be handed the data."""
    own = [name for module in LIBRARY for name in vars(importlib.import_module(module)) if not name.startswith("_")]
    return frozenset((*dir(builtins), *_GUEST_NAMES, *sys.stdlib_module_names, *ELSEWHERE, *own))


_SLEEPS = frozenset(("time.sleep", "asyncio.sleep"))
_ALL_WALKS = _WALKS | _PARENTS
_CHECKED_BUILTINS = {name.removeprefix("builtins.") for name in _REFERENCES if name.startswith("builtins.")}
_CHECKED_BUILTINS.add("__builtins__")
"""Built-in names that a rule covers wherever they occur."""
_CHECKED_MODULES = frozenset(name.partition(".")[0] for name in _MODULE_CALLS)
"""The first parts of the modules whose every function falls under a rule."""


def check_code(code: str) -> None:
    """Raise `InvalidRequest` for code that is too large to be read."""
    if read(code).is_larger(Source.most_bytes):
        raise InvalidRequest(
            f"The code is larger than {Source.most_bytes:,} bytes. Pass data in through `context` or a file in the "
            "workspace."
        )


def review(
    code: str,
    policy: IsolationPolicy,
    *,
    packages: Collection[str] = (),
) -> Review:
    """Judge `code` under `policy` without running it.

    `packages` are the importable names that the guest environment has; without them the policy's own are taken to be
    there. Names of tools are not checked: they are in the `references`.
    """
    source = read(code)
    names = source.names
    if names is None:
        return Review(verdict="refuse", findings=(_unreadable(source),))
    notes = _Notes(code, policy)
    for node, words in names.misplaced:
        message = f"SyntaxError: {words}."
        notes.add("syntax", node, message, _SYNTAX_HINTS.get(message))
    for loop in names.endless_loops():
        notes.add("endless-loop", loop, "Nothing in this loop ends it.", "Add a `break`.")
    rules = _Rules(names, notes, policy, packages=packages)
    for noted, place in names.noted:
        rules.check(noted, place)
    return notes.review(rules.estimate(), names.tree)


async def offloaded_review(
    code: str, policy: IsolationPolicy, packages: Collection[str], *, offload: Offload | None, who: str
) -> Review:
    """`review` of code for the principal `who`, beside the event loop. Code that takes too long to be read is refused.

    Verdicts over sources that are kept are remembered: the same text costs a lookup.
    """
    known = read(code).of(_verdicts)
    for key, verdict in known:
        if key == (policy, packages):
            return verdict
    document = None
    if offload is not None and len(code) > _LONG_CHARACTERS:
        with contextlib.suppress(UnicodeEncodeError):  # the review says so at once
            document = code.encode()
    if offload is None or document is None:
        async with short_work():
            verdict = review(code, policy, packages=packages)
    else:
        params = {"policy": policy, "packages": sorted(packages)}
        try:
            answered = await offload.run("review", params, document, who=who)
        except HelperFailed as error:
            hint = "Pass data in through `context` or a file in the workspace, and split long expressions."
            message = f"The code could not be read: {error}"
            return Review(
                verdict="refuse", findings=(Finding(severity="refuse", rule="size", message=message, hint=hint),)
            )
        verdict = msgspec.convert(answered.result, Review)
    known.append(((policy, packages), verdict))
    return verdict


def _verdicts(source: Source) -> deque[tuple[tuple[IsolationPolicy, Collection[str]], Review]]:
    """The last two verdicts over one source: the same text may run under two policies."""
    return deque(maxlen=2)


class _Given(msgspec.Struct):
    policy: IsolationPolicy
    packages: list[str]


def review_in_helper(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """`review`, as a task of a helper process."""
    given = msgspec.convert(params, _Given)
    found = review(body.decode(), given.policy, packages=frozenset(given.packages))
    return msgspec.to_builtins(found), b""


_SYNTAX_HINTS = {
    "SyntaxError: 'return' outside function.": "End with the value as an expression, or set `result`.",
    "SyntaxError: 'await' outside async function.": "Write `async def`, or leave out `await`: tools answer either way.",
    "The code is nested too deeply for Python's parser.": "Split the expression, or pass the data in by `context`.",
}


def _unreadable(source: Source) -> Finding:
    """The refusal of code that has no syntax tree."""
    fault = source.fault
    assert fault is not None
    if fault.kind == "size":
        advice = "Pass data in through `context` or a file in the workspace."
        return Finding(severity="refuse", rule="size", message=fault.message, hint=advice)
    line = _source_line(_split_lines(source.text), fault.line)
    start = (line or "").lstrip()
    hint = _SYNTAX_HINTS.get(fault.message)
    if start.startswith("```"):
        hint = "Send the code alone, without the ``` fence around it."
    elif start.startswith(("!", "%")):
        hint = "Leave out notebook commands: this is plain Python."
    return Finding(
        severity="refuse",
        rule="syntax",
        line=fault.line if line is not None else None,
        column=fault.column if fault.column and fault.column > 0 else None,  # 3.11 counts backwards in some f-strings
        source_line=line,
        message=fault.message,
        hint=hint,
    )


_LEVELS = {level: place for place, level in enumerate(IsolationLevel)}


class _Notes:
    """Collects findings cheaply; writes them out, ordered and bounded, at the end."""

    def __init__(self, code: str, policy: IsolationPolicy) -> None:
        self._code = code
        self._level = _LEVELS[policy.level]
        self._found: dict[tuple[int, int, str, str], tuple[Severity, str | None]] = {}
        self._references: dict[tuple[str | None, str | None], tuple[int, int]] = {}
        self._unbound: dict[str, tuple[int, int, int | None]] = {}

    def add(self, rule: str, node: ast.expr | ast.stmt | ast.alias, message: str, hint: str | None) -> None:
        """Note something about `node`, unless the level is silent about it."""
        severity = SEVERITIES[rule][self._level]
        if severity is not None:
            self._found.setdefault((node.lineno, node.col_offset, rule, message), (severity, hint))

    def refer(self, node: ast.expr | ast.stmt | ast.alias, server: str | None, name: str | None) -> None:
        """Note that `node` names a tool or a server."""
        place = (node.lineno, node.col_offset)
        self._references[server, name] = min(place, self._references.get((server, name), place))

    def miss(self, node: ast.Name, calls: int | None) -> None:
        """Note that the code calls a name that nothing binds."""
        line, offset, before = self._unbound.get(node.id, (node.lineno, node.col_offset, 0))
        line, offset = min((line, offset), (node.lineno, node.col_offset))
        self._unbound[node.id] = line, offset, None if calls is None or before is None else before + calls

    def review(self, estimate: Estimate, tree: ast.Module) -> Review:
        ranked = sorted(self._found.items(), key=lambda item: (item[1][0], item[0]))  # "refuse" sorts before "warn"
        named = sorted(self._references.items(), key=lambda item: (item[1], item[0][1] or ""))[:MAX_REFERENCES]
        lines = _split_lines(self._code) if ranked or named or self._unbound else []
        findings = tuple(
            Finding(
                severity=severity,
                rule=rule,
                line=line,
                column=_column(lines, line, offset),
                source_line=_source_line(lines, line),
                message=message,
                hint=hint,
            )
            for (line, offset, rule, message), (severity, hint) in sorted(ranked[:MAX_FINDINGS])
        )
        references = tuple(
            ToolReference(
                server=server,
                name=name,
                line=line,
                column=_column(lines, line, offset),
                source_line=_source_line(lines, line),
            )
            for (server, name), (line, offset) in named
        )
        unbound = tuple(
            Unbound(
                name=name,
                line=line,
                column=_column(lines, line, offset),
                source_line=_source_line(lines, line),
                calls=calls,
            )
            for name, (line, offset, calls) in list(self._unbound.items())[:MAX_REFERENCES]
        )
        verdict = ranked[0][1][0] if ranked else "allow"
        return Review(
            verdict=verdict,
            findings=findings,
            estimate=estimate,
            references=references,
            unbound=unbound,
            imports_at=_imports_at(tree, self._code, lines) if unbound else 0,
        )


def _imports_at(tree: ast.Module, code: str, lines: list[str]) -> int:
    """The beginning of the first statement that may stand behind other imports; its line may hold one before it."""
    kept = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    while isinstance(node := tree.body[kept], ast.ImportFrom) and node.module == "__future__":
        kept += 1
    line, column = node.lineno, node.col_offset
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.decorator_list:
        line = node.decorator_list[0].lineno
        while not lines[line - 1].lstrip().startswith("@"):  # in `@(` the expression begins on a later line
            line -= 1
        column = lines[line - 1].index("@")
    start = [0, *(found.end() for found in _LINE_END.finditer(code))][line - 1]
    return start + _column(lines, line, column) - 1


@functools.lru_cache(maxsize=32)  # a gateway has three levels, and a few limits that runs ask for
def _allowed_modules(policy: IsolationPolicy, packages: frozenset[str]) -> frozenset[str] | None:
    """The names that code may import; None for all."""
    return policy.allowed_modules(stdlib=_STDLIB, packages=packages)


class _Rules:
    """Checks each noted node against the policy and the tools."""

    def __init__(
        self,
        names: Names,
        notes: _Notes,
        policy: IsolationPolicy,
        *,
        packages: Collection[str],
    ) -> None:
        self._names = names
        self._imports = set(names.imports)
        self._arithmetic = _Arithmetic(names)
        self._notes = notes
        self._policy = policy
        self._packages = frozenset(packages or policy.packages)
        self._refused = frozenset(policy.refused_modules)
        # Bound anywhere is bound: code that defines a name of its own never means a tool by it.
        self._unbound = names.unbound.keys() - names.bound
        if self._unbound:
            self._unbound -= _familiar()
        if self._unbound:
            self._unbound = names.missed(self._unbound)
        self._covered: set[int] = set()
        """Nodes that the finding about a larger node covers."""
        self._calls = 0
        self._tool_calls: int | None = 0

    def check(self, node: ast.AST, place: Place) -> None:
        match node:
            case ast.Name():  # the most frequent first
                self._check_name(node, place)
            case ast.Call():
                self._check_call(node, place)
            case ast.Attribute():
                self._check_attribute(node, place)
            case ast.BinOp():
                self._check_size(node, self._arithmetic.size_bytes(node))
            case ast.ImportFrom():
                self._check_import_from(node, place)
            case ast.Import():
                for alias in node.names:
                    self._check_import(alias.name, alias, place)

    def estimate(self) -> Estimate:
        return Estimate(
            calls=self._calls,
            tool_calls=self._tool_calls,
            imports=tuple(sorted(self._imports)[:MAX_IMPORTS]),
        )

    # Imports

    @functools.cached_property
    def _allowed(self) -> frozenset[str] | None:
        return _allowed_modules(self._policy, self._packages)

    def _is_importable(self, name: str) -> bool:
        if self._allowed is None:
            return True
        prefixes = _prefixes(name)
        return not self._allowed.isdisjoint(prefixes) and self._refused.isdisjoint(prefixes)

    def _is_refused(self, name: str) -> bool:
        """True if it is refused although the rest of the policy would allow it."""
        return name in self._refused and self._allowed is not None

    def _check_import(self, name: str, node: ast.expr | ast.stmt | ast.alias, place: Place) -> None:
        if self._is_importable(name):
            self._refer_server(name, node)
        elif not place.is_optional:
            message = f"{_quote(name)} cannot be imported under policy {self._policy.name!r}."
            self._notes.add("import", node, message, self._import_hint(name))

    def _check_import_from(self, node: ast.ImportFrom, place: Place) -> None:
        if node.module is None or node.level:
            message = "A relative import needs a package around the code, and there is none."
            self._notes.add("import", node, message, "Name the module in full.")
            return
        self._check_import(node.module, node, place)
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if self._is_refused(name):
                self._check_import(name, alias, place)
            elif node.module.count(".") < 2:  # deeper, the module itself is the tool
                self._refer_server(name, alias)

    def _import_hint(self, name: str) -> str:
        for prefix in reversed(_prefixes(name)):
            if prefix in _IMPORT_HINTS:
                return _IMPORT_HINTS[prefix]
        if self._policy.imports == "listed":
            return f"These can be imported: {', '.join(sorted(self._policy.modules))}."
        packages = f", {', '.join(sorted(self._packages))}" if self._packages else ""
        return f"These can be imported: the standard library{packages}."

    # Calls and names

    def _resolve(self, node: ast.expr, place: Place) -> str | None:
        """The one dotted name that an expression stands for: `o.system` is `os.system` after `import os as o`."""
        name = self._names.meaning(node, place.scope)
        return name if name is None or name.partition(".")[0] != "posix" else f"os{name.removeprefix('posix')}"

    def _check_call(self, node: ast.Call, place: Place) -> None:
        self._calls += 1
        self._check_path_method(node.func, place)
        name = self._resolve(node.func, place)
        if name is None:
            return
        if isinstance(node.func, ast.Name) and node.func.id in self._unbound and not node.func.id.startswith("_"):
            self._notes.miss(node.func, None if place.depth or place.is_called else 1)
            return
        text, number = _text_of(node.args), self._arithmetic.number(node.args[0]) if node.args else None
        if _is_tool(name):
            self._count_tool_call(place)
            if name in _TOOL_CALLERS:
                self._refer_tool(self._names.called_tool(node, place.scope), node)
        elif name in _CALLS:
            self._check_rule(_CALLS[name], name, node)
        elif name in ("builtins.open", "io.open") and text is not None:
            self._check_path(text, node)
        elif name == "builtins.getattr" and (attribute := _text_of(node.args[1:])) is not None:
            self._check_walk(attribute, node.args[0], node)
        elif name in _IMPORTERS and text is not None and all(part.isidentifier() for part in text.split(".")):
            self._imports.add(text)
            self._check_import(text, node, place)
        elif name in _SLEEPS and number is not None and number > self._policy.wall_seconds:
            message = f"Sleeping for {number:g} s outlasts the wall limit of {self._policy.wall_seconds:g} s."
            self._notes.add("sleep", node, message, "Sleep less, or ask for a longer limit.")
        elif name in ("builtins.bytes", "builtins.bytearray"):
            self._check_size(node, number)
        elif name.partition(".")[0] in _CHECKED_MODULES and name not in _REFERENCES:
            for prefix in _prefixes(name)[:-1]:
                self._check_rule(_MODULE_CALLS.get(prefix), name, node)

    def _check_attribute(self, node: ast.Attribute, place: Place) -> None:
        self._check_walk(node.attr, node.value, node)
        name = self._resolve(node, place)
        if name is None:
            return
        if self._is_refused(name) and name not in self._imports:
            self._check_import(name, node, place)  # `urllib.request` after `import urllib`
        else:
            self._check_rule(_REFERENCES.get(name), name, node)
            self._refer_server(name, node)

    def _check_name(self, node: ast.Name, place: Place) -> None:
        if node.id not in _CHECKED_BUILTINS and self._names.find(node.id, place.scope) is None:
            return  # the usual case: no rule covers it
        name = self._resolve(node, place)
        if name == "builtins.__builtins__":
            self._check_walk(node.id, node, node)
        elif name is not None and id(node) not in self._names.owners and id(node) not in self._names.indexed:
            self._check_rule(_REFERENCES.get(name), name, node)

    def _check_rule(self, rule: str | None, name: str, node: ast.expr) -> None:
        if rule is None or (rule == "fork" and self._policy.processes > 1):
            return
        if not name.startswith("builtins.") and not self._is_importable(name):
            return  # the finding about the import is enough
        message, hint = _TEXTS[rule]
        shown = _quote(name.removeprefix("builtins."))
        self._notes.add(rule, node, message.format(name=shown, policy=repr(self._policy.name)), hint)

    def _check_walk(self, attribute: str, below: ast.expr, node: ast.expr) -> None:
        """`x.__class__.__bases__[0].__subclasses__()`: one finding for the whole of it."""
        if id(node) in self._covered or attribute not in _ALL_WALKS:
            return
        passed: set[str] = set()
        for _ in range(_DEPTH):
            self._covered.add(id(below))
            if isinstance(below, ast.Attribute):
                passed.add(below.attr)
            if not isinstance(below, ast.Attribute | ast.Subscript | ast.Call):
                break
            below = below.func if isinstance(below, ast.Call) else below.value
        if attribute in _PARENTS and "__class__" not in passed:
            return
        is_chain = attribute in _WALK_ENDS and not passed.isdisjoint(_WALK_STEPS)
        message = f"{attribute!r} leads out of the object into the interpreter."
        hint = "Keep to the object's own methods and attributes."
        self._notes.add("dunder-chain" if is_chain else "dunder-walk", node, message, hint)

    # Files and memory

    def _check_path_method(self, function: ast.expr, place: Place) -> None:
        """`Path("/etc/hosts").read_text()`."""
        if isinstance(function, ast.Attribute) and function.attr in _PATH_METHODS:
            made = function.value
            if isinstance(made, ast.Call) and len(made.args) == 1 and self._resolve(made.func, place) == "pathlib.Path":
                path = _text_of(made.args)
                if path is not None:
                    self._check_path(path, made)

    def _check_path(self, path: str, node: ast.expr) -> None:
        whole = posixpath.normpath(posixpath.join(_WORKING_DIRECTORY, path))
        if whole not in _DEVICES and not any(f"{whole}/".startswith(f"{known}/") for known in _REACHABLE):
            hint = "Keep files in the working directory, /workspace. Call a tool to read others."
            self._notes.add("open-outside", node, f"{_quote(path)} cannot be reached from inside.", hint)

    def _check_size(self, node: ast.expr, size_bytes: float | None) -> None:
        if size_bytes is None or id(node) in self._covered or size_bytes <= self._policy.memory_mib << 20:
            return
        part = node
        while isinstance(part, ast.BinOp):  # `"x" * 10**9 * 2` is one value
            self._covered.add(id(part))
            part = part.left
        message = f"This value alone exceeds the memory limit of {self._policy.memory_mib:,} MiB."
        self._notes.add("memory", node, message, "Work in smaller pieces.")

    # Tools

    def _count_tool_call(self, place: Place) -> None:
        if place.depth or place.is_called:
            self._tool_calls = None
        elif self._tool_calls is not None:
            self._tool_calls += 1

    def _refer_tool(self, name: str | None, node: ast.expr) -> None:
        if name is not None and name != "search_tools":
            self._notes.refer(node, None, _writable(name))

    def _refer_server(self, name: str, node: ast.expr | ast.stmt | ast.alias) -> None:
        """`servers.<server>` and `servers.<server>.<tool>`, maybe with more behind."""
        if name.startswith("servers."):
            _, server, *rest = name.split(".")
            if not _is_plumbing(server) and not (rest and _is_plumbing(rest[0])):
                self._notes.refer(node, _writable(server), _writable(rest[0]) if rest else None)


class _Arithmetic:
    """Values of numbers and sizes of literals that the text spells out; floats, so that `10**10**9` costs nothing."""

    def __init__(self, names: Names) -> None:
        self._numbers: dict[int, float | None] = {}
        self._sizes: dict[int, float | None] = {}
        for node, _ in reversed(names.noted):  # operands come before what they are part of
            if isinstance(node, ast.BinOp):
                self._numbers[id(node)] = _operate(node.op, self.number(node.left), self.number(node.right))
                if isinstance(node.op, ast.Mult):
                    self._sizes[id(node)] = self._repeat(node.left, node.right) or self._repeat(node.right, node.left)

    def number(self, node: ast.expr) -> float | None:
        """The value of a number, or of sums, products, powers and shifts of numbers."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return float(node.value) if node.value < 1e300 else float("inf")
        return self._numbers.get(id(node))

    def size_bytes(self, node: ast.expr) -> float | None:
        """The least memory that a literal takes, repeated or not: `"x" * 10**9`, `[0] * n`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return float(len(node.value))
        if isinstance(node, ast.List | ast.Tuple):
            return 8.0 * len(node.elts)
        return self._sizes.get(id(node))

    def _repeat(self, repeated: ast.expr, times: ast.expr) -> float | None:
        size, count = self.size_bytes(repeated), self.number(times)
        return None if size is None or count is None else size * count


def _operate(operator: ast.operator, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Mult():
                return left * right
            case ast.Pow():
                return float(left**right)
            case ast.LShift():
                return left * float(2.0**right)
    except OverflowError:
        return float("inf")
    return None


def _text_of(arguments: list[ast.expr]) -> str | None:
    """The first argument, if it is text that stands in the code."""
    first = arguments[0] if arguments else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _is_tool(name: str) -> bool:
    return name in _TOOL_CALLERS or (name.startswith("servers.") and name.count(".") > 1)


def _writable(name: str) -> str:
    """A name as a reference holds it: text that can be sent, and not longer than is needed to look it up."""
    return name[:_NAME_CHARACTERS].encode("utf-8", "backslashreplace").decode()


def _is_plumbing(name: str) -> bool:
    """True if the guest may offer this beside tools."""
    return name.startswith("_") or name in ("*", "call_tool", "search_tools")


def _prefixes(name: str) -> list[str]:
    parts = name.split(".", _DEPTH)
    return [".".join(parts[: index + 1]) for index in range(len(parts))]


def _split_lines(code: str) -> list[str]:
    """Lines as Python counts them; `splitlines` would also split at form feeds and the like."""
    return _LINE_END.split(code)


def _source_line(lines: list[str], line: int | None) -> str | None:
    if not line or line > len(lines):
        return None
    return _shorten(lines[line - 1], 200).encode(errors="replace").decode()


def _column(lines: list[str], line: int, offset: int) -> int:
    source = lines[line - 1] if line <= len(lines) else ""
    return len(source.encode()[:offset].decode(errors="ignore")) + 1


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _quote(name: str) -> str:
    return repr(_shorten(name, 80))
