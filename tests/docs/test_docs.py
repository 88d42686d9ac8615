"""The pages say what the code does: every command, field, error and frame is documented, and every example runs."""

import ast
import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from tests import warm
from tests.docs.public_names import public

import sealyard.cli
import sealyard.sandbox
from sealyard import errors
from sealyard.analysis import guest as analysis
from sealyard.analysis.guest import (
    duck,
    evaluation,
    expressions,
    groups,
    limits,
    plan,
    steps,
    summaries,
    validation,
)
from sealyard.analysis.guest import sources as analysis_sources
from sealyard.broker.policy import conditions
from sealyard.config import Config, HttpConfig, SandboxConfig, StoreConfig, load_config
from sealyard.config.settings import (
    AlertsConfig,
    DiscoveryConfig,
    LearningConfig,
    MetricsConfig,
    OtelConfig,
    PrivacyConfig,
    ProfileEntry,
    SkillsConfig,
    SurfaceConfig,
)
from sealyard.discovery import index
from sealyard.examples import demo_upstreams
from sealyard.metrics import exposition, otel
from sealyard.metrics import report as reports
from sealyard.sandbox import IsolationPolicy, PoolOptions, Sandbox, open_sandbox, wire
from sealyard.sandbox import policy as levels
from sealyard.sandbox.review import SEVERITIES
from sealyard.serve import api, dashboard
from sealyard.store import open_store
from sealyard.testing import FakeUpstream
from sealyard.values.access import ApprovalSettings, AuditEntry
from sealyard.values.facts import UseCase
from sealyard.values.runs import Failure, FailureKind, Limits, Outcome, RecordStatus, Spill, Status
from sealyard.values.runs import Usage as RunUsage
from sealyard.values.skills import SkillStatus
from sealyard.values.tools import DetailLevel, OAuthConfig, UpstreamState
from sealyard.yard import AnalyzeRequest, ExecuteRequest, Yard, open_yard
from sealyard.yard.surface.texts import search_text

AlertState = public("AlertState")
AlertView = public("AlertView")
ARCHIVE_BYTES_MOST = public("ARCHIVE_BYTES_MOST")
AUDIT_KEY = public("AUDIT_KEY")
AUDIT_KINDS = public("AUDIT_KINDS")
AuditFileEntry = public("AuditFileEntry")
AuditFileHeader = public("AuditFileHeader")
AuditHead = public("AuditHead")
AuditSegment = public("AuditSegment")
AuditVerification = public("AuditVerification")
BYTES_MOST = public("BYTES_MOST")
CLIENTS = public("CLIENTS")
CODES = public("CODES")
DATABASE = public("DATABASE")
ENTRIES_MOST = public("ENTRIES_MOST")
examine = public("examine")
ExecutionView = public("ExecutionView")
export_audit = public("export_audit")
FILES_MOST = public("FILES_MOST")
FOLDERS_MOST = public("FOLDERS_MOST")
GAUGES = public("GAUGES")
LiveKind = public("LiveKind")
Manifest = public("Manifest")
METRICS = public("METRICS")
MIGRATIONS = public("MIGRATIONS")
OPERATOR = public("OPERATOR", "metrics")
Place = public("Place", "config")
PolicySettings = public("PolicySettings")
Preset = public("Preset")
PrincipalEntry = public("PrincipalEntry")
PrivacyRule = public("PrivacyRule")
read_servers = public("read_servers")
read_settings = public("read_settings")
ReleaseKind = public("ReleaseKind")
review = public("review")
Rule = public("Rule", "broker")
RULES = public("RULES")
SaveExample = public("SaveExample")
SaveSkill = public("SaveSkill")
ShelfLimits = public("ShelfLimits")
State = public("NeedState")
ARGUMENTS = public("ARGUMENTS", "yard")
surface_tools = public("surface_tools")
system_prompt = public("system_prompt")
ToolLimits = public("ToolLimits")
TYPES = public("TYPES")
UNPACKED_BYTES_MOST = public("UNPACKED_BYTES_MOST")
UpstreamEntry = public("UpstreamEntry")
Usage = public("Usage", "store")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
AGENTS = sorted((DOCS / "examples" / "frameworks").glob("*.py"))
CONSOLE_PAGES = (
    DOCS / "tutorial" / "first-run.md",
    DOCS / "tutorial" / "your-agent-in-ten-minutes.md",
    DOCS / "howto" / "run-code.md",
)
WARM_PAGES = CONSOLE_PAGES[1:]
"""On the first page every command starts as it does for its reader."""


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
    root = sealyard.cli._sealyard
    top = click.Context(root, info_name="sealyard", terminal_width=80, **root.context_settings)
    yield "sealyard", root.get_help(top)
    commands = {name: sealyard.cli.find_command(name) for name in sealyard.cli._COMMANDS}
    waiting = [click.Context(commands[name], parent=top, info_name=name) for name in commands]
    while waiting:
        context = waiting.pop(0)
        yield context.command_path, context.command.get_help(context)
        if isinstance(context.command, click.Group):
            below = context.command.commands.items()
            waiting = [*(click.Context(each, parent=context, info_name=name) for name, each in below), *waiting]


def test_command_line_page_shows_every_help_text() -> None:
    """Each command has a section with the very text of its `--help`, in the order of the commands."""
    text = _read(REFERENCE / "cli.md")

    sections = re.findall(r"^## (sealyard.*?)\n\n```text\n(.*?)\n```", text, re.MULTILINE | re.DOTALL)

    assert sections == list(_help_pages())


