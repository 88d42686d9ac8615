"""What Prometheus is told: names, types, cumulative buckets, escaped labels; and the files that ask for it."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from sealyard.config.settings import AlertsConfig
from sealyard.errors import InvalidRequest
from sealyard.metrics.exposition import FILES, render, write_files
from sealyard.metrics.sums.names import GAUGES, METRICS, OPERATOR, Gauge
from sealyard.metrics.sums.sums import CallRow, Sums
from sealyard.observe.health.alerts import RULES
from sealyard.values.facts import Executed, Hidden, UpstreamEvent

FOLDER = FILES[0].parent
NAMES = [file.name for file in FILES]
DASHBOARDS = sorted(file.name for file in FILES if file.suffix == ".json")


def some_sums(upstream: str = "mail") -> Sums:
    """A run with a call."""
    sums = Sums()
    sums.add_fact(
        Executed(
            at=1,
            form="code",
            status="ok",
            level="production",
            tier="namespace",
            seconds=0.25,
            cpu_seconds=0.1,
            memory_bytes=50 << 20,
            calls=1,
            code_characters=120,
            use_case="filtering",
        )
    )
    sums.add_fact(Hidden(at=1, values={"email": 3}, failures=2))
    sums.add_fact(UpstreamEvent(at=1, upstream=upstream, event="started"))
    sums.add_call(CallRow(tool="mcp__mail__send", upstream=upstream, seconds=0.02, answer_bytes=512))
    return sums


def samples(text: bytes, *, openmetrics: bool = False) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Name of a sample -> its labels -> its value, as the client library reads them."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in (parse_openmetrics if openmetrics else parse_plain)(text.decode()):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {})
            found[sample.name][labels] = sample.value
    return found


def test_a_counter_a_histogram_and_a_gauge_are_written_as_prometheus_wants_them() -> None:
    """Amounts are in base units, buckets are cumulative and end with +Inf."""
    gauges = [Gauge.of("sealyard_upstream_up", 1, upstream="mail")]
    text, content_type = render(some_sums(), gauges)
    lines = text.decode().splitlines()

    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert lines[:3] == [
        "# HELP sealyard_upstream_up 0 if the upstream failed and was not started again since, else 1: one that nobody"
        " needed yet is not down.",
        "# TYPE sealyard_upstream_up gauge",
        'sealyard_upstream_up{upstream="mail"} 1.0',
    ]
    at = lines.index("# TYPE sealyard_execution_total counter")
    assert lines[at - 1 : at + 2] == [
        "# HELP sealyard_execution_total Executions that are over.",
        "# TYPE sealyard_execution_total counter",
        'sealyard_execution_total{form="code",level="production",status="ok",tier="namespace"} 1.0',
    ]
    at = lines.index("# TYPE sealyard_execution_duration_seconds histogram")
    buckets = [line for line in lines[at:] if line.startswith("sealyard_execution_duration_seconds_bucket")]
    bounds = [float(line.partition('le="')[2].partition('"')[0]) for line in buckets]
    counts = [float(line.split()[-1]) for line in buckets]
    assert (bounds, bounds[-1]) == (sorted(bounds), float("inf"))
    assert counts == [0.0 if bound < 0.25 else 1.0 for bound in bounds]
    after = lines[at + 1 + len(buckets) :][:2]
    assert after == [
        'sealyard_execution_duration_seconds_count{form="code",level="production"} 1.0',
        'sealyard_execution_duration_seconds_sum{form="code",level="production"} 0.25',
    ]


def test_openmetrics_says_the_same_in_its_own_words() -> None:
    """The strict parser of the format takes it, with units and an end."""
    gauges = [Gauge.of("sealyard_info", 1, version="1", tier="namespace", level="production", tokenizer="o200k_base")]
    plain, _ = render(some_sums(), gauges)
    text, content_type = render(some_sums(), gauges, openmetrics=True)

    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith(b"# EOF\n")
    assert b"# UNIT sealyard_execution_duration_seconds seconds\n" in text
    assert b"# TYPE sealyard info\n" in text
    assert samples(text, openmetrics=True) == samples(plain)


def test_what_may_happen_once_is_there_before_it_happens() -> None:
    """`increase()` does not see the first event of a counter that was not there."""
    found = samples(render(Sums(), [])[0])

    assert found["sealyard_privacy_failures_total"] == {(): 0.0}
    assert found["sealyard_discovery_hits_total"] == {(): 0.0}
    assert set(found["sealyard_sessions_total"]) == {(("event", "begin"),), (("event", "code"),)}
    assert "sealyard_upstream_calls_total" not in found
    assert "sealyard_execution_duration_seconds_count" not in found


@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_no_name_of_an_upstream_breaks_out_of_its_label(name: str) -> None:
    """Whatever the configuration calls it, one sample with that label comes out of both formats."""
    gauges = [Gauge.of("sealyard_upstream_up", 0, upstream=name)]
    for openmetrics in (False, True):
        text, _ = render(some_sums(name), gauges, openmetrics=openmetrics)
        found = samples(text, openmetrics=openmetrics)
        assert found["sealyard_upstream_up"] == {(("upstream", name),): 0.0}
        assert len(found["sealyard_upstream_calls_total"]) == 1


def test_a_name_with_every_special_character_is_escaped() -> None:
    """Backslash, quote and line end."""
    text, _ = render(Sums(), [Gauge.of("sealyard_upstream_up", 1, upstream='a\\b"c\nd}')])

    assert b'sealyard_upstream_up{upstream="a\\\\b\\"c\\nd}"} 1.0\n' in text


def test_a_gauge_that_comes_twice_is_written_once() -> None:
    """Two samples with the same labels make a scraper refuse all of them."""
    twice = [Gauge.of("sealyard_sandbox_ready", 1), Gauge.of("sealyard_sandbox_ready", 0)]

    assert samples(render(Sums(), twice)[0])["sealyard_sandbox_ready"] == {(): 1.0}


def test_names_follow_the_rules_of_prometheus() -> None:
    """Counters end in _total and nothing else does; units are base units; words are in snake case."""
    for name, metric in METRICS.items():
        assert name == metric.name
        assert name.endswith("_total") == (metric.kind == "counter")
        assert all(re.fullmatch("[a-z][a-z_]*", label) for label in metric.labels)
    for name, info in GAUGES.items():
        assert not name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert all(re.fullmatch("[a-z][a-z_]*", label) for label in info.labels)
    for name in (*METRICS, *GAUGES):
        assert re.fullmatch("sealyard_[a-z0-9_]+", name)
        assert not re.search("_(?:ms|millis|milliseconds|minutes|hours|kb|mb|percent)(?:_|$)", name)
    assert not METRICS.keys() & GAUGES.keys()


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("sealyard_party", {}, "There is no gauge 'sealyard_party'. Use one of GAUGES, or add it."),
        (
            "sealyard_upstream_up",
            {},
            "The gauge 'sealyard_upstream_up' has the labels ('upstream',) and no others. Give it those.",
        ),
        (
            "sealyard_store_bytes",
            {"path": "x"},
            "The gauge 'sealyard_store_bytes' has the labels () and no others. Give it those.",
        ),
    ],
)
def test_a_gauge_outside_the_list_cannot_be_made(name: str, labels: dict[str, str], message: str) -> None:
    """So nothing that was not thought of becomes a name or a label."""
    with pytest.raises(ValueError, match="gauge") as caught:
        Gauge.of(name, 1, **labels)

    assert str(caught.value) == message
    assert msgspec.json.decode(msgspec.json.encode(Gauge.of("sealyard_store_bytes", 5)), type=Gauge).value == 5


# The files


def expressions(name: str) -> list[str]:
    """Every PromQL expression of a file."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name.endswith(".yml"):
        return [rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    return [target["expr"] for panel in json.loads(text)["panels"] for target in panel.get("targets", ())]


def queries(name: str) -> list[str]:
    """Those, and the queries of a dashboard's variables."""
    found = expressions(name)
    if name.endswith(".json"):
        variables = json.loads((FOLDER / name).read_text(encoding="utf-8"))["templating"]["list"]
        found += [each["definition"] for each in variables if each["type"] == "query"]
    return found


def labels_of(series: str) -> dict[str, tuple[str, ...] | None]:
    """The labels that a series has, and the values that each may have if they are a closed set."""
    if series in GAUGES:
        return dict.fromkeys(GAUGES[series].labels)
    histogram = re.sub("_(?:bucket|count|sum)$", "", series)
    metric = METRICS[series] if series in METRICS else METRICS[histogram]
    assert (metric.kind == "histogram") == (series not in METRICS), series
    found: dict[str, tuple[str, ...] | None] = {
        label: None if values == OPERATOR else (*values, "other") for label, values in metric.labels.items()
    }
    return {**found, "le": None} if series.endswith("_bucket") else found


@pytest.mark.parametrize("name", NAMES)
def test_files_ask_only_for_what_is_there(name: str) -> None:
    """Every metric, label and value of a label in a file is one that the code knows."""
    outside = {"instance", "job"}
    asked = set()
    for query in queries(name):
        series = re.findall(r"(sealyard_[a-z_]+)(?:\{([^}]*)\})?", query)
        assert series, query
        known: dict[str, tuple[str, ...] | None] = {}
        for metric, selector in series:
            labels = labels_of(metric)
            known |= labels
            asked.add(metric)
            for label, operator, value in re.findall(r'([a-z_]+)\s*(=~|!=|!~|=)\s*"([^"]*)"', selector):
                assert label in labels or label in outside, query
                values = labels.get(label)
                for each in value.split("|") if operator in ("=~", "!~") else [value]:
                    assert values is None or each in values, query
        for grouping in re.findall(r"\bby \(([^)]*)\)", query):
            assert {label.strip() for label in grouping.split(",")} <= known.keys() | outside, query
    assert asked


def test_dashboards_show_everything_that_is_measured() -> None:
    """No metric is kept that nobody can look at."""
    shown = {
        re.sub("_(?:bucket|count|sum)$", "", series)
        for name in DASHBOARDS
        for query in queries(name)
        for series in re.findall("sealyard_[a-z_]+", query)
    }
    # The same as shares of the chosen time, which the dashboards show instead.
    instead = {"sealyard_discovery_hit_rate"}

    assert {*METRICS, *GAUGES} - shown == instead


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_can_be_imported_as_it_is(name: str) -> None:
    """Its data source is a variable, its panels do not overlap, legends name labels that survive the query."""
    board = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    variables = {each["name"]: each for each in board["templating"]["list"]}

    assert (board["id"], board["schemaVersion"]) == (None, 39)
    assert board["uid"] == f"sealyard-{name.removeprefix('grafana-').removesuffix('.json')}"
    assert "__inputs" not in board
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
        for target in panel.get("targets", ()):
            check_target(panel, target, variables)


def check_target(panel: dict[str, Any], target: dict[str, Any], variables: dict[str, Any]) -> None:
    """A query names the data source by its variable, and no variable that is not there."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == target["datasource"] == source
    used = set(re.findall(r"\$([a-z_]+)", target["expr"]))
    assert used <= {*variables, "__range", "__rate_interval"}
    named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    grouped = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for label in group.split(",")}
    assert named <= grouped


def test_prometheus_rules_are_the_same_as_sealyards_own() -> None:
    """One for each, with the same severity, title, waiting time and threshold that [alerts] has by default."""
    (group,) = yaml.safe_load((FOLDER / "prometheus-rules.yml").read_text(encoding="utf-8"))["groups"]
    rules = {rule["labels"]["rule"]: rule for rule in group["rules"]}
    settings = AlertsConfig()
    thresholds = {
        "discovery_hit_rate": ("<", settings.hit_rate),
        "error_rate": (">", settings.error_rate),
        "slow_runs": (">", settings.p95_seconds),
        "timeouts": (">", settings.timeout_rate),
        "privacy_failures": (">", 0),
    }

    assert rules.keys() == RULES.keys()
    for name, rule in rules.items():
        assert rule["alert"] == "Sealyard" + "".join(word.capitalize() for word in name.split("_"))
        assert (rule["labels"]["severity"], rule["annotations"]["summary"]) == (RULES[name].severity, RULES[name].title)
        assert rule.get("for", "0m") == ("1m" if RULES[name].waits else "0m")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert set(re.findall(r"\[(\d+)m\]", rule["expr"])) <= {str(int(settings.window_seconds / 60))}
    for name, (sign, threshold) in thresholds.items():
        assert f"{sign} {threshold:g}" in rules[name]["expr"]
    for name in ("discovery_hit_rate", "error_rate", "slow_runs", "timeouts"):
        assert f">= {settings.minimum}" in rules[name]["expr"]
    assert settings.for_seconds == 60


def test_files_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    """All of them, also over older ones; and a place that is none is refused in words."""
    folder = tmp_path / "new" / "files"
    (tmp_path / "file").write_text("", encoding="utf-8")
    written = [write_files(folder), write_files(folder)][-1]

    assert written == [folder / name for name in NAMES]
    assert [path.read_bytes() for path in written] == [(FOLDER / name).read_bytes() for name in NAMES]
    with pytest.raises(InvalidRequest) as caught:
        write_files(tmp_path / "file" / "below")
    assert str(caught.value) == (
        f"{str(tmp_path / 'file' / 'below')!r} cannot be written: Not a directory. Name a folder that can, or make"
        " room."
    )
