"""`sealyard serve`: the gateway for an MCP client, over standard input and output or over HTTP."""

import contextlib
import gc
import logging
import secrets
import sys
from functools import partial

import click

from sealyard.broker.upstreams.mcp import open_transport
from sealyard.cli.command import CONFIG_ARGUMENT, load
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import remark
from sealyard.config import Config
from sealyard.errors import InvalidRequest
from sealyard.serve import (
    ConcealingFilter,
    Modes,
    RepeatFilter,
    api,
    build_switchboard,
    dashboard,
    default_preset,
    open_http,
    serve_stdio,
)
from sealyard.wording import suggest
from sealyard.yard import open_border, open_yard


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
    for handler in logging.getLogger().handlers:
        handler.addFilter(RepeatFilter())
        handler.addFilter(ConcealingFilter(str))  # until there is a guard to conceal by
    loaded = load()
    if profile is not None:
        _check_profile(profile, loaded, is_http=http is not None)
    modes = Modes(loaded, mode or loaded.surface.mode)
    run_to_end(_serve(loaded, modes, None if http is None else parse_address(http), profile or ""))


def _check_profile(profile: str, config: Config, *, is_http: bool) -> None:
    if profile not in config.profiles:
        advice = suggest(profile, config.profiles, f"There are: {', '.join(config.profiles) or 'none'}.")
        raise InvalidRequest(f"The config has no profile {profile!r}. {advice}")
    if is_http:
        raise InvalidRequest(f"Over HTTP a profile is part of the URL. Leave --profile out, and use /mcp/p/{profile}.")


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or a port alone on loopback. Raises `InvalidRequest`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequest(f"{text!r} is not an address to listen at. Give one such as 127.0.0.1:8321.")
    return host, int(port)


async def _serve(config: Config, modes: Modes, address: tuple[str, int] | None, profile: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        yard, key, routes = None, None, []
        preset = default_preset(address, config.http)
        if modes.all == {"proxy"}:  # nothing else can come up, so nothing needs a sandbox
            border = await stack.enter_async_context(open_border(config, preset=preset))
        else:
            yard = await stack.enter_async_context(open_yard(config, preset=preset))
            border = yard.border()
            if yard.observer.tracing is not None:
                yard.observer.tracing.make_global()  # the SDK's own spans are sent too, and link ours to the client's
            routes = api.routes(yard)
            if config.http.dashboard:
                key, routes = secrets.token_urlsafe(24), [*routes, *dashboard.routes()]
        connect = partial(open_transport, token_folder=config.store.path.parent / "oauth")
        server = build_switchboard(config, border, modes=modes, yard=yard, connect=connect, profile=profile)
        guards = border.guards
        if guards.offload is not None:
            guards.offload.warm()
        log = await guards.of("log")
        for handler in logging.getLogger().handlers:
            handler.addFilter(ConcealingFilter(log.conceal))
        gc.collect()
        gc.freeze()  # what is there now stays: looking through it again and again would hold the loop for 90 ms
        if address is None:
            await serve_stdio(server, guards.offload)
            return
        listening = open_http(
            server,
            config.http,
            address=address,
            readiness=border.readiness,
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
