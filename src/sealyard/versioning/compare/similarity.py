"""Names and texts as words: how near two names are, how near two descriptions are, and what must not be confused."""

import re
from collections.abc import Iterable
from functools import lru_cache

_CHARACTERS = 500
_KEPT = 512
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_SEPARATORS = re.compile(r"[\W_]+")
_COVERED = 4
"""Letters from which on a word counts as said by a longer or shorter form of it: `sort` by `sorting`."""
# Only what has one meaning: `desc`, `curr`, `prev`, `dir`, `req`, `col`, `ver` and the like are short for two words.
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
        "command": "cmd",
        "configuration": "cfg config",
        "context": "ctx",
        "database": "db",
        "department": "dept",
        "description": "descr",
        "destination": "dest dst",
        "document": "doc",
        "environment": "env",
        "error": "err",
        "format": "fmt",
        "frequency": "freq",
        "function": "func",
        "identifier": "id ident",
        "image": "img",
        "index": "idx",
        "information": "info",
        "language": "lang",
        "length": "len",
        "library": "lib",
        "longitude": "lon lng",
        "maximum": "max",
        "message": "msg",
        "minimum": "min",
        "number": "num",
        "object": "obj",
        "option": "opt",
        "organization": "organisation",
        "parameter": "param",
        "password": "pwd passwd",
        "project": "proj",
        "quantity": "qty",
        "reference": "ref",
        "repository": "repo",
        "response": "resp",
        "sequence": "seq",
        "source": "src",
        "specification": "spec",
        "temporary": "tmp",
        "text": "txt",
        "timestamp": "ts",
        "timezone": "tz",
        "value": "val",
        "variable": "var",
    }.items()
    for short in shorts.split()
}
# Words of which a name and its replacement never have one each.
_OPPOSED = [
    tuple(frozenset(side.split("/")) for side in pair.split())
    for pair in (
        "start/begin/from/since/after/min/minimum/first/lower end/finish/to/until/before/max/maximum/last/upper/stop",
        "source/src/input/old/base/head/sender destination/dest/dst/target/output/new/receiver/recipient",
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
_TIMES = frozenset("at date datetime day on time timestamp".split())
_NEGATIONS = frozenset("no not non without exclude excluded excluding disable disabled dont never".split())
_UNITS = {
    word: group.split()[0]
    for group in (
        "nanosecond nanoseconds ns",
        "microsecond microseconds us",
        "millisecond milliseconds millis ms",
        "second seconds s sec secs",
        "minute minutes min mins",
        "hour hours h hr hrs",
        "day days",
        "week weeks",
        "month months",
        "year years",
        "byte bytes b",
        "kilobyte kilobytes kb",
        "megabyte megabytes mb",
        "gigabyte gigabytes gb",
        "pixel pixels px",
        "inch inches",
        "meter meters metre metres",
        "mile miles",
        "gram grams g",
        "pound pounds lb lbs",
        "cent cents",
        "dollar dollars usd",
        "euro euros eur",
        "percent percentage",
        "character characters chars",
        *"m tb kib mib gib bits pt em mm cm km feet kg celsius fahrenheit kelvin gbp ratio degrees radians".split(),
        *"epoch unix iso tokens".split(),
    )
    for word in group.split()
}
"""Every way to write a unit of measure, with one name for each unit."""
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


def folded(text: str) -> str:
    """A text as it is the same whatever its spaces, its case and its last stop are."""
    return " ".join(text.lower().split()).rstrip(".")


def are_same_text(one: str, other: str) -> bool:
    """Whether two texts differ in spaces, case and the last stop at most."""
    return one == other or folded(one) == folded(other)


def are_spelled_alike(one: str, other: str) -> bool:
    """Whether two names have the same letters and digits, and differ in case and in what joins their words.

    A case is all that tells `t` from `T`, a sign all that tells `a<` from `a>`, and a joint all that tells `x1_1` from
    `x11`: such names are two.
    """
    joined = [_SEPARATORS.sub("", name).lower() for name in (one, other)]
    signs = [set(re.findall(r"[^\w\s.\-/$@]", name)) for name in (one, other)]
    if joined[0] != joined[1] or len(joined[0]) < 2 or signs[0] != signs[1]:
        return False
    has_digits = any(letter.isdigit() for letter in joined[0])
    return _ends(one) == _ends(other) and (not has_digits or words(one) == words(other))


def _ends(name: str) -> int:
    """How many words of a name may be plurals: `users_id` is not `user_sid`."""
    return sum(word.endswith("s") for word in words(name))


def are_contrasted(left: Iterable[str], right: Iterable[str], text: str) -> bool:
    """Whether the words that one of two names has alone may tell apart what one text says of both.

    A text that says all of the one and not of the other is about that one, whatever the other is called. One that says
    neither leaves it to the names, as does one that says both: `email` and `phone` are both how to reach somebody.
    """
    old, new = frozenset(left), frozenset(right)
    if not old or not new or any(_are_on(side, old, new) for sides in _OPPOSED for side in sides):
        return False
    said = frozenset(stems(text[:_CHARACTERS]))
    return _is_said(old, said) == _is_said(new, said)


def _are_on(side: frozenset[str], *some: frozenset[str]) -> bool:
    """Whether each name has a word of one side, and else none but such as only say that it is a time."""
    return all(words & side and words <= side | _TIMES for words in some)


def _is_said(some: frozenset[str], said: frozenset[str]) -> bool:
    return all(
        word in said
        or any(
            (longer.startswith(word) and len(word) >= _COVERED) or (word.startswith(longer) and len(longer) >= _COVERED)
            for longer in said
        )
        for word in some
    )


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
    return frozenset(_UNITS[word] for word in words(text) if word in _UNITS)


def have_other_units(one: str, other: str) -> bool:
    """Whether two texts both speak of units, and of none in common."""
    mine, theirs = (units(text.replace("'s", "")) for text in (one, other))  # whose, not a second
    return bool(mine) and bool(theirs) and not mine & theirs


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
