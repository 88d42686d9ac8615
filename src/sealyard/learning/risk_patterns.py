"""How code of one form ended, and what code like it did: found by the tools it names, within a bound."""

from collections.abc import Mapping

import msgspec

from sealyard.learning.code import CodePrint, similarity
from sealyard.learning.evidence import Evidence, trim

__all__ = ("Like", "Pattern", "Patterns")

_PATTERNS = 2_048
_INDEXED = 8
"""Under so many of its tools a form is found."""
_CANDIDATES = 8
_MAJORS = 40
_LIKE = 0.5
"""Code that has less in common says nothing about the other."""


class Pattern(msgspec.Struct, array_like=True, gc=False):
    """Code of one form."""

    form: CodePrint
    """Its digest and sample alone."""
    places: list[str]
    """Under which it is found."""
    majors: dict[str, str]
    """Major versions of the tools it called, by full name."""
    record: Evidence = msgspec.field(default_factory=Evidence)


class Like(msgspec.Struct, frozen=True):
    """A form that is known, and how like the asked one it is: above 0, at most 1."""

    pattern: Pattern
    weight: float


class Patterns(msgspec.Struct, array_like=True):
    """The forms that ran last, two thousand of them."""

    by_digest: dict[str, Pattern] = {}
    by_place: dict[str, list[str]] = {}

    def add(
        self,
        print_: CodePrint,
        majors: Mapping[str, str],
        principal: str,
        at: float,
        half_life: float,
        *,
        failed: bool,
    ) -> None:
        """Count a run. A new major version of a tool that it called makes the form a new one."""
        pattern = self._take(print_.digest)
        if pattern is None or _is_other(pattern.majors, majors):
            pattern = Pattern(
                form=CodePrint(digest=print_.digest, exact="", sample=print_.sample), places=[], majors={}
            )
        pattern.places = _places(print_)  # a tool that is called by its name is a value, and not part of the form
        for place in pattern.places:
            found = self.by_place.setdefault(place, [])
            found.append(print_.digest)
            del found[:-_CANDIDATES]
        pattern.majors.update(majors)
        trim(pattern.majors, _MAJORS)  # code that calls tools by names that it is given can call them all
        pattern.record.add_run(principal, at, half_life, failed=failed)
        self.by_digest[print_.digest] = pattern
        if len(self.by_digest) > _PATTERNS:
            self._take(next(iter(self.by_digest)))

    def find(self, print_: CodePrint, majors: Mapping[str, str]) -> tuple[Pattern | None, list[Like]]:
        """The form itself and the nearest of those that are like it, as far as they ran with these tools."""
        same = self.by_digest.get(print_.digest)
        if same is not None and _is_other(same.majors, majors):
            same = None
        mine = set(print_.sample)
        digests = [digest for place in _places(print_) for digest in reversed(self.by_place.get(place, ()))]
        likes = []
        for digest in [each for each in dict.fromkeys(digests) if each != print_.digest][:_CANDIDATES]:
            pattern = self.by_digest[digest]
            theirs = pattern.form.sample
            # The most that the two can have in common is soon told, and most pairs have little.
            if len(mine.intersection(theirs)) > _LIKE * max(len(mine), len(theirs)) and not _is_other(
                pattern.majors, majors
            ):
                weight = (similarity(print_, pattern.form) - _LIKE) / (1 - _LIKE)
                likes += [Like(pattern, weight)] if weight > 0 else []
        return same, likes

    def _take(self, digest: str) -> Pattern | None:
        """Take a form out, with the places where it is found."""
        pattern = self.by_digest.pop(digest, None)
        for place in () if pattern is None else pattern.places:
            found = [each for each in self.by_place.pop(place, ()) if each != digest]
            if found:
                self.by_place[place] = found
        return pattern


def _places(print_: CodePrint) -> list[str]:
    if print_.tools:
        return list(print_.tools[:_INDEXED])
    return [f"import {','.join(print_.imports)}"]


def _is_other(then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a tool is there in another major version than it was."""
    return any(then.get(name, major) != major for name, major in now.items())
