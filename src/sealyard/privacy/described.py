"""What a guard is made of, in the form in which a helper process is sent it: its rules, and what it has seen."""

import msgspec

from sealyard.privacy.detect.scanner import Scanner, ScanRules
from sealyard.privacy.guard import Handling, Mode, Privacy
from sealyard.privacy.seen import Seen

__all__ = ("Described", "Seen", "describe")


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a `Privacy`."""

    scan: ScanRules
    mode: Mode
    rules: tuple[tuple[tuple[str, ...], Handling], ...]

    def build(self) -> Privacy:
        """The same rules again."""
        return Privacy(Scanner(self.scan), mode=self.mode, rules=self.rules)


def describe(privacy: Privacy) -> Described | None:
    """The rules as they can be sent.

    None if there are detectors beside our own: a model of language takes longer to load than most texts to read.
    """
    if privacy.scanner.has_detectors:
        return None
    rules = tuple((tuple(patterns), handling) for patterns, handling in privacy.rules)
    return Described(scan=privacy.scanner.rules, mode=privacy.mode, rules=rules)
