"""What own containers are made of, and what is put into them and unpacked."""

import libcst as cst

from sealyard.versioning.migrate.facts import Facts, Touch
from sealyard.versioning.migrate.values import (
    NONE,
    NOTHING,
    OTHER,
    Answer,
    Atom,
    Site,
    Text,
    Value,
)

_OTHER: Value = frozenset((OTHER,))
_NONE: Value = frozenset((NONE,))


class Containers(Facts):
    """Facts, and what containers add to them."""

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

    def spread(self, site: Site, value: Value, node: cst.CSTNode, *, new: bool = True) -> Value:
        """Unpack a value into a mapping; answers in it are part of what a `new` mapping stands for."""
        answers = frozenset(atom for atom in value if isinstance(atom, Answer)) if new else NOTHING
        value -= answers
        self.spreads[site] = self.spreads.get(site, NOTHING) | value
        for atom in value:
            match atom:
                case Site() if atom in self.keys:
                    for slot, inside in self.contents.get(atom, {}).items():
                        self.put(site, slot, inside)
                    self.grow(self.keys, site, self.keys[atom])
                case Site():
                    for pair in self.items(frozenset((atom,)), node):
                        self._spread_pair(site, pair, node)
                case _ if atom != NONE:
                    self.escape(frozenset((atom,)), node, "unpacked into another mapping")
                    self.put(site, None, _OTHER)
        return answers

    def _spread_pair(self, site: Site, pair: Atom, node: cst.CSTNode) -> None:
        """Put a key and its value into a mapping."""
        slots = self.contents.get(pair, {}) if isinstance(pair, Site) and pair not in self.keys else {}
        if slots.keys() == {0, 1}:
            self.grow(self.keys, site, slots[0])
            self.put(site, None, slots[1])
            return
        self.escape(frozenset((pair,)), node, "unpacked into another mapping")
        self.grow(self.keys, site, _OTHER)
        self.put(site, None, _OTHER)

    def touch_by_keyword(self, site: Site, argument: cst.Arg, node: cst.CSTNode) -> None:
        """A keyword of a call writes a key of a mapping."""
        assert argument.keyword is not None
        key = frozenset((Text(argument.keyword, argument.keyword.value),))
        call = node if isinstance(node, cst.Call) else None
        self.touches.setdefault(site, []).append(Touch(key, argument.value, argument, call))

    def store(self, site: Site, key: Value, value: Value, written: cst.BaseExpression, node: cst.CSTNode) -> None:
        """`site[key] = value`."""
        self.part(frozenset((site,)), key, node, written=written)
        for atom in key:
            self.put(site, atom.text if isinstance(atom, Text) else None, value)
        if site in self.keys:
            self.grow(self.keys, site, key)
