"""Writes names of a tool and of fields anew, and arguments of calls: by position, by keyword, unpacked, in mappings."""

import ast
import keyword
import re
from collections.abc import Collection, Mapping
from typing import Any

from sealyard.code import Variable
from sealyard.versioning.migrate.abstract import (
    NONE,
    NOTHING,
    PLAIN,
    SCALAR,
    Argument,
    Retype,
    Rules,
    Site,
    Text,
    Value,
)
from sealyard.versioning.migrate.facts import State, Style, Touch
from sealyard.versioning.migrate.splices import Sources
from sealyard.versioning.plan import RenameTool, Untranslatable, convert

_NEVER_NONE = frozenset("str int float bool len round abs repr format sum".split())
_CONVERTERS = frozenset(("int", "str", "format"))
"""Functions that conversions call."""
_HARMLESS = _NEVER_NONE | frozenset("list tuple dict set sorted min max range".split())
_ACTS = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)
_COLLECTIONS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_Key = ast.expr | ast.keyword
"""A literal or keyword that names an argument."""


def write_changes(state: State, sources: Sources) -> None:
    """Write the new names of the tool and of fields, calls and mappings of arguments into `sources`."""
    for node, wanted in state.texts.items():
        _rewrite_text(node, wanted, state, sources)
    if state.renamed is not None:
        _ToolNames(state, sources, state.renamed).rewrite()
    _rewrite_arguments(state, sources)


def _rewrite_text(node: ast.AST, wanted: set[str | None], state: State, sources: Sources) -> None:
    new = [text for text in wanted if text is not None]
    if not new:
        return
    if len(wanted) > 1 or not isinstance(node, ast.Constant):
        state.refuse(node, f"{sources.text(node)} stands for something else too here")
    else:
        _replace_text(node, new[0], state, sources)


def _replace_text(node: ast.AST, text: str, state: State, sources: Sources) -> None:
    if not isinstance(node, ast.Constant) or (literal := sources.requoted(node, text)) is None:
        state.refuse(node, f"`{text}` cannot be written here")
    else:
        sources.replace_literal(node, literal)


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


# Arguments


def _rewrite_arguments(state: State, sources: Sources) -> None:
    """Write every call and every mapping of arguments anew."""
    rewriter, signature = _Rewriter(state, sources), state.signature
    for node, styles in state.calls.items():
        if styles == {None} or not signature.changes:
            continue
        if signature.whole is not None:
            state.refuse(node, signature.whole)
        elif len(styles) > 1:
            state.refuse(node, f"this may be a call of `{state.function}` or of something else")
        elif "keys" in styles:
            rewriter.rewrite_named(node)
        else:
            _Call(rewriter, node).rewrite()
    rewriter.rewrite_mappings()


