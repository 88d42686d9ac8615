"""`sealyard skills` and `sealyard migrate-skills`: look after the skills that agents have saved."""

import re
import secrets
import time
from typing import Any

import click

from sealyard.cli.approvals import answered_here
from sealyard.cli.command import CONFIG, JSON, LOCAL, YES, agrees_to, answer, load, option, read_object, wants_json
from sealyard.cli.gateway import with_yard
from sealyard.cli.skills.files import export, import_, market
from sealyard.cli.skills.shelf import (
    NAMESPACE,
    all_skills,
    approve,
    delete,
    find_owner,
    find_skill,
    migrate_skills,
    read_value,
    restore,
    save,
    share,
)
from sealyard.cli.skills.view import (
    show_analysis,
    show_found,
    show_history,
    show_list,
    show_skill,
    show_tests,
    skill_data,
)
from sealyard.cli.terminal import count, errors, say, write, write_json
from sealyard.config import Config
from sealyard.errors import InvalidRequest
from sealyard.learning import Learner
from sealyard.skills import NeedCheck
from sealyard.values.runs import Result
from sealyard.values.skills import (
    SHARED,
    FoundSkill,
    Skill,
    SkillAnalysis,
    SkillCandidate,
    SkillRecord,
    TestedSkill,
    principal_of,
)
from sealyard.yard import ExecuteRequest, Yard

__all__ = ("migrate_skills", "skills")

_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400.0),
    **dict.fromkeys(("month", "months"), 30 * 86_400.0),
    **dict.fromkeys(("y", "year", "years"), 365 * 86_400.0),
}


@click.group(invoke_without_command=True)
@click.option("--analyze", is_flag=True, help="Show how well each skill works, and code worth saving.")
@click.option("--detail", type=click.Choice(["short", "full"]), default="short", help="How much --analyze shows.")
@click.option("--cleanup", is_flag=True, help="Show the skills that nobody uses, and delete them when you say so.")
@click.option(
    "--unused-threshold", default="30days", show_default=True, metavar="TIME", help="Unused for this time: 30days, 12h."
)
@YES
@CONFIG
@JSON
@click.pass_context
def skills(ctx: click.Context, *, analyze: bool, detail: str, cleanup: bool, unused_threshold: str) -> int | None:
    """Look after the skills that agents have saved."""
    if ctx.invoked_subcommand is not None:
        if analyze or cleanup:
            raise click.UsageError(f"--analyze and --cleanup stand alone. Leave out {ctx.invoked_subcommand!r}.")
        return None
    if analyze and cleanup:
        raise click.UsageError("Give --analyze or --cleanup, not both.")
    if cleanup:
        return _cleanup(load(), _parse_duration(unused_threshold))
    if analyze:
        loaded = load()

        async def work(yard: Yard) -> SkillAnalysis:
            return await yard.skills.analyze(await _candidates(yard, loaded))

        analysis = with_yard(work, config=loaded)
        answer(analysis, lambda: show_analysis(analysis, is_full=detail == "full"))
    else:
        write(f"{ctx.get_help()}\n")
    return 0


for _command in (save, approve, share, restore, delete, export, import_, market):
    skills.add_command(_command)


@skills.command("list")
@click.argument("query", required=False, default="")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 50), help="The most skills for QUERY.")
@NAMESPACE
@CONFIG
@JSON
def list_skills(*, query: str, limit: int) -> None:
    """List skills, or find those that fit QUERY as an agent would."""
    if query:
        _search(query, limit)
    else:
        found = with_yard(all_skills)
        answer({"skills": found}, lambda: show_list(found))


@skills.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 50), help="How many skills at most.")
@NAMESPACE
@CONFIG
@JSON
def search_skills(*, query: tuple[str, ...], limit: int) -> int:
    """Find skills by what you want to do, as find_skills does for an agent.

    Exit code 0: something was found; 1: nothing was.
    """
    return 0 if _search(" ".join(query), limit) else 1


def _search(query: str, limit: int) -> list[FoundSkill]:
    """Find skills as a principal, print them, and return them."""
    principal = option("namespace") or LOCAL
    hits = with_yard(lambda yard: yard.skills.find(query, limit=limit, principal=principal))
    answer({"skills": hits}, lambda: show_found(hits))
    return hits


@skills.command("show")
@click.argument("name")
@NAMESPACE
@CONFIG
@JSON
def show_one(*, name: str) -> None:
    """Show a skill: its source, its examples, what it needs and whether that is still so. NAME or NAME@1.2."""

    async def work(yard: Yard) -> tuple[Skill, tuple[NeedCheck, ...]]:
        skill = await find_skill(yard, name)
        return skill, await yard.skills.compatibility.check(skill, await yard.snapshot())

    skill, checks = with_yard(work)
    needs = [{key: getattr(check, key) for key in _CHECK_KEYS} for check in checks]
    answer({"skill": skill_data(skill), "needs": needs}, lambda: show_skill(skill, checks))


_CHECK_KEYS = ("tool", "need", "current", "now", "state", "difficulty", "reason")


