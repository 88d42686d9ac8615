"""Skills as tables within 80 columns, and as JSON data."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sealyard.cli.terminal import Cell, columns, count, day, minute, plain, say, screen, show_table, write
from sealyard.cli.tools import STATES
from sealyard.skills import NeedCheck, signature_of
from sealyard.values.skills import (
    FoundSkill,
    Skill,
    SkillAnalysis,
    SkillFigures,
    SkillRecord,
    SkillSummary,
    TestedSkill,
)

_STYLES = {"active": "green", "draft": "yellow", "quarantined": "red"}
_VERDICTS = {**_STYLES, "exemplary": "green", "removable": "red"}


def show_list(skills: Sequence[Skill]) -> None:
    """Show one line per skill."""
    if not skills:
        say("No skills yet. Agents save them with save_skill, people with `sealyard skills save`.")
        return
    rows = (
        (
            f"{skill.namespace}/{skill.name}",
            skill.version,
            plain(skill.status, _STYLES[skill.status]),
            day(skill.modified_at),
            plain(skill.description.partition("\n")[0][:80], "dim"),
        )
        for skill in skills
    )
    show_table("skill", "version", "status", "modified", "description", rows=rows)


def show_found(found: Sequence[FoundSkill]) -> None:
    """Show the answer that an agent gets."""
    if not found:
        say("No skill fits.")
    for each in found:
        known = "not used yet" if each.effectiveness is None else f"effectiveness {each.effectiveness:g}"
        status = "" if each.status == "active" else f", {each.status}"
        say(f"{each.name} {each.version} ({known}{status})", "bold")
        say(f"  {each.signature}")
        say(f"  {each.description}", "dim")
        for warning in each.warnings:
            say(f"  warning: {warning}", "yellow")


def show_skill(skill: Skill, checks: Sequence[NeedCheck]) -> None:
    """Show one skill whole."""
    say(f"{skill.namespace}/{skill.name} {skill.version}", "bold")
    facts = {
        "status": f"{skill.status}. {skill.note}" if skill.note else skill.status,
        "description": skill.description,
        "signature": signature_of(skill),
        "form": skill.form,
        "tags": ", ".join(skill.tags),
        "author": skill.author,
        "created": minute(skill.created_at),
        "modified": minute(skill.modified_at),
        "origin": skill.origin,
        "level": skill.level,
        "skills": ", ".join(f"{need.name} {need.version}" for need in skill.skills),
        "digest": skill.digest,
    }
    screen.print(columns(rows=[(plain(key, "dim"), value) for key, value in facts.items() if value]))
    needs = (
        (check.tool, check.need, check.current or "-", plain(check.state, STATES[check.state])) for check in checks
    )
    show_table("tool", "written for", "now", "state", rows=needs)
    for check in checks:
        if check.reason:
            say(f"{check.tool}: {check.reason}", "yellow")
    for number, example in enumerate(skill.examples, 1):
        calls = 0 if example.trace is None else len(example.trace.calls)
        text = "passed" if example.passed else f"did not pass: {example.problem}"
        say(f"example {number}: {text} ({count(calls, 'recorded call')})", "dim")
    write(f"\n{skill.code}" + ("" if skill.code.endswith("\n") else "\n"))


def show_tests(tested: Sequence[TestedSkill]) -> None:
    """Show the outcome of replays."""
    if not tested:
        say("No skill to test.")
    for each in tested:
        passed = sum(rehearsal.example.passed for rehearsal in each.rehearsals)
        name = f"{each.skill.namespace}/{each.skill.name} {each.skill.version}"
        if not each.rehearsals:
            say(f"{name}: it has no example", "yellow")
            continue
        style = "green" if each.passed else "red"
        say(f"{name}: {passed} of {count(len(each.rehearsals), 'example')} passed", style)
        for number, rehearsal in enumerate(each.rehearsals, 1):
            if not rehearsal.example.passed:
                say(f"  example {number}: {rehearsal.example.problem}")


def show_history(versions: Sequence[Skill], records: Sequence[SkillRecord]) -> None:
    """Show one line per version, the newest first."""
    used = {record.version: (record.uses, record.failures) for record in records}
    rows: Iterator[tuple[Cell, ...]] = (
        (
            skill.version,
            plain(skill.status, _STYLES[skill.status]),
            minute(skill.modified_at),
            skill.author,
            *used.get(skill.version, (0, 0)),
            plain(skill.origin or "saved", "dim"),
        )
        for skill in versions
    )
    show_table("version", "status", "modified", "author", "uses", "failures", "origin", rows=rows)


def show_analysis(analysis: SkillAnalysis, *, is_full: bool) -> None:
    """Show how well skills work."""
    rows = (
        (
            f"{each.namespace}/{each.name} {each.version}",
            each.uses,
            each.failures,
            "never" if each.last_used_at is None else day(each.last_used_at),
            f"{each.effectiveness:.2f}",
            plain(_verdict(each), _VERDICTS.get(_verdict(each), "")),
        )
        for each in analysis.skills
    )
    show_table("skill", "uses", "failures", "last used", "effect", "verdict", rows=rows)
    summary = analysis.summary
    say(
        f"{count(summary.skills, 'skill')}: {summary.active} active, {count(summary.drafts, 'draft')},"
        f" {summary.quarantined} in quarantine. {count(summary.uses, 'use')}, in {summary.executions_share:.0%} of"
        f" all executions; {count(summary.translated, 'translated call')}.",
        "dim",
    )
    for each in analysis.skills:
        if each.difficulty is not None:
            name = f"{each.namespace}/{each.name}"
            say(f"{name} needs a migration; predicted: {each.difficulty}", "yellow")
    for candidate in analysis.candidates:
        called = f" ({', '.join(candidate.tools)})" if candidate.tools else ""
        say(
            f"worth saving: code that {candidate.principal} ran {candidate.times} times{called}, last as"
            f" {candidate.execution_id}"
        )
    if is_full:
        _show_details(analysis.skills, summary)


def _show_details(skills: Sequence[SkillFigures], summary: SkillSummary) -> None:
    for each in skills:
        say(f"{each.namespace}/{each.name} {each.version}", "bold")
        if each.calls:
            by = count(each.principals, "client")
            say(f"  {count(each.calls, 'call')} by {by}, {each.mean_seconds:.3f} s each")
        for text in each.details:
            say(f"  {text}")
    if summary.migrations:
        say(
            f"{count(summary.migrations, 'migration')}, {summary.migrated} done; the difficulty predicted was right"
            f" in {summary.predictions_right} of them."
        )


def _verdict(figures: SkillFigures) -> str:
    """Return the judgement of a skill in one word, or nothing for an ordinary one."""
    if figures.status != "active":
        return figures.status
    return "" if figures.judgement == "kept" else figures.judgement


def skill_data(skill: Skill) -> dict[str, Any]:
    """Return a skill as JSON data without the answers in its examples, which may be megabytes."""
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(skill, examples=()))
    found["examples"] = [
        msgspec.to_builtins(msgspec.structs.replace(example, trace=None))
        | {"recorded_calls": 0 if example.trace is None else len(example.trace.calls)}
        for example in skill.examples
    ]
    return found
