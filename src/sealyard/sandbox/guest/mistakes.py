"""Mistakes that agents make often, recognized from the exception and its values, and the way out of each.

Values are the agent's own and hostile; of a dict, only keys that look like names of fields are shown. Standard
library only.
"""

import ast
import builtins
import difflib
import inspect
import json
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import tools
from place import UNKNOWN, Place, fields, is_field_name, joined, listed, nearest

_FILES_READ = 500  # in a workspace, to suggest the path that was meant
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
_METHODS = {
    ("list", "add"): "append",
    ("list", "push"): "append",
    ("dict", "iteritems"): "items",
    ("dict", "has_key"): "get",
    ("str", "contains"): "find",
    ("str", "toLowerCase"): "lower",
    ("str", "toUpperCase"): "upper",
    ("str", "trim"): "strip",
    ("set", "append"): "add",
    ("json", "parse"): "loads",
    ("json", "stringify"): "dumps",
}
_NONE = "It is None here: check for None first, or give a default such as `(… or {})`."
_AWAIT = "It is a coroutine, not its value: write `await` before the call."
_ITEMS = "Items have"
_LAZY = ("generator", "map", "filter", "zip", "set", "dict_keys", "dict_values", "dict_items", "frozenset")
_KIND_ADVICE = {
    "NoneType": _NONE,
    "coroutine": _AWAIT,
    **dict.fromkeys(("function", "method", "builtin_function_or_method"), "It is a function: call it with ()."),
    **dict.fromkeys(_LAZY, "Make a list of it first: `list(…)`."),
}
"""For a value of this type where another one is needed."""


def way_out(error: BaseException, message: str, place: Place) -> str | None:
    """Advice on an exception, if it is one of the common mistakes."""
    for kind, advise in _KINDS:
        if isinstance(error, kind) and (advice := advise(error, message, place)):
            return advice
    for kind, pattern, answer in _MESSAGES:
        if isinstance(error, kind) and (found := re.search(pattern, message)):
            advice = answer(found, place) if callable(answer) else answer
            if advice:
                return advice
    return None


# Keys and attributes


def _key_error(error: Any, message: str, place: Place) -> str | None:
    owner, key = place.owner(), error.args[0] if error.args else None
    keys = fields(owner)
    if not keys:
        return "It is an empty dict." if type(owner) is dict and not owner else None
    if isinstance(key, int):
        return f"It is a dict, not a list. {listed(keys)}"
    return _nearest_key(key, keys) if isinstance(key, str) else listed(keys)


def _nearest_key(key: str, keys: list[str]) -> str:
    near = nearest(key, keys)
    return f"The nearest key is {near!r}. {listed(keys)}" if near else listed(keys)


def _attribute_error(error: Any, message: str, place: Place) -> str | None:
    owner, name = getattr(error, "obj", None), getattr(error, "name", None)
    if not isinstance(name, str):
        return None
    if owner is None:
        return _NONE if "'NoneType'" in message else None
    if inspect.iscoroutine(owner):
        return _AWAIT
    if type(owner) is dict:
        keys = fields(owner)
        near = nearest(name, keys)
        method = _method(owner, name) if near != name else None
        if near is not None and method is None:
            return f"It is a dict: write [{near!r}]. {listed(keys)}"
        return method or f"It is a dict: its values are read with [...]. {listed(keys)}".strip()
    if type(owner) is list:
        keys = fields(owner[0]) if owner else []
        near = nearest(name, keys, cutoff=0.8)
        if near is not None or name in ("get", "items", "keys", "values"):
            return f"It is a list of {len(owner)}: loop over it, or take one with [0]. {listed(keys, _ITEMS)}".strip()
    if isinstance(owner, types.ModuleType):
        return _module_attribute(owner, name)
    if isinstance(owner, types.FunctionType):
        return "It is a function: call it with () and use what it returns."
    return _method(owner, name)


def _method(owner: Any, name: str) -> str | None:
    kind = type(owner)
    if name in ("length", "size", "count") and kind in (list, dict, str, set, tuple):
        return "Write `len(…)`."
    known = _METHODS.get((kind.__name__, name)) or nearest(name, [each for each in dir(kind) if each[0] != "_"])
    return f"Did you mean .{known}?" if known else None


