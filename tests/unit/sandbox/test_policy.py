"""Isolation levels, policies and presets, as data."""

import sys

import msgspec
import pytest

from sealyard import former
from sealyard.errors import InvalidRequest
from sealyard.sandbox.policy import (
    ANALYSIS,
    DATABASE_READONLY,
    DEFAULT,
    FILTERING,
    LEVELS,
    PRESETS,
    IsolationLevel,
    IsolationPolicy,
)
from sealyard.values.runs import Limits

STDLIB = frozenset(sys.stdlib_module_names)
DATA_STACK = frozenset(("duckdb", "numpy", "pandas", "polars", "scipy"))
GUEST = {"servers", "skills", "tool_discovery", "sealyard_analysis", former.ANALYSIS}

RANGES = {
    "wall_seconds": (1, 120),
    "cpu_seconds": (1, 120),
    "memory_mib": (32, 65_536),
    "cores": (1, 256),
    "processes": (1, 1_024),
    "threads": (1, 1_024),
    "open_files": (16, 65_536),
    "workspace_mib": (1, 65_536),
    "workspace_files": (16, 10_000_000),
    "temp_mib": (1, 65_536),
    "temp_files": (16, 10_000_000),
    "output_bytes": (1_024, 1 << 30),
    "result_bytes": (1_024, 1 << 30),
    "inline_bytes": (256, 1 << 30),
    "call_bytes": (1_024, 1 << 30),
    "tool_calls": (0, 10_000_000),
    "concurrent_calls": (1, 4_096),
}


@pytest.mark.parametrize(
    ("level", "wall_seconds", "memory_mib", "imports", "every_layer"),
    [
        ("development", 60.0, 512, "installed", False),
        ("production", 30.0, 512, "standard", False),
        ("hardened", 10.0, 128, "listed", True),
    ],
)
def test_levels_are_the_promised_table(
    level: str, wall_seconds: float, memory_mib: int, imports: str, every_layer: bool
) -> None:
    """Wall time, memory, imports and the demand for every layer."""
    policy = LEVELS[IsolationLevel(level)]

    assert (policy.name, policy.level) == (level, level)
    assert (policy.wall_seconds, policy.cpu_seconds) == (wall_seconds, wall_seconds)
    assert (policy.memory_mib, policy.imports, policy.every_layer) == (memory_mib, imports, every_layer)


def test_production_is_the_default() -> None:
    """What nobody chose is the level in the middle."""
    assert DEFAULT is LEVELS[IsolationLevel.PRODUCTION]


def test_only_development_may_fork() -> None:
    """One process means that `fork` fails."""
    assert {level: policy.processes for level, policy in LEVELS.items()} == {
        "development": 16,
        "production": 1,
        "hardened": 1,
    }


def test_only_hardened_forbids_new_native_code() -> None:
    """Data packages map their libraries executable, so that the other levels must allow it."""
    assert [str(level) for level, policy in LEVELS.items() if not policy.executable_memory] == ["hardened"]


def test_development_allows_every_import() -> None:
    """`None` stands for everything that is installed."""
    assert LEVELS[IsolationLevel.DEVELOPMENT].allowed_modules(stdlib=STDLIB, packages=DATA_STACK) is None


def test_production_allows_the_standard_library_without_processes_network_and_native_code() -> None:
    """The allow-list is what is left of the standard library, the data stack and the guest's own modules."""
    allowed = DEFAULT.allowed_modules(stdlib=STDLIB, packages=DATA_STACK)

    assert allowed == (STDLIB | DATA_STACK | GUEST) - set(DEFAULT.refused_modules)
    assert {"subprocess", "multiprocessing", "socket", "ssl", "smtplib", "ctypes", "resource"}.isdisjoint(allowed)
    assert {"asyncio", "csv", "os", "sqlite3", "urllib", "http", "__future__"} <= allowed
    assert {"urllib.request", "http.client", "http.server"} <= set(DEFAULT.refused_modules)


def test_hardened_allows_exactly_the_listed_modules() -> None:
    """Nine modules, the guest's own, and the import that is syntax."""
    allowed = LEVELS[IsolationLevel.HARDENED].allowed_modules(stdlib=STDLIB, packages=DATA_STACK)

    assert allowed == GUEST | {
        *("json", "math", "decimal", "statistics", "re", "datetime", "collections", "itertools", "functools"),
        "__future__",
    }


