"""Private values by their own form, with checks: values that need no field name, and few, certain signs in prose.

`find_values` reads the text a few times with patterns that start at a rare character or a rare word, then looks closer
only there. It is linear in the length of the text: every pattern is bounded, and nothing is read twice.

Left alone on purpose: netmasks, `::` and version numbers are not addresses; a bare run of digits counts only after a
word that names its kind; a URL is private only with a password or key in it. Every other address of a machine counts,
`127.0.0.1` too, but not `::1`, which is a slice as well: an allow-list can exempt one.

`find_in_prose` finds persons, dates of birth and homes in sentences that introduce them. Names in prose are not
promised.
"""

import re
from collections.abc import Iterable, Iterator

from sealyard.privacy.detect.checks import WALLET, WALLET_FORM, is_ipv6, is_wallet
from sealyard.privacy.detect.credentials import find_assigned, find_keys, is_random, kinds_of_characters
from sealyard.privacy.detect.numbers import find_iban, find_numbers, find_registered, without
from sealyard.privacy.detect.registers import REGISTERED_WORD, is_br_cnpj
from sealyard.privacy.reading.views import WORD, Runs
from sealyard.privacy.span import Span, merge

_ANYTHING = re.compile(r"[0-9@:=]|pass|pwd|bearer|token|key|secret|[A-Za-z0-9_\-]{16}", re.IGNORECASE)
"""Most cells of a table are words. Without one of these there is nothing to find."""
_CELL = 400
"""In a text longer than this, each detector rules out faster on its own that it finds anything."""

_ASSIGNS = re.compile(r"[ :=>\t]")
_LEAST_KEY = 14  # characters of the shortest key that is recognized by its form


def find_values(text: str) -> list[Span]:
    """The private values of any text: prose, code, logs, JSON, tables. Sorted, none overlaps another."""
    if len(text) < 5 or (len(text) < _CELL and text.isascii() and not _ANYTHING.search(text)):
        return []
    wide = _with_plain_marks(text)
    plain = wide if wide.isascii() else wide.encode("ascii", "replace").decode("ascii")
    spans: list[Span] = []
    unread = plain
    if "@" in plain or "%40" in plain:
        spans += merge(_emails(wide, plain))
        unread = without(plain, spans)
    if len(plain) >= _LEAST_KEY:
        opaque = _opaque_words(plain)
        unread = without(unread, opaque)
        if _LONG_WORDS.are_in(without(plain, opaque)):
            spans += find_keys(plain)
            spans += _long_numbers(plain)
    spans += find_numbers(unread, wide)
    if ":" in plain or len(plain) >= _LEAST_KEY:
        spans += _colons(plain)
    if ":/" in plain or ":\\/" in plain:
        spans += _urls(plain)
    if "/" in plain and "-" in plain:
        spans += _companies(plain)
    if "XX-" in plain or "**-" in plain:
        spans += (Span(*masked.span(), "ssn") for masked in _MASKED_SSN.finditer(plain))
    if "$" in plain:
        spans += (Span(*hashed.span(), "password") for hashed in _PASSWORD_HASH.finditer(plain))
    if "PRIVATE KEY" in plain or "PuTTY-User-Key" in plain:
        spans += _private_keys(plain)
    if _ASSIGNS.search(plain):
        spans += find_assigned(plain, wide)
    return merge(spans) if spans else spans


_MARKS = {
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-"),
}
_FOREIGN_DIGITS = re.compile("[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff01-\uff5e]")
_TO_ASCII = {
    **{first + number: 48 + number for first in (0x660, 0x6F0, 0x966) for number in range(10)},
    **{0xFEE0 + code: code for code in range(0x21, 0x7F)},
}


def _with_plain_marks(text: str) -> str:
    """The text, of the same length, with ASCII for typographic spaces, dashes and digits, and blanks for escapes."""
    if not text.isascii():
        for mark, plain in _MARKS.items():
            if mark in text:
                text = text.replace(mark, plain)
        if _FOREIGN_DIGITS.search(text):
            text = text.translate(_TO_ASCII)
    if "\\" in text:
        # A value in JSON or in source text often follows an escaped line end or quote.
        for escape, plain in (("\\n", "  "), ("\\r", "  "), ("\\t", "  "), ('\\"', ' "')):
            text = text.replace(escape, plain)
    return text


