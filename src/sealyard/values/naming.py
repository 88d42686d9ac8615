"""Patterns over tool names, the same for rules, limits and lists of the configuration, and spellings of names."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from sealyard.errors import InvalidConfig
from sealyard.values.tools import ToolSpec

Names = Callable[[ToolSpec], bool]
"""Returns true if a pattern matches the tool."""


@lru_cache(maxsize=1024)
def glob(*patterns: str) -> Callable[[str], object]:
    """Return a matcher for the patterns: `*` matches any characters, `?` one.

    Nothing else is special. Matching takes linear time, however many `*` there are.
    """
    return re.compile("|".join(map(_translate, patterns)), re.DOTALL).fullmatch


def checked_glob(patterns: Sequence[str], at: str) -> Callable[[str], object]:
    """Return `glob` for patterns of the configuration.

    Raises:
        InvalidConfig: A pattern is missing or empty; `at` is its place in the configuration.
    """
    if not patterns or not all(patterns):
        raise InvalidConfig(f"{at} has no pattern or an empty one, which fits nothing. Give one, or '*' for all.")
    return glob(*patterns)


def spellings(spec: ToolSpec) -> tuple[str, str]:
    """The two names of a tool in the configuration: `mcp__mail__send` and `mail/send`."""
    return spec.full_name, f"{spec.upstream}/{spec.name}"


def tool_names(patterns: Sequence[str], at: str) -> Names:
    """Return a matcher for tools, by either spelling of their names. Raises as `checked_glob` does."""
    fits = checked_glob(patterns, at)
    return lambda spec: any(map(fits, spellings(spec)))


def is_python(language: str) -> bool:
    """True if a request for this language means Python."""
    return language.strip().lower() in ("python", "python3", "py")


def _translate(pattern: str) -> str:
    first, *rest = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not rest:
        return first
    # An atomic group keeps the first match of each part, which makes matching linear.
    return first + "".join(f"(?>.*?{part})" for part in rest[:-1] if part) + ".*" + rest[-1]
