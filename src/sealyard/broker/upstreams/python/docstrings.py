"""The descriptions of parameters in a docstring, in the styles of Google, NumPy and Sphinx."""

import inspect
import re

_NAMES = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)"
_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_GOOGLE_ENTRY = re.compile(rf"{_NAMES}\s*(?:\([^:]*\))?\s*:(?:\s+(.*))?")
_NUMPY = re.compile(r"(?:Other )?Parameters\s*")
_NUMPY_ENTRY = re.compile(rf"{_NAMES}\s*(?::.*)?")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
_SPHINX_TYPE = re.compile(r":type\s+[^:]+:.*")
_LINE = re.compile(r"-{3,}\s*")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text without its sections of parameters, and each parameter's description, both by one pass."""
    lines = inspect.cleandoc(text).splitlines()
    kept: list[str] = []
    found: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if _GOOGLE.fullmatch(line) and _is_indented(lines, at + 1):
            end = _end_of_block(lines, at + 1)
            found |= _entries(lines[at + 1 : end], _GOOGLE_ENTRY)
        elif _NUMPY.fullmatch(line) and at + 1 < len(lines) and _LINE.fullmatch(lines[at + 1]):
            end = _end_of_section(lines, at + 2)
            found |= _entries(lines[at + 2 : end], _NUMPY_ENTRY)
        elif (match := _SPHINX.fullmatch(line)) is not None:
            end = _end_of_block(lines, at + 1)
            found[match[1]] = _joined([match[2], *lines[at + 1 : end]])
        elif _SPHINX_TYPE.fullmatch(line):
            end = _end_of_block(lines, at + 1)
        else:
            kept.append(line)
            end = at + 1
        at = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found


def _is_indented(lines: list[str], at: int) -> bool:
    return at < len(lines) and lines[at].startswith((" ", "\t"))


def _end_of_block(lines: list[str], at: int) -> int:
    """The line after the last that is indented or empty."""
    while at < len(lines) and (not lines[at].strip() or _is_indented(lines, at)):
        at += 1
    return at


def _end_of_section(lines: list[str], at: int) -> int:
    """The next title of a section, which has a line of dashes below it."""
    while at < len(lines) and not (at + 1 < len(lines) and lines[at].strip() and _LINE.fullmatch(lines[at + 1])):
        at += 1
    return at


def _entries(lines: list[str], entry: re.Pattern[str]) -> dict[str, str]:
    """The entries of a section: each begins at the indent of the first, and goes on in lines with a deeper one."""
    lines = inspect.cleandoc("\n".join(["", *lines])).splitlines()
    found: dict[str, str] = {}
    texts: list[str] = []
    names: list[str] = []
    for line in [*lines, "end"]:
        if line.startswith((" ", "\t")) or not line:
            texts.append(line)
            continue
        found |= dict.fromkeys(names, _joined(texts))
        match = entry.fullmatch(line)
        names = [] if match is None else [name.strip(" *") for name in match[1].split(",")]
        texts = [match[2] or ""] if match is not None and entry.groups > 1 else []
    return found


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