_DOMAIN = re.compile(
    r"@(?:(?:[\w\-]{1,63}\.){1,8}(?:xn--[a-z0-9\-]{2,59}|[^\W\d_]{2,24})(?![^\W\d]|[(\-])|\[[0-9a-f.:]{3,45}\])",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"\"[^\"\n]{1,64}\"|[\w.!#$%&'*+/=?^`{|}~\-]{1,64}")
"""The part before the sign, read backwards."""
_BINDS_AND_ENDS = re.compile(r".*[=/`|{}?&]")
_PICTURE = re.compile(r"@[0-9]x\.(?:png|jpe?g|gif|webp|svg|avif)$", re.IGNORECASE)
_PICTURE_SIGN = frozenset("xX")
_PAYMENT_HANDLE = re.compile(
    r"@(?:ok(?:sbi|axis|hdfcbank|icici)|ybl|ibl|axl|apl|yapl|paytm|upi|sbi|hdfcbank|icici|axisbank"
    r"|kotak|fbl|freecharge|airtel|pt(?:hdfc|yes|sbi|axis))(?![\w.\-])"
)
_HANDLE_LOCAL = re.compile(r"[\w.\-]{2,64}")
_BESIDE_SIGNS = frozenset(" /|:;")
_BESIDE = re.compile(r" ?[/|:;] ?([^\s\"'<>,;|]{6,64})")


def _emails(text: str, plain: str) -> Iterator[Span]:
    """Addresses, the accounts of Indian payments, and the password beside an address as leaked lists have it."""
    done = 0
    for domain in _DOMAIN.finditer(text.replace("%40", "@40")):
        at = domain.start()
        local = _LOCAL.match(text[max(done, at - 66) : at][::-1])
        if not local or (text[at + 2 : at + 3] in _PICTURE_SIGN and _PICTURE.search(domain[0])):
            continue
        # Characters of an address also assign, quote and list: `to='a@b.de'`, `x=a@b.de`, `a@b.de/c@d.de`.
        name = local[0][::-1]
        if not name.isalnum():
            if not name.replace(".", "").isalnum():
                name = _BINDS_AND_ENDS.sub("", name)
            name = name.lstrip("!#$%&'*^~.-")
        if not name or name == "git":
            continue
        done = domain.end()
        yield Span(at - len(name), done, "email")
        beside = _BESIDE.match(plain, done) if plain[done : done + 1] in _BESIDE_SIGNS else None
        if beside and kinds_of_characters(beside[1]) >= 3 and "://" not in beside[1]:
            yield Span(beside.start(1), beside.start(1) + len(beside[1].rstrip(".")), "password")
    for handle in _PAYMENT_HANDLE.finditer(plain):
        if local := _HANDLE_LOCAL.match(plain[max(0, handle.start() - 64) : handle.start()][::-1]):
            yield Span(handle.start() - local.end(), handle.end(), "bank_account")


