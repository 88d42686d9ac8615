"""Tools that declare what they answer, made up by the dozen, and answers that fit: to see what is learned of those."""

import string
from collections.abc import Callable
from random import Random
from typing import Any

_Schema = dict[str, Any]

_TEXTS = """title description summary slug path filename url content_type etag sha message body note label headline
    excerpt caption subject snippet checksum next_cursor timezone locale zip_code merchant vendor brand model sku
    created_at updated_at closed_at due_date published_at expires_on started_at last_seen""".split()
_PERSONAL = "first_name last_name full_name email phone date_of_birth username home_address iban passport".split()
_NUMBERS = """amount price subtotal tax discount rate score ratio latitude longitude temperature_c humidity distance_km
    duration_seconds weight_kg average_rating confidence balance share percent""".split()
_COUNTS = """id count total page page_size offset quantity stock views likes replies stars forks size_bytes width height
    depth rank position attempts retries year version line port priority_order""".split()
_FLAGS = "is_active is_public has_more archived deleted verified enabled draft pinned read starred truncated".split()
_CHOICES = {
    "status": ("open", "closed", "pending"),
    "state": ("queued", "running", "done", "failed"),
    "type": ("file", "folder", "link"),
    "severity": ("low", "medium", "high"),
    "currency": ("EUR", "USD", "GBP"),
    "visibility": ("public", "private", "internal"),
    "category": ("travel", "meals", "lodging", "office"),
    "unit": ("celsius", "fahrenheit"),
    "direction": ("north", "east", "south", "west"),
}
_PARTS = """address location owner author customer billing shipping dimensions metadata stats limits pricing source
    target parent config result summary_data details window range""".split()
_LISTS = "items rows entries results records events files comments attachments labels steps days orders".split()
_PEOPLE = "alice bob carol dmitri elena farid greta hana ivo_berg jana_novak kofi lena mateo nadia omar priya".split()


def declare(kind: str, chance: Random) -> _Schema:
    """A declared output schema of one kind."""
    return KINDS[kind](chance)


def answer(schema: _Schema, chance: Random) -> Any:
    """An answer that fits. A field that is not required is missing now and then, some of them mostly."""
    if "anyOf" in schema:
        return answer(chance.choice(schema["anyOf"]), chance)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema["type"]:
        case "object":
            return _object(schema, chance)
        case "array":
            return [answer(schema["items"], chance) for _ in range(chance.randrange(0, 8))]
        case "string":
            return _text(schema.get("x-name", ""), chance)
        case "integer":
            return chance.randrange(1, 5_000)
        case "number":
            return round(chance.uniform(0, 900), 2)
        case "boolean":
            return chance.random() < 0.5
        case _:
            return None


def _object(schema: _Schema, chance: Random) -> dict[str, Any]:
    if "additionalProperties" in schema:
        keys = schema["x-keys"](chance)
        return {key: answer(schema["additionalProperties"], chance) for key in keys}
    required = schema["required"]
    return {
        name: answer(part, chance)
        for name, part in schema["properties"].items()
        if name in required or chance.random() < part.get("x-often", 0.5)
    }


def _text(name: str, chance: Random) -> str:
    if name.endswith(("_at", "_on", "_date", "_seen")):
        return f"2025-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    if name == "email":
        return f"{chance.choice(_PEOPLE)}@{_word(chance)}.example"
    if name == "phone":
        return f"+4930{chance.randrange(10**6, 10**7)}"
    if name.endswith("name") and name != "filename":
        return f"{chance.choice(_PEOPLE).title()} {_word(chance).title()}"
    return " ".join(_word(chance) for _ in range(chance.randrange(1, 5)))


def _word(chance: Random) -> str:
    return "".join(chance.choices(string.ascii_lowercase, k=chance.randrange(3, 9)))


