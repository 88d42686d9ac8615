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
    RepeatFilter,
    api,
    build_relay,
    build_server,
    dashboard,
    default_preset,
    open_http,
    serve_stdio,
)
from sealyard.yard import open_border, open_yard


@click.command()
@CONFIG_ARGUMENT
@click.option("--http", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead, such as 127.0.0.1:8321.")
@click.option(
    "--mode", type=click.Choice(["code", "hybrid", "search", "proxy"]), help="What the agent sees, over the config's."
)
def serve(*, http: str | None, mode: str | None) -> None:
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
    run_to_end(_serve(loaded, mode or loaded.surface.mode, None if http is None else parse_address(http)))


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or a port alone on loopback. Raises `InvalidRequest`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequest(f"{text!r} is not an address to listen at. Give one such as 127.0.0.1:8321.")
    return host, int(port)


async def _serve(config: Config, mode: str, address: tuple[str, int] | None) -> None:
    async with contextlib.AsyncExitStack() as stack:
        routes = key = None
        preset = default_preset(address, config.http)
        if mode == "proxy":
            border = await stack.enter_async_context(open_border(config, preset=preset))
            connect = partial(open_transport, token_folder=config.store.path.parent / "oauth")
            server, guards = build_relay(config.upstreams, border, connect=connect), border.guards
            readiness = border.readiness
        else:
            yard = await stack.enter_async_context(open_yard(config, preset=preset))
            server, guards = build_server(yard, config.surface, mode=mode), yard.guards
            if yard.observer.tracing is not None:
                yard.observer.tracing.make_global()  # the SDK's own spans are sent too, and link ours to the client's
            readiness, routes = yard.operations.readiness, api.routes(yard)
            if config.http.dashboard:
                key, routes = secrets.token_urlsafe(24), [*routes, *dashboard.routes()]
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
            readiness=readiness,
            routes=routes,
            operator_key=key,
            offload=guards.offload,
        )
        url, http = await stack.enter_async_context(listening)
        if key is not None:  # in the fragment, which no browser sends and no proxy logs
            remark(f"The dashboard, where you can answer approvals: {url.removesuffix('mcp')}#key={key}")
        remark(f"sealyard serves {len(config.upstreams)} servers at {url} ({mode} mode)")
        await http.run_until_cancelled()
