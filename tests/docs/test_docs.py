"""The pages say what the code does: every command, field, error and frame is documented, and every example runs."""

import ast
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import toolyard.cli
import toolyard.sandbox
from toolyard import errors, values
from toolyard.cli.bench_sandbox import _PROMISES
from toolyard.sandbox import IsolationPolicy, PoolOptions, Sandbox, open_sandbox, wire
from toolyard.sandbox.policy import levels
from toolyard.sandbox.probe import examine
from toolyard.sandbox.review import advice, review

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
CONSOLE_PAGES = (DOCS / "tutorial" / "first-run.md", DOCS / "howto" / "run-code.md")


# Links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists and, behind `#`, a heading in it."""
    text = re.sub(r"^```.*?^```", "", _read(page), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)

    assert broken == []


def test_every_page_is_in_the_index() -> None:
    """Whoever starts at `docs/README.md` can reach every page."""
    index = DOCS / "README.md"
    linked = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", _read(index))}

    assert set(DOCS.rglob("*.md")) - {index} - linked == set()


# Command line


def _help_pages() -> Iterator[tuple[str, str]]:
    """Every command's full name and what `--help` prints for it, 80 columns wide."""
    root = toolyard.cli._toolyard
    top = click.Context(root, info_name="toolyard", terminal_width=80, **root.context_settings)
    yield "toolyard", root.get_help(top)
    modules = {name: importlib.import_module(f"toolyard.cli.{name}") for name in toolyard.cli._COMMANDS}
    waiting = [click.Context(getattr(modules[name], name), parent=top, info_name=name) for name in modules]
    while waiting:
        context = waiting.pop(0)
        yield context.command_path, context.command.get_help(context)
        if isinstance(context.command, click.Group):
            below = context.command.commands.items()
            waiting = [*(click.Context(each, parent=context, info_name=name) for name, each in below), *waiting]


def test_command_line_page_shows_every_help_text() -> None:
    """Each command has a section with the very text of its `--help`, in the order of the commands."""
    text = _read(REFERENCE / "cli.md")

    sections = re.findall(r"^## (toolyard.*?)\n\n```text\n(.*?)\n```", text, re.MULTILINE | re.DOTALL)

    assert sections == list(_help_pages())


# Policies


def test_policy_page_has_every_field_with_its_range_and_values() -> None:
    """The table of fields says what the three levels are made of."""
    policies = list(levels.LEVELS.values())
    expected = []
    for field in IsolationPolicy.__struct_fields__:
        low, high = levels._RANGES.get(field, (None, None))
        expected.append(
            [
                f"`{field}`",
                "" if low is None else f"{low:,} to {high:,}",
                *(_spelled(field, getattr(policy, field)) for policy in policies),
            ]
        )

    assert [row[:5] for row in _table(REFERENCE / "policy.md", "Fields")] == expected


def test_policy_page_lists_the_modules_of_the_levels() -> None:
    """What is allowed and what is refused is listed name by name."""
    production, hardened = (
        levels.LEVELS[levels.IsolationLevel.PRODUCTION],
        levels.LEVELS[levels.IsolationLevel.HARDENED],
    )
    allowed = _section(REFERENCE / "policy.md", "Modules").splitlines()[0].partition(":")[2]
    refused = re.findall(r"^- .*", _section(REFERENCE / "policy.md", "Refused modules"), re.MULTILINE)

    assert tuple(_codes(allowed)) == hardened.modules
    assert tuple(_codes(" ".join(refused))) == production.refused_modules


def test_policy_page_has_every_preset() -> None:
    """Each preset is there, with everything in which it differs from production."""
    expected = []
    for name, policy in levels.PRESETS.items():
        changed = [
            field for field in policy.__struct_fields__ if getattr(policy, field) != getattr(levels.DEFAULT, field)
        ]
        if policy.level != levels.DEFAULT.level:
            difference = "see the table above"
        elif not changed:
            difference = "nothing"
        else:
            spelled = [f"`{field}` {_preset_value(policy, field)}" for field in sorted(changed) if field != "name"]
            difference = ", ".join(spelled)
        expected.append([f"`{name}`", difference])

    assert [[row[0], row[2]] for row in _table(REFERENCE / "policy.md", "Presets")] == expected


