"""The effect of calls on values: tools, functions of the code itself, methods, and the standard library.

Functions and arguments are values here; the interpreter evaluates the expressions.
"""

import ast
from collections.abc import Callable, Sequence

from sealyard.versioning.migrate.abstract import (
    JUST_NONE,
    JUST_OTHER,
    JUST_SCALAR,
    NONE,
    NOTHING,
    PLAIN,
    Answer,
    Argument,
    Given,
    Library,
    Local,
    Plain,
    Site,
    Text,
    Tool,
    Value,
)
from sealyard.versioning.migrate.facts import REFLECTING, UNKNOWN, State, Style

_CALLERS = ("builtins.call_tool", "servers.call_tool", "tool_discovery.call_tool")
_LOOKING = frozenset(
    """builtins.len builtins.bool builtins.isinstance builtins.id builtins.type builtins.any builtins.all
    builtins.callable builtins.hash builtins.range""".split()
)
"""Functions that only look at their arguments."""
_SAME = frozenset(
    """asyncio.create_task asyncio.ensure_future asyncio.run asyncio.shield asyncio.wait_for copy.copy
    copy.deepcopy""".split()
)
"""Functions that return their first argument, as far as it matters here."""
_LISTING = frozenset(
    """builtins.iter builtins.aiter builtins.list builtins.reversed builtins.tuple builtins.set builtins.frozenset
    itertools.islice itertools.cycle collections.deque random.sample""".split()
)
"""Functions that return the items of their first argument."""
_READERS = frozenset("builtins.eval builtins.exec builtins.compile".split())
_IMPORTERS = ("builtins.__import__", "importlib.import_module")


