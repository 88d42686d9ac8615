"""Reports and points: the figures that people and programs are shown."""

from typing import Any

import msgspec

from sealyard.metrics import Point, Prices, Report
from sealyard.metrics.report import SessionTokens
from sealyard.metrics.sums.sums import CallRow, Sums
from sealyard.values.facts import (
    Assessed,
    Executed,
    Fact,
    Hidden,
    Hinted,
    Published,
    Saw,
    Searched,
    SecurityEvent,
    SkillEvent,
    Tokens,
    UpstreamEvent,
    Used,
)

PRICES = Prices(input=3.0, output=15.0)


def executed(**changes: Any) -> Executed:
    """A good run of code, but for the changes."""
    known: dict[str, Any] = {"at": 1.0, "form": "code", "status": "ok", "seconds": 1.0, "use_case": "compute"}
    return Executed(**known | {"level": "production", "tier": "namespace"} | changes)


def summed(*records: Fact | CallRow) -> Sums:
    """What they add up to."""
    sums = Sums()
    for record in records:
        if isinstance(record, CallRow):
            sums.add_call(record)
        else:
            sums.add_fact(record)
    return sums


def reported(*records: Fact | CallRow) -> Report:
    """The report of what they add up to."""
    return Report.of(summed(*records), since=1.0, until=9.0, prices=PRICES, tokenizer="o200k_base")


def test_report_of_nothing_has_no_shares_and_no_percentiles() -> None:
    """There is nothing to divide by: null, not zero and not an error."""
    found = msgspec.to_builtins(Report.of(Sums(), since=None, until=None, prices=PRICES, tokenizer="o200k_base"))
    assert found == {
        "since": None,
        "until": None,
        "tokenizer": "o200k_base",
        "prices": {"input": 3.0, "output": 15.0},
        "sessions": {"count": 0, "with_code": 0, "code_share": None},
        "discovery": {
            "queries": 0,
            "from_code": 0,
            "hits": 0,
            "hit_rate": None,
            "continued": 0,
            "cached": 0,
            "p50_seconds": None,
            "p95_seconds": None,
        },
        "execution": {
            "count": 0,
            "ok": 0,
            "success_rate": None,
            "timeouts": 0,
            "timeout_rate": None,
            "background": 0,
            "p50_seconds": None,
            "p95_seconds": None,
            "p99_seconds": None,
            "cpu_seconds": 0.0,
            "memory_p95_bytes": None,
            "calls": 0,
            "by_status": {},
            "by_form": {},
            "by_level": {},
            "by_tier": {},
            "errors": {},
            "failures": {},
            "use_cases": {},
            "code_p50_characters": None,
        },
        "sdk": {"generations": 0, "tools": 0, "p50_seconds": None, "p95_seconds": None},
        "filtering": {"bytes_in": 0, "bytes_out": 0, "reduction": None},
        "tokens": {
            "baseline": 0,
            "actual": 0,
            "saved": 0,
            "saved_share": None,
            "dollars_saved": 0.0,
            "dollars_baseline": 0.0,
            "dollars_actual": 0.0,
            "uncounted_bytes": 0,
            "baseline_parts": {},
            "actual_parts": {},
            "by_use_case": {},
            "per_session": None,
        },
        "skills": {
            "saved": 0,
            "drafts": 0,
            "rejected": 0,
            "reused": 0,
            "failed": 0,
            "migrated": 0,
            "runs": 0,
            "reuse_ratio": None,
        },
        "security": {
            "hidden": {},
            "hidden_total": 0,
            "hiding_failures": 0,
            "revealed": 0,
            "review_refused": 0,
            "policy_denied": 0,
            "limited": 0,
            "asked": 0,
            "approved": 0,
            "refused": 0,
            "expired": 0,
            "answer_p50_seconds": None,
        },
        "learning": {
            "assessed": 0,
            "by_risk": {},
            "refused": 0,
            "asked": 0,
            "hints": {},
            "hints_total": 0,
            "fitted": {},
            "searches_changed": 0,
            "searches_changed_share": None,
        },
        "upstreams": {},
    }


