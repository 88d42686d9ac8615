"""Upstream tools as importable functions: `servers.<server>` and `tool_discovery`, loaded from stub files on demand.

Only what the code imports is read. A stub file is a decorated function without a body; the decorator turns it into
one that calls the gateway. Standard library only.
"""

import difflib
import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import keyword
import os
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

ROOT = "servers"

_folder: str | None = None
_call: Any = None
"""A pair of functions (tool, arguments) -> answer: one that waits and one that is awaited."""


def connect(folder: str | None, call: Any) -> None:
    """Say where the stub files lie and what carries a call to the gateway."""
    global _folder, _call
    _folder, _call = folder, call
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)  # before the one that would find the files without loading them lazily
    for name, function in (("tool_discovery", search_tools), ("sealyard_guest", tool)):
        module = sys.modules[name] = types.ModuleType(name)
        setattr(module, function.__name__, function)


def tool(name: str, spelled: dict[str, str] | None = None) -> Callable[[Any], Any]:
    """Decorate a stub. Its arguments go to tool `name`; `spelled` gives a parameter's name where Python's differs."""

    def decorate(stub: Any) -> Any:
        signature = inspect.signature(stub)
        rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)

        def bound(given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
            try:
                arguments = signature.bind(*given, **named).arguments
            except TypeError as error:
                raise TypeError(f"{stub.__name__}(): {error}. Its signature: {stub.__name__}{signature}") from None
            if rest is not None:
                arguments.update(arguments.pop(rest, {}))
            if spelled:
                return {spelled.get(key, key): value for key, value in arguments.items()}
            return arguments

        @functools.wraps(stub)
        def call(*given: Any, **named: Any) -> Any:
            return _call[0](name, bound(given, named))

        async def call_later(*given: Any, **named: Any) -> Any:
            return await _call[1](name, bound(given, named))

        call.__sealyard_async__ = call_later  # type: ignore[attr-defined]
        return call

    return decorate


def search_tools(
    query: str = "",
    detail_level: str = "with_description",
    server: str | None = None,
    limit: int | None = 5,
    keyword: str | None = None,
) -> Any:
    """Find tools: a list of dicts with name, use, and what the detail level adds.

    `detail_level` is `name_only`, `with_description` or `full`.
    """
    arguments = {
        "query": query or keyword or "",
        "detail_level": detail_level or "with_description",
        "server": server or None,
        "limit": 5 if limit is None else limit,
    }
    return _call[0]("search_tools", arguments)


def find(server: str, function: str) -> Any:
    """The function of a tool."""
    return getattr(importlib.import_module(f"{ROOT}.{server}"), function)


def homes(name: str) -> list[str]:
    """The servers that have a tool whose function has this name."""
    if _folder is None or not name.isidentifier():
        return []
    return [server for server in _names(_folder) if name in _names(_folder, server)]


class Lazy(types.ModuleType):
    """A module whose members are found when they are named, and kept."""

    def __init__(self, name: str, find: Callable[[str], Any], names: Callable[[], Iterable[str]]) -> None:
        super().__init__(name)
        self.__find, self.__names = find, names

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self.__dir__()
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self.__find(name)
        setattr(self, name, found)  # instead of the module of the same name
        return found

    def __dir__(self) -> list[str]:
        return sorted({name for name in vars(self) if not name.startswith("_")}.union(self.__names()))


class CallableModule(types.ModuleType):
    """The module of one function, which can be called like it, for code that imported one for the other."""

    def __init__(self, name: str, function: str) -> None:
        super().__init__(name)
        self.__function__ = function

    @property
    def __call__(self) -> Any:
        """The function."""
        return getattr(self, self.__function__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `servers` and what is below it."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        parts = name.split(".")
        if parts[0] != ROOT or len(parts) > 3:
            return None
        if _folder is None:
            raise ImportError("This run has no tools: no MCP server is configured.", name=name)
        place = os.path.join(_folder, *parts[1:])
        if len(parts) == 3:
            if not os.path.isfile(f"{place}.py") and parts[2] not in _listed(os.path.dirname(place)):
                # Not a ModuleNotFoundError: `from servers.x import y` would replace its message.
                raise ImportError(_unknown("tool", parts[2], _names(_folder, parts[1]), parts[1]), name=name)
            return importlib.machinery.ModuleSpec(name, _Loader(), origin=f"{place}.py")
        if len(parts) == 2 and not os.path.isdir(place):
            raise ImportError(_unknown("server", parts[1], _names(_folder)), name=name)
        origin = os.path.join(place, "__init__.py")
        spec = importlib.machinery.ModuleSpec(name, _Loader(), origin=origin, is_package=True)
        spec.submodule_search_locations = [place]
        return spec


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> types.ModuleType:
        _, *path = spec.name.split(".")
        if len(path) == 2:
            return CallableModule(spec.name, path[1])

        def find(name: str) -> Any:
            if not path:
                return importlib.import_module(f"{ROOT}.{name}")
            try:
                return importlib.import_module(f"{spec.name}.{name}").__call__
            except ImportError as error:
                raise AttributeError(str(error)) from None

        return Lazy(spec.name, find, lambda: _names(_folder, *path))

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        module.__file__ = spec.origin
        exec(compile(_text(module.__name__, spec.origin), spec.origin, "exec", dont_inherit=True), vars(module))


_finder = _Finder()


def _text(name: str, path: str) -> str:
    """A stub file, or its text from the gateway: of many tools the files are written one after the other."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        _, server, function = name.split(".")
        return str(_call[0]("load_stub", {"server": server, "function": function}))


def _names(*path: str | None) -> list[str]:
    folder = os.path.join(*(part for part in path if part is not None))
    names = {name.removesuffix(".py") for name in os.listdir(folder)} | _listed(folder)
    return sorted(name for name in names if not name.startswith(("_", ".")) and name.isidentifier())


@functools.cache
def _listed(folder: str) -> frozenset[str]:
    """The names that a package lists: with many tools, some files are not there yet."""
    path = os.path.join(folder, "__init__.py")
    names: dict[str, Any] = {}
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec", dont_inherit=True), names)
    return frozenset(names.get("__all__", ()))


def _unknown(kind: str, name: str, known: list[str], server: str | None = None) -> str:
    where = f" on server {server!r}" if server else ""
    if keyword.iskeyword(name):
        return f"No {kind} named {name!r}{where}."
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Nearest: {', '.join(nearest)}." if nearest else "Call search_tools to find one that exists."
    return f"No {kind} named {name!r}{where}. {hint}"
