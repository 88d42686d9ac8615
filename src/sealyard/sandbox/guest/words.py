"""The guest's wording for people and models: short, bounded, and safe on hostile classes.

Standard library only.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SCALARS = frozenset({str, int, float, bool, type(None)})
LIBRARY = """
    ast asyncio base64 bisect calendar cmath collections collections.abc concurrent.futures contextlib copy csv
    dataclasses datetime decimal difflib enum fnmatch fractions functools glob gzip hashlib heapq hmac html io
    ipaddress itertools json logging math operator os os.path pathlib pickle pprint queue random re secrets shlex
    shutil statistics string struct subprocess sys tempfile textwrap threading time traceback types typing unicodedata
    urllib.parse urllib.request uuid warnings weakref zlib zoneinfo
""".split()
"""The modules whose functions people call without importing them."""
ELSEWHERE = (
    *("np", "pd", "pl", "dt", "plt", "duckdb", "numpy", "pandas", "polars", "scipy", "sns", "requests", "tqdm"),
    *("DataFrame", "Series", "array", "arange", "linspace", "zeros", "ones", "concat", "merge", "pivot_table"),
    *("read_csv", "read_excel", "read_json", "read_parquet", "to_datetime", "to_numeric"),
    *("true", "false", "null", "none", "undefined", "nil", "NULL", "console", "require", "display", "get_ipython"),
    *("basestring", "execfile", "file", "long", "raw_input", "reload", "unichr", "unicode", "xrange"),
)
"""Names of packages for data, of notebooks, of other languages and of Python 2."""

_NAME_CHARACTERS = 60  # of a class or a key in a message: longer ones are generated
_TEXT_CHARACTERS = 40  # of a text in quotes: escapes may make it longer


def _encoder() -> Callable[[object], str]:
    """A function that writes plain data as compact JSON, without what `json` makes anew for each value."""
    slow = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the accelerator
        return slow.encode
    chunks = make(None, slow.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    join = "".join
    return lambda value: join(chunks(value, 0))


dumps = _encoder()

# Read past a definition of this name by a hostile metaclass.
_raw_name: Callable[[type], str] = type.__dict__["__name__"].__get__


def name_of(kind: type) -> str:
    """The class's own name, bounded."""
    return cut(str.__str__(_raw_name(kind)), _NAME_CHARACTERS)


def shown(key: object) -> str:
    """A key as an error message shows it."""
    return cut(repr(key), _NAME_CHARACTERS) if type(key) in SCALARS else f"one of type {name_of(type(key))}"


def quoted(text: str) -> str:
    """The beginning of a text, in quotes."""
    return cut(dumps(cut(text, _TEXT_CHARACTERS)), _NAME_CHARACTERS)


def cut(text: str, characters: int) -> str:
    """The text in at most `characters`."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def count(number: int, noun: str) -> str:
    """A number of things in words, such as `1 item` and `2 items`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
