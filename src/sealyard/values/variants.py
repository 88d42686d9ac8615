"""Parts of the gateway that differ from others in few attributes."""

import copy
from typing import Any, TypeVar

_T = TypeVar("_T")


def variant(part: _T, **attributes: Any) -> _T:
    """The part once more, with other attributes and for the rest the very same ones."""
    made = copy.copy(part)
    assert attributes.keys() <= vars(made).keys()
    vars(made).update(attributes)
    return made