# Configuration


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("upstreams", UpstreamEntry),
        ("oauth", OAuthConfig),
        ("surface", SurfaceConfig),
        ("profiles", ProfileEntry),
        ("sandbox", SandboxConfig),
        ("store", StoreConfig),
        ("http", HttpConfig),
        ("principals", PrincipalEntry),
        ("discovery", DiscoveryConfig),
        ("privacy", PrivacyConfig),
        ("privacy rules", PrivacyRule),
        ("policy", PolicySettings),
        ("approval", ApprovalSettings),
        ("skills", SkillsConfig),
        ("metrics", MetricsConfig),
        ("alerts", AlertsConfig),
        ("learning", LearningConfig),
        ("otel", OtelConfig),
        ("Rule", Rule),
        ("Limits", ToolLimits),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_config_page_has_every_key_with_its_type_and_default(heading: str, kind: type[msgspec.Struct]) -> None:
    """Each table of the file has a table on the page that says what the code reads."""
    made = {"digests", "unset", "vault_key"}  # by us, not read
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in made]

    rows = _table(REFERENCE / ("policy-rules.md" if kind in (Rule, ToolLimits) else "config.md"), heading)

    expected = [[f"`{each.name}`", _kind(msgspec.inspect.type_info(each.type)), _default(each)] for each in fields]
    assert [row[:3] for row in rows] == expected


def test_config_page_has_every_table() -> None:
    """What stands in a file on its top level has a section."""
    headings = re.findall(r"^## (.*)", _read(REFERENCE / "config.md"), re.MULTILINE)
    tables = [name for name in Config.__struct_fields__ if name not in ("source", "trusted", "warnings")]

    assert headings == ["Where it is found", "References", *tables]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_configuration_on_a_page_can_be_read(page: Path) -> None:
    """A block of TOML or of a client's JSON is a configuration without a mistake in it."""
    text = _read(page)
    for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        document = tomllib.loads(block)
        if "mcp_servers" in document:
            _check_servers(document, "mcp_servers", page)
        else:
            read_settings(document, page, Path("sealyard.db"))
    for block in re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        document = json.loads(block)
        for key in document.keys() & {"mcpServers", "servers"}:
            _check_servers(document, key, page)


def _check_servers(document: dict[str, Any], key: str, page: Path) -> None:
    found, problems = read_servers(document, Place(client="", path=page, keys=(key,)))
    assert (len(found), problems) == (len(document[key]), [])
    assert [each.notes for each in found] == [()] * len(found)


def test_clients_page_has_every_client_that_init_knows() -> None:
    """Each has a section, and the name that `--apply` takes."""
    text = _read(DOCS / "howto" / "clients.md")
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)

    assert [client.title for client in CLIENTS.values() if client.title not in headings] == []
    assert [name for name in CLIENTS if f"`{name}`" not in text] == []


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
    expected = [[f"`{rule}`", *(each or "silent" for each in row)] for rule, row in SEVERITIES.items()]

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

    assert statuses == [f"`{status}`" for status in typing.get_args(Status)]
    assert {row[0] for row in kinds} == {f"`{kind}`" for kind in typing.get_args(FailureKind)}
    assert {row[1] for row in kinds} <= set(statuses)


def test_errors_page_has_every_failure_type_of_our_own() -> None:
    """Types that no exception class stands for are named in the source, and on the page."""
    pattern = r'"([A-Z][A-Za-z]*(?:Broken|Crashed|Exceeded|Exited|SystemCall))"'
    package = ROOT / "src" / "sealyard"
    files = (package / "values" / "runs.py", *(package / "sandbox").rglob("*.py"))
    source = "\n".join(map(_read, files))
    documented = _codes(" ".join(row[2] for row in _table(REFERENCE / "errors.md", "Failure kinds")))

    named = set(re.findall(pattern, source)) - set(errors.__all__)

    assert named - set(documented) == set()
    assert {each for each in documented if re.fullmatch(pattern, f'"{each}"')} == named


@pytest.mark.parametrize("kind", [Outcome, Failure, Spill, RunUsage, Limits])
def test_outcome_page_has_every_field(kind: type[msgspec.Struct]) -> None:
    """Each value has a table of its fields, in their order."""
    rows = _table(REFERENCE / "outcome.md", kind.__name__)

    assert [row[0] for row in rows] == [f"`{field}`" for field in kind.__struct_fields__]


def test_frames_page_has_every_frame_of_a_worker() -> None:
    """The table of frames is what the gateway decodes."""
    frames = {frame.__struct_config__.tag: list(frame.__struct_fields__) for frame in typing.get_args(wire.Frame)}

    documented = {row[0].strip("`"): _codes(row[1]) for row in _table(REFERENCE / "frames.md", "From the worker")}

    assert documented == frames


# Privacy, policy, audit, HTTP


def test_types_page_has_every_type() -> None:
    """The table of types says what each is, and whether it is concealed by itself."""
    expected = [[f"`{name}`", "yes" if info.default else "no", f"{info.description}."] for name, info in TYPES.items()]

    assert _table(REFERENCE / "privacy-types.md", "Types") == expected


def test_rules_page_has_every_preset_and_every_condition() -> None:
    """What a rule can be made of is on the page, word for word."""
    presets = [row[0] for row in _table(REFERENCE / "policy-rules.md", "Presets")]
    written = _section(REFERENCE / "policy-rules.md", "Conditions")

    assert presets == [f"`{preset}`" for preset in typing.get_args(Preset)]
    assert set(re.findall(r"`\{ (\w+) =", written)) == set(conditions._KEYS)


