"""Which surface a client gets, where one process serves several.

The first of these that names a mode decides: `?codemode=false` in the URL, the profile in the URL, the principal, the
name that the client gives itself, the config. Each surface is an MCP server of its own, made when its first client
comes, and `Modes.build_server` makes one that hands each of them its requests as they are.

The name is the client's own claim. It chooses among surfaces of the same rights, and nothing else.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import anyio
import anyio.abc
import msgspec
from mcp.server.context import CallNext
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner
from starlette.types import Scope

from sealyard import __version__
from sealyard import yard as yards
from sealyard.broker.upstreams import mcp
from sealyard.config import Config
from sealyard.serve import relay  # its server is imported when one is built
from sealyard.serve.dialogue import Context, principal_of
from sealyard.serve.envelope import Refusal
from sealyard.serve.mcp import build_server
from sealyard.serve.skills_extension import client_name
from sealyard.values.access import Profile
from sealyard.values.tools import glob

if TYPE_CHECKING:  # what opens a yard takes longer to import than all of this, and is not needed to list the tools
    from sealyard.yard import Border, Yard

_log = logging.getLogger(__name__)

PATH = "/mcp"
_PROFILES = f"{PATH}/p/"
_ENTRANCE = "sealyard.entrance"
"""The key in a request's scope under which the gate stores its entrance."""
_QUERY = "codemode"
_QUERY_BYTES = 2_000  # decoded on the event loop: many times what a client needs
_WITHOUT, _WITH = ("false", "off", "0", "no"), ("true", "on", "1", "yes")
_NAME_CHARACTERS = 200  # of a client's name that are compared: names have a few dozen


class Entrance(msgspec.Struct, frozen=True):
    """The part of a URL that decides what a client gets."""

    profile: str = ""
    """Empty for none."""
    has_code_mode: bool = True
    """False if the client has a code mode of its own."""


def find_entrance(scope: Scope, profiles: Collection[str]) -> Entrance | None:
    """The entrance of a request for MCP, whose path becomes that of MCP; None for any other request.

    Raises:
        Refusal: It names none of these profiles, or a value of `codemode` that there is not.
    """
    path: str = scope["path"]
    is_profile = path.startswith(_PROFILES)
    if path != PATH and not is_profile:
        return None
    name = path.removeprefix(_PROFILES).removesuffix("/") if is_profile else ""
    if is_profile and name not in profiles:
        known = f"There are: {', '.join(profiles)}." if profiles else "The config has none."
        raise Refusal("not_found", f"There is no profile {name[:_NAME_CHARACTERS]!r}. {known}")
    entrance = Entrance(name, _has_code_mode(scope["query_string"]))
    scope["path"], scope["raw_path"], scope[_ENTRANCE] = PATH, PATH.encode(), entrance
    return entrance


def _has_code_mode(query: bytes) -> bool:
    if len(query) > _QUERY_BYTES:
        raise Refusal("invalid_request", f"The query has more than {_QUERY_BYTES:,} bytes. Leave out all but {_QUERY}.")
    given = {value.lower() for name, value in parse_qsl(query.decode("latin-1"), True) if name.lower() == _QUERY}
    if given <= {*_WITH}:
        return True
    if given <= {*_WITHOUT}:
        return False
    shown = " and ".join(repr(value[:_NAME_CHARACTERS]) for value in sorted(given)[:2])
    raise Refusal(
        "invalid_request",
        f"{_QUERY} is {shown}. Give one of {', '.join(_WITHOUT)} for the servers' own tools, or one of "
        f"{', '.join(_WITH)}, as without it, for the configured mode.",
    )


class _Face(msgspec.Struct, frozen=True):
    """One surface."""

    profile: str
    mode: str
    upstreams: tuple[str, ...] = ()
    """Those that a relay passes on. The others have no way into it."""


