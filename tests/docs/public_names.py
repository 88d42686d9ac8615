"""Public names of the product, wherever they are defined: a module can move without the tests that need its names."""

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

import sealyard

EXTRAS = ("sealyard.discovery.minilm",)
"""Modules that need packages which only an extra brings."""


def public(name: str, package: str = "") -> Any:
    """The one object that modules, or those of one package, have under this name in `__all__`."""
    prefix = f"sealyard.{package}"
    holders = {path: module for path, module in modules().items() if path.startswith(prefix) and name in _all(module)}
    found = {id(getattr(module, name)): getattr(module, name) for module in holders.values()}
    assert len(found) == 1, f"{name!r} is {len(found)} things, in {sorted(holders)}. Name a package of just one."
    return found.popitem()[1]


def _all(module: ModuleType) -> tuple[str, ...]:
    exported: tuple[str, ...] = module.__all__
    return exported


@functools.cache
def modules() -> dict[str, ModuleType]:
    """All modules but those that run inside the sandbox, where they have other names."""
    walked = pkgutil.walk_packages(sealyard.__path__, "sealyard.")
    left_out = ("sealyard.__main__", *EXTRAS)
    names = [each.name for each in walked if each.name not in left_out and ".guest" not in each.name]
    return {name: importlib.import_module(name) for name in names}
