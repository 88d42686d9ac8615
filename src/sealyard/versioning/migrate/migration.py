"""Rewrites code for a tool that changed, by its syntax tree: comments and formatting stay byte for byte.

Only what is proven is rewritten: a name must stand for the tool and for nothing else, an argument must be known, and
the use of a renamed field must be followed to its end. All else is refused, with the line and the reason, and then
nothing is changed. Import this module where it is needed and not at the top: libcst costs 0.4 seconds.
"""

import ast
import difflib
import unicodedata
from collections.abc import Sequence

import libcst as cst
import msgspec

from sealyard.code import parse
from sealyard.errors import InvalidSkill
from sealyard.values import SkillForm
from sealyard.versioning.migrate.arguments import Arguments
from sealyard.versioning.migrate.facts import TooMuch
from sealyard.versioning.migrate.flow import Flow
from sealyard.versioning.migrate.names import Names
from sealyard.versioning.migrate.scopes import Scopes
from sealyard.versioning.migrate.text import Overlap, Sources
from sealyard.versioning.steps import Difficulty, Plan

_DEPTH = 100
_CHAIN = 300
_NODES = 40_000
"""Of a syntax tree: some thousands of lines, which libcst reads in seconds."""
_REFUSALS = 50


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One change to the code."""

    line: int
    """Counted from 1, before the change."""
    before: str
    after: str
    reason: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why the code cannot be rewritten, at one place."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"Line {self.line}: {self.reason}"


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The rewritten code, or why it is not. With refusals the code is what it was."""

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
    """How hard it will be to migrate `code`; costs what `migrate` costs."""
    migration, touched = _attempt(code, plans, form, name)
    if not migration.refusals:
        return "mechanical"
    return "impossible" if any(plans[number].difficulty == "impossible" for number in touched) else "needs a look"


def diff(before: str, after: str, name: str) -> str:
    """The unified diff of two texts of the skill `name`."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"{name} (old)", f"{name} (new)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _attempt(code: str, plans: Sequence[Plan], form: SkillForm, name: str | None) -> tuple[Migration, set[int]]:
    if not any(_may_use(code, plan) for plan in plans):
        return Migration(code=code), set()
    try:
        tree = parse(code).tree
        _check_depth(tree)
        module = cst.parse_module(code)
        if module.code != code:
            raise InvalidSkill("Line 1: the code cannot be read without changing it.")
        return _rewrite(code, module, plans, _exported(tree, form, name))
    except InvalidSkill as error:
        return _refused(code, str(error)), set()
    except (RecursionError, TooMuch):
        return _refused(code, "The code is too large or too deeply nested to be followed. Split it."), set()
    except cst.ParserSyntaxError as error:
        return _refused(code, f"Line {error.raw_line}: the code cannot be read."), set()


def _rewrite(
    code: str, module: cst.Module, plans: Sequence[Plan], exported: set[str] | None
) -> tuple[Migration, set[int]]:
    sources = Sources(module, code)
    flow = Flow(module, Scopes(module), plans, exported=exported)
    flow.run()
    refused: dict[tuple[int, str], None] = {}

    def refuse(node: cst.CSTNode, reason: str) -> None:
        refused[sources.line(node), _sentence(reason)] = None

    for node, reason in (*flow.refused, *(flow.reached if flow.touched or flow.near else ())):
        refuse(node, reason)
    Names(flow, sources, refuse).rewrite()
    Arguments(flow, sources, refuse).rewrite(module)
    if refused:
        refusals = [Refusal(line=line, reason=reason) for line, reason in sorted(refused)]
        return Migration(code=code, refusals=tuple(refusals[:_REFUSALS])), flow.touched
    try:
        after, shown = sources.changed()
        if after != code:
            _compile(after)
    except Overlap as error:
        return _refused(code, str(error)), flow.touched
    except InvalidSkill as error:
        return _refused(code, f"The rewritten code would be wrong: {error}"), flow.touched
    edits = [Edit(line=line, before=before, after=new, reason=_sentence(why)) for line, before, new, why in shown]
    return Migration(code=after, edits=tuple(edits)), flow.touched


def _compile(code: str) -> None:
    """Check what only the compiler sees, such as an argument that is given twice."""
    try:
        compile(parse(code).tree, "<skill>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InvalidSkill(f"{type(error).__name__}: {error}") from None


def _may_use(code: str, plan: Plan) -> bool:
    """Whether the text can have to do with a plan's tool at all."""
    if not plan.steps and not plan.obstacles and [*plan.names_before.items()] == [*plan.names_after.items()]:
        return False
    text = code if code.isascii() else unicodedata.normalize("NFKC", code)
    return any(word in text for word in ("servers", "call_tool", plan.before.full_name, "\\"))


def _exported(tree: ast.Module, form: SkillForm, name: str | None) -> set[str] | None:
    if form == "script":
        return None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not functions:
        return None
    return {name} if name in functions else {each for each in functions if not each.startswith("_")}


def _check_depth(tree: ast.Module) -> None:
    """Refuse what libcst's parser would overflow the stack on: it recurses natively, and also along flat chains."""
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    seen = 0
    while stack:
        node, depth = stack.pop()
        seen += 1
        chain = 0
        match node:
            case ast.BoolOp(values=values):
                chain = len(values)
            case ast.ListComp(generators=loops) | ast.SetComp(generators=loops) | ast.DictComp(generators=loops):
                chain = len(loops)
            case ast.GeneratorExp(generators=loops):
                chain = len(loops)
            case ast.alias(name=dotted) | ast.ImportFrom(module=str(dotted)):
                chain = dotted.count(".")
        if depth > _DEPTH or chain > _CHAIN or seen > _NODES:
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
