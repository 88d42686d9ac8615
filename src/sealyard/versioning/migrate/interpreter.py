"""Follows a piece of code: which names stand for the tool and for its answers. Nothing is run.

The order of statements does not count: a variable stands for everything that it ever holds.
"""

import ast
import builtins
from collections.abc import Sequence

from sealyard.code import Variable
from sealyard.versioning.migrate.abstract import (
    JUST_NONE,
    JUST_OTHER,
    JUST_SCALAR,
    NONE,
    NOTHING,
    OTHER,
    PLAIN,
    Answer,
    Library,
    Local,
    Package,
    Site,
    Text,
    Tool,
    Value,
)
from sealyard.versioning.migrate.effects import Calls
from sealyard.versioning.migrate.facts import State

_ROUNDS = 1_000  # a bound; honest code needs fewer than ten
_MANY = 32  # the items of a longer list are not kept apart
_INNARDS = frozenset("__globals__ __builtins__ f_globals f_locals f_builtins gi_frame cr_frame".split())
"""Attributes that lead to every name."""
_TRANSPARENT = frozenset("functools.cache functools.lru_cache".split())
"""Decorators that leave a function what it is."""
_NAMES_OF_TOOL = ("__doc__", "__module__", "__name__", "__qualname__")
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Interpreter:
    """Follows one piece of code until nothing new is learned."""

    def __init__(self, state: State, *, exported: set[str] | None) -> None:
        """`exported` are the functions that others call; None: the code is a script, whose value leaves it."""
        self.state = state
        self._calls = Calls(state)
        self._names = state.names
        self._exported = exported
        self._functions: dict[_Function, None] = {}
        self._result = None if exported is not None else self._names.module.variables.get("result")
        self._bound: dict[Variable, ast.AST] = {}
        """The last place that binds each variable, in this round so far."""

    def run(self) -> None:
        """Follow the code."""
        state = self.state
        for _ in range(_ROUNDS):
            state.forget()
            self._run_module()
            waiting = list(self._functions)
            for function in waiting:  # grows: functions inside of functions
                self._run_function(function)
                waiting += list(self._functions)[len(waiting) :]
            if not state.changed:
                return
        state.refuse(self._names.tree, "what its names stand for cannot be found out")

    # Frames

    def _run_module(self) -> None:
        state = self.state
        state.current = self._names.module
        self._bound = {}
        body = self._names.tree.body
        for number, statement in enumerate(body):
            self._statement(statement, last=number == len(body) - 1 and self._exported is None)
        if self._result is not None:
            value = state.held.get(self._result, NOTHING)
            state.escape(value, self._bound.get(self._result, self._names.tree), "the result of the script")

    def _run_function(self, node: _Function) -> None:
        state, params = self.state, node.args
        state.current = self._names.scopes[node]
        strange = JUST_OTHER if node in state.escaped else NOTHING
        for param in (*params.posonlyargs, *params.args, *params.kwonlyargs):
            self._bind(param, state.params.get(param, NOTHING) | strange)
        for star in (params.vararg, params.kwarg):
            if star is not None:
                if strange:
                    state.put(Site(star), None, JUST_OTHER)
                if star is params.kwarg:
                    state.grow(state.keys, Site(star), JUST_OTHER)
                self._bind(star, state.make(star))
        if isinstance(node, ast.Lambda):
            self._return(node, self._evaluate(node.body), node.body)
        else:
            self._block(node.body)

    def _return(self, function: ast.AST, value: Value, node: ast.AST) -> None:
        self.state.grow(self.state.returned, function, value)
        if function in self.state.escaped:
            self.state.escape(value, node, "returned, and who calls this function would see the new names")

    # Variables

    def _read(self, node: ast.Name) -> Value:
        """Everything that a variable ever holds, and what its name stands for where it holds nothing."""
        state = self.state
        variable = self._names.of.get(node)
        if variable is None:
            return frozenset((state.library(f"builtins.{node.id}", node),))
        scope, given = variable.scope, state.library(f"builtins.{variable.name}", node)
        is_own = scope is state.current and not variable.foreign
        if is_own and scope is self._names.module and variable not in self._bound:
            state.grow(state.held, variable, frozenset((given, OTHER)))  # an input of a script
        held = state.held.get(variable, NOTHING)
        if scope.kind == "class" and scope.parent is not None:
            outer = self._names.find(variable.name, scope.parent)
            held |= state.held.get(outer, NOTHING) if outer is not None else NOTHING
        if scope.kind in ("class", "module") and (variable.name == "call_tool" or hasattr(builtins, variable.name)):
            held |= {given}
        return held

    def _bind(self, node: ast.AST, value: Value) -> None:
        """Give a variable a value."""
        variable = self._names.of[node]
        self.state.grow(self.state.held, variable, value)
        if variable.scope.kind == "class":
            self.state.escape(value, node, "an attribute of a class")
        self._bound[variable] = node

    def _assign(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """`target = value`; `source` is the expression on the right, if it is just that."""
        state = self.state
        match target:
            case ast.Name():
                self._bind(target, value)
            case ast.Tuple() | ast.List():
                self._unpack(target.elts, value, target)
            case ast.Starred():
                self._assign(target.value, value, None)
            case ast.Subscript():
                self._assign_part(target, value, source)
            case ast.Attribute():
                receiver = self._evaluate(target.value)
                state.escape(value, target, "stored in an attribute")
                if any(isinstance(atom, Package | Tool) for atom in receiver):
                    state.refuse(target, "a tool or its module is changed by an assignment")
            case _:
                state.escape(value, target, "assigned to something that cannot be analysed")

    def _unpack(self, elements: Sequence[ast.expr], value: Value, node: ast.AST) -> None:
        starred = any(isinstance(element, ast.Starred) for element in elements)
        for number, element in enumerate(elements):
            found: Value = NOTHING
            for atom in value:
                slots = self.state.sequence_slots(atom)
                if not starred and number in slots:
                    found |= slots[number] | slots.get(None, NOTHING)
                else:
                    found |= self.state.items(frozenset((atom,)), node)
            if isinstance(element, ast.Starred):
                self._assign(element.value, self.state.make_list(element, found), None)
            else:
                self._assign(element, found, None)

    def _assign_part(self, target: ast.Subscript, value: Value, source: ast.expr | None) -> None:
        state = self.state
        receiver, key = self._evaluate(target.value), self._key_of(target)
        for atom in receiver:
            if isinstance(atom, Site) and key is not None:
                state.store(atom, key, value, source or target, target)
            elif isinstance(atom, Site):
                state.put(atom, None, state.items(value, target))
            elif isinstance(atom, Answer):
                held = state.part(frozenset((atom,)), key, target) if key is not None else frozenset((atom,))
                strange = value - held - JUST_NONE - JUST_SCALAR
                if held - JUST_OTHER and strange:
                    state.escape(held | value, target, "replaced by something else")
                else:
                    state.escape(value - held, target, "stored in an answer")
            else:
                state.keep(key or NOTHING)
                state.escape(value, target, "stored in something that cannot be analysed")

    # Expressions

    def _evaluate(self, node: ast.expr) -> Value:
        """The things that an expression may stand for."""
        state = self.state
        state.step()
        match node:
            case ast.Name():
                return self._read(node)
            case ast.Call():
                return self._call(node)
            case ast.Attribute():
                return self._attribute(node, self._evaluate(node.value))
            case ast.Constant(value=None):
                return JUST_NONE
            case ast.Constant(value=str(text)):
                return frozenset((Text(node, text),))
            case ast.Constant(value=bool() | int() | float() | complex()):
                return JUST_SCALAR
            case ast.Constant():
                return JUST_OTHER
            case ast.Subscript():
                return self._subscript(node)
            case ast.JoinedStr():
                return self._formatted(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp():
                state.keep(self._evaluate(node.operand))
                return JUST_SCALAR
            case ast.BoolOp():
                values = [self._evaluate(each) for each in node.values]
                if isinstance(node.op, ast.Or):
                    return NOTHING.union(*values)
                state.keep(NOTHING.union(*values[:-1]))  # of the left side stays only what is empty
                return values[-1] | JUST_NONE
            case ast.IfExp():
                self._evaluate(node.test)
                return self._evaluate(node.body) | self._evaluate(node.orelse)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._sequence(node)
            case ast.Dict():
                return self._mapping(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Await():
                return self._evaluate(node.value)
            case ast.NamedExpr():
                value = self._evaluate(node.value)
                self._assign(node.target, value, node.value)
                return value
            case ast.Lambda():
                self._learn(node, outside=False)
                return frozenset((Local(node),))
            case ast.Yield() | ast.YieldFrom():
                return self._yield(node)
        state.refuse(node, "this expression cannot be analysed")
        return JUST_OTHER

    def _formatted(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.state.escape(self._evaluate(part.value), part.value, "put into a text")
                if isinstance(part.format_spec, ast.JoinedStr):
                    self._formatted(part.format_spec)
        return JUST_OTHER

    def _attribute(self, node: ast.Attribute, receiver: Value) -> Value:
        """The value of `receiver.name`."""
        state = self.state
        found: Value = NOTHING
        name = node.attr
        if name in _INNARDS:
            state.reach(node, f"`{name}` can reach the tool, and its use cannot be analysed")
        for atom in receiver:
            match atom:
                case Package():
                    found |= state.member(atom, node)
                case Tool() if name == state.function:
                    state.members[node] = state.members.get(node, NOTHING) | {atom}
                    found |= {atom}
                case Tool():
                    if name not in _NAMES_OF_TOOL:  # such as `__call__`
                        state.escape(frozenset((atom,)), node, "used as an object with attributes")
                    elif state.renamed and name != "__doc__":
                        state.refuse(node, f"`{name}` of `{state.function}` gives another name now")
                    found |= JUST_OTHER
                case Library():
                    found |= {state.library(f"{atom.name}.{name}", node)}
                case Answer() | Site():
                    state.escape(frozenset((atom,)), node, "used as an object with attributes")
                    found |= JUST_OTHER
                case _ if atom != NONE:
                    state.keep(frozenset((atom,)))
                    found |= JUST_OTHER
        if node in state.members and not all(isinstance(atom, Package | Tool) for atom in receiver - JUST_NONE):
            state.members[node] |= JUST_OTHER
        return found

    def _call(self, node: ast.Call) -> Value:
        receiver = self._evaluate(node.func.value) if isinstance(node.func, ast.Attribute) else NOTHING
        given = [(each, self._evaluate(each.value)) for each in self.state.arguments(node)]
        if not isinstance(node.func, ast.Attribute):
            return self._calls.apply(self._evaluate(node.func), node, given)
        objects = [atom for atom in receiver if isinstance(atom, Answer | Site)]
        rest = receiver.difference(objects)
        found = NOTHING
        for atom in objects:
            found |= self._calls.call_method(atom, node.func.attr, node, given)
        function = self._attribute(node.func, rest) if rest or not objects else NOTHING
        if objects:
            self.state.call_otherwise(node)
        return found | self._calls.apply(function, node, given)

    def _key_of(self, node: ast.Subscript) -> Value | None:
        """The key in `x[key]`; None if it is a slice."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not any(isinstance(part, ast.Slice) for part in parts):
            return self._evaluate(node.slice)
        for part in parts:
            inner = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else (part,)
            for each in inner:
                if each is not None:
                    self._evaluate(each)
        return None

    def _subscript(self, node: ast.Subscript) -> Value:
        state = self.state
        receiver, key = self._evaluate(node.value), self._key_of(node)
        if key is None:
            return receiver
        if not isinstance(node.slice, ast.Constant) or type(node.slice.value) is not int:
            return state.part(receiver, key, node)
        found: Value = NOTHING
        for atom in receiver:  # a tuple whose parts are kept apart
            slots = state.sequence_slots(atom)
            number = node.slice.value
            known = number in slots
            found |= slots[number] | slots.get(None, NOTHING) if known else state.part(frozenset((atom,)), key, node)
        return found

    def _comparison(self, node: ast.Compare) -> Value:
        left = self._evaluate(node.left)
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._evaluate(comparator)
            if isinstance(operator, ast.In | ast.NotIn):
                self._membership(left, right, node)
            else:
                self.state.compare(left, right, node)
            left = right
        return JUST_SCALAR

    def _membership(self, key: Value, container: Value, node: ast.Compare) -> None:
        state = self.state
        for atom in container:
            own = frozenset((atom,))
            match atom:
                case Answer() if state.shape(atom).keys:
                    state.part(own, key, node)
                case Site() if atom in state.keys:
                    state.part(own, key, node)
                case Site() | Answer():
                    state.compare(key, state.items(own, node), node)
                case _:
                    state.keep(key)

    def _binary(self, node: ast.BinOp) -> Value:
        state = self.state
        left, right = self._evaluate(node.left), self._evaluate(node.right)
        both = left | right
        lists = frozenset(atom for atom in both if isinstance(atom, Answer | Site))
        match node.op:
            case ast.Add() if lists:
                state.keep(both)
                return state.make_list(node, state.items(lists, node) | (both & JUST_OTHER))
            case ast.Mult() if lists:
                return lists
            case ast.BitOr() if lists:
                made = state.make_mapping(node, [])
                for value in (left, right):
                    made |= state.spread(Site(node), value, node)
                return made
        state.escape(both, node, "used in a calculation or a text")
        return JUST_OTHER

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        value = self._evaluate(node.value) if node.value is not None else JUST_NONE
        if isinstance(node, ast.YieldFrom):
            value = self.state.items(value, node)
        function = self.state.current.node
        self.state.grow(self.state.yielded, function, value)
        if function in self.state.escaped:
            self.state.escape(value, node, "yielded, and who calls this function would see the new names")
        return JUST_OTHER

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        apart = len(node.elts) <= _MANY and not isinstance(node, ast.Set)
        apart = apart and not any(isinstance(each, ast.Starred) for each in node.elts)
        slots: list[tuple[int | None, Value]] = []
        for number, element in enumerate(node.elts):
            if isinstance(element, ast.Starred):
                value = self.state.items(self._evaluate(element.value), element)
            else:
                value = self._evaluate(element)
                value = value if apart else self._without_plain_texts(value)
            slots.append((number if apart else None, value))
        return self.state.make(node, slots)

    def _without_plain_texts(self, value: Value) -> Value:
        words = self.state.words
        return frozenset(PLAIN if isinstance(atom, Text) and atom.text not in words else atom for atom in value)

    def _mapping(self, node: ast.Dict) -> Value:
        slots: list[tuple[str | None, Value]] = []
        keys: Value = NOTHING
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is not None:
                key, value = self._evaluate(key_node), self._evaluate(value_node)
                texts = [atom.text for atom in key if isinstance(atom, Text)]
                slots.append((texts[0] if len(texts) == len(key) == 1 else None, value))
                keys |= key
        if len(keys) > _MANY:
            keys = self._without_plain_texts(keys)
        made = self.state.make_mapping(node, slots, keys)
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                made |= self.state.spread(Site(node), self._evaluate(value_node), value_node)
        return made

    def _comprehension(self, node: _Comprehension) -> Value:
        for loop in node.generators:
            self._assign(loop.target, self.state.items(self._evaluate(loop.iter), loop.iter), None)
            for condition in loop.ifs:
                self._evaluate(condition)
        if isinstance(node, ast.DictComp):
            key = self._evaluate(node.key)
            return self.state.make_mapping(node, [(None, self._evaluate(node.value))], key)
        return self.state.make_list(node, self._evaluate(node.elt))

    # Statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt, *, last: bool = False) -> None:
        self.state.step()
        match node:
            case ast.Expr():
                value = self._evaluate(node.value)
                if last:
                    self.state.escape(value, node, "the value of the script")
            case ast.Assign():
                value = self._evaluate(node.value)
                for target in node.targets:
                    self._assign(target, value, node.value)
            case ast.AnnAssign():
                if node.value is not None:
                    self._assign(node.target, self._evaluate(node.value), node.value)
            case ast.AugAssign():
                self._augment(node)
            case ast.Delete():
                for target in node.targets:
                    self._delete(target)
            case ast.Assert():
                self._evaluate(node.test)
                if node.msg is not None:
                    self.state.escape(self._evaluate(node.msg), node, "shown in an error")
            case ast.Import():
                self._import(node)
            case ast.ImportFrom():
                self._import_from(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node)
            case ast.ClassDef():
                self._class(node)
            case ast.Return():
                value = self._evaluate(node.value) if node.value is not None else JUST_NONE
                self._return(self.state.current.node, value, node)
            case ast.Raise():
                if node.exc is not None:
                    self.state.escape(self._evaluate(node.exc), node, "raised")
                if node.cause is not None:
                    self._evaluate(node.cause)
            case _:
                self._compound(node)

    def _compound(self, node: ast.stmt) -> None:
        match node:
            case ast.If() | ast.While():
                self._evaluate(node.test)
                self._block((*node.body, *node.orelse))
            case ast.For() | ast.AsyncFor():
                self._assign(node.target, self.state.items(self._evaluate(node.iter), node.iter), None)
                self._block((*node.body, *node.orelse))
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.state.escape(self._evaluate(item.context_expr), item.context_expr, "used as a context")
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, JUST_OTHER, None)
                self._block(node.body)
            case ast.Match():
                self.state.escape(self._evaluate(node.subject), node.subject, "matched against patterns")
                for case in node.cases:
                    self._pattern(case.pattern)
                    if case.guard is not None:
                        self._evaluate(case.guard)
                    self._block(case.body)
            case ast.Pass() | ast.Break() | ast.Continue() | ast.Global() | ast.Nonlocal():
                pass
            case _ if type(node).__name__ != "TypeAlias":  # of Python 3.12
                self.state.refuse(node, "this statement cannot be analysed")

    def _augment(self, node: ast.AugAssign) -> None:
        state = self.state
        added = self._evaluate(node.value)
        if isinstance(node.target, ast.Name):
            held = self._read(node.target)
            sites = [atom for atom in held if isinstance(atom, Site)]
            answers = frozenset(atom for atom in held if isinstance(atom, Answer))
            for site in sites:
                if isinstance(node.op, ast.BitOr) and site in state.keys:
                    state.spread(site, added, node, new=False)
                else:
                    state.put(site, None, state.items(added, node))
            if answers and not state.items(added, node) <= state.items(answers, node):
                state.escape(answers | added, node, "mixed with other things")
            state.keep(added)
            if not sites and not answers:
                state.escape(added, node, "added to something that cannot be analysed")
            self._bind(node.target, held | JUST_OTHER if not sites and not answers else held)
            return
        state.escape(added, node, "added to something that cannot be analysed")
        if isinstance(node.target, ast.Subscript):
            key = self._key_of(node.target)
            state.part(self._evaluate(node.target.value), key or NOTHING, node.target)
        else:
            self._evaluate(node.target)

    def _delete(self, node: ast.expr) -> None:
        match node:
            case ast.Tuple() | ast.List():
                for element in node.elts:
                    self._delete(element)
            case ast.Subscript():
                receiver, key = self._evaluate(node.value), self._key_of(node)
                self.state.part(receiver, key or NOTHING, node)
                self.state.take_out(receiver, key)
            case ast.Attribute():
                if any(isinstance(atom, Package | Tool) for atom in self._evaluate(node.value)):
                    self.state.refuse(node, "a tool or its module is changed by `del`")

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        self._block(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                self._evaluate(handler.type)
            if handler.name is not None:
                self._bind(handler, JUST_OTHER)
            self._block(handler.body)
        self._block((*node.orelse, *node.finalbody))

    def _pattern(self, node: ast.pattern) -> None:
        """Bind what a pattern captures to something unknown."""
        if node in self._names.of:
            self._bind(node, JUST_OTHER)
        if isinstance(node, ast.MatchValue):
            self.state.keep(self._evaluate(node.value))
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.pattern):
                self._pattern(child)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        around = self._names.scopes[node].parent
        outside = around is not None and around.kind == "class"
        outside |= around is self._names.module and self._exported is not None and node.name in self._exported
        value: Value = frozenset((Local(node),))
        for decorator in node.decorator_list:
            called = self._evaluate(decorator)
            made_by = self._evaluate(decorator.func) if isinstance(decorator, ast.Call) else called
            names = {atom.name for atom in made_by if isinstance(atom, Library)}
            if not names or not names <= _TRANSPARENT:
                self.state.escape(called, decorator, "used as a decorator")
                outside, value = True, JUST_OTHER
        self._learn(node, outside=outside)
        if self._names.of[node].scope.kind == "class":
            value = JUST_OTHER
        self._bind(node, value)

    def _learn(self, node: _Function, *, outside: bool) -> None:
        """Remember a function, to be followed on its own."""
        self._functions.setdefault(node)
        if outside:
            self.state.leave(node)
        params = node.args
        positional = [*params.posonlyargs, *params.args]
        defaults = [*zip(reversed(positional), reversed(params.defaults), strict=False)][::-1]
        for param, default in (*defaults, *zip(params.kwonlyargs, params.kw_defaults, strict=True)):
            if default is not None:
                self.state.grow(self.state.params, param, self._evaluate(default))

    def _class(self, node: ast.ClassDef) -> None:
        for base in (*node.bases, *(each.value for each in node.keywords)):
            value = base.value if isinstance(base, ast.Starred) else base
            self.state.escape(self._evaluate(value), base, "used to define a class")
        for decorator in node.decorator_list:
            self.state.escape(self._evaluate(decorator), decorator, "used as a decorator")
        self._block(node.body)
        self._bind(node, JUST_OTHER)

    # Imports

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            whole = self.state.imported(alias.name, alias)
            root = alias.name.partition(".")[0]
            value = whole
            if alias.asname is None:
                value = frozenset((Package(("servers",)) if root == "servers" else Library(root),))
            self.state.imports.append((node, alias, whole))
            self._bind(alias, value)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or "" if not node.level else "."
        for alias in node.names:
            if alias.name == "*":
                self._import_star(node, module)
                continue
            value = self.state.imported(f"{module}.{alias.name}", alias)
            self.state.imports.append((node, alias, value))
            self._bind(alias, value)

    def _import_star(self, node: ast.ImportFrom, module: str) -> None:
        parts = module.split(".")
        reason = f"`from {module} import *` binds names that the text does not show. Name them"
        own = parts[0] == "servers"
        if own and (len(parts) == 1 or self.state.plan.before.module == parts[1]):
            self.state.refuse(node, reason)
        elif not own:
            self.state.reach(node, reason)
