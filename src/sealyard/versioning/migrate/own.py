"""Mappings that code writes out itself and uses in the place of an answer: `{"items": []}` after an error.

Where one literal reads a renamed field of an answer and the same key of such a mapping, the key is renamed too: in the
literal that makes the mapping and wherever else it is read or written. That needs that nobody else sees the mapping.
"""

from collections.abc import Callable

import libcst as cst

from sealyard.versioning.migrate.flow import Flow
from sealyard.versioning.migrate.values import Site, Text


class OwnKeys:
    """The keys of own mappings that have to follow a renamed field."""

    def __init__(self, flow: Flow, refuse: Callable[[cst.CSTNode, str], None]) -> None:
        self._flow = flow
        self._refuse = refuse
        self._found: dict[cst.CSTNode, str] = {}
        self._seen: set[tuple[Site, str]] = set()
        self._unpacked = {atom for value in flow.spreads.values() for atom in value}

    def renamed(self) -> dict[cst.CSTNode, str]:
        """Literal -> its new text. What cannot be renamed is refused."""
        for node, sites in self._flow.own.items():
            wanted = [text for text in self._flow.texts.get(node, {}) if text is not None]
            for site in sites if wanted else ():
                for old in self._texts(site, node):
                    self._follow(site, old, wanted[0])
        return self._found

    def _texts(self, site: Site, node: cst.CSTNode) -> set[str]:
        keys = [atom for touch in self._flow.touches.get(site, ()) for atom in touch.key]
        return {atom.text for atom in keys if isinstance(atom, Text) and atom.node is node}

    def _follow(self, site: Site, old: str, new: str) -> None:
        """Rename one key of a mapping, and of those that are read by the same literals."""
        queue = [(site, old)]
        while queue:
            site, old = queue.pop()
            if (site, old) in self._seen:
                continue
            self._seen.add((site, old))
            flow, node = self._flow, site.node
            slots = flow.contents.get(site, {})
            hidden = flow.consumers.get(site) or flow.spreads.get(site) or site in self._unpacked
            if hidden or not isinstance(node, cst.Dict) or new in slots or slots.get(None):
                self._refuse(node, f"this is used in the place of an answer, and its key `{old}` cannot become `{new}`")
                return
            literals: list[cst.CSTNode] = [
                element.key
                for element in node.elements
                if isinstance(element, cst.DictElement) and _is_text(element.key, old)
            ]
            for touch in flow.touches.get(site, ()):
                if not all(isinstance(atom, Text) for atom in touch.key):
                    self._refuse(touch.node, f"a key that may be `{old}` is only known at run time")
                literals += [atom.node for atom in touch.key if isinstance(atom, Text) and atom.text == old]
                if any(isinstance(atom, Text) and atom.text == new for atom in touch.key):
                    self._refuse(touch.node, f"`{new}` is read here, which was not there before")
            for literal in literals:
                if flow.texts.get(literal, {}).keys() - {new} or self._found.get(literal, new) != new:
                    self._refuse(literal, f"`{old}` stands for something else too here")
                self._found[literal] = new
                queue += [(other, old) for other in flow.own.get(literal, ())]


def _is_text(node: cst.BaseExpression, text: str) -> bool:
    return isinstance(node, cst.SimpleString | cst.ConcatenatedString) and node.evaluated_value == text
