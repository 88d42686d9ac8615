"""Hints for failures: facts that a model cannot know without running code, and fixes of frequent mistakes.

Such facts are the keys of an object, the parameters of a tool, the home of a name and the files of the workspace.
Values are the agent's own and hostile; of a dict, only keys that look like names of fields are shown. Standard
library only.

Nothing is run to find a value: only plain dicts, lists and modules are looked into.
"""

import ast
import builtins
import difflib
import importlib
import inspect
import itertools
import os
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import tools
import words

_UNKNOWN = object()
"""Marks a value that cannot be found."""

_KEYS_NAMED = 12  # named in a hint: most objects of tools have fewer, and a hint stays one line
_KEYS_READ = 200  # of a dict, which may be huge: a record has fewer
_SEGMENT_BYTES = 4_000  # of an expression that is parsed again: longer ones are data, not one mistake
_SOURCE_BYTES = 64 << 10  # of code that is parsed again: a few milliseconds
_STEPS = 12  # of attribute and item access followed in one expression: written code has fewer
_FIELD_CHARACTERS = 40  # of a key that is shown: longer ones are data
# A key that begins with a capital letter may be the name of a person.
_FIELD = re.compile(r"[@$]?[a-z_][\w$]*(?:-[\w$]+)*")
_DATA = re.compile(r"\d{4}|^(?=[a-fA-F_-]*\d)[0-9a-fA-F_-]{8,}$|(?i:__PII_)")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_FILES_READ = 500  # of a workspace, for the path that was meant: walking more would delay the report
_NAME_CHARACTERS = 80  # of a name that is compared with others, which costs the product of both lengths
_HOMES_SHOWN = 3  # tools of one name: the model chooses among them
_WORDS = {"true": "True", "false": "False", "null": "None", "undefined": "None", "nil": "None", "NULL": "None"}
_ALIASES = {"np": "numpy", "pd": "pandas", "pl": "polars", "dt": "datetime"}
_HOMES = {
    **dict.fromkeys(("datetime", "date", "timedelta", "timezone"), "datetime"),
    **dict.fromkeys(("Counter", "defaultdict", "deque", "namedtuple", "OrderedDict"), "collections"),
    **dict.fromkeys(("chain", "groupby", "islice", "product", "combinations", "accumulate"), "itertools"),
    **dict.fromkeys(("reduce", "partial", "lru_cache"), "functools"),
    **dict.fromkeys(("mean", "median", "stdev"), "statistics"),
    **dict.fromkeys(("sqrt", "ceil", "floor"), "math"),
    **dict.fromkeys(("itemgetter", "attrgetter"), "operator"),
    "Any": "typing",
    "Decimal": "decimal",
    "Path": "pathlib",
    "StringIO": "io",
    "dataclass": "dataclasses",
    "pprint": "pprint",
    "sleep": "time",
}
_NONE = "It is None here: check for None first, or give a default such as `(… or {})`."
_AWAIT = "It is a coroutine, not its value: write `await` before the call."
_FILES = "Only files of the workspace, the current directory, can be opened; nothing of the host exists here."


