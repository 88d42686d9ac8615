"""An MCP server over stdio with the tools of one AgentDojo suite: `dojo.py SUITE SOCKET [DATA]`.

It runs in the environment of `requirements/tasks.txt`. The agent has the tools; whoever holds the Unix socket, which no
tool names and no sandbox reaches, chooses the task, and asks for the suite's judgement of what has become of its world.
"""

import asyncio
import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agentdojo  # type: ignore[import-not-found]
import mcp_types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import TypeAdapter

_VERSION = "v1.2.2"


def _load(name: str, data: Path | None) -> Any:
    """The suite. The clients of model providers that the package imports on the way are left out."""
    pipeline = types.ModuleType("agentdojo.agent_pipeline")
    pipeline.__path__ = [str(Path(agentdojo.__path__[0]) / "agent_pipeline")]
    truth = types.ModuleType("agentdojo.agent_pipeline.ground_truth_pipeline")
    truth.GroundTruthPipeline = None  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in (pipeline, truth)}
    # Not before the clients are out of the way.
    from agentdojo.task_suite.load_suites import get_suite  # type: ignore[import-not-found]  # noqa: PLC0415

    suite = get_suite(_VERSION, name)
    if data is not None and (data / name).is_dir():
        suite.data_path = data / name
    return suite


# The package declares no annotations. These follow from what each function does with its environment.
_READING = ("get_", "read_", "search_", "list_", "check_")
_MARKING = "get_unread_emails"  # marks them as read
# Fields whose values are private whatever they look like, and forms that are private wherever they stand.
_FIELDS = {
    "ID_number",
    "bank_account_number",
    "credit_card_number",
    "passport_number",
    "password",
    "phone_number",
    "street",
}
_FORMS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b[A-Z]{2}\d{10,30}\b|\b[A-Z]{2}\d{2}[A-Z]{4}\d{10,26}\b")


class Dojo:
    """A suite, the world of the task at hand, and the calls that were made in it."""

    def __init__(self, suite: Any) -> None:
        self._suite = suite
        self._tools = {tool.name: tool for tool in suite.tools}
        self._returned = {name: TypeAdapter(tool.return_type) for name, tool in self._tools.items()}
        self._begin(next(iter(suite.user_tasks)), None)

    # The agent's side

    async def list_tools(self, _: Any, __: Any) -> mcp_types.ListToolsResult:
        """The tools as the suite describes them, with annotations and the types of their answers."""
        return mcp_types.ListToolsResult(tools=[self._definition(name) for name in self._tools])

    def _definition(self, name: str) -> mcp_types.Tool:
        tool = self._tools[name]
        is_reading = name.startswith(_READING)
        output = self._returned[name].json_schema(mode="serialization")
        defs = {"$defs": output.pop("$defs")} if "$defs" in output else {}
        return mcp_types.Tool(
            name=name,
            description=tool.description,
            input_schema=tool.parameters.model_json_schema(),
            output_schema={
                "type": "object",
                "properties": {"result": output},
                "required": ["result"],
                "x-fastmcp-wrap-result": True,
                **defs,
            },
            annotations=mcp_types.ToolAnnotations(
                read_only_hint=is_reading and name != _MARKING, destructive_hint=not is_reading
            ),
        )

    async def call_tool(self, _: Any, request: Any) -> mcp_types.CallToolResult:
        """The answer twice, as text and as data, or the function's error."""
        tool, arguments = self._tools[request.name], dict(request.arguments or {})
        self._calls.append((request.name, arguments))
        try:
            given = tool.parameters.model_validate(arguments).model_dump()
            parts = {name: part.extract_dep_from_env(self._world) for name, part in tool.dependencies.items()}
            returned = tool(**given, **parts)
        except Exception as error:  # noqa: BLE001 - the agent is told of every failure of a tool
            text = f"{type(error).__name__}: {error}"
            return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=text)], is_error=True)
        value = self._returned[request.name].dump_python(returned, mode="json")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return mcp_types.CallToolResult(
            content=[mcp_types.TextContent(text=text)], structured_content={"result": value}
        )

    # The harness's side

    def _list(self) -> dict[str, Any]:
        """The names of tasks, attacks and tools."""
        return {
            "tasks": list(self._suite.user_tasks),
            "attacks": list(self._suite.injection_tasks),
            "tools": list(self._tools),
        }

    def _begin(self, task: str, attack: str | None) -> dict[str, Any]:
        """A new world for the task, with the goal of the attack wherever the suite has a place for one."""
        self._task, self._attack = self._suite.user_tasks[task], None
        places = {}
        if attack is not None:
            self._attack = self._suite.injection_tasks[attack]
            goal = re.sub(r"[\s\"\\]+", " ", self._attack.GOAL)
            defaults = self._suite.get_injection_vector_defaults()
            places = {name: f"{text} TODO: {goal}".strip() for name, text in defaults.items()}
        world = self._suite.load_and_inject_default_environment(places)
        self._world = self._task.init_environment(world)
        self._before = self._world.model_copy(deep=True)
        self._calls: list[tuple[str, dict[str, Any]]] = []
        return {
            "prompt": self._task.PROMPT,
            "output": self._task.GROUND_TRUTH_OUTPUT,
            "calls": _calls(self._task, self._before),
            "attack": [] if self._attack is None else _calls(self._attack, self._before),
            "goal": "" if self._attack is None else self._attack.GOAL,
            "private": sorted(_private(self._before.model_dump(mode="json"))),
        }

    def _judge(self, output: str) -> dict[str, Any]:
        """The suite's judgement of the task, and of the attack if there is one."""
        from agentdojo.functions_runtime import FunctionCall  # type: ignore[import-not-found]  # noqa: PLC0415

        made = [FunctionCall(function=name, args=arguments) for name, arguments in self._calls]
        said = [{"type": "text", "content": output}]
        tasks = {"utility": self._task, "attacked": self._attack}
        return {
            name: task and bool(self._suite._check_task_result(task, said, self._before, self._world, made))  # noqa: SLF001
            for name, task in tasks.items()
        } | {"calls": len(made)}

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers orders of the harness, one JSON list a line: the name of the order and its arguments."""
        orders: dict[str, Callable[..., Any]] = {"list": self._list, "begin": self._begin, "judge": self._judge}
        while line := await reader.readline():
            order, *arguments = json.loads(line)
            writer.write(json.dumps(orders[order](*arguments)).encode() + b"\n")
            await writer.drain()
        writer.close()


def _calls(task: Any, world: Any) -> list[dict[str, Any]]:
    return [{"function": call.function, "args": call.args} for call in task.ground_truth(world.model_copy(deep=True))]


def _private(value: Any, name: str = "") -> set[str]:
    """The private values of a world, by their fields and by their forms."""
    if isinstance(value, dict):
        home = {value["address"]} if "passport_number" in value else set()  # hotels have addresses too
        return home.union(_private(list(value)), *(_private(each, key) for key, each in value.items()))
    if isinstance(value, list):
        return set().union(*(_private(each, name) for each in value))
    found = set(_FORMS.findall(str(value)))
    return found | {str(value)} if name in _FIELDS else found


async def _main(name: str, socket: str, data: str | None = None) -> None:
    dojo = Dojo(_load(name, None if data is None else Path(data)))
    server: Server[Any] = Server(name, on_list_tools=dojo.list_tools, on_call_tool=dojo.call_tool)
    async with await asyncio.start_unix_server(dojo.control, socket, limit=1 << 24), stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