def test_policy_page_has_every_rule_of_the_review() -> None:
    """Each rule is there with its severity at each level."""
    expected = [[f"`{rule}`", *(each or "silent" for each in row)] for rule, row in advice.SEVERITIES.items()]

    rows = _table(REFERENCE / "policy.md", "What the review does at each level")

    assert [row[:4] for row in rows] == expected


# Errors, outcomes, frames


def test_errors_page_has_every_exception_with_its_base() -> None:
    """The table of exceptions is the tree in `errors.py`."""
    documented = {tuple(_codes(f"{row[0]} {row[1]}")) for row in _table(REFERENCE / "errors.md", "Exceptions")}

    assert documented == {(name, getattr(errors, name).__base__.__name__) for name in errors.__all__}


def test_errors_page_has_every_status_and_failure_kind() -> None:
    """Both are closed sets, and the page has all of each."""
    statuses = [row[0] for row in _table(REFERENCE / "errors.md", "Statuses")]
    kinds = _table(REFERENCE / "errors.md", "Failure kinds")

    assert statuses == [f"`{status}`" for status in typing.get_args(values.Status)]
    assert {row[0] for row in kinds} == {f"`{kind}`" for kind in typing.get_args(values.FailureKind)}
    assert {row[1] for row in kinds} <= set(statuses)


def test_errors_page_has_every_failure_type_of_our_own() -> None:
    """Types that no exception class stands for are named in the source, and on the page."""
    pattern = r'"([A-Z][A-Za-z]*(?:Broken|Crashed|Exceeded|Exited|SystemCall))"'
    source = "\n".join(_read(file) for file in (ROOT / "src" / "toolyard" / "sandbox").rglob("*.py"))
    documented = _codes(" ".join(row[2] for row in _table(REFERENCE / "errors.md", "Failure kinds")))

    named = set(re.findall(pattern, source)) - set(errors.__all__)

    assert named - set(documented) == set()
    assert {each for each in documented if re.fullmatch(pattern, f'"{each}"')} == named


@pytest.mark.parametrize("kind", [values.Outcome, values.Failure, values.Spill, values.Usage, values.Limits])
def test_outcome_page_has_every_field(kind: type[msgspec.Struct]) -> None:
    """Each value has a table of its fields, in their order."""
    rows = _table(REFERENCE / "outcome.md", kind.__name__)

    assert [row[0] for row in rows] == [f"`{field}`" for field in kind.__struct_fields__]


def test_frames_page_has_every_frame_of_a_worker() -> None:
    """The table of frames is what the gateway decodes."""
    frames = {frame.__struct_config__.tag: list(frame.__struct_fields__) for frame in typing.get_args(wire.Frame)}

    documented = {row[0].strip("`"): _codes(row[1]) for row in _table(REFERENCE / "frames.md", "From the worker")}

    assert documented == frames


# Python API


def test_api_page_has_every_export_and_every_member_of_the_sandbox() -> None:
    """Nothing public is missing from the page."""
    text = _read(REFERENCE / "python-api.md")
    members = [name for name in vars(Sandbox) if not name.startswith("_")]

    missing = [name for name in (*toolyard.sandbox.__all__, *members) if not re.search(rf"\b{name}\b", text)]

    assert missing == []