class Calls:
    """Applies functions to arguments, and writes what follows into the state."""

    def __init__(self, state: State) -> None:
        self.state = state

    def apply(self, function: Value, node: ast.Call, given: Given) -> Value:
        """The result of calling `function` with the arguments of `node`."""
        found = NOTHING
        for atom in function:
            match atom:
                case Tool():
                    found |= self._call_tool("names", node, given)
                    continue
                case Library(name=name) if name in _CALLERS:
                    found |= self._call_by_name(node, given)
                    continue
                case Plain(sort="none"):
                    continue
                case Library():
                    found |= self._call_library(atom.name, node, given)
                case Local():
                    found |= self.call_local(atom, node, given)
                case _:
                    found |= self.unknown(given)
            self.state.call_otherwise(node)
        return found

    def unknown(self, given: Given, why: str = UNKNOWN) -> Value:
        """The result of calling something unknown."""
        for argument, value in given:
            self.state.escape(value, argument.node, why)
        return JUST_OTHER

    def on_items(self, function: Value, items: Sequence[Value], node: ast.AST) -> Value:
        """The result of calling `function` on these positional values, as `sorted` does with its `key`."""
        found = NOTHING
        for atom in function:
            match atom:
                case Local():
                    found |= self.call_local(atom, node, [], items)
                case Library(name=name) if name in _LOOKING:
                    found |= JUST_SCALAR
                case Plain(sort="none"):
                    found |= NOTHING.union(*items)
                case _:
                    self.state.escape(frozenset((atom,)), node, UNKNOWN)
                    for value in items:
                        self.state.escape(value, node, UNKNOWN)
                    found |= JUST_OTHER
        return found

    # Tools

    def _call_tool(self, style: Style, node: ast.Call, given: Given) -> Value:
        """Call the tool: mappings of arguments are followed, everything else that it is given leaves."""
        state = self.state
        state.touched = True
        state.calls.setdefault(node, set()).add(style)
        for argument, value in given:
            state.given[argument.node] = value
            mapping = argument.star == "**" or style == "keys"
            for atom in value:
                if isinstance(atom, Site) and mapping and atom in state.keys:
                    state.consumers.setdefault(atom, set()).add(style)
                    state.escape(state.everything(atom), argument.node, "passed to a tool")
                elif not (mapping and atom == NONE):
                    state.escape(frozenset((atom,)), argument.node, "passed to a tool")
        if state.answer_shape.blocked:
            state.refuse(node, f"the answer of `{state.function}` changed: {state.answer_shape.blocked}")
        return frozenset((state.answer(()),))

    def _call_by_name(self, node: ast.Call, given: Given) -> Value:
        """`call_tool(name, arguments)`."""
        state = self.state
        names = _find_given(given, 0, "name")
        if names is None or any(argument.star for argument, _ in given):
            reason = "`call_tool` gets its arguments by `*` or `**`, so that nobody knows which tool it calls"
            state.refuse(node, reason)
            return self.unknown(given)
        argument, value = names
        rest = [each for each in given if each[0] is not argument]
        found = NOTHING
        for atom in value:
            if isinstance(atom, Text) and atom.text == state.plan.before.full_name:
                state.want(atom.node, state.renamed.full_name if state.renamed else None)
                found |= self._call_tool("keys", node, rest)
                continue
            if isinstance(atom, Text) or atom in (PLAIN, NONE):
                state.keep(frozenset((atom,)))
            else:
                state.refuse(node, "`call_tool` gets a name that is only known at run time and may be this tool's")
            state.call_otherwise(node)
            found |= self.unknown(rest, "passed to a tool")
        return found

    # Functions of the code itself

    def call_local(self, local: Local, node: ast.AST, given: Given, before: Sequence[Value] = ()) -> Value:
        """Hand arguments to a function of the code; the values `before` come first."""
        state, params = self.state, local.node.args
        named = {param.arg: param for param in (*params.args, *params.kwonlyargs)}
        position = 0
        for value in before:
            self._hand(params, position, value, node)
            position += 1
        for argument, value in given:
            if argument.star:
                self._hand_unpacked(params, argument, value)
            elif argument.keyword is None:
                self._hand(params, position, value, argument.node)
                position += 1
            elif argument.keyword in named:
                state.grow(state.params, named[argument.keyword], value)
            elif params.kwarg is not None:
                state.put_by_keyword(Site(params.kwarg), argument, value, node)
            else:
                state.escape(value, argument.node, "passed to a function that does not take it")
        if local.node in state.names.generators:
            return state.make_list(local.node, state.yielded.get(local.node, NOTHING))
        return state.returned.get(local.node, NOTHING)

    def _hand(self, params: ast.arguments, position: int, value: Value, node: ast.AST) -> None:
        places = [*params.posonlyargs, *params.args]
        if position < len(places):
            self.state.grow(self.state.params, places[position], value)
        elif params.vararg is not None:
            self.state.put(Site(params.vararg), None, value)
        else:
            self.state.escape(value, node, "passed to a function that does not take it")

    def _hand_unpacked(self, params: ast.arguments, argument: Argument, value: Value) -> None:
        """`f(*x)` or `f(**x)`: what is in it may go to any parameter."""
        state = self.state
        state.escape(value, argument.node, "unpacked into the arguments of a function")
        for param in (*params.posonlyargs, *params.args, *params.kwonlyargs):
            state.grow(state.params, param, JUST_OTHER)
        for star in (params.vararg, params.kwarg):
            if star is not None:
                state.put(Site(star), None, JUST_OTHER)

    # Functions that call another one

    def map_over(self, node: ast.Call, given: Given) -> Value:
        """`map`: the first argument is called with the items of the others."""
        if not given or given[0][0].keyword:
            return self.unknown(given)
        state = self.state
        items = [state.items(value, argument.node) for argument, value in given[1:] if not argument.keyword]
        return state.make_list(node, self.on_items(given[0][1], items, node))

    def sort_by(self, node: ast.Call, given: Given, items: Value) -> None:
        """Call the `key` that `sorted` and the like are given."""
        key = _find_given(given, None, "key")
        if key is not None:
            self.on_items(key[1], [items], node)
        else:
            self.state.keep(items)

    # Methods

    def call_method(self, receiver: Answer | Site, name: str, node: ast.Call, given: Given) -> Value:
        """The result of a method."""
        self.state.step()
        if name in ("result", "copy", "__aiter__", "__iter__", "__enter__", "__aenter__"):
            return frozenset((receiver,))
        found = None
        if not any(argument.star for argument, _ in given):
            method = self._answer_method if isinstance(receiver, Answer) else self._site_method
            found = method(receiver, name, node, given)  # type: ignore[arg-type]
        if found is None:
            self.state.escape(frozenset((receiver,)), node, f"changed or passed on by `.{name}()`")
            return self.unknown(given)
        return found

    def _answer_method(self, receiver: Answer, name: str, node: ast.Call, given: Given) -> Value | None:
        state = self.state
        shape, value = state.shape(receiver), frozenset((receiver,))
        match name:
            case "get" | "pop" | "setdefault" if given and shape.keys:
                return state.part(value, given[0][1], node) | (given[1][1] if len(given) > 1 else JUST_NONE)
            case "pop" | "popleft" if shape.is_list:
                return state.items(value, node)
            case "values" if shape.keys:
                return state.make_list(node, state.children(receiver))
            case "items" if shape.keys:
                state.items(value, node)
                return self.make_pairs(node, JUST_OTHER, state.children(receiver))
            case "keys":
                state.items(value, node)
                return JUST_OTHER
            case "sort" if shape.is_list:
                self.sort_by(node, given, state.items(value, node))
                return JUST_NONE
            case "reverse" | "clear" | "done" | "cancel" | "cancelled":
                return JUST_NONE
            case "append" | "insert" | "extend" if shape.is_list:
                added = given[-1][1] if given else NOTHING
                added = state.items(added, node) if name == "extend" else added
                if not added <= state.items(value, node):
                    state.escape(value | added, node, f"mixed with other things by `.{name}()`")
                return JUST_NONE
        return None

    def _site_method(self, receiver: Site, name: str, node: ast.Call, given: Given) -> Value | None:
        state, own = self.state, frozenset((receiver,))
        mapping = receiver in state.keys
        values = [value for _, value in given]
        match name:
            case "append" | "appendleft" | "add" | "put" | "put_nowait" if given:
                state.put(receiver, None, values[0])
                return JUST_NONE
            case "insert" if len(given) == 2:
                state.put(receiver, None, values[1])
                return JUST_NONE
            case "extend" | "extendleft" if given:
                state.put(receiver, None, state.items(values[0], node))
                return JUST_NONE
            case "update" if mapping:
                for argument, value in given:
                    if argument.keyword is not None:
                        state.put_by_keyword(receiver, argument, value, node)
                    else:
                        state.spread(receiver, value, argument.node, new=False)
                return JUST_NONE
            case "update" | "union" if given:
                state.put(receiver, None, NOTHING.union(*(state.items(value, node) for value in values)))
                return own
            case "get" | "setdefault" | "pop" if given and mapping:
                if name == "setdefault" and len(given) > 1:
                    state.store(receiver, values[0], values[1], given[1][0].value, node)
                if name == "pop":
                    state.take_out(own, values[0])
                return state.part(own, values[0], node) | (values[1] if len(given) > 1 else JUST_NONE)
            case "pop" | "popleft" | "popitem" | "get" | "get_nowait":
                state.take_out(own, None)
                return state.everything(receiver)
            case "values":
                return state.make_list(node, state.everything(receiver))
            case "keys":
                return state.make_list(node, state.items(own, node))
            case "items":
                return self.make_pairs(node, state.items(own, node), state.everything(receiver))
            case "sort":
                self.sort_by(node, given, state.everything(receiver))
                return JUST_NONE
            case "reverse" | "clear" | "remove" | "discard" | "index" | "count" | "most_common" | "task_done":
                for value in values:
                    state.compare(value, state.everything(receiver), node)
                state.take_out(own, None)
                return JUST_OTHER
        return None

    def make_pairs(self, node: ast.Call, first: Value, second: Value) -> Value:
        """A list of pairs."""
        pair = self.state.make(node, [(0, first), (1, second)], level=1)
        return self.state.make_list(node, pair)

    # The standard library

    def _call_library(self, name: str, node: ast.Call, given: Given) -> Value:
        handle = _LIBRARY.get(name)
        if handle is not None:
            if any(argument.star for argument, _ in given) and handle not in _STARRED:
                return self.unknown(given)
            return handle(self, node, given)
        first = given[0][1] if given else NOTHING
        if name in _SAME and given and not given[0][0].star:
            return first
        if name in _LISTING:
            return self.state.listed(first, node) if given and not given[0][0].star else self.state.make(node)
        if name in _LOOKING:
            self.state.keep(NOTHING.union(*(value for _, value in given)))
            return JUST_SCALAR
        if name in REFLECTING:
            return self._reflect(name, node, given)
        return self.unknown(given, "printed" if name == "builtins.print" else UNKNOWN)

    def _reflect(self, name: str, node: ast.Call, given: Given) -> Value:
        """`eval`, `globals` and the like reach every name."""
        shown = name.removeprefix("builtins.")
        texts = [atom.text if isinstance(atom, Text) else None for atom in given[0][1]] if given else []
        elsewhere = bool(texts) and all(text and text.partition(".")[0] != "servers" for text in texts)
        if name in _READERS:
            self.state.refuse(node, f"`{shown}` runs a text that cannot be analysed and may use this tool")
        elif name in _IMPORTERS and not elsewhere:
            self.state.refuse(node, f"a module is imported by `{shown}`, which cannot be analysed")
        elif name != "builtins.vars" or not given:
            self.state.reach(node, f"`{shown}` can reach the tool's name, and its use cannot be analysed")
        return self.unknown(given)


