"""Evidence in a single value: it looks like a name, a street, a login, a key, or a blank. Never proof."""

import re
from importlib.resources import files

from sealyard.privacy.reading.names import fold, read_name

GIVEN_NAMES = frozenset(
    files("sealyard.privacy.reading").joinpath("given_names.txt").read_text(encoding="utf-8").partition("\n")[2].split()
)
"""Common given names, without accents; the first line of the file is a remark."""
_BLANK = frozenset(
    """- -- --- . ? * n/a none null nil unknown undefined true false yes tbd tba other others empty missing optional
    required verified unverified anonymous redacted hidden masked unassigned unspecified default string number integer
    boolean object array str int bool float varchar uuid datetime timestamp deleted removed inherit enabled disabled
    active inactive pending public private not_set notset not-set nan email""".split()
) | {"not provided", "not available", "not specified", "not applicable", "not set", "no name", "n. a.", "n.a."}
"""Words that say there is nothing. None that is somebody's name: `No`, `Na` and `Si` are."""
_BLANK_FORMS = frozenset(form for word in _BLANK for form in (word, word.upper(), word.capitalize(), word.title())) | {
    ""
}
_MASKING = "*xX•.#-"
_MASKED = re.compile(r"[*x•.#\s-]+", re.IGNORECASE)
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['\u2019`\-.][^\W\d_]+)*[.,]?")
_PARTICLES = frozenset(
    "de da do dos das del della di du la le van von der den ter ten zu zum bin ibn al el y e und".split()
)
_TITLES = frozenset(
    """mr mrs ms miss mx dr prof professor sir madam dame rev herr frau fraulein dipl ing med phil mme mlle m monsieur
    madame mademoiselle sr sra srta don dona senor senora sig signor signora dhr mevr mw pan pani hr fru frk bay bayan
    jr ii iii iv phd md esq""".split()
)
_ADDRESSING = frozenset("mr mrs ms miss herr frau mme mlle monsieur madame senor senora signor signora".split())
_WITHOUT_MARKS = str.maketrans("", "", '()"\u201c\u201d')
_OTHERS = frozenset(
    """inc llc ltd limited corp corporation company co gmbh ag kg ohg se ug sa sas sarl srl spa bv nv oy oyj ab as
    asa aps plc pty pvt llp lp sro zoo kft ltda eirl sl sociedad holdings holding group partners associates
    solutions systems technologies technology software labs industries enterprises international global consulting
    services service bank insurance university college school institute foundation association club hospital clinic
    team department dept division unit office support sales marketing engineering finance operations platform
    product project admin administrator system bot automation scheduler robot manager staff customer user guest
    test example sample demo default new old main general street road avenue store shop market center centre hotel
    restaurant cafe airport station the and for with of in on to from by my your our this that pro plus mini ultra
    series edition version model set pack game app api web data cloud server upper lower high low medium large
    first second third monday tuesday wednesday thursday friday saturday sunday january february september october
    november december""".split()
)
"""Words that stand in no person's name, or in so few that they speak against one."""
_FIRMS = frozenset(
    """inc llc ltd limited corp corporation gmbh ag kg ohg ug sarl srl bv nv oyj plc pty pvt llp sro kft ltda eirl
    holdings holding group partners associates solutions systems technologies industries enterprises consulting services
    bank insurance university college institute foundation association hospital clinic company""".split()
)
_STREET_WORD = (
    r"st(?:reet)?|ave(?:nue)?|r(?:oa)?d|blvd|boulevard|lane|ln|dr(?:ive)?|c(?:our)?t|way|pl(?:ace)?|terrace|"
    r"ter|square|sq|parkway|pkwy|circle|cir|highway|hwy|close|crescent|cres|trail|trl|alley|row|gardens?|mews|"
    r"drive|quay|hill|walk|grove|loop|plaza|pike|run|ridge|point|crossing|junction|park|green|mall"
)
_WORD = r"[^\W\d_][\w.'\u2019-]*"
_STREET = re.compile(
    rf"\d{{1,6}}[a-z]?(?:[-/]\d+)?,?\s+(?:{_WORD}\s+){{0,5}}(?:{_STREET_WORD})\b\.?(?:[ ,].*)?"
    rf"|(?:{_WORD}\s+){{0,3}}{_WORD}(?:stra(?:ß|ss)e|str\.|weg|gasse|platz|allee|straat|laan|gracht|gatan|vägen|vej|gade|"
    r"gata|veien|katu|tie|kade|plein|damm|ring|ufer)\s+\d{1,4}\s?[a-z]?(?:[ ,].*)?"
    r"|(?:\d{1,5}(?:\s?bis|\s?ter)?,?\s+)?(?:rue|avenue|boulevard|place|chemin|allée|impasse|quai|calle|avenida|av\.|"
    r"plaza|paseo|carrer|via|viale|piazza|corso|largo|rua|travessa|praça|ul\.|ulica|aleja|al\.|улица|ул\.|проспект)"
    r"\s+[^\W\d_].{2,}",
    re.IGNORECASE,
)
_STREET_AHEAD = (
    r"(?:rue|avenue|boulevard|place|chemin|allée|impasse|quai|calle|avenida|av\.|plaza|paseo|carrer|via|viale|piazza"
    r"|corso|largo|rua|travessa|praça|ul\.|ulica|aleja|al\.|улица|ул\.|проспект)\s"
)
"""A street has a house number, or begins with the word for one."""
_STREET_SIGN = re.compile(r"\s*" + _STREET_AHEAD, re.IGNORECASE)
_STREET_WORD_AHEAD = re.compile(_STREET_AHEAD, re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_LOGIN = re.compile(r"[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*\d*")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_UNCASED = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,12}(?:[ 　・·][぀-ヿ㐀-鿿가-힯]{1,12})?")
_LONGEST_NAME = 70
_LETTERS = re.compile(r"[a-z]+")
_SHOWN = _ADDRESSING | {part for name in GIVEN_NAMES for part in _LETTERS.findall(name)}
"""Words of which one is in every value that `has_given_name`, in ASCII."""


def is_blank(value: str) -> bool:
    """True if the value says that there is none, or is a word of a short list rather than data."""
    if not value:
        return True
    if value[0].isspace() or value[-1].isspace():
        value = value.strip()
    return value in _BLANK_FORMS or (value[0] in _MASKING and _MASKED.fullmatch(value) is not None)


def count_digits(value: str) -> int:
    """The number of digits in the value, of any script."""
    return sum(map(str.isdigit, value))


def is_name(value: str) -> bool:
    """True if the value could be a person's name by its form: up to eight words with capitals and no digits."""
    value = value.strip()
    if not 2 <= len(value) <= _LONGEST_NAME:
        return False
    if _UNCASED.fullmatch(value):
        return True
    words = value.translate(_WITHOUT_MARKS).split()
    if not 0 < len(words) <= 8 or not all(map(_NAME_WORD.fullmatch, words)):
        return False
    plain = [word.strip(".,").casefold() for word in words]
    if any(word in _OTHERS for word in plain):
        return False
    return all(word[0].isupper() or part in _PARTICLES for word, part in zip(words, plain, strict=True)) or (
        has_given_name(value) and len(words) > 1
    )


def has_given_name(value: str) -> bool:
    """True if the value begins or ends with a common given name, or with a title such as `Mrs.`."""
    said = (value if value.isascii() else fold(value)).translate(_WITHOUT_MARKS).split()
    if not 0 < len(said) <= 8:
        return False
    words = [word.strip(".,").casefold() for word in said]
    if len(words) > 1 and not _ADDRESSING.isdisjoint(words):
        return True
    words = [word for word in words if word not in _TITLES]
    if not words:
        return False
    is_turned = said[0].endswith(",") and len(words) > 1  # Doe, Jane
    return words[0] in GIVEN_NAMES or (
        len(words) > 1 and (words[-1] in GIVEN_NAMES or (is_turned and words[1] in GIVEN_NAMES))
    )


def is_organization(value: str) -> bool:
    """True if the value ends like a firm's name or holds a word of one."""
    words = [word.strip(".,&()").casefold().replace(".", "") for word in value.split()]
    return any(word in _FIRMS for word in words) or "&" in words or " & " in value


def is_street(value: str) -> bool:
    """True if the value reads like a street with a house number, as several countries write it."""
    return (
        len(value) <= 120
        and " " in value
        and (_DIGIT.search(value) is not None or _STREET_SIGN.match(value) is not None)
        and _STREET.fullmatch(value.strip()) is not None
    )


def may_show(text: str) -> bool:
    """Returns False if a text holds no given name, no title and no street: no value in it shows what it is."""
    if not text.isascii():
        return True
    if not _SHOWN.isdisjoint(_LETTERS.findall(text.lower())):
        return True
    return " " in text and (_DIGIT.search(text) is not None or _STREET_WORD_AHEAD.search(text) is not None)


def is_login(value: str) -> bool:
    """True if the value could be a login name: small letters, digits and dots, no word of another kind."""
    return (
        2 <= len(value) <= 32
        and _LOGIN.fullmatch(value) is not None
        and value not in _OTHERS
        and not is_blank(value)
        and not value.isdigit()
    )


def is_random(value: str) -> bool:
    """True if the value looks like a key or a token: long, without spaces, letters and digits mixed, no UUID."""
    return (
        len(value) >= 16
        and not any(each.isspace() for each in value)
        and any(each.isdigit() for each in value)
        and any(each.isalpha() for each in value)
        and not value.startswith(("http:", "https:", "/"))
        and _UUID.fullmatch(value) is None
    )


def may_be_private(name: str, value: str) -> bool:
    """Returns False if neither its name nor this value can make a field private.

    A record in which that is so of every field has nothing private by name, and need not be looked at together.
    """
    meaning = read_name(name)
    if meaning.kind and meaning.kind != "named?":
        return True
    if meaning.is_thing:
        return False
    if " " in value and (is_street(value) or is_full_name(value)):
        return True
    return meaning.is_number and has_given_name(value)


def is_full_name(value: str) -> bool:
    """True if the value is a given name and one or more others."""
    return " " in value.strip() and is_name(value) and has_given_name(value)