_LONG_WORDS = Runs(WORD, least=13)
"""Each key and each long number has one."""
_OPAQUE_WORDS = Runs("0123456789abcdefABCDEF-", least=25)
_OPAQUE = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9A-F]{8}-(?:[0-9A-F]{4}-){3}[0-9A-F]{12}|(?!bc1)[0-9a-f]{25,}"
)
"""A UUID or a hash. No account or register number is as long and has these letters only, nor a key without more marks
around it; a wallet does where `_is_opaque` says so."""
_OPAQUE_LABELLED = 34
"""A longer text is not a number even after a word that names one."""
_WORD_SIGNS = frozenset(f"{WORD}.:/~$+=!*%")
"""Signs that a key may have beside a hash."""
_UNLABELLED = frozenset("\n\t,;|\x00")
"""Signs over which no word reaches to say what follows."""
_WALLET_STARTS = frozenset("12379")
_WORD = re.compile(r"[A-Za-z0-9]{15,}")
_LEAST_WALLET = 25  # characters of the shortest wallet address
_MOST_BASE58 = 36  # characters of a UUID, and of the longest wallet address that begins with a digit
_MOST_REGISTERED = 20
"""No number of a register is longer without a separator."""
_NUMBER_START = re.compile(
    rf"[^A-Za-z0-9](?=[A-Za-z0-9]{{15}})(?:[A-Za-z]{{2}}[0-9]{{2}}|{REGISTERED_WORD}"
    rf"|(?=[A-Za-z0-9]{{{_LEAST_WALLET}}}){WALLET_FORM})"
)
"""Where a long word begins that has the form of an account number, a register's number or a wallet, and the sign before
it: the engine goes from one sign to the next."""


def _opaque_words(plain: str) -> list[Span]:
    """The long words of the text that are a UUID or a hash and nothing else."""
    return [
        Span(start, end, "")
        for start, end in _OPAQUE_WORDS.find(plain)
        if _OPAQUE.fullmatch(plain, start, end) and _is_opaque(plain, start, end)
    ]


def _is_opaque(plain: str, start: int, end: int) -> bool:
    """True if a word of the form stands alone, where nothing can make it a key, a number or a wallet."""
    before = plain[start - 1 : start]
    if before in _WORD_SIGNS or plain[end : end + 1] in _WORD_SIGNS:
        return False
    length = end - start
    if length > _MOST_BASE58:
        return True
    if length <= _OPAQUE_LABELLED and before and (before not in _UNLABELLED or plain[start - 2 : start] == ":\n"):
        return False
    return plain[start + 8] == "-" or plain[start] not in _WALLET_STARTS or plain.find("0", start, end) >= 0


def _long_numbers(plain: str) -> Iterator[Span]:
    """Wallets, account numbers and numbers of registers: all that is one long word."""
    for sign in _NUMBER_START.finditer("\n" + plain):
        word = _WORD.match(plain, sign.start())
        if word is None:
            continue
        start, end = word.span()
        if end - start >= _LEAST_WALLET and (wallet := WALLET.match(plain, start)):
            if is_wallet(wallet[0]):
                yield Span(*wallet.span(), "wallet")
        elif end - start <= _MOST_REGISTERED and (name := find_registered(word[0])):
            yield Span(start, end, name)
        elif plain[start + 2 : start + 4].isdigit() and (iban := find_iban(plain, start)):
            yield iban


_COLON = re.compile(
    r":(?::|[0-9a-fA-F]{1,4}:(?=[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:))|-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}-|\.[0-9a-fA-F]{4}\.[0-9a-fA-F]{4}(?![0-9a-zA-Z]|\.[0-9a-zA-Z])"
)
"""Two colons, or more groups between colons than a time of day has: one or the other is in every such address."""
_MAC = re.compile(
    r"(?<![0-9A-Za-z:\-.])(?:[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}"
    r"|[0-9a-fA-F]{4}\.[0-9a-fA-F]{4}\.[0-9a-fA-F]{4})(?![0-9A-Za-z]|[:\-.][0-9A-Za-z])"
)
_ADDRESS_BEFORE = re.compile(r"[0-9a-fA-F:.\-]{0,40}")
_ADDRESS = re.compile(r"[0-9a-fA-F:.\-]{0,48}")
_USUAL_IPV6 = re.compile(
    r"[23][0-9a-f]{3}:|f[cd][0-9a-f]{2}:|fe[89a-f][0-9a-f]:|ff[0-9a-f]{2}:|64:ff9b:|::ffff:[0-9a-f]", re.IGNORECASE
)
_HEXTETS = re.compile(r"[0-9a-fA-F]+")


