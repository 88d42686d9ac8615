"""The import rule for the agent's own code.

It guards the statements in the agent's source only: what an allowed module imports for itself is its own business.
This is policy with a helpful message; what must not happen is prevented by the kernel. Standard library only.
"""

import builtins
from collections.abc import Mapping, Sequence
from typing import Any


class ImportRefused(ImportError):
    """The isolation level does not allow this import."""


def guarded_builtins(allowed: list[str] | None, refused: list[str], level: str) -> dict[str, Any]:
    """The built-ins for the agent's code, with an `__import__` that knows the rule; `allowed=None` allows all."""
    names = dict(vars(builtins))
    if allowed is not None:
        names["__import__"] = _guard(frozenset(allowed), frozenset(refused), level)
    return names


def _guard(allowed: frozenset[str], refused: frozenset[str], isolation: str) -> Any:
    real_import = builtins.__import__

    def guarded_import(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if isinstance(fromlist, list):
            # Only C code asks with a list. It is an allowed module's own import, made in the name of the frame that
            # called it: `datetime.strptime` imports `_strptime`, `pickle` imports `__main__`.
            return real_import(name, globals, locals, fromlist, level)
        wanted = [name, *(f"{name}.{item}" for item in fromlist or ())]
        for module in wanted:
            if any(prefix in refused for prefix in _prefixes(module)):
                raise ImportRefused(_message(module, isolation), name=module)
        if level == 0 and not any(prefix in allowed for prefix in _prefixes(name)):
            raise ImportRefused(_message(name, isolation), name=name)
        return real_import(name, globals, locals, fromlist or (), level)

    return guarded_import


def _prefixes(name: str) -> list[str]:
    parts = str(name).split(".")
    return [".".join(parts[: index + 1]) for index in range(len(parts))]


def _message(module: str, level: str) -> str:
    return f"Importing {module!r} is not allowed at level {level!r}."
