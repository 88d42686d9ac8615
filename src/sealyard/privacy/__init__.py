"""Private values: found in the answers of tools, replaced by tokens, and turned back into values for tools only.

A `Guard` is the border of one session. Three packages below it have doors of their own: `vault` keeps the values that
tokens stand for, `detect` finds private values, `reading` locates values in data and text.

Everything but the form of a token is imported on first use. Importing any module of this package runs this file, and
the store and the catalog, which need only sealed rows and the form of a token, would otherwise wait about 80 ms while
the detectors compile their patterns.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door
from sealyard.privacy.span import TOKEN, TYPES

if TYPE_CHECKING:
    from sealyard.privacy.echo import Sent
    from sealyard.privacy.guard import Guard
    from sealyard.privacy.helper_guard import Mirror
    from sealyard.privacy.rules import Handling, Privacy, Reveal

__all__ = ("TOKEN", "TYPES", "Guard", "Handling", "Mirror", "Privacy", "Reveal", "Sent")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__, echo="Sent", guard="Guard", helper_guard="Mirror", rules="Handling Privacy Reveal"
    )
