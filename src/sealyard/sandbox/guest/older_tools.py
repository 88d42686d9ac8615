"""Older versions of tools for one skill: its code imports below `servers` the tools it was written for.

The gateway gives the stub files of such tools along with the skill; their calls name the version, and the gateway
translates them. All other tools, and all other code of the run, get the real ones. Standard library only.
"""

import importlib
import types
from typing import Any

import tools


class OlderTools:
    """The older tools of one skill, as an `__import__` and a `call_tool` for its code alone."""

    def __init__(self, answer: dict[str, Any], real_import: Any, real_call: Any) -> None:
        self._real_import = real_import
        self._stubs = {(each["module"], each["function"]): each["stub"] for each in answer["shims"]}
        self._functions: dict[tuple[str, str], Any] = {}
        self._servers = tools.Lazy(
            tools.ROOT, self._find_server, lambda: {*_real(tools.ROOT), *(server for server, _ in self._stubs)}
        )
        self._versioned = {
            name: versioned
            for name, version in answer["tools"].items()
            if any((versioned := f"{name}@{version}") in stub for stub in self._stubs.values())
        }
        self.call_tool = self._caller(real_call)

    def import_(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """Import as the skill's code does: the older tool where there is one, else the real thing."""
        root, *path = name.split(".")
        if root != tools.ROOT or level or (fromlist and not self._has(*path)):
            return self._real_import(name, globals, locals, fromlist, level)
        absent = tuple(each for each in fromlist or () if each != "*" and len(path) < 2 and not self._has(*path, each))
        if absent or not self._has(*path):
            self._real_import(name, globals, locals, absent, 0)  # it exists, or this says best what is wrong
        return self._module(*path) if fromlist else self._module()

    def _module(self, *path: str) -> types.ModuleType:
        if not path:
            return self._servers
        if len(path) == 1:
            found: types.ModuleType = self._find_server(path[0])
            return found
        module = tools.CallableModule(".".join((tools.ROOT, *path)), path[1])
        setattr(module, path[1], self._function(*path))
        return module

    def _has(self, *path: str) -> bool:
        """True if something below it is an older one."""
        return any(key[: len(path)] == path for key in self._stubs)

    def _find_server(self, server: str) -> Any:
        if not self._has(server):
            return getattr(importlib.import_module(tools.ROOT), server)
        title = f"{tools.ROOT}.{server}"

        def find(function: str) -> Any:
            if (server, function) in self._stubs:
                return self._function(server, function)
            return getattr(importlib.import_module(title), function)

        return tools.Lazy(title, find, lambda: {*_real(title), *(each for on, each in self._stubs if on == server)})

    def _function(self, server: str, function: str) -> Any:
        key = server, function
        if key not in self._functions:
            names: dict[str, Any] = {"__name__": f"{tools.ROOT}.{server}.{function}"}
            exec(compile(self._stubs[key], f"{tools.ROOT}/{server}/{function}.py", "exec", dont_inherit=True), names)
            self._functions[key] = names[function]
        return self._functions[key]

    def _caller(self, real_call: Any) -> Any:
        def versioned(name: Any) -> Any:
            return self._versioned.get(name, name) if isinstance(name, str) else name

        def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
            """Call a tool by its full name and return its answer; also awaitable."""
            return real_call(versioned(name), arguments)

        async def call_tool_async(name: str, arguments: dict[str, Any] | None = None) -> Any:
            return await real_call.__sealyard_async__(versioned(name), arguments)

        call_tool.__sealyard_async__ = call_tool_async  # type: ignore[attr-defined]
        return call_tool


def _real(module: str) -> list[str]:
    try:
        return dir(importlib.import_module(module))
    except ImportError:  # every tool of this server is gone
        return []
