"""Skills on a terminal."""

import time
from collections.abc import Sequence

from toolyard.cli.terminal import columns, plain, screen, write
from toolyard.skills.reading import signature_of
from toolyard.store.skills import SkillRecord
from toolyard.values import Skill
from toolyard.yard.analysis import SkillAnalysis
from toolyard.yard.compatibility import NeedCheck
from toolyard.yard.skills import FoundSkill, TestedSkill

__all__ = ("show_analysis", "show_found", "show_history", "show_list", "show_skill", "show_tests")

_STYLES = {"active": "green", "draft": "yellow", "quarantined": "red"}
_JUDGEMENTS = {"exemplary": "green", "kept": "", "removable": "red"}
_STATES = {"fits": "green", "newer": "yellow", "translated": "yellow", "broken": "red", "missing": "red"}


def show_list(skills: Sequence[Skill]) -> None:
    """One line for each."""
    if not skills:
        screen.print(plain("No skills yet. Agents save them with save_skill, people with `toolyard skills save`."))
        return
    table = columns("namespace", "skill", "version", "status", "modified", "description")
    for skill in skills:
        table.add_row(
            plain(skill.namespace),
            plain(skill.name),
            plain(skill.version),
            plain(skill.status, _STYLES[skill.status]),
            _day(skill.modified_at),
            plain(skill.description.partition("\n")[0][:80], "dim"),
        )
    screen.print(table)


def show_found(found: Sequence[FoundSkill]) -> None:
    """What an agent would be told."""
    if not found:
        screen.print(plain("No skill fits."))
    for each in found:
        known = "not used yet" if each.effectiveness is None else f"effectiveness {each.effectiveness:g}"
        status = "" if each.status == "active" else f", {each.status}"
        screen.print(plain(f"{each.name} {each.version} ({known}{status})", "bold"))
        screen.print(plain(f"  {each.signature}"))
        screen.print(plain(f"  {each.description}", "dim"))
        for warning in each.warnings:
            screen.print(plain(f"  warning: {warning}", "yellow"))


def show_skill(skill: Skill, checks: Sequence[NeedCheck]) -> None:
    """All of one skill."""
    screen.print(plain(f"{skill.namespace}/{skill.name} {skill.version}", "bold"))
    table = columns()
    rows = {
        "status": f"{skill.status}. {skill.note}".rstrip(". ") if skill.note else skill.status,
        "description": skill.description,
        "signature": signature_of(skill),
        "form": skill.form,
        "tags": ", ".join(skill.tags),
        "author": skill.author,
        "created": _day(skill.created_at),
        "modified": _day(skill.modified_at),
        "origin": skill.origin,
        "level": skill.level,
        "skills": ", ".join(f"{need.name} {need.version}" for need in skill.skills),
        "digest": skill.digest,
    }
    for key, value in rows.items():
        if value:
            table.add_row(plain(key, "dim"), plain(value))
    screen.print(table)
    if checks:
        needs = columns("tool", "written for", "now", "state")
        for check in checks:
            state = plain(check.state, _STATES[check.state])
            needs.add_row(plain(check.tool), plain(check.need), plain(check.current or "-"), state)
        screen.print(needs)
        for check in checks:
            if check.reason:
                screen.print(plain(f"{check.tool}: {check.reason}", "yellow"))
    for number, example in enumerate(skill.examples, 1):
        calls = 0 if example.trace is None else len(example.trace.calls)
        text = "passed" if example.passed else f"did not pass: {example.problem}"
        screen.print(plain(f"example {number}: {text} ({calls} recorded calls)", "dim"))
    write(f"\n{skill.code}" + ("" if skill.code.endswith("\n") else "\n"))


def show_tests(tested: Sequence[TestedSkill]) -> None:
    """What replaying gave."""
    if not tested:
        screen.print(plain("There is no skill to be tested."))
    for each in tested:
        passed = sum(rehearsal.example.passed for rehearsal in each.rehearsals)
        name = f"{each.skill.namespace}/{each.skill.name} {each.skill.version}"
        if not each.rehearsals:
            screen.print(plain(f"{name}: it has no example", "yellow"))
            continue
        style = "green" if each.passed else "red"
        screen.print(plain(f"{name}: {passed} of {len(each.rehearsals)} examples passed", style))
        for number, rehearsal in enumerate(each.rehearsals, 1):
            if not rehearsal.example.passed:
                screen.print(plain(f"  example {number}: {rehearsal.example.problem}"))


def show_history(versions: Sequence[Skill], records: Sequence[SkillRecord]) -> None:
    """A line for each version, the newest first."""
    used = {record.version: record for record in records}
    table = columns("version", "status", "modified", "author", "uses", "failures", "origin")
    for skill in versions:
        record = used.get(skill.version)
        table.add_row(
            plain(skill.version),
            plain(skill.status, _STYLES[skill.status]),
            _day(skill.modified_at),
            plain(skill.author),
            str(record.uses if record else 0),
            str(record.failures if record else 0),
            plain(skill.origin or "saved", "dim"),
        )
    screen.print(table)


def show_analysis(analysis: SkillAnalysis, *, is_full: bool) -> None:
    """How well skills work."""
    table = columns(
        "skill", "version", "status", "uses", "failures", "seconds", "last used", "effectiveness", "verdict"
    )
    for each in analysis.skills:
        table.add_row(
            plain(f"{each.namespace}/{each.name}"),
            plain(each.version),
            plain(each.status, _STYLES[each.status]),
            str(each.uses),
            str(each.failures),
            f"{each.mean_seconds:.3f}",
            "never" if each.last_used_at is None else _day(each.last_used_at),
            f"{each.effectiveness:.2f}",
            plain({"kept": ""}.get(each.judgement, each.judgement), _JUDGEMENTS[each.judgement]),
        )
    screen.print(table)
    summary = analysis.summary
    screen.print(
        plain(
            f"{summary.skills} skills ({summary.active} active, {summary.drafts} drafts, {summary.quarantined} in"
            f" quarantine), {summary.uses} uses by {summary.executions_share:.0%} of executions,"
            f" {summary.translated} translated calls",
            "dim",
        )
    )
    if not is_full:
        return
    for each in analysis.skills:
        screen.print(plain(f"{each.namespace}/{each.name} {each.version}", "bold"))
        for text in each.details:
            screen.print(plain(f"  {text}"))
    if summary.migrations:
        screen.print(
            plain(
                f"{summary.migrations} migrations, {summary.migrated} done; the difficulty predicted was right in"
                f" {summary.predictions_right} of them."
            )
        )


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)) if at else "-"
