"""All tools at one moment, and the ways to find one of them by name."""

import difflib
import hashlib
import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from types import MappingProxyType

import msgspec

from sealyard.catalog.shapes.places import LearnedShape
from sealyard.values.changes import major_of
from sealyard.values.tools import ToolSpec

_NEAREST_CHARACTERS = 100  # of each name: the comparison takes time in the square of them
_NEAREST_GRAMS = 24  # threes of letters looked for in every tool's name: a bound on the work
_NEAREST_COMPARED = 40  # tools, those that share most of them: the same
_NEAREST_RATIO = 0.55  # less alike than this, two names share letters by chance; chosen, not measured
_SEPARATORS = re.compile(r"[\W_]+")


class Snapshot:
    """The tools of every upstream. It never changes, so callers may keep it."""

    def __init__(
        self, by_upstream: Mapping[str, Iterable[ToolSpec]], shapes: Mapping[str, LearnedShape] = MappingProxyType({})
    ) -> None:
        self.by_upstream: Mapping[str, tuple[ToolSpec, ...]] = MappingProxyType(
            {upstream: tuple(by_upstream[upstream]) for upstream in sorted(by_upstream)}
        )
        """The upstreams in the order of their names, their tools in the order they list them."""
        self.tools: Mapping[str, ToolSpec] = MappingProxyType(
            {spec.full_name: spec for spec in chain.from_iterable(self.by_upstream.values())}
        )
        """By full name."""
        self.shapes: Mapping[str, LearnedShape] = MappingProxyType(
            {
                name: shape
                for name, shape in shapes.items()
                if name in self.tools and major_of(self.tools[name].version) == shape.major
            }
        )
        """The learned shapes of its tools' answers, at their present versions."""

    @cached_property
    def version(self) -> str:
        """A digest of every tool's names and definition: equal versions give equal derived data.

        The semantic versions of tools are not in it: they come from history, and nothing is derived from them.
        """
        lines = sorted(f"{spec.full_name} {spec.module}.{spec.function} {spec.digest}" for spec in self.tools.values())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @cached_property
    def stubs_version(self) -> str:
        """A digest that also covers the learned shapes shown in stubs; equal to `version` without any."""
        if not self.shapes:
            return self.version
        learned = msgspec.json.encode({name: shape.schema for name, shape in self.shapes.items()}, order="sorted")
        return hashlib.sha256(self.version.encode() + learned).hexdigest()

    def find(self, name: str) -> ToolSpec | None:
        """The tool with this name: its full name, or `server.tool`, `server/tool`, `servers.module.function`.

        The upstream's own name works if no other tool has it. An ambiguous name finds no tool.
        """
        return self.tools.get(name) or self._aliases.get(name)

    def nearest(self, name: str, n: int = 3) -> list[str]:
        """The full names of the tools with names similar to `name`, best first."""
        wanted = _squeezed(name[:_NEAREST_CHARACTERS])
        grams = _grams(wanted)
        similarity = difflib.SequenceMatcher(b=wanted)

        def shared(tool: tuple[ToolSpec, str]) -> int:
            return sum(gram in tool[1] for gram in grams)

        scored = []
        for spec, text in heapq.nlargest(
            _NEAREST_COMPARED, zip(self.tools.values(), self._texts, strict=True), key=shared
        ):
            ratio = 0.0
            for spelling in (_squeezed(spec.name), text):
                similarity.set_seq1(spelling[:_NEAREST_CHARACTERS])
                ratio = max(ratio, similarity.ratio())
            if ratio >= _NEAREST_RATIO:
                scored.append((-ratio, spec.full_name))
        return [full_name for _, full_name in sorted(scored)[:n]]

    def servers_of(self, function: str) -> list[str]:
        """The modules of `servers` with a function of this name."""
        return [module for module, functions in self.modules.items() if function in functions]

    @cached_property
    def modules(self) -> Mapping[str, frozenset[str]]:
        """The functions in each module of `servers`."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for spec in self.tools.values():
            found[spec.module].add(spec.function)
        return {module: frozenset(functions) for module, functions in found.items()}

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The names that `nearest` compares, in the order of `tools`."""
        return tuple(_squeezed(spec.upstream + spec.name) for spec in self.tools.values())

    @cached_property
    def _aliases(self) -> dict[str, ToolSpec | None]:
        """The other spellings. Those with a server come first, so that no tool can take one by its own name."""
        own = _unambiguous((alias, spec) for spec in self.tools.values() for alias in {spec.name, spec.function})
        return own | _unambiguous((alias, spec) for spec in self.tools.values() for alias in _qualified(spec))


def _qualified(spec: ToolSpec) -> set[str]:
    spellings = ((spec.upstream, spec.name), (spec.upstream, spec.function), (spec.module, spec.function))
    names = {f"{server}{separator}{tool}" for server, tool in spellings for separator in "./"}
    return names | {f"servers.{spec.module}.{spec.function}"}


def _unambiguous(pairs: Iterator[tuple[str, ToolSpec]]) -> dict[str, ToolSpec | None]:
    found: dict[str, ToolSpec | None] = {}
    for alias, spec in pairs:
        found[alias] = None if alias in found else spec
    return found


def _squeezed(name: str) -> str:
    return _SEPARATORS.sub("", name.removeprefix("mcp__").removeprefix("servers.")).lower()


def _grams(text: str) -> list[str]:
    """Three letters in a row, from all parts of `text`."""
    grams = list(dict.fromkeys(text[start : start + 3] for start in range(len(text) - 2))) or [text]
    return grams[:: len(grams) // _NEAREST_GRAMS + 1]
