"""Types, values and texts of a schema in a few words."""

import json
from typing import Any

from sealyard.versioning.compare.cases import NULLABLE, Budget, Case, cases_of
from sealyard.versioning.compare.schemas import Document

_CHARACTERS = 160
_VALUES = 8
_HOPS = 8
_ORDER = ("object", "array", "string", "integer", "fraction", "boolean", "null")
_NAMES = {"array": "list", "fraction": "number"}
_LIMITS = (
    "format pattern minLength maxLength minimum exclusiveMinimum maximum exclusiveMaximum multipleOf minItems maxItems "
    "uniqueItems minProperties maxProperties"
).split()


def kinds_in(cases: list[Case]) -> frozenset[str]:
    """The kinds of values that fit one of the cases."""
    kinds = frozenset[str]().union(*(case.kinds for case in cases))
    return (kinds - {NULLABLE}) | {"null"} if NULLABLE in kinds else kinds


def type_in_words(document: Document, schemas: tuple[Any, ...], budget: Budget, *, depth: int = 2) -> str:
    """Such as `integer or null`, `list of string`, `one of "a", "b"` or `string (maxLength 10)`."""
    cases = cases_of(document, schemas, budget)
    kinds = kinds_in(cases)
    if len(kinds) == 7 and not any(_limits(case) for case in cases):
        return "anything"
    names = [kind for kind in _ORDER if kind in kinds and (kind != "integer" or "fraction" not in kinds)]
    texts = [_NAMES.get(kind, kind) for kind in names]
    values = [value for case in cases for value in case.values or ()]
    if values and all(case.values is not None or case.kinds <= {"null"} for case in cases):
        listed = ", ".join(shown(value) for value in values[:_VALUES])
        texts = [f"one of {listed}{', …' if len(values) > _VALUES else ''}"] + (["null"] if "null" in kinds else [])
    elif "array" in names and depth:
        items = next((case.item(case.positioned()) for case in cases if "array" in case.kinds), ())
        inside = type_in_words(document, items, budget, depth=depth - 1) if items else "anything"
        texts[names.index("array")] = "list" if inside == "anything" else f"list of {inside}"
    limits = dict.fromkeys(limit for case in cases for limit in _limits(case))
    text = " or ".join(texts or ["nothing"]) + (f" ({', '.join(limits)})" if limits else "")
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "…"


def shown(value: object) -> str:
    """A value as JSON, cut."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        text = "…"
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "…"


def text_under(document: Document, schemas: tuple[Any, ...], keyword: str) -> Any:
    """What the first of `schemas` that has a keyword of text says there, or what it refers to; `None` if nothing."""
    for schema in schemas:
        for _ in range(_HOPS):
            if not isinstance(schema, dict):
                break
            if keyword in schema:
                return schema[keyword]
            schema = document.target(schema.get("$ref"))
    return None


def _limits(case: Case) -> list[str]:
    return [f"{keyword} {shown(atom[keyword])}" for atom in case.atoms for keyword in _LIMITS if keyword in atom]
