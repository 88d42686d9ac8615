"""Finds the configuration, reads it and expands its references; nothing else looks at the environment."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sealyard.config.clients.servers import find_places, read_file
from sealyard.config.references import Hidden, Unresolved, expand, map_texts
from sealyard.config.settings import (
    Config,
    HttpConfig,
    Machine,
    StoreConfig,
    UpstreamEntry,
    read_machine,
)
from sealyard.errors import InvalidConfig
from sealyard.former import rename_variables, starts
from sealyard.values.tools import OAuthConfig, UpstreamConfig, glob

_T = TypeVar("_T", bound=msgspec.Struct)
_IF_SET = re.compile(r"\$\{(env:)?[A-Za-z_]\w*:-\}", re.ASCII)


def load_config(
    path: Path | None, *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Config:
    """The configuration in `path`, or in the first place where one is found.

    That is `$SEALYARD_CONFIG`, `sealyard.toml` here, `sealyard/sealyard.toml` in the user's folder for settings, and
    `.mcp.json` here. `path` may be a client's own file. A server whose references cannot be expanded, and sealyard
    itself, are left out with a warning.

    Raises:
        InvalidConfig: The file cannot be read, or something in it is wrong.
    """
    variables, notes = rename_variables(os.environ if environ is None else environ)
    machine = read_machine(environ=variables, directory=directory)
    file = _find_file(path, machine, notes)
    if file is None:
        config, folder = Config(store=StoreConfig(path=machine.store_path)), machine.directory
        entries: dict[str, UpstreamEntry] = {}
        notes.append("No configuration was found, so there are no tools. Run `sealyard init` to make one.")
    else:
        config, entries = read_file(file, machine)
        folder = _find_folder(file, machine)
    machine = msgspec.structs.replace(machine, directory=folder)  # where relative paths start
    warnings = [*notes, *config.warnings]
    vault_key = machine.environ.get("SEALYARD_VAULT_KEY")
    upstreams: dict[str, UpstreamConfig] = {}
    for name, entry in entries.items():
        if entry.disabled:
            continue
        try:
            upstreams[name] = _expand_upstream(name, entry, machine)
        except Unresolved as reason:
            warnings.append(f"Upstream {name!r} is not used: {reason}.")
    return msgspec.structs.replace(
        config,
        upstreams=upstreams,
        store=StoreConfig(path=Path(_expand_path(str(config.store.path), "store.path", machine))),
        http=_expand_http(config.http, machine, file),
        discovery=_expand_fields(config.discovery, "discovery", ("vectors",), _expand_path, machine),
        privacy=msgspec.structs.replace(config.privacy, vault_key=_hide(vault_key) if vault_key else None),
        skills=_expand_fields(config.skills, "skills", ("markets",), _expand_path, machine),
        alerts=_expand_fields(config.alerts, "alerts", ("webhook", "webhook_secret"), _expand_secret, machine),
        otel=_expand_fields(config.otel, "otel", ("headers",), _expand_secret, machine),
        trusted=frozenset(name for name in upstreams if entries[name].trusted),
        source=file,
        warnings=(*warnings, *_unmatched(config, entries)),
    )


def _find_file(path: Path | None, machine: Machine, notes: list[str]) -> Path | None:
    if path is None and (named := machine.environ.get("SEALYARD_CONFIG")):
        path = Path(named)
    if path is not None:
        path = machine.directory / path
        if not os.path.isfile(path):
            raise InvalidConfig(f"There is no file {str(path)!r}. Give a sealyard.toml or an MCP client's file.")
        return path
    for each in (machine.directory / "sealyard.toml", machine.config_folder / "sealyard.toml"):
        if os.path.isfile(each):
            return each
        if os.path.isfile(old := machine.former_config(each)):
            notes.append(f"{str(old)!r} is read where it is. Move it to {str(each)!r}.")
            return old
    clients = machine.directory / ".mcp.json"
    return clients if os.path.isfile(clients) else None


def _find_folder(file: Path, machine: Machine) -> Path:
    """The base of relative paths: the project of the file, else the working directory."""
    if (
        file.parent.name in (".amp", ".cursor", ".gemini", ".github", ".qwen", ".vscode", ".zed")
        and file.parent.parent != machine.home
    ):
        return file.parent.parent
    users = {place.path for place in find_places(machine) if place.project is None}
    configs = {machine.config_folder, machine.former_config(machine.config_folder / "sealyard.toml").parent}
    if file in users or file.parent in configs:
        return machine.directory
    return file.parent


def _expand_upstream(name: str, entry: UpstreamEntry, machine: Machine) -> UpstreamConfig:
    """The entry with its references replaced. Raises `Unresolved` with every reason."""
    reasons: list[str] = []
    table = map_texts(msgspec.to_builtins(entry), _expander(machine, reasons))
    if reasons:
        raise Unresolved("; ".join(dict.fromkeys(reasons)))
    if starts(table.get("command"), tuple(table.get("args", ()))):  # it must not become its own upstream
        raise Unresolved("it is sealyard itself")
    if entry.url is not None and not re.match(r"https?://[^/\s]", table["url"]):
        raise Unresolved("its url does not begin with https:// or http://")
    from_file = _read_env_file(_locate(table["env_file"], machine)) if table.get("env_file") else {}
    return UpstreamConfig(
        name=name,
        transport=entry.kind,
        command=table.get("command"),
        args=tuple(table.get("args", ())),
        env={key: _hide(value) for key, value in (from_file | _without_unset(table.get("env", {}), entry)).items()},
        cwd=None if entry.command is entry.module is None else str(_locate(table.get("cwd", ""), machine)),
        module=entry.module,
        url=table.get("url"),
        headers={key: _check_header(key, value) for key, value in table.get("headers", {}).items()},
        bearer_token=_check_header("bearer_token", table["bearer_token"]) if table.get("bearer_token") else None,
        oauth=_build_oauth(table["oauth"]) if table.get("oauth") else None,
        tools=None if isinstance(entry.tools, str) else entry.tools,
        without_tools=entry.without_tools,
        start_seconds=entry.start_seconds,
        call_seconds=entry.call_seconds,
        idle_seconds=entry.idle_seconds or None,
        concurrent_calls=entry.concurrent_calls,
        answer_bytes=entry.answer_bytes,
    )


def _without_unset(env: dict[str, str], entry: UpstreamEntry) -> dict[str, str]:
    """The variables without those that are only `${X:-}` and empty: the server is started without them."""
    return {key: value for key, value in env.items() if value or not _IF_SET.fullmatch(entry.env[key])}


def _expander(machine: Machine, reasons: list[str]) -> Callable[[str, str], str]:
    """`expand`, with the key in each reason, which goes into the list."""

    def expand_one(text: str, key: str) -> str:
        try:
            return expand(text, machine)
        except Unresolved as reason:
            reasons.append(f"{reason} (needed by {key})")
            return ""

    return expand_one


def _build_oauth(table: Any) -> OAuthConfig:
    if table is True:
        return OAuthConfig()
    table = table | ({"client_secret": _hide(table["client_secret"])} if table.get("client_secret") else {})
    return OAuthConfig(**(table | {"scopes": tuple(table.get("scopes", ()))}))


def _hide(value: str) -> Hidden:
    return value if isinstance(value, Hidden) else Hidden(value)


def _check_header(key: str, value: str) -> Hidden:
    """A header's value without the line end that a token read from a file often has."""
    hidden = Hidden(value.strip(), _hide(value).shown)
    if not hidden.isprintable() or not key.isprintable():  # the HTTP library's own message would show the value
        raise Unresolved(f"{key!r} holds a character that a header cannot")
    return hidden


