"""Plans: the steps from one definition of a tool to another, and the obstacles that only a person can decide.

The same steps rewrite code (`migrate`), translate a call as it is made, and adapt recorded answers. So a change becomes
a step only if its meaning for a call is proven by the two definitions alone:

- A parameter or field has another name: `compare.successors` says when that is proven.
- A parameter is gone: nothing that is new, takes more than before or is spoken of as its heir may stand for it.
- A parameter has to be given: if it is new, its schema gives one value; if not, its old default is what leaving it out
  meant. Either fits the schema.
- A scalar has another type: it is described as before, and the value has one form in either type (`convert`).

Everything else is an obstacle. The `renames` of a person need no proof.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.values.changes import Change
from sealyard.values.skills import Difficulty
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.comparison import compare
from sealyard.versioning.compare.proof import is_proven
from sealyard.versioning.compare.schemas import NULLS, Budget, Case, Document, Exhausted, cases_of, part, resolve
from sealyard.versioning.compare.wording import are_opposed, are_same_text, folded, is_distinctive, newly_deprecated

Scalar = Literal["string", "integer", "number", "boolean"]
_TOKEN = re.compile(r"__PII_\w+__")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,300}")
"""A whole number as it is written in one way only: `007` and `+7` may be names of something."""
_STEPS = 500
"""The cost that reading one parameter may have: a scalar takes ten, and a value from a list an eighth."""
_PLACES = 2_000
"""Parts of a value that are read: no literal in code and no default has more."""


class Untranslatable(InvalidRequest):
    """A call that was right for the old definition of a tool cannot be made one for the new definition."""


class RenameTool(msgspec.Struct, frozen=True, kw_only=True, tag="rename_tool"):
    """The tool has other names; these are the new ones."""

    full_name: str
    module: str
    function: str


class RenameParameter(msgspec.Struct, frozen=True, kw_only=True, tag="rename_parameter"):
    """A parameter has another key in the schema."""

    before: str
    after: str


class RemoveParameter(msgspec.Struct, frozen=True, kw_only=True, tag="remove_parameter"):
    """A parameter is gone, and calls do without it."""

    name: str


class AddParameter(msgspec.Struct, frozen=True, kw_only=True, tag="add_parameter"):
    """A parameter has to be given; where a call does not, it gets this value."""

    name: str
    """The new key."""
    value: Any


class RetypeParameter(msgspec.Struct, frozen=True, kw_only=True, tag="retype_parameter"):
    """A parameter takes another type of scalar."""

    name: str
    """The old key."""
    to: Scalar


class RenameField(msgspec.Struct, frozen=True, kw_only=True, tag="rename_field"):
    """A field of the answer has another name."""

    path: str
    """By the old names, such as `items[].name`."""
    after: str
    """The new name of the last part."""


Step = RenameTool | RenameParameter | RemoveParameter | AddParameter | RetypeParameter | RenameField


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """A change that no step answers."""

    side: Literal["tool", "input", "omitted", "output"]
    """`tool`: it hits every call. `input`: calls that give the parameter. `omitted`: calls that do not. `output`: code
    that reads the field."""
    field: str
    """The old key of the parameter (of `input` empty: one that is not declared), or the path in the answer by the old
    names, empty for the whole."""
    reason: str
    is_total: bool = False
    """Of `input`: whether it hits every value, also one that the new tool takes, since it may mean something else."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from `before` to `after`, and the obstacles."""

    before: ToolSpec
    after: ToolSpec | None
    """None: the tool is gone."""
    steps: tuple[Step, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    names_before: dict[str, str] = {}
    """The schema's key -> the function's parameter, in the order in which the function takes them."""
    names_after: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons that breaking changes have no mechanical answer, one sentence each."""
        return tuple(obstacle.reason for obstacle in self.obstacles)

    @property
    def difficulty(self) -> Difficulty:
        """The difficulty by the definitions alone; a migration reads code too."""
        if self.after is None or any(obstacle.side == "tool" for obstacle in self.obstacles):
            return "impossible"
        return "needs a look" if self.obstacles else "mechanical"

    @property
    def is_reordered(self) -> bool:
        """True if an argument without a name would mean another parameter than before."""
        return list(self.names_before)[: len(self.names_after)] != list(self.names_after)[: len(self.names_before)]

    @property
    def keys(self) -> dict[str, str | None]:
        """Old key -> new key of every parameter whose name matters; None if it is gone."""
        changed: dict[str, str | None] = {key: key for key in self.names_before}
        for step in self.steps:
            if isinstance(step, RenameParameter):
                changed[step.before] = step.after
            elif isinstance(step, RemoveParameter):
                changed[step.name] = None
        return changed


# Making and using plans


NamesOf = Callable[[ToolSpec], Mapping[str, str]]
"""The schema's key -> the function's parameter, in the order in which the function takes them."""

_OUTPUT = "output"
_TEXT = 4_000  # characters of a description that are read
_QUOTED = re.compile(r"[`'\"]([\w.-]+)[`'\"]|\b([A-Za-z]+(?:_\w+|[a-z][A-Z]\w*))\b")
_TWINS = 50  # parameters with one description that are told apart by their names: a bound on the cost
_NOTHING = object()
_KEYS = 2_000  # parts of a schema that are searched for odd names
_EXACT = ("format", "pattern", "contentEncoding", "contentMediaType")
"""Keywords that give a text a meaning which a number cannot have, and the other way round."""


def signature_names(spec: ToolSpec) -> dict[str, str]:
    """Key -> parameter where both are the same: required ones first, else in the order of the schema."""
    keys = [key for key in part(spec.input_schema, "properties", dict) if isinstance(key, str)]
    demanded = {key for key in part(spec.input_schema, "required", list) if isinstance(key, str)}
    keys += sorted(demanded.difference(keys))
    return {key: key for key in sorted(keys, key=lambda key: key not in demanded)}


def make_plan(
    before: ToolSpec,
    after: ToolSpec | None,
    *,
    renames: Mapping[str, str] | None = None,
    output_before: dict[str, Any] | None = None,
    output_after: dict[str, Any] | None = None,
    python_names: NamesOf = signature_names,
) -> Plan:
    """The plan from `before` to `after`; None: the tool is gone.

    `renames` come from a person: `{"start": "since", "output.items[].name": "title"}`; with an empty new name, the
    parameter is to be left out. They count for more than any guess. `output_before` and `output_after` are learned
    shapes, used where a definition declares none.

    Raises:
        InvalidRequest: `renames` names a parameter that is not there.
    """
    if after is None:
        gone = Obstacle(
            side="tool", field="", reason=f"The tool {before.full_name!r} is gone, and nothing replaces it."
        )
        return Plan(before=before, after=None, obstacles=(gone,), names_before=dict(python_names(before)))
    return _Planning(before, after, renames or {}, python_names).plan(output_before, output_after)


def translate_arguments(plan: Plan, arguments: Any) -> dict[str, Any]:
    """The call of the new tool that means what `arguments` meant to the old one.

    Raises:
        Untranslatable: No such call is known; the message says which argument is in the way.
    """
    tool = plan.before.full_name
    if not isinstance(arguments, dict):
        raise Untranslatable(f"The arguments of {tool!r} must be an object, not {type(arguments).__name__}.")
    for obstacle in plan.obstacles:
        if _is_hit(plan, obstacle, arguments):
            raise Untranslatable(f"This call of {tool!r} cannot be translated: {obstacle.reason}")
    retyped = {step.name: step.to for step in plan.steps if isinstance(step, RetypeParameter)}
    keys = plan.keys
    translated: dict[str, Any] = {}
    for key, value in arguments.items():
        after = keys.get(key, key)
        if after is None:
            continue
        if after in translated:
            raise Untranslatable(f"Two arguments of {tool!r} would both be {after!r}. Give one of them.")
        if key not in keys and key in plan.names_after:
            raise Untranslatable(f"Argument {key!r} of {tool!r} was not declared and is now. Migrate the skill.")
        translated[after] = _retyped(plan, key, value, retyped[key]) if key in retyped else value
    for step in plan.steps:
        if isinstance(step, AddParameter):
            translated.setdefault(step.name, step.value)
    return translated


def _retyped(plan: Plan, key: str, value: Any, to: Scalar) -> Any:
    """A value of another type that the new tool certainly takes. Raises `Untranslatable`."""
    converted = convert(value, to, key)
    if converted is not None and not fits(plan, key, converted):
        raise Untranslatable(f"Argument {key!r} has become {to}, and does not take the value given. Change it.")
    return converted


def _is_hit(plan: Plan, obstacle: Obstacle, arguments: dict[str, Any]) -> bool:
    """True if an obstacle is in the way of a call."""
    match obstacle.side:
        case "tool":
            return True
        case "omitted":
            return obstacle.field not in arguments
        case "input" if not obstacle.field:
            return not arguments.keys() <= plan.names_before.keys()
        case "input":
            return obstacle.field in arguments and not fits(plan, obstacle.field, arguments[obstacle.field])
        case _:
            return False


def adapt_answer(plan: Plan, answer: Any) -> Any:
    """An answer of the old tool as the new one would have given it."""
    for path, names in sorted(_renamed_fields(plan).items(), key=lambda each: -len(each[0])):
        answer = _renamed(answer, path, names)
    return answer


def translate_answer(plan: Plan, answer: Any) -> Any:
    """An answer of the new tool as the old one would have given it."""
    for path, names in sorted(_renamed_fields(plan).items(), key=lambda each: len(each[0])):
        answer = _renamed(answer, path, {after: before for before, after in names.items()})
    return answer


def _renamed_fields(plan: Plan) -> dict[tuple[str, ...], dict[str, str]]:
    """Path of an object, by the old names -> old and new names of fields in it."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for step in plan.steps:
        if isinstance(step, RenameField) and (path := split_path(step.path)):
            found.setdefault(path[:-1], {})[path[-1]] = step.after
    return found


def _renamed(value: Any, path: Sequence[str], names: Mapping[str, str]) -> Any:
    """`value` with other keys in all objects at `path`; their order stays. Recurses as deep as the path."""
    if path and path[0] == "[]":
        return [_renamed(item, path[1:], names) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    if path:
        touched = value.keys() if path[0] == "{}" else value.keys() & path[:1]
        return {key: _renamed(item, path[1:], names) if key in touched else item for key, item in value.items()}
    taken = {names[key] for key in value if key in names}
    return {names.get(key, key): item for key, item in value.items() if key in names or key not in taken}


class _Planning:
    """One plan in the making."""

    def __init__(self, before: ToolSpec, after: ToolSpec, renames: Mapping[str, str], python_names: NamesOf) -> None:
        self._before = before
        self._after = after
        self._names = dict(python_names(before)), dict(python_names(after))
        self._fields = {
            key.removeprefix(_OUTPUT).removeprefix("."): to for key, to in renames.items() if _is_field(key)
        }
        self._said = {key: to for key, to in renames.items() if not _is_field(key)}
        self._steps: list[Step] = []
        self._obstacles: list[Obstacle] = []
        self._new: list[str] = []
        """Parameters, and fields in them, that nothing is known to be the old name of, or that take more now."""
        for key, to in self._said.items():
            if key not in self._names[0] or (to and to not in self._names[1]):
                known = ", ".join(self._names[1])
                raise InvalidRequest(
                    f"{before.full_name!r} cannot rename {key!r} to {to!r}: one of them is not a parameter. "
                    f"The new definition has {known or 'none'}."
                )

    def plan(self, output_before: dict[str, Any] | None, output_after: dict[str, Any] | None) -> Plan:
        """The plan for all changes."""
        before, after = self._before, self._after
        named = [(spec.full_name, spec.module, spec.function) for spec in (before, after)]
        if named[0] != named[1]:
            self._add(RenameTool(full_name=after.full_name, module=after.module, function=after.function))
        for key, to in self._said.items():
            if not to:
                self._add(RemoveParameter(name=key))
            elif key != to:
                self._add(RenameParameter(before=key, after=to))
        for path, to in self._fields.items():
            self._add(RenameField(path=path, after=to))
        found = compare(self._respelled(), after, output_before=output_before, output_after=output_after)
        old = {to: key for key, to in self._said.items() if to}
        self._new = self._heirs(found.changes)
        for change in found.changes:
            if change.severity == "major" and change.side == "input":
                self._input(change, old)
            elif change.severity == "major" and change.side == "output":
                self._output(change)
        return Plan(
            before=before,
            after=after,
            steps=tuple(self._steps),
            obstacles=tuple(self._obstacles),
            names_before=self._names[0],
            names_after=self._names[1],
        )

    def _respelled(self) -> ToolSpec:
        """The old definition with the new names of those parameters that a person renamed."""
        schema = self._before.input_schema
        properties, required = schema.get("properties"), schema.get("required")
        if not self._said or not isinstance(properties, dict):
            return self._before
        renamed = {to: value for key, value in properties.items() if (to := self._said.get(key, key))}
        changed = schema | {"properties": renamed}
        if isinstance(required, list):
            spelled = [self._said.get(key, key) if isinstance(key, str) else key for key in required]
            changed["required"] = [key for key in spelled if key]
        return msgspec.structs.replace(self._before, input_schema=changed, digest="")

    def _add(self, step: Step) -> None:
        if step not in self._steps:
            self._steps.append(step)

    def _block(
        self,
        side: Literal["tool", "input", "omitted", "output"],
        field: str,
        reason: str,
        *,
        is_total: bool = False,
    ) -> None:
        obstacle = Obstacle(side=side, field=field, reason=reason, is_total=is_total)
        if obstacle not in self._obstacles:
            self._obstacles.append(obstacle)

    # Parameters

    def _input(self, change: Change, old: Mapping[str, str]) -> None:
        """`old`: the old keys of parameters that a person renamed, which the change has under their new ones."""
        key = change.field
        nested = key not in self._names[0] and key not in self._names[1]
        if nested:
            steps = split_path(key)
            key = steps[0] if steps else ""
        before = old.get(key, key)
        name = f"The parameter `{before}`" if before else "The parameters"
        if nested:
            inside = f" changed at `{change.field}`" if before else " changed"
            is_total = change.kind == "parameter_swapped"
            self._block("input", before, f"{name}{inside}: {change.reason}", is_total=is_total)
            return
        match change.kind:
            case "parameter_renamed" if change.replacement is not None:
                self._rename(before, change)
            case "parameter_removed" if heirs := self._new or self._named_heirs(before):
                new = ", ".join(f"`{name}`" for name in heirs[:3])
                self._block("input", before, f"{name} is gone, and {new} may stand for it, which a person has to say.")
            case "parameter_removed":
                self._add(RemoveParameter(name=before))
            case "parameter_swapped":
                self._block("input", before, f"{name} changed: {change.reason}", is_total=True)
            case "parameter_added":
                self._demand(key, key, None)
            case "parameter_required":
                self._demand(before, self._new_key(before), self._schema(0, before))
            case "parameter_retyped" | "parameter_narrowed":
                self._retype(before, change)
            case _:
                self._block("input", before, f"{name} changed: {change.reason}")

    def _heirs(self, changes: Sequence[Change]) -> list[str]:
        """The parameters that a removed one may have become: all that are new, or take more than before."""
        known = {*self._names[0], *self._said.values()}
        known |= {each.replacement.name for each in changes if each.replacement and each.replacement.is_proven}
        wider = (
            each.field
            for each in changes
            if each.field and each.side == "input" and each.kind in ("parameter_added", "parameter_widened")
        )
        return list(dict.fromkeys((*(key for key in self._names[1] if key not in known), *wider)))

    def _named_heirs(self, key: str) -> list[str]:
        """The parameters that texts name as the successor of a removed one."""
        text = self._said_of(0, key)
        announced = newly_deprecated(("", False), (text, False))
        twins = self._described.get(folded(text), ()) if is_distinctive(text) else ()
        found = {other for other in twins if len(twins) > _TWINS or not are_opposed(key, other)}
        found.update(self._mentions.get(key, ()))
        if announced is not None and announced.replacement:
            found.add(announced.replacement)
        return [name for name in self._names[1] if name in found]

    @cached_property
    def _described(self) -> dict[str, list[str]]:
        """The parameters of each description now."""
        found: dict[str, list[str]] = {}
        for name in self._names[1]:
            found.setdefault(folded(self._said_of(1, name)), []).append(name)
        return found

    @cached_property
    def _mentions(self) -> dict[str, list[str]]:
        """The parameters whose descriptions speak of a name now and did not before, by that name."""
        found: dict[str, list[str]] = {}
        for name in self._names[1]:
            for mentioned in _names_in(self._said_of(1, name)) - _names_in(self._said_of(0, name)):
                found.setdefault(mentioned, []).append(name)
        return found

    def _said_of(self, side: int, key: str) -> str:
        schema = self._schema(side, key)
        case = plain_case(schema, (self._before, self._after)[side].input_schema)[0]
        texts = [each.get("description") for each in (schema, *(case.atoms if case else ())) if isinstance(each, dict)]
        return next((text for text in texts if isinstance(text, str)), "")

    def _new_key(self, key: str) -> str:
        """The new key of a parameter, according to the steps so far."""
        renamed = {step.before: step.after for step in self._steps if isinstance(step, RenameParameter)}
        return renamed.get(key, key)

    def _rename(self, key: str, change: Change) -> None:
        to = change.replacement
        assert to is not None
        if to.is_proven:
            self._add(RenameParameter(before=key, after=to.name))
            return
        self._block(
            "input",
            key,
            f"The parameter `{key}` is gone; it may be `{to.name}` now ({to.why}), which a person has to say.",
        )
        if to.name in part(self._after.input_schema, "required", list):
            self._demand(to.name, to.name, None)

    def _demand(self, key: str, to: str, before: object) -> None:
        """A parameter has to be given from now on. Left out, an old one meant its old default, and nothing else."""
        after, root = self._schema(1, to), self._after.input_schema
        value = _derived(after, root)
        if before is not None:
            value = _derived(before, self._before.input_schema, only_default=True)
        own = {name: inside for name, inside in after.items() if name != "format"} if isinstance(after, dict) else after
        if value is not _NOTHING and takes(own, root, value):  # of a format of its own it is taken to be
            self._add(AddParameter(name=to, value=value))
        elif before is None:
            self._block("tool", to, f"The parameter `{to}` is new and required, and no value follows from its schema.")
        else:
            self._block("omitted", key, f"The parameter `{key}` is required now, and no value follows from its schema.")

    def _retype(self, key: str, change: Change) -> None:
        """Another type, or fewer values."""
        to = self._new_key(key)
        old = plain_case(self._schema(0, key), self._before.input_schema)[0]
        new = plain_case(self._schema(1, to), self._after.input_schema)[0]
        is_same = key in self._said or are_same_text(self._said_of(0, key), self._said_of(1, to))
        scalar = _convertible(old, new) if old and new and is_same else None
        if scalar is not None:
            self._add(RetypeParameter(name=key, to=scalar))
            return
        words = f" ({change.before} before, {change.after} now)" if change.before or change.after else ""
        self._block("input", key, f"The parameter `{key}` changed{words}: {change.reason}")

    def _schema(self, side: int, key: str) -> object:
        root = (self._before, self._after)[side].input_schema
        return part(root, "properties", dict).get(key)

    # Fields of the answer

    def _output(self, change: Change) -> None:
        path = change.field
        if any(path == field for field in self._fields) and change.kind in ("output_removed", "output_renamed"):
            return
        to = change.replacement
        if change.kind == "output_renamed" and to is not None:
            exact = split_path(path)[-1:] == (change.before,) and not _has_odd_keys(self._before.output_schema)
            if to.is_proven and exact:
                self._add(RenameField(path=path, after=to.name))
                return
            reason = f"`{path}` of the answer may be `{to.name}` now ({to.why}), which a person has to say."
        else:
            reason = (
                f"`{path}` of the answer changed: {change.reason}" if path else f"The answer changed: {change.reason}"
            )
        odd = _has_odd_keys(self._before.output_schema)
        self._block("output", "" if odd else path, reason)


def _is_field(key: str) -> bool:
    """True if a rename is of a field of the answer."""
    return key.startswith((f"{_OUTPUT}.", f"{_OUTPUT}["))


def _derived(schema: object, root: dict[str, Any], *, only_default: bool = False) -> Any:
    """The value that a schema itself gives."""
    schema = resolve(schema, root)
    if "default" in schema:
        return schema["default"]
    if only_default:
        return _NOTHING
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else _NOTHING


def _convertible(old: Case, new: Case) -> Scalar | None:
    """The new type, if old values have a meaning in it by their schemas. Each value is checked when given."""
    was, is_now = scalar_of(old), scalar_of(new)
    is_exact = any(key in atom for atom in (*old.atoms, *new.atoms) for key in _EXACT)
    if was is None or is_now is None or was in (is_now, "boolean") or is_exact:
        return None
    if old.values is None:
        return is_now if new.values is None and is_now != "boolean" else None
    try:
        converted = [convert(value, is_now) for value in old.values]
    except Untranslatable:
        return None
    return is_now if new.values is None or all(value in new.values for value in converted) else None


def _names_in(text: str) -> set[str]:
    """The names that a text quotes, and the words in it that no prose has: `page_size`, `pageSize`."""
    return {name for found in _QUOTED.findall(text[:_TEXT]) for name in found if name}


def _has_odd_keys(schema: object) -> bool:
    """True if a name in a schema would make a path ambiguous."""
    queue, seen = [schema], 0
    while queue and seen < _KEYS:
        place = queue.pop()
        seen += 1
        if isinstance(place, dict):
            properties = place.get("properties")
            names = properties if isinstance(properties, dict) else {}
            if any(not isinstance(name, str) or re.search(r"[.\[\]{}]", name) or not name for name in names):
                return True
            queue += place.values()
        elif isinstance(place, list):
            queue += place
    return bool(queue)


# Values, types and schemas


def fits(plan: Plan, key: str, value: Any) -> bool:
    """True if a value of an old parameter is certainly one that the new tool takes as it is, and understands."""
    after = plan.keys.get(key, key)
    root = plan.after.input_schema if plan.after is not None else {}
    properties = part(root, "properties", dict)
    if after is None or after not in properties:
        return False
    if any(each.is_total and each.side == "input" and each.field == key for each in plan.obstacles):
        return False
    was = part(plan.before.input_schema, "properties", dict).get(key)
    return takes(properties[after], root, value, was=was)


def takes(declared: object, root: dict[str, Any], value: Any, *, was: object = None) -> bool:
    """True if a schema certainly takes a value, and declares every key in it.

    A key that is not declared may not be understood, even where the schema lets it pass. Formats and patterns that
    `was`, the old schema, has in the same words are taken to hold.
    """
    if isinstance(declared, dict) and isinstance(was, dict):
        said = {name for name in ("format", "pattern") if name in declared and declared[name] == was.get(name)}
        declared = {name: value for name, value in declared.items() if name not in said}
    places: dict[str, Any] = {name: root[name] for name in ("$defs", "definitions") if name in root}
    try:
        given = ({"const": value}, _exactly(value, [_PLACES]))
    except (OverflowError, RecursionError):
        return False
    goal = {"allOf": [declared], **places}
    return any(is_proven(each, goal) for each in given)


def _exactly(value: Any, left: list[int]) -> dict[str, Any]:
    """A schema that a value fits and that declares its keys. Raises `OverflowError` if more than `left` parts."""
    left[0] -= 1
    if left[0] < 0:
        raise OverflowError
    if isinstance(value, list):
        items = {"items": {"anyOf": [_exactly(item, left) for item in value]}} if value else {}
        return {"type": "array", "minItems": len(value), "maxItems": len(value), **items}
    if isinstance(value, dict):
        parts = {name: _exactly(inside, left) for name, inside in value.items()}
        return {"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False}
    return {"const": value}


def convert(value: Any, to: Scalar, name: str = "value") -> Any:
    """A scalar as another type of the same meaning; None stays None.

    Only a value with one form in either type is converted, so that it could be converted back: `"7"` and 7, but not
    `"007"`, which may be a name, nor 12.0, which may be written in two ways, nor true, which may be a count.

    Raises:
        Untranslatable: The value has no meaning in that type, or more than one.
    """
    converted = None if isinstance(value, str) and _TOKEN.search(value) else _converted(value, to)
    if converted is None and value is not None:
        raise Untranslatable(f"Argument {name!r} has become {to}, and the value given cannot be made one. Change it.")
    return converted


def _converted(value: Any, to: Scalar) -> Any:
    match value, to:
        case (str(), "string") | (bool(), "boolean"):
            return value
        case bool(), _:
            return None
        case str(), "boolean":
            return {"true": True, "false": False}.get(value)
        case str(), "integer" | "number":
            return _number(value, to)
        case int(), "string":
            return str(value) if abs(value) < 10**300 else None
        case float(), "string":
            return repr(value) if math.isfinite(value) and not value.is_integer() and "e" not in repr(value) else None
        case float(), "integer":
            return int(value) if value.is_integer() else None
        case (int(), "integer" | "number") | (float(), "number"):
            return value if math.isfinite(value) else None
    return None


def _number(text: str, to: Scalar) -> int | float | None:
    """The number that a text is the only form of."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    is_plain = math.isfinite(number) and not number.is_integer() and repr(number) == text and "e" not in text
    return number if is_plain and to == "number" else None


def split_path(path: str) -> tuple[str, ...]:
    """`items[].name` as `("items", "[]", "name")`; `[]` is an item, `{}` the value of any key."""
    steps: list[str] = []
    for name in path.split(".") if path else ():
        bare = re.sub(r"(\[\]|\{\})+$", "", name)
        steps += [bare] if bare else []
        steps += re.findall(r"\[\]|\{\}", name[len(bare) :])
    return tuple(steps)


_SCALARS: dict[frozenset[str], Scalar] = {
    frozenset({"string"}): "string",
    frozenset({"integer"}): "integer",
    frozenset({"integer", "fraction"}): "number",
    frozenset({"boolean"}): "boolean",
}


def scalar_of(case: Case) -> Scalar | None:
    """The scalar type of all values of a case but null; None if it has another type, or several."""
    return _SCALARS.get(case.kinds - NULLS)


def plain_case(schema: object, root: dict[str, Any]) -> tuple[Case | None, bool]:
    """The only way in which values other than null fit a schema, None if there are others; and true if null may fit."""
    try:
        cases = cases_of(Document(root), [schema], Budget(_STEPS))
    except Exhausted:
        return None, True
    found = [case for case in cases if not case.kinds <= NULLS]
    return found[0] if len(found) == 1 else None, any(case.kinds & NULLS for case in cases)
