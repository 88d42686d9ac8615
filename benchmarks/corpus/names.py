"""New names for parameters and fields, as upstreams give them, and whether definitions alone tell what was renamed."""

import random
import re
from typing import Any

from sealyard.values.naming import identifier

Renamed = tuple[str, dict[str, Any], bool]
"""The new name, the schema under it, and whether the definitions tell."""

_SYNONYMS = {
    "query": "search_text",
    "path": "location",
    "limit": "max_results",
    "url": "address",
    "id": "key",
    "name": "label",
    "repo": "repository",
    "owner": "account",
    "message": "text",
    "content": "body",
    "page": "page_number",
    "count": "amount",
    "since": "start",
    "until": "end",
    "start": "begin",
    "end": "finish",
    "title": "heading",
    "user": "person",
    "email": "mail",
    "date": "day",
    "department": "division",
    "reason": "why",
    "text": "wording",
    "pattern": "glob",
    "timeout": "max_wait",
}
_UNLIKE = ("zephyr", "quarry", "class", "lantern_ref", "qrx")


def other_case(key: str, schema: dict[str, Any], chance: random.Random, _: object) -> Renamed | None:
    """The same words, written otherwise. One word alone has no other case."""
    words = words_of(key)
    if len(words) < 2:
        return None
    snake, camel = "_".join(words), words[0] + "".join(word.capitalize() for word in words[1:])
    new = chance.choice([each for each in (snake, camel, "-".join(words)) if each != key])
    return new, _titled(schema, new), True


def synonym(key: str, schema: dict[str, Any], chance: random.Random, others: dict[str, Any]) -> Renamed | None:
    """A word of the same meaning, or one shortened as people do."""
    words = words_of(key)
    known = [number for number, word in enumerate(words) if word in _SYNONYMS]
    if known:
        number = chance.choice(known)
        words[number] = _SYNONYMS[words[number]]
    elif len(words[0]) > 4:
        words[0] = words[0][0] + re.sub("[aeiou]", "", words[0][1:])  # as people shorten
    new = "_".join(words)
    is_told = _is_distinct(schema, others) and (not known or _tells(key, new, schema))
    return None if new == key else (new, _titled(schema, new), is_told)


def reworded(key: str, schema: dict[str, Any], chance: random.Random, others: dict[str, Any]) -> Renamed | None:
    """The same words written otherwise, and a description that says the same in slightly other words."""
    found = other_case(key, schema, chance, others)
    said = schema.get("description")
    if found is None or not isinstance(said, str):
        return None
    return found[0], {**found[1], "description": _said_again(said)}, True


def longer(key: str, schema: dict[str, Any], chance: random.Random, others: dict[str, Any]) -> Renamed | None:
    """A longer name and a description in slightly other words: who wants to be told may ask."""
    if not _is_distinct(schema, others):
        return None
    new = f"{chance.choice(['target', 'input', 'given'])}_{'_'.join(words_of(key))}"
    return new, {**_titled(schema, new), "description": _said_again(str(schema["description"]))}, False


def _said_again(text: str) -> str:
    text = text.rstrip(".").removeprefix("The ")
    return f"{text[:1].upper()}{text[1:]}, as before."


def unlike(key: str, schema: dict[str, Any], chance: random.Random, others: dict[str, Any]) -> Renamed | None:
    """A name that has nothing to do with the old one: only the description tells."""
    new = chance.choice(_UNLIKE)
    return (new, _titled(schema, new), _tells(key, new, schema)) if _is_distinct(schema, others) else None


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, however they are joined."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)] or [name.lower()]


def python_name(key: str) -> str:
    """The name that code has for a parameter."""
    return identifier(key, fallback="parameter")


def _titled(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {**schema, "title": " ".join(words_of(name)).title()} if "title" in schema else schema


def _is_distinct(schema: dict[str, Any], others: dict[str, Any]) -> bool:
    """True if a description of three words or more says what this parameter is, and of no other one."""
    said = schema.get("description")
    same = [each for each in others.values() if isinstance(each, dict) and each.get("description") == said]
    return isinstance(said, str) and len(said.split()) >= 3 and len(same) == 1


def _tells(key: str, new: str, schema: dict[str, Any]) -> bool:
    """True if a description says what the old name says and the new one does not, or the other way round.

    Else it is left to the names what is described: `swapped for its counterpart` looks just the same and is none.
    """
    said = words_of(schema["description"])
    old, young = set(words_of(key)), set(words_of(new))
    found = [all(any(word[:5] == each[:5] for each in said) for word in some) for some in (old - young, young - old)]
    return found[0] != found[1]


def shuffled(found: Any, chance: random.Random) -> list[Any]:
    """The items of a mapping in another order."""
    return chance.sample(list(found.items()), len(found))
