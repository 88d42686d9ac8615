"""Names and texts as words: how near two names are, how near two descriptions are, and what must not be confused."""

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ("are_opposed", "are_same_text", "is_telling", "likeness", "share", "stems", "text_words", "units", "words")

_CHARACTERS = 500
_KEPT = 512
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_ABBREVIATIONS = {
    short: full
    for full, shorts in {
        "account": "acct",
        "address": "addr",
        "amount": "amt",
        "application": "app",
        "argument": "arg",
        "attribute": "attr",
        "average": "avg",
        "calculation": "calc",
        "column": "col",
        "command": "cmd",
        "configuration": "cfg config",
        "context": "ctx",
        "current": "curr",
        "database": "db",
        "department": "dept",
        "description": "desc descr",
        "destination": "dest dst",
        "directory": "dir",
        "document": "doc",
        "environment": "env",
        "error": "err",
        "extension": "ext",
        "format": "fmt",
        "frequency": "freq",
        "function": "func fn",
        "identifier": "id ident",
        "image": "img",
        "index": "idx",
        "information": "info",
        "language": "lang",
        "latitude": "lat",
        "length": "len",
        "library": "lib",
        "longitude": "lon lng",
        "maximum": "max",
        "message": "msg",
        "minimum": "min",
        "number": "num",
        "object": "obj",
        "option": "opt",
        "organization": "org organisation",
        "parameter": "param",
        "password": "pwd passwd",
        "picture": "pic",
        "position": "pos",
        "previous": "prev",
        "project": "proj",
        "quantity": "qty",
        "reference": "ref",
        "repository": "repo",
        "request": "req",
        "response": "resp",
        "sequence": "seq",
        "source": "src",
        "specification": "spec",
        "string": "str",
        "temporary": "tmp",
        "text": "txt",
        "timestamp": "ts",
        "timezone": "tz",
        "value": "val",
        "variable": "var",
        "version": "ver",
        "window": "win",
    }.items()
    for short in shorts.split()
}
# Words of which a name and its replacement never have one each.
_OPPOSED = [
    tuple(frozenset(side.split("/")) for side in pair.split())
    for pair in (
        "start/begin/from/since/after/min/minimum/first/lower end/finish/to/until/before/max/maximum/last/upper/stop",
        "source/src/input/old/base/head/sender destination/dest/target/output/new/receiver/recipient",
        "include/included/allow/allowed/enable/enabled/show hide/skip/ignore/deny/denied",
        "asc/ascending desc/descending",
        "create/add/insert/open/start/push/upload/write/send delete/remove/drop/close/stop/pull/download/read/get/list",
        "archive/follow/star/subscribe/install/lock unarchive/unfollow/unstar/unsubscribe/uninstall/unlock",
        "update/edit/set/patch/modify get/list/read/fetch/delete/remove/create",
        "width height",
        "latitude/lat longitude/lon/lng",
        "key value",
        "row column/col",
        "left right",
        "top bottom",
        "public private",
        "true false",
        "request/req response/resp",
        "parent child/children",
        "id/uuid/identifier name/title/email/url/path",
    )
]
_NEGATIONS = frozenset("no not non without exclude excluded excluding disable disabled dont never".split())
_UNITS = frozenset(
    "ns us ms millis millisecond milliseconds s sec secs second seconds m min mins minute minutes h hr hrs hour hours "
    "day days week weeks month months year years b byte bytes kb mb gb tb kib mib gib kilobytes megabytes gigabytes "
    "bits px pixels pt em mm cm km meters metres miles feet inches kg g grams lb lbs pounds celsius fahrenheit kelvin "
    "cents dollars eur euro euros usd gbp percent percentage ratio degrees radians epoch unix iso tokens characters "
    "chars".split()
)
_COMMON = frozenset(
    "a an and are as at be by can for from has have if in into is it its of on or that the these this those to used "
    "using was when which will with you your optional required default value parameter argument field tool description "
    "available provided none no not n todo".split()
)


@lru_cache(_KEPT)
def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: `startDate`, `start_date` and `start-date` have the same."""
    return tuple(word.lower() for word in _WORD.findall(name[:_CHARACTERS]))


@lru_cache(_KEPT)
def stems(name: str) -> tuple[str, ...]:
    """`words`, written out and in the singular: `repo_ids` has those of `repositoryIdentifier`."""
    return tuple(_ABBREVIATIONS.get(single, single) for single in map(_singular, words(name)))


@lru_cache(_KEPT)
def text_words(text: str) -> frozenset[str]:
    """The words of a text that say something."""
    return frozenset(words(text)) - _COMMON


def are_same_text(one: str, other: str) -> bool:
    """Whether two texts differ in spaces and case at most."""
    return one == other or one.lower().split() == other.lower().split()


def is_telling(text: str, *, least: int = 2) -> bool:
    """Whether a text says enough to know what it describes by: `The id` does not."""
    return len(text_words(text)) >= least and len(words(text)) > least


def likeness(one: str, other: str) -> float:
    """How near two texts are, from 0 to 1; 0 if one says nothing."""
    return share(text_words(one), text_words(other))


def share(one: Iterable[str], other: Iterable[str]) -> float:
    """How many of all words are in both, from 0 to 1."""
    first, second = set(one), set(other)
    return len(first & second) / len(first | second) if first and second else 0.0


def are_opposed(one: str, other: str) -> bool:
    """Whether two names differ by words that exclude each other, such as `min` and `max`, or by a number."""
    first, second = set(words(one)), set(words(other))
    left, right = first - second, second - first
    if any(word.isdigit() for word in left) and any(word.isdigit() for word in right):
        return True
    if bool(left & _NEGATIONS) != bool(right & _NEGATIONS):
        return True
    return any((left & near and right & far) or (left & far and right & near) for near, far in _OPPOSED)


def units(text: str) -> frozenset[str]:
    """The units of measure that a name or a text speaks of."""
    return frozenset(words(text)) & _UNITS


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
