"""What calls do to values: tools, functions of the code itself, and what everybody calls in the standard library."""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

import libcst as cst

from toolyard.versioning.migrate_facts import Facts, Touch, Use
from toolyard.versioning.migrate_values import (
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
    Package,
    Partial,
    Plain,
    Site,
    Text,
    Tool,
    Value,
)

__all__ = ("Calls", "Given")

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
_NONE: Value = frozenset((NONE,))

Given = Sequence[tuple[cst.Arg, Value]]

_SAME = frozenset(
    """asyncio.create_task asyncio.ensure_future asyncio.run asyncio.shield asyncio.wait_for copy.copy
    copy.deepcopy""".split()
)
"""Give what they are given, as far as anybody can tell the difference here."""
_LISTS = frozenset(
    """builtins.iter builtins.aiter builtins.list builtins.reversed builtins.tuple builtins.set builtins.frozenset
    itertools.islice itertools.cycle collections.deque random.sample""".split()
)
"""Give the items of what they are given."""
_LOOKS = frozenset(
    """builtins.len builtins.bool builtins.isinstance builtins.id builtins.type builtins.any builtins.all
    builtins.callable builtins.hash builtins.range""".split()
)
"""Only look at what they are given."""
_READERS = frozenset("builtins.eval builtins.exec builtins.compile".split())
_NAMESPACES = frozenset("builtins.globals builtins.locals builtins.vars builtins.__import__".split())
_POOLS = frozenset(
    """concurrent.futures.ThreadPoolExecutor concurrent.futures.thread.ThreadPoolExecutor
    concurrent.futures.ProcessPoolExecutor multiprocessing.pool.ThreadPool multiprocessing.dummy.Pool""".split()
)
_INSTANCES = _POOLS | {"asyncio.TaskGroup", "asyncio.get_event_loop", "asyncio.get_running_loop", "asyncio.Semaphore"}
_LOOPS = ("asyncio.get_event_loop", "asyncio.get_running_loop")
_CALLERS = ("builtins.call_tool", "servers.call_tool", "tool_discovery.call_tool")


