"""Commands that change the shelf: save, approve, share, restore, delete, and `sealyard migrate-skills`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.command import (
    CONFIG,
    JSON,
    KEPT,
    LOCAL,
    YES,
    agrees_to,
    answer,
    load,
    option,
    read_object,
    wants_json,
)
from sealyard.cli.gateway import with_yard
from sealyard.cli.skills.view import skill_data
from sealyard.cli.terminal import count, remark, say, say_unwrapped, visible, warn, write
from sealyard.errors import InvalidRequest, UnknownSkill
from sealyard.skills import migrate_skills as migrate
from sealyard.values.changes import matches
from sealyard.values.skills import MigratedSkill, SavedSkill, SaveSkill, Skill
from sealyard.wording import nearest
from sealyard.yard import Yard

NAMESPACE = click.option(
    "--namespace", metavar="NAME", help="A principal, or `shared`. Without it, the only one that has the skill.", **KEPT
)
_STYLES = {"migrated": "green", "refused": "red", "failed": "red"}


async def find_skill(yard: Yard, name: str, namespace: str | None = None) -> Skill:
    """Return a skill with its examples: the newest version unless `name@version` says another."""
    bare, _, version = name.removeprefix("skills.").partition("@")
    owner = namespace or option("namespace") or await find_owner(yard, bare)
    return await yard.skills.get(owner, bare, version)


async def all_skills(yard: Yard) -> list[Skill]:
    """Return the newest version of every skill, or of those of --namespace."""
    return [each for each in await yard.skills.shelf.list_all() if option("namespace") in (None, each.namespace)]


async def find_owner(yard: Yard, name: str) -> str:
    """Return the only namespace that has a skill of this name. Raises `UnknownSkill` or `InvalidRequest`."""
    known = await yard.store.skills.names()
    owners = [namespace for namespace, each in known if each == name]
    if not owners:
        hint = nearest(name, sorted({each for _, each in known})) or "`sealyard skills list` shows all."
        raise UnknownSkill(f"No skill named {name!r}. {hint}")
    if len(owners) > 1:
        raise InvalidRequest(f"{name!r} is in {', '.join(owners)}. Say which with --namespace.")
    return owners[0]


def read_value(text: str) -> Any:
    """Decode the JSON that an option gives, or return its text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


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
) -> int:
    """Save FILE as a skill, as an agent would. Exit code 1: it is a draft."""
    fields: dict[str, Any] = {"name": name, "description": description, "tags": list(tags)}
    if inputs is not None:
        fields["inputs"] = read_object(inputs, "--inputs")
    if output is not None:
        fields["output"] = read_value(output)
    fields["examples"] = [read_object(each, "--example") for each in examples]
    fields["code"] = _read_code(file)
    try:
        request = msgspec.convert(fields, SaveSkill)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The skill cannot be read: {error}.") from None

    saved = with_yard(
        lambda yard: yard.skills.save(request, principal=LOCAL), doing=f"Checking {name}", with_sandbox=True
    )
    answer({"skill": skill_data(saved.skill), "warnings": saved.warnings}, lambda: show_saved(saved))
    return 0 if saved.skill.status == "active" else 1


def show_saved(saved: SavedSkill) -> None:
    """Print what became of a skill, and its examples that failed."""
    skill = saved.skill
    for warning in saved.warnings:
        warn(warning)
    _show_failed_examples(skill)
    status = "a draft" if skill.status == "draft" else skill.status
    say(f"{skill.name} {skill.version} is {status}. {skill.note}".rstrip())


def _show_failed_examples(skill: Skill) -> None:
    for number, example in enumerate(skill.examples, 1):
        if not example.passed:
            remark(f"example {number}: {example.problem}", "yellow")