def _module_attribute(module: types.ModuleType, name: str) -> str | None:
    title = str(vars(module).get("__name__", ""))
    if not is_field_name(title.rpartition(".")[2]) or title.startswith(tools.ROOT):
        return None
    inside = [
        key
        for key, kind in vars(module).items()
        if isinstance(kind, type) and name in vars(kind) and is_field_name(key) and not name.startswith("_")
    ]
    if inside:
        best = title if title in inside else inside[0]
        return f"It belongs to a class of the module: write {title}.{best}.{name}."
    public = [key for key in vars(module) if not key.startswith("_")]
    near = _METHODS.get((title, name)) or nearest(name, public)
    return f"Did you mean {title}.{near}?" if near else None


def _text_subscript(found: re.Match[str], place: Place) -> str | None:
    owner = place.owner()
    match place.node:
        case ast.Subscript(value=ast.Name(id=name)) if (looped := place.looped_dict((name,))) is not None:
            return _keys_looped(looped)
    if type(owner) is str and owner.lstrip()[:1] in ("{", "["):
        return "It is JSON text: read it with `json.loads(…)` first."
    return "It is text, not a dict: look at what it holds, and parse it if it is JSON (`json.loads`)."


def _keys_looped(looped: dict[Any, Any]) -> str:
    lists = [key for key in fields(looped) if type(looped[key]) is list]
    if len(lists) == 1:
        return f"A loop over a dict gives its keys; its list is in [{lists[0]!r}]."
    return f"A loop over a dict gives its keys: use `.values()` or `.items()`. {listed(fields(looped))}".strip()


def _list_subscript(found: re.Match[str], place: Place) -> str | None:
    owner = place.owner()
    if found[1] in ("float", "float64"):
        return "Take a whole number: `//` divides into one, or `int(…)`."
    if type(owner) is not list:
        return "It is a list: loop over it, or take one item with [0]."
    keys = fields(owner[0]) if owner else []
    return f"It is a list of {len(owner)}: loop over it, or take one with [0]. {listed(keys, _ITEMS)}".strip()


def _not_subscriptable(found: re.Match[str], place: Place) -> str | None:
    is_single = found[1] in ("int", "float", "bool")
    return "It is a single value, not a list or dict: use it as it is." if is_single else _KIND_ADVICE.get(found[1])


def _not_iterable(found: re.Match[str], place: Place) -> str | None:
    if found[1] in ("int", "float"):
        return "It is one number: `range(n)` counts up to it."
    return _KIND_ADVICE.get(found[1])


def _not_callable(found: re.Match[str], place: Place) -> str | None:
    function = place.node.func if isinstance(place.node, ast.Call) else None
    if found[1] == "module":
        module = place.value(function)
        title = getattr(module, "__name__", "") if isinstance(module, types.ModuleType) else ""
        inside = vars(module) if title else {}
        near = title.rpartition(".")[2]
        if title.startswith(f"{tools.ROOT}."):
            return f"It is a server's module: call one of its tools, such as {near}.{next(iter(dir(module)), '…')}(…)."
        return (
            f"It is a module: write {title}.{near}(…)." if near in inside else "It is a module: call a function of it."
        )
    if isinstance(function, ast.Name) and function.id in vars(builtins):
        return f"The code gave the name {function.id!r} another value, which hides the built-in: use another name."
    if found[1] in ("dict", "list", "str", "int", "float", "NoneType"):
        return f"It is a {found[1]}, not a function: take its items with [], or use another name for the value."
    return None


# Operators


def _mixed(found: re.Match[str], place: Place) -> str | None:
    kinds = {found[1], found[2]}
    if "NoneType" in kinds:
        return "One of them is None: leave such rows out, or use a default such as `(x or 0)`."
    if "coroutine" in kinds:
        return _AWAIT
    if "decimal.Decimal" in kinds:
        return "Make both Decimal: `Decimal(str(x))`."
    if kinds & {"datetime.datetime", "datetime.date"}:
        return (
            "Parse the text first: `datetime.fromisoformat(…)`, or `date.fromisoformat(…)`."
            if "str" in kinds
            else "Make both the same kind: `.date()` turns a datetime into a date."
        )
    if kinds == {"dict"}:
        return "Dicts have no such order or sum: sort by a field with `key=lambda row: row[…]`, join with `|`."
    if "list" in kinds and "str" not in kinds:
        return "One of them is a list: take its items, or make both lists."
    if "str" in kinds:
        return f"Convert one of them: {_conversion(place)}."
    return None


