"""`sealyard serve`: the gateway for an MCP client, over standard input and output or over HTTP."""

import asyncio
import contextlib
import gc
import logging
import secrets
import sys
from typing import TYPE_CHECKING, Any

import click

from sealyard import serve as wires
from sealyard import yard as yards
from sealyard.analysis import GUESTS
from sealyard.broker import policy
from sealyard.cli import USUAL_COLLECTION
from sealyard.cli.command import CONFIG_ARGUMENT, find_profile, load
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import remark
from sealyard.config import Config
from sealyard.errors import InvalidConfig, InvalidRequest, SandboxUnavailable
from sealyard.sandbox.ahead import Ahead, begin_sandbox

if TYPE_CHECKING:
    from sealyard.access import Guards
    from sealyard.offload import Offload
    from sealyard.serve import Modes
    from sealyard.yard import Yard

_LOCAL = policy.default_preset(is_local=True)


@click.command()
@CONFIG_ARGUMENT
@click.option("--http", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead, such as 127.0.0.1:8321.")
@click.option(
    "--mode", type=click.Choice(["code", "hybrid", "search", "proxy"]), help="What the agent sees, over surface.mode."
)
@click.option("--profile", metavar="NAME", help="Serve only what this profile of the config lets through.")
def serve(*, http: str | None, mode: str | None, profile: str | None) -> None:
    """Serve all configured MCP servers as one.

    CONFIG is a sealyard.toml or an MCP client's own file such as .mcp.json; by default the one that is found here or
    in the user's folder for settings. Without --http an MCP client starts this command and talks to it over standard
    input and output.
    """
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(name)s: %(message)s")
    logging.getLogger("sealyard").setLevel(logging.WARNING)
    wires.filter_log()
    loaded = load()
    if find_profile(profile, loaded) is not None and http is not None:
        raise InvalidRequest(f"Over HTTP a profile is part of the URL. Leave --profile out, and use /mcp/p/{profile}.")
    run_to_end(
        _serve(loaded, mode or loaded.surface.mode, None if http is None else parse_address(http), profile or "")
    )


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or a port alone on loopback. Raises `InvalidRequest`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequest(f"{text!r} is not an address to listen at. Give one such as 127.0.0.1:8321.")
    return host, int(port)


async def _serve(config: Config, mode: str, address: tuple[str, int] | None, profile: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        # With `proxy` as the usual mode, few run code or nobody.
        ahead = None if mode == "proxy" else await _begin_sandbox(config, stack)
        modes = wires.Modes(config, mode)  # imports the MCP SDK, which takes most of the start
        if address is not None:
            await _serve_http(config, modes, address, ahead)
        elif modes.all == {"proxy"}:  # nothing else can come up, so nothing needs a sandbox
            await _serve_border(config, modes, profile)
        else:
            await _serve_stdio(config, modes, profile, ahead)


async def _begin_sandbox(config: Config, stack: contextlib.AsyncExitStack) -> Ahead | None:
    """Have the sandbox start while the other parts are imported. If it cannot, opening the yard says why.

    The first start of all does without, so that a config which proves wrong leaves no folder behind.
    """
    if not config.store.path.exists():
        return None
    with contextlib.suppress(InvalidConfig, SandboxUnavailable, OSError):
        policy, folder = yards.build_policy(config.sandbox), config.store.path.resolve().parent / "run"
        begun = begin_sandbox(policy, tier=config.sandbox.tier, own=GUESTS, folder=folder)
        return await stack.enter_async_context(begun)
    return None


async def _serve_border(config: Config, modes: "Modes", profile: str) -> None:
    async with yards.open_border(config, preset=_LOCAL) as border:
        await _settle(border.guards)

        async def find_offload() -> "Offload | None":
            return border.guards.offload

        server = modes.build_server(border, profile=profile)
        await wires.serve_stdio(server, find_offload)


async def _serve_stdio(config: Config, modes: "Modes", profile: str, ahead: Ahead | None) -> None:
    """Serve over standard input and output while the yard opens: clients wait for the list of tools, and not for long.

    If it cannot be opened, requests that wait for it are answered by an error, and the process ends with the reason.
    """
    opened: asyncio.Future[Yard] = asyncio.get_running_loop().create_future()

    async def find_offload() -> "Offload | None":
        return (await asyncio.shield(opened)).guards.offload

    server = modes.build_server(opened, profile=profile)
    serving = asyncio.create_task(wires.serve_stdio(server, find_offload))
    try:
        open_yard = await asyncio.to_thread(lambda: yards.open_yard)  # to import what it needs takes half of the start
        async with open_yard(config, preset=_LOCAL, ahead=ahead) as yard:
            await _settle(yard.guards)
            _trace(yard)
            opened.set_result(yard)
            await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _serve_http(config: Config, modes: "Modes", address: tuple[str, int], ahead: Ahead | None) -> None:
    from sealyard.serve import api, dashboard  # noqa: PLC0415 - standard input needs neither, and no web server

    preset, key = wires.default_preset(address, config.http), None
    async with contextlib.AsyncExitStack() as stack:
        routes: list[Any] = []
        if modes.all == {"proxy"}:
            border = await stack.enter_async_context(yards.open_border(config, preset=preset))
            server, guards, readiness = modes.build_server(border), border.guards, border.readiness
        else:
            yard = await stack.enter_async_context(yards.open_yard(config, preset=preset, ahead=ahead))
            server, guards = modes.build_server(yard), yard.guards
            _trace(yard)
            readiness, routes = yard.operations.readiness, api.routes(yard)
            if config.http.dashboard:
                key, routes = secrets.token_urlsafe(24), [*routes, *dashboard.routes()]
        await _settle(guards)
        listening = wires.open_http(
            server,
            config.http,
            address=address,
            readiness=readiness,
            routes=routes,
            profiles=config.profiles,
            operator_key=key,
            offload=guards.offload,
        )
        url, http = await stack.enter_async_context(listening)
        if key is not None:  # in the fragment, which no browser sends and no proxy logs
            remark(f"The dashboard, where you can answer approvals: {url.removesuffix('mcp')}#key={key}")
        remark(f"sealyard serves {len(config.upstreams)} servers at {url} ({modes.default} mode)")
        for name in config.profiles:
            remark(f"The profile {name} is at {url}/p/{name}.")
        await http.run_until_cancelled()


def _trace(yard: "Yard") -> None:
    if yard.observer.tracing is not None:
        yard.observer.tracing.make_global()  # the SDK's own spans are sent too, and link ours to the client's


async def _settle(guards: "Guards") -> None:
    """Prepare the process for serving long: helpers are warm, the log is concealed, and what there is now stays."""
    if guards.offload is not None:
        guards.offload.warm()
    log = await guards.of("log")
    wires.filter_log(log.conceal)
    gc.freeze()  # looking through it again and again would hold the loop for 90 ms, and so would a last look
    gc.set_threshold(*USUAL_COLLECTION)
