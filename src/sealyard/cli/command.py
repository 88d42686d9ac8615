"""Parts that commands share: options, the configuration, the event loop, and the store."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from sealyard import store as stores
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import warn, write_json
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest
from sealyard.values.access import Profile
from sealyard.wording import suggest

if TYPE_CHECKING:
    from sealyard.store import Store

_T = TypeVar("_T")


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep an option in the context, which a group shares with its commands: it counts wherever it stands."""
    if value:
        ctx.meta[f"sealyard.{option.name}"] = value


KEPT: dict[str, Any] = {"expose_value": False, "callback": _keep}
"""Settings of an option that `option` returns, instead of an argument of the command."""
CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json.", **KEPT
)
CONFIG_ARGUMENT = click.argument("config", required=False, type=click.Path(path_type=Path), **KEPT)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
JSON = click.option("--json", is_flag=True, help="Print one JSON object, and nothing else.", **KEPT)
STORE = click.option(
    "--store", type=EXISTING_FILE, metavar="FILE", help="Another store than the configured one.", **KEPT
)
YES = click.option("--yes", is_flag=True, help="Do not ask.", **KEPT)
LOCAL = "local"
"""The principal of whoever runs a command here."""


def option(name: str) -> Any:
    """Return what an option of `KEPT` was given, None if nothing."""
    return click.get_current_context().meta.get(f"sealyard.{name}")


def read_config() -> Config:
    """Load the configuration that the command or its group names."""
    return load_config(option("config"))


def load() -> Config:
    """Load the configuration as `read_config` does, and show its warnings."""
    loaded = read_config()
    for warning in loaded.warnings:
        warn(warning)
    return loaded


def store_path() -> Path:
    """Return the store that the command names, or the configured one."""
    named: Path | None = option("store")
    return named or read_config().store.path


def wants_json() -> bool:
    """True if the answer is for a program."""
    return bool(option("json"))


def agrees_to(question: str) -> bool:
    """True after --yes, or if the person at the terminal agrees."""
    return bool(option("yes")) or click.confirm(question, err=True)


def answer(value: Any, show: Callable[[], None]) -> None:
    """Print the answer of a command: `value` as one JSON object, or for people what `show` prints."""
    if wants_json():
        write_json(value)
    else:
        show()


def read_text(file: str, instead: str) -> str:
    """Read a file, or standard input for `-`. Raises `InvalidRequest`, which ends with what to do `instead`."""
    name = "Standard input" if file == "-" else repr(file)
    try:
        with open(0 if file == "-" else file, "rb", closefd=file != "-") as stream:
            return stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is not UTF-8 after byte {error.start}. Save it as UTF-8 text.") from None
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}. {instead}") from None


def find_profile(name: str | None, config: Config) -> Profile | None:
    """The profile of this name, if one is named. Raises `InvalidRequest` if the config has no such profile."""
    profiles = config.narrowings()
    if name is not None and name not in profiles:
        advice = suggest(name, profiles, f"There are: {', '.join(profiles) or 'none'}.")
        raise InvalidRequest(f"The config has no profile {name!r}. {advice}")
    return None if name is None else profiles[name]


def read_object(text: str, option: str) -> dict[str, Any]:
    """Decode the JSON object that an option gives. Raises `InvalidRequest`."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{option} is not JSON: {error}. Give an object such as '{{\"n\": 3}}'.") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f"{option} is {text!r}, not a JSON object. Give one such as '{{\"n\": 3}}'.")
    return found


def with_store(place: Config | Path, work: "Callable[[Store], Coroutine[Any, Any, _T]]") -> _T:
    """Run `work` on the configured store, or on the one at a path, and return its value."""

    async def run() -> _T:
        async with stores.open_store(place.store.path if isinstance(place, Config) else place) as store:
            return await work(store)

    return run_to_end(run())