def test_rules_page_has_the_bounds_beyond_which_a_condition_is_in_doubt() -> None:
    """The figures are those of the code."""
    bounds = (conditions._MOST_CHARACTERS, conditions._MOST_VALUES, conditions._MOST_KEYS)

    assert [each for each in bounds if f"{each:,}" not in _section(REFERENCE / "policy-rules.md", "Doubt")] == []


def test_audit_page_has_every_kind() -> None:
    """Each kind of entry is there with what it says."""
    rows = _table(REFERENCE / "audit.md", "Kinds")

    assert {row[0].strip("`"): row[1] for row in rows} == AUDIT_KINDS


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("Entry", AuditFileEntry), ("Head", AuditHead), ("Segments", AuditSegment)],
    ids=["Entry", "Head", "Segments"],
)
def test_audit_page_has_every_field(heading: str, kind: type[msgspec.Struct]) -> None:
    """The fields are in the order in which they are hashed or signed."""
    rows = _table(REFERENCE / "audit.md", heading)

    assert _codes(" ".join(row[0] for row in rows)) == list(kind.__struct_fields__)


def test_audit_page_has_what_verify_and_the_header_of_a_file_say() -> None:
    """Programs read both."""
    verified = _section(REFERENCE / "audit.md", "Verification")
    exported = _section(REFERENCE / "audit.md", "Exported file")

    assert [name for name in ("ok", *AuditVerification.__struct_fields__) if f"`{name}`" not in verified] == []
    assert [name for name in AuditFileHeader.__struct_fields__ if f"`{name}`" not in exported] == []


