"""Code that calls a tool in one of very many styles, with what is known about it. A seed always gives the same code."""

import builtins
import random
import textwrap
from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.corpus.changes import ANSWER, Mutation, changed, fields_of
from benchmarks.corpus.styles import (
    ARGUMENTS,
    CALLEES,
    DICTS,
    DISTRACTORS,
    FILES,
    LAYOUTS,
    PLACES,
    Arguments,
    Callee,
    Place,
    dict_text,
    lay_out,
)
from benchmarks.corpus.uses import Use, uses_of
from benchmarks.corpus.values import Unmakeable, fits, make_many
from sealyard.catalog.stubs import Parameter, Stub
from sealyard.values.naming import full_name, upstream_part
from sealyard.values.skills import SkillForm
from sealyard.values.tools import ToolSpec

SKILL = "find_things"
"""The name of every generated function."""
_OTHER = "peek_nearby"
_PROVABLE_SHARE = 0.8
_ITEMS = 2
_MADE_BEFORE = frozenset({"name", "changed", "merged", "input"})
_TALLY = "seen_values = []\n\n\ndef tally(value):\n    seen_values.append(value)\n    return value\n"
_TAKEN = frozenset(
    "answer answers ask ask_each asyncio box call_tool contextlib copy desk each extra first first_name found "
    "functools importlib inner item items job json key label local look main note number operator options other "
    "others out out_of_luck remote result row rows same seen seen_values servers tally turn value waiting wanted "
    "invoke".split()
) | {_OTHER, SKILL}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Code, the tool it calls, and what becomes of that tool."""

    mutation: Mutation
    code: str
    form: SkillForm
    inputs: Mapping[str, Any]
    """Of the example that a migration may be proved with."""
    held_out: tuple[Mapping[str, Any], ...] = ()
    """Other inputs, of which a migration learns nothing."""
    styles: tuple[str, ...]
    other: ToolSpec
    """A tool of the same server that does not change, with the same parameters."""
    is_demanded: bool
    """A migration has no reason to refuse, as far as the code goes."""


class _Argument(msgspec.Struct, kw_only=True):
    parameter: Parameter
    values: list[Any]
    text: str = ""
    is_literal: bool = True
    has_effect: bool = False
    """Its expression does more than give a value, so that it cannot be left out."""


def build_case(mutation: Mutation, chance: random.Random) -> Case | None:
    """Code for one mutation, or `None` if nothing fits what the tool demands."""
    before = mutation.before
    if {before.function, before.module} & _TAKEN:
        return None
    try:
        arguments = _choose_arguments(mutation, chance)
    except Unmakeable:
        return None
    return _Writer(mutation, arguments, chance).write()


def _choose_arguments(mutation: Mutation, chance: random.Random) -> list[_Argument]:
    spec, chosen = mutation.before, []
    for parameter in Stub(spec).parameters:
        optional = 0.8 if mutation.is_moving else 0.3
        wanted = parameter.required or parameter.key in mutation.given or chance.random() < optional
        if not wanted or parameter.key in mutation.left_out:
            continue
        try:
            values = list(mutation.given.get(parameter.key, ())) or make_many(
                parameter.schema, spec.input_schema, chance, _ITEMS
            )
        except Unmakeable:
            if parameter.required or parameter.key in mutation.given:
                raise
            continue
        chosen.append(_Argument(parameter=parameter, values=chance.sample(values, min(len(values), _ITEMS))))
    for turn in range(_ITEMS):
        call = {each.parameter.key: each.values[turn % len(each.values)] for each in chosen}
        if not fits(call, spec.input_schema, spec.input_schema):
            raise Unmakeable("The parameters that fit alone do not fit together.")
    return chosen


class _Writer:
    """Writes one piece of code."""

    def __init__(self, mutation: Mutation, arguments: list[_Argument], chance: random.Random) -> None:
        self._mutation, self._arguments, self._chance = mutation, arguments, chance
        spec = mutation.before
        self._other = changed(
            spec,
            name=_OTHER,
            full_name=full_name(upstream_part(spec.upstream), _OTHER),
            function=_OTHER,
            output_schema=ANSWER,
        )
        self._names = {
            "module": spec.module,
            "function": spec.function,
            "full": spec.full_name,
            "other": _OTHER,
            "other_full": self._other.full_name,
        }
        self._inputs: dict[str, Any] = {}
        self._held_out: dict[str, Any] = {}
        self._heads: list[str] = []

    def write(self) -> Case:
        chance, mutation = self._chance, self._mutation
        callee_name, callee = self._pick(CALLEES)
        place_name, place = self._pick_place()
        arguments_name, style = self._pick_arguments(callee, place)
        use_name, use, steps = self._pick_use(place)
        layout, file = chance.choice(LAYOUTS), chance.choice(FILES)
        distractor = chance.choice(list(DISTRACTORS)) if chance.random() < 0.5 else "nothing"
        if distractor == "second call" and (callee.inside or callee.first):
            distractor = "nothing"  # what it calls is not known there
        form: SkillForm = "function" if chance.random() < 0.7 else "script"
        self._inputs = {name: self._fill(value) for name, value in callee.inputs.items()}
        self._held_out = {name: self._fill(value) for name, value in callee.held_out.items()}
        items = self._express(place)
        inside, call = self._call(callee, style, layout)
        if place.is_quoted and any(sign in call + inside for sign in '"\\\n#{'):
            place_name, place = "straight", PLACES["straight"]
        body = self._body(place, use, inside=inside, call=call, items=items)
        field = steps[-1] if steps else "nothing"
        body += "\n" + self._distract(distractor, field, callee)
        self._heads += [place.head, use.head, self._fill(callee.head)]
        names = (callee_name, arguments_name, place_name, use_name, layout, distractor, form, file)
        kinds = ("callee", "arguments", "place", "use", "layout", "beside", "form", "file")
        return Case(
            mutation=mutation,
            code=_written(self._finish(body, form, has_extra=distractor != "nothing"), file),
            form=form,
            inputs=self._inputs,
            held_out=({**self._inputs, **self._held_out},) if self._held_out else (),
            styles=tuple(f"{kind}: {name}" for kind, name in zip(kinds, names, strict=True)),
            other=self._other,
            is_demanded=self._is_demanded(callee, style, place, use),
        )

    def _is_demanded(self, callee: Callee, style: Arguments, place: Place, use: Use) -> bool:
        mutation = self._mutation
        if mutation.is_silent:
            return True
        literal = {each.parameter.key for each in self._arguments if each.is_literal}
        passed = {each.parameter.key for each in self._arguments}
        effects = {each.parameter.key for each in self._arguments if each.has_effect}
        removed = {key for truth in mutation.truths for key in truth.removed}
        return (
            mutation.is_mechanical
            and not effects & removed
            and callee.is_provable
            and (style.is_provable or not mutation.touched)
            and (mutation.literal & passed) <= literal
            and (not mutation.field or (place.is_followed and use.is_followed))
        )

    def _pick(self, styles: Mapping[str, Any]) -> tuple[str, Any]:
        """A style, more often one that can be proved."""
        provable = self._chance.random() < _PROVABLE_SHARE
        name = self._chance.choice([name for name, style in styles.items() if style.is_provable is provable])
        return name, styles[name]

    def _pick_arguments(self, callee: Callee, place: Place) -> tuple[str, Arguments]:
        styles = DICTS if callee.by_name else ARGUMENTS
        if place.repeats and not place.is_inside:  # `item` is not known where the dict would be made
            styles = {name: style for name, style in styles.items() if style.dict_form not in _MADE_BEFORE}
        if self._mutation.is_moving and not callee.by_name and self._chance.random() < 0.5:
            return "positional", ARGUMENTS["positional"]
        return self._pick(styles)

    def _pick_place(self) -> tuple[str, Place]:
        names = [name for name, place in PLACES.items() if not place.repeats or self._repeatable()]
        if self._mutation.field and self._chance.random() < _PROVABLE_SHARE:
            names = [name for name in names if PLACES[name].is_followed]
        name = self._chance.choice(names)
        return name, PLACES[name]

    def _repeatable(self) -> list[_Argument]:
        return [each for each in self._arguments if len(each.values) == _ITEMS]

    def _pick_use(self, place: Place) -> tuple[str, Use, tuple[str, ...]]:
        spec = self._mutation.before
        known = fields_of(spec) or ({} if spec.output_schema else fields_of(changed(spec, output_schema=ANSWER)))
        steps = self._mutation.field or (self._chance.choice([*known]) if known else ())
        uses = uses_of(steps)
        if place.is_chained:
            uses = {name: use for name, use in uses.items() if name != "f-string" and not use.lines}
            uses = {name: use for name, use in uses.items() if use.value.count("{answer}") == 1}
        if self._mutation.field and self._chance.random() < _PROVABLE_SHARE:
            uses = {name: use for name, use in uses.items() if use.is_followed} or uses
        name = self._chance.choice([*uses])
        return name, uses[name], steps

    def _express(self, place: Place) -> str:
        """Give every argument its source text; return that of the values that are gone through."""
        items = "range(2)"
        repeated = self._chance.choice(self._repeatable()) if place.repeats else None
        for argument in self._arguments:
            if argument is repeated:
                argument.text, argument.is_literal = "item", False
                items = repr(argument.values)
                if self._chance.random() < 0.4:
                    items = "list(things)"
                    self._inputs["things"] = argument.values
                    self._held_out["things"] = argument.values[1:]
            else:
                self._express_one(argument)
        return items

    def _express_one(self, argument: _Argument) -> None:
        value, name = argument.values[0], argument.parameter.name
        other = argument.values[-1]
        argument.values = argument.values[:1]
        kinds = ["literal"] * 4 + ["input"] * 4 + ["expression"] * 2 + ["constant"] * 2 + ["effect"]
        kind = self._chance.choice(kinds)
        argument.is_literal = kind == "literal"
        if kind == "literal":
            argument.text = repr(value)
            return
        if kind == "constant":
            self._heads.append(f"SETTING_{name} = {value!r}")
            argument.text = f"SETTING_{name}"
            return
        if kind == "effect":
            self._heads.append(_TALLY)
            argument.text, argument.has_effect = f"tally({value!r})", True
            return
        taken = name in _TAKEN or name in (self._names["function"], self._names["module"]) or hasattr(builtins, name)
        if taken or self._chance.random() < 0.2:
            name = f"{name}_given"
        self._inputs[name] = value
        if other != value:
            self._held_out[name] = other
        forms = ["{}"]
        if kind == "expression":
            forms = {str: ["str({})", "{}[:]", 'f"{{{}}}"'], int: ["int({})", "{} + 0", "max({}, {})"]}.get(
                type(value), ["({})", "{} if True else None"]
            )
        argument.text = self._chance.choice(forms).format(name, name)

    def _call(self, callee: Callee, style: Arguments, layout: str) -> tuple[str, str]:
        """The statements before the call, and the call."""
        form = style.dict_form
        taken = self._chance.sample(self._arguments, len(self._arguments)) if style.shuffled else [*self._arguments]
        positional = 0 if style.shuffled else self._prefix(style.positional)
        by_place, rest = taken[:positional], taken[positional:]
        split = max(0, len(rest) - style.unpacked)
        by_keyword, unpacked = rest[:split], rest[split:]
        parts = [each.text for each in by_place]
        if form == "starred" and parts:
            parts = [f"*[{', '.join(parts)}]"]
        parts += [f"{each.parameter.name}{' = ' if layout == 'odd' else '='}{each.text}" for each in by_keyword]
        statement = ""
        if unpacked or callee.by_name:
            keys = [(each.parameter.key if callee.by_name else each.parameter.name, each) for each in unpacked]
            if form == "input" and not any(each.text == "item" for each in unpacked):
                self._inputs["options"] = {key: each.values[0] for key, each in keys}
                text = "options"
            else:
                statement, text = dict_text([(key, each.text) for key, each in keys], form)
            parts.append(text if callee.by_name else f"**{text}")
        name = self._fill(callee.call)
        if callee.by_name:
            is_keyword = name.startswith("name=")
            parts = [name, f"arguments={parts[-1]}" if is_keyword else parts[-1]]
            name = "invoke" if "invoke" in callee.head else "call_tool"
        if callee.first:
            parts.insert(0, self._fill(callee.first))
        inside = "\n".join(filter(None, (self._fill(callee.inside), statement)))
        return inside, lay_out(name, parts, layout) + callee.last

    def _prefix(self, most: int) -> int:
        """The number of arguments that may go by their place: those that are passed without a gap."""
        names = [parameter.name for parameter in Stub(self._mutation.before).parameters]
        given = [each.parameter.name for each in self._arguments]
        count = 0
        while count < min(most, len(given)) and given[count] == names[count]:
            count += 1
        return count

    def _body(self, place: Place, use: Use, *, inside: str, call: str, items: str) -> str:
        source = call if place.is_chained else "answer"
        value = use.value.format(answer=source)
        lines = use.lines.format(answer=source)
        found = []
        for line in place.text.splitlines():
            margin = line[: len(line) - len(line.lstrip())]
            if line.strip() in ("{inside}", "{use}"):
                block = inside if "inside" in line else lines
                found += textwrap.indent(block, margin).splitlines()
            else:
                found.append(line.format(call=call, value=value, items=items))
        return "\n".join(found)

    def _distract(self, name: str, field: str, callee: Callee) -> str:
        if name == "second call":
            return DISTRACTORS[name].format(again=self._again(callee))
        if not name.startswith("other tool"):
            keywords = ", ".join(f"{each.parameter.name}=1" for each in self._arguments)
            return DISTRACTORS[name].format(**self._names, keywords=keywords, field=field)
        self._heads.append(self._fill("from servers.{module} import {other}"))
        given = ", ".join(f"{each.parameter.name}={each.values[0]!r}" for each in self._arguments)
        return DISTRACTORS[name].format(**self._names, other_call=f"{_OTHER}({given})")

    def _again(self, callee: Callee) -> str:
        """The same call with literals, written in the plainest way."""
        name = self._fill(callee.call)
        if callee.by_name:
            given = {each.parameter.key: each.values[0] for each in self._arguments}
            caller = "invoke" if "invoke" in callee.head else "call_tool"
            return f"{caller}({name}, {'arguments=' if name.startswith('name=') else ''}{given!r})"
        return f"{name}({', '.join(f'{each.parameter.name}={each.values[0]!r}' for each in self._arguments)})"

    def _finish(self, body: str, form: SkillForm, *, has_extra: bool) -> str:
        head = "\n".join(dict.fromkeys(filter(None, self._heads)))
        value = "[out, extra]" if has_extra else "out"
        if _TALLY in self._heads:
            value = f"[{value}, seen_values]"
        if form == "script":
            last = f"result = {value}" if self._chance.random() < 0.5 else value
            return f"{head}\n\n# keep: a script\n{body}\n{last}\n"
        text = textwrap.indent(body, "    ")
        given = ", ".join(self._inputs)
        return (
            f'"""Made to be migrated."""\n{head}\n\n\ndef {SKILL}({given}):\n    """Find things."""\n'
            f"    # keep: inside\n{text}\n    return {value}  # keep: the end\n"
        )

    def _fill(self, template: str) -> str:
        return template.format(**self._names)


def _written(code: str, file: str) -> str:
    if file == "tabs":
        lines = [line.lstrip(" ") for line in code.split("\n")]
        margins = [(len(line) - len(bare)) // 4 for line, bare in zip(code.split("\n"), lines, strict=True)]
        return "\n".join("\t" * margin + line for margin, line in zip(margins, lines, strict=True))
    return code.replace("\n", "\r\n") if file == "crlf" else code
