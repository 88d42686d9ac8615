"""What the commands of `sealyard skills` share: their options, an open yard, and which skill a person means."""

import difflib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import errors, plain, write
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest, UnknownSkill
from sealyard.values import Skill
from sealyard.yard import Yard, open_yard

CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
NAMESPACE = click.option(
    "--namespace", metavar="NAME", help="Whose: a principal, or `shared`. Without it, the only one that has the skill."
)
YES = click.option("--yes", is_flag=True, help="Do not ask.")


def with_yard(
    config: Config | Path | None,
    work: Callable[[Yard], Coroutine[Any, Any, Any]],
    *,
    doing: str = "Looking",
    with_sandbox: bool = False,
) -> Any:
    """What `work` gives for the yard of a config. Meanwhile a terminal shows what is being done."""
    loaded = config if isinstance(config, Config) else load(config)

    async def run() -> Any:
        async with open_yard(loaded, with_sandbox=with_sandbox) as yard:
            return await work(yard)

    with errors.status(doing):
        return run_to_end(run())


def load(config: Path | None) -> Config:
    """The config, with its warnings shown."""
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    return loaded


async def find_skill(yard: Yard, name: str, namespace: str | None) -> Skill:
    """The skill that a person means, with its examples: the newest version unless `name@version` says another."""
    bare, _, version = name.removeprefix("skills.").partition("@")
    return await yard.skills.get(namespace or await find_owner(yard, bare), bare, version)


async def find_owner(yard: Yard, name: str) -> str:
    """The only namespace that has a skill of this name. Raises `UnknownSkill` or `InvalidRequest`."""
    known = await yard.store.skills.names()
    owners = [namespace for namespace, each in known if each == name]
    if not owners:
        near = difflib.get_close_matches(name, sorted({each for _, each in known}), n=3)
        hint = f"Nearest: {', '.join(near)}." if near else "`sealyard skills list` shows all."
        raise UnknownSkill(f"No skill named {name!r}. {hint}")
    if len(owners) > 1:
        raise InvalidRequest(f"{name!r} is in {', '.join(owners)}. Say which with --namespace.")
    return owners[0]


async def all_skills(yard: Yard, namespace: str | None) -> list[Skill]:
    """The newest version of every skill that is not in quarantine."""
    return [
        each
        for each in await yard.skills.shelf.list_all()
        if namespace in (None, each.namespace) and each.status != "quarantined"
    ]


def skill_data(skill: Skill) -> dict[str, Any]:
    """A skill as JSON data: what its tools answered in its examples is left out, for it may be megabytes."""
    told: dict[str, Any] = msgspec.to_builtins(skill)
    for example, shown in zip(skill.examples, told["examples"], strict=True):
        del shown["trace"]
        shown["recorded_calls"] = 0 if example.trace is None else len(example.trace.calls)
    return told


def read_object(text: str, option: str) -> dict[str, Any]:
    """The JSON object that an option gives. Raises `InvalidRequest`."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{option} is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f'{option} must be a JSON object, such as {{"since": "2024-10-01"}}.')
    return found


def read_value(text: str) -> Any:
    """What an option gives: JSON, or else the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    write(msgspec.json.encode(value).decode() + "\n")