async def test_hashes_of_an_exported_log_follow_as_the_audit_page_says(tmp_path: Path) -> None:
    """The program on the page accepts what sealyard exports, and nothing else."""
    async with open_store(tmp_path / "store.db") as store:
        store.audit(AuditEntry(kind="call", principal="zoë", body={"text": 'a"\n\x1f\u2028é'}))
        store.audit(AuditEntry(kind="call", principal="local", body={"number": 1.5}))
        await store.flush()
    with (tmp_path / "log.jsonl").open("wb") as file:
        export_audit(tmp_path / "store.db", file)
    (program,) = re.findall(r"^```python\n(.*?)^```", _read(REFERENCE / "audit.md"), re.MULTILINE | re.DOTALL)
    right = _run([sys.executable, "-c", program], folder=tmp_path)
    log = (tmp_path / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(log.replace(b"zo", b"Zo"))

    changed = _run([sys.executable, "-c", program], folder=tmp_path)

    assert (right.returncode, right.stderr) == (0, "")
    assert changed.stderr.splitlines()[-1] == "AssertionError: 1"


def test_http_page_has_every_address() -> None:
    """The table of addresses is what is answered behind the gate, for whom, and what it says of itself."""
    own = [(method, route.path) for route in dashboard.routes() for method in (route.methods or set()) - {"HEAD"}]
    declared = []
    for each in api.ENDPOINTS:
        who = f"`{each.needs}`" if each.needs else "anybody" if each.is_open else "everybody"
        declared.append([each.method, f"`{each.path}`", who, each.summary])

    rows = _table(REFERENCE / "http-api.md", "Addresses")

    assert rows[5:] == declared
    assert [(row[0], row[1].strip("`")) for row in rows[:5]] == [
        ("any", "/mcp"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        *own,
    ]


def test_http_page_has_every_parameter_and_field() -> None:
    """What a request may hold is named on the page, and so is what an execution has."""
    text = _read(REFERENCE / "http-api.md")
    asked = {name for each in api.ENDPOINTS for kind in (each.query, each.body) if kind for name in _fields(kind)}

    assert [name for name in sorted(asked | set(_fields(ExecutionView))) if f"`{name}`" not in text] == []
    assert [name for each in api.ENDPOINTS for name in each.headers if f"`{name}`" not in text] == []


def test_http_page_has_every_code_and_event() -> None:
    """Both are closed sets."""
    expected = [[f"`{code}`", str(status), meaning] for code, (status, meaning) in CODES.items()]

    assert _table(REFERENCE / "http-api.md", "Errors") == expected
    assert [row[0] for row in _table(REFERENCE / "http-api.md", "Events")] == [
        f"`{kind}`" for kind in typing.get_args(LiveKind)
    ]


# Analysis


def test_analysis_page_has_every_operator_with_its_other_names() -> None:
    """Whatever may be written for an operator is in the table."""
    expected = {name: words.split() for name, words in expressions._ALIASES.items()}

    rows = _table(REFERENCE / "analysis.md", "Operators")

    assert {row[0].strip("`"): _codes(f"{row[0]} {row[1]}") for row in rows} == expected
    assert [row[0].strip("`") for row in rows] == list(expressions.OPERATORS)


def test_analysis_page_has_every_function_of_a_group_with_its_other_names() -> None:
    """Whatever may be written for an aggregate is in the table."""
    rows = _table(REFERENCE / "analysis.md", "Functions of a group")

    documented = {row[0].strip("`"): _codes(row[1]) for row in rows}
    assert documented == {name: words.split() for name, words in groups._ALIASES.items()}


def test_analysis_page_has_every_function_with_its_arguments() -> None:
    """The functions of the expression language, and how many arguments each takes."""
    expected = []
    for name, (least, most, *_) in evaluation.FUNCTIONS.items():
        count = f"{least} or more" if most is None else str(least) if least == most else f"{least} or {most}"
        expected.append([f"`{name}`", count])

    assert [row[:2] for row in _table(REFERENCE / "analysis.md", "Functions")] == expected


def test_analysis_page_has_every_step_in_its_order() -> None:
    """Steps beside each other are carried out in the order of the table."""
    rows = _table(REFERENCE / "analysis.md", "Steps")

    assert [row[0] for row in rows] == [f"`{name}`" for name in steps.STEPS]


def test_analysis_page_has_every_type_of_a_cast_and_of_a_rule() -> None:
    """Each with its other names."""
    casts: dict[str, list[str]] = {}
    for word, name in steps._CASTS.items():
        casts.setdefault(name, []).append(word)
    checked: dict[str, list[str]] = {name: [name] for name in validation.TYPES}
    for word, name in validation._OTHER_NAMES.items():
        checked[name].append(word)

    for heading, expected in (("Types", casts), ("Types of rules", checked)):
        rows = _table(REFERENCE / "analysis.md", heading)
        assert {row[0].strip("`"): _codes(f"{row[0]} {row[1]}") for row in rows} == expected


def test_analysis_page_has_every_format_and_type_of_analysis() -> None:
    """Formats with their endings, and the words for `analysis_type`."""
    endings: dict[str, list[str]] = {}
    for word, name in analysis_sources._WORDS.items():
        endings.setdefault(name, []).append(f".{word}")
    text = _read(REFERENCE / "analysis.md")

    rows = _table(REFERENCE / "analysis.md", "Formats")

    assert {row[0].strip("`"): _codes(row[1]) for row in rows} == endings
    assert re.findall(r"^\| `(\w+)` \| .* \[\w+\]\(#\w+\) \|$", text, re.MULTILINE) == list(analysis._TYPES)


def test_analysis_page_has_every_rule_and_operation_with_its_parameters() -> None:
    """What a validation and a statistic take."""
    operations = {f"`{name}`": [f"`{each}`" for each in known] for name, (_, known) in summaries.OPERATIONS.items()}

    rows = _table(REFERENCE / "analysis.md", "Statistics")
    keys = _codes(" ".join(row[0] for row in _table(REFERENCE / "analysis.md", "Rules")))

    assert {row[0]: row[1].split(", ") for row in rows} == operations
    assert set(keys) == set(validation._RULE_KEYS)


def test_analysis_page_has_the_limits() -> None:
    """The figures are those of the code."""
    expected = {
        "rows in a response": plan.Limits().rows,
        "file that is read as a whole": f"{limits.MAX_BYTES:,} bytes",
        "rows from a join, an explode, an unpivot, or one read of Parquet": limits.MAX_ROWS,
        "items of one list of the request": limits.MAX_ITEMS,
        "values after `in`": limits.MAX_OPTIONS,
        "characters of an expression": limits.MAX_CHARACTERS,
        "parts of an expression": limits.MAX_NODES,
        "nesting of an expression or of conditions": limits.MAX_DEPTH,
        "characters of a regular expression": limits.MAX_PATTERN,
        "characters of a text that an expression creates": limits.MAX_TEXT,
        "a whole number that an expression creates": f"{limits.MAX_INTEGER.bit_length()} bits",
        "columns of a pivot": limits.MAX_COLUMNS,
        "rules of a validation": limits.MAX_RULES,
        "values of an `enum`": limits.MAX_ENUM,
        "fields of `describe` or `percentiles`": limits.MAX_FIELDS,
        "fields of a matrix": limits.MAX_MATRIX,
        "cells of a table of counts": limits.MAX_CELLS,
        "rows of a resampled series with filled gaps": f"{limits.MAX_BUCKETS:,}, or as many as there were",
        "values in all windows of a median, percentile, min, max or distinct": limits.MAX_REDUCED,
    }
    spelled = {name: each if isinstance(each, str) else f"{each:,}" for name, each in expected.items()}

    rows = {row[0]: row[1] for row in _table(REFERENCE / "analysis.md", "Limits")}

    assert {name: rows.get(name) for name in spelled} == spelled
    assert f"{duck.LEAST_BYTES >> 20} MiB" in _section(REFERENCE / "analysis.md", "Engines")


# Metrics and alerts


def test_metrics_page_has_every_metric() -> None:
    """Name, kind, unit, labels and meaning are those of the code."""
    expected = [
        [f"`{each.name}`", each.kind, each.unit, ", ".join(f"`{label}`" for label in each.labels), each.help]
        for each in METRICS.values()
    ]

    assert _table(REFERENCE / "metrics.md", "Counters and histograms") == expected


def test_metrics_page_has_every_value_of_every_label() -> None:
    """A closed set stands there with all that is in it."""
    rows = _table(REFERENCE / "metrics.md", "Labels")
    documented = {(metric, row[0].strip("`")): _codes(row[2]) for row in rows for metric in _codes(row[1])}
    closed = {
        (each.name, label): list(known)
        for each in METRICS.values()
        for label, known in each.labels.items()
        if known != OPERATOR and label != "error_type"
    }
    every = {(each.name, label) for each in METRICS.values() for label in each.labels}

    assert {key: documented.get(key) for key in closed} == closed
    assert documented.keys() == every


def test_metrics_page_has_every_gauge() -> None:
    """Name, labels and meaning are those of the code."""
    expected = [
        [f"`{name}`", ", ".join(f"`{label}`" for label in each.labels), each.help] for name, each in GAUGES.items()
    ]

    assert _table(REFERENCE / "metrics.md", "Gauges") == expected


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Report", reports.Report),
        ("sessions", reports.Sessions),
        ("discovery", reports.Discovery),
        ("execution", reports.Execution),
        ("sdk", reports.Sdk),
        ("filtering", reports.Filtering),
        ("tokens", reports.TokenReport),
        ("skills", reports.Skills),
        ("security", reports.Security),
        ("learning", reports.LearningReport),
        ("upstreams", reports.UpstreamReport),
        ("Series", reports.Point),
        ("Usage", Usage),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_metrics_page_has_every_field_of_a_report(heading: str, kind: type[msgspec.Struct]) -> None:
    """Fields stand in the table of their part, and nowhere is one that does not exist."""
    rows = _table(REFERENCE / "metrics.md", heading)

    assert sorted(_codes(" ".join(row[0] for row in rows))) == sorted(kind.__struct_fields__)


def test_metrics_page_has_every_use_case_and_part() -> None:
    """Both are closed sets."""
    cases = [row[0].strip("`") for row in _table(REFERENCE / "metrics.md", "Use cases")]
    parts = [(row[0], row[1].strip("`")) for row in _table(REFERENCE / "metrics.md", "Tokens")]

    assert sorted(cases) == sorted(typing.get_args(UseCase))
    assert parts == [
        (side, part)
        for side in ("baseline", "actual")
        for part in METRICS[f"sealyard_tokens_{side}_total"].labels["part"]
    ]


def test_metrics_page_has_every_attribute_of_a_span() -> None:
    """What leaves the machine in a trace is written down."""
    execution, call = (_codes(row[1]) for row in _table(REFERENCE / "metrics.md", "Traces"))
    foreign = _section(REFERENCE / "metrics.md", "Traces")

    assert (set(execution), set(call)) == (set(otel.EXECUTION.values()), set(otel.CALL.values()))
    assert [name for name in otel._FOREIGN if f"`{name}`" not in foreign] == []


def test_alerts_page_has_every_rule_and_state() -> None:
    """Each rule with how bad it is and whether it waits, and each state."""
    expected = [[f"`{name}`", each.severity, "yes" if each.waits else "no"] for name, each in RULES.items()]
    states = [row[0] for row in _table(REFERENCE / "alerts.md", "States")]
    text = _read(REFERENCE / "alerts.md")

    assert [row[:3] for row in _table(REFERENCE / "alerts.md", "Rules")] == expected
    assert states == [f"`{state}`" for state in typing.get_args(AlertState)]
    assert [name for name in AlertView.__struct_fields__ if f"`{name}`" not in text] == []


def test_alerts_page_has_every_rule_of_the_file_for_prometheus(tmp_path: Path) -> None:
    """Each rule of ours has one there, by the name that the page says."""
    exposition.write_files(tmp_path)
    text = (tmp_path / "prometheus-rules.yml").read_text(encoding="utf-8")
    alerts = re.findall(r"^ +- alert: (\w+)$", text, re.MULTILINE)
    names = re.findall(r"^ +rule: (\w+)$", text, re.MULTILINE)

    rows = _table(REFERENCE / "alerts.md", "Rules for Prometheus")

    assert [_codes(" ".join(row)) for row in rows] == [list(pair) for pair in zip(names, alerts, strict=True)]


def test_store_page_has_everything_in_a_backup() -> None:
    """The members of the file, and what the first of them says."""
    rows = _table(REFERENCE / "store.md", "Backup")

    assert [row[0] for row in rows] == ["`manifest.json`", f"`{DATABASE}`", f"`{AUDIT_KEY}`", "`vault.key`"]
    assert set(Manifest.__struct_fields__) <= set(_codes(rows[0][2]))


def _fields(kind: type[msgspec.Struct]) -> list[str]:
    return list(kind.__struct_fields__)


# MCP tools


@pytest.mark.parametrize("tool", [*surface_tools("code"), surface_tools("search")[1]], ids=lambda tool: tool["name"])
def test_mcp_page_has_every_argument(tool: dict[str, Any]) -> None:
    """The arguments on the page are those that the tool takes; types and defaults are those that it advertises."""
    rows = {row[0].strip("`"): row[1:3] for row in _table(REFERENCE / "mcp-tools.md", tool["name"])}

    assert sorted(rows) == sorted(ARGUMENTS[tool["name"]])
    for name, schema in tool["inputSchema"]["properties"].items():
        kind = ", ".join(f"`{each}`" for each in schema["enum"]) if "enum" in schema else schema.get("type", "any")
        assert rows[name][0] == kind
        assert rows[name][1] == str(schema.get("default", rows[name][1]))


def test_mcp_page_has_every_mode_with_its_tools() -> None:
    """The modes are those of the configuration, and each names what it advertises."""
    modes = msgspec.inspect.type_info(_field(SurfaceConfig, "mode").type)
    assert isinstance(modes, msgspec.inspect.LiteralType)

    rows = {row[0].strip("`"): _codes(row[1]) for row in _table(REFERENCE / "mcp-tools.md", "Modes")}

    assert set(rows) == set(modes.values)
    assert [rows["code"], rows["search"]] == [
        [tool["name"] for tool in surface_tools(mode)] for mode in ("code", "search")
    ]


def test_mcp_page_has_the_annotations() -> None:
    """What the page says of each tool's effects is what clients are told."""
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    words = {True: "yes", False: "no", None: ""}
    tools = [*surface_tools("code"), surface_tools("search")[1]]

    expected = [[f"`{tool['name']}`", *(words[tool["annotations"].get(hint)] for hint in hints)] for tool in tools]
    assert _table(REFERENCE / "mcp-tools.md", "Annotations") == expected


async def test_mcp_page_has_the_keys_of_each_detail_level(tmp_path: Path) -> None:
    """A hit has exactly the keys that the page promises for its level."""

    def price(fruit: str) -> int:
        """What a fruit costs."""
        return len(fruit)

    rows = re.findall(
        r"^\| `(\w+)` \| (yes|no) \| (yes|no) \| (yes|no) \|", _read(REFERENCE / "mcp-tools.md"), re.MULTILINE
    )
    config = Config(store=StoreConfig(path=tmp_path / "store.db"))
    async with open_yard(config, upstreams={"shop": FakeUpstream("shop", price=price)}, with_sandbox=False) as yard:
        for column, level in enumerate(typing.get_args(DetailLevel), 1):
            (hit,) = json.loads(search_text(await yard.search("price", detail_level=level), [], 2_000))["tools"]
            found = set(hit)

            assert (level, found) == (level, {row[0] for row in rows if row[column] == "yes"})


async def test_examples_of_the_system_prompt_run(tmp_path: Path) -> None:
    """What the prompt teaches an agent to write works on the servers that it names."""
    blocks = re.findall(r"^```python\n(.*?)^```", system_prompt(["expenses"]), re.MULTILINE | re.DOTALL)
    (tmp_path / "files").mkdir()
    upstreams = {}
    for name, each in demo_upstreams(tmp_path / "files").items():
        command, *rest = warm.python(*each.args)
        upstreams[name] = msgspec.structs.replace(each, command=command, args=tuple(rest))
    config = Config(upstreams=upstreams, store=StoreConfig(path=tmp_path / "store.db"))
    async with open_yard(config, policy=msgspec.structs.replace(levels.DEFAULT, packages=())) as yard:
        *runs, skill = blocks
        tried = await yard.execute(ExecuteRequest(code=f"{skill}\nmonthly_total(since='2024-10-01')"))
        example = SaveExample(inputs={"since": "2024-10-01"}, output=tried.outcome.result)
        request = SaveSkill(name="monthly_total", code=skill, description="Sum of expenses.", examples=(example,))
        saved = await yard.skills.save(request, principal="local")
        results = [await yard.execute(ExecuteRequest(code=block)) for block in runs]

    assert (saved.skill.status, saved.warnings) == ("active", ())
    assert [result.text for result in results if result.is_error] == []
    assert [bool(result.outcome.result) for result in results] == [True] * 5


def test_discovery_page_has_every_field_with_its_weight() -> None:
    """The table of fields is what the index is built from."""
    fields = {name: value for name, value in vars(index).items() if isinstance(value, index._Field)}

    rows = _table(DOCS / "explanation" / "discovery.md", "What is searched")

    expected = [[name[1:].lower().replace("_", " "), str(field.weight)] for name, field in fields.items()]
    assert [row[:2] for row in rows] == expected


# Skills and versions


def test_limitations_page_has_the_limits_of_skills() -> None:
    """The figures are those of the code."""
    shelf = ShelfLimits()
    expected = {
        "code": f"{shelf.code_bytes >> 10} KiB",
        "description": f"{shelf.description_characters:,} characters",
        "tags": f"{shelf.tags}, of {shelf.tag_characters} characters",
        "examples of a version": f"{shelf.examples}, and {shelf.examples_bytes >> 20} MiB compressed with their"
        " recordings",
        "skills of a namespace": f"{shelf.skills:,}",
        "versions of a skill": f"{shelf.versions} that are not deleted",
        "files of a skill folder": f"{FILES_MOST}, and {BYTES_MOST >> 20} MiB",
        "an archive": f"{ENTRIES_MOST:,} files, {UNPACKED_BYTES_MOST >> 20} MiB unpacked,"
        f" {ARCHIVE_BYTES_MOST >> 20} MiB packed",
        "folders of a market": f"{FOLDERS_MOST:,}",
    }

    rows = {row[0]: row[1] for row in _table(DOCS / "explanation" / "limitations" / "skills.md", "Limits")}

    assert {name: rows.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("page", "heading", "kind"),
    [
        ("explanation/skills.md", "States", SkillStatus),
        ("explanation/versions.md", "Releases", ReleaseKind),
        ("explanation/versions.md", "Compatibility of skills", State),
        ("howto/migrate-skills.md", "See which skills are affected", State),
    ],
    ids=["statuses", "releases", "states", "states for people"],
)
def test_pages_about_skills_have_every_word_of_a_closed_set(page: str, heading: str, kind: Any) -> None:
    """Whatever a command prints in such a column is explained."""
    assert [row[0] for row in _table(DOCS / page, heading)] == [f"`{word}`" for word in typing.get_args(kind)]


# The store and the upstreams


def test_store_page_has_every_table_and_column() -> None:
    """The tables on the page are those that the migrations make."""
    connection = sqlite3.connect(":memory:")
    for migration in MIGRATIONS:
        connection.executescript(migration)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    made = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}
    connection.close()

    assert {row[0].strip("`"): _codes(row[2]) for row in _table(REFERENCE / "store.md", "Tables")} == made


def test_store_page_has_every_status_of_an_execution() -> None:
    """Each status that the journal knows is explained."""
    written = re.findall(
        r"^\| (`.*?) \|", _section(REFERENCE / "store.md", "Tables").partition("| `status`")[2], re.MULTILINE
    )

    assert set(_codes(" ".join(written))) == set(typing.get_args(RecordStatus))


def test_debug_page_has_every_state_of_an_upstream() -> None:
    """Whatever `sealyard tools --status` shows is explained."""
    rows = _table(DOCS / "howto" / "debug-an-upstream.md", "Check its status")

    assert [row[0] for row in rows] == [f"`{state}`" for state in typing.get_args(UpstreamState)]


# Python API


def test_api_page_has_every_export_and_every_public_member() -> None:
    """Nothing public is missing from the page."""
    text = _read(REFERENCE / "python-api.md")
    members = [name for kind in (Sandbox, Yard, FakeUpstream) for name in vars(kind) if not name.startswith("_")]
    exported = (*sealyard.sandbox.__all__, *sealyard.yard.__all__, *sealyard.testing.__all__)

    missing = [name for name in (*exported, *members) if not re.search(rf"\b{name}\b", text)]

    assert missing == []


@pytest.mark.parametrize(
    ("heading", "function"),
    [("open_sandbox", open_sandbox), ("Running", Sandbox.run), ("open_yard", open_yard), ("Executing", Yard.execute)],
    ids=["open_sandbox", "run", "open_yard", "execute"],
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
        ("sealyard.sandbox.review.review(", review),
        ("await sealyard.sandbox.examine(", examine),
        ("open_yard(", open_yard),
        ("await yard.execute(", Yard.execute),
        ("await yard.analyze(", Yard.analyze),
        ("await yard.report(", Yard.report),
        ("await yard.search(", Yard.search),
        ("await yard.call(", Yard.call),
        ("load_config(", load_config),
    ],
    ids=[
        "open_sandbox",
        "run",
        "review",
        "examine",
        "open_yard",
        "execute",
        "analyze",
        "report",
        "search",
        "call",
        "load_config",
    ],
)
def test_api_page_has_the_signatures(start: str, function: Any) -> None:
    """A signature on the page has the parameters and defaults of the function."""
    written = re.search(re.escape(f"`{start}") + r"(.*?)\)`", _read(REFERENCE / "python-api.md"))
    assert written is not None

    assert written[1] == _signature(function)


