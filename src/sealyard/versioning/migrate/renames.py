"""Rewrites the names of tools where code imports them, reaches them through a module or spells them out."""

import ast

from sealyard.code.names import Variable
from sealyard.versioning.migrate.state import State
from sealyard.versioning.migrate.text import Sources
from sealyard.versioning.migrate.values import OTHER, Tool, Value
from sealyard.versioning.steps import RenameTool


def rewrite_names(state: State, sources: Sources) -> None:
    """Write the new names of tools and fields into `sources`."""
    for node, wanted in state.texts.items():
        _rewrite_text(node, wanted, state, sources)
    tools = _ToolNames(state, sources)
    for statement in dict.fromkeys(statement for statement, _, _ in state.imports):
        tools.rewrite_import(statement)
    for attribute, value in state.members.items():
        tools.rewrite_member(attribute, value)


def _rewrite_text(node: ast.AST, wanted: dict[str | None, str], state: State, sources: Sources) -> None:
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
    sources.show(node, wanted[new[0]])


class _ToolNames:
    """The names that stand for tools in one piece of code."""

    def __init__(self, state: State, sources: Sources) -> None:
        self._state = state
        self._names = state.names
        self._sources = sources
        self._taken = set(state.names.spellings)
        self._renamed: set[ast.AST] = set()
        self._given: dict[Variable, str] = {}
        self._grown: set[tuple[ast.alias, str]] = set()

    # Imports

    def rewrite_import(self, statement: ast.Import | ast.ImportFrom) -> None:
        """Rewrite the tools that one statement imports."""
        sources = self._sources
        found = [(alias, self._step(value)) for each, alias, value in self._state.imports if each is statement]
        found = list({alias: (alias, step) for alias, step in found}.values())
        tools = [(alias, step) for alias, step in found if step is not None]
        if isinstance(statement, ast.Import):
            for alias, step in tools:
                sources.replace_alias(alias, f"servers.{step.module}.{step.function}")
                sources.show(statement, f"the tool is `{step.function}` now")
            return
        before = statement.module
        if not tools or before is None:
            return
        for _, step in tools:
            sources.show(statement, f"the tool is `{step.function}` in `servers.{step.module}` now")
        targets = [
            f"servers.{step.module}" if before.count(".") == 1 else f"servers.{step.module}.{step.function}"
            for _, step in tools
        ]
        if len(set(targets)) == 1 and (targets[0] == before or len(tools) == len(found)):
            if targets[0] != before:
                sources.replace(*sources.module(statement), targets[0])
            for alias, step in tools:
                self._rewrite_alias(alias, step)
            return
        self._split_import(statement, tools, targets)

    def _split_import(
        self, statement: ast.ImportFrom, tools: list[tuple[ast.alias, RenameTool]], targets: list[str]
    ) -> None:
        """Import a tool that went to another module by a statement of its own."""
        texts = []
        stay = [alias for alias in statement.names if all(alias is not moved for moved, _ in tools)]
        for (alias, step), target in zip(tools, targets, strict=True):
            if target == statement.module:
                self._rewrite_alias(alias, step)
                stay.append(alias)
                continue
            text = self._imported_as(alias, step)
            self._sources.remove(statement, statement.names.index(alias))
            texts.append(f"from {target} import {text}")
        if not stay or len(statement.names) - len(stay) > 1:
            self._state.refuse(statement, "several tools of one import went to different modules")
        end = self._sources.span(statement)[1]
        self._sources.replace(end, end, "".join(f"; {text}" for text in texts))

    def _rewrite_alias(self, alias: ast.alias, step: RenameTool) -> None:
        self._sources.replace(*self._sources.span(alias), self._imported_as(alias, step))

    def _imported_as(self, alias: ast.alias, step: RenameTool) -> str:
        """The new import. The name that the code uses for the tool changes too if that is safe."""
        if alias.asname is not None:
            return f"{step.function} as {alias.asname}"
        variable = self._names.of[alias]
        if step.function == variable.name:
            return step.function
        if self._given.get(variable) != step.function:
            if not self._is_free(variable, step.function):
                return f"{step.function} as {variable.name}"
            self._given[variable] = step.function
            self._taken.add(step.function)
        for node in variable.nodes:
            if isinstance(node, ast.Name) and node not in self._renamed:
                self._renamed.add(node)
                self._sources.rename(node, step.function)
                self._sources.show(node, f"the tool is `{step.function}` now")
        return step.function

    def _imports_of(self, variable: Variable | None) -> list[tuple[ast.Import | ast.ImportFrom, ast.alias, Value]]:
        return [each for each in self._state.imports if self._names.of[each[1]] is variable]

    def _is_free(self, variable: Variable, name: str) -> bool:
        """True if every use of a variable can be renamed to `name` without any effect."""
        if name in self._taken or self._state.reached or variable.name in self._names.fixed:
            return False
        if not name.isidentifier() or name.startswith("__"):  # in a class that would be another name
            return False
        imports = self._imports_of(variable)
        same = all(alias.asname is None and value == imports[0][2] for _, alias, value in imports)
        simple = all(isinstance(binder, ast.ImportFrom | ast.Assign) for binder in variable.binders)
        return same and simple and not self._is_shown(variable)

    def _is_shown(self, variable: Variable) -> bool:
        """True if the name itself is data: in `__all__`, in a declaration or in `f"{name=}"`."""
        code = self._sources.code
        return variable.foreign or "__all__" in code or f"{variable.name}=" in code.replace(" ", "")

    # Attributes of modules

    def rewrite_member(self, node: ast.Attribute, value: Value) -> None:
        """Rewrite a tool that is reached through its module."""
        tools = [atom for atom in value if isinstance(atom, Tool)]
        step = self._state.renamed_tool(tools[0].plan)
        if step is None:
            return
        if len(value) > 1 or OTHER in value:
            self._state.refuse(node, "this may be the tool or something else")
            return
        self._sources.show(node, f"the tool is `{step.function}` now")
        before = self._state.plans[tools[0].plan].before
        if step.module != before.module:
            self._move(node, before.module, step.module)
        self._sources.rename(node, step.function)

    def _move(self, node: ast.Attribute, before: str, after: str) -> None:
        """Reach the tool through another module."""
        base = node.value
        reason = f"the tool is in `servers.{after}` now, and how the code reaches it is not followed"
        if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name) and base.attr == before:
            self._sources.rename(base, after)
            root, whole = base.value, True
        elif isinstance(base, ast.Name):
            root, whole = base, False
        else:
            self._state.refuse(node, reason)
            return
        variable = self._names.of.get(root)
        imports = self._imports_of(variable)
        others = [each for each in variable.binders if not _is_none(each)] if variable is not None else []
        if variable is None or len(imports) != len(others) or not imports:
            self._state.refuse(node, reason)
            return
        for statement, alias, _ in imports:
            self._grow(statement, alias, before, after, whole=whole)
        if not whole and not self._all_moved(variable, after):
            self._sources.rename(root, self._fresh(after))

    def _grow(
        self, statement: ast.Import | ast.ImportFrom, alias: ast.alias, before: str, after: str, *, whole: bool
    ) -> None:
        """Import the new module in the place of the old one, or beside it if that is still used."""
        if (alias, after) in self._grown:
            return
        self._grown.add((alias, after))
        own = alias.name.endswith(f".{before}")
        if isinstance(statement, ast.Import) and alias.asname is None and not own:
            return  # `import servers`, or another module of it
        sources = self._sources
        end = sources.span(alias)[1]
        if self._all_moved(self._names.of[alias], after):
            if isinstance(statement, ast.Import):
                sources.replace_alias(alias, f"{alias.name.rpartition('.')[0]}.{after}")
            else:
                sources.replace(*sources.span(alias), f"{after} as {alias.asname or alias.name}")
        elif whole:
            sources.replace(end, end, f", servers.{after}")
        elif isinstance(statement, ast.Import):
            sources.replace(end, end, f", servers.{after} as {self._fresh(after)}")
        else:
            name = self._fresh(after)
            sources.replace(end, end, f", {after}" + (f" as {name}" if name != after else ""))
        sources.show(statement, f"the tool is in `servers.{after}` now")

    def _all_moved(self, variable: Variable, after: str) -> bool:
        """True if everything the code reaches through a variable went to the same new module."""
        moved: set[ast.AST] = {alias for _, alias, _ in self._imports_of(variable)}
        for attribute, value in self._state.members.items():
            base = attribute.value
            root = base.value if isinstance(base, ast.Attribute) else base
            steps = [self._state.renamed_tool(atom.plan) for atom in value if isinstance(atom, Tool)]
            if isinstance(root, ast.Name) and all(step is not None and step.module == after for step in steps):
                moved.add(root)
        return moved.issuperset(variable.nodes)

    def _fresh(self, name: str) -> str:
        """A name that nothing in the code has."""
        while name in self._taken:
            name += "_"
        return name

    def _step(self, value: Value) -> RenameTool | None:
        tools = [atom for atom in value if isinstance(atom, Tool)]
        return self._state.renamed_tool(tools[0].plan) if tools else None


def _is_none(binder: ast.AST) -> bool:
    """True if an assignment gives `None`."""
    match binder:
        case ast.Assign(value=ast.Constant(value=None)):
            return True
    return False
