"""A world with tools in it, before and after a change, in which code is run and its calls are recorded."""

import ast
import asyncio
import contextlib
import copy
import importlib
import inspect
import io
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sealyard.values.tools import ToolSpec
from sealyard.versioning.migrate import migrate
from sealyard.versioning.plan import (
    AddParameter,
    Plan,
    RemoveParameter,
    RenameField,
    RenameParameter,
    RenameTool,
    RetypeParameter,
    Step,
    adapt_answer,
    signature_names,
    translate_arguments,
)

GUEST = Path(__file__).parents[3] / "src/sealyard/sandbox/guest"
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
PARAMETERS = {"user_id": TEXT, "start": TEXT, "limit": NUMBER, "verbose": FLAG}
ANSWER = {
    "items": [
        {"id": 1, "name": "a", "amount": 5, "tags": [{"name": "t1"}], "owner": {"name": "x"}},
        {"id": 2, "name": "b", "amount": 50, "tags": [], "owner": {"name": "y"}},
    ],
    "total": 2,
    "name": "top",
    "start": "s",
}
OTHER_ANSWER = {"ok": True, "name": "n", "items": [{"name": "q"}]}
_TYPES = {"string": str, "integer": int, "boolean": bool}


def make_spec(
    parameters: dict[str, Any],
    required: tuple[str, ...] = (),
    *,
    name: str = "list_expenses",
    module: str = "expenses",
    output: dict[str, Any] | None = None,
) -> ToolSpec:
    """A tool with these parameters."""
    return ToolSpec(
        upstream=module,
        name=name,
        full_name=f"mcp__{module}__{name}",
        module=module,
        function=name,
        input_schema={"type": "object", "properties": parameters, "required": list(required)},
        output_schema=output,
        digest=f"{name} {parameters} {required} {output}",
    )


BEFORE = make_spec(PARAMETERS, ("user_id",))
OTHER = make_spec({"name": TEXT, "start": TEXT}, ("name",), name="add_expense")


def make_change(
    *steps: Step,
    parameters: dict[str, Any] | None = None,
    required: tuple[str, ...] = ("user_id",),
    name: str = "list_expenses",
    module: str = "expenses",
) -> Plan:
    """The plan of these steps, and the definition that they lead to."""
    after = make_spec(parameters or PARAMETERS, required, name=name, module=module)
    moved = (after.name, after.module) != (BEFORE.name, BEFORE.module)
    named = (RenameTool(full_name=after.full_name, module=module, function=name),) if moved else ()
    return Plan(
        before=BEFORE,
        after=after,
        steps=(*steps, *named),
        names_before=signature_names(BEFORE),
        names_after=signature_names(after),
    )


def _renamed(before: str, after: str) -> dict[str, Any]:
    return {after if key == before else key: schema for key, schema in PARAMETERS.items()}


def _without(name: str) -> dict[str, Any]:
    return {key: schema for key, schema in PARAMETERS.items() if key != name}


CHANGES = {
    "tool": make_change(name="fetch_expenses"),
    "tool_to_taken": make_change(name="rows"),
    "module": make_change(module="costs"),
    "both": make_change(name="fetch", module="costs"),
    "start": make_change(RenameParameter(before="start", after="since"), parameters=_renamed("start", "since")),
    "user": make_change(
        RenameParameter(before="user_id", after="account"),
        parameters=_renamed("user_id", "account"),
        required=("account",),
    ),
    "swap": make_change(
        RenameParameter(before="start", after="since"),
        RenameParameter(before="limit", after="start"),
        parameters={"user_id": TEXT, "start": NUMBER, "since": TEXT, "verbose": FLAG},
    ),
    "rm_start": make_change(RemoveParameter(name="start"), parameters=_without("start")),
    "rm_verbose": make_change(RemoveParameter(name="verbose"), parameters=_without("verbose")),
    "rm_limit": make_change(RemoveParameter(name="limit"), parameters=_without("limit")),
    "add_first": make_change(
        AddParameter(name="tenant", value='it\'s "main"'),
        parameters={"tenant": TEXT, **PARAMETERS},
        required=("tenant", "user_id"),
    ),
    "add_last": make_change(
        AddParameter(name="mode", value=3), parameters={**PARAMETERS, "mode": NUMBER}, required=("user_id", "mode")
    ),
    "req_limit": make_change(AddParameter(name="limit", value=10), required=("user_id", "limit")),
    "int_str": make_change(RetypeParameter(name="limit", to="string"), parameters={**PARAMETERS, "limit": TEXT}),
    "str_int": make_change(RetypeParameter(name="user_id", to="integer"), parameters={**PARAMETERS, "user_id": NUMBER}),
    "reorder": make_change(parameters=dict(reversed(PARAMETERS.items()))),
    "f_name": make_change(RenameField(path="items[].name", after="title")),
    "f_items": make_change(RenameField(path="items", after="rows")),
    "f_total": make_change(RenameField(path="total", after="count")),
    "f_owner": make_change(RenameField(path="items[].owner.name", after="title")),
    "f_tags": make_change(
        RenameField(path="items[].tags[].name", after="label"), RenameField(path="items", after="rows")
    ),
    "all": make_change(
        RenameParameter(before="start", after="since"),
        AddParameter(name="tenant", value="main"),
        RetypeParameter(name="limit", to="string"),
        RemoveParameter(name="verbose"),
        RenameField(path="items[].name", after="title"),
        RenameField(path="items", after="rows"),
        parameters={"tenant": TEXT, "limit": TEXT, "since": TEXT, "user_id": TEXT},
        required=("user_id", "tenant"),
        name="fetch",
    ),
}


