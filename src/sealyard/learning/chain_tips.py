"""What is told of tool chains: sentences of ours, filled with names that were checked and with numbers."""

import hashlib

import msgspec

from sealyard.learning.fields import UNPLACED, place_of, shown
from sealyard.learning.fragments import fragment, is_callable, is_nameable
from sealyard.values import HintKind, ToolSpec

__all__ = ("Follower", "Need", "Tip", "chain_tip", "mark_of", "need_tip")

_CHARACTERS = 160


class Follower(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is often called after another."""

    tool: str
    share: float
    """Of the runs that called the first one."""
    evidence: float
    """How many runs, as they count now."""
    principals: int
    is_backed: bool
    """Whether the viewer itself or at least two principals did it. What one other did is a suggestion."""
    flow: tuple[tuple[str, str], ...] = ()
    """Fields of the first one's answer, and the parameters they became."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter that a tool is usually given."""

    parameter: str
    """The schema's own name; with `[]` if what comes from elsewhere is an item of it."""
    share: float
    evidence: float
    is_backed: bool
    source: tuple[str, str] | None = None
    """The tool and the field that its value comes from."""


class Tip(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to tell. `Hinted` is told with its kind, subject and mark, so that it can be scored."""

    kind: HintKind
    subject: str
    mark: str
    text: str
    code: str | None = None
    """A fragment for who wants all details."""


def mark_of(kind: str, name: str) -> str:
    """What tells a tip from others about the same tool: made from the tool or parameter that it names."""
    return hashlib.blake2b(f"{kind} {name}".encode("utf-8", "replace"), digest_size=6).hexdigest()


def chain_tip(
    first: ToolSpec, second: ToolSpec, follower: Follower, names: dict[str, str], *, with_code: bool
) -> Tip | None:
    """What to say of a tool that follows another; `names` are the Python names of the second one's parameters."""
    if not is_callable(second):
        return None
    text = f"Often used with {second.module}.{second.function} after it ({_percent(follower.share)} of runs)"
    told = [(field, names[key.removesuffix("[]")]) for field, key in follower.flow if key.removesuffix("[]") in names]
    taken = " and ".join(f"its {_field(field)} becomes {name}" for field, name in told[:2] if is_nameable(name))
    if taken and len(text) + len(taken) + 3 <= _CHARACTERS:
        text += f": {taken}"
    code = _code(first, second, follower.flow) if with_code else None
    return _tip("chain", first.full_name, second.full_name, f"{text}.", code)


def need_tip(spec: ToolSpec, need: Need, name: str, source: ToolSpec | None, *, with_code: bool) -> Tip | None:
    """What to say of a parameter that is usually given; `name` is what Python code calls it."""
    often = f"({_percent(need.share)} of runs)"
    if not is_nameable(name):
        return None
    if need.source is None:
        text = f"Usually needs {name} too, though it is optional {often}."
        return _tip("needs", spec.full_name, need.parameter, text, None)
    if source is None or not is_callable(source):
        return None
    tool, field = need.source
    if tool == spec.full_name:
        text = f"Usually needs {name} from the {_field(field)} of its answer before {often}."
        return _tip("needs", spec.full_name, need.parameter, text, None)
    text = f"Usually needs {name} from the {_field(field)} of {source.module}.{source.function} {often}."
    code = _code(source, spec, ((field, need.parameter),)) if with_code else None
    return _tip("needs", spec.full_name, need.parameter, text, code)


def _tip(kind: HintKind, subject: str, named: str, text: str, code: str | None) -> Tip | None:
    if len(text) > _CHARACTERS:
        return None
    return Tip(kind=kind, subject=subject, mark=mark_of(kind, named.removesuffix("[]")), text=text, code=code)


def _code(first: ToolSpec, second: ToolSpec, flow: tuple[tuple[str, str], ...]) -> str | None:
    """The fragment. Where a field lies in an answer that the journal never had, the declared schema may say."""
    placed = [
        (place_of(first, shown(field)) if field.startswith(UNPLACED) else field, parameter) for field, parameter in flow
    ]
    return fragment(first, second, [(field, parameter) for field, parameter in placed if field is not None])


def _field(field: str) -> str:
    return shown(field) or "answer"


def _percent(share: float) -> str:
    return f"{round(share * 100)} %"
