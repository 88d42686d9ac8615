"""The surface that the agent sees: a few definitions whose cost in tokens does not depend on the tools behind them.

Plain data, so that counting it needs no MCP SDK.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any


def _tool(
    name: str,
    description: str,
    properties: dict[str, Any],
    *,
    required: Sequence[str] = (),
    annotations: dict[str, bool],
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


_SEARCH = _tool(
    "search_tools",
    "Find tools of the connected servers by what you want to do. The advertised tools are not all.",
    {
        "query": {"type": "string", "description": "Words, or a tool's name; empty lists the servers"},
        "detail_level": {
            "type": "string",
            "enum": ["name_only", "with_description", "full"],
            "default": "with_description",
            "description": "full adds signature, parameters and return shape",
        },
        "server": {"type": "string"},
        "limit": {"type": "integer", "default": 5},
    },
    required=["query"],
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
)

_EXECUTE = _tool(
    "execute_code",
    (
        "Run Python in a sandbox where tools are functions: `from servers.<server> import <tool>`. Filter and combine "
        "data there: only what you print and `result` (or the last expression) come back, big values as preview and "
        "file. Private values come as opaque `__PII_…__` tokens, equal if the values are: pass them to tools whole. "
        "background=true answers with an execution_id: pass it alone to see the state, with cancel=true to stop."
    ),
    {
        "code": {"type": "string"},
        "language": {"type": "string", "enum": ["python"]},
        "context": {"type": "object", "description": "Becomes variables"},
        "session": {"type": "string", "description": "Workspace whose files the next run finds"},
        "timeout_seconds": {"type": "number", "default": 30, "maximum": 120},
        "background": {"type": "boolean", "default": False},
        "execution_id": {"type": "string"},
        "cancel": {"type": "boolean", "default": False},
    },
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)

_ANALYZE = _tool(
    "execute_analysis",
    "Answer a question about rows without reading them or writing code.",
    {
        "analysis_type": {
            "type": "string",
            "enum": ["filter", "aggregate", "transform", "validate", "statistics"],
        },
        "data": {"description": "Rows"},
        "source": {"type": "object", "description": "{workspace: path} or {tool: name, arguments: {}}"},
        "parameters": {
            "type": "object",
            "description": (
                "conditions [{field, operator, value}]; group_by, aggregations [{function, field}]; steps "
                "[{compute: {total: 'a * b'}}]; rules; operation"
            ),
        },
        "session": {"type": "string"},
    },
    required=["analysis_type"],
    annotations={"destructiveHint": True},
)

_CALL = _tool(
    "call_tool",
    (
        "Call a tool that search_tools found. Use detail_level full first to see its parameters. Private values come "
        "as opaque `__PII_…__` tokens: pass them on whole."
    ),
    {
        "name": {"type": "string", "description": "As search_tools gave it"},
        "arguments": {"type": "object"},
    },
    required=["name"],
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)

_SAVE_SKILL = _tool(
    "save_skill",
    (
        "Keep code that works for `from skills import <name>`: a function of that name, or a script over its inputs "
        "that sets `result`. Run it first: examples replay recorded answers; without one that passes it stays a draft. "
        "Private values belong in inputs. The same name makes a new version."
    ),
    {
        "name": {"type": "string", "description": "snake_case"},
        "code": {"type": "string"},
        "description": {"type": "string", "description": "What it does and when to use it"},
        "inputs": {"type": "object", "description": "Name to type, or JSON Schema; a function's are read from it"},
        "output": {"description": "Type, or JSON Schema"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "examples": {"type": "array", "items": {"type": "object"}, "description": "[{inputs: {}, output}]"},
    },
    required=["name", "code", "description"],
    annotations={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
)

_FIND_SKILLS = _tool(
    "find_skills",
    "Find saved skills by what you want to do, before writing code that may exist.",
    {
        "query": {"type": "string", "description": "Empty: all"},
        "limit": {"type": "integer", "default": 5},
    },
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
)

_LOAD_SKILL = _tool(
    "load_skill",
    "Read a skill's source, needs and history. To use it, just import it.",
    {
        "name": {"type": "string", "description": "monthly_total, or monthly_total@1.2"},
        "version": {"type": "string"},
    },
    required=["name"],
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
)


ARGUMENTS = {
    tool["name"]: tuple(tool["inputSchema"]["properties"])
    for tool in (_SEARCH, _EXECUTE, _ANALYZE, _CALL, _SAVE_SKILL, _FIND_SKILLS, _LOAD_SKILL)
}
"""The advertised arguments of each tool."""


def surface_tools(mode: str) -> list[dict[str, Any]]:
    """The definitions of a mode, always the same and in the same order."""
    if mode == "search":
        return [_SEARCH, _CALL]
    return [_SEARCH, _EXECUTE, _ANALYZE, _SAVE_SKILL, _FIND_SKILLS, _LOAD_SKILL]


def instructions(mode: str) -> str:
    """The instructions that a client gives its model: the same for all upstreams, so that their cost is fixed."""
    if mode == "search":
        how = "Find tools with search_tools, then call them with call_tool."
    else:
        how = (
            "Find tools with search_tools, then use them in execute_code. Do whole jobs in one run: call, filter, "
            "combine, and return only what is needed. find_skills shows what was solved before; save_skill keeps what "
            "works."
        )
    return f"The advertised tools are not the whole catalogue. {how}"


def system_prompt(servers: Collection[str]) -> str:
    """A system prompt for agents that are built on the code mode, with worked examples."""
    text = Path(__file__).with_name("prompt.md").read_text("utf-8")
    return text.replace("{servers}", ", ".join(sorted(servers)) or "none is configured yet")
