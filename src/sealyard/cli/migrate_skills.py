"""`sealyard migrate-skills`: skills rewritten for a tool that has changed, and proven before they are kept."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import errors, plain, screen, write
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest
from sealyard.skills import migrate_skills as migrate
from sealyard.skills.migration import MigratedSkill
from sealyard.versioning.compare import matches
from sealyard.yard import open_yard

_STYLES = {"migrated": "green", "refused": "red", "failed": "red"}


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
    help="What became of a parameter, or of output.FIELD, where that cannot be told for sure. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Rewrite and prove, show the difference, keep nothing.")
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
def migrate_skills(
    *,
    tool: str,
    from_version: str | None,
    to_version: str | None,
    names: tuple[str, ...],
    renames: tuple[str, ...],
    dry_run: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Rewrite skills for a tool that has changed, and prove that they still work.

    Each is rewritten in its syntax tree, then its examples are replayed against their recordings, adapted to the new
    tool. Only if all pass a new version is kept; `sealyard skills restore` goes back. Exit code 0: all were migrated;
    1: one was not.
    """
    for version in (from_version, to_version):
        if version is not None:
            matches(version, "0.0.0")  # raises for what is no version
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    with errors.status("Migrating"):
        done = run_to_end(
            _migrate(loaded, tool, from_version, to_version, names, _read_renames(renames), is_dry=dry_run)
        )
    if as_json:
        write(msgspec.json.encode({"dry_run": dry_run, "skills": done}).decode() + "\n")
    else:
        _show(done, tool, is_dry=dry_run, is_narrowed=bool(names) or from_version is not None)
    return 0 if all(each.outcome == "migrated" for each in done) else 1


async def _migrate(
    config: Config,
    tool: str,
    from_version: str | None,
    to_version: str | None,
    names: tuple[str, ...],
    renames: dict[str, str],
    *,
    is_dry: bool,
) -> list[MigratedSkill]:
    async with open_yard(config) as yard:
        return await migrate(
            yard.skills,
            tool,
            from_version=from_version,
            to_version=to_version,
            names=names,
            renames=renames,
            is_dry=is_dry,
        )


def _read_renames(given: Sequence[str]) -> dict[str, str]:
    renames = {}
    for each in given:
        before, equals, after = each.partition("=")
        if not (before and equals and after):
            raise InvalidRequest(f"--rename {each!r} is not OLD=NEW.")
        renames[before] = after
    return renames


def _show(done: list[MigratedSkill], tool: str, *, is_dry: bool, is_narrowed: bool) -> None:
    if not done:
        which = "No skill that --from and --skill name" if is_narrowed else "No skill"
        screen.print(plain(f"{which} needs another version of {tool} than the one that is there."))
    for each in done:
        way = f"{each.tool} {each.tool_from} -> {each.tool_to}"
        kept = f"now {each.to_version}" if each.to_version else ("would be migrated" if is_dry else each.outcome)
        outcome = kept if each.outcome == "migrated" else each.outcome
        screen.print(plain(f"{each.namespace}/{each.name} {each.from_version}: {outcome}", _STYLES[each.outcome]))
        screen.print(plain(f"  {way}; predicted: {each.predicted}", "dim"))
        if each.reason:
            screen.print(plain(f"  {each.reason}"))
        if each.diff:
            write(each.diff if each.diff.endswith("\n") else f"{each.diff}\n")
        if each.outcome == "migrated":
            text = f"  proven by {each.examples} example{'s' if each.examples != 1 else ''}"
            back = f"sealyard skills restore {each.name} {each.from_version} --namespace {each.namespace}"
            screen.print(plain(f"{text}; back: {back}" if each.to_version else text, "dim"), soft_wrap=True)
    if any(each.outcome == "refused" for each in done):
        screen.print(plain("If something only got another name, say which: --rename OLD=NEW."))
    if done and is_dry:
        screen.print(plain("Nothing was kept: this was a dry run."))
