"""Rewrites mappings of arguments: `{"user_id": 1}` that is unpacked into a call or handed to `call_tool`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import libcst as cst

from sealyard.versioning.migrate.conversion import Conversion, literal_text
from sealyard.versioning.migrate.facts import Touch
from sealyard.versioning.migrate.flow import Flow
from sealyard.versioning.migrate.scopes import parts_of, spelled
from sealyard.versioning.migrate.signature import Rules, Signature
from sealyard.versioning.migrate.text import Sources
from sealyard.versioning.migrate.values import NONE, NOTHING, Site, Text

_BLOCKS = (
    *(cst.BaseCompoundStatement, cst.BaseSuite, cst.Else, cst.Finally, cst.MatchCase),
    *(cst.ExceptHandler, cst.ExceptStarHandler),
)


class Mappings(Conversion):
    """The mappings of arguments in one piece of code."""

    def __init__(self, flow: Flow, sources: Sources, refuse: Callable[[cst.CSTNode, str], None]) -> None:
        super().__init__(flow, sources, refuse)
        self._assignments: dict[cst.CSTNode, tuple[cst.Assign, cst.SimpleStatementLine, bool]] = {}
        """Target -> its assignment, the line that it has for itself, and whether nothing else is in its block."""
        self._consumers = _propagated(flow)
        self._done: set[cst.CSTNode] = set()

    def rewrite_mappings(self, module: cst.Module) -> None:
        """Rename, drop and convert in every mapping, wherever a key of it is written."""
        self._find_lines(module)
        for site, consumers in self._consumers.items():
            self._rewrite_mapping(site, consumers)

    # What a mapping holds

    def keys(self, atom: object) -> tuple[dict[str, bool], bool]:
        """The keys of a mapping, each with whether it is there for certain, and whether these are all."""
        if atom == NONE:
            return {}, True
        if not isinstance(atom, Site) or atom not in self.flow.keys:
            return {}, False
        node, slots = atom.node, self.flow.contents.get(atom, {})
        complete = isinstance(node, cst.Dict | cst.Call | cst.BinaryOperation | cst.Param) and not atom.level
        complete = complete and not slots.get(None)
        certain: set[str | None] = set(_written(node))
        spread = self.flow.spreads.get(atom, NOTHING)
        for base in spread - {atom}:
            keys, whole = self.keys(base)
            complete = complete and whole
            certain |= {key for key, sure in keys.items() if sure and len(spread) == 1}
        removed = self.flow.removed.get(atom, set())
        certain = set() if None in removed or isinstance(node, cst.Param) else certain - removed
        return {slot: slot in certain for slot in slots if isinstance(slot, str)}, complete

    # Adding

    def rewrite_named(self, node: cst.Call, signature: Signature) -> None:
        """Rewrite `call_tool(name, arguments)`, as far as something has to be added."""
        rules, sources = signature.by_key, self.sources
        sources.show(node, f"the parameters of `{self.flow.function(self.plan_of(node))}` changed")
        argument = _arguments_of(node)
        if argument is None or (isinstance(argument.value, cst.Name) and argument.value.value == "None"):
            self.demand(node, rules, ())
            self._add_mapping(node, argument, rules)
            return
        for atom in self.flow.given.get(argument, NOTHING):
            keys, complete = self.keys(atom)
            if atom == NONE:
                if rules.added or rules.omitted:
                    self.refuse(node, "the arguments may be `None`, and some are required now")
            elif not complete and (rules.touched or rules.added or rules.omitted):
                self.refuse(node, "the arguments that `call_tool` gets are not known")
            elif isinstance(atom, Site):
                self.demand(node, rules, [key for key, certain in keys.items() if certain])
                if "" in rules.blocked and not keys.keys() <= rules.names.keys():
                    self.refuse(node, rules.blocked[""])
                self.add_to_mapping(atom, {key: value for key, value in rules.added.items() if not keys.get(key)}, keys)

    def demand(self, node: cst.Call, rules: Rules, have: Collection[str]) -> None:
        """Refuse a call that does not give what has to be given now."""
        for name, reason in rules.omitted.items():
            if name not in have:
                self.refuse(node, reason)

    def _add_mapping(self, node: cst.Call, argument: cst.Arg | None, rules: Rules) -> None:
        """Give `call_tool` arguments where it got none."""
        if not rules.added:
            return
        end = self.sources.span(node)[1]
        text = self.sources.literal(dict(rules.added), end - 1)
        if text is None:
            self.refuse(node, "the arguments that are required now cannot be written here")
        elif argument is not None:
            self.sources.replace_node(argument.value, text)
        else:
            named = any(each.keyword is not None for each in node.args)
            self.sources.append(node.args, f"arguments={text}" if named else text, end)

    def add_to_mapping(self, site: Site, missing: Mapping[str, Any], keys: Mapping[str, bool]) -> None:
        """Add entries to the literal that a mapping starts as; what sets them later counts for more."""
        node = site.node
        if not missing or node in self._done:
            return
        self._done.add(node)
        if not isinstance(node, cst.Dict | cst.Call) or site.level:
            self.refuse(node, "a required argument has to be added to a mapping that is not written out")
            return
        if len(self._consumers.get(site, set())) != 1:
            self.refuse(node, "a required argument has to be added to a mapping that is used for something else too")
        if _written(node) & missing.keys() or (self.flow.spreads.get(site) and missing.keys() & keys.keys()):
            self.refuse(node, "nobody knows whether a mapping holds what is required now")
        end = self.sources.span(node)[1]
        texts = []
        for key, value in missing.items():
            name, text = self.sources.quoted(key, end - 1), self.sources.literal(value, end - 1)
            if text is None or name is None:
                self.refuse(node, f"`{key}` needs a value that cannot be written here")
            elif isinstance(node, cst.Call):
                self.check_name(node, key)
                texts.append(f"{key}={text}")
            else:
                texts.append(f"{name}: {text}")
        self.sources.append(node.elements if isinstance(node, cst.Dict) else node.args, ", ".join(texts), end)
        self.sources.show(node, "arguments are required now")

    # Changing

    def _rewrite_mapping(self, site: Site, consumers: set[tuple[str, int] | None]) -> None:
        tools = [each for each in consumers if each is not None]
        signatures = [(style, self.flow.signatures[plan]) for style, plan in tools]
        rules = [signature.by_key if style == "keys" else signature.by_name for style, signature in signatures]
        keys, _ = self.keys(site)
        hit = [key for rule in rules for key in keys if key in rule.touched]
        if not hit:
            return
        node = site.node
        if len(consumers) > 1 and (None in consumers or not all(rule.agrees(rules[0]) for rule in rules)):
            self.refuse(node, f"a mapping of arguments with `{hit[0]}` is used for something else too")
            return
        self.sources.show(node, f"the parameters of `{self.flow.function(tools[0][1])}` changed")
        if isinstance(node, cst.Dict):
            for number, element in enumerate(node.elements):
                if isinstance(element, cst.DictElement):
                    key = literal_text(element.key)
                    self._entry(node.elements, number, element.key, element.value, key, rules[0])
        elif isinstance(node, cst.Call) and not site.level:
            for number, each in enumerate(node.args):
                if each.keyword is not None:
                    self._entry(node.args, number, each.keyword, each.value, spelled(each.keyword), rules[0])
        elif not isinstance(node, cst.BinaryOperation | cst.Param):
            self.refuse(node, f"`{hit[0]}` is in a mapping that is not written out")
        for touch in self.flow.touches.get(site, ()):
            self._touch(touch, rules[0])

    def _entry(
        self,
        parts: Sequence[Any],
        number: int,
        key: cst.BaseExpression,
        value: cst.BaseExpression,
        name: str | None,
        rules: Rules,
    ) -> None:
        """One entry of a mapping where it is written out."""
        if name is None or name not in rules.touched or key in self._done:
            return
        self._done.add(key)
        after = rules.names.get(name, name)
        if name in rules.blocked:
            if not self.passes(value, name, rules):
                self.refuse(key, rules.blocked[name])
        elif after is None:
            self.drop(parts, number, value, name)
        else:
            if after != name:
                self.rename(key, after)
            if name in rules.retyped:
                self.retype(value, rules.retyped[name], name)

    def _touch(self, touch: Touch, rules: Rules) -> None:
        """A place outside of the literal that reads or writes a key."""
        place = _key_of(touch)
        name = spelled(place) if isinstance(place, cst.Name) else literal_text(place)
        if name is None or place is None:
            if any(isinstance(atom, Text) and atom.text in rules.touched for atom in touch.key):
                self.refuse(touch.node, "a key of the arguments is named in a way that is not followed")
        elif touch.call is not None and touch.value is not None:
            self.sources.show(touch.call, "a parameter changed")
            number = next(number for number, each in enumerate(touch.call.args) if each is touch.node)
            self._entry(touch.call.args, number, place, touch.value, name, rules)
        elif name in rules.touched and place not in self._done:
            self._done.add(place)
            self._change(touch, place, name, rules)

    def _change(self, touch: Touch, place: cst.BaseExpression, name: str, rules: Rules) -> None:
        node, after = touch.node, rules.names.get(name, name)
        statement, line, alone = self._assignments.get(node, (None, None, False))
        self.sources.show(statement or node, "a parameter changed")
        written = touch.value if touch.value is not node else None
        if name in rules.blocked:
            if written is None or not self.passes(written, name, rules):
                self.refuse(node, rules.blocked[name])
        elif after is None:
            if statement is None or line is None or not self.is_idle(statement.value):
                self.refuse(node, f"the parameter `{name}` is gone, and this use of it cannot be taken out")
            else:
                self.sources.remove_statement(line, alone=alone)
        else:
            if after != name:
                self.rename(place, after)
            if name in rules.retyped and written is not None:
                self.retype(written, rules.retyped[name], name)
            elif name in rules.retyped:
                self.refuse(node, f"`{name}` has another type now, and this use of it is not followed")

    def plan_of(self, node: cst.Call) -> int:
        """The number of the plan whose tool a call calls."""
        return next(use.plan for use in self.flow.calls[node] if use is not None)

    def _find_lines(self, node: cst.CSTNode) -> None:
        for child in parts_of(node):
            if isinstance(child, cst.SimpleStatementLine) and len(child.body) == 1:
                statement = child.body[0]
                if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
                    alone = isinstance(node, cst.IndentedBlock) and len(node.body) == 1
                    self._assignments[statement.targets[0].target] = statement, child, alone
            elif isinstance(child, _BLOCKS):
                self._find_lines(child)


def _propagated(flow: Flow) -> dict[Site, set[tuple[str, int] | None]]:
    """Whose arguments each mapping is, with those that are unpacked into another."""
    consumers = {site: set(found) for site, found in flow.consumers.items()}
    queue = list(consumers)
    while queue:
        site = queue.pop()
        for base in flow.spreads.get(site, NOTHING):
            if isinstance(base, Site) and not consumers[site] <= consumers.get(base, set()):
                consumers.setdefault(base, set()).update(consumers[site])
                queue.append(base)
    return consumers


def _written(node: cst.CSTNode) -> set[str]:
    """The keys that a literal of a mapping writes out."""
    if isinstance(node, cst.Dict):
        texts = (literal_text(each.key) for each in node.elements if isinstance(each, cst.DictElement))
        return {text for text in texts if text is not None}
    arguments = node.args if isinstance(node, cst.Call) else ()
    return {spelled(each.keyword) for each in arguments if each.keyword is not None}


def _arguments_of(node: cst.Call) -> cst.Arg | None:
    """The second argument of `call_tool`."""
    named = {each.keyword.value: each for each in node.args if each.keyword is not None}
    plain = [each for each in node.args if each.keyword is None]
    if "arguments" in named:
        return named["arguments"]
    return next(iter(plain[0 if "name" in named else 1 :]), None)


def _key_of(touch: Touch) -> cst.BaseExpression | None:
    """The literal or keyword that names the key, if it stands right there."""
    node = touch.node
    place: cst.BaseExpression | None = None
    if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
        place = node.slice[0].slice.value
    elif isinstance(node, cst.Call) and node.args:
        place = node.args[0].value
    elif isinstance(node, cst.Comparison):
        place = node.left
    elif isinstance(node, cst.Arg):
        place = node.keyword
    return place if any(isinstance(atom, Text) and atom.node is place for atom in touch.key) else None
