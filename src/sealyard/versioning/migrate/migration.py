"""Rewrites code for a tool that changed. Comments and formatting stay as they are.

Only what is proven is rewritten: a name must stand for the tool and for nothing else, an argument must be known, and
the use of a renamed field must be followed to its end. Everything else is refused, with the line and the reason, and
then nothing is changed.
"""

import ast
import asyncio
import difflib
import unicodedata
from collections.abc import Sequence
from typing import Any

import msgspec

from sealyard.code import Names, parse
from sealyard.errors import InvalidSkill
from sealyard.offload import Offload
from sealyard.offload.child import Query
from sealyard.values.skills import SkillForm
from sealyard.versioning.migrate.arguments import rewrite_arguments
from sealyard.versioning.migrate.interpreter import Interpreter
from sealyard.versioning.migrate.renames import rewrite_names
from sealyard.versioning.migrate.state import State, TooMuch
from sealyard.versioning.migrate.text import Overlap, Sources
from sealyard.versioning.steps import Difficulty, Plan

_DEPTH = 100  # levels of a syntax tree: the interpreter recurses
_NODES = 40_000  # nodes of a syntax tree: some thousands of lines, followed in seconds
_REFUSALS = 50  # a bound on the answer


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One change to the code."""

    line: int
    """Counted from 1, before the change."""
    before: str
    after: str
    reason: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The reason that the code cannot be rewritten, at one place."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"Line {self.line}: {self.reason}"


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The rewritten code, or the reasons that it is not rewritten. With refusals the code is what it was."""

    code: str
    edits: tuple[Edit, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def migrate(code: str, plans: Sequence[Plan], *, form: SkillForm = "function", name: str | None = None) -> Migration:
    """Rewrite `code` for all `plans` at once. Code that uses none of their tools comes back as it is.

    `name` is the function that others call; without it every function at the top that has no leading underscore
    counts as one. Anything may be given as code; time is bounded.
    """
    return _attempt(code, plans, form, name)[0]


def predict(code: str, plans: Sequence[Plan], *, form: SkillForm = "function", name: str | None = None) -> Difficulty:
    """The difficulty of migrating `code`; costs what `migrate` costs."""
    return _difficulty(plans, *_attempt(code, plans, form, name))


def diff(before: str, after: str, name: str) -> str:
    """The unified diff of two texts of the skill `name`."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"{name} (old)", f"{name} (new)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


async def rewrite_beside(
    code: str, plan: Plan, *, form: SkillForm, name: str, offload: Offload | None, who: str
) -> tuple[Difficulty, Migration]:
    """The difficulty of migrating `code`, and the migration, without holding up the event loop.

    A helper process rewrites code of unknown origin. Raises `HelperFailed` if that takes too long.
    """
    if offload is None:
        return await asyncio.to_thread(_rewrite_for, code, _Task(plan=plan, form=form, name=name))
    params = {"plan": plan, "form": form, "name": name}
    made = (await offload.run("rewrite", params, code.encode("utf-8", "surrogatepass"), who=who)).result
    return made["predicted"], msgspec.convert(made["migration"], Migration)


class _Task(msgspec.Struct):
    plan: Plan
    form: SkillForm
    name: str


def rewrite(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """The helper's side of `rewrite_beside`."""
    predicted, migration = _rewrite_for(body.decode("utf-8", "surrogatepass"), msgspec.convert(params, _Task))
    return {"predicted": predicted, "migration": msgspec.to_builtins(migration)}, b""


def _rewrite_for(code: str, task: _Task) -> tuple[Difficulty, Migration]:
    migration, touched = _attempt(code, [task.plan], task.form, task.name)
    return _difficulty([task.plan], migration, touched), migration


def _difficulty(plans: Sequence[Plan], migration: Migration, touched: set[int]) -> Difficulty:
    if not migration.refusals:
        return "mechanical"
    return "impossible" if any(plans[number].difficulty == "impossible" for number in touched) else "needs a look"


def _attempt(code: str, plans: Sequence[Plan], form: SkillForm, name: str | None) -> tuple[Migration, set[int]]:
    """The migration, and the numbers of the plans whose tools the code uses."""
    if not any(_may_use(code, plan) for plan in plans):
        return Migration(code=code), set()
    try:
        names = parse(code)
        _check_size(names.tree)
        return _rewrite(code, names, plans, _exported(names.tree, form, name))
    except InvalidSkill as error:
        return _refused(code, str(error)), set()
    except (RecursionError, TooMuch):
        return _refused(code, "The code is too large or too deeply nested to be followed. Split it."), set()


def _rewrite(code: str, names: Names, plans: Sequence[Plan], exported: set[str] | None) -> tuple[Migration, set[int]]:
    sources = Sources(names.tree, code)
    state = State(names, plans)
    Interpreter(state, exported=exported).run()
    try:
        rewrite_names(state, sources)
        rewrite_arguments(state, sources)
        reached = state.reached if state.touched or state.near else ()
        refused = {(sources.line(node), _sentence(reason)) for node, reason in (*state.refused, *reached)}
        if refused:
            refusals = [Refusal(line=line, reason=reason) for line, reason in sorted(refused)]
            return Migration(code=code, refusals=tuple(refusals[:_REFUSALS])), state.touched
        after, shown = sources.changed()
        if after != code:
            _compile(after)
    except Overlap as error:
        return _refused(code, str(error)), state.touched
    except InvalidSkill as error:
        return _refused(code, f"The rewritten code would be wrong: {error}"), state.touched
    edits = [Edit(line=line, before=before, after=new, reason=_sentence(why)) for line, before, new, why in shown]
    return Migration(code=after, edits=tuple(edits)), state.touched


def _compile(code: str) -> None:
    """Check what only the compiler sees, such as an argument that is given twice."""
    try:
        compile(parse(code).tree, "<skill>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InvalidSkill(f"{type(error).__name__}: {error}") from None


def _may_use(code: str, plan: Plan) -> bool:
    """True if the text can have to do with a plan's tool at all."""
    if not plan.steps and not plan.obstacles and [*plan.names_before.items()] == [*plan.names_after.items()]:
        return False
    text = code if code.isascii() else unicodedata.normalize("NFKC", code)
    return any(word in text for word in ("servers", "call_tool", plan.before.full_name, "\\"))


def _exported(tree: ast.Module, form: SkillForm, name: str | None) -> set[str] | None:
    """The functions that others call; None for a script."""
    if form == "script":
        return None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not functions:
        return None
    return {name} if name in functions else {each for each in functions if not each.startswith("_")}


def _check_size(tree: ast.Module) -> None:
    """Raise `TooMuch` for code on which the interpreter would recurse too deeply or take too long."""
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    seen = 0
    while stack:
        node, depth = stack.pop()
        seen += 1
        if depth > _DEPTH or seen > _NODES:
            raise TooMuch
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))


def _refused(code: str, message: str) -> Migration:
    line, _, rest = message.partition(": ")
    number = line.removeprefix("Line ")
    if line.startswith("Line ") and number.isdecimal():
        return Migration(code=code, refusals=(Refusal(line=int(number), reason=_sentence(rest)),))
    return Migration(code=code, refusals=(Refusal(line=1, reason=_sentence(message)),))


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