class Place:
    """The place of a failure in the agent's code: the expression that failed, and the names around it."""

    def __init__(self, frame: types.FrameType | None, position: Any, source: list[str]) -> None:
        self._frame = frame
        self._source = source
        self.node = _node(position, source)

    def value(self, node: ast.AST | None, steps: int = _STEPS) -> Any:
        """The value of an expression, found without running anything; `_UNKNOWN` if that fails."""
        if self._frame is None or not steps:
            return _UNKNOWN
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                for names in (self._frame.f_locals, self._frame.f_globals, self._frame.f_builtins):
                    if node.id in names:
                        return names[node.id]
            case ast.Subscript():
                return _item(self.value(node.value, steps - 1), self.value(node.slice, steps - 1))
            case ast.Attribute():
                owner = self.value(node.value, steps - 1)
                return vars(owner).get(node.attr, _UNKNOWN) if isinstance(owner, types.ModuleType) else _UNKNOWN
            case ast.Await():
                return self.value(node.value, steps - 1)
        return _UNKNOWN

    def owner(self) -> Any:
        """The object that was subscripted, called or asked for an attribute."""
        match self.node:
            case ast.Subscript() | ast.Attribute():
                return self.value(self.node.value)
            case ast.Call(func=ast.Attribute() as function):
                return self.value(function.value)
        return _UNKNOWN

    def looped_dict(self, names: Iterable[str] = ()) -> dict[Any, Any] | None:
        """The dict that a loop around here goes over itself, for these names if any are given."""
        wanted = set(names)
        for node in ast.walk(_tree("".join(self._source))):
            if isinstance(node, ast.For | ast.comprehension):
                targets = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
                looped = self.value(node.iter) if not wanted or targets & wanted else _UNKNOWN
                if type(looped) is dict:
                    return looped
        return None

    def names(self) -> list[str]:
        """Every name that code could have meant here."""
        around = {} if self._frame is None else {**self._frame.f_globals, **self._frame.f_locals}
        return [name for name in (*around, *vars(builtins)) if not name.startswith("_")]


def way_out(error: BaseException, message: str, place: Place) -> str | None:
    """Advice on an exception, if it is one of the common mistakes."""
    for kind, pattern, answer in _ANSWERS:
        if isinstance(error, kind) and (found := re.search(pattern, message)):
            advice = answer(error, found, place) if callable(answer) else answer
            if advice:
                return advice
    return None


# Keys, attributes and items


def _key_error(error: Any, found: re.Match[str], place: Place) -> str | None:
    owner, key = place.owner(), error.args[0] if error.args else None
    keys = _fields(owner)
    if not keys:
        return "It is an empty dict." if type(owner) is dict and not owner else None
    if isinstance(key, int):
        return f"It is a dict, not a list. {_listed(keys)}"
    near = _nearest(key, keys) if isinstance(key, str) else None
    return f"The nearest key is {near!r}. {_listed(keys)}" if near else _listed(keys)


def _attribute_error(error: Any, found: re.Match[str], place: Place) -> str | None:
    owner, name = getattr(error, "obj", None), getattr(error, "name", None)
    if not isinstance(name, str):
        return None
    if inspect.iscoroutine(owner):
        return _AWAIT
    if type(owner) is dict:
        keys = _fields(owner)
        near = _nearest(name, keys)
        way = f"write [{near!r}]" if near else "its values are read with [...]"
        return f"It is a dict: {way}. {_listed(keys)}".strip()
    if type(owner) is list:
        near = _nearest(name, _fields(owner[0]) if owner else [], cutoff=0.8)
        return _about_list(owner) if near or name in ("get", "items", "keys", "values") else None
    if isinstance(owner, types.ModuleType):
        title = owner.__name__
        inside = vars(owner).get(title)  # as in `datetime`, whose class has the name of its module
        if isinstance(inside, type) and hasattr(inside, name):
            return f"It belongs to a class of the module: write {title}.{title}.{name}."
    return None


def _about_list(owner: list[Any]) -> str:
    keys = _fields(owner[0]) if owner else []
    return f"It is a list of {len(owner)}: loop over it, or take one with [0]. {_listed(keys, 'Items have')}".strip()


def _list_subscript(error: Any, found: re.Match[str], place: Place) -> str | None:
    owner = place.owner()
    return _about_list(owner) if type(owner) is list else "It is a list: loop over it, or take one item with [0]."


def _text_subscript(error: Any, found: re.Match[str], place: Place) -> str | None:
    owner = place.owner()
    match place.node:
        case ast.Subscript(value=ast.Name(id=name)) if (looped := place.looped_dict((name,))) is not None:
            return _keys_looped(looped)
    if type(owner) is str and owner.lstrip()[:1] in ("{", "["):
        return "It is JSON text: read it with `json.loads(…)` first."
    return "It is text, not a dict: look at what it holds, and parse it if it is JSON (`json.loads`)."


