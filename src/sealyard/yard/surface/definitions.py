"""The surface that the agent sees: a few definitions whose cost in tokens does not depend on the tools behind them.

Plain data, so that counting it needs no MCP SDK. The texts are in `tools.toml` and `prompt.md`.
"""

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_TEXTS = tomllib.loads((_FOLDER / "tools.toml").read_text("utf-8"))
_MODES = {"search": ("search_tools", "call_tool")}
_CODE = ("search_tools", "execute_code", "execute_analysis", "save_skill", "find_skills", "load_skill")

ARGUMENTS = {name: (*tool["properties"], *tool.get("also", ())) for name, tool in _TEXTS.items()}
"""The arguments of each tool, those that are not advertised last."""


def surface_tools(mode: str) -> list[dict[str, Any]]:
    """The definitions of a mode, always the same and in the same order."""
    return [_definition(name, _TEXTS[name]) for name in _MODES.get(mode, _CODE)]


def _definition(name: str, tool: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": tool["properties"]}
    if "required" in tool:
        schema["required"] = tool["required"]
    return {
        "name": name,
        "description": tool["description"],
        "inputSchema": schema,
        "annotations": tool["annotations"],
    }


def instructions(mode: str) -> str:
    """The instructions that a client gives its model: the same for all upstreams, so that their cost is fixed."""
    use = "call them with call_tool" if mode == "search" else "do whole jobs in one execute_code"
    return f"The advertised tools are not the whole catalogue: find others with search_tools, then {use}."


def system_prompt(servers: Collection[str]) -> str:
    """A system prompt for agents that are built on the code mode, with worked examples."""
    text = (_FOLDER / "prompt.md").read_text("utf-8")
    return text.replace("{servers}", ", ".join(sorted(servers)) or "none is configured yet")