class _Rewriter:
    """The arguments of one piece of code."""

    def __init__(self, state: State, sources: Sources) -> None:
        self.state = state
        self.sources = sources
        self._consumers = _propagated(state)
        self._done: set[ast.AST] = set()
        self._assignments: dict[ast.AST, tuple[ast.Assign, bool]] = {}
        """Target -> its assignment, if that has its own line, and whether nothing else is in its block."""
        for parent in ast.walk(state.names.tree):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(parent, field, ())
                for statement in block if isinstance(block, list) else ():
                    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                        alone = len(block) == 1 and not isinstance(parent, ast.Module)
                        self._assignments[statement.targets[0]] = statement, alone

    # Single arguments

    def rename(self, node: _Key, after: str) -> None:
        """Give an argument another name: a keyword, or a literal that is a key."""
        if isinstance(node, ast.keyword):
            self.check_name(node, after)
            self.sources.rename(node, after)
            return
        _replace_text(node, after, self.state, self.sources)

    def check_name(self, node: ast.AST, name: str) -> None:
        """Refuse a name that Python code cannot give an argument by."""
        if not name.isidentifier() or keyword.iskeyword(name):
            self.state.refuse(node, f"`{name}` is not a valid name of a keyword argument in Python")

    def drop(self, node: ast.Call | ast.Dict, number: int, value: ast.expr, name: str) -> None:
        """Take an argument out, if it makes no difference that it is not evaluated."""
        if self.is_idle(value):
            self.sources.remove(node, number)
        else:
            reason = f"the parameter `{name}` is gone, and what it was given does something when it is evaluated"
            self.state.refuse(value, reason)

    def is_idle(self, node: ast.AST) -> bool:
        """True if it makes no difference when an expression is not evaluated."""
        if isinstance(node, _ACTS) or (isinstance(node, ast.Call) and self._called(node) not in _HARMLESS):
            return False
        return isinstance(node, ast.Lambda) or all(self.is_idle(child) for child in ast.iter_child_nodes(node))

    def is_blocked(
        self, place: ast.AST, value: ast.expr | None, name: str, rules: Rules, held: Value = NOTHING
    ) -> bool:
        """Refuse an argument whose parameter changed, unless the new tool takes its known value as it is.

        `held` is what the expression may stand for.
        """
        if name not in rules.blocked:
            return False
        found, known = (False, None) if value is None else _literal(value)
        texts = [atom.text for atom in held if isinstance(atom, Text)]
        if rules.passes(name, [known]) if found else len(texts) == len(held) and rules.passes(name, texts):
            return False
        self.state.refuse(place, rules.blocked[name])
        return True

    def retype(self, node: ast.expr, retype: Retype, name: str, held: Value = NOTHING) -> None:
        """Convert the value of a parameter; `held` is what the expression may stand for."""
        found, value = _literal(node)
        if found and not isinstance(value, list | dict | tuple | set | bytes):
            self._retype_literal(node, retype, name, value)
            return
        expression = self._expression(retype, node)
        if expression is None or isinstance(node, _COLLECTIONS):
            self.state.refuse(
                node, f"`{name}` is {retype.to} now, and what it is given cannot be converted for certain"
            )
            return
        if retype.may_be_none and expression != "{0}" and not self._is_something(node, held):
            expression = f"None if {{0}} is None else {expression}"
        text = self.sources.text(node)
        if expression.count("{0}") > 1 and not isinstance(node, ast.Name):
            expression = f"(lambda value: {expression.replace('{0}', 'value')})({{0}})"
        before, _, after = expression.rpartition("{0}")
        self.sources.wrap(node, before.replace("{0}", text), after)

    def _expression(self, retype: Retype, node: ast.expr) -> str | None:
        """Code with `{0}` for the value, as it can stand at the place of `node`."""
        text = retype.expression
        if text is None or _CONVERTERS & self.state.names.bound:
            return None
        quoted = re.search(r"'(\w+)'", text)
        if quoted is None:
            return text
        literal = self.sources.quoted(quoted[1], self.sources.span(node)[0])
        return None if literal is None else text.replace(quoted[0], literal)

    def _retype_literal(self, node: ast.expr, retype: Retype, name: str, value: Any) -> None:
        try:
            converted = convert(value, retype.to, name)
        except Untranslatable as error:
            self.state.refuse(node, str(error))
            return
        if converted == value and type(converted) is type(value):
            return
        start, end = self.sources.span(node)
        text = self.sources.literal(converted, start)
        if text is None:
            self.state.refuse(node, f"the value of `{name}` cannot be written here")
        else:
            self.sources.replace(start, end, text)

    def _is_something(self, node: ast.expr, held: Value) -> bool:
        """True if an expression is certainly not `None`."""
        match node:
            case ast.JoinedStr() | ast.BinOp() | ast.Compare() | ast.UnaryOp():
                return True
            case ast.Constant(value=str() | int() | float()):
                return True
            case ast.Call() if self._called(node) in _NEVER_NONE:
                return True
            case ast.IfExp():
                return self._is_something(node.body, NOTHING) and self._is_something(node.orelse, NOTHING)
            case ast.BoolOp(op=ast.Or()):
                return self._is_something(node.values[-1], NOTHING)
        return bool(held) and all(isinstance(atom, Text) or atom in (PLAIN, SCALAR) for atom in held)

    def _called(self, node: ast.Call) -> str | None:
        """The name of the built-in function that is called."""
        if isinstance(node.func, ast.Name) and node.func not in self.state.names.of:
            return node.func.id
        return None

    # Mappings: `{"user_id": 1}` that is unpacked into a call or handed to `call_tool`

    def rewrite_mappings(self) -> None:
        """Rename, drop and convert in every mapping, wherever a key of it is written."""
        for site, consumers in self._consumers.items():
            self._rewrite_mapping(site, consumers)

    def keys(self, atom: object) -> tuple[dict[str, bool], bool]:
        """The keys of a mapping, each with true if it is there for certain; and true if these are all."""
        state = self.state
        if atom == NONE:
            return {}, True
        if not isinstance(atom, Site) or atom not in state.keys:
            return {}, False
        node, slots = atom.node, state.contents.get(atom, {})
        complete = isinstance(node, ast.Dict | ast.Call | ast.BinOp | ast.arg) and not atom.level
        complete = complete and not slots.get(None)
        certain: set[str | None] = set(_written(node))
        spread = state.spreads.get(atom, NOTHING)
        for base in spread - {atom}:
            keys, whole = self.keys(base)
            complete = complete and whole
            certain |= {key for key, sure in keys.items() if sure and len(spread) == 1}
        removed = state.removed.get(atom, set())
        certain = set() if None in removed or isinstance(node, ast.arg) else certain - removed
        return {slot: slot in certain for slot in slots if isinstance(slot, str)}, complete

    # Adding

    def rewrite_named(self, node: ast.Call) -> None:
        """Rewrite `call_tool(name, arguments)`, as far as something has to be added."""
        rules, refuse = self.state.signature.by_key, self.state.refuse
        argument = _arguments_of(node)
        if argument is None or (isinstance(argument, ast.Constant) and argument.value is None):
            self.demand(node, rules, ())
            self._add_mapping(node, argument, rules)
            return
        given = next(each for each in self.state.arguments(node) if each.value is argument)
        for atom in self.state.given.get(given.node, NOTHING):
            keys, complete = self.keys(atom)
            if atom == NONE:
                if rules.added or rules.omitted:
                    refuse(node, "the arguments may be `None`, and some are required now")
            elif not complete and (rules.touched or rules.added or rules.omitted):
                refuse(node, "the arguments that `call_tool` gets are not known")
            elif isinstance(atom, Site):
                self.demand(node, rules, [key for key, certain in keys.items() if certain])
                if "" in rules.blocked and not keys.keys() <= rules.names.keys():
                    refuse(node, rules.blocked[""])
                self.add(atom, {key: value for key, value in rules.added.items() if not keys.get(key)}, keys)

    def demand(self, node: ast.Call, rules: Rules, have: Collection[str]) -> None:
        """Refuse a call that does not give what has to be given now."""
        for name, reason in rules.omitted.items():
            if name not in have:
                self.state.refuse(node, reason)

    def _add_mapping(self, node: ast.Call, argument: ast.Constant | None, rules: Rules) -> None:
        """Give `call_tool` arguments where it got none."""
        if not rules.added:
            return
        text = self.sources.literal(dict(rules.added), self.sources.span(node)[1] - 1)
        if text is None:
            self.state.refuse(node, "the arguments that are required now cannot be written here")
        elif argument is not None:
            self.sources.replace_literal(argument, text)
        else:
            self.sources.append(node, f"arguments={text}" if node.keywords else text)

    def add(self, site: Site, missing: Mapping[str, Any], keys: Mapping[str, bool]) -> None:
        """Add entries to the literal that a mapping starts as; what sets them later counts for more."""
        node = site.node
        if not missing or node in self._done:
            return
        self._done.add(node)
        if not isinstance(node, ast.Dict | ast.Call) or site.level:
            self.state.refuse(node, "a required argument has to be added to a mapping without literal keys")
            return
        if len(self._consumers.get(site, set())) != 1:
            reason = "a required argument has to be added to a mapping that is used for something else too"
            self.state.refuse(node, reason)
        if _written(node) & missing.keys() or (self.state.spreads.get(site) and missing.keys() & keys.keys()):
            self.state.refuse(node, "the mapping may already hold what is required now")
        close = self.sources.span(node)[1] - 1
        texts = []
        for key, value in missing.items():
            name, text = self.sources.quoted(key, close), self.sources.literal(value, close)
            if text is None or name is None:
                self.state.refuse(node, f"`{key}` needs a value that cannot be written here")
            elif isinstance(node, ast.Call):
                self.check_name(node, key)
                texts.append(f"{key}={text}")
            else:
                texts.append(f"{name}: {text}")
        self.sources.append(node, ", ".join(texts))

    # Changing

    def _rewrite_mapping(self, site: Site, consumers: set[Style | None]) -> None:
        signature = self.state.signature
        rules = [signature.by_key if style == "keys" else signature.by_name for style in consumers if style]
        keys, _ = self.keys(site)
        hit = [key for rule in rules for key in keys if key in rule.touched]
        if not hit:
            return
        node = site.node
        if len(consumers) > 1:
            self.state.refuse(node, f"a mapping of arguments with `{hit[0]}` is used for something else too")
            return
        if isinstance(node, ast.Dict):
            for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
                if key is not None and _text_of(key) is None:
                    self.state.refuse(key, f"a key of the arguments is not a literal, and may be `{hit[0]}`")
                elif key is not None:
                    self._rewrite_entry(node, number, key, value, _text_of(key), rules[0])
        elif isinstance(node, ast.Call) and not site.level:
            for number, each in enumerate(self.state.arguments(node)):
                if isinstance(each.node, ast.keyword) and each.keyword is not None:
                    self._rewrite_entry(node, number, each.node, each.value, each.keyword, rules[0])
        elif not isinstance(node, ast.BinOp | ast.arg):
            self.state.refuse(node, f"`{hit[0]}` is in a mapping without literal keys")
        for touch in self.state.touches.get(site, ()):
            self._rewrite_touch(touch, rules[0])

    def _rewrite_entry(
        self, node: ast.Call | ast.Dict, number: int, key: _Key, value: ast.expr, name: str | None, rules: Rules
    ) -> None:
        """Rewrite one entry of a mapping where it is written out."""
        if name is None or name not in rules.touched or key in self._done:
            return
        self._done.add(key)
        after = rules.names.get(name, name)
        if self.is_blocked(key, value, name, rules):
            return
        if after is None:
            self.drop(node, number, value, name)
        else:
            if after != name:
                self.rename(key, after)
            if name in rules.retyped:
                self.retype(value, rules.retyped[name], name)

    def _rewrite_touch(self, touch: Touch, rules: Rules) -> None:
        """Rewrite a place outside of the literal that reads or writes a key."""
        place = _key_of(touch)
        name = place.arg if isinstance(place, ast.keyword) else _text_of(place)
        if name is None or place is None:
            if any(isinstance(atom, Text) and atom.text in rules.touched for atom in touch.key):
                self.state.refuse(touch.node, "a key of the arguments is named in a way that cannot be analysed")
        elif touch.call is not None and touch.value is not None:
            given = self.state.arguments(touch.call)
            number = next(number for number, each in enumerate(given) if each.node is touch.node)
            self._rewrite_entry(touch.call, number, place, touch.value, name, rules)
        elif name in rules.touched and place not in self._done:
            self._done.add(place)
            self._change(touch, place, name, rules)

    def _change(self, touch: Touch, place: _Key, name: str, rules: Rules) -> None:
        node, after = touch.node, rules.names.get(name, name)
        statement, alone = self._assignments.get(node, (None, False))
        if statement is not None and not self.sources.has_own_line(statement):
            statement = None
        written = touch.value if touch.value is not node else None
        if self.is_blocked(node, written, name, rules):
            return
        if after is None:
            if statement is None or not self.is_idle(statement.value):
                self.state.refuse(node, f"the parameter `{name}` is gone, and this use of it cannot be taken out")
            else:
                self.sources.remove_statement(statement, alone=alone)
        else:
            if after != name:
                self.rename(place, after)
            if name in rules.retyped and written is not None:
                self.retype(written, rules.retyped[name], name)
            elif name in rules.retyped:
                self.state.refuse(node, f"`{name}` has another type now, and this use of it cannot be analysed")

    def write(self, node: ast.Call, name: str, value: Any) -> str:
        """A value as it may stand at the end of a call."""
        text = self.sources.literal(value, self.sources.span(node)[1] - 1)
        if text is None:
            self.state.refuse(node, f"`{name}` needs a value that cannot be written here")
        return text or "None"