def test_api_page_has_every_field_of_an_analysis() -> None:
    """What somebody who analyzes rows from Python can say."""
    rows = _table(REFERENCE / "python-api.md", "Analyzing")

    assert _codes(" ".join(row[0] for row in rows)) == list(AnalyzeRequest.__struct_fields__)


def test_api_page_has_the_pool_options() -> None:
    """Each option is there with its default."""
    documented = [[row[0], row[1]] for row in _table(REFERENCE / "python-api.md", "PoolOptions")]

    defaults = PoolOptions()
    assert documented == [[f"`{name}`", _number(getattr(defaults, name))] for name in PoolOptions.__struct_fields__]


# Dependencies


def test_dependencies_page_has_every_locked_version() -> None:
    """A package that is pinned is on the page with that version."""
    locked = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", _read(ROOT / "requirements" / "dev.txt"), re.MULTILINE)
    page = DOCS / "explanation" / "dependencies.md"
    versions: dict[str, str] = {}
    for line in _read(page).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 2:
            versions[cells[0].lower()] = cells[1]

    elsewhere = {
        "colorama",
        "httpx2-jsfetch",
        "pywin32",
    }  # not on every machine; named below
    missing = [name for name, version in locked if version not in versions.get(name, "")]
    assert sorted(missing) == sorted(elsewhere)
    assert [name for name in elsewhere if f"`{name}`" not in _read(page)] == []


