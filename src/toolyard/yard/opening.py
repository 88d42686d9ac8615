"""Builds the gateway's parts in the order in which they depend on each other, and takes them down again."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Mapping

import msgspec

from toolyard.broker.call import ToolServer
from toolyard.broker.upstream import Upstream
from toolyard.catalog import Catalog
from toolyard.config import Config, SandboxConfig
from toolyard.discovery.semantic import Semantic, load_encoder
from toolyard.errors import InvalidConfig
from toolyard.metrics import tokens
from toolyard.sandbox import PoolOptions, open_sandbox
from toolyard.sandbox.library import Library, open_library
from toolyard.sandbox.packages import find_packages
from toolyard.sandbox.policy.levels import LEVELS, IsolationLevel, IsolationPolicy
from toolyard.sandbox.run import Sandbox
from toolyard.store import Store, open_store
from toolyard.values import Definition, UpstreamConfig
from toolyard.yard.finder import Finder
from toolyard.yard.yard import Yard

__all__ = ("open_yard",)

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def open_yard(
    config: Config,
    *,
    upstreams: Mapping[str, ToolServer] | None = None,
    policy: IsolationPolicy | None = None,
    with_sandbox: bool = True,
) -> AsyncIterator[Yard]:
    """A gateway over the upstreams of the config, and `upstreams` beside them.

    It searches what the store remembers at once; the sandbox and the upstreams that nobody has listed yet start
    meanwhile. `policy` is used instead of what the config says. `with_sandbox=False` is for who only looks: it then
    runs nothing.

    Raises:
        StoreError: The store cannot be used.
    """
    policy = policy or build_policy(config.sandbox)
    async with contextlib.AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.store.path))
        catalog = Catalog(store)
        servers: dict[str, ToolServer] = {}
        prints = {name: _fingerprint(upstream) for name, upstream in config.upstreams.items()}
        kept = await store.fingerprints()
        # What another server under the same name offered is not what this one does.
        same = [name for name, mark in prints.items() if kept.get(name) == mark]
        await catalog.load([*same, *(upstreams or {})])
        library = await stack.enter_async_context(open_library())
        finder = Finder(catalog, library, servers)

        async def on_tools(upstream: str, definitions: list[Definition]) -> None:
            change = await catalog.update(upstream, definitions)
            if kept.get(upstream) != prints.get(upstream):
                kept[upstream] = prints[upstream]
                await store.save_fingerprint(upstream, prints[upstream])
            finder.note_listed(upstream)
            for name in change.changed:
                _log.warning("The definition of %s changed. Look at it: toolyard tools --status.", name)

        for name, upstream in config.upstreams.items():
            servers[name] = Upstream(upstream, on_tools=on_tools, token_folder=config.store.path.parent / "oauth")
        for name, server in (upstreams or {}).items():
            server.on_tools = on_tools
            servers[name] = server
        stack.push_async_callback(_close_all, servers)
        stack.push_async_callback(finder.close)
        sandbox: asyncio.Task[Sandbox] | None = None
        if with_sandbox:
            walls = contextlib.AsyncExitStack()
            sandbox = asyncio.create_task(_open(walls, config.sandbox, policy, library))
            stack.push_async_callback(walls.aclose)
            stack.push_async_callback(_abandon, sandbox)
            loading = asyncio.create_task(asyncio.to_thread(tokens.load))
            stack.push_async_callback(_abandon, loading)
        yard = Yard(
            policy=policy,
            store=store,
            catalog=catalog,
            upstreams=servers,
            finder=finder,
            sandbox=sandbox,
            result_tokens=config.surface.result_tokens,
        )
        stack.push_async_callback(yard.close)
        if config.discovery.semantic:
            meaning = asyncio.create_task(_load_meaning(finder, store))
            stack.push_async_callback(_abandon, meaning)
        finder.start_listing()
        yield yard


def build_policy(settings: SandboxConfig) -> IsolationPolicy:
    """The level's policy with the config's own packages. Raises `InvalidConfig`."""
    policy = LEVELS[IsolationLevel(settings.level)]
    if not settings.data_packages:
        policy = msgspec.structs.replace(policy, packages=())
    if settings.packages:
        for name in settings.packages:
            if not find_packages((name,)).versions:
                raise InvalidConfig(
                    f"sandbox.packages names {name!r}, which is not installed. Install it, or take it out."
                )
        found = find_packages(settings.packages)
        policy = msgspec.structs.replace(
            policy,
            packages=(*policy.packages, *settings.packages),
            modules=(*policy.modules, *sorted(found.modules)),
        )
    return policy


async def _open(
    stack: contextlib.AsyncExitStack, settings: SandboxConfig, policy: IsolationPolicy, library: Library
) -> Sandbox:
    options = PoolOptions()
    if settings.pool_size is not None:
        options = msgspec.structs.replace(options, size=settings.pool_size)
    if settings.running is not None:
        options = msgspec.structs.replace(options, running=settings.running)
    sandbox = open_sandbox(
        policy, tier=settings.tier, allow_weaker=settings.allow_weaker, pool=options, library=library
    )
    return await stack.enter_async_context(sandbox)


def _fingerprint(upstream: UpstreamConfig) -> str:
    """Which server it is: how it is started or reached, without what may change between two starts of the same."""
    told = (upstream.transport, upstream.command or "", *upstream.args, upstream.cwd or "", upstream.url or "")
    chosen = (*(upstream.tools or ("*",)), "without", *upstream.without_tools)
    return hashlib.sha256("\0".join((*told, *chosen)).encode("utf-8", "surrogatepass")).hexdigest()


async def _load_meaning(finder: Finder, store: Store) -> None:
    """Takes a second; searches meanwhile rank by words."""
    encoder = await asyncio.to_thread(load_encoder)
    if encoder is not None:
        finder.use_meaning(Semantic(encoder, store))


async def _close_all(servers: Mapping[str, ToolServer]) -> None:
    """At once: one that does not want to end holds up only itself."""
    await asyncio.gather(*(server.close() for server in servers.values()))


async def _abandon(task: "asyncio.Task[object]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