def test_custom_modules_are_allowed_in_addition() -> None:
    """One field widens the imports of a level without touching the rest."""
    policy = msgspec.structs.replace(DEFAULT, modules=("company_stats",))

    allowed = policy.allowed_modules(stdlib=STDLIB, packages=frozenset())

    assert allowed == DEFAULT.allowed_modules(stdlib=STDLIB, packages=frozenset({"company_stats"}))


@pytest.mark.parametrize("imports", ["standard", "listed"])
def test_refused_modules_win_over_listed_ones(imports: str) -> None:
    """The guest looks for a refusal first, so that the allow-list does not claim more."""
    policy = msgspec.structs.replace(DEFAULT, imports=imports, modules=("json", "socket"), refused_modules=("socket",))

    allowed = policy.allowed_modules(stdlib=STDLIB, packages=frozenset())

    assert allowed is not None
    assert ("json" in allowed, "socket" in allowed) == (True, False)


def test_presets_have_the_promised_names() -> None:
    """Configuration and `sealyard doctor --policy` take these and no others."""
    assert {name: policy.name for name, policy in PRESETS.items()} == {
        "development": "development",
        "production": "production",
        "hardened": "hardened",
        "default": "production",
        "analysis": "analysis",
        "database_readonly": "database_readonly",
        "filtering": "filtering",
    }


def test_presets_differ_from_production_only_where_they_say() -> None:
    """A preset is production with its own limits and imports; the walls stay."""
    hardened_modules = LEVELS[IsolationLevel.HARDENED].modules

    assert _changes(ANALYSIS) == {
        "name": "analysis",
        "wall_seconds": 60.0,
        "cpu_seconds": 60.0,
        "memory_mib": 1_024,
        "workspace_mib": 256,
    }
    assert _changes(DATABASE_READONLY) == {
        "name": "database_readonly",
        "imports": "listed",
        "modules": (*hardened_modules, "csv", "sqlite3", "string"),
    }
    assert _changes(FILTERING) == {
        "name": "filtering",
        "wall_seconds": 10.0,
        "cpu_seconds": 10.0,
        "memory_mib": 256,
        "imports": "listed",
        "modules": (*hardened_modules, "csv", "heapq", "operator", "string"),
    }


def _changes(policy: IsolationPolicy) -> dict[str, object]:
    base = msgspec.structs.asdict(DEFAULT)
    return {field: value for field, value in msgspec.structs.asdict(policy).items() if value != base[field]}


@pytest.mark.parametrize("name", PRESETS)
def test_a_policy_survives_json(name: str) -> None:
    """An auditor can print a policy, and a configuration can hold it."""
    text = msgspec.json.encode(PRESETS[name])

    assert msgspec.json.decode(text, type=IsolationPolicy) == PRESETS[name]