def test_dependencies_page_has_every_program_that_tests_run_against() -> None:
    """Each is on the page with the version that is pinned."""
    rows = _table(DOCS / "explanation" / "dependencies.md", "What tests run against")
    node = json.loads(_read(ROOT / "tests" / "mcp" / "package.json"))["dependencies"]
    locked = dict(
        re.findall(r"^([a-z-]+)(?:\[\w+\])?==(\S+)", _read(ROOT / "requirements" / "peers.txt"), re.MULTILINE)
    )
    servers = re.findall(r"^mcp-server-\w+", _read(ROOT / "requirements" / "peers.in"), re.MULTILINE)

    assert {row[0]: row[1] for row in rows} == node | {name: locked[name] for name in servers}


def test_dependencies_page_has_every_program_that_asks_over_http() -> None:
    """Each is on the page with the version that is pinned."""
    rows = _table(DOCS / "explanation" / "dependencies.md", "What asks over HTTP")
    locked = dict(re.findall(r"^([a-z-]+)==(\S+)", _read(ROOT / "requirements" / "outside.txt"), re.MULTILINE))
    asked = re.findall(r"^[a-z]+$", _read(ROOT / "requirements" / "outside.in"), re.MULTILINE)

    assert {row[0]: row[1] for row in rows} == {name: locked[name] for name in asked}


