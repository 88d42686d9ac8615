"""Rewrites the names of a tool where code imports it, reaches it through a module or spells it out."""

import ast

from sealyard.code import Variable
from sealyard.versioning.migrate.abstract import Value
from sealyard.versioning.migrate.facts import State
from sealyard.versioning.migrate.splices import Sources
from sealyard.versioning.steps import RenameTool


def rewrite_names(state: State, sources: Sources) -> None:
    """Write the new names of the tool and of fields into `sources`."""
    for node, wanted in state.texts.items():
        _rewrite_text(node, wanted, state, sources)
    if state.renamed is not None:
        _ToolNames(state, sources, state.renamed).rewrite()


def _rewrite_text(node: ast.AST, wanted: set[str | None], state: State, sources: Sources) -> None:
    new = [text for text in wanted if text is not None]
    if not new:
        return
    if len(wanted) > 1 or not isinstance(node, ast.Constant):
        state.refuse(node, f"{sources.text(node)} stands for something else too here")
        return
    text = sources.requoted(node, new[0])
    if text is None:
        state.refuse(node, f"`{new[0]}` cannot be written here")
        return
    sources.replace_literal(node, text)


class _ToolNames:
    """The names that stand for the tool in one piece of code."""

    def __init__(self, state: State, sources: Sources, step: RenameTool) -> None:
        self._state = state
        self._names = state.names
        self._sources = sources
        self._step = step
        self._taken = set(state.names.spellings)
        self._renamed: set[Variable] = set()

    def rewrite(self) -> None:
        """Rewrite every import of the tool, and every attribute that is the tool."""
        tools: dict[ast.Import | ast.ImportFrom, dict[ast.alias, None]] = {}
        for statement, alias, value in self._state.imports:
            if self._state.is_tool(value):
                tools.setdefault(statement, {})[alias] = None
        for statement, aliases in tools.items():
            self._rewrite_import(statement, list(aliases))
        for attribute, value in self._state.members.items():
            self._rewrite_member(attribute, value)

    def _rewrite_import(self, statement: ast.Import | ast.ImportFrom, tools: list[ast.alias]) -> None:
        step, sources = self._step, self._sources
        if isinstance(statement, ast.Import):
            for alias in tools:
                sources.replace_alias(alias, f"servers.{step.module}.{step.function}")
            return
        assert statement.module is not None
        is_own_module = statement.module.count(".") == 2  # `from servers.git.log import log`
        target = f"servers.{step.module}.{step.function}" if is_own_module else f"servers.{step.module}"
        if target != statement.module and len(tools) < len(statement.names):
            for alias in tools:
                sources.remove(statement, statement.names.index(alias))
                end = sources.span(statement)[1]
                sources.replace(end, end, f"; from {target} import {self._imported_as(alias)}")
            return
        if target != statement.module:
            sources.replace(*sources.module(statement), target)
        for alias in tools:
            sources.replace(*sources.span(alias), self._imported_as(alias))

    def _imported_as(self, alias: ast.alias) -> str:
        """The new import. The name that the code uses for the tool changes too if that is safe."""
        name, variable = self._step.function, self._names.of[alias]
        if alias.asname is not None:
            return f"{name} as {alias.asname}"
        if name == variable.name or variable in self._renamed:
            return name
        if not self._is_free(variable, name):
            return f"{name} as {variable.name}"
        self._renamed.add(variable)
        self._taken.add(name)
        for node in variable.nodes:
            if isinstance(node, ast.Name):
                self._sources.rename(node, name)
        return name

    def _is_free(self, variable: Variable, name: str) -> bool:
        """True if every use of a variable can be renamed to `name` without any effect."""
        if name in self._taken or self._state.reached or variable.name in self._names.fixed:
            return False
        if not name.isidentifier() or name.startswith("__"):  # in a class that would be another name
            return False
        imports = [each for each in self._state.imports if self._names.of[each[1]] is variable]
        same = all(alias.asname is None and value == imports[0][2] for _, alias, value in imports)
        simple = all(isinstance(binder, ast.ImportFrom | ast.Assign) for binder in variable.binders)
        return same and simple and not self._is_shown(variable)

    def _is_shown(self, variable: Variable) -> bool:
        """True if the name itself is data: in `__all__`, in a declaration or in `f"{name=}"`."""
        code = self._sources.code
        return variable.foreign or "__all__" in code or f"{variable.name}=" in code.replace(" ", "")

    def _rewrite_member(self, node: ast.Attribute, value: Value) -> None:
        """Rewrite the tool where it is an attribute of its module."""
        if not self._state.is_tool(value):
            self._state.refuse(node, "this may be the tool or something else")
        elif self._step.module != self._state.plan.before.module:
            self._state.refuse(node, f"the tool is in `servers.{self._step.module}` now: import it from there")
        else:
            self._sources.rename(node, self._step.function)
