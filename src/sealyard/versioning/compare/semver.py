"""Versions of tools and skills: `major.minor.patch`, and which of them satisfy what code was written for."""

import re
from typing import Literal, Self

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.versioning.compare.changes import Severity

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
            InvalidRequest: `text` is no version.
        """
        return cls(*_numbers(text))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

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


def fit(need: str, current: str) -> Fit:
    """Whether code written for version `need` can use version `current`: `1.2` and `1.2.3` take any `1.2.x`.

    Raises:
        InvalidRequest: One of them is no version.
    """
    needed, there = _numbers(need)[:2], Version.parse(current)
    if needed[0] != there.major:
        return "other_major"
    if len(needed) == 1 or needed[1] == there.minor:
        return "fits"
    return "newer_minor" if there.minor > needed[1] else "older"


def matches(pin: str, version: str) -> bool:
    """Whether `version` is one that `pin` names: `1` any `1.x.y`, `1.2` any `1.2.x`, `1.2.3` only itself.

    Raises:
        InvalidRequest: One of them is no version.
    """
    pinned, there = _numbers(pin), Version.parse(version)
    return (there.major, there.minor, there.patch)[: len(pinned)] == pinned


def _numbers(text: str) -> tuple[int, ...]:
    """The one to three numbers that `text` writes."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"{text[:80]!r} is not a version. Write it as `1`, `1.2` or `1.2.3`.")
    return tuple(int(part) for part in found.groups() if part is not None)
