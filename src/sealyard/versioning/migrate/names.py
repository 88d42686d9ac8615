"""Rewrites the names of tools where code imports them, reaches them through a module, or spells them out."""

from collections.abc import Callable

import libcst as cst

from sealyard.versioning.migrate.flow import Flow
from sealyard.versioning.migrate.own import OwnKeys
from sealyard.versioning.migrate.scopes import Variable, bound_name
from sealyard.versioning.migrate.text import Sources
from sealyard.versioning.migrate.values import OTHER, Tool
from sealyard.versioning.steps import RenameTool


class Names:
    """The names in one piece of code, rewritten into `sources`."""

    def __init__(self, flow: Flow, sources: Sources, refuse: Callable[[cst.CSTNode, str], None]) -> None:
        self._flow = flow
        self._sources = sources
        self._refuse = refuse
        self._taken = set(flow.scopes.spellings)
        self._renamed: set[cst.CSTNode] = set()
        self._given: dict[Variable, str] = {}
        self._grown: set[tuple[cst.CSTNode, str]] = set()

    def rewrite(self) -> None:
        """Rewrite texts, imports and attributes."""
        for node, text in OwnKeys(self._flow, self._refuse).renamed().items():
            self._flow.want(node, text, "a key that is used like a field of the answer")
        for node, wanted in self._flow.texts.items():
            self._text(node, wanted)
        for statement in dict.fromkeys(statement for statement, _, _ in self._flow.imports):
            self._import(statement)
        for attribute, value in self._flow.members.items():
            self._member(attribute, value)

    # Literals

    def _text(self, node: cst.CSTNode, wanted: dict[str | None, str]) -> None:
        new = [text for text in wanted if text is not None]
        if not new:
            return
        if len(wanted) > 1:
            self._refuse(node, f"{self._sources.text(node)} stands for something else too here")
            return
        like = node.quote[0] if isinstance(node, cst.SimpleString) else '"'
        text = self._sources.quoted(new[0], self._sources.span(node)[0], like)
        if text is None:
            self._refuse(node, f"`{new[0]}` cannot be written here")
            return
        self._sources.replace_node(node, text)
        self._sources.show(node, wanted[new[0]])

    # Imports

    def _import(self, statement: cst.Import | cst.ImportFrom) -> None:
        """Rewrite the tools that one statement imports."""
        found = [(alias, self._step(value)) for each, alias, value in self._flow.imports if each is statement]
        if isinstance(statement, cst.Import):
            for alias, step in found:
                if step is not None:
                    self._sources.replace_node(alias.name, f"servers.{step.module}.{step.function}")
                    self._sources.show(statement, f"the tool is `{step.function}` now")
            return
        found = list({id(alias): (alias, step) for alias, step in found}.values())
        tools = [(alias, step) for alias, step in found if step is not None]
        if not tools or statement.module is None:
            return
        before = self._sources.text(statement.module)
        for _, step in tools:
            self._sources.show(statement, f"the tool is `{step.function}` in `servers.{step.module}` now")
        targets = [
            f"servers.{step.module}" if before.count(".") == 1 else f"servers.{step.module}.{step.function}"
            for _, step in tools
        ]
        if len(set(targets)) == 1 and (targets[0] == before or len(tools) == len(found)):
            if targets[0] != before:
                self._sources.replace_node(statement.module, targets[0])
            for alias, step in tools:
                self._sources.replace_node(alias, self._alias(alias, step))
            return
        assert not isinstance(statement.names, cst.ImportStar)
        aliases = list(statement.names)
        texts = []
        stay = [alias for alias in aliases if all(alias is not moved for moved, _ in tools)]
        for (alias, step), target in zip(tools, targets, strict=True):
            text = self._alias(alias, step)
            if target == before:
                self._sources.replace_node(alias, text)
                stay.append(alias)
                continue
            self._sources.remove(aliases, aliases.index(alias))
            texts.append(f"from {target} import {text}")
        if not stay or len(aliases) - len(stay) > 1:
            self._refuse(statement, "several tools of one import went to different modules")
        end = self._sources.span(statement)[1]
        self._sources.replace(end, end, "".join(f"; {text}" for text in texts))

    def _alias(self, alias: cst.ImportAlias, step: RenameTool) -> str:
        """What is imported under the new name; the name that the code uses for it changes too if that is safe."""
        if alias.asname is not None:
            return f"{step.function} as {self._sources.text(alias.asname.name)}"
        name = bound_name(alias)
        variable = self._flow.scopes.of[name]
        if step.function == variable.name:
            return step.function
        if self._given.get(variable) != step.function:
            if not self._is_free(variable, step.function):
                return f"{step.function} as {variable.name}"
            self._given[variable] = step.function
            self._taken.add(step.function)
        bound = self._bound(variable)
        for node in variable.nodes:
            if node not in bound and node not in self._renamed:
                self._renamed.add(node)
                self._sources.replace_node(node, step.function)
                self._sources.show(node, f"the tool is `{step.function}` now")
        return step.function

    def _bound(self, variable: Variable) -> set[cst.Name]:
        """The nodes by which imports bind a variable."""
        return {
            bound_name(alias)
            for _, alias, _ in self._flow.imports
            if self._flow.scopes.of[bound_name(alias)] is variable
        }

    def _is_free(self, variable: Variable, name: str) -> bool:
        """Whether every use of a variable can be renamed to `name` without anybody noticing."""
        flow = self._flow
        if name in self._taken or flow.reached or variable.name in flow.scopes.fixed:
            return False
        if not name.isidentifier() or name.startswith("__"):  # in a class that would be another name
            return False
        aliases = [(alias, value) for _, alias, value in flow.imports if flow.scopes.of[bound_name(alias)] is variable]
        same = all(alias.asname is None and value == aliases[0][1] for alias, value in aliases)
        simple = all(isinstance(binder, cst.ImportFrom | cst.Assign) for binder in variable.binders)
        return same and simple and not self._is_shown(variable)

    def _is_shown(self, variable: Variable) -> bool:
        """Whether the name itself is data: in `__all__`, in a declaration or in `f"{name=}"`."""
        source = self._sources.bytes.decode()
        return variable.foreign or "__all__" in source or f"{variable.name}=" in source.replace(" ", "")

    # Attributes of modules

    def _member(self, node: cst.Attribute, value: frozenset[object]) -> None:
        tools = [atom for atom in value if isinstance(atom, Tool)]
        step = self._flow.renamed_tool(tools[0].plan)
        if step is None:
            return
        if len(value) > 1 or OTHER in value:
            self._refuse(node, "this may be the tool or something else")
            return
        self._sources.show(node, f"the tool is `{step.function}` now")
        before = self._flow.plans[tools[0].plan].before
        if step.module != before.module:
            self._move(node, before.module, step.module)
        self._sources.replace_node(node.attr, step.function)

    def _move(self, node: cst.Attribute, before: str, after: str) -> None:
        """Reach the tool through another module."""
        base = node.value
        if isinstance(base, cst.Attribute) and isinstance(base.value, cst.Name) and base.attr.value == before:
            self._sources.replace_node(base.attr, after)
            root, whole = base.value, True
        elif isinstance(base, cst.Name):
            root, whole = base, False
        else:
            self._refuse(node, f"the tool is in `servers.{after}` now, and how the code reaches it is not followed")
            return
        variable = self._flow.scopes.of.get(root)
        imports = [each for each in self._flow.imports if variable is self._flow.scopes.of[bound_name(each[1])]]
        others = [each for each in variable.binders if not _is_none(each)] if variable is not None else []
        if variable is None or len(imports) != len(others) or not imports:
            self._refuse(node, f"the tool is in `servers.{after}` now, and how the code reaches it is not followed")
            return
        for statement, alias, _ in imports:
            self._grow(statement, alias, before, after, whole=whole)
        if not whole and not self._all_moved(variable, after):
            self._sources.replace_node(base, self._fresh(after))

    def _grow(
        self, statement: cst.Import | cst.ImportFrom, alias: cst.ImportAlias, before: str, after: str, *, whole: bool
    ) -> None:
        """Import the new module in the place of the old one, or beside it if that is still used."""
        if (alias, after) in self._grown:
            return
        self._grown.add((alias, after))
        variable = self._flow.scopes.of[bound_name(alias)]
        own = isinstance(alias.name, cst.Attribute) and alias.name.attr.value == before
        if isinstance(statement, cst.Import) and alias.asname is None and not own:
            return  # `import servers`, or another module of it
        moved = self._all_moved(variable, after)
        end = self._sources.span(alias)[1]
        if moved and isinstance(statement, cst.Import):
            assert isinstance(alias.name, cst.Attribute)
            self._sources.replace_node(alias.name.attr, after)
        elif moved:
            named = alias.asname.name if alias.asname is not None else alias.name
            self._sources.replace_node(alias, f"{after} as {self._sources.text(named)}")
        elif whole:
            self._sources.replace(end, end, f", servers.{after}")
        elif isinstance(statement, cst.Import):
            self._sources.replace(end, end, f", servers.{after} as {self._fresh(after)}")
        else:
            name = self._fresh(after)
            self._sources.replace(end, end, f", {after}" + (f" as {name}" if name != after else ""))
        self._sources.show(statement, f"the tool is in `servers.{after}` now")

    def _all_moved(self, variable: Variable, after: str) -> bool:
        """Whether everything the code reaches through a variable went to the same new module."""
        moved: set[cst.CSTNode] = set(self._bound(variable))
        for attribute, value in self._flow.members.items():
            base = attribute.value
            root = base.value if isinstance(base, cst.Attribute) else base
            steps = [self._flow.renamed_tool(atom.plan) for atom in value if isinstance(atom, Tool)]
            if isinstance(root, cst.Name) and all(step is not None and step.module == after for step in steps):
                moved.add(root)
        return moved.issuperset(variable.nodes)

    def _fresh(self, name: str) -> str:
        """A name that nothing in the code has."""
        while name in self._taken:
            name += "_"
        return name

    def _step(self, value: frozenset[object]) -> RenameTool | None:
        tools = [atom for atom in value if isinstance(atom, Tool)]
        return self._flow.renamed_tool(tools[0].plan) if tools else None


def _is_none(binder: cst.CSTNode) -> bool:
    """Whether an assignment gives `None`."""
    return isinstance(binder, cst.Assign) and isinstance(binder.value, cst.Name) and binder.value.value == "None"