class _Call:
    """One call, argument by argument."""

    def __init__(self, rewriter: _Rewriter, node: ast.Call) -> None:
        signature = rewriter.state.signature
        self._rewriter = rewriter
        self._state = rewriter.state
        self._sources = rewriter.sources
        self._refuse = rewriter.state.refuse
        self._node = node
        self._arguments = self._state.arguments(node)
        self._signature = signature
        self._rules = signature.by_name
        self._position = 0
        """The number of old parameters that were given by position."""
        self._kept = 0
        """The number of arguments that stay positional."""
        self._named = False
        """No further argument stays positional."""
        self._starred = False
        self._have: set[str] = set()
        """New names that the call gives."""
        self._maybe: set[str] = set()
        """New names that the call may give."""
        positional = sum(each.is_positional for each in self._arguments)
        self._explicit = {each.keyword for each in self._arguments if each.keyword is not None}
        self._explicit |= set(signature.before[:positional])

    def rewrite(self) -> None:
        """Rewrite the call."""
        node = self._node
        for number, argument in enumerate(self._arguments):
            if argument.star == "*":
                self._unpack_list(argument)
            elif argument.star == "**":
                self._unpack_mapping(argument)
            elif not (self._starred and argument.keyword is None):
                self._rewrite_one(argument, number)
        self._add_missing()
        self._rewriter.demand(node, self._rules, self._have)

    def _rewrite_one(self, argument: Argument, number: int) -> None:
        """Rewrite an argument that is written out."""
        rules, rewriter = self._rules, self._rewriter
        name = self._name_of(argument)
        if name is None:
            return
        held = self._state.given.get(argument.node, NOTHING)
        if rewriter.is_blocked(argument.node, argument.value, name, rules, held):
            return
        after = rules.names[name]
        if after is None:
            rewriter.drop(self._node, number, argument.value, name)
            return
        self._have.add(after)
        if isinstance(argument.node, ast.keyword):
            if after != name:
                rewriter.rename(argument.node, after)
        else:
            order = self._signature.after
            self._named = self._named or self._kept >= len(order) or order[self._kept] != after
            self._kept += 1
            if self._named:
                rewriter.check_name(argument.node, after)
                start = self._sources.whole(argument.value)[0]
                self._sources.replace(start, start, f"{after}=")
        if name in rules.retyped:
            rewriter.retype(argument.value, rules.retyped[name], name, held)

    def _name_of(self, argument: Argument) -> str | None:
        """The old parameter that an argument is for; None if there is nothing to be done."""
        rules = self._rules
        if argument.keyword is None:
            self._position += 1
            if self._position > len(self._signature.before):
                reason = "the call gives more arguments by position than the tool has parameters"
                self._refuse(argument.node, reason)
                return None
            return self._signature.before[self._position - 1]
        name = argument.keyword
        if name in rules.names:
            return name
        if name in rules.added or name in rules.names.values():
            self._refuse(argument.node, f"the call gives `{name}`, which the old tool did not have")
        if "" in rules.blocked:
            self._refuse(argument.node, rules.blocked[""])
        self._have.add(name)
        return None

    def _unpack_list(self, argument: Argument) -> None:
        """`*x` stays as it is, or the call is refused."""
        signature, rules = self._signature, self._rules
        names = signature.before[self._position :]
        changed = any(name in rules.retyped or name in rules.blocked or rules.names[name] is None for name in names)
        if self._named or self._kept != self._position or changed or signature.moves(self._position):
            reason = "what `*` unpacks cannot be given by name, and the parameters it fills changed"
            self._refuse(argument.node, reason)
        self._starred = True
        self._maybe |= {after for name in names if (after := signature.names[name]) is not None}

    def _unpack_mapping(self, argument: Argument) -> None:
        """`**x`: what is known of it is rewritten where it is written; what is not must not matter."""
        rules = self._rules
        sure: list[set[str]] = []
        maybe: set[str] = set()
        for atom in self._state.given.get(argument.node, NOTHING):
            keys, complete = self._rewriter.keys(atom)
            if not complete:
                hit = rules.touched - self._explicit
                if hit:
                    names = ", ".join(f"`{name}`" for name in sorted(hit)[:5])
                    self._refuse(argument.node, f"what `**` unpacks is not known, and {names} may be in it")
                maybe |= {after for name, after in rules.names.items() if after and name not in self._explicit}
                maybe |= rules.added.keys() if self._signature.is_open else set()
            sure.append({rules.names.get(key, key) or "" for key, certain in keys.items() if certain})
            maybe |= {rules.names.get(key, key) or "" for key in keys}
        have = set.intersection(*sure) if sure else set()
        self._have |= have
        self._maybe |= maybe - have

    def _add_missing(self) -> None:
        """Give what has to be given now."""
        node = self._node
        texts = []
        for name, value in self._rules.added.items():
            if name in self._maybe and name not in self._have:
                self._refuse(node, f"`*` or `**` may give `{name}` already, which is required now")
            elif name not in self._have:
                self._rewriter.check_name(node, name)
                texts.append(f"{name}={self._rewriter.write(node, name, value)}")
        if not texts:
            return
        end = self._sources.span(node)[1]
        if any(isinstance(each, ast.GeneratorExp) and self._sources.span(each)[1] == end for each in node.args):
            self._refuse(node, "a generator is the only argument, and another one has to be added")
        self._sources.append(node, ", ".join(texts))


