"""Private values: found in what tools answer, replaced by tokens, and turned back into values for tools only.

A `Guard` is the border of one session. Three packages below it have doors of their own: `vault` keeps which value a
token stands for, `detect` finds private values, `reading` says where values stand in data and text.

All but the form of a token is imported when it is first used. To import any module of this package runs this file, and
the store and the catalog, which need sealed rows and the form of a token, must not wait for the patterns of detectors
to be compiled: that takes about 80 ms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sealyard.privacy.span import TOKEN, TYPES

if TYPE_CHECKING:
    from sealyard.privacy.echo import Sent
    from sealyard.privacy.guard import Guard
    from sealyard.privacy.mirror import Mirror
    from sealyard.privacy.rules import Handling, Privacy, Reveal

__all__ = ("TOKEN", "TYPES", "Guard", "Handling", "Mirror", "Privacy", "Reveal", "Sent")

_MODULES = {
    "Guard": "guard",
    "Handling": "rules",
    "Mirror": "mirror",
    "Privacy": "rules",
    "Reveal": "rules",
    "Sent": "echo",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