def _flat(chance: Random, fields: int, *, optional: float = 0.2, personal: int = 0) -> _Schema:
    texts = chance.sample(_TEXTS, min(fields, len(_TEXTS)) // 3 + 1)
    names: list[tuple[str, _Schema]] = [(name, {"type": "string", "x-name": name}) for name in texts]
    names += [(name, {"type": "number"}) for name in chance.sample(_NUMBERS, min(fields // 5, len(_NUMBERS)))]
    names += [(name, {"type": "integer"}) for name in chance.sample(_COUNTS, min(fields // 4 + 1, len(_COUNTS)))]
    names += [(name, {"type": "boolean"}) for name in chance.sample(_FLAGS, min(fields // 8, len(_FLAGS)))]
    names += [(name, {"enum": list(_CHOICES[name])}) for name in chance.sample(sorted(_CHOICES), fields // 8 % 6)]
    names += [(name, {"type": "string", "x-name": name}) for name in chance.sample(_PERSONAL, personal)]
    chance.shuffle(names)
    return _of(dict(names), chance, optional)


def _of(properties: dict[str, _Schema], chance: Random, optional: float) -> _Schema:
    left_out = [name for name in properties if chance.random() < optional]
    for name in left_out:
        properties[name]["x-often"] = chance.choice((0.1, 0.3, 0.5, 0.9))
    for part in properties.values():
        if chance.random() < 0.1 and "type" in part:
            inner = dict(part)
            often = part.get("x-often", 0.5)
            part.clear()
            part |= {"anyOf": [inner, {"type": "null"}], "x-often": often}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in left_out],
    }


def _list(schema: _Schema) -> _Schema:
    return {"type": "array", "items": schema}


def _paged(chance: Random) -> _Schema:
    properties = {
        chance.choice(_LISTS): _list(_flat(chance, chance.randrange(5, 14))),
        "total": {"type": "integer"},
        "has_more": {"type": "boolean"},
        "next_cursor": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _nested(chance: Random, depth: int) -> _Schema:
    schema = _flat(chance, chance.randrange(3, 7))
    if depth:
        schema["properties"][chance.choice(_PARTS)] = _nested(chance, depth - 1)
        schema["properties"][chance.choice(_LISTS)] = _list(_flat(chance, 4))
    return schema


def _mapping(inner: _Schema, keys: Callable[[Random], list[str]]) -> _Schema:
    mapping = {"type": "object", "additionalProperties": inner, "x-keys": keys}
    return {
        "type": "object",
        "properties": {"data": mapping, "total": {"type": "integer"}},
        "required": ["data", "total"],
    }


def _id_keys(chance: Random) -> list[str]:
    before = chance.choice(("u", "ord-", "x"))
    return [f"{before}{chance.randrange(10_000, 99_999)}" for _ in range(chance.randrange(1, 6))]


def _date_keys(chance: Random) -> list[str]:
    return [f"2025-{chance.randrange(1, 13):02}-{day:02}" for day in range(1, chance.randrange(3, 9))]


def _person_keys(chance: Random) -> list[str]:
    return chance.sample(_PEOPLE, chance.randrange(1, 6))


def _login_keys(chance: Random) -> list[str]:
    """Some of forty people, by names that are in no list."""
    people = chance.sample(range(40), 4)
    return [f"{'bcdfghklmnprstvz'[each % 16]}{'okeanum'[each % 7]}wsk{'iyo'[each % 3]}" for each in people]


KINDS: dict[str, Callable[[Random], _Schema]] = {
    "flat": lambda chance: _flat(chance, chance.randrange(3, 14)),
    "rows": lambda chance: _list(_flat(chance, chance.randrange(4, 14))),
    "paged": _paged,
    "nested": lambda chance: _nested(chance, 3),
    "optional": lambda chance: _flat(chance, 14, optional=0.7),
    "wide": lambda chance: _flat(chance, 70),
    "personal": lambda chance: _list(_flat(chance, 8, personal=5)),
    "union": lambda chance: {"anyOf": [_flat(chance, 6), _flat(chance, 8)]},
    "scalar": lambda chance: {"type": chance.choice(("string", "integer", "boolean", "number"))},
    "by_id": lambda chance: _mapping(_flat(chance, 5), _id_keys),
    "by_date": lambda chance: _mapping(_flat(chance, 5), _date_keys),
    "by_person": lambda chance: _mapping(_flat(chance, 5), _person_keys),
    "counts_by_person": lambda _: _mapping({"type": "integer"}, _person_keys),
    "counts_by_login": lambda _: _mapping({"type": "integer"}, _login_keys),
}
"""Makers of schemas by kind of tool. The last ones have keys that are data, and no field is to be named after those."""