def _find_given(given: Given, position: int | None, name: str) -> tuple[Argument, Value] | None:
    """An argument by its position or its keyword."""
    for each in given:
        if each[0].keyword == name:
            return each
    plain = [each for each in given if each[0].keyword is None]
    return plain[position] if position is not None and position < len(plain) else None


# Functions of the standard library, as far as they hand on what is followed


def _first_items(calls: Calls, given: Given) -> Value:
    return calls.state.items(given[0][1], given[0][0].node) if given else NOTHING


def _sorted(calls: Calls, node: ast.Call, given: Given) -> Value:
    if not given:
        return NOTHING
    calls.sort_by(node, given, _first_items(calls, given))
    return calls.state.listed(given[0][1], node)


def _choose(calls: Calls, node: ast.Call, given: Given) -> Value:
    """`max` and `min`."""
    default = _find_given(given, None, "default")
    found = default[1] if default is not None else NOTHING
    values = [value for argument, value in given if argument.keyword is None]
    found = found | _first_items(calls, given) if len(values) == 1 else found.union(*values)
    calls.sort_by(node, given, found)
    return found


def _filter(calls: Calls, node: ast.Call, given: Given) -> Value:
    if len(given) < 2:
        return calls.unknown(given)
    calls.on_items(given[0][1], [calls.state.items(given[1][1], given[1][0].node)], node)
    return calls.state.listed(given[1][1], node)


