"""Reads expressions and conditions into the tree of `plan`.

An expression is text, such as `price * quantity if quantity > 0 else null`; a condition is an object of a field, an
operator and a value, nested by AND, OR and not. The parser is our own: anything it does not know is an error with its
place, and nothing in it can reach Python itself. Fields are names, dotted paths, or any text between backticks.
Keywords may be written in any case.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, cast

from .errors import AnalysisError, comma_list, nearest, quoted
from .evaluation import FUNCTIONS
from .parameters import as_list, as_object, as_scalar, as_text, as_word, path_to
from .plan import (
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_NODES,
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

MAX_CHARACTERS = 4_000
"""Longest text of an expression."""
MAX_PATTERN = 1_000
"""Longest regular expression."""

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
_KEYWORDS = frozenset(("and", "or", "not", "in", "is", "if", "else", "null", "none", "true", "false"))
_CONSTANTS: dict[str, Scalar] = {"null": None, "none": None, "true": True, "false": False}
_COMPARISONS = {"==": "==", "=": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MAX_OPTIONS = 100_000
"""Most values after `in`."""

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
_KEYS = ("field", "operator", "value", "logic", "conditions", "not", "expression")
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
    return _Parser(text, at).whole()


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
        raise AnalysisError(f"{at} is no regular expression: {error}. Change {quoted(pattern)}.") from None
    return pattern


class _Parser:
    """A recursive descent parser, one token ahead; each method reads one level of precedence, the loosest first."""

    def __init__(self, text: str, at: str) -> None:
        self._text = text
        self._at = at
        self._nodes = 0
        self._depth = 0
        self._end = 0
        self._advance()

    def whole(self) -> Expression:
        tree = self._choice()
        if self._kind != "end":
            self._fail(f"{self._piece!r} is not expected")
        return tree

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        self._start = self._end
        if found is None or found.lastgroup is None:
            rest = self._text[self._end :].lstrip()
            self._fail(f"{quoted(rest[:20])} cannot be read")
        self._start, self._end = found.span(found.lastgroup)
        self._kind, self._piece = found.lastgroup, found[found.lastgroup]
        if self._kind == "name" and self._piece.lower() in _KEYWORDS:
            self._kind, self._piece = "word", self._piece.lower()
        elif self._piece == "&&":
            self._kind, self._piece = "word", "and"

    def _accept(self, *pieces: str) -> str | None:
        """The current token, if it is one of these signs or words; then advances."""
        if self._kind not in ("sign", "word") or self._piece not in pieces:
            return None
        piece = self._piece
        self._advance()
        return piece

    def _expect(self, piece: str) -> None:
        if self._accept(piece) is None:
            self._fail(f"{piece!r} is expected before {self._piece!r}" if self._piece else f"{piece!r} is missing")

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"it is nested deeper than {MAX_DEPTH}")

    def _choice(self) -> Expression:
        self._descend()
        tree = self._either()
        if self._accept("if"):
            test = self._either()
            self._expect("else")
            tree = self._count(Choice(test, tree, self._choice()))
        self._depth -= 1
        return tree

    def _either(self) -> Expression:
        return self._joined(self._both, "or", AnyOf)

    def _both(self) -> Expression:
        return self._joined(self._opposite, "and", AllOf)

    def _joined(self, part: Callable[[], Expression], word: str, join: type[AllOf] | type[AnyOf]) -> Expression:
        parts = [part()]
        while self._accept(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else self._count(join(tuple(parts)))

    def _opposite(self) -> Expression:
        negations = 0
        while self._accept("not"):
            negations += 1
        tree = self._comparison()
        for _ in range(negations):
            tree = self._count(Not(tree))
        return tree

    def _comparison(self) -> Expression:
        left = self._sum()
        found: list[Expression] = []
        while (part := self._compared(left)) is not None:
            tree, left = part
            found.append(tree)
        if not found:
            return left
        return found[0] if len(found) == 1 else self._count(AllOf(tuple(found)))

    def _compared(self, left: Expression) -> tuple[Expression, Expression] | None:
        """A comparison of `left` with the next operand, and the left operand of a further comparison."""
        sign = self._accept(*_COMPARISONS)
        if sign is not None:
            right = self._sum()
            return self._count(Comparison(cast(ComparisonOperator, _COMPARISONS[sign]), left, right)), right
        if self._accept("is"):
            opposite = self._accept("not")
            if self._accept("null", "none") is None:
                self._fail("after 'is' only 'null' or 'not null' may stand; compare with '=='")
            tree = self._count(Call("is_null", (left,)))
            return (self._count(Not(tree)) if opposite else tree), left
        opposite = self._accept("not")
        if self._accept("in"):
            tree = self._count(Membership(left, self._options()))
            return (self._count(Not(tree)) if opposite else tree), left
        if opposite:
            self._fail("'in' is expected after 'not'")
        return None

    def _options(self) -> tuple[Scalar, ...]:
        closing = ")" if self._accept("(") else "]"
        if closing == "]":
            self._expect("[")
        options: list[Scalar] = []
        while self._accept(closing) is None:
            tree = self._sum()
            match tree:
                case Constant(value):
                    options.append(value)
                case Negative(Constant(int() | float() as value)) if not isinstance(value, bool):
                    options.append(-value)
                case _:
                    self._fail("the list after 'in' holds literal values only")
            if self._accept(",") is None:
                self._expect(closing)
                break
        return tuple(options)

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._signed, "*", "/", "//", "%")

    def _chain(self, operand: Callable[[], Expression], *signs: str) -> Expression:
        left = operand()
        while (sign := self._accept(*signs)) is not None:
            left = self._count(Arithmetic(cast(Operator, sign), left, operand()))
        return left

    def _signed(self) -> Expression:
        negative = False
        while (sign := self._accept("-", "+")) is not None:
            negative ^= sign == "-"
        tree = self._power()
        return self._count(Negative(tree)) if negative else tree

    def _power(self) -> Expression:
        left = self._primary()
        if self._accept("**") is None:
            return left
        self._descend()
        right = self._signed()
        self._depth -= 1
        return self._count(Arithmetic("**", left, right))

    def _primary(self) -> Expression:
        kind, piece = self._kind, self._piece
        if kind == "word" and piece in _CONSTANTS:
            self._advance()
            return self._count(Constant(_CONSTANTS[piece]))
        if kind == "word" and piece == "if":
            self._advance()
            return self._called("if")
        if kind == "sign" and piece == "(":
            self._advance()
            tree = self._choice()
            self._expect(")")
            return tree
        if kind in ("word", "sign", "end"):
            self._fail(f"a value is expected before {piece!r}" if piece else "a value is missing at the end")
        self._advance()
        if kind == "number":
            return self._count(Constant(self._number(piece)))
        if kind == "text":
            return self._count(Constant(_ESCAPE.sub(self._escaped, piece[1:-1])))
        if kind == "quoted":
            return self._count(Field(piece[1:-1].replace("``", "`"), self._at))
        if self._kind == "sign" and self._piece == "(":
            return self._called(piece)
        return self._count(Field(piece, self._at))

    def _called(self, name: str) -> Expression:
        function = name.lower()
        if function not in FUNCTIONS and function != "if":
            raise AnalysisError(
                f"No function {name!r} in {self._at}.{nearest(name, FUNCTIONS)} Functions: {comma_list(FUNCTIONS)}."
            )
        self._expect("(")
        arguments: list[Expression] = []
        while self._accept(")") is None:
            arguments.append(self._choice())
            if self._accept(",") is None:
                self._expect(")")
                break
        least, most = FUNCTIONS[function][:2] if function in FUNCTIONS else (3, 3)
        if len(arguments) < least or (most is not None and len(arguments) > most):
            self._fail(f"{function}() takes {_amount(least, most)}, not {len(arguments)}")
        if function == "if":
            return self._count(Choice(*arguments))
        if function == "matches":
            pattern = arguments[1]
            check_pattern(pattern.value if isinstance(pattern, Constant) else None, f"The pattern in {self._at}")
        return self._count(Call(function, tuple(arguments)))

    def _number(self, piece: str) -> int | float:
        value = int(piece) if piece.isdigit() and len(piece) < _MOST_DIGITS else float(piece)
        if value == float("inf") or (piece.isdigit() and value > MAX_INTEGER):
            self._fail(f"{quoted(piece)} is too large a number")
        return value

    def _escaped(self, found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            self._fail(f"{found[0]!r} is no escape; write '\\\\' for a backslash")
        return _ESCAPES[found[1]]

    def _count(self, tree: Expression) -> Expression:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._fail(f"it has more than {MAX_NODES} parts")
        return tree

    def _fail(self, what: str) -> NoReturn:
        place = self._start + len(self._text[self._start :]) - len(self._text[self._start :].lstrip())
        hint = "Names are fields, functions are a fixed list; quote texts, and put odd field names between backticks."
        raise AnalysisError(
            f"{self._at} cannot be used: {what}, at character {place + 1} of {quoted(self._text)}. {hint}"
        )


def _amount(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} argument"
    count = str(least) if least == most else f"{least} or {most}"
    return f"{count} argument{'' if most == 1 else 's'}"


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
    forms = [form for form in ("field", "conditions", "not", "expression") if form in condition]
    if len(forms) != 1:
        raise AnalysisError(f"{at} is {quoted(given)}, which is no condition.{_HINT}")
    match forms[0]:
        case "conditions":
            as_object(given, at, ("logic", "conditions"))
            join = as_word(condition.get("logic", "AND"), path_to(at, "logic"), _LOGIC, shown_as=("AND", "OR"))
            return join(tuple(_parts(condition["conditions"], path_to(at, "conditions"), depth + 1)))
        case "not":
            as_object(given, at, ("not",))
            inner, place = condition["not"], path_to(at, "not")
            if isinstance(inner, list):
                return Not(AllOf(tuple(_parts(inner, place, depth + 1))))
            if depth >= MAX_DEPTH:
                raise AnalysisError(f"{place} is nested deeper than {MAX_DEPTH}. Flatten the conditions.")
            return Not(_condition(inner, place, depth + 1))
        case "expression":
            as_object(given, at, ("expression",))
            return parse_expression(condition["expression"], path_to(at, "expression"))
        case _:
            return _test(as_object(given, at, ("field", "operator", "value")), at)


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
    least, greatest = (
        _compared(">=", field, bounds[0], path_to(at, 0)),
        _compared("<=", field, bounds[1], path_to(at, 1)),
    )
    return AllOf((least, greatest))


def _called(name: str, *, text: bool) -> Callable[[Field, Any, str], Expression]:
    def build(field: Field, value: Any, at: str) -> Expression:
        part = as_scalar(value, at)
        if text and not isinstance(part, str):
            raise AnalysisError(f"{at} is {quoted(value)}. {name!r} takes a text.")
        return Call(name, (field, Constant(part)))

    return build


def _matches(field: Field, value: Any, at: str) -> Expression:
    return Call("matches", (field, Constant(check_pattern(as_scalar(value, at), at))))


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
    "matches": _matches,
    "is_null": _is_null,
    "is_not_null": lambda field, value, at: Not(_is_null(field, value, at)),
}
