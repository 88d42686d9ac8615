"""Follows a piece of code: which names stand for tools and for what they answered, statement by statement.

Within one function the order of statements counts; what functions share does not depend on it. Nothing is run.
"""

from collections.abc import Sequence

import libcst as cst

from toolyard.versioning.migrate_expressions import Expressions
from toolyard.versioning.migrate_scopes import Scope, Scopes, Variable, spelled
from toolyard.versioning.migrate_values import (
    NONE,
    NOTHING,
    OTHER,
    SCALAR,
    Answer,
    Instance,
    Library,
    Local,
    Package,
    Site,
    Tool,
    Value,
)
from toolyard.versioning.steps import Plan

__all__ = ("Flow",)

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
_NONE: Value = frozenset((NONE,))
_ROUNDS = 60
_TRANSPARENT = frozenset("functools.cache functools.lru_cache".split())
"""Decorators that leave a function what it is."""

_PASSING = frozenset("open ThreadPoolExecutor TaskGroup Semaphore BoundedSemaphore Lock timeout".split())
"""Contexts that let every error pass."""

Env = dict[Variable, Value]


class Flow(Expressions):
    """One piece of code, followed until nothing new is learned."""

    def __init__(self, module: cst.Module, scopes: Scopes, plans: Sequence[Plan], *, exported: set[str] | None) -> None:
        """`exported`: the functions that others call; None: the code is a script, whose value leaves it."""
        super().__init__(scopes, plans)
        self._module = module
        self._exported = exported
        self._env: Env | None = {}
        self._frame = scopes.module
        self._functions: dict[cst.CSTNode, None] = {}
        self._raising: list[Env] = []
        self._loops: list[tuple[list[Env], list[Env]]] = []
        self._back: dict[cst.CSTNode, Env] = {}

    def run(self) -> None:
        """Follow the code."""
        for _ in range(_ROUNDS):
            self.forget()
            self._run_module()
            for function in list(self._functions):
                self._run_function(function)
            if not self.changed:
                return
        self.refuse(self._module, "what its names stand for cannot be found out")

    # Frames

    def _run_module(self) -> None:
        self._frame, self._env = self.scopes.module, {}
        body = self._module.body
        for number, statement in enumerate(body):
            last = number == len(body) - 1 and self._exported is None
            self._statement(statement, last=last)

    def _run_function(self, node: cst.CSTNode) -> None:
        assert isinstance(node, cst.FunctionDef | cst.Lambda)
        scope = self.scopes.scope_of[node]
        self._frame, self._env = scope, {}
        self._raising, self._loops = [], []
        strange = _OTHER if node in self.escaped else NOTHING
        params = node.params
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            self.bind(param.name, self.params.get(param, NOTHING) | strange)
        for star in (params.star_arg, params.star_kwarg):
            if isinstance(star, cst.Param):
                site = Site(star)
                if strange:
                    self.put(site, None, _OTHER)
                if star is params.star_kwarg:
                    self.grow(self.keys, site, _OTHER)
                self.bind(star.name, self.make(star))
        if isinstance(node, cst.Lambda):
            self._return(node, self.evaluate(node.body), node.body)
        else:
            self._block(node.body)

    def _return(self, function: cst.CSTNode, value: Value, node: cst.CSTNode) -> None:
        self.grow(self.returned, function, value)
        if function in self.escaped:
            self.escape(value, node, "returned, and who calls this function would see the new names")

    # Variables

    @property
    def frame(self) -> Scope:
        """The function or module that is being followed."""
        return self._frame

    def read(self, node: cst.Name) -> Value:
        variable = self.scopes.of.get(node)
        if variable is None:
            return frozenset((Library(f"builtins.{spelled(node)}"),))
        if variable.foreign or variable.scope.frame is not self._frame:
            return self.held.get(variable, NOTHING)
        found = (self._env or {}).get(variable)
        if found is not None:
            return found
        if variable.scope.kind == "class" and variable.scope.parent is not None:
            outer = self.scopes.find(variable.name, variable.scope.parent)
            if outer is None:
                return frozenset((Library(f"builtins.{variable.name}"),))
            return (self._env or {}).get(outer) or self.held.get(outer, NOTHING)
        if variable.scope.kind == "module":
            return frozenset((Library(f"builtins.{variable.name}"), OTHER))
        return NOTHING

    def bind(self, node: cst.Name, value: Value) -> None:
        variable = self.scopes.of[node]
        self.grow(self.held, variable, value)
        if variable.scope.kind == "class":
            self.escape(value, node, "an attribute of a class")
        if variable.name == "result" and variable.scope is self.scopes.module and self._exported is None:
            self.escape(value, node, "the result of the script")
        if self._env is not None and variable.scope.frame is self._frame:
            self._env[variable] = value
        for env in self._raising:
            env[variable] = env.get(variable, NOTHING) | value

    def assign(self, target: cst.CSTNode, value: Value, source: cst.BaseExpression | None) -> None:
        """`target = value`; `source` is the expression on the right, if it is just that."""
        match target:
            case cst.Name():
                self.bind(target, value)
            case cst.Tuple() | cst.List():
                self._unpack(target.elements, value, target)
            case cst.StarredElement():
                self.assign(target.value, value, None)
            case cst.Subscript():
                self._assign_part(target, value, source)
            case cst.Attribute():
                receiver = self.evaluate(target.value)
                self.escape(value, target, "stored in an attribute")
                for atom in receiver:
                    if isinstance(atom, Package | Tool):
                        self.refuse(target, "a tool or its module is changed by an assignment")
            case _:
                self.escape(value, target, "assigned to something that is not followed")

    def _unpack(self, elements: Sequence[cst.BaseElement], value: Value, node: cst.CSTNode) -> None:
        starred = any(isinstance(element, cst.StarredElement) for element in elements)
        for number, element in enumerate(elements):
            found: Value = NOTHING
            for atom in value:
                slots = self.contents.get(atom, {}) if isinstance(atom, Site) and atom not in self.keys else {}
                if not starred and number in slots:
                    found |= slots[number] | slots.get(None, NOTHING)
                else:
                    found |= self.items(frozenset((atom,)), node)
            if isinstance(element, cst.StarredElement):
                self.assign(element.value, self.make(element, [(None, found)]), None)
            else:
                self.assign(element.value, found, None)

    def _assign_part(self, target: cst.Subscript, value: Value, source: cst.BaseExpression | None) -> None:
        receiver, key = self.evaluate(target.value), self.key_of(target)
        for atom in receiver:
            if isinstance(atom, Site) and key is not None:
                self.store(atom, key, value, source or target, target)
            elif isinstance(atom, Site):
                self.put(atom, None, self.items(value, target))
            elif isinstance(atom, Answer):
                held = self.part(frozenset((atom,)), key, target) if key is not None else frozenset((atom,))
                strange = value - held - _NONE - _SCALAR
                if held - _OTHER and strange:
                    self.escape(held | value, target, "replaced by something else")
                else:
                    self.escape(value - held, target, "stored in an answer")
            else:
                self.keep(key or NOTHING)
                self.escape(value, target, "stored in something that is not followed")

    # Statements

    def _block(self, node: cst.BaseSuite) -> None:
        if isinstance(node, cst.SimpleStatementSuite):
            self._small(node.body)
            return
        for statement in node.body:
            self._statement(statement)

    def _statement(self, node: cst.BaseStatement | cst.BaseSmallStatement, *, last: bool = False) -> None:
        if self._env is None:
            return  # never reached
        self.step()
        match node:
            case cst.SimpleStatementLine():
                self._small(node.body, last=last)
            case cst.If():
                self._if(node)
            case cst.For():
                self._for(node)
            case cst.While():
                self._while(node)
            case cst.Try() | cst.TryStar():
                self._try(node)
            case cst.With():
                self._with(node)
            case cst.FunctionDef():
                self._define(node)
            case cst.ClassDef():
                self._class(node)
            case cst.Match():
                self._match(node)
            case _:
                self.refuse(node, "this statement is not followed")

    def _small(self, statements: Sequence[cst.BaseSmallStatement], *, last: bool = False) -> None:
        for number, node in enumerate(statements):
            if self._env is None:
                return
            match node:
                case cst.Expr():
                    value = self.evaluate(node.value)
                    if last and number == len(statements) - 1:
                        self.escape(value, node, "the value of the script")
                case cst.Assign():
                    value = self.evaluate(node.value)
                    for target in node.targets:
                        self.assign(target.target, value, node.value)
                case cst.AnnAssign() if node.value is not None:
                    self.assign(node.target, self.evaluate(node.value), node.value)
                case cst.AugAssign():
                    self._augment(node)
                case cst.Return():
                    value = self.evaluate(node.value) if node.value is not None else _NONE
                    self._return(self._frame.node, value, node)
                    self._env = None
                case cst.Raise():
                    if node.exc is not None:
                        self.escape(self.evaluate(node.exc), node, "raised")
                    if node.cause is not None:
                        self.evaluate(node.cause.item)
                    self._env = None
                case cst.Break() | cst.Continue():
                    if self._loops:
                        self._loops[-1][isinstance(node, cst.Continue)].append(self._env)
                    self._env = None
                case cst.Del():
                    self._delete(node.target)
                case cst.Assert():
                    self.evaluate(node.test)
                    if node.msg is not None:
                        self.escape(self.evaluate(node.msg), node, "shown in an error")
                case cst.Import():
                    self.run_import(node)
                case cst.ImportFrom():
                    self.run_import_from(node)

    def _augment(self, node: cst.AugAssign) -> None:
        added = self.evaluate(node.value)
        if isinstance(node.target, cst.Name):
            held = self.read(node.target)
            sites = [atom for atom in held if isinstance(atom, Site)]
            answers = frozenset(atom for atom in held if isinstance(atom, Answer))
            for site in sites:
                if isinstance(node.operator, cst.BitOrAssign) and site in self.keys:
                    self.spread(site, added, node)
                else:
                    self.put(site, None, self.items(added, node))
            if answers and not self.items(added, node) <= self.items(answers, node):
                self.escape(answers | added, node, "mixed with other things")
            self.keep(added)
            if not sites and not answers:
                self.escape(added, node, "added to something that is not followed")
            self.bind(node.target, held | _OTHER if not sites and not answers else held)
            return
        self.escape(added, node, "added to something that is not followed")
        if isinstance(node.target, cst.Subscript):
            key = self.key_of(node.target)
            self.part(self.evaluate(node.target.value), key or NOTHING, node.target)
        else:
            self.evaluate(node.target)

    def _delete(self, node: cst.BaseExpression) -> None:
        match node:
            case cst.Name():
                variable = self.scopes.of.get(node)
                if variable is not None and self._env is not None:
                    self._env.pop(variable, None)
            case cst.Tuple() | cst.List():
                for element in node.elements:
                    self._delete(element.value)
            case cst.Subscript():
                self.evaluate(node)
            case cst.Attribute():
                for atom in self.evaluate(node.value):
                    if isinstance(atom, Package | Tool):
                        self.refuse(node, "a tool or its module is changed by `del`")

    def _if(self, node: cst.If) -> None:
        self.evaluate(node.test)
        before = self._copy()
        self._block(node.body)
        after, self._env = self._env, before
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse)
        elif node.orelse is not None:
            self._block(node.orelse.body)
        self._env = _joined(after, self._env)

    def _for(self, node: cst.For) -> None:
        items = self.items(self.evaluate(node.iter), node.iter)
        self._env = _joined(self._env, self._back.get(node)) or {}
        start = self._copy()
        self.assign(node.target, items, None)
        self._loop(node, start)

    def _while(self, node: cst.While) -> None:
        self._env = _joined(self._env, self._back.get(node)) or {}
        self.evaluate(node.test)
        self._loop(node, self._copy())

    def _loop(self, node: cst.For | cst.While, start: Env) -> None:
        """The body of a loop; `start` is what holds where it ends. What the body's end adds counts in the next round."""
        self._loops.append(([], []))
        self._block(node.body)
        breaks, continues = self._loops.pop()
        for env in (self._env, *continues):
            self._grow_back(node, env)
        self._env = _joined(start, self._back.get(node))
        if node.orelse is not None:
            self._block(node.orelse.body)
        for env in breaks:
            self._env = _joined(self._env, env)

    def _grow_back(self, node: cst.CSTNode, env: Env | None) -> None:
        known = self._back.setdefault(node, {})
        for variable, value in (env or {}).items():
            self.grow(known, variable, value)

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        self._raising.append(self._copy())
        self._block(node.body)
        thrown = self._raising.pop()
        if node.orelse is not None:
            self._block(node.orelse.body)
        ended = self._env
        for handler in node.handlers:
            self._env = dict(thrown)
            if handler.type is not None:
                self.evaluate(handler.type)
            if handler.name is not None:
                self.assign(handler.name.name, _OTHER, None)
            self._block(handler.body)
            ended = _joined(ended, self._env)
        self._env = ended
        if node.finalbody is not None:
            self._env = _joined(ended, thrown)
            self._block(node.finalbody.body)
            if ended is None:
                self._env = None

    def _with(self, node: cst.With) -> None:
        for item in node.items:
            value = self.evaluate(item.item)
            instances = frozenset(atom for atom in value if isinstance(atom, Instance))
            if value - instances:
                self.escape(value - instances, item, "used as a context")
            if item.asname is not None:
                self.assign(item.asname.name, instances | (_OTHER if value - instances else NOTHING), None)
        self._raising.append(self._copy())
        self._block(node.body)
        thrown = self._raising.pop()
        self._env = _joined(self._env, thrown) if _may_swallow(node) else self._env

    def _match(self, node: cst.Match) -> None:
        self.escape(self.evaluate(node.subject), node.subject, "matched against patterns")
        before = self._copy()
        ended: Env | None = dict(before)
        for case in node.cases:
            self._env = dict(before)
            self._pattern(case.pattern)
            if case.guard is not None:
                self.evaluate(case.guard)
            self._block(case.body)
            ended = _joined(ended, self._env)
        self._env = ended

    def _pattern(self, node: cst.CSTNode) -> None:
        """Bind what a pattern captures to what nobody knows."""
        named = node.rest if isinstance(node, cst.MatchMapping) else getattr(node, "name", None)
        if isinstance(node, cst.MatchAs | cst.MatchStar | cst.MatchMapping) and isinstance(named, cst.Name):
            self.bind(named, _OTHER)
        if isinstance(node, cst.MatchValue):
            self.keep(self.evaluate(node.value))
            return
        for child in node.children:
            if isinstance(child, cst.MatchPattern | cst.MatchSequenceElement | cst.MatchMappingElement) or isinstance(
                child, cst.MatchStar | cst.MatchOrElement | cst.MatchKeywordElement | cst.MatchList | cst.MatchTuple
            ):
                self._pattern(child)

    def _define(self, node: cst.FunctionDef) -> None:
        method = self.scopes.scope_of[node].parent
        outside = method is not None and method.kind == "class"
        outside |= method is self.scopes.module and self._exported is not None and node.name.value in self._exported
        value: Value = frozenset((Local(node),))
        for decorator in node.decorators:
            called = self.evaluate(decorator.decorator)
            names = {atom.name for atom in called if isinstance(atom, Library)}
            if isinstance(decorator.decorator, cst.Call):
                names = {a.name for a in self.evaluate(decorator.decorator.func) if isinstance(a, Library)}
            if not names or not names <= _TRANSPARENT:
                self.escape(called, decorator, "used as a decorator")
                outside, value = True, _OTHER
        self.learn(node, outside=outside)
        variable = self.scopes.of[node.name]
        if variable.scope.kind == "class":
            value = _OTHER
        self.bind(node.name, value)

    def learn(self, node: cst.FunctionDef | cst.Lambda, *, outside: bool) -> None:
        """Remember a function, to be followed on its own."""
        self._functions.setdefault(node)
        if outside and node not in self.escaped:
            self.escaped.add(node)
            self.changed = True
        params = node.params
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            if param.default is not None:
                self.grow(self.params, param, self.evaluate(param.default))

    def _class(self, node: cst.ClassDef) -> None:
        for argument in (*node.bases, *node.keywords):
            self.escape(self.evaluate(argument.value), argument, "used to define a class")
        for decorator in node.decorators:
            self.escape(self.evaluate(decorator.decorator), decorator, "used as a decorator")
        self._block(node.body)
        self.bind(node.name, _OTHER)

    def _copy(self) -> Env:
        return dict(self._env or {})


def _joined(one: Env | None, other: Env | None) -> Env | None:
    """What holds after either of two ways; None: a way that never gets there."""
    if one is None or other is None:
        return other if one is None else one
    joined = dict(one)
    for variable, value in other.items():
        joined[variable] = joined.get(variable, NOTHING) | value
    return joined


def _may_swallow(node: cst.With) -> bool:
    """Whether a `with` may go on after an error in it, as `contextlib.suppress` does."""
    names = set()
    for item in node.items:
        called = item.item.func if isinstance(item.item, cst.Call) else item.item
        names.add(called.attr.value if isinstance(called, cst.Attribute) else getattr(called, "value", ""))
    return not names <= _PASSING
