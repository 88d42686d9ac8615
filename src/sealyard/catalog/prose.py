"""Text that upstreams wrote, made fit to be shown: hostile, of any length, and never more than text."""

import re

_KEPT = "\n\u200c\u200d"  # some scripts are not readable without the joiners
_LITERAL_CHARACTERS = 200
_LITERAL_ITEMS = 20
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def plain(text: str, *, limit: int | None = None) -> str:
    """`text` without characters that cannot be seen, such as those that reorder or hide what is around them.

    Over `limit` characters it is cut, and the cut is marked with `…`.
    """
    cut = limit is not None and len(text) > limit
    if cut:
        text = text[:limit]
    if not text.replace("\n", "").isprintable():
        text = _BREAKS.sub("\n", text).expandtabs(4)
        text = "".join(c if c in _KEPT or c.isprintable() else " " if c.isspace() else "" for c in text)
    return text.rstrip() + "…" if cut else text.strip()


def one_line(text: str, *, limit: int) -> str:
    """The first line of `text` that says anything."""
    head = plain(text[: 4 * limit]).partition("\n")[0]
    return plain(" ".join(head.split()), limit=limit)


def wrap(text: str, *, width: int, indent: str = "", hanging: str = "") -> list[str]:
    """`text` as lines of at most `width` characters where spaces allow it; lines it has already stay apart."""
    lines: list[str] = []
    for line in text.split("\n"):
        line = line.rstrip()
        lead = indent + line[: len(line) - len(line.lstrip())]
        line = line.lstrip()
        further = lead + hanging
        while len(lead) + len(line) > width:
            room = max(width - len(lead), 1)
            cut = line.rfind(" ", 0, room + 1)
            cut = cut if cut > 0 else line.find(" ", room)
            if cut < 0:
                break
            lines.append(lead + line[:cut].rstrip())
            lead, line = further, line[cut:].lstrip()
        lines.append(lead + line if line else "")
    return lines


def docstring_text(text: str) -> str:
    """`text` as it may stand between triple double quotes, whatever is in it."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def literal(value: object, *, depth: int = 4) -> str | None:
    """JSON data as a Python literal on one line; `None` if it is none, or too long to be of use."""
    match value:
        case None | bool():
            return repr(value)
        case str():
            if len(value) > _LITERAL_CHARACTERS:
                return None
            text = repr(value)
            return text if '"' in text else f'"{text[1:-1]}"'
        case int():
            return repr(value) if value.bit_length() <= 256 else None
        case float():
            return repr(value) if value - value == 0 else None  # neither infinite nor NaN
        case list() if depth and len(value) <= _LITERAL_ITEMS:
            parts = [literal(item, depth=depth - 1) for item in value]
            return _joined("[", parts, "]")
        case dict() if depth and len(value) <= _LITERAL_ITEMS:
            keys = [literal(key) for key in value]
            parts = [literal(item, depth=depth - 1) for item in value.values()]
            pairs = zip(keys, parts, strict=True)
            return _joined("{", [f"{key}: {part}" if key and part else None for key, part in pairs], "}")
    return None


def _joined(left: str, parts: list[str | None], right: str) -> str | None:
    known = [part for part in parts if part is not None]
    text = left + ", ".join(known) + right
    return text if len(known) == len(parts) and len(text) <= _LITERAL_CHARACTERS else None
