"""The changes of a tool as values, one `Change` per field, and the versions that they make."""

import re
from collections.abc import Iterable
from typing import Literal, Self

import msgspec

from sealyard.errors import InvalidRequest

Severity = Literal["none", "patch", "minor", "major"]
"""The part of the version that a change raises. `major`: code that was right may fail now."""

Side = Literal["tool", "input", "output"]

ChangeKind = Literal[
    "tool_added",
    "tool_removed",
    "tool_renamed",
    "parameter_added",
    "parameter_removed",
    "parameter_renamed",
    "parameter_retyped",
    "parameter_required",
    "parameter_optional",
    "parameter_widened",
    "parameter_narrowed",
    "parameter_moved",
    "parameter_swapped",
    "default_changed",
    "output_added",
    "output_removed",
    "output_renamed",
    "output_retyped",
    "output_required",
    "output_optional",
    "output_widened",
    "output_narrowed",
    "output_swapped",
    "output_declared",
    "output_undeclared",
    "output_unknown",
    "text",
    "annotations",
]
"""`parameter_moved`: the function takes it at another position. `parameter_swapped` and `output_swapped`: of the same
name and type, and described as something else. `output_required`: from now on it is in every answer.
`output_declared` and `output_undeclared`: the whole output schema came or went. `output_unknown`: two output schemas
differ in a way that cannot be judged."""

_ORDER: tuple[Severity, ...] = ("none", "patch", "minor", "major")


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """The successor of something that is gone."""

    name: str
    """Of the field beside the old one, or the full name of the tool."""
    is_proven: bool = False
    """False: it is only likely, and a person has to confirm it."""
    why: str


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One difference between two definitions of a tool."""

    kind: ChangeKind
    side: Side
    field: str = ""
    """Such as `filter.tags[].name`, by the old names; `[]` is an item and `{}` a value of any other key. Empty: the
    tool itself, or its answer as a whole."""
    before: str = ""
    """The type, name or value it had, in words."""
    after: str = ""
    severity: Severity
    reason: str
    """One sentence."""
    replacement: Replacement | None = None


class BreakingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that code has to follow, and a line of code that does."""

    field: str
    """As in `Change`, with `output.` in front for a part of the answer."""
    old_type: str
    new_type: str
    reason: str
    migration_code: str
    """One line of Python, or a comment where no code follows from the change: `since=start`."""


class Deprecation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that works and is announced to go."""

    field: str
    """As in `BreakingChange`; empty for the tool itself."""
    replacement: str | None = None
    removed_in: str | None = None
    """The version named by the announcement."""
    guidance: str = ""
    """The sentence that announces it."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All differences between two definitions of a tool."""

    bump: Severity
    """The highest severity of all changes."""
    changes: tuple[Change, ...] = ()
    breaking: tuple[BreakingChange, ...] = ()
    deprecations: tuple[Deprecation, ...] = ()


def highest(severities: Iterable[Severity]) -> Severity:
    """The one that raises the version most; `none` if there is none."""
    return max(severities, key=_ORDER.index, default="none")


Fit = Literal["fits", "newer_minor", "older", "other_major"]
"""`fits`: nothing to say. `newer_minor`: usable, with a warning. `older`: it may lack what the code needs.
`other_major`: the code needs migration."""

_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.(0|[1-9][0-9]{0,8}))?(?:\.(0|[1-9][0-9]{0,8}))?")


class Version(msgspec.Struct, frozen=True, order=True):
    """A version of three numbers."""

    major: int
    minor: int = 0
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The version that `text` writes; `1` and `1.2` mean `1.0.0` and `1.2.0`.

        Raises:
            InvalidRequest: `text` is not a version.
        """
        return cls(*_numbers(text))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def fit(self, need: str) -> Fit:
        """The fit of this version for code written for `need`: `1.2` and `1.2.3` take any `1.2.x`.

        Raises:
            InvalidRequest: `need` is not a version.
        """
        needed = _numbers(need)[:2]
        if needed[0] != self.major:
            return "other_major"
        if len(needed) == 1 or needed[1] == self.minor:
            return "fits"
        return "newer_minor" if self.minor > needed[1] else "older"

    def bumped(self, severity: Severity) -> "Version":
        """The version after a change of this severity; the same one after `none`."""
        match severity:
            case "major":
                return Version(self.major + 1)
            case "minor":
                return Version(self.major, self.minor + 1)
            case "patch":
                return Version(self.major, self.minor, self.patch + 1)
            case "none":
                return self


def matches(pin: str, version: str) -> bool:
    """True if `version` is one that `pin` names: `1` any `1.x.y`, `1.2` any `1.2.x`, `1.2.3` only itself.

    Raises:
        InvalidRequest: One of them is not a version.
    """
    pinned, there = _numbers(pin), Version.parse(version)
    return (there.major, there.minor, there.patch)[: len(pinned)] == pinned


def major_of(version: str) -> int:
    """The major version; 0 if `version` is none, such as that of a call which never reached a tool."""
    return _numbers(version)[0] if _VERSION.fullmatch(version) else 0


def _numbers(text: str) -> tuple[int, ...]:
    """The one to three numbers that `text` writes."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"{text[:80]!r} is not a version. Write it as `1`, `1.2` or `1.2.3`.")
    return tuple(int(part) for part in found.groups() if part is not None)
