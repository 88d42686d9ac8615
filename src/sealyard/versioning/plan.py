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

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.values.changes import Change
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import compare, resolve
from sealyard.versioning.compare.wording import are_opposed, are_same_text, is_distinctive, newly_deprecated
from sealyard.versioning.steps import (
    AddParameter,
    Obstacle,
    Plan,
    RemoveParameter,
    RenameField,
    RenameParameter,
    RenameTool,
    RetypeParameter,
    Scalar,
    Step,
    Untranslatable,
    convert,
    find_scalar,
    fits,
    plain_schema,
    signature_names,
    split_path,
    takes,
)

NamesOf = Callable[[ToolSpec], Mapping[str, str]]
"""The schema's key -> the function's parameter, in the order in which the function takes them."""

_OUTPUT = "output"
_TEXT = 4_000  # characters of a description that are read
_QUOTED = re.compile(r"[`'\"]([\w.-]+)[`'\"]|\b([A-Za-z]+(?:_\w+|[a-z][A-Z]\w*))\b")
_NOTHING = object()
_KEYS = 2_000  # parts of a schema that are searched for odd names
_EXACT = ("format", "pattern", "contentEncoding", "contentMediaType")
"""Keywords that give a text a meaning which a number cannot have, and the other way round."""


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
        found = [announced.replacement] if announced is not None and announced.replacement in self._names[1] else []
        for other in self._names[1]:
            now = self._said_of(1, other)
            is_named = key in _names_in(now) and key not in _names_in(self._said_of(0, other))
            is_twin = is_distinctive(text) and are_same_text(text, now) and not are_opposed(key, other)
            if is_named or is_twin:
                found.append(other)
        return [name for name in found if name]

    def _said_of(self, side: int, key: str) -> str:
        schema = plain_schema(self._schema(side, key), (self._before, self._after)[side].input_schema)
        text = schema.get("description") if schema is not None else None
        return text if isinstance(text, str) else ""

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
        if to.name in self._required(1):
            self._demand(to.name, to.name, None)

    def _demand(self, key: str, to: str, before: object) -> None:
        """A parameter has to be given from now on. Left out, an old one meant its old default, and nothing else."""
        after, root = self._schema(1, to), self._after.input_schema
        value = _derived(after, root)
        if before is not None:
            value = _derived(before, self._before.input_schema, only_default=True)
        own = {name: part for name, part in after.items() if name != "format"} if isinstance(after, dict) else after
        if value is not _NOTHING and takes(own, root, value):  # of a format of its own it is taken to be
            self._add(AddParameter(name=to, value=value))
        elif before is None:
            self._block("tool", to, f"The parameter `{to}` is new and required, and no value follows from its schema.")
        else:
            self._block("omitted", key, f"The parameter `{key}` is required now, and no value follows from its schema.")

    def _retype(self, key: str, change: Change) -> None:
        """Another type, or fewer values."""
        to = self._new_key(key)
        sides = ((self._schema(0, key), self._before.input_schema), (self._schema(1, to), self._after.input_schema))
        (old, new), (was, is_now) = (
            [plain_schema(*side) for side in sides],
            [find_scalar(*side) for side in sides],
        )
        is_same = key in self._said or are_same_text(self._said_of(0, key), self._said_of(1, to))
        if was and is_now and old and new and is_same and _is_convertible(was[0], is_now[0], old, new):
            self._add(RetypeParameter(name=key, to=is_now[0]))
            return
        words = f" ({change.before} before, {change.after} now)" if change.before or change.after else ""
        self._block("input", key, f"The parameter `{key}` changed{words}: {change.reason}")

    def _schema(self, side: int, key: str) -> object:
        root = (self._before, self._after)[side].input_schema
        properties = root.get("properties")
        return properties.get(key) if isinstance(properties, dict) else None

    def _required(self, side: int) -> list[object]:
        required = (self._before, self._after)[side].input_schema.get("required")
        return required if isinstance(required, list) else []

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


def _is_convertible(was: Scalar, is_now: Scalar, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """True if old values have a meaning in the new type, by their schemas. Each value is checked when given."""
    if was in (is_now, "boolean") or any(key in schema for schema in (old, new) for key in _EXACT):
        return False
    choices = [_choices(schema) for schema in (old, new)]
    if choices[0] is None:
        return choices[1] is None and is_now != "boolean"
    try:
        converted = [convert(value, is_now) for value in choices[0]]
    except Untranslatable:
        return False
    return choices[1] is None or all(value in choices[1] for value in converted)


def _choices(schema: dict[str, Any]) -> list[Any] | None:
    """The values that a schema lists."""
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    return choices if isinstance(choices, list) else None


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