def _colons(plain: str) -> Iterator[Span]:
    """Hardware addresses and IPv6."""
    done = 0
    while hit := _COLON.search(plain, done):
        before = _ADDRESS_BEFORE.match(plain[max(done, hit.start() - 40) : hit.start()][::-1])
        left = hit.start() - (before.end() if before else 0)
        ahead = _ADDRESS.match(plain, hit.start())
        right = ahead.end() if ahead else hit.end()
        done = max(right, hit.end())
        mac = _MAC.search(plain, left, right)
        if mac and len(set(mac[0].lower())) > 2 and not plain[right : right + 1].isalnum():
            yield Span(*mac.span(), "mac")
            continue
        value = plain[left:right]
        stripped = value.strip("-.")
        if not stripped.startswith("::"):
            stripped = stripped.lstrip(":")
        if not stripped.endswith("::"):
            stripped = stripped.rstrip(":")
        start = left + value.index(stripped)
        end = start + len(stripped)
        is_word = (start and (plain[start - 1].isalnum() or plain[start - 1] in "_:")) or plain[end : end + 1].isalnum()
        if not is_word and _is_ipv6(stripped):
            yield Span(start, end, "ip")


def _is_ipv6(value: str) -> bool:
    """An IPv6 address, and not `std::a` or the slice `[::1]`: short ones have a usual start or three groups."""
    if not is_ipv6(value):
        return False
    if "::" not in value:
        return True
    has_digit = any(character.isdigit() for character in value)
    return has_digit and (_USUAL_IPV6.match(value) is not None or len(_HEXTETS.findall(value)) >= 3)


_SLASHES = re.compile(r":(?:\\?/){2}")
_SCHEME_BEFORE = re.compile(r"[A-Za-z0-9+.\-]{1,20}")
_URL = re.compile(
    r"(?:(?P<user>[^\s/?#@\"'<>\\]{0,256}:[^\s/?#@\"'<>]{1,256}|[A-Za-z0-9_\-]{20,256})@)?[^\s\"'<>`\\,]{1,4096}"
)
_URL_REST = re.compile(r"[^\s\"'<>`\\,]{1,4096}")
_QUERY = re.compile(
    r"[?&#;](?:(?P<sure>[a-z_\-]{0,24}(?:token|secret|password|passwd|pwd|api[_\-]?key|apikey|signature|credential)|sig|jwt)"
    r"|(?P<maybe>key|auth|code|sid|session|hash|access|k|t))=(?P<value>[^&#\s\"'<>]{6,2048})",
    re.IGNORECASE,
)
_WEBHOOK = re.compile(
    r"(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/"
    r"|[a-z0-9.\-]+\.webhook\.office\.com/|outlook\.office\.com/webhook|hooks\.zapier\.com/hooks/catch/"
    r"|chat\.googleapis\.com/v1/spaces/|maker\.ifttt\.com/trigger/)[^\s\"'<>]{10,}",
    re.IGNORECASE,
)
_WEBHOOK_PARTS = ("hooks.", "discord", "webhook", "chat.googleapis", "maker.ifttt")
"""One of these is in each of them, in small letters."""


def _urls(plain: str) -> Iterator[Span]:
    """URLs with a password in front of the host or a key behind the question mark: the whole of it."""
    done = 0
    may_have_user = "@" in plain
    may_be_hook = any(part in plain.lower() for part in _WEBHOOK_PARTS)
    for slashes in _SLASHES.finditer(plain):
        begin = slashes.end()
        if slashes.start() < done:
            continue
        url = (_URL if may_have_user else _URL_REST).match(plain, begin)
        if not url or not (may_have_user or may_be_hook or plain.find("=", begin, url.end()) > 0):
            done = url.end() if url else done
            continue
        scheme = _SCHEME_BEFORE.match(plain[max(0, slashes.start() - 20) : slashes.start()][::-1])
        if not scheme:
            continue
        done = url.end()
        start, end = slashes.start() - scheme.end(), begin + len(url[0].rstrip(".,;:!?)]}"))
        has_user = may_have_user and url["user"]
        if has_user or (may_be_hook and _WEBHOOK.match(plain, begin, end)) or _has_key(plain, begin, end):
            yield Span(start, end, "url")