def outcome(code: str, plan: Plan, *, form: Any = "function", name: str | None = None) -> str:
    """`refused`, or `right` if the migrated code does, with the new tool, what the old code does with the old one.

    Raises:
        AssertionError: It does something else.
    """
    value, calls, printed = run(code, [(BEFORE, ANSWER), (OTHER, OTHER_ANSWER)])
    migration = migrate(code, plan, form=form, name=name)
    if migration.refusals:
        assert migration.code == code
        return "refused"
    assert plan.after is not None
    now = run(migration.code, [(plan.after, adapt_answer(plan, ANSWER)), (OTHER, OTHER_ANSWER)])
    expected = [
        (plan.after.full_name, translate_arguments(plan, given)) if tool == BEFORE.full_name else (tool, given)
        for tool, given in calls
    ]
    if "ThreadPoolExecutor" in code:  # two threads call in any order
        now, expected = (now[0], sorted(now[1], key=repr), now[2]), sorted(expected, key=repr)
    assert now == (value, expected, printed)
    return "right"


def run(code: str, answers: Sequence[tuple[ToolSpec, Any]]) -> tuple[Any, list[tuple[str, dict[str, Any]]], str]:
    """Run code as the sandbox does: what it gives, what it called, what it printed."""
    transform = _load("transform")
    calls: list[tuple[str, dict[str, Any]]] = []
    modules, call_tool = _tools(answers, calls)
    names: dict[str, Any] = {"call_tool": call_tool, "__name__": "__main__", "user_id": "7", **transform.names()}
    printed = io.StringIO()
    asynchronous = "await" in code or "async" in code
    tree = transform.prepare(ast.parse(code), asynchronous=asynchronous)
    compiled = compile(tree, "<skill>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    with _modules(modules), contextlib.redirect_stdout(printed):
        if compiled.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(compiled, names))
        else:
            exec(compiled, names)
        value = names.get("result", names.get(transform.LAST))
        if "run" in names:
            value = names["run"]("7", 5)
            value = asyncio.run(value) if inspect.iscoroutine(value) else value
    return value, calls, printed.getvalue()


def _load(name: str) -> Any:
    """Load a module as the sandbox does: by its own name, without the package around it."""
    sys.path.insert(0, str(GUEST))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(GUEST))


@contextlib.contextmanager
def _modules(modules: dict[str, types.ModuleType]) -> Iterator[None]:
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]


def _tools(
    answers: Sequence[tuple[ToolSpec, Any]], calls: list[tuple[str, dict[str, Any]]]
) -> tuple[dict[str, types.ModuleType], Callable[..., Any]]:
    modules = {"servers": types.ModuleType("servers")}
    by_name: dict[str, Callable[[dict[str, Any]], Any]] = {}
    for spec, answer in answers:
        function, by_name[spec.full_name] = _tool(spec, answer, calls)
        name = f"servers.{spec.module}"
        module = modules.setdefault(name, types.ModuleType(name))
        setattr(modules["servers"], spec.module, module)
        setattr(module, spec.function, function)
    for module in modules.values():
        module.__path__ = []

    def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
        return by_name[name](dict(arguments or {}))

    async def call_tool_later(name: str, arguments: dict[str, Any] | None = None) -> Any:
        return call_tool(name, arguments)

    call_tool.__sealyard_async__ = call_tool_later  # type: ignore[attr-defined]
    return modules, call_tool


def _tool(
    spec: ToolSpec, answer: Any, calls: list[tuple[str, dict[str, Any]]]
) -> tuple[Callable[..., Any], Callable[[dict[str, Any]], Any]]:
    """A tool's function, and what takes its arguments by the schema's keys."""
    required, properties = set(spec.input_schema["required"]), spec.input_schema["properties"]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    empty = inspect.Parameter.empty
    signature = inspect.Signature(
        [
            inspect.Parameter(key, kind, default=empty if key in required else None)
            for key in signature_names(spec).values()
        ]
    )

    def call(arguments: dict[str, Any]) -> Any:
        assert required <= arguments.keys() <= properties.keys(), arguments
        for key, value in arguments.items():
            assert value is None or type(value) is _TYPES[properties[key]["type"]], (key, value)
        calls.append((spec.full_name, copy.deepcopy(dict(arguments))))
        return copy.deepcopy(answer)

    def function(*given: Any, **named: Any) -> Any:
        return call(signature.bind(*given, **named).arguments)

    async def later(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    function.__sealyard_async__ = later  # type: ignore[attr-defined]
    function.__name__ = spec.function
    return function, call
