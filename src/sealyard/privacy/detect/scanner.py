"""The search of any data or text for private values, and their replacement.

Structure comes first: a field that is private by its name is private whatever it holds. Everything else is searched by
value, once over all of it together. The two ways in, `find` for text and `conceal` for data, end in the same decisions.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any, TypeAlias

import msgspec

from sealyard.errors import InvalidConfig
from sealyard.privacy.detect.judge import Criteria, Finding, Judge, Verdict
from sealyard.privacy.reading.fields import Column, Container, Field, Leaf, Treatments, Value, collect, gather, texts_of
from sealyard.privacy.reading.lexicon import read_name
from sealyard.privacy.reading.literals import PlacedFloat, PlacedInt, PlacedText
from sealyard.privacy.reading.text import place_leaf, read_text
from sealyard.privacy.span import TYPES, Detector, Span

Replace: TypeAlias = Callable[[str, Value], str]
"""Turns a type and a value into the text that takes its place."""

_DEFAULT = frozenset(name for name, info in TYPES.items() if info.default)
_STRUCTURED = re.compile(r"""[{\[\n\t=|<:](?:(?<=[\n\t=|])|(?<=[{\[])\s*["'{\[]|(?<=<)/|(?<=:)\s)""")
"""Signs in a value that may be data or a table itself."""
_TAKEN_SEPARATOR = re.compile(r"[{\[(\n\t=:<]")
"""Signs in a text of which `read_text` makes more than prose."""
_MORE_THAN_NAMES = re.compile(r"[{\[(\n\t|<]")
_NAMING = re.compile(r"[:=]")
_LAST_NAME = re.compile(r"[^\W\d_][\w.\-]*\Z")
_NAME_CHARACTERS = 64  # before a sign in which a name is looked for
_MOST_NESTED = 6  # texts within texts that are taken apart: bounds the recursion
_IS_NAME = object()
_SEPARATOR = "\x00"
"""Stands between the values of a column that are looked at together: no structure has it."""
_TYPE_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class ScanRules(msgspec.Struct, frozen=True):
    """Additions to the built-in detectors, and exceptions from them."""

    types: frozenset[str] = _DEFAULT
    patterns: dict[str, str] = {}
    """Regular expressions by the type they give. A group named `value`, or the first, is the value."""
    allow: tuple[str, ...] = ()
    """Values that are never concealed: globs, case-insensitive."""


_RULES = ScanRules()


class Scanner:
    """Finds private values by rules that never change. Safe to share between threads.

    Raises:
        InvalidConfig: A pattern is not a regular expression, or a type is unknown.
    """

    def __init__(self, rules: ScanRules = _RULES, detectors: Sequence[Detector] = ()) -> None:
        self.rules = rules
        unknown = sorted(rules.types - TYPES.keys() - rules.patterns.keys())
        if unknown:
            raise InvalidConfig(f"No type of private value is named {unknown[0]!r}. Name one of {', '.join(TYPES)}.")
        self._criteria = Criteria(
            types=rules.types | rules.patterns.keys() | {"text", "literal"},
            patterns=tuple((name, _compile(name, pattern)) for name, pattern in rules.patterns.items()),
            allow=re.compile("|".join(map(translate, rules.allow)), re.IGNORECASE) if rules.allow else None,
            detectors=tuple(detectors),
        )

    @property
    def has_detectors(self) -> bool:
        """True if there are detectors besides its own."""
        return bool(self._criteria.detectors)

    def with_detectors(self, detectors: Sequence[Detector]) -> "Scanner":
        """A scanner with the same rules and these detectors besides its own."""
        return Scanner(self.rules, (*self._criteria.detectors, *detectors))

    def find(self, text: str) -> list[Span]:
        """The private spans of the text: sorted, without overlap. Tokens are left out."""
        found = _Pass(self._criteria, {}, foreign_tokens=False).find(text)
        return [Span(each.start, each.end, each.type) for each in found]

    def find_each(self, texts: Sequence[str]) -> list[list[Span]]:
        """The same for each of many texts, those of plain words together: far faster than one by one."""
        found = _Pass(self._criteria, {}, foreign_tokens=False).find_each(texts)
        return [[Span(each.start, each.end, each.type) for each in findings] for findings in found]

    def find_values(
        self,
        value: Any,
        *,
        schema: Mapping[str, Any] | None = None,
        whole: Collection[str] = (),
        visible: Collection[str] = (),
    ) -> Iterator[tuple[str, Value]]:
        """The type and value of everything that `conceal` would replace."""
        found: list[tuple[str, Value]] = []

        def note(kind: str, each: Value) -> str:
            found.append((kind, each))
            return ""

        self.conceal(value, note, schema=schema, whole=whole, visible=visible)
        yield from found

    def conceal(
        self,
        value: Any,
        replace: Replace,
        *,
        schema: Mapping[str, Any] | None = None,
        whole: Collection[str] = (),
        visible: Collection[str] = (),
        foreign_tokens: bool = False,
    ) -> Any:
        """The data with everything private replaced by `replace`; the data itself if nothing is private.

        A private number becomes a text. Dictionary keys are concealed too. Tokens stay, unless
        `foreign_tokens` says that the sender cannot have any.
        """
        treatments = {name.casefold(): "visible" for name in visible} | {name.casefold(): "whole" for name in whole}
        return _Pass(self._criteria, treatments, foreign_tokens=foreign_tokens).conceal(value, replace, schema)


class _Pass:
    """One look at one value."""

    def __init__(self, criteria: Criteria, treatments: Treatments, *, foreign_tokens: bool) -> None:
        self._treatments = treatments
        self._judge = Judge(criteria, foreign_tokens=foreign_tokens)

    def conceal(self, value: Any, replace: Replace, schema: Mapping[str, Any] | None) -> Any:
        if isinstance(value, str):
            findings = self.find(value)
            return _replaced(value, findings, replace) if findings else value
        root = Field("")
        containers = collect((value,), root, self._treatments, schema)
        fields = gather(root)
        changed: dict[int, Any] = {}
        names: dict[str, list[Finding]] = {}
        for (each, index, key), verdict in self._verdicts(fields, 0, names):
            holder = changed.get(index)
            if holder is None:
                holder = changed[index] = _copy(containers[index][0])
            holder[key] = _replaced(each, verdict, replace)
        renamed = {name: _replaced(name, each, replace) for name, each in names.items()}
        return _rebuild(value, containers, changed, renamed)

    def find(self, text: str, depth: int = 0) -> list[Finding]:
        """The private values in a text, by offsets in it."""
        reading = read_text(text)
        root = Field("")
        containers = collect(reading.data, root, self._treatments)
        fields = gather(root)
        for table in reading.tables:
            fields += gather(table)
        found: list[Finding] = []
        names: dict[str, list[Finding]] = {}
        for leaf, verdict in self._verdicts(fields, depth, names, reading.prose):
            found += _placed(place_leaf(leaf), verdict)
        for named in reading.named:
            for leaf, verdict in self._judge.by_name(gather(named), []):
                found += _placed(place_leaf(leaf), verdict)
        if names:
            for name in reading.place_names(names, containers, fields):
                found += _placed(name, names[name])
        return _settle(text, found)

    def find_each(self, texts: Sequence[str]) -> list[list[Finding]]:
        found: list[list[Finding]] = [[] for _ in texts]
        plain: list[Leaf] = []
        for number, text in enumerate(texts):
            if _TAKEN_SEPARATOR.search(text) is None or _names_nothing(text):
                plain.append((text, number, None))
            else:
                found[number] = self.find(text)
        for leaf, verdict in self._judge.by_value(plain):
            if isinstance(verdict, list):
                found[leaf[1]] = verdict
        return found

    def _verdicts(
        self, fields: Sequence[Field], depth: int, names: dict[str, list[Finding]], prose: Sequence[PlacedText] = ()
    ) -> Iterator[tuple[Leaf, Verdict]]:
        """Every value that holds something private. Private field names are added to `names`."""
        undecided: list[Column] = []
        judge = self._judge
        yield from judge.by_name(fields, undecided)
        searched: list[str] = []
        names |= judge.private_names(fields, searched)
        together: list[Leaf] = [(each, -1, _IS_NAME) for each in searched]
        together += ((each, each.start, None) for each in prose)
        if depth < _MOST_NESTED:
            joined = [_SEPARATOR.join(texts_of(column)) for column in undecided]
            if _STRUCTURED.search(_SEPARATOR.join(joined)):  # one look instead of one for each column
                for number, text in enumerate(joined):
                    if _STRUCTURED.search(text):
                        column = undecided[number]
                        rest = []
                        for leaf in column:
                            if not isinstance(leaf[0], str) or not _is_structured(leaf[0]):
                                rest.append(leaf)
                            elif findings := self.find(leaf[0], depth + 1):
                                yield leaf, findings
                        undecided[number] = rest
        together += judge.searched(undecided)  # only now everything is known that was found by name
        for leaf, verdict in judge.by_value(together):
            if leaf[2] is not _IS_NAME:
                yield leaf, verdict
            elif isinstance(verdict, list):
                names[str(leaf[0])] = verdict


def _is_structured(value: str) -> bool:
    return len(value) > 5 and _STRUCTURED.search(value) is not None and not _names_nothing(value)


def _names_nothing(text: str) -> bool:
    """True if a text has no structure but names before `=` and `:`, and none of these names indicates a kind.

    URLs and log lines are like that: no name makes their values private.
    """
    if _MORE_THAN_NAMES.search(text):
        return False
    for piece in _NAMING.split(text)[:-1]:
        name = _LAST_NAME.search(piece[-_NAME_CHARACTERS:])
        if name is not None:
            meaning = read_name(name[0])
            if meaning.kind or meaning.is_number:
                return False
    return " " not in text


def _compile(name: str, pattern: str) -> re.Pattern[str]:
    if not _TYPE_NAME.fullmatch(name):
        raise InvalidConfig(f"The pattern {name!r} has no name of small letters, digits and underscores. Rename it.")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidConfig(f"The pattern {name!r} is no regular expression: {error}. Correct it.") from None


def _settle(text: str, found: list[Finding]) -> list[Finding]:
    """Sorted, without overlap: of two the first stays, and the other covers the rest. Of equal ones the first given."""
    found.sort(key=lambda each: (each.start, -each.end))
    kept: list[Finding] = []
    last = 0
    for each in found:
        if each.start >= last:
            kept.append(each)
            last = each.end
        elif each.end > last:
            kept.append(Finding(last, each.end, each.type, text[last : each.end]))
            last = each.end
    return kept


def _placed(value: Value, verdict: Verdict) -> list[Finding]:
    """The private parts of a value, by offsets in the text that it was read from."""
    if isinstance(value, PlacedText):
        if isinstance(verdict, str):
            kept = value.strip()
            start = 0 if len(kept) == len(value) else len(value) - len(value.lstrip())
            return [Finding(*value.raw(start, start + len(kept)), verdict, kept)]
        return [_placed_part(value, each) for each in verdict]
    if isinstance(value, (PlacedInt, PlacedFloat)):
        plain = float(value) if isinstance(value, PlacedFloat) else int(value)
        kind = verdict if isinstance(verdict, str) else verdict[0].type
        return [Finding(value.start, value.end, kind, plain, '"')]
    return []


def _placed_part(value: PlacedText, part: Finding) -> Finding:
    quote = part.quote
    if quote and value.escape:
        quote = quote.replace("\\", "\\\\").replace('"', value.escape + '"')
    return Finding(*value.raw(part.start, part.end), part.type, part.value, quote)


def _replaced(value: Value, verdict: Verdict, replace: Replace) -> str:
    if not isinstance(value, str):
        number = int(value) if isinstance(value, bool) else value  # no token stands for true or false
        return replace(verdict if isinstance(verdict, str) else verdict[0].type, number)
    if isinstance(verdict, str):
        if not (value[0].isspace() or value[-1].isspace()) and type(value) is str:
            return replace(verdict, value)
        kept = value.strip()
        start = len(value) - len(value.lstrip())
        return value[:start] + replace(verdict, kept) + value[start + len(kept) :]
    if len(verdict) == 1 and verdict[0].end - verdict[0].start == len(value) and not verdict[0].quote:
        return replace(verdict[0].type, verdict[0].value)
    parts: list[str] = []
    last = 0
    for each in verdict:
        parts += (value[last : each.start], each.quote, replace(each.type, each.value), each.quote)
        last = each.end
    parts.append(value[last:])
    return "".join(parts)


def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _rebuild(value: Any, containers: list[Container], changed: dict[int, Any], names: Mapping[str, str]) -> Any:
    """The data with changed containers in place; those that hold one are copied, all others are the same objects."""
    if not changed and not names:
        return value
    for index in range(len(containers) - 1, 0, -1):  # contents come after their containers
        each, holder, key = containers[index]
        if names and isinstance(each, dict) and not names.keys().isdisjoint(each):
            held = changed.get(index, each)
            changed[index] = {
                names.get(name, name) if isinstance(name, str) else name: item for name, item in held.items()
            }
        if index in changed:
            if holder not in changed:
                changed[holder] = _copy(containers[holder][0])
            changed[holder][key] = changed[index]
    return changed[0][0] if changed else value