def _has_key(plain: str, start: int, end: int) -> bool:
    for query in _QUERY.finditer(plain, start, end):
        if query["sure"] and not query["value"].startswith("__PII_"):
            return True
        if query["maybe"] and is_random(query["value"], least=16):
            return True
    return False


_CNPJ_END = re.compile(r"/[A-Z0-9]{4}-[0-9]{2}(?![A-Za-z0-9])")
_CNPJ = re.compile(r"(?<![A-Za-z0-9])[A-Z0-9]{2}\.[A-Z0-9]{3}\.[A-Z0-9]{3}/[A-Z0-9]{4}-[0-9]{2}")
_CNPJ_HEAD = 10
"""Characters before the slash."""


def _companies(plain: str) -> Iterator[Span]:
    """Brazilian tax numbers of companies, which may have letters among their digits."""
    for end in _CNPJ_END.finditer(plain):
        found = _CNPJ.match(plain, max(0, end.start() - _CNPJ_HEAD))
        if found and is_br_cnpj(found[0]):
            yield Span(*found.span(), "tax_id")


_MASKED_SSN = re.compile(r"(?:XXX|\*{3})-(?:XX|\*{2})-[0-9]{4}(?![0-9])")
"""The last four digits are what a bank asks for."""
_PASSWORD_HASH = re.compile(
    r"\$(?:2[abxy]?\$[0-9]{2}\$[./A-Za-z0-9]{53}|argon2(?:id|i|d)\$[^\s\"'$]{1,20}\$[^\s\"']{20,300}"
    r"|krb5[a-z]{2,6}\$[^\s\"']{20,600}|[15689y]\$(?:rounds=[0-9]{1,9}\$)?[^\s$\"']{1,32}\$[./A-Za-z0-9]{22,86}|apr1\$[^\s$\"']{1,8}\$[./A-Za-z0-9]{22})"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-[0-9]:")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: [0-9a-fA-F]{20,128}")
_KEY_CHARACTERS = 65_536  # longer than any private key in PEM: an END line further away belongs to another
_KEY_BODY = re.compile(
    r"(?:\s{1,4}(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{0,100})*(?:\s{1,4}[A-Za-z0-9+/=]{20,})*"
    r"(?:\s{1,4}[A-Za-z0-9+/=]{4,76}(?=\s|$))?"
)
"""Lines of base 64, as far as they go."""


def _private_keys(plain: str) -> Iterator[Span]:
    """Private keys from their first line to their last; one that was cut off, as far as it goes."""
    done = 0
    end = _KEY_END.search(plain)
    for begin in _KEY_BEGIN.finditer(plain):
        if begin.start() < done:
            continue
        if end and end.start() < begin.end():
            end = _KEY_END.search(plain, begin.end())
        body = _KEY_BODY.match(plain, begin.end())
        is_whole = end and end.end() - begin.start() < _KEY_CHARACTERS
        done = end.end() if end and is_whole else body.end() if body else begin.end()
        yield Span(begin.start(), done, "private_key")


_NAME_WORD = r"[A-ZÀ-ÖØ-ÞŁŚŻ][a-zà-öø-ÿłśżźćńąęğışőű'\u2019\-]+"
_BETWEEN = r"(?:[A-Z]\.[ ]|(?:van|von|de|da|del|di|der|den|la|le|bin|al)[ ])?"
_NAME = rf"({_NAME_WORD}(?:[ ]{_BETWEEN}{_NAME_WORD}){{0,3}})"
_FULL = rf"({_NAME_WORD}(?:[ ]{_BETWEEN}{_NAME_WORD}){{1,3}})"
_DATE = (
    r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
    r"|(?:\d{1,2}(?:st|nd|rd|th)?\.?[ ])?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
    r"[ ]\d{1,4}(?:st|nd|rd|th)?(?:,?[ ]\d{4})?)"
)
_PLACE = (
    r"(\d{1,6}[ ][\w.' \-]{3,60}?(?:,[ ][\w.' \-]{2,40}){0,3}"
    r"|[\w.\-]{3,40}[ ]\d{1,5}[a-z]?(?:,[ ][\w.' \-]{2,40}){0,2})(?=[.;\n,]|$)"
)

