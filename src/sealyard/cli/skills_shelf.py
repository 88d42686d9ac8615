"""`sealyard skills save|approve|share|restore|delete`: what lies on the shelf, as people change it."""

from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.skills_view import count
from sealyard.cli.skills_yard import (
    CONFIG,
    JSON,
    NAMESPACE,
    YES,
    find_owner,
    find_skill,
    load,
    print_json,
    read_object,
    read_value,
    skill_data,
    with_yard,
)
from sealyard.cli.terminal import errors, plain, screen, visible
from sealyard.errors import InvalidRequest
from sealyard.skills import SaveSkill
from sealyard.skills.requests import SavedSkill
from sealyard.values import Skill
from sealyard.versioning.compare import matches
from sealyard.yard import Yard


@click.command()
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--description", required=True, metavar="TEXT", help="What it does and when to use it.")
@click.option("--inputs", metavar="JSON", help="Types of the inputs, for a script. Those of a function are read.")
@click.option("--output", metavar="TYPE", help="Type of its value, or a JSON Schema, where the code does not say it.")
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
    output: str | None,
    examples: tuple[str, ...],
    tags: tuple[str, ...],
    config: Path | None,
    as_json: bool,
) -> int:
    """Save FILE as a skill, as an agent would. Exit code 1: it is a draft."""
    told: dict[str, Any] = {"name": name, "description": description, "tags": list(tags)}
    if inputs is not None:
        told["inputs"] = read_object(inputs, "--inputs")
    if output is not None:
        told["output"] = read_value(output)
    told["examples"] = [read_object(each, "--example") for each in examples]
    told["code"] = _read_code(file)
    request = _to_request(told)

    async def work(yard: Yard) -> SavedSkill:
        return await yard.skills.save(request, principal="local")

    saved = with_yard(config, work, doing=f"Checking {name}", with_sandbox=True)
    skill = saved.skill
    if as_json:
        print_json({"skill": skill_data(skill), "warnings": saved.warnings})
    else:
        for warning in saved.warnings:
            errors.print(plain(f"warning: {warning}", "yellow"))
        for number, example in enumerate(skill.examples, 1):
            if not example.passed:
                errors.print(plain(f"example {number}: {example.problem}", "yellow"))
        screen.print(plain(f"{skill.name} {skill.version} is {_a(skill)}. {skill.note}".rstrip()))
    return 0 if skill.status == "active" else 1


@click.command()
@click.argument("name")
@NAMESPACE
@YES
@CONFIG
@JSON
def approve(*, name: str, namespace: str | None, yes: bool, config: Path | None, as_json: bool) -> int:
    """Make a draft or an imported skill an active one, after you have read it: NAME@1.2.0.

    Without a version it asks about the newest: somebody may have saved another one since you looked.
    """
    loaded = load(config)
    if "@" not in name:
        newest = with_yard(loaded, lambda yard: find_skill(yard, name, namespace), doing="Looking for it")
        if yes:
            raise InvalidRequest(f"Say which version you have read: sealyard skills approve {name}@{newest.version}")
        told = f"{newest.namespace}/{newest.name} {newest.version} by {newest.author}, sha256 {newest.digest[:12]}"
        if not click.confirm(f"Approve {visible(told)}?", err=True):
            return 1
        name, namespace = f"{newest.name}@{newest.version}", newest.namespace

    async def work(yard: Yard) -> Skill:
        skill = await find_skill(yard, name, namespace)
        return await yard.skills.approve(skill.namespace, skill.name, skill.version, principal="local")

    skill = with_yard(loaded, work, doing="Replaying its examples", with_sandbox=True)
    passed = sum(example.passed for example in skill.examples)
    told = f"{passed} of {count(len(skill.examples), 'example')} passed" if skill.examples else "it has no example"
    _tell(skill, f"is active; {told}", as_json=as_json)
    for number, example in enumerate(skill.examples, 1):
        if not example.passed and not as_json:
            errors.print(plain(f"example {number}: {example.problem}", "yellow"))
    return 0


@click.command()
@click.argument("name")
@NAMESPACE
@CONFIG
@JSON
def share(*, name: str, namespace: str | None, config: Path | None, as_json: bool) -> int:
    """Put the newest active version of a skill where every client finds it."""

    async def work(yard: Yard) -> Skill:
        skill = await find_skill(yard, name, namespace)
        return await yard.skills.share(skill.namespace, skill.name, principal="local")

    _tell(with_yard(config, work), "is there for everybody", as_json=as_json)
    return 0


@click.command()
@click.argument("name")
@click.argument("version")
@NAMESPACE
@CONFIG
@JSON
def restore(*, name: str, version: str, namespace: str | None, config: Path | None, as_json: bool) -> int:
    """Make an older version of a skill the newest again; those between stay in its history.

    One that was deleted comes back too.
    """

    async def work(yard: Yard) -> Skill:
        owner = namespace or await _last_owner(yard, name)
        return await yard.skills.restore(owner, name, version, principal="local")

    _tell(with_yard(config, work), f"is what {version} was", as_json=as_json)
    return 0


@click.command()
@click.argument("name")
@NAMESPACE
@YES
@CONFIG
@JSON
def delete(*, name: str, namespace: str | None, yes: bool, config: Path | None, as_json: bool) -> int:
    """Delete a skill, or one version of it: NAME or NAME@1.2.0."""
    loaded = load(config)
    version = name.partition("@")[2]

    async def look(yard: Yard) -> tuple[Skill, int, list[str]]:
        skill = await find_skill(yard, name, namespace)
        versions = await yard.skills.shelf.table.versions(skill.namespace, skill.name)
        chosen = [each for each in versions if not version or matches(version, each.version)]
        needing = [
            f"{each.namespace}/{each.name}"
            for each in await yard.skills.shelf.list_all()
            if len(chosen) == len(versions) and skill.name in [need.name for need in each.skills]
        ]
        return skill, len(chosen), needing

    skill, versions, needing = with_yard(loaded, look)
    place = f"{skill.namespace}/{skill.name}"
    if needing:
        errors.print(plain(f"warning: {', '.join(needing)} may import {place}.", "yellow"))
    if not yes and not click.confirm(f"Delete {count(versions, 'version')} of {place}?", err=True):
        return 1

    async def work(yard: Yard) -> list[Skill]:
        return await yard.skills.delete(skill.namespace, skill.name, version or None, principal="local")

    gone = with_yard(loaded, work, doing="Deleting")
    if as_json:
        print_json({"deleted": gone})
    else:
        back = f"sealyard skills restore {skill.name} {gone[0].version} --namespace {skill.namespace}"
        screen.print(plain(f"Deleted {count(len(gone), 'version')} of {place}. Back: {back}"), soft_wrap=True)
    return 0


async def _last_owner(yard: Yard, name: str) -> str:
    """Whose the skill is or was, if that is one only. Raises as `find_owner` does."""
    known = await yard.store.skills.names()
    if name not in {each for _, each in known} and await yard.store.skills.deleted("local", name):
        return "local"
    return await find_owner(yard, name)


def _read_code(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read as UTF-8 text: {error}.") from None


def _to_request(told: dict[str, Any]) -> SaveSkill:
    try:
        return msgspec.convert(told, SaveSkill)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The skill cannot be read: {error}.") from None


def _tell(skill: Skill, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"skill": skill_data(skill)})
    else:
        screen.print(plain(f"{skill.namespace}/{skill.name} {skill.version} {text}."))


def _a(skill: Skill) -> str:
    return "a draft" if skill.status == "draft" else skill.status
