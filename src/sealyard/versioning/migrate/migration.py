"""Rewrites code for a tool that changed. Comments and formatting stay as they are.

Only what is proven is rewritten: a name must stand for the tool and for nothing else, an argument must be known, and
the use of a renamed field must be followed to its end. Everything else is refused, with the line and the reason, and
then nothing is changed.
"""

import ast
import asyncio
import difflib
import unicodedata
from typing import Any

import msgspec

from sealyard.code import Names, parse
from sealyard.errors import InvalidSkill
from sealyard.offload import Offload, Query
from sealyard.values.skills import Difficulty, SkillForm
from sealyard.versioning.migrate.facts import State, TooMuch
from sealyard.versioning.migrate.interpreter import Interpreter
from sealyard.versioning.migrate.rewriter import write_changes
from sealyard.versioning.migrate.splices import Overlap, Sources
from sealyard.versioning.plan import Plan

_DEPTH = 100  # levels of a syntax tree: the interpreter recurses
_NODES = 40_000  # nodes of a syntax tree: some thousands of lines, followed in seconds
_REFUSALS = 50  # a bound on the answer


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The reason that the code cannot be rewritten, at one place."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"Line {self.line}: {self.reason}"


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The rewritten code, or the reasons that it is not rewritten. With refusals the code is what it was."""

    code: str
    refusals: tuple[Refusal, ...] = ()
    difficulty: Difficulty = "mechanical"


def migrate(code: str, plan: Plan, *, form: SkillForm = "function", name: str | None = None) -> Migration:
    """Rewrite `code` for `plan`. Code that does not use its tool comes back as it is.

    `name` is the function that others call; without it every function at the top that has no leading underscore
    counts as one. Anything may be given as code; time is bounded.
    """
    if not _may_use(code, plan):
        return Migration(code=code)
    try:
        names = parse(code)
        _check_size(names.tree)
        return _rewrite(code, names, plan, _exported(names.tree, form, name))
    except InvalidSkill as error:
        return _refused(code, str(error))
    except (RecursionError, TooMuch):
        return _refused(code, "The code is too large or too deeply nested to be followed. Split it.")


def diff(before: str, after: str, name: str) -> str:
    """The unified diff of two texts of the skill `name`."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"{name} (old)", f"{name} (new)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


async def rewrite_beside(
    code: str, plan: Plan, *, form: SkillForm, name: str, offload: Offload | None, who: str
) -> Migration:
    """Migrate `code` without holding up the event loop.

    A helper process rewrites code of unknown origin. Raises `HelperFailed` if that takes too long.
    """
    if offload is None:
        return await asyncio.to_thread(migrate, code, plan, form=form, name=name)
    params = {"plan": plan, "form": form, "name": name}
    made = await offload.run("rewrite", params, code.encode("utf-8", "surrogatepass"), who=who)
    return msgspec.convert(made.result, Migration)


def rewrite(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """The helper's side of `rewrite_beside`."""
    plan = msgspec.convert(params["plan"], Plan)
    made = migrate(body.decode("utf-8", "surrogatepass"), plan, form=params["form"], name=params["name"])
    return msgspec.to_builtins(made), b""


def _rewrite(code: str, names: Names, plan: Plan, exported: set[str] | None) -> Migration:
    sources = Sources(names.tree, code)
    state = State(names, plan)
    Interpreter(state, exported=exported).run()
    difficulty: Difficulty = "impossible" if state.touched and plan.difficulty == "impossible" else "needs a look"
    try:
        write_changes(state, sources)
        reached = state.reached if state.touched or state.near else ()
        refused = {(sources.line(node), _sentence(reason)) for node, reason in (*state.refused, *reached)}
        if refused:
            refusals = [Refusal(line=line, reason=reason) for line, reason in sorted(refused)]
            return Migration(code=code, refusals=tuple(refusals[:_REFUSALS]), difficulty=difficulty)
        after = sources.changed()
        if after != code:
            _compile(after)
    except Overlap as error:
        return _refused(code, str(error), difficulty)
    except InvalidSkill as error:
        return _refused(code, f"The rewritten code would be wrong: {error}", difficulty)
    return Migration(code=after)


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


def _refused(code: str, message: str, difficulty: Difficulty = "needs a look") -> Migration:
    line, _, rest = message.partition(": ")
    number = line.removeprefix("Line ")
    has_line = line.startswith("Line ") and number.isdecimal()
    refusal = Refusal(line=int(number) if has_line else 1, reason=_sentence(rest if has_line else message))
    return Migration(code=code, refusals=(refusal,), difficulty=difficulty)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