@click.command()
@click.argument("name")
@NAMESPACE
@YES
@CONFIG
@JSON
def approve(*, name: str) -> int:
    """Make a draft or an imported skill an active one, after you have read it: NAME@1.2.0.

    Without a version it asks about the newest: somebody may have saved another one since you looked.
    """
    loaded, namespace = load(), None
    if "@" not in name:
        newest = with_yard(lambda yard: find_skill(yard, name), config=loaded, doing="Looking for it")
        if option("yes"):
            raise InvalidRequest(f"Say which version you have read: sealyard skills approve {name}@{newest.version}")
        which = f"{newest.namespace}/{newest.name} {newest.version} by {newest.author}, sha256 {newest.digest[:12]}"
        if not agrees_to(f"Approve {visible(which)}?"):
            return 1
        name, namespace = f"{newest.name}@{newest.version}", newest.namespace

    async def work(yard: Yard) -> Skill:
        skill = await find_skill(yard, name, namespace)
        return await yard.skills.approve(skill.namespace, skill.name, skill.version, principal=LOCAL)

    skill = with_yard(work, config=loaded, doing="Replaying its examples", with_sandbox=True)
    passed = sum(example.passed for example in skill.examples)
    tested = f"{passed} of {count(len(skill.examples), 'example')} passed" if skill.examples else "it has no example"
    _report(skill, f"is active; {tested}")
    if not wants_json():
        _show_failed_examples(skill)
    return 0


@click.command()
@click.argument("name")
@NAMESPACE
@CONFIG
@JSON
def share(*, name: str) -> None:
    """Put the newest active version of a skill where every client finds it."""

    async def work(yard: Yard) -> Skill:
        skill = await find_skill(yard, name)
        return await yard.skills.share(skill.namespace, skill.name, principal=LOCAL)

    _report(with_yard(work), "is there for everybody")


@click.command()
@click.argument("name")
@click.argument("version")
@NAMESPACE
@CONFIG
@JSON
def restore(*, name: str, version: str) -> None:
    """Make an older version of a skill the newest again; those between stay in its history.

    One that was deleted comes back too.
    """

    async def work(yard: Yard) -> Skill:
        owner = option("namespace") or await _last_owner(yard, name)
        return await yard.skills.restore(owner, name, version, principal=LOCAL)

    _report(with_yard(work), f"is what {version} was")


@click.command()
@click.argument("name")
@NAMESPACE
@YES
@CONFIG
@JSON
def delete(*, name: str) -> int:
    """Delete a skill, or one version of it: NAME or NAME@1.2.0."""
    loaded = load()
    version = name.partition("@")[2]

    async def look(yard: Yard) -> tuple[Skill, int, list[str]]:
        skill = await find_skill(yard, name)
        versions = await yard.skills.shelf.table.versions(skill.namespace, skill.name)
        chosen = [each for each in versions if not version or matches(version, each.version)]
        needing = [
            f"{each.namespace}/{each.name}"
            for each in await yard.skills.shelf.list_all()
            if len(chosen) == len(versions) and skill.name in [need.name for need in each.skills]
        ]
        return skill, len(chosen), needing

    skill, versions, needing = with_yard(look, config=loaded)
    place = f"{skill.namespace}/{skill.name}"
    if needing:
        warn(f"{', '.join(needing)} may import {place}.")
    if not agrees_to(f"Delete {count(versions, 'version')} of {place}?"):
        return 1
    gone = with_yard(
        lambda yard: yard.skills.delete(skill.namespace, skill.name, version or None, principal=LOCAL),
        config=loaded,
        doing="Deleting",
    )
    back = f"sealyard skills restore {skill.name} {gone[0].version} --namespace {skill.namespace}"
    done = f"Deleted {count(len(gone), 'version')} of {place}. Back: {back}"
    answer({"deleted": gone}, lambda: say_unwrapped(done))
    return 0


async def _last_owner(yard: Yard, name: str) -> str:
    """Return the only namespace that has or had the skill. Raises as `find_owner` does."""
    known = await yard.store.skills.names()
    if name not in {each for _, each in known} and await yard.store.skills.deleted(LOCAL, name):
        return LOCAL
    return await find_owner(yard, name)


