"""What calls do to values: tools, functions of the code itself, and what is handed on to another call."""

import re
from collections.abc import Sequence

import libcst as cst

from sealyard.versioning.migrate.containers import Containers
from sealyard.versioning.migrate.facts import UNKNOWN, Use
from sealyard.versioning.migrate.values import (
    NONE,
    NOTHING,
    OTHER,
    PLAIN,
    SCALAR,
    Answer,
    Getter,
    Instance,
    Library,
    Local,
    Partial,
    Plain,
    Site,
    Text,
    Tool,
    Value,
)

LOOKS = frozenset(
    """builtins.len builtins.bool builtins.isinstance builtins.id builtins.type builtins.any builtins.all
    builtins.callable builtins.hash builtins.range""".split()
)
"""Only look at what they are given."""

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
_NONE: Value = frozenset((NONE,))
_CALLERS = ("builtins.call_tool", "servers.call_tool", "tool_discovery.call_tool")
_HANDING_ON = ("functools.partial", "asyncio.to_thread", "builtins.map")

Given = Sequence[tuple[cst.Arg, Value]]


class Calls(Containers):
    """Facts, and what a call adds to them."""

    def evaluate(self, node: cst.BaseExpression) -> Value:
        """What an expression may stand for."""
        raise NotImplementedError

    def call(self, node: cst.Call) -> Value:
        """What a call gives."""
        receiver = NOTHING
        if isinstance(node.func, cst.Attribute):
            receiver = self.evaluate(node.func.value)
        given = [(each, self.evaluate(each.value)) for each in node.args]
        if isinstance(node.func, cst.Attribute):
            method = node.func.attr.value
            objects = frozenset(atom for atom in receiver if isinstance(atom, Answer | Site | Instance))
            found = NOTHING
            for atom in objects:
                found |= self.call_method(atom, method, node, given)
            rest = self.attribute(node.func, receiver - objects) if receiver - objects or not objects else NOTHING
            if any(not isinstance(atom, Instance) for atom in objects):
                self.calls.setdefault(node, set()).add(None)
            return found | self.apply(rest, node, given)
        return self.apply(self.evaluate(node.func), node, given)

    def attribute(self, node: cst.Attribute, receiver: Value) -> Value:
        """What `receiver.name` gives."""
        raise NotImplementedError

    def call_method(self, receiver: Answer | Site | Instance, name: str, node: cst.Call, given: Given) -> Value:
        """What a method gives."""
        raise NotImplementedError

    def call_library(self, name: str, node: cst.Call, given: Given) -> Value:
        """What a function of a library gives."""
        raise NotImplementedError

    # Calling what is known

    def apply(self, function: Value, node: cst.Call, given: Given) -> Value:
        """What calling `function` gives, with the arguments as they stand in `node`."""
        found = NOTHING
        for atom in function:
            match atom:
                case Tool():
                    found |= self._call_tool(Use("function", atom.plan), node, given)
                    continue
                case Partial():
                    found |= self._call_partial(atom, "function", node, given)
                    continue
                case Library(name=name) if name in _CALLERS:
                    found |= self._call_by_name(node, given)
                    continue
                case Plain(sort="none"):
                    continue
                case Library():
                    found |= self.call_library(atom.name, node, given)
                case Local():
                    found |= self.call_local(atom, node, given)
                case Getter():
                    found |= self._get(atom, [value for _, value in given], node)
                case _:
                    found |= self.unknown(given, node)
            if not isinstance(atom, Library) or atom.name not in (
                "functools.partial",
                "asyncio.to_thread",
                "builtins.map",
            ):
                self.calls.setdefault(node, set()).add(None)
        return found

    def unknown(self, given: Given, node: cst.CSTNode, why: str = UNKNOWN) -> Value:
        """A call of something that is not known."""
        for argument, value in given:
            self.escape(value, argument, why)
        return _OTHER

    def on_items(self, function: Value, items: Sequence[Value], node: cst.CSTNode) -> Value:
        """What calling `function` on these positional values gives, as `sorted` and its kin do."""
        found = NOTHING
        for atom in function:
            match atom:
                case Local():
                    found |= self.call_local(atom, node, [], items)
                case Getter():
                    found |= self._get(atom, items, node)
                case Library(name=name) if name in LOOKS:
                    found |= _SCALAR
                case Plain(sort="none"):
                    found |= NOTHING.union(*items)
                case _:
                    self.escape(frozenset((atom,)), node, UNKNOWN)
                    for value in items:
                        self.escape(value, node, UNKNOWN)
                    found |= _OTHER
        return found

    def _get(self, getter: Getter, items: Sequence[Value], node: cst.CSTNode) -> Value:
        receiver = items[0] if items else NOTHING
        parts = [self.part(receiver, self.kept.get(each, NOTHING), each) for each in getter.node.args]
        if len(parts) == 1:
            return parts[0]
        return self.make(getter.node, enumerate(parts), level=1)

    # Tools

    def _call_tool(self, use: Use, node: cst.Call, given: Given) -> Value:
        """A call of a tool: its mappings of arguments are followed, all else that it is given leaves."""
        plan = use.plan
        self.touched.add(plan)
        self.calls.setdefault(node, set()).add(use)
        style = "keys" if use.kind == "named" else "names"
        for number, (argument, value) in enumerate(given):
            self.given[argument] = value
            if number < use.first:
                continue
            mapping = argument.star == "**" or use.kind == "named"
            for atom in value:
                if isinstance(atom, Site) and mapping and atom in self.keys:
                    self.consumers.setdefault(atom, set()).add((style, plan))
                    self.callers.setdefault(atom, set()).add(node)
                    inside = self.everything(atom)
                    self.escape(inside, argument, "passed to a tool")
                elif not (mapping and atom == NONE):
                    self.escape(frozenset((atom,)), argument, "passed to a tool")
        if self.shapes[plan].blocked:
            self.refuse(node, f"the answer of `{self.function(plan)}` changed: {self.shapes[plan].blocked}")
        answer = frozenset((self.answer(plan, ()),))
        return self.make(node, [(None, answer)]) if use.kind == "mapped" else answer

    def _call_partial(self, partial: Partial, kind: str, node: cst.Call, given: Given, first: int = 0) -> Value:
        found = NOTHING
        for atom in self.partials.get(partial.node, NOTHING):
            match atom:
                case Tool():
                    found |= self._call_tool(Use(kind, atom.plan, first, partial.node), node, given)
                case Local() if kind == "function" and not first:
                    kept = [(each, self.kept.get(each, NOTHING)) for each in partial.node.args[1:]]
                    bound = [value for each, value in kept if not _is_special(each)]
                    named = [(each, value) for each, value in kept if _is_special(each)]
                    found |= self.call_local(atom, node, [*given, *named], bound)
                    self.calls.setdefault(node, set()).add(None)
                case _:
                    self.escape(frozenset((atom,)), node, UNKNOWN)
                    found |= self.unknown(given, node)
        return found

    def _call_by_name(self, node: cst.Call, given: Given) -> Value:
        """`call_tool(name, arguments)`."""
        names = find_given(given, 0, "name")
        if names is None or any(argument.star for argument, _ in given):
            self.refuse(node, "`call_tool` gets its arguments by `*` or `**`, so that nobody knows which tool it calls")
            return self.unknown(given, node)
        argument, value = names
        rest = [each for each in given if each[0] is not argument]
        found = NOTHING
        for atom in value:
            plan = self.by_name.get(atom.text) if isinstance(atom, Text) else None
            if isinstance(atom, Text) and plan is not None:
                step = self.renamed_tool(plan)
                self.want(atom.node, step.full_name if step else None, f"the tool is `{step and step.full_name}` now")
                found |= self._call_tool(Use("named", plan), node, rest)
            elif isinstance(atom, Text) or atom in (PLAIN, NONE):
                self.keep(frozenset((atom,)))
                self.calls.setdefault(node, set()).add(None)
                found |= self.unknown(rest, node, "passed to a tool")
            else:
                if self._may_name(argument.value):
                    self.refuse(node, "`call_tool` gets a name that is only known at run time and may be this tool's")
                self.calls.setdefault(node, set()).add(None)
                found |= self.unknown(rest, node, "passed to a tool")
        return found

    def _may_name(self, node: cst.BaseExpression) -> bool:
        """Whether a formatted text may come out as the name of a tool that changed."""
        if not isinstance(node, cst.FormattedString):
            return True
        parts = [re.escape(each.value) if isinstance(each, cst.FormattedStringText) else ".*" for each in node.parts]
        return any(re.fullmatch("".join(parts), name, re.DOTALL) for name in self.by_name)

    # Functions of the code itself

    def call_local(self, local: Local, node: cst.CSTNode, given: Given, before: Sequence[Value] = ()) -> Value:
        """Hand arguments to a function of the code; `before` are values that come first."""
        self.called(local)
        params = local.node.params
        places = [*params.posonly_params, *params.params]
        named = {param.name.value: param for param in (*params.params, *params.kwonly_params)}
        position = 0
        for value in before:
            self._hand(places, position, params, value, node)
            position += 1
        for argument, value in given:
            if argument.star:
                self._hand_unpacked(params, argument, value)
                continue
            if argument.keyword is None:
                self._hand(places, position, params, value, argument)
                position += 1
            elif argument.keyword.value in named:
                self.grow(self.params, named[argument.keyword.value], value)
            elif isinstance(params.star_kwarg, cst.Param):
                self.put(Site(params.star_kwarg), argument.keyword.value, value)
                self.touch_by_keyword(Site(params.star_kwarg), argument, node)
            else:
                self.escape(value, argument, "passed to a function that does not take it")
        if local.node in self.scopes.generators:
            return self.make(local.node, [(None, self.yielded.get(local.node, NOTHING))])
        return self.returned.get(local.node, NOTHING)

    def _hand_unpacked(self, params: cst.Parameters, argument: cst.Arg, value: Value) -> None:
        """`f(*x)` or `f(**x)`: what is in it may go to any parameter."""
        named = {param.name.value for param in (*params.params, *params.kwonly_params)}
        slots = [self.contents.get(atom, {}) for atom in value if isinstance(atom, Site) and atom in self.keys]
        rest = params.star_kwarg
        known = len(slots) == len(value) and not any(None in each or named & each.keys() for each in slots)
        if argument.star == "**" and isinstance(rest, cst.Param) and known:
            self.spread(Site(rest), value, argument, new=False)
            return
        self.escape(value, argument, "unpacked into the arguments of a function")
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            self.grow(self.params, param, _OTHER)
        for star in (params.star_arg, rest):
            if isinstance(star, cst.Param):
                self.put(Site(star), None, _OTHER)

    def called(self, local: Local) -> None:
        """Notice that a function of the code is called here."""
        raise NotImplementedError

    def _hand(
        self,
        places: Sequence[cst.Param],
        position: int,
        params: cst.Parameters,
        value: Value,
        node: cst.CSTNode,
    ) -> None:
        if position < len(places):
            self.grow(self.params, places[position], value)
        elif isinstance(params.star_arg, cst.Param):
            self.put(Site(params.star_arg), None, value)
        else:
            self.escape(value, node, "passed to a function that does not take it")

    # Handing on

    def forward(self, node: cst.Call, given: Given, at: int, kind: str = "function") -> Value:
        """A call such as `asyncio.to_thread(f, 1, b=2)`: argument number `at` is called with those after it."""
        if len(given) <= at or any(argument.star or argument.keyword for argument, _ in given[: at + 1]):
            return self.unknown(given, node)
        found = NOTHING
        for atom in given[at][1]:
            match atom:
                case Tool():
                    found |= self._call_tool(Use(kind, atom.plan, at + 1), node, given)
                case Partial():
                    found |= self._call_partial(atom, kind, node, given, at + 1)
                case _:
                    found |= self.apply(frozenset((atom,)), node, given[at + 1 :])
        return found

    def map_over(self, node: cst.Call, given: Given, at: int = 0) -> Value:
        """`map` and its kin: argument number `at` is called with the items of those after it."""
        if len(given) <= at or given[at][0].keyword:
            return self.unknown(given, node)
        items = [self.items(value, argument) for argument, value in given[at + 1 :] if not argument.keyword]
        found = NOTHING
        for atom in given[at][1]:
            match atom:
                case Tool():
                    found |= self._call_tool(Use("mapped", atom.plan, at + 1), node, given)
                case Partial():
                    found |= self._call_partial(atom, "mapped", node, given, at + 1)
                case _:
                    self.calls.setdefault(node, set()).add(None)
                    result = self.on_items(frozenset((atom,)), items, node)
                    found |= self.make(node, [(None, result)])
        return found

    def make_partial(self, node: cst.Call, given: Given) -> Value:
        """`functools.partial`."""
        if not given or given[0][0].star or given[0][0].keyword:
            return self.unknown(given, node)
        self.grow(self.partials, node, given[0][1])
        self.keep_given(given[1:])
        for atom in given[0][1]:
            if isinstance(atom, Tool):
                self._call_tool(Use("partial", atom.plan, 1), node, given)
            else:
                self.calls.setdefault(node, set()).add(None)
                if not isinstance(atom, Local):
                    self.unknown(given[1:], node)
        return frozenset((Partial(node),))

    def sort_by(self, node: cst.Call, given: Given, items: Value) -> None:
        """Call the `key` that `sorted` and its kin are given."""
        key = find_given(given, None, "key")
        if key is not None:
            self.on_items(key[1], [items], node)
        else:
            self.keep(items)

    def keep_given(self, given: Given) -> None:
        """Remember arguments that are used later."""
        for argument, value in given:
            self.grow(self.kept, argument, value)


def find_given(given: Given, position: int | None, name: str) -> tuple[cst.Arg, Value] | None:
    """An argument by its position or its keyword."""
    plain = [each for each in given if each[0].keyword is None]
    for each in given:
        if each[0].keyword is not None and each[0].keyword.value == name:
            return each
    return plain[position] if position is not None and position < len(plain) else None


def _is_special(argument: cst.Arg) -> bool:
    return argument.keyword is not None or bool(argument.star)
