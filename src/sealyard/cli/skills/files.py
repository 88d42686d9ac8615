"""`sealyard skills export|import|market`: skills as folders and archives that other programs read too."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.command import CONFIG, JSON, LOCAL, answer, load, wants_json
from sealyard.cli.gateway import with_yard
from sealyard.cli.skills.shelf import NAMESPACE, all_skills, find_skill
from sealyard.cli.skills.view import skill_data
from sealyard.cli.terminal import plain, say, say_unwrapped, warn
from sealyard.config import Config
from sealyard.discovery import Index
from sealyard.errors import InvalidRequest, InvalidSkill
from sealyard.skills import signature_of
from sealyard.skills.sharing import (
    Market,
    SigningKey,
    load_folder,
    read_archive,
    read_folder,
    to_folder,
    write_archive,
    write_folders,
)
from sealyard.values.access import AuditEntry
from sealyard.values.skills import ImportedSkill, MarketEntry, SavedSkill, SaveSkill, Skill, SkillSource
from sealyard.values.tools import ToolSpec
from sealyard.wording import one_line
from sealyard.yard import Yard

_CHARACTERS = 300
"""Of a description: about four lines of a terminal."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="A folder, or a FILE.zip.")
@click.option("--all", "everything", is_flag=True, help="Every active skill instead of named ones.")
@click.option("--replace", is_flag=True, help="Write over what is there.")
@click.option("--unsigned", is_flag=True, help="Do not sign the archive.")
@NAMESPACE
@CONFIG
@JSON
def export(*, names: tuple[str, ...], target: Path, everything: bool, replace: bool, unsigned: bool) -> None:
    """Write skills as Agent Skills folders, or into one signed archive: NAME or NAME@1.2."""
    if bool(names) == everything:
        raise click.UsageError("Name the skills, or give --all.")
    loaded = load()

    async def work(yard: Yard) -> dict[str, Any]:
        chosen = await _chosen(yard, names)
        folders = [to_folder(each, signature=signature_of(each)) for each in chosen]
        done: dict[str, Any] = {
            "skills": [f"{each.namespace}/{each.name} {each.version}" for each in chosen],
            "public_key": None,
        }
        if target.suffix == ".zip":
            store = loaded.store.path.resolve()  # its keys are beside it
            key = None if unsigned else SigningKey.load_or_make(store.with_name(f"{store.name}.skills.key"))
            digest = write_archive(target, folders, key, replace=replace)
            done["written"] = [{"path": str(target), "digest": digest}]
            done["public_key"] = None if key is None else key.public
        else:
            paths = write_folders(folders, target, replace=replace)
            done["written"] = [
                {"path": str(path), "digest": each.digest} for path, each in zip(paths, folders, strict=True)
            ]
        body = {"skills": done["skills"], "digest": " ".join(each["digest"] for each in done["written"])}
        yard.store.audit(AuditEntry(kind="skill.export", principal=LOCAL, body=body))
        await yard.store.flush()
        return done

    done = with_yard(work, config=loaded, doing="Exporting")
    answer(done, lambda: _show_export(done))


def _show_export(done: dict[str, Any]) -> None:
    for each in done["written"]:
        say_unwrapped(each["path"])
        say_unwrapped(f"  {each['digest']}", "dim")
    if done["public_key"] is not None:
        say("Whoever imports it puts this into sealyard.toml, with your name:")
        say_unwrapped(f'[skills.trusted_keys]\nNAME = "{done["public_key"]}"')


