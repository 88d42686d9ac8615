"""Keys by the formats of their vendors, and secrets by the name they are assigned to.

`find_keys` knows every format of `key_formats.toml`, by the marks that set vendors apart. `find_assigned` covers the
rest: `password=…`, `"api_key": "…"`, `Authorization: Bearer …`. A password may be any text, so it is taken as it stands
unless it is plainly a placeholder or code. A key is taken if it looks like one: long, with letters and digits mixed as
chance mixes them.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from sealyard.privacy.span import Span

_CLASSES = {
    "<W>": "[A-Za-z0-9_-]",
    "<A>": "[A-Za-z0-9]",
    "<UUID>": "<H>{8}-<H>{4}-<H>{4}-<H>{4}-<H>{12}",
    "<H>": "[0-9a-f]",
}
_DATA = tomllib.loads(files("sealyard.privacy.detect").joinpath("key_formats.toml").read_text(encoding="utf-8"))


def _written_out(form: str) -> str:
    for name, characters in _CLASSES.items():
        form = form.replace(name, characters)
    return form


KEY_FORMATS = tuple((vendor, _written_out(form)) for vendor, form in _DATA["formats"])
"""Vendor and form, one row per form; each starts with a letter or digit of its own. The first that fits is taken."""

MARKED_FORMATS = {vendor: tuple(map(_written_out, parts)) for vendor, parts in _DATA["marked"].items()}
"""Those that start with anything: the part before the text that each one has, that text, and the part after it."""

_TYPES = (("ey", "auth_token"), ("ya29.", "auth_token"), ("AGE-", "private_key"), ("LS0t", "private_key"))
_LETTERS_ALONE = ("AKIA", "ASIA", "ABIA", "ACCA", "AIza")
"""Keys that may lack a digit and a sign begin so. All others of letters alone are chance: a row of zeros in base64."""
_START = r"(?<![A-Za-z0-9])(?:"


def _by_first_character() -> str:
    """One pattern for all forms. The engine tries every branch of a group in turn, so there are few per group."""
    grouped: dict[str, list[str]] = {}
    for _, pattern in KEY_FORMATS:
        grouped.setdefault(pattern[0], []).append(pattern[1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in grouped.items())


KEY = _by_first_character()
"""A key of any of the forms, as a pattern."""
_KEY = re.compile(_START + KEY + ")")
_KEY_INSIDE = re.compile(rf"[^A-Za-z0-9](?:{KEY})")
"""The same behind a sign: the engine goes from one to the next."""
_MARKED = tuple(
    (re.compile(re.escape(mark) + tail), re.compile(f"{_START}{head}{re.escape(mark)}{tail})"))
    for head, mark, tail in MARKED_FORMATS.values()
)
"""Each from its mark on, which the engine finds fast, and as a whole."""


def find_keys(text: str) -> Iterator[Span]:
    """The keys of the text, each where a word begins. Linear in the text: no form fails after a long look ahead."""
    place = 0
    key = _KEY.match(text)
    while True:
        while key:
            place = key.end()
            if not key[0].isalpha() or key[0].startswith(_LETTERS_ALONE):
                of_type = next((name for start, name in _TYPES if key[0].startswith(start)), "api_key")
                yield Span(key.start(), place, of_type)
            key = _KEY.match(text, place)  # the last sign of one key may stand before the next
        sign = _KEY_INSIDE.search(text, place)
        if sign is None:
            break
        key = _KEY.match(text, sign.start() + 1)
    for tail, pattern in _MARKED:
        if tail.search(text):
            for marked in pattern.finditer(text):
                yield Span(*marked.span(), "api_key")


_STEM = re.compile(
    "pass|pwd|secret|token|key|credential|bearer|authorization|cookie|session|contrasena|kennwort|senha|wachtwoord"
    "|salasana|heslo"
)
"""Places worth a closer look, in lower case."""
_STEM_ABROAD = re.compile("[Cc]ontraseña|[Пп]ароль|密码|密碼|パスワード|비밀번호|[Hh]asło|[Şş]ifre|[Ll]ösenord|סיסמה")

_NAME_BEFORE = re.compile(
    r"[a-z0-9_.\-]{0,40}(?: (?:ipa|sseccas|terces|etavirp|htua|noisses|hserfer|tneilc|gningis|laesnu|noitpyrcne))?"
)
"""The rest of the name in front of the stem, read backwards."""
_ASSIGNED = re.compile(
    r"""
    (?P<name>[A-Za-z0-9_\-]{0,40})(?:[ ][0-9]{1,2})?["'`\]]{0,2}
    (?P<operator>
        [ \t]{0,24}(?:=>|:=|={1,3}|:[ ]?[A-Za-z_.\[\]|]{1,30}[ ]?=(?!=)|:|->|>)\s{0,24}
      | \s{1,4}(?:value|default|content)\s?=\s?
      | \s(?:is|was|are|to)[ :]{1,2}
      | [ \t]{1,2}
    )
    (?:(?P<scheme>bearer|basic|token|apikey|digest|ssws)\s{1,3})?
    (?:"(?P<double>[^"\n]{1,600})"?|'(?P<single>[^'\n]{1,600})'?|`(?P<back>[^`\n]{1,600})`?
      |(?P<bare>[^\s"'`,;&<>(){}\[\]|]{1,600}))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PASSWORD = re.compile(
    r"(?:password|passwd|passwort|passphrase|passcode|kennwort|contrasena|senha|wachtwoord|salasana|heslo"
    r"|(?:^|[_.\-]|db|my|user|root|admin|smtp|ftp|sql)(?:pwd|pass|pw))[0-9]{0,2}$"
)
_TOKEN = re.compile(r"token$|session(?:[_.\-]?(?:id|key))?$")
_NO_TOKEN = re.compile(
    r"(?:next|page|continuation|cursor|sync|scroll|resume|start|max|end|stop|pad|sep|cls|mask|eos|bos|unk)[_.\-]?token$"
)
_SECRET = re.compile(r"secret[_.\-]?(?:access[_.\-]?)?(?:key|token)?$|credentials?$")
_KEY_NAME = re.compile(r"key$|authorization$")
_NO_KEY = re.compile(
    r"(?:public|primary|foreign|sort|partition|cache|object|s3|unique|hash|range|index|row|group|lookup|idempotency|routing"
    r"|translation|i18n|issue|field|column|file|path|image|asset|map|dict|storage_?object|bucket|record|item|parent|tur|mon|don"
    r"|whis|hot|short|arrow)[_.\-]?key$"
)
_PLACEHOLDER = re.compile(
    r"""
    [*x.\-_\#?]{3,} | <.*>? | [$#]\{?\{?\w.* | \{\{.* | %\w.* | \[.* | &lt;.* | [+,.&)/].* | https?:.* | your.*
    | .*passw.*[/\#:].* | [/\#].*passw.*
    | str | string | text | varchar | char | bytes | int | integer | bool | boolean | true | false | null | none | nil
    | undefined | optional | required | any | object | yes | no | empty | example | sample | placeholder | redacted
    | masked | hidden | secret | password | passwd | pass | pwd | token | key | value | n/a | incorrect | invalid
    | wrong | correct | expired | missing | changed | reset | protected | needed | self | this | new | old | for | and
    | or | the | a | an | in | on | of | to | with | must | should | cannot | will | field | policy | manager | hash
    | hashing | input | prompt | value= | set | update | updated
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|\w*passw\w*|\w*_pwd|self\b.*|this\b.*", re.IGNORECASE)
_UUID_VALUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_KEY_TEXT = re.compile(r"[A-Za-z0-9+/=_.~:\-!@#$%^*]+")
_DIGIT, _LETTER = re.compile("[0-9]"), re.compile("[A-Za-z]")
_KINDS = (_DIGIT, re.compile("[A-Z]"), re.compile("[a-z]"), re.compile(r"[!@#$%^&*+=?()]"))
_LONG_VALUE = 128
"""A value of this length that is not a secret is not searched for further names: it would be read again and again."""
_SWITCH = re.compile(
    r"[ \t]-u[ =]?[\"']?(?P<both>[^\s\"':]{1,80}:[^\s\"']{3,120})|[ \t]-u \S{1,80} -p (?P<word>[^\s\"'$%]{3,80})"
)


class _Assignment(NamedTuple):
    """A name and the text that is assigned to it."""

    name: str
    operator: str
    scheme: str | None
    value: str
    start: int
    is_quoted: bool
    rest: str
    """The two characters behind the value."""

    def span(self, type: str) -> Span:  # noqa: A002
        return Span(self.start, self.start + len(self.value), type)


def find_assigned(plain: str, text: str) -> Iterator[Span]:
    """The secrets of the text by their names. `plain` is the text in ASCII, of the same length."""
    lower = plain.lower()
    done = 0
    stem = _STEM.search(lower)
    while stem:
        start, end = stem.span()
        if found := _ASSIGNED.match(plain, end):
            before = _NAME_BEFORE.match(lower[max(0, start - 52) : start][::-1])
            name = (before[0][::-1] if before else "") + lower[start:end] + found["name"].lower()
            assignment = _assignment(name.replace(" ", "_"), found)
            if span := _secret(assignment):
                done = span.end
                yield span
            elif len(assignment.value) > _LONG_VALUE:
                done = assignment.start + len(assignment.value)
        stem = _STEM.search(lower, max(done, end))
    if not text.isascii():
        for stem in _STEM_ABROAD.finditer(text):
            found = _ASSIGNED.match(plain, stem.end())
            if found and found["operator"].strip() and (span := _password(_assignment("", found))):
                yield span
    if " -u" in plain:
        for switch in _SWITCH.finditer(plain):
            yield Span(*switch.span(switch.lastgroup or 0), "password")


def _assignment(name: str, found: re.Match[str]) -> _Assignment:
    group = next(group for group in ("double", "single", "back", "bare") if found[group] is not None)
    value = found[group].rstrip(".:!?\\") if group == "bare" else found[group]
    start = found.start(group)
    rest = found.string[start + len(value) : start + len(value) + 2]
    return _Assignment(name, found["operator"].strip(), found["scheme"], value, start, group != "bare", rest)


def _secret(found: _Assignment) -> Span | None:
    """The value, if the name and its own look say that it is secret."""
    name, value = found.name, found.value
    if found.scheme or name == "bearer":
        return _bearer(found)
    if value.startswith("__PII_"):
        return None
    if _PASSWORD.search(name):
        return _password(found) if found.operator or name.startswith("--") else _spoken_password(found)
    is_code = not found.is_quoted and _CODE.fullmatch(value) is not None
    if _SECRET.search(name):
        is_odd = (
            found.is_quoted
            and found.operator
            and len(value) >= 8
            and " " not in value
            and kinds_of_characters(value) >= 2
        )
        is_secret = (is_odd and not _PLACEHOLDER.fullmatch(value)) or is_random(value, least=12)
        return found.span("api_key") if is_secret and not is_code and (found.operator or found.is_quoted) else None
    if name.endswith("cookie"):
        return _cookie(found)
    if _TOKEN.search(name) and not _NO_TOKEN.search(name):
        return found.span("auth_token") if is_random(value, least=16) and not is_code else None
    if _KEY_NAME.search(name) and not _NO_KEY.search(name) and (found.operator or name.endswith("api_key")):
        is_bare_name = name in {"key", "-key"}
        least = 30 if is_bare_name else 16
        is_hash = is_bare_name and (_UUID_VALUE.fullmatch(value) or (value.isalnum() and value.lower() == value))
        return found.span("api_key") if not is_hash and not is_code and is_random(value, least=least) else None
    return None


def _password(found: _Assignment) -> Span | None:
    """A password after an operator: whatever stands there, if it is neither a placeholder nor code."""
    value = found.value
    if len(value) < 3 or _PLACEHOLDER.fullmatch(value):
        return None
    if found.is_quoted:
        return found.span("password") if value.count(" ") < 4 and value.strip() else None
    is_sentence = value.isalpha() and found.rest[:1] == " " and found.rest[1:].isalpha()
    if _CODE.fullmatch(value) or is_sentence or found.rest[:1] in {"(", "["}:
        return None
    return found.span("password")


def _spoken_password(found: _Assignment) -> Span | None:
    """A password after the mere word, in prose: only what no word of a language looks like."""
    is_word = kinds_of_characters(found.value) < 2 or (found.value.istitle() and found.value.isalpha())
    if found.name.endswith(("pass", "pw")) or "=" in found.value:
        return None
    if len(found.value) < 6 or is_word or _PLACEHOLDER.fullmatch(found.value):
        return None
    return found.span("password")


def kinds_of_characters(value: str) -> int:
    """The number of kinds among digits, capitals, small letters and signs that the value has."""
    return sum(1 for kind in _KINDS if kind.search(value))


def _bearer(found: _Assignment) -> Span | None:
    """The text after `Bearer` or `Basic`; in prose, where a bearer may be a person, no plain word."""
    value = found.value
    is_prose = not found.scheme and not found.operator
    if not _KEY_TEXT.fullmatch(value) or len(value) < 8 or (is_prose and value.isalpha() and len(value) < 20):
        return None
    return None if value.startswith("__PII_") else found.span("auth_token")


def _cookie(found: _Assignment) -> Span | None:
    """The value of the first cookie of a header, if chance made it."""
    name, separator, content = ("", "", found.value) if "=" in found.operator else found.value.partition("=")
    content = content.partition(";")[0]
    start = found.start + len(name) + len(separator)
    return Span(start, start + len(content), "auth_token") if is_random(content, least=16) else None


def is_random(value: str, *, least: int) -> bool:
    """True if the text looks like a key: long enough, no spaces, letters and digits, no word and no placeholder."""
    if len(value) < least or value.startswith("__PII_") or not _KEY_TEXT.fullmatch(value):
        return False
    if not (_DIGIT.search(value) and _LETTER.search(value)) or _PLACEHOLDER.fullmatch(value):
        return False
    counts = Counter(value).values()
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    # A text of n characters can have log2(n) bits each: chance hardly ever stays below two thirds of that.
    return entropy >= min(2.7, 0.66 * math.log2(len(value)))
