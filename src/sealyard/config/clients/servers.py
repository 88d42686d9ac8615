"""The servers that MCP clients have configured on this machine: the places of their files, and the meaning of entries.

An entry is read into the words of `sealyard.toml`; references in it stay references. A file or an entry that cannot be
read is reported in a sentence, and the others are used.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sealyard.config.clients.documents import LISTED, find_table, read_document
from sealyard.config.clients.known import CLIENTS, FOLDERS, Files, Switches
from sealyard.config.references import describe_upstream, map_texts, name_of_input
from sealyard.config.settings import Config, Machine, StoreConfig, UpstreamEntry, read_entry, read_settings
from sealyard.errors import InvalidConfig
from sealyard.former import PRESENT, starts
from sealyard.values.tools import glob

_TRANSPORTS = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_PARTS_OF_GOOSE = ("builtin", "platform", "frontend", "inline_python")
"""Kinds of its extensions that are no servers."""
_UNUSED = frozenset(
    (
        "alwaysAllow alwaysLoad alwaysLoadTools autoApprove bundled connectionTimeout default_tools_approval_mode"
        " deferTools description dev disableToolCache discoveryTimeoutMs displayName faviconUrl filterMapping gallery"
        " icon id metadata name remote required serverName source trust version"
    ).split()
)
"""Keys of entries that mean nothing to a gateway."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The object in a file that holds servers of one client."""

    client: str
    path: Path
    keys: tuple[str, ...]
    """The path to the object: `projects`, the folder, `mcpServers`."""
    project: Path | None = None
    """The folder that its servers belong to; `None` if they are the user's."""
    inside: Path | None = None
    """The folder of a project, which may come from somebody else: no link may lead a change out of it. Links in the
    user's own folders are followed, as files of settings often are links."""
    new: str = ""
    """The text that a new file begins with."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One server of one client."""

    place: Place
    name: str
    entry: UpstreamEntry
    notes: tuple[str, ...] = ()

    def describe(self) -> dict[str, str]:
        """A description for people, without secrets."""
        return {
            "client": self.place.client,
            "file": str(self.place.path),
            "name": self.name,
            "transport": self.entry.transport or self.entry.kind,
            "start": describe_upstream(self.entry) + (" (disabled)" if self.entry.disabled else ""),
        }


def find_places(machine: Machine) -> list[Place]:
    """Every place where a client may keep servers, existing or not."""
    places = [
        _place(name, files, machine)
        for name, client in CLIENTS.items()
        for files in client.files
        if not files.systems or machine.platform in files.systems
    ]
    users = {place.path for place in places if place.project is None}
    # Started in the home folder, a client's two files are one: the user's.
    return [p for p in places if p.project is None or p.path not in users or p.keys[0] == "projects"]


def _place(client: str, files: Files, machine: Machine) -> Place:
    project = machine.directory
    named = next(
        (project / value / below for name, below in files.variables if (value := machine.environ.get(name))), None
    )
    if named is not None:
        path = named
    else:
        folder = _folder(files.folder, machine)
        path = next((folder / name for name in files.names if os.path.exists(folder / name)), folder / files.names[-1])
    is_own = files.folder == "project" or "PROJECT" in files.keys
    return Place(
        client=client,
        path=path,
        keys=tuple(str(project) if key == "PROJECT" else key for key in files.keys),
        project=project if is_own else None,
        inside=project if files.folder == "project" else None,
        new=files.new,
    )