def test_discovery_and_sessions_say_what_was_searched_and_used() -> None:
    """A hit is a search of which a found tool was then called."""
    searched = Searched(at=1.0, search_id="a", place="agent", detail_level="full", seconds=0.002)
    found = reported(
        Saw(at=1.0, event="begin"),
        Saw(at=1.0, event="begin"),
        Saw(at=1.0, event="code"),
        searched,
        searched,
        searched,
        msgspec.structs.replace(searched, place="code", is_continued=True, is_cached=False),
        Used(at=2.0, search_id="a", tool="t", rank=1, seconds=1.0),
    )
    assert (found.sessions.count, found.sessions.with_code, found.sessions.code_share) == (2, 1, 0.5)
    discovery = found.discovery
    assert (discovery.queries, discovery.from_code, discovery.hits, discovery.hit_rate) == (4, 1, 1, 0.25)
    assert (discovery.continued, discovery.cached) == (1, 3)
    assert (found.since, found.until, found.tokenizer) == (1.0, 9.0, "o200k_base")


def test_executions_are_told_apart_by_how_they_ended() -> None:
    """Rates are shares of all runs; times are percentiles of all runs."""
    found = reported(
        *(executed(calls=2, cpu_seconds=0.5, memory_bytes=48 << 20, code_characters=100) for _ in range(6)),
        executed(status="timeout", failure="wall_time", error_type="WallTimeExceeded", seconds=120.0),
        executed(status="failed", failure="exception", error_type="KeyError", is_background=True, level="hardened"),
        executed(status="failed", failure="exception", error_type="SomethingOfTheirs", tier="landlock"),
        executed(form="call", level="", tier="", use_case="direct", calls=1),
    ).execution
    assert (found.count, found.ok, found.success_rate) == (10, 7, 0.7)
    assert (found.timeouts, found.timeout_rate, found.background) == (1, 0.1, 1)
    assert found.by_status == {"ok": 7, "failed": 2, "timeout": 1}
    assert found.by_form == {"code": 9, "call": 1}
    assert found.by_level == {"production": 8, "hardened": 1, "none": 1}
    assert found.by_tier == {"namespace": 8, "landlock": 1, "none": 1}
    assert found.errors == {"KeyError": 1, "WallTimeExceeded": 1, "other": 1}
    assert found.failures == {"exception": 2, "wall_time": 1}
    assert found.use_cases == {"compute": 9, "direct": 1}
    assert (found.calls, found.cpu_seconds) == (13, 3.0)
    assert found.p50_seconds is not None
    assert 0.7 < found.p50_seconds <= 1.0
    assert found.p99_seconds is not None
    assert 100.0 < found.p99_seconds <= 150.0
    assert found.memory_p95_bytes is not None
    assert 32 << 20 < found.memory_p95_bytes <= 48 << 20
    assert found.code_p50_characters == 85.0


def test_tokens_and_money_are_saved_by_use_case() -> None:
    """What a model writes costs more than what it reads, and counts against us."""
    found = reported(
        Tokens(at=1.0, use_case="filtering", tokenizer="t", data=1_000_000, code=1_000, results=9_000),
        Tokens(at=1.0, use_case="discovery", tokenizer="t", definitions=500_000, surface=4_000, searches=6_000),
        Tokens(at=1.0, use_case="compute", tokenizer="t", code=500, uncounted_bytes=77),
    ).tokens
    assert (found.baseline, found.actual, found.saved) == (1_500_000, 20_500, 1_479_500)
    assert found.saved_share == 1_479_500 / 1_500_000
    assert found.dollars_baseline == 4.5
    assert found.dollars_actual == (19_000 * 3.0 + 1_500 * 15.0) / 1e6
    assert found.dollars_saved == found.dollars_baseline - found.dollars_actual
    assert found.uncounted_bytes == 77
    assert found.baseline_parts == {"data": 1_000_000, "definitions": 500_000}
    assert found.actual_parts == {"results": 9_000, "searches": 6_000, "surface": 4_000, "code": 1_500}
    assert msgspec.to_builtins(found.by_use_case) == {
        "compute": {"baseline": 0, "actual": 500, "saved": -500},
        "discovery": {"baseline": 500_000, "actual": 10_000, "saved": 490_000},
        "filtering": {"baseline": 1_000_000, "actual": 10_000, "saved": 990_000},
    }


