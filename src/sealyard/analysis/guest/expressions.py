"""Reads expressions and conditions into the tree of `plan`.

An expression is text, such as `price * quantity if quantity > 0 else null`; a condition is an object of a field, an
operator and a value, nested by AND, OR and not. Fields are names, dotted paths, or any text between backticks. Keywords
may be written in any case.

The invariant: no text of a request reaches Python's parser. Every character belongs to a token of `_TOKEN`, the parser
is given this module's own words for the tokens, and its tree is only read, by a list of the nodes that are allowed.
"""

import ast
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from .errors import AnalysisError, comma_list, nearest, quoted
from .evaluation import FUNCTIONS
from .limits import MAX_CHARACTERS, MAX_DEPTH, MAX_INTEGER, MAX_NODES, MAX_OPTIONS, MAX_PATTERN
from .parameters import as_list, as_object, as_scalar, as_text, as_word, path_to
from .plan import (
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Field,
    Membership,
    Negative,
    Not,
    Operator,
    Scalar,
)
from .values import NUMBERS

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<name>[^\W\d]\w*(?:\.\w+)*)
      | (?P<sign>\*\*|//|<=|>=|==|!=|<>|&&|[-+*/%()<>=,\[\]])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_MOST_DIGITS = len(str(MAX_INTEGER)) + 1
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_KEYWORDS = frozenset(("and", "or", "not", "in", "is", "if", "else"))
_CONSTANTS: dict[str, Scalar] = {"null": None, "none": None, "true": True, "false": False}
_SIGNS = {"<>": "!=", "&&": "and", "=": "=="}
_ARITHMETIC: dict[type[ast.operator], Operator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_COMPARISONS: dict[type[ast.cmpop], ComparisonOperator] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}

_ALIASES = {
    "==": "== = eq equals",
    "!=": "!= <> ne not_equals",
    ">": "> gt",
    "<": "< lt",
    ">=": ">= => gte ge",
    "<=": "<= =< lte le",
    "in": "in",
    "not_in": "not_in nin",
    "contains": "contains",
    "not_contains": "not_contains",
    "starts_with": "starts_with startswith",
    "ends_with": "ends_with endswith",
    "matches": "matches regex",
    "is_null": "is_null isnull",
    "is_not_null": "is_not_null not_null",
    "between": "between",
}
OPERATORS = tuple(_ALIASES)
"""The operators of a condition, each by its own name."""
_OPERATOR_WORDS = {word: name for name, words in _ALIASES.items() for word in words.split()} | {
    "not in": "not_in",
    "is null": "is_null",
    "is not null": "is_not_null",
    "starts with": "starts_with",
    "ends with": "ends_with",
    "not contains": "not_contains",
}
_LOGIC: dict[str, type[AllOf] | type[AnyOf]] = {"and": AllOf, "all": AllOf, "or": AnyOf, "any": AnyOf}
_FORMS = {
    "field": ("field", "operator", "value"),
    "conditions": ("logic", "conditions"),
    "not": ("not",),
    "expression": ("expression",),
}
"""The forms of a condition by the key that each has alone, with all of its keys."""
_KEYS = tuple(key for keys in _FORMS.values() for key in keys)
_HINT = (
    " A condition is {'field', 'operator', 'value'}, {'logic': 'AND' or 'OR', 'conditions': [...]}, {'not': {...}} "
    "or {'expression': text}."
)


def parse_expression(text: object, at: str) -> Expression:
    """The tree of an expression; `at` names the parameter in messages."""
    if isinstance(text, bool | int | float) or text is None:
        return Constant(text)
    if not isinstance(text, str):
        raise AnalysisError(f"{at} is {quoted(text)}. Write an expression as text, for instance 'price * quantity'.")
    if len(text) > MAX_CHARACTERS:
        raise AnalysisError(f"{at} has {len(text)} characters. An expression has at most {MAX_CHARACTERS}.")
    return _Reader(text, at).read()


def check_pattern(pattern: Scalar, at: str) -> str:
    """A regular expression that Python can compile."""
    if not isinstance(pattern, str):
        raise AnalysisError(f"{at} is {quoted(pattern)}. Give a regular expression as text.")
    if len(pattern) > MAX_PATTERN:
        raise AnalysisError(f"{at} has {len(pattern)} characters. A regular expression has at most {MAX_PATTERN}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may change in later versions of Python
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise AnalysisError(f"{at} is not a regular expression: {error}. Change {quoted(pattern)}.") from None
    return pattern


class _Reader:
    """Reads one expression: its tokens in Python's spelling, then Python's tree of them, then the tree of `plan`.

    Python's parser sees operators, brackets, seven keywords and names of our own (`v0`, `v1`), which stand for fields,
    functions and literals. Nothing that it makes is compiled or evaluated.
    """

    def __init__(self, text: str, at: str) -> None:
        self._text = text
        self._at = at
        self._nodes = 0
        self._meanings: dict[str, Constant | Field] = {}
        self._pieces: list[str] = []
        self._places: list[int] = []  # of each piece in the text

    def read(self) -> Expression:
        """The tree of the whole text."""
        self._split()
        try:
            tree = ast.parse(" ".join(self._pieces), mode="eval")
        except SyntaxError as error:
            column = error.offset - 1 if error.offset else None  # 0 at the end
            raise self._mistake("a part is missing or misplaced", column) from None
        except (MemoryError, RecursionError):
            raise self._mistake("it is nested too deeply", 0) from None
        return self._tree(tree.body, 1)

    def _split(self) -> None:
        end = depth = 0
        while found := _TOKEN.match(self._text, end):
            kind, piece, end = found.lastgroup, found[found.lastgroup or 0], found.end()
            self._places.append(end - len(piece))
            if kind == "end":
                return
            depth += piece in ("(", "[")
            depth -= piece in (")", "]")
            if depth > MAX_DEPTH:
                raise self._mistake(f"it is nested deeper than {MAX_DEPTH}")
            self._pieces.append(self._piece(str(kind), piece))
        self._places.append(end + len(self._text[end:]) - len(self._text[end:].lstrip(" \t\r\n")))
        raise self._mistake(f"{self._text[self._places[-1]]!r} cannot be read")

    def _piece(self, kind: str, piece: str) -> str:
        """A token in Python's spelling."""
        before = self._pieces[-1] if self._pieces else ""
        if kind == "sign":
            # The list after `in` is written in either brackets, and in round ones a list of one would be a value.
            return "in_list(" if (before, piece) == ("in", "(") else _SIGNS.get(piece, piece)
        word = piece.lower()
        meaning: Constant | Field
        if kind == "number":
            meaning = Constant(self._number(piece))
        elif kind == "text":
            meaning = Constant(_ESCAPE.sub(self._escaped, piece[1:-1]))
        elif kind == "quoted":
            meaning = Field(piece[1:-1].replace("``", "`"), self._at)
        elif word in _CONSTANTS:
            meaning = Constant(_CONSTANTS[word])
        elif word in _KEYWORDS:
            begins_value = before not in (")", "]") and before not in self._meanings
            return "if_else" if word == "if" and begins_value else word
        else:
            meaning = Field(piece, self._at)
        name = f"v{len(self._meanings)}"
        self._meanings[name] = meaning
        return name

    def _number(self, piece: str) -> int | float:
        value = int(piece) if piece.isdigit() and len(piece) < _MOST_DIGITS else float(piece)
        if value == float("inf") or (piece.isdigit() and value > MAX_INTEGER):
            raise self._mistake(f"{quoted(piece)} is too large a number")
        return value

    def _escaped(self, found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise self._mistake(f"{found[0]!r} is not an escape; write '\\\\' for a backslash")
        return _ESCAPES[found[1]]

    def _tree(self, node: ast.expr, depth: int) -> Expression:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._mistake(f"it has more than {MAX_NODES} parts", node.col_offset)
        if depth > MAX_DEPTH:
            raise self._mistake(f"it is nested deeper than {MAX_DEPTH}", node.col_offset)
        below = partial(self._tree, depth=depth + 1)
        match node:
            case ast.Name(name) if name in self._meanings:
                return self._meanings[name]
            case ast.UnaryOp(ast.USub(), operand):
                tree = below(operand)
                if isinstance(tree, Constant) and type(tree.value) in NUMBERS:
                    return Constant(-cast(float, tree.value))
                return Negative(tree)
            case ast.UnaryOp(ast.UAdd(), operand):
                return below(operand)
            case ast.UnaryOp(ast.Not(), operand):
                return Not(below(operand))
            case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
                # A sum of many parts is a tree that is deep on the left, which is not deeper to read.
                return Arithmetic(_ARITHMETIC[type(sign)], self._tree(left, depth), below(right))
            case ast.BoolOp(ast.And(), parts):
                return AllOf(tuple(map(below, parts)))
            case ast.BoolOp(ast.Or(), parts):
                return AnyOf(tuple(map(below, parts)))
            case ast.IfExp(test, then, otherwise):
                return Choice(below(test), below(then), below(otherwise))
            case ast.Compare(left, signs, rights):
                pairs = zip([left, *rights], signs, rights, strict=False)
                tests = tuple(self._comparison(one, sign, other, below) for one, sign, other in pairs)
                return tests[0] if len(tests) == 1 else AllOf(tests)
            case ast.Call(ast.Name("if_else"), arguments, []):
                return self._call(node, "if", tuple(map(below, arguments)))
            case ast.Call(ast.Name(name), arguments, []) if isinstance(field := self._meanings.get(name), Field):
                return self._call(node, field.name, tuple(map(below, arguments)))
        raise self._mistake("this is not part of an expression", node.col_offset)

    def _comparison(
        self, left: ast.expr, sign: ast.cmpop, right: ast.expr, below: Callable[[ast.expr], Expression]
    ) -> Expression:
        match sign, right:
            case ((ast.In() | ast.NotIn()), ast.List(options) | ast.Call(ast.Name("in_list"), options, [])):
                trees = [below(option) for option in options]
                values = tuple(tree.value for tree in trees if isinstance(tree, Constant))
                if len(values) < len(trees):
                    raise self._mistake("the list after 'in' holds literal values only", right.col_offset)
                tree: Expression = Membership(below(left), values)
            case ((ast.In() | ast.NotIn()), _):
                raise self._mistake("after 'in' stands a list of values", right.col_offset)
            case ((ast.Is() | ast.IsNot()), _):
                if below(right) != Constant(None):
                    raise self._mistake(
                        "after 'is' only 'null' or 'not null' may stand; compare with '=='", right.col_offset
                    )
                tree = Call("is_null", (below(left),))
            case _:
                return Comparison(_COMPARISONS[type(sign)], below(left), below(right))
        return Not(tree) if isinstance(sign, ast.IsNot | ast.NotIn) else tree

    def _call(self, node: ast.expr, name: str, arguments: tuple[Expression, ...]) -> Expression:
        function = name.lower()
        if function not in FUNCTIONS and function != "if":
            raise AnalysisError(
                f"No function {name!r} in {self._at}.{nearest(name, FUNCTIONS)} Functions: {comma_list(FUNCTIONS)}."
            )
        least, most = FUNCTIONS[function][:2] if function in FUNCTIONS else (3, 3)
        if len(arguments) < least or (most is not None and len(arguments) > most):
            amount = f"at least {least}" if most is None else str(least) if least == most else f"{least} or {most}"
            raise self._mistake(
                f"{function}() takes {amount} argument{'' if (most or least) == 1 else 's'}, not {len(arguments)}",
                node.col_offset,
            )
        if function == "if":
            return Choice(*arguments)
        if function == "matches":
            pattern = arguments[1]
            check_pattern(pattern.value if isinstance(pattern, Constant) else None, f"The pattern in {self._at}")
        return Call(function, arguments)

    def _mistake(self, what: str, column: int | None = None) -> AnalysisError:
        """The error for the token at a column of Python's source, or for the last token read."""
        number = -1
        if column is not None:
            number = min(" ".join(self._pieces)[:column].count(" "), len(self._places) - 1)
        place = f"character {self._places[number] + 1} of {quoted(self._text)}"
        hint = "Names are fields, functions are a fixed list; quote texts, and put odd field names between backticks."
        return AnalysisError(f"{self._at} cannot be used: {what}, at {place}. {hint}")


def parse_conditions(given: Any, at: str, *, logic: Any = "AND", logic_at: str = "logic") -> Expression:
    """The tree of a list of conditions, of one condition, or of an expression as text."""
    join = as_word(logic, logic_at, _LOGIC, shown_as=("AND", "OR"))
    if isinstance(given, dict):
        return _condition(given, at, 1)
    if isinstance(given, str):
        return parse_expression(given, at)
    return join(tuple(_parts(given, at, 1)))


def _parts(given: Any, at: str, depth: int) -> list[Expression]:
    if depth > MAX_DEPTH:
        raise AnalysisError(f"{at} is nested deeper than {MAX_DEPTH}. Flatten the conditions.")
    return [_condition(each, path_to(at, place), depth) for place, each in enumerate(as_list(given, at))]


def _condition(given: Any, at: str, depth: int) -> Expression:
    if isinstance(given, str):
        return parse_expression(given, at)
    condition = as_object(given, at, _KEYS, hint=_HINT)
    forms = [form for form in _FORMS if form in condition]
    if len(forms) != 1:
        raise AnalysisError(f"{at} is {quoted(given)}, which is not a condition.{_HINT}")
    as_object(given, at, _FORMS[forms[0]])
    match forms[0]:
        case "conditions":
            join = as_word(condition.get("logic", "AND"), path_to(at, "logic"), _LOGIC, shown_as=("AND", "OR"))
            return join(tuple(_parts(condition["conditions"], path_to(at, "conditions"), depth + 1)))
        case "not":
            inner, place = condition["not"], path_to(at, "not")
            if isinstance(inner, list):
                return Not(AllOf(tuple(_parts(inner, place, depth + 1))))
            if depth >= MAX_DEPTH:
                raise AnalysisError(f"{place} is nested deeper than {MAX_DEPTH}. Flatten the conditions.")
            return Not(_condition(inner, place, depth + 1))
        case "expression":
            return parse_expression(condition["expression"], path_to(at, "expression"))
        case _:
            return _test(condition, at)


def _test(given: dict[str, Any], at: str) -> Expression:
    field = Field(as_text(given["field"], path_to(at, "field")), path_to(at, "field"))
    name = as_word(given.get("operator", "=="), path_to(at, "operator"), _OPERATOR_WORDS, shown_as=OPERATORS)
    place = path_to(at, "value")
    if "value" not in given and name not in ("is_null", "is_not_null"):
        raise AnalysisError(f"{at} lacks 'value', which {name!r} compares with. Give it, or use 'is_null'.")
    value = given.get("value")
    if name in _TESTS:
        return _TESTS[name](field, value, place)
    return _compared(cast(ComparisonOperator, name), field, value, place)


def _compared(name: ComparisonOperator, field: Field, value: Any, at: str) -> Expression:
    if isinstance(value, list):
        raise AnalysisError(f"{at} is a list, and {name!r} takes one plain value. Use 'in' for several.")
    return Comparison(name, field, Constant(as_scalar(value, at)))


def _membership(field: Field, value: Any, at: str) -> Expression:
    options = [as_scalar(each, path_to(at, place)) for place, each in enumerate(as_list(value, at, most=MAX_OPTIONS))]
    return Membership(field, tuple(options))


def _between(field: Field, value: Any, at: str) -> Expression:
    bounds = as_list(value, at)
    if len(bounds) != 2:
        raise AnalysisError(f"{at} has {len(bounds)} values. 'between' takes two: the least and the greatest.")
    least = _compared(">=", field, bounds[0], path_to(at, 0))
    return AllOf((least, _compared("<=", field, bounds[1], path_to(at, 1))))


def _called(name: str, *, text: bool) -> Callable[[Field, Any, str], Expression]:
    def build(field: Field, value: Any, at: str) -> Expression:
        part = as_scalar(value, at)
        if text and not isinstance(part, str):
            raise AnalysisError(f"{at} is {quoted(value)}. {name!r} takes a text.")
        return Call(name, (field, Constant(part)))

    return build


def _is_null(field: Field, value: Any, at: str) -> Expression:
    if value is not None and not isinstance(value, bool):
        raise AnalysisError(f"{at} is {quoted(value)}. 'is_null' takes no value, or true or false.")
    test = Call("is_null", (field,))
    return Not(test) if value is False else test


_contains = _called("contains", text=False)
_TESTS: dict[str, Callable[[Field, Any, str], Expression]] = {
    "in": _membership,
    "not_in": lambda field, value, at: Not(_membership(field, value, at)),
    "between": _between,
    "contains": _contains,
    "not_contains": lambda field, value, at: Not(_contains(field, value, at)),
    "starts_with": _called("starts_with", text=True),
    "ends_with": _called("ends_with", text=True),
    "matches": lambda field, value, at: Call("matches", (field, Constant(check_pattern(as_scalar(value, at), at)))),
    "is_null": _is_null,
    "is_not_null": lambda field, value, at: Not(_is_null(field, value, at)),
}