def _keys_looped(looped: dict[Any, Any]) -> str:
    lists = [key for key in _fields(looped) if type(looped[key]) is list]
    if len(lists) == 1:
        return f"A loop over a dict gives its keys; its list is in [{lists[0]!r}]."
    return f"A loop over a dict gives its keys: use `.values()` or `.items()`. {_listed(_fields(looped))}".strip()


def _unpacked(error: Any, found: re.Match[str], place: Place) -> str | None:
    is_loop = place.looped_dict() is not None
    return "A loop over a dict gives its keys: use `.items()` for pairs." if is_loop else None


def _index_error(error: Any, found: re.Match[str], place: Place) -> str | None:
    owner = place.owner()
    if type(owner) in (list, tuple, str) and owner:
        return f"It has {len(owner)} items; the last is [-1]."
    is_empty = type(owner) in (list, tuple, str) or "empty" in found.string
    return "It is empty: check that before taking one." if is_empty else None


def _division(error: Any, found: re.Match[str], place: Place) -> str | None:
    if isinstance(place.node, ast.BinOp) and not isinstance(place.node.right, ast.Constant):
        return f"`{ast.unparse(place.node.right)[:_NAME_CHARACTERS]}` is 0 here: check that before dividing."
    return None


# Calls


def _keyword(error: Any, found: re.Match[str], place: Place) -> str | None:
    known = _parameters(place)
    if not known:
        return None
    near = _nearest(found[1], known)
    return f"Did you mean {near}=? It takes {_joined(known)}." if near else f"It takes {_joined(known)}."


def _too_many(error: Any, found: re.Match[str], place: Place) -> str | None:
    known = _parameters(place)
    return f"Name the arguments: it takes {_joined(known)}." if known else None


def _missing(error: Any, found: re.Match[str], place: Place) -> str | None:
    names = [name for name in re.findall(r"'(\w+)'", found[1]) if _is_field_name(name)]
    known = _parameters(place)
    given = [word.arg for word in place.node.keywords if word.arg] if isinstance(place.node, ast.Call) else []
    for wrong in [name for name in given if known and name not in known]:
        if (near := _nearest(wrong, names)) is not None:
            return f"Did you mean {near}=, not {wrong[:_NAME_CHARACTERS]}=? It takes {_joined(known)}."
    return f"It also needs {_joined(names)}." if names else None


def _parameters(place: Place) -> list[str]:
    function = place.value(place.node.func) if isinstance(place.node, ast.Call) else _UNKNOWN
    if not isinstance(function, types.FunctionType):
        return []
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


# Names and files


def _name_error(error: Any, found: re.Match[str], place: Place) -> str | None:
    name = error.name
    if isinstance(error, UnboundLocalError):
        return "The function gives it a value later on, so that it is local: pass it in, or declare it `global`."
    if not isinstance(name, str):
        return None
    if name in _WORDS:
        return f"Python writes {_WORDS[name]}."
    # Python's own first: a server could give a tool the name of what people forget to import.
    if name in _ALIASES:
        return f"Import it first: `import {_ALIASES[name]} as {name}`."
    if name in _HOMES:
        return f"Import it first: `from {_HOMES[name]} import {name}`."
    if name in sys.stdlib_module_names:
        return f"Import it first: `import {name}`."
    if homes := tools.homes(name):
        # Only now: it imports what few runs need.
        for module in words.LIBRARY:
            if name in vars(importlib.import_module(module)):
                return f"Import it first: `from {module} import {name}`."
        homes = [] if name in words.ELSEWHERE else homes
    if homes:
        ways = " or ".join(f"`from {tools.ROOT}.{home} import {name}`" for home in homes[:_HOMES_SHOWN])
        return f"Import it first: {ways}."
    near = next(iter(difflib.get_close_matches(name[:_NAME_CHARACTERS], place.names(), n=1)), None)
    return f"Did you mean {near!r}?" if near else None