def _next(calls: Calls, node: ast.Call, given: Given) -> Value:
    found = _first_items(calls, given)
    return found | given[1][1] if len(given) > 1 else found


def _sum(calls: Calls, node: ast.Call, given: Given) -> Value:
    if not given:
        return NOTHING
    parts = frozenset(atom for atom in _first_items(calls, given) if isinstance(atom, Answer | Site))
    start = given[1][1] if len(given) > 1 else NOTHING
    return calls.state.make_list(node, calls.state.items(parts | start, node)) if parts else JUST_OTHER


def _gather(calls: Calls, node: ast.Call, given: Given) -> Value:
    plain = [(argument, value) for argument, value in given if argument.keyword is None]
    if any(argument.star for argument, _ in plain):
        every = NOTHING
        for argument, value in plain:
            every |= calls.state.items(value, argument.node) if argument.star == "*" else value
        return calls.state.make_list(node, every)
    return calls.state.make(node, [(number, value) for number, (_, value) in enumerate(plain)])


def _enumerate(calls: Calls, node: ast.Call, given: Given) -> Value:
    return calls.make_pairs(node, JUST_SCALAR, _first_items(calls, given))


def _zip(calls: Calls, node: ast.Call, given: Given) -> Value:
    state = calls.state
    lists = [(argument, value) for argument, value in given if argument.keyword is None]
    items = [state.items(value, argument.node) for argument, value in lists]
    if any(argument.star for argument, _ in lists):
        every = NOTHING.union(*items)
        inner = state.items(frozenset(atom for atom in every if isinstance(atom, Answer | Site)), node)
        row = state.make(node, [(None, every | inner)], level=1)
    else:
        row = state.make(node, list(enumerate(items)), level=1)
    return state.make_list(node, row)


def _dict(calls: Calls, node: ast.Call, given: Given) -> Value:
    if len(given) == 1 and given[0][1] and all(isinstance(atom, Answer) for atom in given[0][1]):
        return given[0][1]  # a copy
    slots = [(argument.keyword, value) for argument, value in given if argument.keyword is not None]
    made = calls.state.make_mapping(node, slots, frozenset((PLAIN,)) if slots else NOTHING)
    for argument, value in given:
        if argument.keyword is None:
            made |= calls.state.spread(Site(node), value, argument.node)
    return made


def _defaultdict(calls: Calls, node: ast.Call, given: Given) -> Value:
    state, inside = calls.state, NOTHING
    for atom in given[0][1] if given else NOTHING:
        match atom:
            case Library(name="builtins.list" | "builtins.dict" | "builtins.set" | "collections.deque"):
                inside |= state.make(node, level=1)
                if atom.name == "builtins.dict":
                    state.grow(state.keys, Site(node, 1), NOTHING)
            case Local():
                inside |= calls.call_local(atom, node, [])
            case _:
                inside |= JUST_OTHER
    made = state.make_mapping(node, [(None, inside)], JUST_OTHER)
    for argument, value in given[1:]:
        state.spread(Site(node), value, argument.node, new=False)
    return made


_LIBRARY: dict[str, Callable[[Calls, ast.Call, Given], Value]] = {
    "asyncio.gather": _gather,
    "builtins.anext": _next,
    "builtins.dict": _dict,
    "builtins.enumerate": _enumerate,
    "builtins.filter": _filter,
    "builtins.map": Calls.map_over,
    "builtins.max": _choose,
    "builtins.min": _choose,
    "builtins.next": _next,
    "builtins.sorted": _sorted,
    "builtins.sum": _sum,
    "builtins.zip": _zip,
    "collections.defaultdict": _defaultdict,
    "itertools.zip_longest": _zip,
    "random.choice": lambda calls, _node, given: _first_items(calls, given),
}
_STARRED = (_gather, _zip)
"""These understand `*`."""