class Modes:
    """The modes that a config gives to its clients."""

    def __init__(self, config: Config, default: str) -> None:
        """`default` is for clients that nothing else gives a mode."""
        self.config = config
        self.default = default
        self._profiles = config.narrowings()
        self._scopes = config.http.scopes()
        self._clients = [(glob(pattern), mode) for pattern, mode in config.surface.clients.items()]

    @property
    def all(self) -> set[str]:
        """Every mode that a client may get without asking for it."""
        profiles = (each.mode for each in self._profiles.values())
        scopes = (each.mode for each in self._scopes.values())
        clients = (mode for _, mode in self._clients)
        return {self.default, *(mode for mode in (*profiles, *scopes, *clients) if mode is not None)}

    @property
    def is_one(self) -> bool:
        """True if every client of one URL gets the same: neither its name nor its principal makes a difference."""
        policies = all("*" in rule.principals for rule in self.config.policy.rules)
        return len(self.all) == 1 and policies and all(each.upstreams is None for each in self._scopes.values())

    def of(self, entrance: Entrance, principal: str, client: str) -> str:
        """The mode of a client by the first rule that names one."""
        if not entrance.has_code_mode:
            return "proxy"
        for each in (self._profiles.get(entrance.profile), self._scopes.get(principal)):
            if each is not None and each.mode is not None:
                return each.mode
        name = client[:_NAME_CHARACTERS]
        return next((mode for fits, mode in self._clients if fits(name)), self.default)

    def build_server(self, gateway: "Yard | Border | asyncio.Future[Yard]", *, profile: str = "") -> Server[Any]:
        """An MCP server that answers each client as the surface it gets.

        Over a border alone, `all` must be `proxy`. See `serve.mcp.build_server` for what a future of a yard does.
        `profile` is that of a client over standard input and output.
        """
        faces = _Faces(self, gateway, profile)
        server = relay.BulkServer(
            self.config.surface.name,
            version=__version__,
            lifespan=faces.lifespan,
            get_tool_input_schema=lambda name: None,  # each surface compares headers with arguments itself
        )
        server.middleware[:] = [faces.answer]  # type: ignore[list-item] # any awaitable will do
        return server