def _folder(name: str, machine: Machine) -> Path:
    match name:
        case "project":
            return machine.directory
        case "programs":
            return machine.applications_folder
    variable, default = FOLDERS[name]
    return machine.directory / (machine.environ.get(variable) or machine.home / default)


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of all clients on a machine."""

    servers: list[Found]
    """Without sealyard itself."""
    problems: list[str]
    """A sentence about each file and each entry that cannot be read."""
    files: list[Path]
    """The files that may hold servers, existing or not."""


def find_servers(machine: Machine) -> Survey:
    """Every server of every client."""
    servers: list[Found] = []
    problems: list[str] = []
    documents: dict[Path, Any] = {}

    def read(path: Path) -> Any:
        if path not in documents:
            documents[path] = {}
            try:
                documents[path] = read_document(path)
            except InvalidConfig as error:
                problems.append(str(error))
        return documents[path]

    places = find_places(machine)
    for place in places:
        found, wrong = read_servers(read(place.path), place)
        switches = [(each, _place(place.client, each.files, machine)) for each in CLIENTS[place.client].switches]
        lists = [(each, where, _matcher(_switched(read(where.path), where), where)) for each, where in switches]
        servers += [_switch(each, lists) for each in found if not _is_own(each)]
        problems += wrong
    return Survey(servers=servers, problems=problems, files=list(dict.fromkeys(place.path for place in places)))


def _switched(document: Any, place: Place) -> list[str] | None:
    """The names in a list of switches; `None` if there is no list."""
    for key in place.keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    if isinstance(document, list):
        return [each for each in document if isinstance(each, str)]
    if not place.keys and isinstance(document, Mapping):
        return [key for key, each in document.items() if isinstance(each, Mapping) and each.get("enabled") is False]
    return None


def _switch(found: Found, lists: Iterable[tuple[Switches, Place, Callable[[str], bool] | None]]) -> Found:
    """The server, disabled if its client has switched it off."""
    for switches, place, names in lists:
        if names is not None and names(found.name) != switches.are_on:
            where = ".".join(place.keys) or place.path.name
            note = f"is disabled, as {CLIENTS[place.client].title} has it off by {where}"
            entry = msgspec.structs.replace(found.entry, disabled=True)
            return msgspec.structs.replace(found, entry=entry, notes=(*found.notes, note))
    return found


def _matcher(names: list[str] | None, place: Place) -> Callable[[str], bool] | None:
    """Says whether a list of switches names a server, as its client compares names; `None` if there is no list."""
    if names is None:
        return None
    if place.client == "qwen" and names:
        fits = glob(*names)
        return lambda name: fits(name) is not None
    if place.client == "gemini":
        known = {each.lower().strip() for each in names}
        return lambda name: name.lower().strip() in known
    return set(names).__contains__


def _is_own(found: Found) -> bool:
    """True for an entry that starts sealyard, or that `sealyard init` wrote for one elsewhere."""
    entry = found.entry
    is_elsewhere = entry.url is not None or any(PRESENT in each for each in entry.args)
    return (found.name == PRESENT and is_elsewhere) or starts(entry.command, entry.args)


def read_file(file: Path, machine: Machine) -> tuple[Config, dict[str, UpstreamEntry]]:
    """The content of a `sealyard.toml` or a client's file, not expanded, and its upstreams beside it.

    Warnings name the servers that are left out.

    Raises:
        InvalidConfig: The file cannot be read, or something in it is wrong.
    """
    document = read_document(file)
    if not isinstance(document, dict):
        raise InvalidConfig(f"{str(file)!r} is not an object. Give a sealyard.toml, or an MCP client's file.")
    places = [place for place in find_places(machine) if place.path == file and place.keys[0] in document]
    if not places:
        keys = ("mcp_servers",) if file.suffix == ".toml" else ("mcpServers", "servers")
        client = {".gemini": "gemini", ".qwen": "qwen"}.get(file.parent.name, "")
        places = [Place(client=client, path=file, keys=(key,)) for key in keys if key in document]
    if not places and file.suffix == ".toml":
        return read_settings(document, file, machine.store_path)
    if not places:
        raise InvalidConfig(f"{str(file)!r} has neither 'mcpServers' nor 'servers'. Give an MCP client's file.")
    upstreams: dict[str, UpstreamEntry] = {}
    warnings: list[str] = []
    for place in places:
        found, problems = read_servers(document, place)
        warnings += problems
        for each in found:
            upstreams.setdefault(each.name, each.entry)  # a project's servers come first, as in the client
            warnings += [f"{each.name}: {note}." for note in each.notes]
    return Config(store=StoreConfig(path=machine.store_path), warnings=tuple(warnings)), upstreams


def read_servers(document: Any, place: Place) -> tuple[list[Found], list[str]]:
    """The servers at a place of a parsed file, and the problems with entries."""
    servers = document
    for key in place.keys:
        if key == LISTED:
            servers = find_table(servers, (LISTED,)) if isinstance(servers, list) or servers == {} else None
        else:
            servers = servers.get(key, {}) if isinstance(servers, Mapping) else None
    if not isinstance(servers, Mapping):
        kind = "a list" if LISTED in place.keys else "an object"
        where = ".".join(key for key in place.keys if key != LISTED)
        return [], [f"In {str(place.path)!r}, {where} is not {kind}. Its servers are not used."]
    found, problems, inputs = [], [], _inputs(document)
    for name, raw in servers.items():
        if is_no_server(raw, place.client):
            continue
        try:
            entry, notes = _read_server(name, raw, place)
        except InvalidConfig as error:
            problems.append(f"{error} This server is not used.")
        else:
            found.append(Found(place=place, name=name, entry=entry, notes=tuple(notes + _input_notes(inputs, raw))))
    return found, problems


def is_no_server(raw: Any, client: str) -> bool:
    """True for a part of the client that its file lists beside the servers."""
    return client == "goose" and isinstance(raw, Mapping) and raw.get("type") in _PARTS_OF_GOOSE


def _read_server(name: str, raw: Any, place: Place) -> tuple[UpstreamEntry, list[str]]:
    where = f"In {str(place.path)!r}, the server {name!r}"
    if not isinstance(raw, Mapping):
        raise InvalidConfig(f"{where} is not an object.")
    if place.client == "opencode" and "{file:" in repr(raw):
        raise InvalidConfig(f"{where} refers to a file with {{file:…}}, which sealyard does not read.")
    if isinstance(nested := raw.get("transport"), Mapping):  # as Cline writes it by itself
        raw = {key: each for key, each in raw.items() if key != "transport"} | dict(nested)
    source = _Keys(raw, where)
    passed_on, notes = _passed_on(source.take("env_vars", "env_keys"))
    is_disabled, is_enabled = source.take("disabled"), source.take("enabled")
    start_seconds, start_milliseconds = (
        source.take("startup_timeout_sec"),
        source.take_milliseconds("startup_timeout_ms"),
    )
    command, args = source.take("command", "cmd"), source.take("args")
    if isinstance(command, list) and command and args is None:  # opencode has one list
        command, *args = command
    request = source.take("requestOptions")
    headers = source.take_texts("headers", "http_headers")
    if isinstance(request, Mapping):
        headers |= _Keys(request, where).take_texts("headers")
    table: dict[str, Any] = {
        "command": command,
        "args": args,
        "cwd": source.take("cwd"),
        "env_file": source.take("envFile", "env_file"),
        "env": passed_on | source.take_texts("env", "environment", "envs"),
        "headers": headers
        | {key: f"${{{variable}}}" for key, variable in source.take_texts("env_http_headers").items()},
        "without_tools": source.take("disabled_tools", "excludeTools", "disabledTools"),
        "start_seconds": start_milliseconds if start_seconds is None else start_seconds,
        "call_seconds": source.take("tool_timeout_sec"),
        "disabled": bool(is_disabled) or is_enabled is False,
        "oauth": _read_oauth(source.take("oauth", "auth")),
        "bearer_token": source.take("apiKey"),
    }
    allowed = _read_allowed(source, place.client)
    if allowed == []:
        table["disabled"] = True
        notes.append("lets no tool through, and is disabled")
    table["tools"] = allowed
    if variable := source.take("bearer_token_env_var"):
        table["bearer_token"] = f"${{{variable}}}"
    if place.client in _MILLISECONDS:
        table["call_seconds"] = source.take_milliseconds("timeout")
    elif place.client in _SECONDS:
        table["call_seconds"] = source.take("timeout")
    http_url, url = source.take("httpUrl"), source.take("serverUrl", "url", "uri")
    kind = source.take("type", "transport", "transportType")
    if table["command"] is None:
        table["url"] = http_url or url
        # In these clients `url` alone speaks SSE; others have one key and try both ways.
        by_address = isinstance(url, str) and re.search(r"/sse/?($|\?)", url)
        if kind is None and http_url is None and (place.client in _SSE_BY_DEFAULT or by_address):
            kind = "sse"
    table["transport"] = _read_transport(kind, where) if kind is not None else None
    if table["transport"] == ("http" if table["command"] is None else "stdio"):
        del table["transport"]  # the default
    notes += [f"{key!r} means nothing to sealyard and is left out" for key in source.rest() if key not in _UNUSED]
    table = {key: value for key, value in table.items() if value not in (None, {}, [], False)}
    table = map_texts(table, lambda text, _: _translate(text, place.client))
    return read_entry(name, table, place.path, at=place.keys), notes


_MILLISECONDS = ("gemini", "qwen", "copilot")
_SECONDS = ("cline", "goose", "zed")
"""The units of `timeout`. Other clients do not have it, or not for calls."""
_SSE_BY_DEFAULT = ("gemini", "qwen", "cline")


def _read_allowed(source: "_Keys", client: str) -> Any:
    """The tools that the client lets through; `None` for all."""
    allowed = source.take("enabled_tools", "includeTools", "available_tools")
    if allowed is None and source.has_list("tools"):  # Codex has a table of this name, for approvals
        allowed = source.take("tools")
    if not isinstance(allowed, list):
        return allowed
    if "*" in allowed or (client == "goose" and not allowed):  # it takes an empty list for no list
        return None
    if client in ("gemini", "qwen"):  # which may name arguments too, `tool(these)`
        return [each.partition("(")[0] if isinstance(each, str) else each for each in allowed]
    return allowed


def _read_transport(kind: Any, where: str) -> str:
    try:
        return _TRANSPORTS[str(kind).lower()]
    except KeyError:
        raise InvalidConfig(f"{where} has the type {kind!r}, which sealyard does not know.") from None


class _Keys:
    """An entry's keys, each taken once, so that the remaining ones are known in the end."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self._left = dict(raw)
        self._where = where

    def take(self, *names: str) -> Any:
        found = [self._left.pop(name, None) for name in names]
        return next((value for value in found if value is not None), None)

    def take_texts(self, *names: str) -> dict[str, str]:
        """Values as text: clients allow numbers, and `null` for an absent value."""
        values = self.take(*names)
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            raise InvalidConfig(f"{self._where} has {names[0]!r} that is not an object.")
        return {
            key: json.dumps(value) if isinstance(value, bool | int | float) else value
            for key, value in values.items()
            if value is not None
        }

    def has_list(self, name: str) -> bool:
        return isinstance(self._left.get(name), list)

    def take_milliseconds(self, name: str) -> float | None:
        """A number as seconds. Another value stays among the keys that are left out."""
        value = self._left.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(self._left.pop(name)) / 1000

    def rest(self) -> list[str]:
        return list(self._left)