def test_tokens_of_a_conversation_are_those_of_all_divided_by_their_number() -> None:
    """Only visits that began count as conversations; without one there is no average."""
    spent = (
        Tokens(at=1.0, use_case="discovery", tokenizer="t", definitions=9_000, surface=1_000),
        Tokens(at=1.0, use_case="discovery", tokenizer="t", definitions=9_000, surface=1_000),
        Tokens(at=1.0, use_case="filtering", tokenizer="t", data=2_001, code=50, results=51),
    )
    began = [Saw(at=1.0, session=each, event="begin") for each in ("a", "b")]
    code = Saw(at=1.0, session="a", event="code")

    found = reported(*spent, *began, code).tokens.per_session

    assert found == SessionTokens(sessions=2, baseline=10_000.5, actual=1_050.5, saved=8_950.0)
    assert reported(*spent, code).tokens.per_session is None


def test_bytes_stubs_skills_and_security_are_reported() -> None:
    """The share of runs that imported a skill is of runs of code only."""
    found = reported(
        executed(bytes_in=1_000, bytes_out=10, skills=1),
        executed(),
        executed(form="analysis", use_case="analysis"),
        Published(at=1.0, seconds=0.01, tools=30),
        *(SkillEvent(at=1.0, event=event) for event in ("saved", "draft", "rejected", "reused", "reused", "failed")),
        SkillEvent(at=1.0, event="migrated"),
        Hidden(at=1.0, values={"email": 4, "phone": 6}, failures=1),
        *(SecurityEvent(at=1.0, event=event) for event in ("revealed", "review_refused", "policy_denied", "limited")),
        *(SecurityEvent(at=1.0, event="asked") for _ in range(3)),
        SecurityEvent(at=1.0, event="approved", seconds=20.0),
        SecurityEvent(at=1.0, event="refused", seconds=20.0),
        SecurityEvent(at=1.0, event="expired"),
    )
    assert msgspec.to_builtins(found.filtering) == {"bytes_in": 1_000, "bytes_out": 10, "reduction": 0.99}
    assert (found.sdk.generations, found.sdk.tools) == (1, 30)
    assert msgspec.to_builtins(found.skills) == {
        "saved": 1,
        "drafts": 1,
        "rejected": 1,
        "reused": 2,
        "failed": 1,
        "migrated": 1,
        "runs": 1,
        "reuse_ratio": 0.5,
    }
    assert msgspec.to_builtins(found.security) == {
        "hidden": {"phone": 6, "email": 4},
        "hidden_total": 10,
        "hiding_failures": 1,
        "revealed": 1,
        "review_refused": 1,
        "policy_denied": 1,
        "limited": 1,
        "asked": 3,
        "approved": 1,
        "refused": 1,
        "expired": 1,
        "answer_p50_seconds": 17.5,
    }


