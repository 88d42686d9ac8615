"""Imports the module of an upstream, and takes its public functions as tools."""

import importlib
import inspect
import sys
import traceback
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sealyard.broker.upstreams.python.description import FunctionTool, describe
from sealyard.errors import InvalidConfig, InvalidRequest
from sealyard.wording import short

_ERROR_CHARACTERS = 1_000
"""Of what an import raised: a few lines of a status."""


@dataclass(frozen=True, kw_only=True)
class ToolModule:
    """An imported module."""

    described: str
    """Its name, and its version if it states one."""
    tools: dict[str, FunctionTool]
    problems: tuple[str, ...]
    """Functions that are no tools, each with its reason."""


def read_module(name: str, folder: str) -> ToolModule:
    """Import a module, from `folder` if it is not installed, and describe its functions. Runs the module's code.

    Raises:
        InvalidConfig: There is no such module, its import fails, or its `__all__` cannot be read.
    """
    if folder and folder not in sys.path:
        sys.path.append(folder)  # last, so that no file there takes the place of an installed module
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise InvalidConfig(
                f"There is no module {error.name!r}. Install it where sealyard is, or put it into {folder!r}."
            ) from None
        raise _failed(name, error) from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever the module's own code raises
        raise _failed(name, error) from None
    tools: dict[str, FunctionTool] = {}
    problems: list[str] = []
    for attribute, function in _functions(module, problems):
        try:
            tool = describe(function)
        except InvalidRequest as error:
            problems.append(str(error))
            continue
        taken = tools.setdefault(tool.definition.name, tool)
        if taken.function is not tool.function:
            problems.append(
                f"Function {attribute!r} is not a tool: {taken.function.__name__!r} has the name "
                f"{tool.definition.name!r} already. Rename one."
            )
    version = getattr(module, "__version__", None)
    described = f"{name} {short(version, 100)}" if isinstance(version, str) else name
    return ToolModule(described=described, tools=tools, problems=tuple(problems))


def _functions(module: ModuleType, problems: list[str]) -> list[tuple[str, Any]]:
    """The functions that `__all__` names, or the public ones that the module defines."""
    exported = getattr(module, "__all__", None)
    if exported is None:
        return [
            (name, each)
            for name, each in vars(module).items()
            if not name.startswith("_") and inspect.isroutine(each) and each.__module__ == module.__name__
        ]
    if not isinstance(exported, list | tuple) or not all(isinstance(name, str) for name in exported):
        raise InvalidConfig(f"__all__ of {module.__name__!r} is not a list of names. Correct it, then start again.")
    missing = object()
    found = {name: getattr(module, name, missing) for name in dict.fromkeys(exported)}
    problems += [
        f"{name!r} is in __all__, and the module has none. Correct __all__."
        for name, each in found.items()
        if each is missing
    ]
    return [(name, each) for name, each in found.items() if inspect.isroutine(each)]


def _failed(name: str, error: BaseException) -> InvalidConfig:
    """The error of an import, with the line that raised it and without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    words = short(f"{type(error).__name__}: {error}".removesuffix(": "), _ERROR_CHARACTERS)
    return InvalidConfig(f"The module {name!r} cannot be imported: {words}{place}. Correct it, then refresh.")