class _Faces:
    """Answers requests by the servers of the surfaces."""

    def __init__(self, modes: Modes, gateway: "Yard | Border | asyncio.Future[Yard]", profile: str) -> None:
        self._config = config = modes.config
        self._gateway = gateway
        self._modes = modes
        self._entrance = Entrance(profile)
        self._profiles = config.narrowings()
        self._scopes = config.http.scopes()
        self._reached: dict[tuple[str, str], tuple[str, ...]] = {}
        """The upstreams of a relay by profile and principal."""
        self._open: dict[_Face, tuple[Server[Any], Any]] = {}
        """Servers that run, each with what its lifespan gave."""
        self._opening = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup

    @asynccontextmanager
    async def lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """While open, surfaces are made as clients come; they end with it."""
        async with anyio.create_task_group() as self._tasks:
            try:
                # The bills of programs at `/api/v1` have the cost of the default, so it is there from the start.
                if self._modes.default != "proxy" and not self._entrance.profile:
                    await self._opened(_Face("", self._modes.default))
                yield
            finally:
                self._tasks.cancel_scope.cancel()
                self._open.clear()

    def answer(self, ctx: Context, call_next: CallNext) -> Awaitable[Any]:
        """Have the surface of a message answer it, with no frame of ours around it once that surface is there."""
        face = self._find_face(ctx)
        known = None if face is None else self._open.get(face)
        return self._answer_first(ctx) if known is None else _passed_on(ctx, *known)

    async def _answer_first(self, ctx: Context) -> Any:
        face = self._find_face(ctx)
        if face is None:
            await self._reach(self._entrance_of(ctx).profile, principal_of(ctx))
            face = self._find_face(ctx)
            assert face is not None
        return await _passed_on(ctx, *await self._opened(face))

    async def _opened(self, face: _Face) -> tuple[Server[Any], Any]:
        async with self._opening:
            if face not in self._open:
                server = await self._relay(face) if face.mode == "proxy" else self._make(face)
                self._open[face] = server, await self._tasks.start(_keep, server)
        return self._open[face]

    def _entrance_of(self, ctx: Context) -> Entrance:
        found: Entrance = self._entrance if ctx.request is None else ctx.request.scope.get(_ENTRANCE, self._entrance)
        return found

    def _find_face(self, ctx: Context) -> _Face | None:
        """The surface that a message is for; None while the upstreams of a relay are not known."""
        entrance, principal = self._entrance_of(ctx), principal_of(ctx)
        mode = self._modes.of(entrance, principal, client_name(ctx))
        upstreams = self._reached.get((entrance.profile, principal)) if mode == "proxy" else ()
        return None if upstreams is None else _Face(entrance.profile, mode, upstreams)

    async def _reach(self, profile: str, principal: str) -> None:
        """Find the upstreams that a principal may use through a profile.

        One whose tools the policy always denies is none of them, so that its resources and prompts are no way around;
        one that has not listed its tools yet is, and `Border.reaches` holds it back until it has. They are found once:
        connections of a relay last, and the names in theirs must not change under them.
        """
        narrowing = [self._profiles.get(profile), self._scopes.get(principal)]
        names = [
            name
            for name, upstream in self._config.upstreams.items()
            if upstream.transport != "python" and all(each is None or each.has(name) for each in narrowing)
        ]
        opened = await self._opened_gateway()
        if isinstance(opened, yards.Yard):
            await opened.snapshot(principal)
            tools = opened.tools
            seen = tools.views.servers(names, tools.catalog.snapshot, principal)
            names = [name for name in names if name in seen]
        self._reached.setdefault((profile, principal), tuple(names))  # another request may have been here first

    async def _opened_gateway(self) -> "Yard | Border":
        whole = self._gateway
        return await asyncio.shield(whole) if isinstance(whole, asyncio.Future) else whole

    async def _relay(self, face: _Face) -> Server[Any]:
        config, profile = self._config, self._profiles.get(face.profile)
        opened = await self._opened_gateway()
        border = opened.border(profile) if isinstance(opened, yards.Yard) else opened
        if functions := [name for name, each in config.upstreams.items() if each.transport == "python"]:
            _log.warning(
                "Clients in the mode proxy do not see %s: functions are no MCP server, whose messages could be passed "
                "on. Use another mode for them.",
                ", ".join(functions),
            )
        if len(face.upstreams) < len(config.upstreams):  # it cannot tell which names of the config fit nothing
            border = msgspec.structs.replace(border, names=None)
        return relay.build_relay(
            {name: config.upstreams[name] for name in face.upstreams},
            border,
            connect=partial(mcp.open_transport, token_folder=config.store.path.parent / "oauth"),
            name=config.surface.name,
            place="" if profile is None else profile.place,
            is_same_for_all=self._modes.is_one,
            is_shared=bool(self._scopes),
        )

    def _make(self, face: _Face) -> Server[Any]:
        surface, profile = self._config.surface, self._profiles.get(face.profile)
        if profile is not None and profile.direct is not None:
            surface = msgspec.structs.replace(surface, direct=profile.direct)
        is_own = profile is None and face.mode == self._modes.default
        yard: Any = self._gateway if is_own else self._beside(profile)
        return build_server(yard, surface, mode=face.mode, ask_seconds=self._config.policy.ask_seconds)

    def _beside(self, profile: Profile | None) -> "Yard | asyncio.Future[Yard]":
        whole: Any = self._gateway
        if not isinstance(whole, asyncio.Future):
            part: Yard = whole.beside(profile)
            return part
        beside: asyncio.Future[Yard] = asyncio.get_running_loop().create_future()

        def settle(opened: "asyncio.Future[Yard]") -> None:
            if not opened.cancelled() and opened.exception() is None:
                beside.set_result(opened.result().beside(profile))

        whole.add_done_callback(settle)
        return beside


async def _keep(server: Server[Any], *, task_status: anyio.abc.TaskStatus[Any]) -> None:
    """Keep a server's lifespan open in a task of its own: it is closed where it was opened."""
    async with server.lifespan(server) as state:
        task_status.started(state)
        await anyio.sleep_forever()


def _passed_on(ctx: Context, server: Server[Any], state: Any) -> Awaitable[Any]:
    """The answer of a server to a message, on the connection and the channel that it came by."""
    # The SDK keeps both there, and gives middleware no way to them.
    runner = ServerRunner(server, ctx.session._connection, state)  # noqa: SLF001
    pass_on: Callable[..., Awaitable[Any]] = runner.on_notify if ctx.request_id is None else runner.on_request
    return pass_on(ctx.session._request_outbound, ctx.method, ctx.params)  # noqa: SLF001