def test_an_unknown_field_is_refused() -> None:
    """A misspelt limit in a configuration is an error, not a limit that silently stays as it was."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "x", "level": "production", "memory_mb": 64}, IsolationPolicy)


def test_a_policy_cannot_be_changed() -> None:
    """Two runs share one policy object."""
    with pytest.raises(AttributeError):
        DEFAULT.memory_mib = 64  # type: ignore[misc]


def test_every_limit_has_a_range() -> None:
    """A numeric field without a range would let a request ask for anything."""
    numeric = {field for field in DEFAULT.__struct_fields__ if type(getattr(DEFAULT, field)) in (int, float)}

    assert numeric == set(RANGES)


@pytest.mark.parametrize("field", RANGES)
def test_the_ends_of_a_range_are_inside(field: str) -> None:
    """Smallest and largest values are accepted."""
    low, high = RANGES[field]

    for value in (low, high):
        assert getattr(msgspec.structs.replace(DEFAULT, **{field: value}), field) == value


@pytest.mark.parametrize("field", RANGES)
def test_a_value_outside_its_range_is_refused_by_name(field: str) -> None:
    """The message names the field, the value and the range."""
    low, high = RANGES[field]
    kind = "number" if field.endswith("_seconds") else "whole number"

    for value in (low - 1, high + 1):
        with pytest.raises(InvalidRequest) as caught:
            msgspec.structs.replace(DEFAULT, **{field: value})
        assert str(caught.value) == f"{field} is {value!r}. Give a {kind} from {low:,} to {high:,}."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("wall_seconds", float("nan")),
        ("wall_seconds", float("inf")),
        ("wall_seconds", "30"),
        ("wall_seconds", True),
        ("wall_seconds", None),
        ("memory_mib", 64.5),
        ("memory_mib", True),
    ],
)
def test_what_is_no_such_number_is_refused(field: str, value: object) -> None:
    """Not a number, text, truth values and halves of a MiB compare oddly, so that they are named and refused."""
    low, high = RANGES[field]
    kind = "number" if field.endswith("_seconds") else "whole number"

    with pytest.raises(InvalidRequest) as caught:
        msgspec.structs.replace(DEFAULT, **{field: value})

    assert str(caught.value) == f"{field} is {value!r}. Give a {kind} from {low:,} to {high:,}."


def test_no_limits_keep_the_policy() -> None:
    """Nothing asked, nothing copied."""
    assert DEFAULT.with_limits(None) is DEFAULT
    assert DEFAULT.with_limits(Limits()) is DEFAULT


def test_limits_change_what_they_set_and_nothing_else() -> None:
    """Every field of `Limits` reaches the policy under the same name."""
    limits = Limits(
        wall_seconds=5.0,
        cpu_seconds=4.0,
        memory_mib=64,
        cores=3,
        processes=3,
        threads=4,
        open_files=32,
        output_bytes=2_048,
        result_bytes=4_096,
        inline_bytes=512,
        call_bytes=8_192,
        tool_calls=7,
        concurrent_calls=6,
    )

    assert _changes(DEFAULT.with_limits(limits)) == msgspec.to_builtins(limits)


def test_a_limit_out_of_range_is_refused() -> None:
    """Limits of a request face the same ranges as a policy."""
    with pytest.raises(InvalidRequest) as caught:
        DEFAULT.with_limits(Limits(wall_seconds=121))

    assert str(caught.value) == "wall_seconds is 121. Give a number from 1 to 120."


@pytest.mark.parametrize(
    ("cpu_of_policy", "limits", "cpu_seconds"),
    [
        (30.0, Limits(wall_seconds=60), 60),
        (30.0, Limits(wall_seconds=10), 30.0),
        (30.0, Limits(wall_seconds=60, cpu_seconds=5), 5),
        (20.0, Limits(wall_seconds=60), 20.0),
        (90.0, Limits(wall_seconds=60), 90.0),
    ],
)
def test_a_longer_wall_time_brings_cpu_time_with_it(cpu_of_policy: float, limits: Limits, cpu_seconds: float) -> None:
    """Code that computes may use the time it asked for, unless the policy keeps CPU time shorter than the clock."""
    policy = msgspec.structs.replace(DEFAULT, cpu_seconds=cpu_of_policy)

    assert policy.with_limits(limits).cpu_seconds == cpu_seconds


@pytest.mark.parametrize("level", list(IsolationLevel))
@pytest.mark.parametrize("usual", [*PRESETS.values(), msgspec.structs.replace(DEFAULT, memory_mib=64, tool_calls=5)])
def test_a_policy_within_another_allows_nothing_that_either_forbids(
    level: IsolationLevel, usual: IsolationPolicy
) -> None:
    """Whatever the gateway's own policy was narrowed to: a stricter level never widens it again."""
    strict = LEVELS[level]
    both = strict.within(usual)

    def importable(policy: IsolationPolicy) -> frozenset[str]:
        found = policy.allowed_modules(stdlib=STDLIB, packages=DATA_STACK)
        return STDLIB | DATA_STACK if found is None else found & (STDLIB | DATA_STACK)

    least = {name: min(getattr(strict, name), getattr(usual, name)) for name in RANGES}
    assert {name: getattr(both, name) for name in RANGES} == least
    assert both.level == strict.level
    assert importable(both) <= importable(strict) & importable(usual)
    assert set(both.refused_modules) == {*strict.refused_modules, *usual.refused_modules}
    assert both.executable_memory == (strict.executable_memory and usual.executable_memory)
    assert both.own_network == (strict.own_network or usual.own_network)
    assert both.every_layer == (strict.every_layer or usual.every_layer)
