"""Follows a piece of code: which names stand for tools and for what they answered, statement by statement.

Within one function the order of statements counts; what functions share does not depend on it. Nothing is run.
"""

from collections.abc import Sequence

import libcst as cst

from sealyard.versioning.migrate.scopes import Scopes
from sealyard.versioning.migrate.values import (
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
from sealyard.versioning.migrate.variables import Env, Variables, joined
from sealyard.versioning.steps import Plan

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
_NONE: Value = frozenset((NONE,))
_ROUNDS = 1_000
_TRANSPARENT = frozenset("functools.cache functools.lru_cache".split())
"""Decorators that leave a function what it is."""

_PATTERNS = (
    *(cst.MatchPattern, cst.MatchSequenceElement, cst.MatchMappingElement, cst.MatchStar),
    *(cst.MatchOrElement, cst.MatchKeywordElement),
)
_EXITS = frozenset("exit quit sys SystemExit os".split())
"""With these a script may end anywhere."""
_PASSING = frozenset("open ThreadPoolExecutor TaskGroup Semaphore BoundedSemaphore Lock timeout".split())
"""Contexts that let every error pass."""


class Flow(Variables):
    """One piece of code, followed until nothing new is learned."""

    def __init__(self, module: cst.Module, scopes: Scopes, plans: Sequence[Plan], *, exported: set[str] | None) -> None:
        """`exported`: the functions that others call; None: the code is a script, whose value leaves it."""
        super().__init__(scopes, plans)
        self._module = module
        self._exported = exported
        self._functions: dict[cst.CSTNode, None] = {}
        self._loops: list[tuple[list[Env], list[Env]]] = []
        self._back: dict[cst.CSTNode, Env] = {}
        self._result = None if exported is not None else scopes.module.variables.get("result")

    def run(self) -> None:
        """Follow the code."""
        for _ in range(_ROUNDS):
            self.forget()
            self._run_module()
            waiting = list(self._functions)
            for function in waiting:  # grows: functions inside of functions
                self._run_function(function)
                waiting += list(self._functions)[len(waiting) :]
            if not self.changed:
                return
        self.refuse(self._module, "what its names stand for cannot be found out")

    # Frames

    def _run_module(self) -> None:
        self.current, self.env = self.scopes.module, {}
        body = self._module.body
        for number, statement in enumerate(body):
            last = number == len(body) - 1 and self._exported is None
            self._statement(statement, last=last)
        for variable, value in (self.env or {}).items():
            self.grow(self.final, variable, value)
        if self._result is not None:
            # What the script ends with, however it ends.
            ends = self._result.foreign or not _EXITS.isdisjoint(self.scopes.spellings)
            value = self.held.get(self._result, NOTHING) if ends else (self.env or {}).get(self._result, NOTHING)
            self.escape(value, self.bound.get(self._result, self._module), "the result of the script")
        for variable in self.scopes.module.variables.values():
            if variable.foreign:
                self.grow(self.final, variable, self.held.get(variable, NOTHING))

    def called(self, local: Local) -> None:
        """Notice that a function of the code is called here."""
        del local
        self._notice_early()

    def leave(self, function: cst.CSTNode) -> None:
        """Say that a function is called by somebody who is not followed."""
        super().leave(function)
        self._notice_early()

    def _notice_early(self) -> None:
        if self.current is self.scopes.module and not self.early:
            self.early = self.changed = True

    def _run_function(self, node: cst.CSTNode) -> None:
        assert isinstance(node, cst.FunctionDef | cst.Lambda)
        scope = self.scopes.scope_of[node]
        self.current, self.env = scope, {}
        self.raising, self._loops = [], []
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

    # Statements

    def _block(self, node: cst.BaseSuite) -> None:
        if isinstance(node, cst.SimpleStatementSuite):
            self._small(node.body)
            return
        for statement in node.body:
            self._statement(statement)

    def _statement(self, node: cst.BaseStatement | cst.BaseSmallStatement, *, last: bool = False) -> None:
        if self.env is None:
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
            if self.env is None:
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
                    self._return(self.current.node, value, node)
                    self.env = None
                case cst.Raise():
                    if node.exc is not None:
                        self.escape(self.evaluate(node.exc), node, "raised")
                    if node.cause is not None:
                        self.evaluate(node.cause.item)
                    self.env = None
                case cst.Break() | cst.Continue():
                    if self._loops:
                        self._loops[-1][isinstance(node, cst.Continue)].append(self.env)
                    self.env = None
                case cst.Del():
                    self._delete(node.target)
                case cst.Assert():
                    self.evaluate(node.test)
                    self.learn_from(node.test, truth=True)
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
                    self.spread(site, added, node, new=False)
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
                if variable is not None and self.env is not None:
                    self.env.pop(variable, None)
            case cst.Tuple() | cst.List():
                for element in node.elements:
                    self._delete(element.value)
            case cst.Subscript():
                receiver, key = self.evaluate(node.value), self.key_of(node)
                self.part(receiver, key or NOTHING, node)
                self.take_out(receiver, key)
            case cst.Attribute():
                for atom in self.evaluate(node.value):
                    if isinstance(atom, Package | Tool):
                        self.refuse(node, "a tool or its module is changed by `del`")

    def _if(self, node: cst.If) -> None:
        self.evaluate(node.test)
        before = self.copy_env()
        dead = self.learn_from(node.test, truth=True)
        self._block(node.body)
        after, self.env = None if dead else self.env, before
        dead = self.learn_from(node.test, truth=False)
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse)
        elif node.orelse is not None:
            self._block(node.orelse.body)
        self.env = joined(after, None if dead else self.env)

    def _for(self, node: cst.For) -> None:
        items = self.items(self.evaluate(node.iter), node.iter)
        self.env = joined(self.env, self._back.get(node)) or {}
        start = self.copy_env()
        self.assign(node.target, items, None)
        self._loop(node, start)

    def _while(self, node: cst.While) -> None:
        self.env = joined(self.env, self._back.get(node)) or {}
        self.evaluate(node.test)
        self._loop(node, self.copy_env())

    def _loop(self, node: cst.For | cst.While, start: Env) -> None:
        """The body of a loop; `start` is what holds where it ends. What the body adds counts in the next round."""
        self._loops.append(([], []))
        self._block(node.body)
        breaks, continues = self._loops.pop()
        for env in (self.env, *continues):
            self._grow_back(node, env)
        self.env = joined(start, self._back.get(node))
        if node.orelse is not None:
            self._block(node.orelse.body)
        for env in breaks:
            self.env = joined(self.env, env)

    def _grow_back(self, node: cst.CSTNode, env: Env | None) -> None:
        known = self._back.setdefault(node, {})
        for variable, value in (env or {}).items():
            self.grow(known, variable, value)

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        self.raising.append(self.copy_env())
        self._block(node.body)
        thrown = self.raising.pop()
        if node.orelse is not None:
            self._block(node.orelse.body)
        ended = self.env
        for handler in node.handlers:
            self.env = dict(thrown)
            if handler.type is not None:
                self.evaluate(handler.type)
            if handler.name is not None:
                self.assign(handler.name.name, _OTHER, None)
            self._block(handler.body)
            ended = joined(ended, self.env)
        self.env = ended
        if node.finalbody is not None:
            self.env = joined(ended, thrown)
            self._block(node.finalbody.body)
            if ended is None:
                self.env = None

    def _with(self, node: cst.With) -> None:
        for item in node.items:
            value = self.evaluate(item.item)
            instances = frozenset(atom for atom in value if isinstance(atom, Instance))
            if value - instances:
                self.escape(value - instances, item, "used as a context")
            if item.asname is not None:
                self.assign(item.asname.name, instances | (_OTHER if value - instances else NOTHING), None)
        self.raising.append(self.copy_env())
        self._block(node.body)
        thrown = self.raising.pop()
        self.env = joined(self.env, thrown) if _may_swallow(node) else self.env

    def _match(self, node: cst.Match) -> None:
        self.escape(self.evaluate(node.subject), node.subject, "matched against patterns")
        before = self.copy_env()
        ended: Env | None = dict(before)
        for case in node.cases:
            self.env = dict(before)
            self._pattern(case.pattern)
            if case.guard is not None:
                self.evaluate(case.guard)
            self._block(case.body)
            ended = joined(ended, self.env)
        self.env = ended

    def _pattern(self, node: cst.CSTNode) -> None:
        """Bind what a pattern captures to what nobody knows."""
        named = node.rest if isinstance(node, cst.MatchMapping) else getattr(node, "name", None)
        if isinstance(node, cst.MatchAs | cst.MatchStar | cst.MatchMapping) and isinstance(named, cst.Name):
            self.bind(named, _OTHER)
        if isinstance(node, cst.MatchValue):
            self.keep(self.evaluate(node.value))
            return
        for child in node.children:
            if isinstance(child, _PATTERNS):
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
                self._notice_early()
        self.learn(node, outside=outside)
        variable = self.scopes.of[node.name]
        if variable.scope.kind == "class":
            value = _OTHER
            self.early = True  # whoever makes an instance may call it
        self.bind(node.name, value)

    def learn(self, node: cst.FunctionDef | cst.Lambda, *, outside: bool) -> None:
        """Remember a function, to be followed on its own."""
        self._functions.setdefault(node)
        if outside and node not in self.escaped:
            super().leave(node)
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


def _may_swallow(node: cst.With) -> bool:
    """Whether a `with` may go on after an error in it, as `contextlib.suppress` does."""
    names = set()
    for item in node.items:
        called = item.item.func if isinstance(item.item, cst.Call) else item.item
        names.add(called.attr.value if isinstance(called, cst.Attribute) else getattr(called, "value", ""))
    return not names <= _PASSING