def test_what_experience_changed_is_reported() -> None:
    """Of four searches one was reordered; of three runs one was refused and one asked about."""
    usual: dict[str, Any] = {"usual_seconds": 30.0, "usual_mib": 512, "memory_mib": 512, "chance": 0.5}
    searched = Searched(at=1.0, search_id="a", place="agent", detail_level="full", seconds=0.002)
    found = reported(
        executed(assessed=Assessed(risk="low", wall_seconds=60.0, **usual)),
        executed(assessed=Assessed(risk="critical", decision="refused", wall_seconds=30.0, **usual)),
        executed(assessed=Assessed(risk="critical", decision="asked", wall_seconds=30.0, **usual)),
        Hinted(at=1.0, hint="fix", subject="t"),
        Hinted(at=1.0, hint="chain", subject="t"),
        Hinted(at=1.0, hint="chain", subject="t"),
        searched,
        searched,
        searched,
        msgspec.structs.replace(searched, found=("b", "a"), text_ranks=(2, 1)),
    )
    assert msgspec.to_builtins(found.learning) == {
        "assessed": 3,
        "by_risk": {"low": 1, "critical": 2},
        "refused": 1,
        "asked": 1,
        "hints": {"fix": 1, "chain": 2},
        "hints_total": 3,
        "fitted": {"more_time": 1},
        "searches_changed": 1,
        "searches_changed_share": 0.25,
    }


def test_upstreams_are_judged_by_the_calls_that_were_to_reach_them() -> None:
    """What ended in the gateway is listed, but is no fault of the server's."""
    bank = {"tool": "mcp__bank__pay", "upstream": "bank"}
    found = reported(
        *(CallRow(**bank, seconds=0.2, answer_bytes=100) for _ in range(3)),
        CallRow(**bank, seconds=0.2, error="ToolFailed: no"),
        CallRow(**bank, seconds=90.0, error="PolicyRefused: no"),
        CallRow(**bank, seconds=0.0, error="InvalidArguments: no"),
        CallRow(tool="mcp__mail__send", upstream="mail", seconds=0.0, error="LimitReached: no"),
        UpstreamEvent(at=1.0, upstream="bank", event="restarted"),
        UpstreamEvent(at=1.0, upstream="files", event="failed"),
        UpstreamEvent(at=1.0, upstream="files", event="circuit_opened"),
    ).upstreams
    assert list(found) == ["bank", "files", "mail"]
    assert found["bank"].calls == 6
    assert found["bank"].errors == {"tool_failed": 1, "invalid": 1, "refused": 1}
    assert found["bank"].error_rate == 0.25
    assert found["bank"].answer_bytes == 300
    assert found["bank"].restarts == 1
    assert found["bank"].p99_seconds is not None
    assert found["bank"].p99_seconds <= 0.2
    assert (found["mail"].calls, found["mail"].error_rate, found["mail"].p50_seconds) == (1, None, None)
    assert (found["files"].calls, found["files"].failures, found["files"].circuit_opened) == (0, 1, 1)


def test_points_say_what_happened_in_each_step() -> None:
    """Also where nothing did."""
    sums = summed(
        executed(bytes_in=100, bytes_out=10),
        executed(status="failed"),
        Searched(at=1.0, search_id="a", place="agent", detail_level="full", seconds=0.002),
        Used(at=2.0, search_id="a", tool="t", rank=1, seconds=1.0),
        CallRow(tool="mcp__bank__pay", upstream="bank", seconds=0.2),
        CallRow(tool="mcp__bank__pay", upstream="bank", seconds=0.2, error="ToolFailed: no"),
        Tokens(at=1.0, use_case="filtering", tokenizer="t", data=1_000, code=10),
        Hidden(at=1.0, values={"email": 4}),
    )
    first, second = Point.of(60.0, Sums()), Point.of(120.0, sums)
    assert first == Point(
        start=60.0,
        executions=0,
        failed=0,
        p50_seconds=None,
        p95_seconds=None,
        searches=0,
        hits=0,
        calls=0,
        call_errors=0,
        baseline_tokens=0,
        actual_tokens=0,
        bytes_in=0,
        bytes_out=0,
        hidden=0,
    )
    assert (second.start, second.executions, second.failed) == (120.0, 2, 1)
    assert (second.searches, second.hits, second.calls, second.call_errors) == (1, 1, 2, 1)
    assert (second.baseline_tokens, second.actual_tokens) == (1_000, 10)
    assert (second.bytes_in, second.bytes_out, second.hidden) == (100, 10, 4)
    assert second.p50_seconds == 0.85