@skills.command("run")
@click.argument("name")
@click.option("--inputs", metavar="JSON", help="A JSON object of the inputs.")
@click.option("-i", "--input", "one", multiple=True, metavar="NAME=VALUE", help="One input; JSON or text. Repeatable.")
@NAMESPACE
@CONFIG
@JSON
def run_skill(*, name: str, inputs: str | None, one: tuple[str, ...]) -> int:
    """Run a skill in the sandbox with real tools. NAME or NAME@1.2. Exit code 1: it failed."""
    given = _read_inputs(inputs, one)
    code = f"import skills\n\nresult = await skills.load({name!r})(**inputs)\n"

    async def work(yard: Yard) -> Result:
        principal = await _find_user(yard, name)
        request, execution_id = ExecuteRequest(code=code, context={"inputs": given}), secrets.token_hex(8)
        with answered_here(yard.approvals, execution_id, status):
            return await yard.execute(request, principal=principal, execution_id=execution_id)

    status = errors.status(f"Running {name}")
    result = with_yard(work, doing=status, with_sandbox=True)
    answer(result.outcome.to_json(), lambda: write(result.text + "\n"))
    return 1 if result.is_error else 0


@skills.command("test")
@click.argument("name", required=False)
@NAMESPACE
@CONFIG
@JSON
def test_skills(*, name: str | None) -> int:
    """Replay the examples of a skill, or of all, with recorded answers: no server is asked.

    Exit code 0: all passed; 1: one did not, or a skill has none.
    """

    async def work(yard: Yard) -> list[TestedSkill]:
        usable = [each for each in await all_skills(yard) if each.status != "quarantined"]
        chosen = [await find_skill(yard, name)] if name else usable
        return [await yard.skills.test(each.namespace, each.name, each.version, principal=LOCAL) for each in chosen]

    tested = with_yard(work, doing="Replaying examples", with_sandbox=True)
    answer({"skills": [_tested(each) for each in tested]}, lambda: show_tests(tested))
    return 0 if all(each.passed for each in tested) else 1


@skills.command("history")
@click.argument("name")
@NAMESPACE
@CONFIG
@JSON
def history(*, name: str) -> None:
    """List every version of a skill, who made it and where it came from."""

    async def work(yard: Yard) -> tuple[list[Skill], list[SkillRecord]]:
        newest = await find_skill(yard, name)
        versions = await yard.skills.shelf.table.versions(newest.namespace, newest.name)
        records = await yard.store.skills.uses()
        return versions, [each for each in records if (each.namespace, each.name) == (newest.namespace, newest.name)]

    versions, records = with_yard(work)
    answer({"versions": versions, "uses": records}, lambda: show_history(versions, records))


async def _candidates(yard: Yard, config: Config) -> list[SkillCandidate]:
    """Return code that is worth saving, as far as learning has found any."""
    if not config.learning.enabled:
        return []
    learner = Learner(yard.store, config.learning)
    await learner.once()
    return [
        SkillCandidate(**{field: getattr(each, field) for field in SkillCandidate.__struct_fields__})
        for each in learner.candidates()
    ]


def _cleanup(config: Config, seconds: float) -> int:
    unused = with_yard(lambda yard: yard.skills.unused(time.time() - seconds), config=config)
    if wants_json() and not option("yes"):
        write_json({"unused": unused})
        return 0
    if not wants_json():
        if not unused:
            say("Every skill was used, or saved, since then.")
            return 0
        show_list(unused)
    if not agrees_to(f"Delete {count(len(unused), 'skill')}?"):
        return 1

    async def work(yard: Yard) -> None:
        for skill in unused:
            await yard.skills.delete(skill.namespace, skill.name, None, principal=LOCAL)

    if unused:
        with_yard(work, config=config, doing="Deleting")
    done = f"Deleted {count(len(unused), 'skill')}. Back: sealyard skills restore NAME VERSION --namespace NAME"
    answer({"deleted": unused}, lambda: say(done))
    return 0


def _parse_duration(text: str) -> float:
    """Parse a duration such as `30days`, `30d`, `12h` or `2 weeks` into seconds.

    Raises:
        InvalidRequest: It is not a duration.
    """
    found = _DURATION.fullmatch(text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise InvalidRequest(f"{text[:80]!r} is not a duration. Write it as 30days, 12h or '2 weeks'.")
    return float(found[1]) * unit


async def _find_user(yard: Yard, name: str) -> str:
    """Return the principal whose code gets the skill. Raises `UnknownSkill` or `InvalidRequest`."""
    bare = name.removeprefix("skills.").partition("@")[0]
    owner = option("namespace") or await find_owner(yard, bare)
    if owner != SHARED:
        return principal_of(owner)
    if (LOCAL, bare) in await yard.store.skills.names():
        raise InvalidRequest(f"'local' has a skill {bare!r} too, which goes before the shared one. Delete it first.")
    return LOCAL


def _read_inputs(whole: str | None, one: tuple[str, ...]) -> dict[str, Any]:
    given = {} if whole is None else read_object(whole, "--inputs")
    for each in one:
        key, equals, value = each.partition("=")
        if not equals or not key.isidentifier():
            raise InvalidRequest(f"-i {each!r} is not NAME=VALUE.")
        given[key] = read_value(value)
    return given


def _tested(tested: TestedSkill) -> dict[str, Any]:
    return {
        **{key: getattr(tested.skill, key) for key in ("namespace", "name", "version")},
        "passed": tested.passed,
        "examples": [{"passed": each.example.passed, "problem": each.example.problem} for each in tested.rehearsals],
    }