def _read_code(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read as UTF-8 text: {error}.") from None


def _report(skill: Skill, text: str) -> None:
    answer({"skill": skill_data(skill)}, lambda: say(f"{skill.namespace}/{skill.name} {skill.version} {text}."))


# Migration


@click.command("migrate-skills")
@click.option("--tool", required=True, metavar="TOOL", help="The tool that changed, by its full or old name.")
@click.option("--from", "from_version", metavar="VERSION", help="Only skills written for this version, such as 1.0.")
@click.option("--to", "to_version", metavar="VERSION", help="What the tool must be at now, to be sure.")
@click.option("--skill", "names", multiple=True, metavar="NAME", help="Only this skill. Repeatable.")
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    help="The new name of a parameter, or of output.FIELD, where it cannot be inferred. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Rewrite and prove, show the difference, keep nothing.")
@CONFIG
@JSON
def migrate_skills(
    *,
    tool: str,
    from_version: str | None,
    to_version: str | None,
    names: tuple[str, ...],
    renames: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Rewrite skills for a tool that has changed, and prove that they still work.

    Each is rewritten in its syntax tree, then its examples are replayed against their recordings, adapted to the new
    tool. Only if all pass a new version is kept; `sealyard skills restore` goes back. Exit code 0: all were migrated;
    1: one was not.
    """
    for version in (from_version, to_version):
        if version is not None:
            matches(version, "0.0.0")  # raises for what is not a version
    given = _read_renames(renames)

    async def work(yard: Yard) -> list[MigratedSkill]:
        return await migrate(
            yard.skills,
            tool,
            from_version=from_version,
            to_version=to_version,
            names=names,
            renames=given,
            is_dry=dry_run,
        )

    done = with_yard(work, doing="Migrating", with_sandbox=True)
    is_narrowed = bool(names) or from_version is not None
    answer(
        {"dry_run": dry_run, "skills": done},
        lambda: _show_migrations(done, tool, is_dry=dry_run, is_narrowed=is_narrowed),
    )
    return 0 if all(each.outcome == "migrated" for each in done) else 1


def _read_renames(given: Sequence[str]) -> dict[str, str]:
    renames = {}
    for each in given:
        before, equals, after = each.partition("=")
        if not (before and equals and after):
            raise InvalidRequest(f"--rename {each!r} is not OLD=NEW.")
        renames[before] = after
    return renames


def _show_migrations(done: list[MigratedSkill], tool: str, *, is_dry: bool, is_narrowed: bool) -> None:
    if not done:
        which = "No skill that --from and --skill name" if is_narrowed else "No skill"
        say(f"{which} needs another version of {tool} than the one that is there.")
    for each in done:
        way = f"{each.tool} {each.tool_from} -> {each.tool_to}"
        kept = f"now {each.to_version}" if each.to_version else ("would be migrated" if is_dry else each.outcome)
        outcome = kept if each.outcome == "migrated" else each.outcome
        say(f"{each.namespace}/{each.name} {each.from_version}: {outcome}", _STYLES[each.outcome])
        say(f"  {way}; predicted: {each.predicted}", "dim")
        if each.reason:
            say(f"  {each.reason}")
        if each.diff:
            write(each.diff if each.diff.endswith("\n") else f"{each.diff}\n")
        if each.outcome == "migrated":
            text = f"  proven by {count(each.examples, 'example')}"
            back = f"sealyard skills restore {each.name} {each.from_version} --namespace {each.namespace}"
            say_unwrapped(f"{text}; back: {back}" if each.to_version else text, "dim")
    if any(each.outcome == "refused" for each in done):
        say("If something only got another name, say which: --rename OLD=NEW.")
    if done and is_dry:
        say("Nothing was kept: this was a dry run.")
