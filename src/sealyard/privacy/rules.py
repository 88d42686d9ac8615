"""The gateway's rules of privacy: the mode of each tool, and the places where its arguments may hold real values."""

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any, Literal

import msgspec

from sealyard.privacy.detect.encodings import EncodedValues
from sealyard.privacy.detect.scanner import Scanner, ScanRules
from sealyard.privacy.plain import PlainValues, describes_private
from sealyard.values.tools import ToolSpec, tool_names

Mode = Literal["strict", "output", "off"]
Reveal = Literal["whole", "inside", "never"]


class Handling(msgspec.Struct, frozen=True, kw_only=True):
    """The treatment of one tool's answers and arguments."""

    mode: Mode
    whole: tuple[str, ...] = ()
    """Fields that are concealed whole."""
    visible: tuple[str, ...] = ()
    """Fields that are left as they are."""
    reveal: Reveal | None = None
    """The places in its arguments where a token becomes the value; None: as `Privacy.reveal` says."""


class Privacy:
    """The gateway's detectors and rules; a `Guard` applies them to one session."""

    def __init__(
        self, scanner: Scanner, *, mode: Mode = "strict", rules: Iterable[tuple[Collection[str], Handling]] = ()
    ) -> None:
        self.scanner = scanner
        self.mode: Mode = mode
        self.rules = tuple(rules)
        self._named = [
            (tool_names(tuple(patterns), f"privacy.rules[{number}].tools"), handling)
            for number, (patterns, handling) in enumerate(self.rules)
        ]
        self._default = Handling(mode=mode)
        self._handling: dict[tuple[str, str, str], Handling] = {}
        self._schemas: dict[str, tuple[Any, bool]] = {}
        """The schema of each tool's answers by its full name, and whether it says that something is private."""
        self.is_relaxed = mode != "strict" or any(handling.mode != "strict" for _, handling in self.rules)
        """True if some tool's answers reach the code as they are."""
        self.is_off = mode == "off" and all(handling.mode == "off" for _, handling in self.rules)
        """True if no tool's answers are concealed."""
        is_strict = mode == "strict" or any(handling.mode == "strict" for _, handling in self.rules)
        self._reveal: Reveal = "whole" if is_strict else "inside"
        """Where code holds no real value, it must not choose the text beside one."""
        detectors = [
            EncodedValues(scanner.find_each),
            *([EncodedValues(scanner.find_each, is_thorough=True)] if self.is_relaxed else []),
        ]
        # A pattern may match any number or word, and so may a detector beside our own.
        is_open = bool(scanner.rules.patterns) or scanner.has_detectors
        self.plain = None if is_open else PlainValues(scanner.with_detectors(detectors))
        """Values that stay as they are on both ways, as long as nothing was seen before."""

    def handling(self, spec: ToolSpec) -> Handling:
        """The handling of a tool: that of the first rule that names it."""
        if not self._named:
            return self._default
        tool = (spec.full_name, spec.upstream, spec.name)
        found = self._handling.get(tool)
        if found is None:
            fits = (each for is_named, each in self._named if is_named(spec))
            found = self._handling[tool] = next(fits, self._default)
        return found

    def describes(self, spec: ToolSpec) -> bool:
        """True if the schema of a tool's answers may make a field private whose name does not."""
        schema = spec.output_schema
        if schema is None:
            return False
        known = self._schemas.get(spec.full_name)
        if known is None or known[0] is not schema:
            known = self._schemas[spec.full_name] = (schema, describes_private(schema))
        return known[1]

    def reveal(self, spec: ToolSpec) -> Reveal:
        """The places in a tool's arguments where a token becomes the value."""
        return self.handling(spec).reveal or self._reveal

    @cached_property
    def described(self) -> "Described | None":
        """The rules as a helper process is sent them.

        None if there are detectors beside our own: a model of language takes longer to load than most texts to read.
        """
        if self.scanner.has_detectors:
            return None
        rules = tuple((tuple(patterns), handling) for patterns, handling in self.rules)
        return Described(scan=self.scanner.rules, mode=self.mode, rules=rules)


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a `Privacy`, as data."""

    scan: ScanRules
    mode: Mode
    rules: tuple[tuple[tuple[str, ...], Handling], ...]

    def build(self) -> Privacy:
        """The same rules again."""
        return Privacy(Scanner(self.scan), mode=self.mode, rules=self.rules)