@click.command("import")
@click.argument("source", metavar="SOURCE")
@click.option("--market", "market_name", metavar="NAME", help="SOURCE is a skill of this market in the config.")
@click.option("--digest", metavar="SHA256", help="What it must be; as `market` and `export` print it.")
@click.option("--namespace", default="local", show_default=True, metavar="NAME", help="Whose it becomes, or `shared`.")
@click.option("--allow-unsigned", is_flag=True, help="Take an archive that nobody signed.")
@CONFIG
@JSON
def import_(*, source: str, market_name: str | None, digest: str | None, namespace: str, allow_unsigned: bool) -> None:
    """Take in skills from a folder, a FILE.zip, or a market. They stay in quarantine until you approve them."""
    loaded = load()
    found, origin = _read_source(loaded, source, market_name, digest, allow_unsigned=allow_unsigned)

    async def work(yard: Yard) -> list[SavedSkill]:
        kept = await _add_all(yard, found, origin, namespace)
        body = {"skills": [f"{each.skill.name} {each.skill.version}" for each in kept], "origin": origin}
        yard.store.audit(AuditEntry(kind="skill.import", principal=LOCAL, body=body))
        await yard.store.flush()
        return kept

    kept = with_yard(work, config=loaded, doing="Reading", with_sandbox=True)
    noted = [(saved.skill, (*each.warnings, *saved.warnings)) for each, saved in zip(found, kept, strict=True)]
    shown = [{"skill": skill_data(skill), "warnings": warnings} for skill, warnings in noted]
    answer({"skills": shown}, lambda: _show_import(noted))


def _show_import(noted: Sequence[tuple[Skill, Sequence[str]]]) -> None:
    for skill, warnings in noted:
        for warning in warnings:
            warn(f"{skill.name}: {warning}")
        say(f"{skill.namespace}/{skill.name} {skill.version} is in quarantine.")
        where = f"{skill.name}@{skill.version} --namespace {skill.namespace}"
        say_unwrapped(f"  Read it:    sealyard skills show {where}", "dim")
        say_unwrapped(f"  Approve it: sealyard skills approve {where}", "dim")


@click.command()
@click.argument("query", required=False, default="")
@click.option("--index", "folder", type=click.Path(path_type=Path), help="Pin every skill below this folder instead.")
@CONFIG
@JSON
def market(*, query: str, folder: Path | None) -> None:
    """List the skills of the configured markets, or those that fit QUERY."""
    if folder is not None:
        if query:
            raise click.UsageError("Give QUERY or --index, not both.")
        _write_index(folder)
        return
    markets = load().skills.markets
    if not markets:
        raise InvalidRequest('No market is configured. Add one: [skills.markets] NAME = "FOLDER".')
    entries = {
        f"mcp__{name}__{entry.name}": (name, entry)
        for name, path in sorted(markets.items())
        for entry in Market(Path(path)).entries()
    }
    chosen = _ranked(entries, query) if query else list(entries.values())
    shown = [{"market": name, **msgspec.structs.asdict(entry)} for name, entry in chosen]
    answer({"skills": shown}, lambda: _show_market(chosen, query))


def _show_market(chosen: Sequence[tuple[str, MarketEntry]], query: str) -> None:
    if not chosen:
        say("No skill fits." if query else "The markets have no skills.")
    for name, entry in chosen:
        say(plain(f"{entry.name} {entry.version}".rstrip(), "bold") + plain(f" in {name}", "dim"))
        if entry.problem:
            say(f"  {entry.problem}", "red")
            continue
        say(f"  {one_line(entry.description, limit=_CHARACTERS)}")
        say_unwrapped(f"  {entry.digest}", "dim")


def _write_index(folder: Path) -> None:
    market = Market(folder)
    path = market.write_index()
    left_out = {entry.path: entry.problem for entry in market.entries() if entry.problem}
    if not wants_json():
        for place, problem in left_out.items():
            warn(f"{place} is left out. {problem}")
    answer({"index": str(path), "left_out": left_out}, lambda: say_unwrapped(str(path)))


