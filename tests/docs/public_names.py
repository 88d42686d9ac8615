"""Public names of the product, wherever they are defined: a module can move without the tests that need its names."""

import ast
import functools
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import sealyard

EXTRAS = ("sealyard.discovery.vectors",)
"""Modules that need packages which only an extra brings."""


def public(name: str, package: str = "") -> Any:
    """The one object of this name that modules, or those of one package, define."""
    prefix = f"sealyard.{package}"
    holders = {path: module for path, module in modules().items() if path.startswith(prefix) and name in _own(module)}
    found = {id(getattr(module, name)): getattr(module, name) for module in holders.values()}
    assert len(found) == 1, f"{name!r} is {len(found)} things, in {sorted(holders)}. Name a package of just one."
    return found.popitem()[1]


@functools.cache
def _own(module: ModuleType) -> frozenset[str]:
    """The names that the module binds at its top level, other than by importing them."""
    names: set[str] = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
    return frozenset(names)


@functools.cache
def modules() -> dict[str, ModuleType]:
    """All modules but those that run inside the sandbox, where they have other names."""
    walked = pkgutil.walk_packages(sealyard.__path__, "sealyard.")
    left_out = ("sealyard.__main__", *EXTRAS)
    names = [each.name for each in walked if each.name not in left_out and ".guest" not in each.name]
    return {name: importlib.import_module(name) for name in names}
