"""Turns the servers of clients into a `sealyard.toml`: one upstream for each server, however many clients have it."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from sealyard.config.clients.backups import backup_folder
from sealyard.config.clients.documents import dump_toml, read_bytes
from sealyard.config.clients.known import CLIENTS
from sealyard.config.clients.rewrite import Change
from sealyard.config.clients.servers import Found, Survey, read_file
from sealyard.config.references import find_literals, has_reference, map_texts, name_of_input
from sealyard.config.settings import Machine, UpstreamEntry
from sealyard.errors import InvalidConfig
from sealyard.values.tools import glob

_HEADER = """\
# Written by `sealyard init`. References such as ${GITHUB_TOKEN} are expanded when sealyard starts.
"""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A `sealyard.toml` to write, or to add to."""

    change: Change
    is_empty: bool
    """True if there is no server to write, and none in the file."""
    added: tuple[str, ...]
    notes: tuple[str, ...]


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """A server to write, and the clients that have it."""

    name: str
    entry: UpstreamEntry
    clients: tuple[str, ...]
    notes: tuple[str, ...] = ()


def plan_config(output: Path, survey: Survey, machine: Machine, *, force: bool, everywhere: bool = False) -> Draft:
    """The servers that a `sealyard.toml` lacks, and the change that adds them. Its other text stays unchanged.

    `force` replaces a file that cannot be read. `everywhere`: without the servers of a project.

    Raises:
        InvalidConfig: The file cannot be read, or nothing can be added to it.
    """
    old = read_bytes(output)
    existing: dict[str, UpstreamEntry] = {}
    text = None
    if old is not None:
        try:
            existing, text = read_file(output, machine)[1], old.decode("utf-8-sig")
        except InvalidConfig as error:
            if not force:
                raise InvalidConfig(f"{error} Or give --force to replace it; a copy is kept.") from None
    servers = [each for each in survey.servers if not everywhere or each.place.project is None]
    added = merge(servers, existing=existing, folder=output.parent)
    new = old if not added and text is not None else render(added, existing=text).encode()
    return Draft(
        change=Change(
            client="",
            path=output,
            # A cloned project may hold a link in its place; in the user's folder for settings, links are the user's.
            inside=machine.directory
            if output.is_relative_to(machine.directory) and output.parent != machine.config_folder
            else None,
            old=old,
            new=new,
            kept_in=backup_folder(machine),
        ),
        is_empty=not added and not existing,
        added=tuple(upstream.name for upstream in added),
        notes=(
            *(f"{upstream.name}: {note}" for upstream in added for note in upstream.notes),
            *_lost_filters(servers, existing, output),
        ),
    )


def merge(servers: Iterable[Found], *, existing: Mapping[str, UpstreamEntry], folder: Path) -> list[Upstream]:
    """The servers that `existing` lacks, each once; `folder` is that of the file to write.

    The same server under several names is one, with the tools that all its clients let through. Two that share a name
    and differ are both kept: the later one gets its client's name too. An entry in `existing` that has the same name
    and start is the user's own version of the server.
    """
    known = {_identity(entry) for entry in existing.values()}
    merged: dict[str, list[Found]] = {}
    names: dict[str, str] = {}
    taken = set(existing)
    for each in servers:
        each = msgspec.structs.replace(each, entry=_settle(each.entry, each.place.project, folder))
        identity = _identity(each.entry)
        if identity in known or (each.name in existing and _is_version(existing[each.name], of=each.entry)):
            continue
        if identity not in names:
            names[identity] = _choose_name(each, taken)
            taken.add(names[identity])
        merged.setdefault(names[identity], []).append(each)
    return [_combine(name, group) for name, group in merged.items()]


def render(upstreams: Iterable[Upstream], *, existing: str | None = None) -> str:
    """The text of `sealyard.toml`: the existing text unchanged, and a section for each upstream after it.

    Raises:
        InvalidConfig: No section can be added to what exists.
    """
    text = _HEADER if existing is None else existing if existing.endswith("\n") or not existing else f"{existing}\n"
    for upstream in upstreams:
        table = {"upstreams": {upstream.name: msgspec.to_builtins(upstream.entry)}}
        text += f"\n# From {', '.join(CLIENTS[client].title for client in upstream.clients)}.\n{dump_toml(table)}"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise InvalidConfig(
            "The file keeps its upstreams in a way that nothing can be added to. Write each as [upstreams.NAME]."
        ) from None
    return text


def _identity(entry: UpstreamEntry) -> str:
    """A text that is equal for two entries of the same server."""
    fields = (entry.command, entry.args, entry.cwd, entry.url, entry.env_file, entry.bearer_token)
    values = repr((fields, sorted(entry.env.items()), sorted(entry.headers.items())))
    return values.replace("${env:", "${")