def test_dependencies_page_has_every_task_suite() -> None:
    """Each is on the page with the version that is pinned."""
    rows = _table(DOCS / "explanation" / "dependencies.md", "Task suites")
    locked = dict(re.findall(r"^([a-z-]+)==(\S+)", _read(ROOT / "requirements" / "tasks.txt"), re.MULTILINE))
    asked = re.findall(r"^[a-z]+$", _read(ROOT / "requirements" / "tasks.in"), re.MULTILINE)

    assert {row[0]: row[1] for row in rows} == {name: locked[name] for name in asked}


def test_dependencies_page_has_every_agent_framework() -> None:
    """Each is on the page with the version that is pinned, and the environment that it is installed in."""
    rows = _table(DOCS / "explanation" / "dependencies.md", "Agent frameworks")
    pinned = []
    for file in sorted((ROOT / "requirements").glob("agents-*.in")):
        locked = dict(re.findall(r"^([a-z-]+)(?:\[.+\])?==(\S+)", _read(file.with_suffix(".txt")), re.MULTILINE))
        pinned += [[name, locked[name], file.stem] for name in re.findall(r"^[a-z-]+", _read(file), re.MULTILINE)]

    assert [[row[0], row[1], row[3]] for row in rows] == sorted(pinned)


# Examples