@pytest.mark.parametrize(
    ("heading", "function"), [("open_sandbox", open_sandbox), ("Running", Sandbox.run)], ids=["open_sandbox", "run"]
)
def test_api_page_has_every_parameter(heading: str, function: Any) -> None:
    """The tables of parameters have each one, in the order of the signature."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    assert [row[0] for row in _table(REFERENCE / "python-api.md", heading)] == [f"`{name}`" for name in names]


@pytest.mark.parametrize(
    ("start", "function"),
    [
        ("open_sandbox(", open_sandbox),
        ("await sandbox.run(", Sandbox.run),
        ("toolyard.sandbox.review.review(", review),
        ("await toolyard.sandbox.probe.examine(", examine),
    ],
    ids=["open_sandbox", "run", "review", "examine"],
)
def test_api_page_has_the_signatures(start: str, function: Any) -> None:
    """A signature on the page has the parameters and defaults of the function."""
    written = re.search(re.escape(f"`{start}") + r"(.*?)\)`", _read(REFERENCE / "python-api.md"))
    assert written is not None

    assert written[1] == _signature(function)


def test_api_page_has_the_pool_options() -> None:
    """Each option is there with its default."""
    documented = [[row[0], row[1]] for row in _table(REFERENCE / "python-api.md", "PoolOptions")]

    defaults = PoolOptions()
    assert documented == [[f"`{name}`", _number(getattr(defaults, name))] for name in PoolOptions.__struct_fields__]


# Promises and dependencies


def test_specification_has_every_figure_of_the_bench() -> None:
    """The promises on the page are those that the bench prints beside its figures."""
    rows = _table(ROOT / "SPECIFICATION.md", "Speed")

    assert [(row[0], row[1]) for row in rows] == [(f"`{name}`", promise) for name, promise in _PROMISES.items()]


def test_dependencies_page_has_every_locked_version() -> None:
    """A package that is pinned is on the page with that version."""
    locked = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", _read(ROOT / "requirements" / "dev.txt"), re.MULTILINE)
    page = DOCS / "explanation" / "dependencies.md"
    versions: dict[str, str] = {}
    for line in _read(page).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 2:
            versions[cells[0].lower()] = cells[1]

    assert [(name, version) for name, version in locked if version not in versions.get(name, "")] == [
        ("colorama", "0.4.6")  # Windows only; named below the tables
    ]


# Examples


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_is_shown_and_prints_what_the_page_says(example: Path) -> None:
    """A page shows the file word for word, and the block after it is what the file prints."""
    text = "\n".join(_read(page) for page in DOCS.rglob("*.md"))
    shown = f"```python\n{_read(example)}```\n"
    assert shown in text
    printed = re.search(r"```text\n(.*?)```", text[text.index(shown) + len(shown) :], re.DOTALL)
    assert printed is not None

    done = _run([sys.executable, str(example)])

    assert (done.returncode, done.stdout) == (0, printed[1])


@pytest.mark.parametrize("page", CONSOLE_PAGES, ids=lambda page: page.name)
def test_console_blocks_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """A command behind `$` writes the lines below it to standard output."""
    python = shlex.quote(sys.executable)
    shell = f'toolyard() {{ {python} -m toolyard "$@"; }}\n'
    blocks = re.findall(r"^```console\n(.*?)^```", _read(page), re.MULTILINE | re.DOTALL)
    assert blocks
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE):
        done = _run(["bash", "-c", shell + command], folder=tmp_path)

        assert (command, done.stdout) == (command, expected)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_can_be_parsed_and_import_what_exists(page: Path) -> None:
    """Blocks that are not run still hold Python, and every name they import from toolyard is there."""
    for block in re.findall(r"^```python\n(.*?)^```", _read(page), re.MULTILINE | re.DOTALL):
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree: Any = compile(block, str(page), "exec", flags=flags, dont_inherit=True)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolyard"):
                module = importlib.import_module(node.module or "")
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def _run(command: list[str], *, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", _read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n\n(.*?)(?=^#|\Z)", _read(page), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no section {heading!r}"
    return found[1]


def _table(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head."""
    found = re.search(r"(?:^\|.*\n)+", _section(page, heading), re.MULTILINE)
    assert found is not None, f"section {heading!r} of {page.name} has no table"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines()[2:]]


def _codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _spelled(field: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        if field.endswith("modules") and value:
            return f"[listed](#{field.replace('_', '-')})"
        return ", ".join(value) or "none"
    return f"{value:,g}" if isinstance(value, float) else _number(value)


def _preset_value(policy: IsolationPolicy, field: str) -> str:
    if field == "modules":
        added = [name for name in policy.modules if name not in levels.HARDENED_MODULES]
        return f"those of `hardened` and {', '.join(added)}"
    return _spelled(field, getattr(policy, field))


def _signature(function: Any) -> str:
    """Parameters and defaults as a reader would write them."""
    parts = []
    starred = False
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        default = parameter.default
        if default is inspect.Parameter.empty:
            parts.append(name)
        elif default is levels.DEFAULT:
            parts.append(f"{name}=DEFAULT")
        else:
            parts.append(f"{name}={default!r}".replace("'", '"'))
    return ", ".join(parts)