def _file_missing(error: Any, found: re.Match[str], place: Place) -> str | None:
    wanted = error.filename
    if not isinstance(wanted, str):
        return _FILES
    files = _files()
    last = wanted.rstrip("/").rpartition("/")[2]
    same = [file for file in files if file.rpartition("/")[2] == last and file != wanted]
    if near := same or difflib.get_close_matches(wanted[:_NAME_CHARACTERS], files, n=1):
        return f"{_FILES} The nearest is {near[0]!r}."
    folder = os.path.dirname(wanted)
    if folder and not os.path.isabs(wanted) and not os.path.isdir(folder):
        return f"{_FILES} There is no such folder: `os.makedirs(…, exist_ok=True)` makes it."
    return _FILES if files else f"{_FILES} It has no files yet."


def _files() -> list[str]:
    """Files of the workspace, the nearest to its top first."""
    found: list[str] = []
    for folder, inner, names in os.walk("."):
        inner.sort()
        found += [os.path.normpath(os.path.join(folder, name)) for name in sorted(names)]
        if len(found) >= _FILES_READ:
            break
    return found[:_FILES_READ]


_MISSING = r"missing (?:a|\d+) required (?:positional |keyword-only )?arguments?: ((?:'\w+'(?:, and | and |, )?)+)"
_OPERATION = r"^(?:unsupported operand|'\S+' not supported between|can only concatenate).*"
_Answer = str | Callable[[Any, re.Match[str], Place], str | None]
_ANSWERS: tuple[tuple[type[BaseException], str, _Answer], ...] = (
    (KeyError, r"", _key_error),
    (IndexError, r"", _index_error),
    (AttributeError, r"^'NoneType'", _NONE),
    (AttributeError, r"", _attribute_error),
    (NameError, r"", _name_error),
    (FileNotFoundError, r"", _file_missing),
    (
        ModuleNotFoundError,
        r"",
        "Only the standard library and the packages of the guest environment are installed here.",
    ),
    (ZeroDivisionError, r"", _division),
    (TypeError, r"'coroutine'|(?:not|type) coroutine\b", _AWAIT),
    (
        TypeError,
        rf"{_OPERATION}NoneType",
        "One of them is None: leave such rows out, or use a default such as `(x or 0)`.",
    ),
    (TypeError, r"NoneType|must be str, not None", _NONE),
    (TypeError, rf"{_OPERATION}'decimal\.Decimal'", "Make both Decimal: `Decimal(str(x))`."),
    (
        TypeError,
        rf"{_OPERATION}'dict' and 'dict'",
        "Dicts have no such order or sum: sort by a field with `key=lambda row: row[…]`, join with `|`.",
    ),
    (
        TypeError,
        rf"{_OPERATION}(?:'str' and 'datetime|'datetime\S+' and 'str')",
        "Parse the text first: `datetime.fromisoformat(…)`, or `date.fromisoformat(…)`.",
    ),
    (
        TypeError,
        rf"{_OPERATION}\bstr\b",
        "Convert one of them: `float(…)` or `int(…)` to get a number, `str(…)` or an f-string to get text.",
    ),
    (TypeError, r"^(?:list|tuple) indices must be integers or slices, not str", _list_subscript),
    (TypeError, r"^string indices must be integers", _text_subscript),
    (
        TypeError,
        r"'(?:generator|map|filter|zip|set|frozenset|dict_\w+)' (?:object is not subscriptable|has no len)",
        "Make a list of it first: `list(…)`.",
    ),
    (TypeError, r"unexpected keyword argument '(\w+)'", _keyword),
    (TypeError, _MISSING, _missing),
    (TypeError, r"takes (?:from )?\d+ .*positional arguments?|too many positional arguments", _too_many),
    (TypeError, r"^the JSON object must be str, bytes", "It is data already: leave out `json.loads`."),
    (TypeError, r"^Object of type (?:\w*set|dict_\w+) is not JSON", "Make a list of it: `sorted(…)` or `list(…)`."),
    (
        TypeError,
        r"^Object of type \w+ is not JSON",
        "Use `json.dumps(…, default=str)`, or convert the value first.",
    ),
    (TypeError, r"^unhashable type: '(list|set)'", "Make it a tuple first: `tuple(…)`."),
    (TypeError, r"^sequence item \d+: expected str instance", "Join texts only: `', '.join(map(str, items))`."),
    (TypeError, r"can't (?:compare|subtract) offset-naive", "Give both a time zone: `.replace(tzinfo=timezone.utc)`."),
    (TypeError, r"'async (?:for|with)'|asynchronous (?:context|iter)", "Leave out `async`: tools give plain values."),
    (
        Exception,
        r"^a coroutine was expected|^An asyncio.Future, a coroutine",
        "Leave out `asyncio.run`: use the value as it is.",
    ),
    (TypeError, r"expected str, bytes or os.PathLike object, not dict", "A file's path is in its field 'file'."),
    (ValueError, r"^(?:too many|not enough) values to unpack", _unpacked),
    (
        ValueError,
        r"(?:int\(\) with base \d+|to float): '-?[\d.]*,[\d.,]*'$",
        "Take out the commas first: `.replace(',', '')`.",
    ),
    (
        ValueError,
        r"^time data .* does not match format|^unconverted data remains",
        "`datetime.fromisoformat(…)` reads ISO dates and times; else let the format be that of the text.",
    ),
    (RuntimeError, r"changed size during iteration", "Loop over a copy: `list(…)`."),
    (StopIteration, r"", "Nothing was left: give a default, `next(…, None)`."),
)
"""The first row whose class and pattern fit, and that has an answer, gives the hint."""