def _locate(path: str, machine: Machine) -> Path:
    """An absolute path: `~` is the home, anything relative starts at the configuration's folder."""
    return machine.home / path[2:] if path.startswith("~/") else machine.directory / path


def _read_env_file(path: Path) -> dict[str, str]:
    """Lines such as `NAME=value`, `export NAME='value'` and `# remark`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Unresolved(f"its env_file {str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unresolved(f"its env_file {str(path)!r} is not UTF-8") from None
    variables = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(.*?)\s*", line)
        if match:
            value = match[2]
            quoted = re.match(r"(['\"])(.*?)\1\s*(#.*)?$", value)
            variables[match[1]] = quoted[2] if quoted else re.sub(r"\s+#.*$", "", value)
    return variables


def _expand_fields(
    table: _T, name: str, fields: tuple[str, ...], expand_one: Callable[[str, str, Machine], str], machine: Machine
) -> _T:
    """The table with some fields expanded: texts, or tables of texts."""
    changes: dict[str, Any] = {}
    for field in fields:
        value, key = getattr(table, field), f"{name}.{field}"
        if isinstance(value, dict):
            changes[field] = {each: expand_one(text, f"{key}.{each}", machine) for each, text in value.items()}
        elif value is not None:
            changes[field] = expand_one(value, key, machine)
    return msgspec.structs.replace(table, **changes)


def _expand_path(path: str, key: str, machine: Machine) -> str:
    try:
        return str(_locate(expand(path, machine), machine))
    except Unresolved as reason:
        raise InvalidConfig(f"{key} cannot be used: {reason}. Set it, or write the path out.") from None


def _expand_secret(value: str, key: str, machine: Machine) -> str:
    try:
        return _hide(expand(value, machine))
    except Unresolved as reason:
        raise InvalidConfig(f"{key} cannot be used: {reason}. Set it, or take it out.") from None


def _expand_http(http: HttpConfig, machine: Machine, file: Path | None) -> HttpConfig:
    reasons: list[str] = []
    expand_one = _expander(machine, reasons)

    def token(text: str, key: str) -> str | None:
        known = len(reasons)
        value = expand_one(text, key).strip()
        if not value and len(reasons) == known:
            reasons.append(f"{key} is empty")
        return Hidden(value) if value else None

    default = "${SEALYARD_TOKEN}" if machine.environ.get("SEALYARD_TOKEN") else None
    single = http.token if http.token is not None else default
    expanded = None if single is None else token(single, "http.token")
    several = {name: token(text, f"http.tokens.{name}") for name, text in http.tokens.items()}
    kept = {name: text for name, text in several.items() if text is not None}
    principals = {
        name: each
        if each.token is None
        else msgspec.structs.replace(each, token=token(each.token, f"http.principals.{name}.token"))
        for name, each in http.principals.items()
    }
    http = msgspec.structs.replace(http, token=expanded, tokens=kept, principals=principals, unset=tuple(reasons))
    try:
        return http.hashed()
    except InvalidConfig as error:
        raise InvalidConfig(f"In {str(file)!r}, {error}") from None


def _unmatched(config: Config, upstreams: Collection[str]) -> list[str]:
    """Warnings about patterns of principals and profiles that match no upstream: most likely they are misspelled."""
    tables = [(f"http.principals.{name}", each.upstreams) for name, each in config.http.principals.items()]
    tables += [(f"profiles.{name}", each.upstreams) for name, each in config.profiles.items()]
    return [
        f"{at}.upstreams names {pattern!r}, but no upstream has a matching name."
        for at, patterns in tables
        for pattern in patterns or ()
        if not any(map(glob(pattern), upstreams))
    ]