class Calls(Facts):
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
                found |= self._method(atom, method, node, given)
            rest = self.attribute(node.func, receiver - objects) if receiver - objects or not objects else NOTHING
            if any(not isinstance(atom, Instance) for atom in objects):
                self.calls.setdefault(node, set()).add(None)
            return found | self.apply(rest, node, given)
        return self.apply(self.evaluate(node.func), node, given)

    def attribute(self, node: cst.Attribute, receiver: Value) -> Value:
        """What `receiver.name` gives."""
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
                    found |= self._call_library(atom.name, node, given)
                case Local():
                    found |= self._call_local(atom, node, given)
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

    def unknown(self, given: Given, node: cst.CSTNode, why: str = "passed to a function that is not followed") -> Value:
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
                    found |= self._call_local(atom, node, [], items)
                case Getter():
                    found |= self._get(atom, items, node)
                case Library(name=name) if name in _LOOKS:
                    found |= _SCALAR
                case Plain(sort="none"):
                    found |= NOTHING.union(*items)
                case _:
                    self.escape(frozenset((atom,)), node, "passed to a function that is not followed")
                    for value in items:
                        self.escape(value, node, "passed to a function that is not followed")
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
                    found |= self._call_local(atom, node, [*given, *named], bound)
                    self.calls.setdefault(node, set()).add(None)
                case _:
                    self.escape(frozenset((atom,)), node, "passed to a function that is not followed")
                    found |= self.unknown(given, node)
        return found

    def _call_by_name(self, node: cst.Call, given: Given) -> Value:
        """`call_tool(name, arguments)`."""
        names = _find(given, 0, "name")
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

    def _call_local(self, local: Local, node: cst.CSTNode, given: Given, before: Sequence[Value] = ()) -> Value:
        """Hand arguments to a function of the code; `before` are values that come first."""
        params = local.node.params
        places = [*params.posonly_params, *params.params]
        named = {param.name.value: param for param in (*params.params, *params.kwonly_params)}
        position = 0
        for value in before:
            self._hand(places, position, params, value, node)
            position += 1
        for argument, value in given:
            if argument.star:
                self.escape(value, argument, "unpacked into the arguments of a function")
                for param in (*places, *params.kwonly_params):
                    self.grow(self.params, param, _OTHER)
                continue
            if argument.keyword is None:
                self._hand(places, position, params, value, argument)
                position += 1
            elif argument.keyword.value in named:
                self.grow(self.params, named[argument.keyword.value], value)
            elif isinstance(params.star_kwarg, cst.Param):
                self.put(Site(params.star_kwarg), argument.keyword.value, value)
            else:
                self.escape(value, argument, "passed to a function that does not take it")
        if local.node in self.scopes.generators:
            return self.make(local.node, [(None, self.yielded.get(local.node, NOTHING))])
        return self.returned.get(local.node, NOTHING)

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

    # The standard library

    def _call_library(self, name: str, node: cst.Call, given: Given) -> Value:
        handle = self._LIBRARY.get(name)
        if handle is not None:
            if any(argument.star for argument, _ in given) and handle not in (Calls._gather, Calls._zip, Calls._chain):
                return self.unknown(given, node)
            return handle(self, node, given)
        first = given[0][1] if given else NOTHING
        if name in _SAME and given and not given[0][0].star:
            return first
        if name in _LISTS:
            return self.listed(first, node) if given and not given[0][0].star else self.make(node)
        if name in _LOOKS:
            self.keep(NOTHING.union(*(value for _, value in given)))
            return _SCALAR
        if name in _INSTANCES:
            self.unknown(given, node)
            return frozenset((Instance(name),))
        if name == "asyncio.to_thread":
            return self._forward(node, given, 0)
        if name in _READERS or name in _NAMESPACES:
            return self._reflect(name, node, given)
        why = "printed" if name == "builtins.print" else "passed to a function that is not followed"
        return self.unknown(given, node, why)

    def _forward(self, node: cst.Call, given: Given, at: int) -> Value:
        """A call such as `asyncio.to_thread(f, 1, b=2)`: argument number `at` is called with those after it."""
        if len(given) <= at or any(argument.star or argument.keyword for argument, _ in given[: at + 1]):
            return self.unknown(given, node)
        found = NOTHING
        for atom in given[at][1]:
            match atom:
                case Tool():
                    found |= self._call_tool(Use("function", atom.plan, at + 1), node, given)
                case Partial():
                    found |= self._call_partial(atom, "function", node, given, at + 1)
                case _:
                    found |= self.apply(frozenset((atom,)), node, given[at + 1 :])
        return found

    def _map(self, node: cst.Call, given: Given, at: int = 0) -> Value:
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

    def _sorted(self, node: cst.Call, given: Given) -> Value:
        if not given:
            return NOTHING
        self._key(node, given, self.items(given[0][1], given[0][0]))
        return self.listed(given[0][1], node)

    def _nlargest(self, node: cst.Call, given: Given) -> Value:
        return self._sorted(node, given[1:])

    def _choose(self, node: cst.Call, given: Given) -> Value:
        """`max`, `min`."""
        default = _find(given, None, "default")
        found = default[1] if default is not None else NOTHING
        values = [value for argument, value in given if argument.keyword is None]
        if len(values) == 1:
            found |= self.items(values[0], given[0][0])
        else:
            found = found.union(*values)
        self._key(node, given, found)
        return found

    def _key(self, node: cst.Call, given: Given, items: Value) -> None:
        key = _find(given, None, "key")
        if key is not None:
            self.on_items(key[1], [items], node)
        else:
            self.keep(items)

    def _filter(self, node: cst.Call, given: Given) -> Value:
        if len(given) < 2:
            return self.unknown(given, node)
        self.on_items(given[0][1], [self.items(given[1][1], given[1][0])], node)
        return self.listed(given[1][1], node)

    def _next(self, node: cst.Call, given: Given) -> Value:
        if not given:
            return NOTHING
        found = self.items(given[0][1], given[0][0])
        return found | given[1][1] if len(given) > 1 else found

    def _sum(self, node: cst.Call, given: Given) -> Value:
        if not given:
            return NOTHING
        lists = self.items(given[0][1], given[0][0])
        parts = frozenset(atom for atom in lists if isinstance(atom, Answer | Site))
        start = given[1][1] if len(given) > 1 else NOTHING
        if not parts:
            return _OTHER
        return self.make(node, [(None, self.items(parts | start, node))])

    def _reduce(self, node: cst.Call, given: Given) -> Value:
        if len(given) < 2:
            return self.unknown(given, node)
        items = self.items(given[1][1], given[1][0])
        start = given[2][1] if len(given) > 2 else items
        site = Site(node)
        self.put(site, None, start)
        result = self.on_items(given[0][1], [self.everything(site), items], node)
        self.put(site, None, result)
        return self.everything(site)

    def _gather(self, node: cst.Call, given: Given) -> Value:
        plain = [(argument, value) for argument, value in given if argument.keyword is None]
        if any(argument.star for argument, _ in plain):
            every = NOTHING
            for argument, value in plain:
                every |= self.items(value, argument) if argument.star == "*" else value
            return self.make(node, [(None, every)])
        return self.make(node, [(number, value) for number, (_, value) in enumerate(plain)])

    def _wait(self, node: cst.Call, given: Given) -> Value:
        tasks = self.items(given[0][1], given[0][0]) if given else NOTHING
        done = self.make(node, [(None, tasks)], level=1)
        return self.make(node, [(0, done), (1, done)])

    def _as_completed(self, node: cst.Call, given: Given) -> Value:
        return self.make(node, [(None, self.items(given[0][1], given[0][0]))]) if given else NOTHING

    def _enumerate(self, node: cst.Call, given: Given) -> Value:
        items = self.items(given[0][1], given[0][0]) if given else NOTHING
        pair = self.make(node, [(0, _SCALAR), (1, items)], level=1)
        return self.make(node, [(None, pair)])

    def _zip(self, node: cst.Call, given: Given) -> Value:
        lists = [(argument, value) for argument, value in given if argument.keyword is None]
        if any(argument.star for argument, _ in lists):
            every = NOTHING.union(*(self.items(value, argument) for argument, value in lists))
            inner = self.items(frozenset(atom for atom in every if isinstance(atom, Answer | Site)), node)
            row = self.make(node, [(None, every | inner)], level=1)
        else:
            slots = [(number, self.items(value, argument)) for number, (argument, value) in enumerate(lists)]
            row = self.make(node, slots, level=1)
        return self.make(node, [(None, row)])

    def _chain(self, node: cst.Call, given: Given) -> Value:
        every = NOTHING
        for argument, value in given:
            items = self.items(value, argument)
            every |= self.items(items, argument) if argument.star else items
        return self.make(node, [(None, every)])

    def _chain_from(self, node: cst.Call, given: Given) -> Value:
        items = self.items(given[0][1], given[0][0]) if given else NOTHING
        return self.make(node, [(None, self.items(items, node))])

    def _groupby(self, node: cst.Call, given: Given) -> Value:
        items = self.items(given[0][1], given[0][0]) if given else NOTHING
        key = _find(given, 1, "key")
        by = self.on_items(key[1], [items], node) if key is not None else items
        group = self.make(node, [(None, items)], level=2)
        pair = self.make(node, [(0, by), (1, group)], level=1)
        return self.make(node, [(None, pair)])

    def _dict(self, node: cst.Call, given: Given) -> Value:
        if len(given) == 1 and given[0][1] and all(isinstance(atom, Answer) for atom in given[0][1]):
            return given[0][1]  # a copy
        slots = []
        for argument, value in given:
            if argument.keyword is not None:
                slots.append((argument.keyword.value, value))
        made = self.make_mapping(node, slots, frozenset((PLAIN,)) if slots else NOTHING)
        for argument, value in given:
            if argument.keyword is None:
                self.spread(Site(node), value, argument)
        return made

    def spread(self, site: Site, value: Value, node: cst.CSTNode) -> None:
        """Unpack a value into a mapping."""
        self.spreads[site] = self.spreads.get(site, NOTHING) | value
        for atom in value:
            match atom:
                case Site() if atom in self.keys:
                    for slot, inside in self.contents.get(atom, {}).items():
                        self.put(site, slot, inside)
                    self.grow(self.keys, site, self.keys[atom])
                case Site():
                    pairs = self.items(frozenset((atom,)), node)
                    rows = frozenset(pair for pair in pairs if isinstance(pair, Site | Answer))
                    self.put(site, None, self.items(rows, node) | _OTHER)
                case _ if atom != NONE:
                    self.escape(frozenset((atom,)), node, "unpacked into another mapping")
                    self.put(site, None, _OTHER)

    def _defaultdict(self, node: cst.Call, given: Given) -> Value:
        inside = NOTHING
        for atom in given[0][1] if given else NOTHING:
            match atom:
                case Library(name="builtins.list" | "builtins.dict" | "builtins.set" | "collections.deque"):
                    inside |= self.make(node, level=1)
                    if atom.name == "builtins.dict":
                        self.grow(self.keys, Site(node, 1), NOTHING)
                case Local():
                    inside |= self._call_local(atom, node, [])
                case _:
                    inside |= _OTHER
        made = self.make_mapping(node, [(None, inside)])
        for argument, value in given[1:]:
            self.spread(Site(node), value, argument)
        return made

    def _partial(self, node: cst.Call, given: Given) -> Value:
        if not given or given[0][0].star or given[0][0].keyword:
            return self.unknown(given, node)
        self.grow(self.partials, node, given[0][1])
        self._keep_given(given[1:])
        for atom in given[0][1]:
            if isinstance(atom, Tool):
                self._call_tool(Use("partial", atom.plan, 1), node, given)
            else:
                self.calls.setdefault(node, set()).add(None)
                if not isinstance(atom, Local):
                    self.unknown(given[1:], node)
        return frozenset((Partial(node),))

    def _itemgetter(self, node: cst.Call, given: Given) -> Value:
        self._keep_given(given)
        return frozenset((Getter(node),))

    def _keep_given(self, given: Given) -> None:
        for argument, value in given:
            self.grow(self.kept, argument, value)

    def _getattr(self, node: cst.Call, given: Given) -> Value:
        found = NOTHING
        packages = frozenset(atom for atom in given[0][1] if isinstance(atom, Package | Tool)) if given else NOTHING
        for package in packages:
            for atom in given[1][1] if len(given) > 1 else NOTHING:
                if isinstance(atom, Text) and isinstance(package, Package):
                    found |= self.member(package, atom.text, atom.node, node)
                elif atom == PLAIN:
                    found |= _OTHER
                else:
                    self.refuse(node, "a tool is looked up by a name that is only known at run time")
        if len(given) > 2:
            found |= given[2][1]
        rest = given[0][1] - packages if given else NOTHING
        if rest:
            for _, value in given:
                self.escape(value - packages, node, "passed to a function that is not followed")
            found |= _OTHER
        return found

    def _hasattr(self, node: cst.Call, given: Given) -> Value:
        for _, value in given:
            self.escape(frozenset(atom for atom in value if isinstance(atom, Package)), node, "looked into")
            self.keep(value)
        return _SCALAR

    def member(self, package: Package, name: str, name_node: cst.CSTNode, node: cst.CSTNode) -> Value:
        """What `package.name` is; `name_node` is the name or the text that says so."""
        raise NotImplementedError

    def _import_module(self, node: cst.Call, given: Given) -> Value:
        found = NOTHING
        for atom in given[0][1] if given else NOTHING:
            if isinstance(atom, Text):
                found |= self.imported(atom.text, atom.node, node)
            else:
                if self._may_import(given[0][0].value):
                    self.refuse(node, "a module is imported by a name that is only known at run time")
                found |= _OTHER
        return found

    def _may_import(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.FormattedString) or not node.parts:
            return True
        first = node.parts[0]
        if not isinstance(first, cst.FormattedStringText):
            return True
        return first.value.startswith("servers") or "servers".startswith(first.value)

    def imported(self, dotted: str, text_node: cst.CSTNode, node: cst.CSTNode) -> Value:
        """What importing a module by its dotted name gives."""
        raise NotImplementedError

    def _reflect(self, name: str, node: cst.Call, given: Given) -> Value:
        """`eval`, `globals` and their kin reach every name."""
        shown = name.removeprefix("builtins.")
        texts = [atom.text if isinstance(atom, Text) else None for atom in given[0][1]] if given else []
        literal = bool(texts) and None not in texts
        if name in _READERS:
            if not literal or any(self._mentions(text) for text in texts):
                self.refuse(node, f"`{shown}` runs a text that is not followed and may use this tool")
        elif name == "builtins.__import__":
            if not literal or any(text and text.partition(".")[0] == "servers" for text in texts):
                self.refuse(node, "a module is imported by `__import__`, which is not followed")
        elif name != "builtins.vars" or not given:
            self.reach(node, f"`{shown}` can reach the tool's name, and what it is used for is not followed")
        return self.unknown(given, node)

    def _mentions(self, text: str | None) -> bool:
        words = [word for plan in self.plans for word in (plan.before.function, plan.before.full_name, "call_tool")]
        return text is None or any(word in text for word in words)

    def listed(self, value: Value, node: cst.Call) -> Value:
        """The items of a value in a list of their own. What is a list already stands for its copy too."""
        lists = frozenset(
            atom
            for atom in value
            if (isinstance(atom, Site) and atom not in self.keys)
            or (isinstance(atom, Answer) and not self.shape(atom).keys)
        )
        rest = value - lists
        return lists | self.make(node, [(None, self.items(rest, node))]) if rest - _NONE else lists

    def _cast(self, node: cst.Call, given: Given) -> Value:
        return given[1][1] if len(given) > 1 else NOTHING

    def _items_of(self, node: cst.Call, given: Given) -> Value:
        return self.items(given[0][1], given[0][0]) if given else NOTHING

    _LIBRARY: ClassVar[dict[str, Callable[["Calls", cst.Call, Given], Value]]] = {}

    # Methods

    def _method(self, receiver: Answer | Site | Instance, name: str, node: cst.Call, given: Given) -> Value:
        self.step()
        if isinstance(receiver, Instance):
            return self._instance_method(receiver, name, node, given)
        if name in ("result", "copy", "__aiter__", "__iter__", "__enter__", "__aenter__"):
            return frozenset((receiver,))
        if any(argument.star for argument, _ in given):
            return self._lost(receiver, name, node, given)
        if isinstance(receiver, Answer):
            return self._answer_method(receiver, name, node, given)
        return self._site_method(receiver, name, node, given)

    def _lost(self, receiver: Answer | Site, name: str, node: cst.Call, given: Given) -> Value:
        self.escape(frozenset((receiver,)), node, f"changed or passed on by `.{name}()`")
        return self.unknown(given, node)

    def _instance_method(self, receiver: Instance, name: str, node: cst.Call, given: Given) -> Value:
        match name:
            case "submit" if receiver.name in _POOLS:
                return self._forward(node, given, 0)
            case "map" | "imap" if receiver.name in _POOLS:
                return self._map(node, given)
            case "run_in_executor" if receiver.name in _LOOPS:
                return self._forward(node, given, 1)
            case "create_task" | "run_until_complete":
                return given[0][1] if given else NOTHING
            case "__enter__" | "__aenter__":
                return frozenset((receiver,))
        return self.unknown(given, node)

    def _answer_method(self, receiver: Answer, name: str, node: cst.Call, given: Given) -> Value:
        shape, value = self.shape(receiver), frozenset((receiver,))
        match name:
            case "get" | "pop" | "setdefault" if given and shape.keys:
                return self.part(value, given[0][1], node) | (given[1][1] if len(given) > 1 else _NONE)
            case "pop" | "popleft" if shape.is_list:
                return self.items(value, node)
            case "values" if shape.keys:
                inside = frozenset(self.answer(receiver.plan, (*receiver.path, key)) for key in shape.keys)
                return self.make(node, [(None, inside | _OTHER)])
            case "items" if shape.keys:
                if shape.has_names:
                    self.refuse(node, f"{self.named(receiver)} is walked through by the names of its fields")
                inside = frozenset(self.answer(receiver.plan, (*receiver.path, key)) for key in shape.keys)
                pair = self.make(node, [(0, _OTHER), (1, inside | _OTHER)], level=1)
                return self.make(node, [(None, pair)])
            case "keys":
                self.items(value, node)
                return _OTHER
            case "sort" if shape.is_list:
                self._key(node, given, self.items(value, node))
                return _NONE
            case "reverse" | "clear" | "done" | "cancel" | "cancelled":
                return _NONE
            case "append" | "insert" | "extend" if shape.is_list:
                added = given[-1][1] if given else NOTHING
                added = self.items(added, node) if name == "extend" else added
                if not added <= self.items(value, node):
                    self.escape(value, node, f"mixed with other things by `.{name}()`")
                    self.escape(added, node, f"mixed with other things by `.{name}()`")
                return _NONE
        return self._lost(receiver, name, node, given)

    def _site_method(self, receiver: Site, name: str, node: cst.Call, given: Given) -> Value:
        mapping = receiver in self.keys
        values = [value for _, value in given]
        match name:
            case "append" | "appendleft" | "add" | "put" | "put_nowait" if given:
                self.put(receiver, None, values[0])
                return _NONE
            case "insert" if len(given) == 2:
                self.put(receiver, None, values[1])
                return _NONE
            case "extend" | "extendleft" if given:
                self.put(receiver, None, self.items(values[0], node))
                return _NONE
            case "update" if mapping:
                for argument, value in given:
                    if argument.keyword is not None:
                        name = argument.keyword.value
                        self.put(receiver, name, value)
                        touch = Touch(frozenset((Text(argument.keyword, name),)), argument.value, argument)
                        self.touches.setdefault(receiver, []).append(touch)
                    else:
                        self.spread(receiver, value, argument)
                return _NONE
            case "update" | "union" if given:
                self.put(receiver, None, NOTHING.union(*(self.items(value, node) for value in values)))
                return frozenset((receiver,))
            case "get" | "setdefault" | "pop" if given and mapping:
                if name == "setdefault" and len(given) > 1:
                    self.store(receiver, values[0], values[1], given[1][0].value, node)
                found = self.part(frozenset((receiver,)), values[0], node)
                return found | (values[1] if len(given) > 1 else _NONE)
            case "pop" | "popleft" | "popitem" | "get" | "get_nowait":
                return self.everything(receiver)
            case "values":
                return self.make(node, [(None, self.everything(receiver))])
            case "keys":
                return self.make(node, [(None, self.items(frozenset((receiver,)), node))])
            case "items":
                keys = self.items(frozenset((receiver,)), node)
                pair = self.make(node, [(0, keys), (1, self.everything(receiver))], level=1)
                return self.make(node, [(None, pair)])
            case "sort":
                self._key(node, given, self.everything(receiver))
                return _NONE
            case "reverse" | "clear" | "remove" | "discard" | "index" | "count" | "most_common" | "task_done":
                self.keep(NOTHING.union(*values))
                return _OTHER
        return self._lost(receiver, name, node, given)

    def store(self, site: Site, key: Value, value: Value, written: cst.BaseExpression, node: cst.CSTNode) -> None:
        """`site[key] = value`."""
        self.part(frozenset((site,)), key, node, written=written)
        for atom in key:
            self.put(site, atom.text if isinstance(atom, Text) else None, value)
        if site in self.keys:
            self.grow(self.keys, site, key)