# Places and names


def place_of(frame: types.FrameType | None, lasti: int, source: list[str]) -> Place:
    """The place of a frame's instruction in its source."""
    position = None
    if frame is not None and lasti >= 0:
        position = next(itertools.islice(frame.f_code.co_positions(), lasti // 2, None), None)
    return Place(frame, position, source)


def _nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name most like `name`: the same letters, then a similar spelling, then a word in common."""
    names = {_squeezed(each): each for each in reversed(list(known)[:_KEYS_READ])}
    squeezed = _squeezed(name[:_NAME_CHARACTERS])
    if squeezed in names:
        return names[squeezed]
    close = difflib.get_close_matches(squeezed, list(names), n=1, cutoff=cutoff)
    if close:
        return names[close[0]]
    words = {word.lower() for word in _WORD.findall(name[:_NAME_CHARACTERS])}
    shared = [each for each in names.values() if words & {word.lower() for word in _WORD.findall(each)}]
    return shared[0] if len(shared) == 1 else None


def _squeezed(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _fields(value: Any) -> list[str]:
    """The keys of a dict, or the columns of a table, that look like names of fields."""
    if type(value) is dict:
        keys = list(itertools.islice(value, _KEYS_READ))
    elif type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pandas"):
        keys = list(value.columns[:_KEYS_READ])
    else:
        return []
    return [key for key in keys if type(key) is str and _is_field_name(key)]


def _is_field_name(key: str) -> bool:
    """True if a key looks like the name of a field, and not like data."""
    return len(key) <= _FIELD_CHARACTERS and _FIELD.fullmatch(key) is not None and _DATA.search(key) is None


def _listed(keys: list[str], subject: str = "It has") -> str:
    """A sentence that names the keys; nothing if there are none."""
    return f"{subject} the keys {_joined(keys)}." if keys else ""


def _joined(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f", and {len(names) - _KEYS_NAMED} more" if len(names) > _KEYS_NAMED else ""
    return ", ".join(names[:_KEYS_NAMED]) + more


def _item(owner: Any, key: Any) -> Any:
    try:
        return owner[key] if type(owner) in (dict, list, tuple) and type(key) in (str, int) else _UNKNOWN
    except (KeyError, IndexError):
        return _UNKNOWN


def _node(position: Any, source: list[str]) -> ast.AST | None:
    """The expression at a position, parsed from its text."""
    if position is None or None in position:
        return None
    first, last, start, end = position
    lines = [line.encode() for line in source[first - 1 : last]]
    if not lines:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = b"".join(lines)
    if len(text) > _SEGMENT_BYTES:
        return None
    try:
        return ast.parse(f"({text.decode()})", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _tree(source: str) -> ast.AST:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree: ast.AST = compile(source[:_SOURCE_BYTES], "<agent>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])
    return tree