async def _add_all(yard: Yard, found: Sequence[ImportedSkill], origin: str, namespace: str) -> list[SavedSkill]:
    """Keep all skills, or none: what was kept before one that is refused is deleted again."""
    kept: dict[str, SavedSkill] = {}
    fresh: list[Skill] = []
    name = ""
    try:
        for each in _in_order(found):
            name = each.name
            known = [old.version for old in await yard.skills.shelf.table.versions(namespace, each.name)]
            fields = ("name", "code", "description", "inputs", "output", "tags")
            request = SaveSkill(**{field: getattr(each, field) for field in fields})
            by = SkillSource(origin=f"{origin} {each.digest}", author=each.author or "elsewhere")
            saved = await yard.skills.add(request, each.examples, by, namespace=namespace, principal=LOCAL)
            kept[each.folder] = saved
            if saved.skill.version not in known:
                fresh.append(saved.skill)
    except BaseException as error:
        for skill in fresh:
            await yard.skills.delete(namespace, skill.name, skill.version, principal=LOCAL)
        if isinstance(error, InvalidRequest):
            raise InvalidSkill(f"{name}: {error} Nothing was imported.") from None
        raise
    return [kept[each.folder] for each in found]


def _in_order(found: Sequence[ImportedSkill]) -> list[ImportedSkill]:
    """Sort skills so that each comes after those it needs; a circle is found when it is read."""
    names = {each.name: each for each in found}
    order: dict[str, ImportedSkill] = {}
    waiting = list(reversed(found))
    opened: set[str] = set()
    while waiting:
        each = waiting.pop()
        needs = [names[need.name] for need in each.skills if need.name in names and need.name not in order]
        if needs and each.name not in opened:
            opened.add(each.name)
            waiting += [each, *needs]
        else:
            order.setdefault(each.name, each)
    return list(order.values())


async def _chosen(yard: Yard, names: tuple[str, ...]) -> list[Skill]:
    if names:
        return [await find_skill(yard, name) for name in names]
    active = [each for each in await all_skills(yard) if each.status == "active"]
    found = [await yard.skills.get(each.namespace, each.name) for each in active]
    if not found:
        raise InvalidRequest("There is no active skill to export.")
    return found


def _read_source(
    config: Config, source: str, market_name: str | None, digest: str | None, *, allow_unsigned: bool
) -> tuple[list[ImportedSkill], str]:
    """Return the skills in SOURCE, and where it is from in words."""
    if market_name is not None:
        path = config.skills.markets.get(market_name)
        if path is None:
            known = ", ".join(sorted(config.skills.markets)) or "none"
            raise InvalidRequest(f"No market named {market_name!r} is configured. There are: {known}.")
        pinned = None if digest is None else f"sha256:{digest.removeprefix('sha256:')}"
        return [read_folder(Market(Path(path)).get(source, digest=pinned))], f"import from market {market_name}"
    if source.endswith(".zip"):
        archive = read_archive(Path(source), trusted=config.skills.trusted_keys, allow_unsigned=allow_unsigned)
        _check_digest(digest, archive.digest)
        if archive.signer is not None and not archive.is_trusted and not allow_unsigned:
            raise InvalidSkill(
                f"{source!r} is signed by {archive.signer}, whom the config does not trust. If you know whose key that"
                " is, add it to [skills.trusted_keys]."
            )
        by = archive.signer or "nobody"
        return [read_folder(each.files, name=each.name) for each in archive.folders], f"import, signed by {by},"
    files: Mapping[str, bytes] = load_folder(Path(source))
    found = read_folder(files, name=Path(source).resolve().name)
    _check_digest(digest, found.digest)
    return [found], "import from a folder"


def _check_digest(wanted: str | None, actual: str) -> None:
    if wanted is not None and wanted.removeprefix("sha256:") != actual.removeprefix("sha256:"):
        raise InvalidSkill(f"Its digest is {actual}, not {wanted}. It is not what you pinned: nothing was imported.")


def _ranked(entries: Mapping[str, tuple[str, MarketEntry]], query: str) -> list[tuple[str, MarketEntry]]:
    index = Index(
        ToolSpec(
            upstream=name,
            name=entry.name,
            full_name=full_name,
            module=name,
            function=entry.name,
            description=f"{entry.description} {' '.join(entry.tags)}",
            input_schema={},
            digest=f"{full_name} {entry.digest}",
        )
        for full_name, (name, entry) in entries.items()
    )
    return [entries[name] for name in index.search(query, limit=50).names]