def _passed_on(listed: Any) -> tuple[dict[str, str], list[str]]:
    """Variables that Codex and Goose pass on if they have them, as names or as tables, and notes on other entries."""
    variables, notes = {}, []
    for each in listed if isinstance(listed, list) else () if listed is None else (listed,):
        name = each.get("name") if isinstance(each, Mapping) else each
        if not isinstance(name, str):
            notes.append("an entry of 'env_vars' names no variable and is left out")
            continue
        variables[name] = f"${{{name}:-}}"  # without the variable, the server is started without it
        if isinstance(each, Mapping) and each.get("source", "local") != "local":
            notes.append(f"set {name} in the environment: Codex takes it from {each['source']!r}")
    return variables, notes


def _read_oauth(raw: Any) -> Any:
    if not isinstance(raw, Mapping) or raw.get("enabled") is False:
        return True if raw is True else None
    source = _Keys(raw, "")
    table = {
        "client_id": source.take("clientId", "client_id", "CLIENT_ID"),
        "client_secret": source.take("clientSecret", "client_secret", "CLIENT_SECRET"),
        "scopes": source.take("scopes"),
        "redirect_port": source.take("callbackPort"),
    }
    return {key: value for key, value in table.items() if value is not None} or True


def _translate(text: str, client: str) -> str:
    """The references of a client as sealyard writes them."""
    if client in ("gemini", "qwen", "goose"):
        text = re.sub(r"\$([A-Za-z_][A-Za-z0-9_]*)", r"${\1}", text)
    if client == "opencode":
        text = re.sub(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}", r"${\1}", text)
    if client == "continue":
        text = re.sub(r"\$\{\{\s{0,9}(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s{0,9}\}\}", r"${\1}", text)
    return re.sub(r"\$\{input:([^}:]+)\}", lambda match: f"${{{name_of_input(match[1])}}}", text)


def _inputs(document: Any) -> dict[str, Any]:
    """The description of each input that VS Code asks for."""
    inputs = document.get("inputs") if isinstance(document, Mapping) else None
    return {
        each["id"]: each.get("description")
        for each in (inputs if isinstance(inputs, list) else ())
        if isinstance(each, Mapping) and isinstance(each.get("id"), str)
    }


def _input_notes(described: Mapping[str, Any], raw: Any) -> list[str]:
    """Notes on the variables to set in place of the inputs that VS Code asks for."""
    used = dict.fromkeys(re.findall(r"\$\{input:([^}:]+)\}", repr(raw)))
    return [
        f"set {name_of_input(each)} in the environment: VS Code asks for it"
        + (f" ({described[each]})" if described.get(each) else "")
        for each in used
    ]