_TITLED = re.compile(
    r"(?:M(?:rs?|s|iss|me|lle|onsieur|adame)|Dr|Prof|Herrn?|Frau|S(?:eñora?|ra?|ignora?|ig))\.?[ ]" + _NAME
)
_INTRODUCED = re.compile(
    r"[MmJj](?:y (?:full )?name(?: is|'s|:)|ein Name ist|e m'appelle|e llamo|i chiamo|eu nome é|ijn naam is)[ ]" + _NAME
)
"""These two begin with a few letters and nothing before them, so that the engine passes over all others at once."""
_GREETED = re.compile(rf"Dear[ ](?!Sir|Madam|Customer|Team|Colleague|All|Friend|User|Hiring|Editor|Valued){_FULL}")
_MAILBOX = re.compile(r" <(?=[^<>\s@]{1,64}@)")
_BEFORE_MAILBOX = re.compile(rf"{_NAME},?\"?\Z")
_LONGEST_BEFORE = 160
"""Characters before a mailbox that may be the name: four words with separators."""

_BIRTHS = tuple(
    "born,dob,d.o.b,date of birth,geboren am,né le,née le,nacio el,nació el,nato il,nata il,birthday".split(",")
)
_BORN = re.compile(
    r"\b(?:born(?: on| in)?|DOB|D\.O\.B\.?|date of birth|geboren am|née? le|naci[oó] el|nat[oa] il|birthday)"
    rf"(?: is| was| on)?:?[ ]{{1,2}}{_DATE}",
    re.IGNORECASE,
)
_LIVES = tuple("live at,lives at,living at,resides at,residing at,address is,wohnt in der,habite au,vive en".split(","))
_HOME = re.compile(
    r"\b(?:lives? at|living at|resid(?:es|ing) at|address is|wohnt in der|habite au|vive en)[ ]" + _PLACE
)


def find_in_prose(text: str) -> Iterator[Span]:
    """Names after `my name is` or `Dear Mr.`, before `<mail@…>`; dates after `born on`; addresses after `lives at`."""
    if " " not in text:
        return
    yield from _values("person", _INTRODUCED.finditer(text))
    yield from _values("person", (match for match in _TITLED.finditer(text) if _begins(text, match.start())))
    if "Dear " in text:
        yield from _values("person", (match for match in _GREETED.finditer(text) if _begins(text, match.start())))
    if "@" in text and " <" in text:
        yield from _values("person", _mailboxes(text))
    lower = text.lower()
    if len(lower) == len(text):  # one letter of Turkish becomes two
        yield from _values("date_of_birth", _placed(_BORN, text, lower, _BIRTHS))
    else:
        yield from _values("date_of_birth", _BORN.finditer(text))
    yield from _values("address", _placed(_HOME, text, text, _LIVES))


def _values(kind: str, matches: Iterable[re.Match[str]]) -> Iterator[Span]:
    for match in matches:
        start = match.start(1)
        yield Span(start, start + len(match[1].rstrip(".,-' ")), kind)


def _begins(text: str, start: int) -> bool:
    """True if a word begins there."""
    return not start or not (text[start - 1].isalnum() or text[start - 1] == "_")


def _mailboxes(text: str) -> Iterator[re.Match[str]]:
    done = 0
    for mailbox in _MAILBOX.finditer(text):
        name = _BEFORE_MAILBOX.search(text, max(done, mailbox.start() - _LONGEST_BEFORE), mailbox.start())
        if name is not None:
            yield name
        done = mailbox.end()


def _placed(pattern: re.Pattern[str], text: str, lower: str, stems: tuple[str, ...]) -> Iterator[re.Match[str]]:
    """The matches that begin with one of the stems. A search for a plain text is far faster than for a pattern."""
    for stem in stems:
        start = lower.find(stem)
        while start >= 0:
            match = pattern.match(text, start)
            if match is not None:
                yield match
            start = lower.find(stem, start + len(stem))
