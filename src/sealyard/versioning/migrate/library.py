"""What everybody calls in the standard library, as far as it hands on what is followed."""

from collections.abc import Callable
from typing import ClassVar

import libcst as cst

from sealyard.versioning.migrate.calls import LOOKS, Given, find_given
from sealyard.versioning.migrate.facts import REFLECTING, UNKNOWN
from sealyard.versioning.migrate.methods import POOLS, Methods
from sealyard.versioning.migrate.values import (
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
    Site,
    Text,
    Tool,
    Value,
)

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
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
_INSTANCES = POOLS | {"asyncio.TaskGroup", "asyncio.get_event_loop", "asyncio.get_running_loop", "asyncio.Semaphore"}
_READERS = frozenset("builtins.eval builtins.exec builtins.compile".split())


class LibraryCalls(Methods):
    """Facts, and what a call of a library adds to them."""

    def call_library(self, name: str, node: cst.Call, given: Given) -> Value:
        """What a function of a library gives."""
        handle = self._LIBRARY.get(name)
        if handle is not None:
            if any(argument.star for argument, _ in given) and handle not in self._STARRED:
                return self.unknown(given, node)
            return handle(self, node, given)
        first = given[0][1] if given else NOTHING
        if name in _SAME and given and not given[0][0].star:
            return first
        if name in _LISTS:
            return self.listed(first, node) if given and not given[0][0].star else self.make(node)
        if name in LOOKS:
            self.keep(NOTHING.union(*(value for _, value in given)))
            return _SCALAR
        if name in _INSTANCES:
            self.unknown(given, node)
            return frozenset((Instance(name),))
        if name == "asyncio.to_thread":
            return self.forward(node, given, 0)
        if name in REFLECTING:
            return self._reflect(name, node, given)
        why = "printed" if name == "builtins.print" else UNKNOWN
        return self.unknown(given, node, why)

    def _sorted(self, node: cst.Call, given: Given) -> Value:
        if not given:
            return NOTHING
        self.sort_by(node, given, self.items(given[0][1], given[0][0]))
        return self.listed(given[0][1], node)

    def _nlargest(self, node: cst.Call, given: Given) -> Value:
        return self._sorted(node, given[1:])

    def _choose(self, node: cst.Call, given: Given) -> Value:
        """`max`, `min`."""
        default = find_given(given, None, "default")
        found = default[1] if default is not None else NOTHING
        values = [value for argument, value in given if argument.keyword is None]
        if len(values) == 1:
            found |= self.items(values[0], given[0][0])
        else:
            found = found.union(*values)
        self.sort_by(node, given, found)
        return found

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
        key = find_given(given, 1, "key")
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
                made |= self.spread(Site(node), value, argument)
        return made

    def _defaultdict(self, node: cst.Call, given: Given) -> Value:
        inside = NOTHING
        for atom in given[0][1] if given else NOTHING:
            match atom:
                case Library(name="builtins.list" | "builtins.dict" | "builtins.set" | "collections.deque"):
                    inside |= self.make(node, level=1)
                    if atom.name == "builtins.dict":
                        self.grow(self.keys, Site(node, 1), NOTHING)
                case Local():
                    inside |= self.call_local(atom, node, [])
                case _:
                    inside |= _OTHER
        made = self.make_mapping(node, [(None, inside)], _OTHER)
        for argument, value in given[1:]:
            self.spread(Site(node), value, argument, new=False)
        return made

    def _itemgetter(self, node: cst.Call, given: Given) -> Value:
        self.keep_given(given)
        return frozenset((Getter(node),))

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
                self.escape(value - packages, node, UNKNOWN)
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

    def _cast(self, node: cst.Call, given: Given) -> Value:
        return given[1][1] if len(given) > 1 else NOTHING

    def _items_of(self, node: cst.Call, given: Given) -> Value:
        return self.items(given[0][1], given[0][0]) if given else NOTHING

    _LIBRARY: ClassVar[dict[str, Callable[["LibraryCalls", cst.Call, Given], Value]]] = {
        "asyncio.as_completed": _as_completed,
        "asyncio.gather": _gather,
        "asyncio.wait": _wait,
        "builtins.dict": _dict,
        "builtins.enumerate": _enumerate,
        "builtins.filter": _filter,
        "builtins.getattr": _getattr,
        "builtins.hasattr": _hasattr,
        "builtins.map": Methods.map_over,
        "builtins.max": _choose,
        "builtins.min": _choose,
        "builtins.next": _next,
        "builtins.anext": _next,
        "builtins.sorted": _sorted,
        "builtins.sum": _sum,
        "builtins.zip": _zip,
        "collections.OrderedDict": _dict,
        "collections.defaultdict": _defaultdict,
        "concurrent.futures.as_completed": _as_completed,
        "concurrent.futures.wait": _wait,
        "functools.partial": Methods.make_partial,
        "functools.reduce": _reduce,
        "heapq.nlargest": _nlargest,
        "heapq.nsmallest": _nlargest,
        "importlib.import_module": _import_module,
        "itertools.chain": _chain,
        "itertools.chain.from_iterable": _chain_from,
        "itertools.dropwhile": _filter,
        "itertools.filterfalse": _filter,
        "itertools.groupby": _groupby,
        "itertools.takewhile": _filter,
        "itertools.zip_longest": _zip,
        "operator.itemgetter": _itemgetter,
        "random.choice": _items_of,
        "typing.cast": _cast,
    }
    _STARRED: ClassVar[tuple[Callable[..., Value], ...]] = (_gather, _zip, _chain, Methods.make_partial)
    """These know what to do with `*`."""