Calls._LIBRARY.update(
    {
        "asyncio.as_completed": Calls._as_completed,
        "asyncio.gather": Calls._gather,
        "asyncio.wait": Calls._wait,
        "builtins.dict": Calls._dict,
        "builtins.enumerate": Calls._enumerate,
        "builtins.filter": Calls._filter,
        "builtins.getattr": Calls._getattr,
        "builtins.hasattr": Calls._hasattr,
        "builtins.map": Calls._map,
        "builtins.max": Calls._choose,
        "builtins.min": Calls._choose,
        "builtins.next": Calls._next,
        "builtins.anext": Calls._next,
        "builtins.sorted": Calls._sorted,
        "builtins.sum": Calls._sum,
        "builtins.zip": Calls._zip,
        "collections.OrderedDict": Calls._dict,
        "collections.defaultdict": Calls._defaultdict,
        "concurrent.futures.as_completed": Calls._as_completed,
        "concurrent.futures.wait": Calls._wait,
        "functools.partial": Calls._partial,
        "functools.reduce": Calls._reduce,
        "heapq.nlargest": Calls._nlargest,
        "heapq.nsmallest": Calls._nlargest,
        "importlib.import_module": Calls._import_module,
        "itertools.chain": Calls._chain,
        "itertools.chain.from_iterable": Calls._chain_from,
        "itertools.dropwhile": Calls._filter,
        "itertools.filterfalse": Calls._filter,
        "itertools.groupby": Calls._groupby,
        "itertools.takewhile": Calls._filter,
        "itertools.zip_longest": Calls._zip,
        "operator.itemgetter": Calls._itemgetter,
        "random.choice": Calls._items_of,
        "typing.cast": Calls._cast,
    }
)


def _find(given: Given, position: int | None, name: str) -> tuple[cst.Arg, Value] | None:
    """An argument by its position or its keyword."""
    plain = [each for each in given if each[0].keyword is None]
    for each in given:
        if each[0].keyword is not None and each[0].keyword.value == name:
            return each
    return plain[position] if position is not None and position < len(plain) else None


def _is_special(argument: cst.Arg) -> bool:
    return argument.keyword is not None or bool(argument.star)
