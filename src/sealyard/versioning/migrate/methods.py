"""What methods do: of answers, of own containers, and of executors and event loops."""

import libcst as cst

from sealyard.versioning.migrate.calls import Calls, Given
from sealyard.versioning.migrate.values import (
    NONE,
    NOTHING,
    OTHER,
    Answer,
    Instance,
    Site,
    Value,
)

_OTHER: Value = frozenset((OTHER,))
_NONE: Value = frozenset((NONE,))
POOLS = frozenset(
    """concurrent.futures.ThreadPoolExecutor concurrent.futures.thread.ThreadPoolExecutor
    concurrent.futures.ProcessPoolExecutor multiprocessing.pool.ThreadPool multiprocessing.dummy.Pool""".split()
)
"""Classes whose instances call what they are given."""
_LOOPS = ("asyncio.get_event_loop", "asyncio.get_running_loop")


class Methods(Calls):
    """Facts, and what a call of a method adds to them."""

    def call_method(self, receiver: Answer | Site | Instance, name: str, node: cst.Call, given: Given) -> Value:
        """What a method gives."""
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
            case "submit" if receiver.name in POOLS:
                return self.forward(node, given, 0)
            case "map" | "imap" if receiver.name in POOLS:
                return self.map_over(node, given)
            case "run_in_executor" if receiver.name in _LOOPS:
                return self.forward(node, given, 1, "positional")
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
                return self.make(node, [(None, self.children(receiver))])
            case "items" if shape.keys:
                self.items(value, node)
                pair = self.make(node, [(0, _OTHER), (1, self.children(receiver))], level=1)
                return self.make(node, [(None, pair)])
            case "keys":
                self.items(value, node)
                return _OTHER
            case "sort" if shape.is_list:
                self.sort_by(node, given, self.items(value, node))
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
                        self.put(receiver, argument.keyword.value, value)
                        self.touch_by_keyword(receiver, argument, node)
                    else:
                        self.spread(receiver, value, argument, new=False)
                return _NONE
            case "update" | "union" if given:
                self.put(receiver, None, NOTHING.union(*(self.items(value, node) for value in values)))
                return frozenset((receiver,))
            case "get" | "setdefault" | "pop" if given and mapping:
                if name == "setdefault" and len(given) > 1:
                    self.store(receiver, values[0], values[1], given[1][0].value, node)
                if name == "pop":
                    self.take_out(frozenset((receiver,)), values[0])
                found = self.part(frozenset((receiver,)), values[0], node)
                return found | (values[1] if len(given) > 1 else _NONE)
            case "pop" | "popleft" | "popitem" | "get" | "get_nowait":
                self.take_out(frozenset((receiver,)), None)
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
                self.sort_by(node, given, self.everything(receiver))
                return _NONE
            case "reverse" | "clear" | "remove" | "discard" | "index" | "count" | "most_common" | "task_done":
                for value in values:
                    self.compare(value, self.everything(receiver), node)
                self.take_out(frozenset((receiver,)), None)
                return _OTHER
        return self._lost(receiver, name, node, given)
