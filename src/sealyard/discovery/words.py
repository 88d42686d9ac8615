"""What a word is to the index: text in, stems out, the same way for tools and for queries.

Words are cut at case, digits, underscores and punctuation, then stemmed lightly. The tables below are English and
general on purpose: what is specific to somebody's tools is in their names and descriptions.
"""

import re
from functools import lru_cache
from itertools import chain

STOP_WORDS = frozenset(
    """
    a about actually again against all also am an and another any anything are as ask asked at be because been bit both
    but by can come could currently d did do does doing don during each even few figure for from further getting going
    gonna got had has have having he hello help her here hey hi him his how i if im in interested into is it its just
    kind know let like ll lot m many may maybe me might more most much my need no nor not now of off on once only or
    other our own perhaps please re really recently s said same say seem seems shall she should so some something still
    such sure t tell than thank thanks that the their them then there these they thing things think this those through
    to today too try trying up us ve very want wanted wants was way we well were what when where which while who whom
    why will with wondering would yet you your
    """.split()
)
"""Words that say nothing about a tool. They are neither indexed nor named as unmatched."""

_WEAK_WORDS = "after before between detail first get give go info information keep look make one out over provide put \
show take two under use used using"
_WEAK_FACTOR = 0.3

_GROUPS = """
    delete remove erase | create add new insert | list get show fetch retrieve view read | find search lookup query
    update edit modify change | run execute | send post | calculate compute | buy purchase | translate translation
    mail email | message msg | news article | picture image photo img | song music | movie film | trip travel
    flight airline | hotel accommodation | restaurant dining | weather forecast | job career | cost price | stock share
    user member | organization org | repo repository | pr pull | database db | directory folder dir | document doc
    application app | configuration config setting | environment env | authentication auth login | statistic stat metric
    info information detail | number num count | identifier id | language lang | address addr | package pkg
    command cmd | transaction tx | latitude lat | longitude lng lon | javascript js | kubernetes k8s
"""

_RUN = re.compile(r"[^\W_]{1,64}")
_PART = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^A-Za-z\d]+")
_LETTERS = re.compile(r"[a-z]{3,}")
# Written without spaces: two neighbours at a time stand for the words nobody marked.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_VOWELS = frozenset("aeiouy")


def spelled(text: str) -> list[str]:
    """The words of a text as they are written, in order."""
    return _RUN.findall(text)


def words(text: str) -> list[str]:
    """The stems of a text in order, without stop words."""
    return list(chain.from_iterable(map(terms, _RUN.findall(text))))


def parts(word: str) -> list[str]:
    """The word cut where its case changes: `getAPIKey` is get, api, key; `API`, `APIs` and `K8s` are one part each."""
    if word[1:].islower() or word.isupper() or (word[-1] == "s" and word[:-1].isupper()):
        return [word.lower()]
    return [part.lower() for part in _PART.findall(word)]


def squashed(text: str) -> str:
    """A name without its case and its separators: `getUser`, `get_user` and `get-user` are one."""
    return "".join(_RUN.findall(text)).casefold()


@lru_cache(maxsize=1 << 16)
def terms(word: str) -> tuple[str, ...]:
    """The stems that one written word stands for; none if it is a stop word."""
    if not word.isascii() and _UNSPACED.search(word):
        return tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    found: list[str] = []
    for part in parts(word):
        if part not in STOP_WORDS:
            found.append(stem(part))
            if not part.isalpha():  # `oauth2` is also `oauth`
                found += [stem(letters) for letters in _LETTERS.findall(part) if letters not in STOP_WORDS]
    return tuple(found)


def stem(word: str) -> str:
    """The word without its plural, `-ing`, `-ed` and silent ending. Meant to be equal for forms of a word, not read."""
    word = _singular(word)
    for ending in ("ing", "ed"):
        kept = word[: -len(ending)]
        if word.endswith(ending) and len(kept) >= 3 and not word.endswith("eed") and not _VOWELS.isdisjoint(kept):
            if len(kept) > 3 and kept[-1] == kept[-2] and kept[-1] not in "lsz":
                kept = kept[:-1]
            word = kept
            break
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


def _singular(word: str) -> str:
    if len(word) <= 3 or word[-1] != "s" or word.endswith(("ss", "us", "is")) or word == "news":
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _synonyms(groups: str) -> dict[str, tuple[str, ...]]:
    table: dict[str, set[str]] = {}
    for line in groups.strip().splitlines():
        for group in line.split("|"):
            stems = {stem(word) for word in group.split()}
            for word in stems:
                table.setdefault(word, set()).update(stems - {word})
    return {word: tuple(sorted(others)) for word, others in table.items()}


SYNONYMS = _synonyms(_GROUPS)
"""By stem: the stems that often mean the same."""

WEAK = {stem(word): _WEAK_FACTOR for word in _WEAK_WORDS.split()}
"""By stem: how much less a word of the query counts that hardly narrows anything, yet tells `get_x` from `set_x`."""