def _is_version(entry: UpstreamEntry, *, of: UpstreamEntry) -> bool:
    """True if both start the same program or reach the same address; a reference matches any text."""
    mine = (entry.command or "", entry.url or "", *entry.args)
    other = (of.command or "", of.url or "", *of.args)
    return len(mine) == len(other) and all(a == b or has_reference(a) for a, b in zip(mine, other, strict=True))


def _lost_filters(servers: Iterable[Found], existing: Mapping[str, UpstreamEntry], output: Path) -> Iterator[str]:
    """A note on each server that is in the file already and lets more tools through there than a client does."""
    same: dict[str, list[str]] = {}
    for name, entry in existing.items():
        same.setdefault(_identity(entry), []).append(name)
    for each in servers:
        settled = _settle(each.entry, each.place.project, output.parent)
        names = set(same.get(_identity(settled), ()))
        if each.name in existing and _is_version(existing[each.name], of=settled):
            names.add(each.name)
        for name in sorted(names):
            entry = existing[name]
            if _intersect([entry, settled]) != (entry.tools, entry.without_tools):
                yield (
                    f"{name}: {CLIENTS[each.place.client].title} lets fewer tools through than {str(output)!r}: set"
                    " 'tools' or 'without_tools' there"
                )


def _intersect(entries: list[UpstreamEntry]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The patterns of the tools that all entries let through, and of those that one of them leaves out."""
    lists = [each.tools for each in entries if isinstance(each.tools, tuple)]
    allowing = [_allows(each) for each in lists]
    tools = tuple(dict.fromkeys(tool for each in lists for tool in each if all(allows(tool) for allows in allowing)))
    left_out = dict.fromkeys(tool for each in entries for tool in each.without_tools)
    return (tools if lists else None), tuple(left_out)


def _allows(tools: tuple[str, ...]) -> Callable[[str], bool]:
    """Says of a pattern or a name whether the patterns let through all that it does."""
    same, matches = set(tools), glob(*tools) if tools else None

    def allows(tool: str) -> bool:
        is_pattern = "*" in tool or "?" in tool
        return tool in same or "*" in same or (not is_pattern and matches is not None and matches(tool) is not None)

    return allows


def _choose_name(found: Found, taken: set[str]) -> str:
    candidates = (found.name, f"{found.name}-{found.place.client}")
    for name in candidates:
        if name not in taken:
            return name
    number = 2
    while f"{candidates[1]}-{number}" in taken:
        number += 1
    return f"{candidates[1]}-{number}"


def _combine(name: str, group: list[Found]) -> Upstream:
    used = [each for each in group if not each.entry.disabled] or group
    tools, without_tools = _intersect([each.entry for each in used])
    entry = msgspec.structs.replace(
        used[0].entry,
        tools=tools,
        without_tools=without_tools,
        disabled=used[0].entry.disabled or tools == (),
    )
    clients = tuple(dict.fromkeys(each.place.client for each in group))
    notes = dict.fromkeys(note for each in used for note in each.notes)
    if any((each.entry.tools, each.entry.without_tools) != (tools, without_tools) for each in used):
        notes["has only the tools that all its clients let through" + (": none" if tools == () else "")] = None
    if off := [CLIENTS[each.place.client].title for each in group if each not in used]:
        notes[f"is switched off in {', '.join(dict.fromkeys(off))}, and on here"] = None
    others = sorted({each.name for each in group} - {name})
    if name != group[0].name:
        notes[f"renamed, because another server is called {group[0].name!r}"] = None
    elif others:
        notes[f"is the same server as {', '.join(map(repr, others))}"] = None
    for key in find_literals(entry):
        variable = key.removeprefix("env.") if key.startswith("env.") else f"{name_of_input(name)}_TOKEN"
        notes[f"{key} holds a secret that is written out: move it to an environment variable: ${{{variable}}}"] = None
    return Upstream(name=name, entry=entry, clients=clients, notes=tuple(notes))


def _settle(entry: UpstreamEntry, project: Path | None, folder: Path) -> UpstreamEntry:
    """The entry of a project for a file elsewhere: paths relative to the project become absolute."""
    if project is None or project == folder:
        return entry

    def fix(text: str, _: str) -> str:
        text = text.replace("${workspaceFolder}", str(project))
        return text.replace("${workspaceFolderBasename}", project.name)

    table = map_texts(msgspec.to_builtins(entry), fix)
    if entry.command is not None:
        table["cwd"] = str(project / table.get("cwd", ""))
    if entry.env_file is not None and not entry.env_file.startswith("~/"):
        table["env_file"] = str(project / table["env_file"])
    return msgspec.convert(table, UpstreamEntry)
