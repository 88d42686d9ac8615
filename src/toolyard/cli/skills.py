"""`toolyard skills`: what agents have saved, as people look after it."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from toolyard.cli.skills_files import export, import_, market
from toolyard.cli.skills_view import show_analysis, show_found, show_history, show_list, show_skill, show_tests
from toolyard.cli.skills_yard import (
    CONFIG,
    JSON,
    NAMESPACE,
    all_skills,
    find_owner,
    find_skill,
    load,
    print_json,
    with_yard,
)
from toolyard.cli.terminal import errors, plain, screen, write
from toolyard.config import Config
from toolyard.errors import InvalidRequest
from toolyard.skills.record import parse_duration
from toolyard.values import SHARED, Skill
from toolyard.yard import ExecuteRequest, Yard
from toolyard.yard.skills import SaveSkill

__all__ = ("skills",)

_YES = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group(invoke_without_command=True)
@click.option("--analyze", is_flag=True, help="Show how well each skill works: uses, failures, effectiveness.")
@click.option("--detail", type=click.Choice(["short", "full"]), default="short", help="How much --analyze shows.")
@click.option("--cleanup", is_flag=True, help="Show the skills that nobody uses, and delete them when you say so.")
@click.option(
    "--unused-threshold", default="30days", show_default=True, metavar="TIME", help="Unused for so long: 30days, 12h."
)
@_YES
@CONFIG
@JSON
@click.pass_context
def skills(
    ctx: click.Context,
    *,
    analyze: bool,
    detail: str,
    cleanup: bool,
    unused_threshold: str,
    yes: bool,
    config: Path | None,
    as_json: bool,
) -> int | None:
    """Look after the skills that agents have saved."""
    if ctx.invoked_subcommand is not None:
        if analyze or cleanup:
            raise click.UsageError(f"--analyze and --cleanup stand alone. Leave out {ctx.invoked_subcommand!r}.")
        return None
    if analyze and cleanup:
        raise click.UsageError("Give --analyze or --cleanup, not both.")
    if cleanup:
        return _cleanup(load(config), parse_duration(unused_threshold), yes=yes, as_json=as_json)
    if analyze:
        return _analyze(load(config), is_full=detail == "full", as_json=as_json)
    screen.print(ctx.get_help())
    return 0


@skills.command("list")
@click.argument("query", required=False, default="")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 50), help="At most so many for QUERY.")
@NAMESPACE
@CONFIG
@JSON
def list_skills(*, query: str, limit: int, namespace: str | None, config: Path | None, as_json: bool) -> int:
    """List skills, or find those that fit QUERY as an agent would."""

    async def work(yard: Yard) -> Any:
        if query:
            return await yard.skills.find(query, limit=limit, principal=namespace or "local")
        return [each for each in await yard.skills.shelf.list_all() if namespace in (None, each.namespace)]

    found = with_yard(config, work)
    if as_json:
        print_json({"skills": found})
    elif query:
        show_found(found)
    else:
        show_list(found)
    return 0


@skills.command("show")
@click.argument("name")
@NAMESPACE
@CONFIG
@JSON
def show_one(*, name: str, namespace: str | None, config: Path | None, as_json: bool) -> int:
    """Show a skill: its source, its examples, what it needs and whether that is still so. NAME or NAME@1.2."""

    async def work(yard: Yard) -> Any:
        skill = await find_skill(yard, name, namespace)
        return skill, await yard.skills.compatibility.check(skill, await yard.snapshot())

    skill, checks = with_yard(config, work)
    if as_json:
        told = [{key: getattr(check, key) for key in _CHECK_KEYS} for check in checks]
        print_json({"skill": skill, "needs": told})
    else:
        show_skill(skill, checks)
    return 0


_CHECK_KEYS = ("tool", "need", "current", "now", "state", "difficulty", "reason")


@skills.command("run")
@click.argument("name")
@click.option("--inputs", metavar="JSON", help="A JSON object of the inputs.")
@click.option("-i", "--input", "one", multiple=True, metavar="NAME=VALUE", help="One input; JSON or text. Repeatable.")
@NAMESPACE
@CONFIG
@JSON
def run_skill(
    *, name: str, inputs: str | None, one: tuple[str, ...], namespace: str | None, config: Path | None, as_json: bool
) -> int:
    """Run a skill in the sandbox with real tools. NAME or NAME@1.2. Exit code 1: it failed."""
    given = _read_inputs(inputs, one)
    code = f"import skills\n\nresult = await skills.load({name!r})(**inputs)\n"

    async def work(yard: Yard) -> Any:
        principal = "local" if namespace in (None, SHARED) else namespace
        request = ExecuteRequest(code=code, context={"inputs": given})
        return await yard.execute(request, principal=principal)

    result = with_yard(config, work, with_sandbox=True)
    if as_json:
        print_json(result.outcome)
    else:
        write(result.text + "\n")
    return 1 if result.is_error else 0


@skills.command("test")
@click.argument("name", required=False)
@NAMESPACE
@CONFIG
@JSON
def test_skills(*, name: str | None, namespace: str | None, config: Path | None, as_json: bool) -> int:
    """Replay the examples of a skill, or of all, with recorded answers: no server is asked.

    Exit code 0: all passed; 1: one did not, or a skill has none.
    """

    async def work(yard: Yard) -> Any:
        chosen = [await find_skill(yard, name, namespace)] if name else await all_skills(yard, namespace)
        return [await yard.skills.test(each.namespace, each.name, each.version, principal="local") for each in chosen]

    tested = with_yard(config, work, with_sandbox=True)
    if as_json:
        print_json({"skills": [_tested(each) for each in tested]})
    else:
        show_tests(tested)
    return 0 if all(each.passed for each in tested) else 1


@skills.command("history")
@click.argument("name")
@NAMESPACE
@CONFIG
@JSON
def history(*, name: str, namespace: str | None, config: Path | None, as_json: bool) -> int:
    """List every version of a skill, who made it and where it came from."""

    async def work(yard: Yard) -> Any:
        newest = await find_skill(yard, name, namespace)
        versions = await yard.skills.shelf.history(newest.namespace, newest.name)
        records = await yard.store.skills.uses()
        return versions, [each for each in records if (each.namespace, each.name) == (newest.namespace, newest.name)]

    versions, records = with_yard(config, work)
    if as_json:
        print_json({"versions": versions, "uses": records})
    else:
        show_history(versions, records)
    return 0


@skills.command("save")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--description", required=True, metavar="TEXT", help="What it does and when to use it.")
@click.option("--inputs", metavar="JSON", help="Types of the inputs, for a script. Those of a function are read.")
@click.option("--example", "examples", multiple=True, metavar="JSON", help='{"inputs": …, "output": …}. Repeatable.')
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Repeatable.")
@CONFIG
@JSON
def save(
    *,
    name: str,
    file: Path,
    description: str,
    inputs: str | None,
    examples: tuple[str, ...],
    tags: tuple[str, ...],
    config: Path | None,
    as_json: bool,
) -> int:
    """Save FILE as a skill, as an agent would. Exit code 1: it is a draft."""
    request = _read_request(name, file, description, inputs, examples, tags)

    async def work(yard: Yard) -> Any:
        return await yard.skills.save(request, principal="local")

    saved = with_yard(config, work, with_sandbox=True)
    skill = saved.skill
    if as_json:
        print_json({"skill": skill, "warnings": saved.warnings})
    else:
        for warning in saved.warnings:
            errors.print(plain(f"warning: {warning}", "yellow"))
        for number, example in enumerate(skill.examples, 1):
            if not example.passed:
                errors.print(plain(f"example {number}: {example.problem}", "yellow"))
        screen.print(plain(f"{skill.name} {skill.version} is {skill.status}. {skill.note}".rstrip()))
    return 0 if skill.status == "active" else 1


@skills.command("approve")
@click.argument("name")
@NAMESPACE
@CONFIG
def approve(*, name: str, namespace: str | None, config: Path | None) -> int:
    """Make a draft or an imported skill an active one, after you have read it: NAME or NAME@1.2."""

    async def work(yard: Yard) -> Skill:
        skill = await find_skill(yard, name, namespace)
        return await yard.skills.approve(skill.namespace, skill.name, skill.version, principal="local")

    skill = with_yard(config, work, with_sandbox=True)
    passed = sum(example.passed for example in skill.examples)
    told = f"{passed} of {len(skill.examples)} examples pass" if skill.examples else "it has no example"
    screen.print(plain(f"{skill.namespace}/{skill.name} {skill.version} is active; {told}."))
    return 0


@skills.command("share")
@click.argument("name")
@NAMESPACE
@CONFIG
def share(*, name: str, namespace: str | None, config: Path | None) -> int:
    """Put the newest active version of a skill where every client finds it."""

    async def work(yard: Yard) -> Skill:
        skill = await find_skill(yard, name, namespace)
        return await yard.skills.share(skill.namespace, skill.name, principal="local")

    skill = with_yard(config, work)
    screen.print(plain(f"{skill.namespace}/{skill.name} {skill.version} is shared."))
    return 0


@skills.command("restore")
@click.argument("name")
@click.argument("version")
@NAMESPACE
@CONFIG
def restore(*, name: str, version: str, namespace: str | None, config: Path | None) -> int:
    """Make an older version of a skill the newest again; those between stay in its history."""

    async def work(yard: Yard) -> Skill:
        owner = namespace or await find_owner(yard, name)
        return await yard.skills.restore(owner, name, version, principal="local")

    skill = with_yard(config, work)
    screen.print(plain(f"{skill.namespace}/{skill.name} {skill.version} is what {version} was."))
    return 0


@skills.command("delete")
@click.argument("name")
@NAMESPACE
@_YES
@CONFIG
def delete(*, name: str, namespace: str | None, yes: bool, config: Path | None) -> int:
    """Delete a skill, or one version of it: NAME or NAME@1.2.0."""
    bare, _, version = name.partition("@")
    if not yes and not click.confirm(f"Delete {name}?", err=True):
        return 1

    async def work(yard: Yard) -> list[Skill]:
        skill = await find_skill(yard, bare, namespace)
        return await yard.skills.delete(skill.namespace, bare, version or None, principal="local")

    gone = with_yard(config, work)
    screen.print(plain(f"Deleted {len(gone)} version{'s' if len(gone) > 1 else ''} of {bare}."))
    return 0


for _command in (export, import_, market):
    skills.add_command(_command)


def _analyze(config: Config, *, is_full: bool, as_json: bool) -> int:
    async def work(yard: Yard) -> Any:
        return await yard.skills.analysis()

    analysis = with_yard(config, work)
    if as_json:
        print_json(analysis)
    else:
        show_analysis(analysis, is_full=is_full)
    return 0


def _cleanup(config: Config, seconds: float, *, yes: bool, as_json: bool) -> int:
    async def look(yard: Yard) -> Any:
        return await yard.skills.unused(time.time() - seconds)

    unused = with_yard(config, look)
    if as_json and not yes:
        print_json({"unused": unused})
        return 0
    if not unused:
        screen.print(plain("Every skill was used, or saved, since then."))
        return 0
    if not as_json:
        show_list(unused)
    if not yes and not click.confirm(f"Delete these {len(unused)} skills?", err=True):
        return 1

    async def work(yard: Yard) -> None:
        for skill in unused:
            await yard.skills.delete(skill.namespace, skill.name, None, principal="local")

    with_yard(config, work)
    if as_json:
        print_json({"deleted": unused})
    else:
        screen.print(plain(f"Deleted {len(unused)} skills. `toolyard skills restore` brings one back."))
    return 0


def _read_inputs(whole: str | None, one: tuple[str, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if whole is not None:
        given = _read_object(whole, "--inputs")
    for each in one:
        key, equals, value = each.partition("=")
        if not equals or not key.isidentifier():
            raise InvalidRequest(f"-i {each!r} is not NAME=VALUE.")
        try:
            given[key] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            given[key] = value
    return given


def _read_object(text: str, option: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{option} is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f'{option} must be a JSON object, such as {{"since": "2024-10-01"}}.')
    return found


def _read_request(
    name: str, file: Path, description: str, inputs: str | None, examples: tuple[str, ...], tags: tuple[str, ...]
) -> SaveSkill:
    try:
        code = file.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read as UTF-8 text: {error}.") from None
    told: dict[str, Any] = {"name": name, "code": code, "description": description, "tags": list(tags)}
    if inputs is not None:
        told["inputs"] = _read_object(inputs, "--inputs")
    told["examples"] = [_read_object(each, "--example") for each in examples]
    try:
        return msgspec.convert(told, SaveSkill)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The skill cannot be read: {error}.") from None


def _tested(tested: Any) -> dict[str, Any]:
    return {
        "namespace": tested.skill.namespace,
        "name": tested.skill.name,
        "version": tested.skill.version,
        "passed": tested.passed,
        "examples": [{"passed": each.example.passed, "problem": each.example.problem} for each in tested.rehearsals],
    }