@pytest.mark.parametrize("example", AGENTS, ids=lambda example: example.name)
def test_agent_is_shown_below_its_framework(example: Path) -> None:
    """The page shows the file that `tests/agents` runs, word for word."""
    assert f"```python\n{_read(example)}```\n" in _read(DOCS / "howto" / "frameworks.md")


def test_agents_page_has_the_version_of_each_framework() -> None:
    """The table says which version was tested, and every heading of it has a section."""
    page = DOCS / "howto" / "frameworks.md"
    versions = {row[0]: row[1] for row in _table(DOCS / "explanation" / "dependencies.md", "Agent frameworks")}
    packages = ("pydantic-ai-slim", "openai-agents", "langchain", "smolagents", "crewai", "claude-agent-sdk")

    rows = _table(page, "Use an agent framework")

    assert [row[1] for row in rows] == [versions[name] for name in packages]
    assert [row[0] for row in rows] == [
        f"[{heading}](#{heading.lower().replace(' ', '-')})"
        for heading in re.findall(r"^## (.*)", _read(page), re.MULTILINE)
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_is_shown_and_prints_what_the_page_says(example: Path, tmp_path: Path) -> None:
    """A page shows the file word for word, and the block after it is what the file prints."""
    text = "\n".join(_read(page) for page in DOCS.rglob("*.md"))
    shown = f"```python\n{_read(example)}```\n"
    assert shown in text
    printed = re.search(r"```text\n(.*?)```", text[text.index(shown) + len(shown) :], re.DOTALL)
    assert printed is not None

    shutil.copy(DOCS / "examples" / "sealyard.toml", tmp_path)
    done = _run(warm.python(str(example)), folder=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, printed[1], "")


@pytest.mark.parametrize("page", CONSOLE_PAGES, ids=lambda page: page.name)
def test_console_blocks_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """A command behind `$` writes the lines below it to standard output; `…` on its own stands for any lines."""
    start = warm.python if page in WARM_PAGES else lambda *arguments: [sys.executable, *arguments]
    shell = f'sealyard() {{ {shlex.join(start("-m", "sealyard"))} "$@"; }}\n'
    blocks = re.findall(r"^```console\n(.*?)^```", _read(page), re.MULTILINE | re.DOTALL)
    assert blocks
    pattern = r"^\$ (.*\n(?:>.*\n)*)((?:(?!\$ ).*\n)*)"  # `>` goes on with a command, as a shell prompts for it
    for command, expected in re.findall(pattern, "".join(blocks), re.MULTILINE):
        done = _run(["bash", "-c", shell + re.sub(r"^> ?", "", command, flags=re.MULTILINE)], folder=tmp_path)
        printed = re.sub(r" +$", "", done.stdout.replace(str(tmp_path), "/home/me/project"), flags=re.MULTILINE)

        pieces = re.split(r"^…\n", expected, flags=re.MULTILINE)
        if len(pieces) > 1 and re.fullmatch(r"(?:.*\n)*".join(map(re.escape, pieces)), printed):
            printed = expected
        assert (command, printed) == (command, expected)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_can_be_parsed_and_import_what_exists(page: Path) -> None:
    """Blocks that are not run still hold Python, and every name they import from sealyard is there."""
    for block in re.findall(r"^```python\n(.*?)^```", _read(page), re.MULTILINE | re.DOTALL):
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree: Any = compile(block, str(page), "exec", flags=flags, dont_inherit=True)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sealyard"):
                # Inside the sandbox the engine of analyses has a name of its own.
                name = (node.module or "").replace("sealyard_analysis", "sealyard.analysis.guest")
                module = importlib.import_module(name)
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def _run(command: list[str], *, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs it for a user who has this Python first in the path, an empty home, and nothing configured."""
    programs = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "SEALYARD_"))}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "PATH": programs, "HOME": str(home), "COLUMNS": "80"},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
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


def _field(kind: type[msgspec.Struct], name: str) -> Any:
    return next(field for field in msgspec.structs.fields(kind) if field.name == name)


def _kind(info: msgspec.inspect.Type) -> str:
    """A type as somebody who writes TOML would say it."""
    match info:
        case msgspec.inspect.UnionType():
            return " or ".join(_kind(each) for each in info.types if not isinstance(each, msgspec.inspect.NoneType))
        case msgspec.inspect.LiteralType():
            return ", ".join(f'`"{value}"`' for value in info.values)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            word = "whole number" if isinstance(info, msgspec.inspect.IntType) else "number"
            low = f"{info.ge:,}" if info.ge is not None else f"above {info.gt}"
            return word if info.le is None else f"{word}, {low} to {info.le:,}"
        case msgspec.inspect.DictType():
            return (
                "table"
                if isinstance(info.value_type, msgspec.inspect.AnyType)
                else f"table of {_several(info.value_type)}"
            )
        case msgspec.inspect.VarTupleType():
            return f"list of {_several(info.item_type)}"
    return {"BoolType": "true or false", "StructType": "table"}.get(type(info).__name__, "string")


def _several(info: msgspec.inspect.Type) -> str:
    return _kind(info) if isinstance(info, msgspec.inspect.LiteralType) else f"{_kind(info)}s"


def _default(field: Any) -> str:
    match field.default:
        case None:
            return ""
        case bool() | str():
            return f"`{json.dumps(field.default)}`"
        case int() | float():
            return f"{field.default:,.15g}"
        case tuple():
            return f"`{json.dumps(field.default)}`"
    if field.required:
        return "required"
    if field.default_factory is dict:
        return "`{}`"
    return "[the data folder](store.md#where-it-is)"


def _codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def _number(value: object) -> str:
    return f"{value:,.15g}" if isinstance(value, int | float) else str(value)


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
