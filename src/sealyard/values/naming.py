"""How the config names tools: the one way in which patterns of rules, limits and lists are held against names."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from sealyard.errors import InvalidConfig
from sealyard.values import ToolSpec

Names = Callable[[ToolSpec], bool]
"""Tells whether a tool is named."""


@lru_cache(maxsize=1024)
def glob(*patterns: str) -> Callable[[str], object]:
    """Finds out whether a text is like one of the patterns: `*` stands for any characters, `?` for one.

    Nothing else is special. Its time grows with the length of the text, however many `*` there are.
    """
    return re.compile("|".join(map(_translate, patterns)), re.DOTALL).fullmatch


def checked_glob(patterns: Sequence[str], at: str) -> Callable[[str], object]:
    """`glob` for patterns of the config.

    Raises:
        InvalidConfig: There is no pattern, or an empty one; `at` is the place in the config.
    """
    if not patterns or not all(patterns):
        raise InvalidConfig(f"{at} has no pattern or an empty one, which fits nothing. Give one, or '*' for all.")
    return glob(*patterns)


def spellings(spec: ToolSpec) -> tuple[str, str]:
    """The names by which the config may call a tool: `mcp__mail__send`, and `mail/send` as its upstream calls it."""
    return spec.full_name, f"{spec.upstream}/{spec.name}"


def tool_names(patterns: Sequence[str], at: str) -> Names:
    """Tells whether a tool has a name like one of the patterns, in either spelling. Raises as `checked_glob` does."""
    fits = checked_glob(patterns, at)
    return lambda spec: any(map(fits, spellings(spec)))


def _translate(pattern: str) -> str:
    first, *rest = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not rest:
        return first
    # What comes next is found where it first is, and never looked for again further on.
    return first + "".join(f"(?>.*?{part})" for part in rest[:-1] if part) + ".*" + rest[-1]
