"""Opens a yard: first what takes time in other processes and threads, then all other parts while that is under way."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from sealyard import privacy
from sealyard.analysis import GUESTS
from sealyard.broker.policy import Policy, Preset
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig
from sealyard.errors import InvalidConfig
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.ahead import Ahead
from sealyard.sandbox.importable import Library, open_library
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.sandbox.pool import Slots
from sealyard.store import Store, TraceBudget, open_store
from sealyard.wording import suggest
from sealyard.yard.isolation import build_policy

if TYPE_CHECKING:  # see `_find_assemble`
    from sealyard.broker.upstreams import ToolServer
    from sealyard.observe import Sink
    from sealyard.privacy import Privacy
    from sealyard.yard.yard import Yard

_T = TypeVar("_T")


@dataclass(kw_only=True, eq=False)
class Begun:
    """The parts that are open, or opening, before the others of a yard are built on them."""

    store: Store
    home: Path
    """The folder of the store."""
    library: Library
    policy: IsolationPolicy
    levels: Callable[[str], IsolationPolicy]
    """The policy of each level."""
    slots: Slots
    sandbox: "asyncio.Task[Sandbox] | None"
    """Opens in the background; None for a yard that cannot run code."""
    walls: contextlib.AsyncExitStack
    """Closes the sandbox."""

    async def close_sandbox(self) -> None:
        """End every run, and give up opening; nothing happens the second time."""
        if self.sandbox is not None:
            self.sandbox.cancel()
            await asyncio.gather(self.sandbox, return_exceptions=True)
        await self.walls.aclose()


@contextlib.asynccontextmanager
async def open_yard(
    config: Config,
    *,
    upstreams: "Mapping[str, ToolServer] | None" = None,
    policy: IsolationPolicy | None = None,
    preset: Preset = "open",
    with_sandbox: bool = True,
    ahead: Ahead | None = None,
    sinks: "Sequence[Sink]" = (),
) -> "AsyncIterator[Yard]":
    """A gateway over the upstreams of the config, and over `upstreams`.

    Search works at once over the tools that the store remembers; the sandbox and the upstreams without remembered tools
    start in the background. `policy` replaces the isolation of the config. `preset` decides calls without a rule unless
    the config names a preset. `with_sandbox=False` opens a yard that cannot run code. `ahead` is a sandbox
    that was begun with the same isolation, and stays open longer than the yard. Each of `sinks` makes a `RunObserver`
    for every run, after the gateway's own.

    Raises:
        InvalidConfig: The config asks for something that is not available.
        StoreError: The store cannot be used.
        VaultError: The vault's key is missing or cannot be used.
    """
    rules = Policy(config.policy, preset=config.policy.preset or preset, trusted=config.trusted)
    policy = policy or build_policy(config.sandbox)
    named = config.privacy
    if named.conceal or named.reveal or named.patterns or named.detectors:  # anything else cannot be wrong
        await asyncio.to_thread(build_privacy, named)  # before anything is made on the disk
    levels = functools.cache(lambda level: build_policy(msgspec.structs.replace(config.sandbox, level=level)))
    async with contextlib.AsyncExitStack() as stack:
        traces = TraceBudget(total_bytes=config.skills.trace_mib << 20, seconds=config.skills.trace_days * 86_400.0)
        store = await stack.enter_async_context(open_store(config.store.path, traces=traces))
        # Beside the store, out of reach of programs that clean up temporary directories. Resolved, because workers
        # have another working directory than the gateway.
        home = (await asyncio.to_thread(config.store.path.resolve)).parent
        library = ahead.library if ahead else await stack.enter_async_context(open_library(home / "run"))
        options, walls = _pool_options(config, home), contextlib.AsyncExitStack()
        slots = Slots(options)
        opening = open_sandbox(
            policy,
            tier=config.sandbox.tier,
            allow_weaker=config.sandbox.allow_weaker,
            pool=options,
            library=library,
            own=GUESTS,
            folder=home / "run",
            ahead=ahead,
            slots=slots,  # calls without code take them too, before the sandbox is ready
        )
        begun = Begun(
            store=store,
            home=home,
            library=library,
            policy=policy,
            levels=levels,
            slots=slots,
            sandbox=asyncio.create_task(walls.enter_async_context(opening)) if with_sandbox else None,
            walls=walls,
        )
        stack.push_async_callback(begun.close_sandbox)
        assemble = await asyncio.to_thread(_find_assemble)
        yield await assemble(config, begun, stack, upstreams=upstreams or {}, rules=rules, sinks=sinks)


def _find_assemble() -> Any:
    """The function that builds all other parts. Their imports take 0.1 s, in which the sandbox starts."""
    from sealyard.yard.assembly import assemble  # noqa: PLC0415

    return assemble


def build_privacy(settings: PrivacyConfig) -> "Privacy":
    """The detectors and rules that the config asks for. Raises `InvalidConfig`."""
    from sealyard.privacy.detect import PresidioDetector, Scanner, ScanRules  # noqa: PLC0415 - as `_find_assemble`

    types = frozenset(name for name, info in privacy.TYPES.items() if info.default)
    for name in (*settings.conceal, *settings.reveal):
        if name not in privacy.TYPES and name not in settings.patterns:
            advice = suggest(name, privacy.TYPES, f"There are: {', '.join(privacy.TYPES)}.")
            raise InvalidConfig(f"[privacy] names the type {name!r}, which does not exist. {advice}")
    types = (types | set(settings.conceal) | set(settings.patterns)) - set(settings.reveal)
    scan = ScanRules(types=types, patterns=settings.patterns, allow=settings.allow)
    detectors = [PresidioDetector() for _ in settings.detectors]
    rules = [
        (
            rule.tools,
            privacy.Handling(
                mode=rule.mode or settings.mode, whole=rule.whole, visible=rule.visible, reveal=rule.reveal
            ),
        )
        for rule in settings.rules
    ]
    return privacy.Privacy(Scanner(scan, detectors), mode=settings.mode, rules=rules)


def _pool_options(config: Config, home: Path) -> PoolOptions:
    settings = config.sandbox
    sizes = {"size": settings.pool_size, "running": settings.running, "sessions": settings.sessions}
    return msgspec.structs.replace(
        PoolOptions(),
        **{name: size for name, size in sizes.items() if size is not None},
        queue=settings.queue,
        queue_each=settings.queue_each,
        weights={name: scope.weight for name, scope in config.http.scopes().items()},
        idle_bytes=settings.idle_mib << 20,
        idle_folder=home / "idle-workspaces",
    )


def begin(stack: contextlib.AsyncExitStack, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
    """Start work in the background. Closing the stack cancels and awaits it."""
    task = asyncio.create_task(work)

    async def abandon() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(abandon)
    return task