def _propagated(state: State) -> dict[Site, set[Style | None]]:
    """The consumers of each mapping, with those of the mappings that it is unpacked into."""
    consumers = {site: set(found) for site, found in state.consumers.items()}
    queue = list(consumers)
    while queue:
        site = queue.pop()
        for base in state.spreads.get(site, NOTHING):
            if isinstance(base, Site) and not consumers[site] <= consumers.get(base, set()):
                consumers.setdefault(base, set()).update(consumers[site])
                queue.append(base)
    return consumers


def _written(node: ast.AST) -> set[str]:
    """The keys that a literal of a mapping writes out."""
    if isinstance(node, ast.Dict):
        return {text for key in node.keys if (text := _text_of(key)) is not None}
    return {each.arg for each in node.keywords if each.arg is not None} if isinstance(node, ast.Call) else set()


def _arguments_of(node: ast.Call) -> ast.expr | None:
    """The second argument of `call_tool`."""
    named = {each.arg: each.value for each in node.keywords}
    if "arguments" in named:
        return named["arguments"]
    return next(iter(node.args[0 if "name" in named else 1 :]), None)


def _key_of(touch: Touch) -> _Key | None:
    """The literal or keyword that names the key, if it stands right there."""
    place: _Key | None = None
    match touch.node:
        case ast.Subscript(slice=place) | ast.Call(args=[place, *_]) | ast.Compare(left=place):
            pass
        case ast.keyword() as place:
            pass
    return place if any(isinstance(atom, Text) and atom.node is place for atom in touch.key) else None


def _text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _literal(node: ast.expr) -> tuple[bool, Any]:
    """True if an expression is a literal, and its value."""
    try:
        return True, ast.literal_eval(node)
    except (ValueError, MemoryError, RecursionError, TypeError):
        return False, None
