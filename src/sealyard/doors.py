"""Doors of packages whose names are imported on first use, so that one name costs no import of all others."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_door(package: str, **names: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `names` has, for each of its modules, the exported names, parted by spaces."""
    modules = {name: module for module, exported in names.items() for name in exported.split()}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