def _conversion(place: Place) -> str:
    """`float(…)` where the text is a number and numbers were meant; both ways if that is unclear."""
    if isinstance(place.node, ast.BinOp | ast.Compare):
        sides = [
            place.node.left,
            *([place.node.right] if isinstance(place.node, ast.BinOp) else place.node.comparators),
        ]
        texts = [value for side in sides if type(value := place.value(side)) is str]
        if texts and all(re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", text) for text in texts):
            return "`float(…)` or `int(…)` makes a number of the text"
    return "`str(…)` or an f-string to get text, `float(…)` or `int(…)` to get a number"


def _unpacked(found: re.Match[str], place: Place) -> str | None:
    if place.looped_dict() is not None:
        return "A loop over a dict gives its keys: use `.items()` for pairs."
    return "The parts are not as many as the names: look at one item; `enumerate(…)` gives numbered ones."


# Calls


def _keyword(found: re.Match[str], place: Place) -> str | None:
    known = _parameters(place)
    if not known:
        return None
    near = nearest(found[1], known)
    return f"Did you mean {near}=? It takes {joined(known)}." if near else f"It takes {joined(known)}."


def _too_many(found: re.Match[str], place: Place) -> str | None:
    known = _parameters(place)
    return f"Name the arguments: it takes {joined(known)}." if known else None


def _missing(found: re.Match[str], place: Place) -> str | None:
    names = [name for name in re.findall(r"'(\w+)'", found[1]) if is_field_name(name)]
    known = _parameters(place)
    given = [word.arg for word in place.node.keywords if word.arg] if isinstance(place.node, ast.Call) else []
    for wrong in [name for name in given if known and name not in known]:
        if (near := nearest(wrong, names)) is not None:
            return f"Did you mean {near}=, not {wrong[:40]}=? It takes {joined(known)}."
    return f"It also needs {joined(names)}." if names else None


def _parameters(place: Place) -> list[str]:
    if not isinstance(place.node, ast.Call):
        return []
    function = place.value(place.node.func)
    if function is UNKNOWN and isinstance(place.node.func, ast.Attribute):
        module = place.value(place.node.func.value)
        if isinstance(module, types.ModuleType):
            function = vars(module).get(place.node.func.attr, UNKNOWN)
    if not isinstance(function, types.FunctionType):
        return []
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _already_data(found: re.Match[str], place: Place) -> str | None:
    if found[1] in ("list", "dict", "int", "float", "bool"):
        return "It is data already: leave out `json.loads`."
    general = "`json.load(…)` reads a file; `json.loads(…)` reads text."
    return {"NoneType": _NONE, "coroutine": _AWAIT}.get(found[1], general)


def _not_serializable(found: re.Match[str], place: Place) -> str | None:
    if found[1] in ("set", "frozenset", "dict_keys", "dict_values"):
        return "Make a list of it: `sorted(…)` or `list(…)`."
    if found[1] in ("datetime", "date", "time"):
        return "Use `.isoformat()`, or `json.dumps(…, default=str)`."
    return "Use `json.dumps(…, default=str)`, or convert the value first."


# Names, modules and files


def _name_error(error: Any, message: str, place: Place) -> str | None:
    name = error.name
    if isinstance(error, UnboundLocalError):
        return "The function gives it a value later on, so that it is local: pass it in, or declare it `global`."
    if not isinstance(name, str):
        return None
    if name in _WORDS:
        return f"Python writes {_WORDS[name]}."
    homes = tools.homes(name)
    if homes:
        return (
            "Import it first: " + " or ".join(f"`from {tools.ROOT}.{home} import {name}`" for home in homes[:3]) + "."
        )
    if name in _ALIASES:
        return f"Import it first: `import {_ALIASES[name]} as {name}`."
    if name in _HOMES:
        return f"Import it first: `from {_HOMES[name]} import {name}`."
    if name in sys.stdlib_module_names:
        return f"Import it first: `import {name}`."
    near = next(iter(difflib.get_close_matches(name[:80], place.names(), n=1)), None)
    return f"Did you mean {near!r}?" if near else None


def _module_missing(error: Any, message: str, place: Place) -> str | None:
    name = error.name if isinstance(error.name, str) else ""
    near = next(iter(difflib.get_close_matches(name[:80], sorted(sys.stdlib_module_names), n=1, cutoff=0.75)), None)
    asked = f" Did you mean {near!r}?" if near and near != name else ""
    return f"Only the standard library and the packages of the guest environment are installed here.{asked}"


def _import_error(error: Any, message: str, place: Place) -> str | None:
    found = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", message)
    module = sys.modules.get(found[2]) if found else None
    if found is None or module is None:
        return None
    near = nearest(found[1], [name for name in vars(module) if not name.startswith("_")])
    return f"Did you mean `from {found[2]} import {near}`?" if near else None


def _file_missing(error: Any, message: str, place: Place) -> str | None:
    general = "Only files of the workspace, the current directory, can be opened; nothing of the host exists here."
    wanted = error.filename
    if not isinstance(wanted, str):
        return general
    files = _files()
    last = wanted.rstrip("/").rpartition("/")[2]
    same = [file for file in files if file.rpartition("/")[2] == last and file != wanted]
    near = same[0] if same else next(iter(difflib.get_close_matches(wanted[:100], files, n=1)), None)
    if near is not None:
        return f"{general} The nearest is {near!r}."
    folder = os.path.dirname(wanted)
    if folder and not os.path.isabs(wanted) and not os.path.isdir(folder):
        return f"{general} There is no such folder: `os.makedirs(…, exist_ok=True)` makes it."
    return f"{general} It has no files yet." if not files else general


def _files() -> list[str]:
    """Files of the workspace, the nearest to its top first."""
    found: list[str] = []
    for folder, inner, names in os.walk("."):
        inner.sort()
        found += [os.path.normpath(os.path.join(folder, name)) for name in sorted(names)]
        if len(found) >= _FILES_READ:
            break
    return found[:_FILES_READ]


def _index_error(error: Any, message: str, place: Place) -> str | None:
    owner = place.owner()
    if type(owner) in (list, tuple, str):
        return (
            f"It has {len(owner)} items; the last is [-1]." if owner else "It is empty: check that before taking one."
        )
    return "It is empty: check that before taking one." if "empty" in message else None


def _division(error: Any, message: str, place: Place) -> str | None:
    if isinstance(place.node, ast.BinOp) and not isinstance(place.node.right, ast.Constant):
        return f"`{ast.unparse(place.node.right)[:80]}` is 0 here: check that before dividing."
    return None


def _bad_json(error: Any, message: str, place: Place) -> str | None:
    text = error.doc if isinstance(getattr(error, "doc", None), str) else ""
    start = text.lstrip()[:2]
    if not start:
        return "The text is empty: check that before parsing."
    if message.startswith("Extra data"):
        return "It holds several JSON values: `[json.loads(line) for line in text.splitlines()]` reads one a line."
    if start[:1] == "<":
        return "The text is HTML or XML, not JSON."
    if start in ("{'", "['"):
        return "The text is Python's, not JSON: `ast.literal_eval(…)` reads it."
    return None if start[:1] in ("{", "[") else "The text is not JSON: use it as text."


def _number_text(found: re.Match[str], place: Place) -> str | None:
    text = found[1].strip()
    if not text:
        return "The text is empty: leave such rows out, or use a default."
    if re.fullmatch(r"-?[\d,.]*\d", text):
        return "Take out the commas first: `.replace(',', '')`." if "," in text else "Use `int(float(…))`."
    return "The text is no number: take out what is not part of it, or leave such rows out."


_MISSING = r"missing (?:a|\d+) required (?:positional |keyword-only )?arguments?: ((?:'\w+'(?:, and | and |, )?)+)"
_Advise = Callable[[Any, str, Place], str | None]
_Answer = str | Callable[[re.Match[str], Place], str | None]
_KINDS: tuple[tuple[type[BaseException], _Advise], ...] = (
    (json.JSONDecodeError, _bad_json),
    (IndexError, _index_error),
    (KeyError, _key_error),
    (AttributeError, _attribute_error),
    (NameError, _name_error),
    (ModuleNotFoundError, _module_missing),
    (ImportError, _import_error),
    (FileNotFoundError, _file_missing),
    (ZeroDivisionError, _division),
)
_MESSAGES: tuple[tuple[type[BaseException], str, _Answer], ...] = (
    (TypeError, r"^(?:list|tuple) indices must be integers or slices, not (\w+)", _list_subscript),
    (TypeError, r"^string indices must be integers", _text_subscript),
    (TypeError, r"^'([\w.]+)' object is not subscriptable", _not_subscriptable),
    (TypeError, r"^'([\w.]+)' object is not iterable", _not_iterable),
    (TypeError, r"^argument of type '([\w.]+)' is not (?:iterable|a container)", _not_iterable),
    (TypeError, r"^cannot unpack non-iterable (\w+) object", _not_iterable),
    (TypeError, r"^'([\w.]+)' object is not callable", _not_callable),
    (TypeError, r"^object of type '(NoneType|coroutine|generator|map|filter|zip)' has no len", _not_iterable),
    (TypeError, r"^unsupported operand type\(s\) for \S+(?: or pow\(\))?: '([\w.]+)' and '([\w.]+)'", _mixed),
    (TypeError, r"^'\S+' not supported between instances of '([\w.]+)' and '([\w.]+)'", _mixed),
    (TypeError, r"^can only concatenate (str|list|tuple) \(not \"([\w.]+)\"\)", _mixed),
    (TypeError, r"unexpected keyword argument '(\w+)'", _keyword),
    (TypeError, _MISSING, _missing),
    (TypeError, r"takes (?:from )?\d+ .*positional arguments?|too many positional arguments", _too_many),
    (TypeError, r"^the JSON object must be str, bytes or bytearray, not (\w+)", _already_data),
    (TypeError, r"^Object of type (\w+) is not JSON serializable", _not_serializable),
    (
        TypeError,
        r"^unhashable type: 'dict'",
        "A dict cannot be a key or in a set: use one of its values, such as its id.",
    ),
    (TypeError, r"^unhashable type: '(list|set)'", "Make it a tuple first: `tuple(…)`."),
    (TypeError, r"argument must be .*, not '?NoneType|argument 1 must be str, not None", _NONE),
    (TypeError, r"^'str' object cannot be interpreted as an integer", "Make a number of the text: `int(…)`."),
    (TypeError, r"^'float' object cannot be interpreted as an integer", "Take a whole number: `int(…)` or `//`."),
    (TypeError, r"^can't multiply sequence by non-int", "Make a whole number of it: `int(…)`."),
    (TypeError, r"^%\w format: a (?:real )?number is required", "Make a number of it: `float(…)` or `int(…)`."),
    (ValueError, r"^Unknown format code .* for object of type 'str'", "Make a number of it: `float(…)` or `int(…)`."),
    (TypeError, r"^sequence item \d+: expected str instance", "Join texts only: `', '.join(map(str, items))`."),
    (TypeError, r"^'(?:str|tuple)' object does not support item assignment", "It cannot be changed: make a new one."),
    (TypeError, r"^write\(\) argument must be str, not bytes", "Open the file with mode 'wb' to write bytes."),
    (TypeError, r"^write\(\) argument must be str", "Write text: `json.dump(value, file)` or `str(…)`."),
    (TypeError, r"argument (?:1 )?must be str, not", "Give it text: `str(…)`, or use the value as it is."),
    (TypeError, r"^a bytes-like object is required, not 'str'", "Use `.encode()`, or open the file in text mode."),
    (TypeError, r"^not all arguments converted", 'Use an f-string: `f"{value}"`.'),
    (TypeError, r"can't (?:compare|subtract) offset-naive", "Give both a time zone: `.replace(tzinfo=timezone.utc)`."),
    (TypeError, r"'async (?:for|with)'|asynchronous (?:context|iter)", "Leave out `async`: tools give plain values."),
    (
        Exception,
        r"^a coroutine was expected|^An asyncio.Future, a coroutine",
        "Leave out `asyncio.run`: use the value as it is.",
    ),
    (TypeError, r"expected str, bytes or os.PathLike object, not dict", "A file's path is in its field 'file'."),
    (ValueError, r"^(?:too many|not enough) values to unpack", _unpacked),
    (ValueError, r"^invalid literal for int\(\) with base \d+: '(.*)'$", _number_text),
    (ValueError, r"^could not convert string to float: '(.*)'$", _number_text),
    (
        ValueError,
        r"^time data .* does not match format|^unconverted data remains",
        "`datetime.fromisoformat(…)` reads ISO dates and times; else let the format be that of the text.",
    ),
    (ValueError, r"^Invalid isoformat string", "`datetime.strptime(text, format)` reads other forms."),
    (
        ValueError,
        r"^(?:max|min)\(\) (?:arg|iterable argument) is (?:an )?empty",
        "It is empty: check that first, or pass `default=`.",
    ),
    (ValueError, r"at least (?:one|two) data points?|empty data", "There is too little data: check its length first."),
    (ValueError, r"^I/O operation on closed file", "Use the file inside its `with` block."),
    (ValueError, r"is not in list$|^list\.remove\(x\)", "Check with `in` first."),
    (UnicodeDecodeError, r"", "Open it with mode 'rb', or say which encoding it has: `encoding='latin-1'`."),
    (RuntimeError, r"changed size during iteration", "Loop over a copy: `list(…)`."),
    (StopIteration, r"", "Nothing was left: give a default, `next(…, None)`."),
    (RecursionError, r"", "The function calls itself without an end: add a case that returns, or use a loop."),
    (FileExistsError, r"", "It is there already: `exist_ok=True`, or another name."),
    (IsADirectoryError, r"", "It is a folder: name a file in it."),
)
