"""Builds the parts of the gateway in the order of their dependencies, and closes them in reverse.

Their imports take longer than their making; `opening` begins with what can be under way meanwhile.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sealyard import __version__
from sealyard.access import Finder, Guards, NameCheck, Runner, Tools, Views
from sealyard.broker import Approvals, Broker
from sealyard.broker.policy import Policy, Preset
from sealyard.broker.upstreams import ToolServer, python
from sealyard.broker.upstreams.mcp import Dormant
from sealyard.catalog import Catalog, DriftWatch
from sealyard.config import Config
from sealyard.discovery import Semantic
from sealyard.former import ARGUMENT_DIGESTS
from sealyard.learning import Guidance, KnownSkills
from sealyard.metrics import Prices, Tracing, open_tracing, tokens
from sealyard.observe import Observer, Recorder, Sink, Upkeep
from sealyard.observe.health import Alerting, Readiness
from sealyard.offload import Offload
from sealyard.privacy import Privacy
from sealyard.privacy.vault import KeyPlace, Vault
from sealyard.skills import Skills
from sealyard.store import Store, open_store
from sealyard.values.access import AuditEntry
from sealyard.values.tools import Definition, UpstreamConfig
from sealyard.yard.opening import Begun, begin, build_privacy
from sealyard.yard.operations import Figures, Operations
from sealyard.yard.yard import Border, Yard

_log = logging.getLogger(__name__)

_CHANGES_NAMED = 5
"""Tools that one log line names, because a server may change ten thousand at once."""


async def assemble(
    config: Config,
    begun: Begun,
    stack: contextlib.AsyncExitStack,
    *,
    upstreams: Mapping[str, ToolServer],
    rules: Policy,
    sinks: Sequence[Sink],
) -> Yard:
    """The yard over what has `begun`; `stack` closes its parts. Raises errors as `open_yard` does."""
    privacy, scopes = build_privacy(config.privacy), config.http.scopes()
    store, library = begun.store, begun.library
    catalog = Catalog(store)
    servers: dict[str, ToolServer] = {}
    kept = await store.fingerprints()
    same = [name for name, each in config.upstreams.items() if kept.get(name) == _fingerprint(each)]
    await catalog.load([*same, *upstreams])  # the remembered tools of unchanged servers
    finder, names = Finder(catalog, library, servers), NameCheck(config)
    listing = _Listing(
        configs=config.upstreams,
        store=store,
        catalog=catalog,
        servers=servers,
        finder=finder,
        names=names,
        kept=kept,
    )
    for name, upstream in config.upstreams.items():
        if upstream.transport == "python":
            servers[name] = python.Functions(upstream, on_tools=listing.take)
        else:
            servers[name] = Dormant(upstream, servers, on_tools=listing.take, token_folder=begun.home / "oauth")
    for name, server in upstreams.items():
        server.on_tools = listing.take
        servers[name] = server
    stack.push_async_callback(_close_all, servers)
    stack.push_async_callback(finder.close)
    stack.push_async_callback(begun.close_sandbox)  # runs end before what they call does
    guards = await _open_guards(config, privacy, store, stack)
    observed = DriftWatch(catalog, store)
    await observed.load()
    stack.push_async_callback(observed.close)
    tracing = None
    if config.otel.endpoint is not None:
        tracing = stack.enter_context(await _open_tracing(config, config.otel.endpoint, guards))
    observer = Observer(
        store,
        drift=observed,
        tracing=tracing,
        domain_of=lambda principal: config.learning.domain_of(principal, scopes),
    )
    tools = Tools(
        catalog,
        finder,
        Views(rules, scopes),
        servers,
        observed,
        names,
        on_tools=listing.take,
        on_published=observer.published,
    )
    runner = Runner(
        begun.policy,
        levels=begun.levels,
        scopes=scopes,
        profiles=config.narrowings(),
        opening=begun.sandbox,
        slots=begun.slots,
        offload=guards.offload,
        result_tokens=config.surface.result_tokens,
    )
    yard = _connect(config, store, guards, rules, observer, tools, runner, sinks)
    stack.push_async_callback(yard.close)
    if begun.sandbox is not None:
        await _serve(config, rules, store, guards, stack)
        begin(stack, yard.operations.upkeep.run())
        begin(stack, yard.operations.alerting.watch())
        begin(stack, listing.check_names())
    if config.learning.enabled:
        begin(stack, yard.guidance.learner.watch())
    if config.discovery.semantic:
        begin(stack, _load_meaning(finder, store, config.discovery.vectors))
    for name in same:
        if config.upstreams[name].transport == "python":  # its module may have changed since
            finder.list_again(name)
    finder.start_listing()
    if begun.sandbox is not None:
        begin(stack, asyncio.to_thread(tokens.load))  # last: it would take the time of what is to be ready first
    return yard


def _connect(
    config: Config,
    store: Store,
    guards: Guards,
    rules: Policy,
    observer: Observer,
    tools: Tools,
    runner: Runner,
    sinks: Sequence[Sink],
) -> Yard:
    """The parts of the request path, each built from the parts before it."""
    broker = Broker(
        tools.upstreams,
        policy=rules,
        approvals=Approvals(
            store,
            config.policy,
            config.approval,
            find=guards.find,
            on_ask=observer.asked,
            on_answer=observer.answered,
            on_reveal=observer.revealed,
        ),
        store=store,
        digest=guards.digest,
        offload=guards.offload,
    )
    recorder = Recorder(store, broker, (*observer.sinks, *sinks))
    skills = Skills(
        config.skills,
        store=store,
        tools=tools,
        runner=runner,
        guards=guards,
        recorder=recorder,
        observer=observer,
    )
    guidance = Guidance(
        config.learning,
        store=store,
        tools=tools,
        runner=runner,
        approvals=broker.approvals,
        record=observer.record,
        skills=KnownSkills(store, tools, skills.loading),
    )
    upkeep = Upkeep(
        store,
        config.metrics,
        upstreams=tools.upstreams,
        circuits=broker.throttle.circuits,
        upstream_of=tools.upstream_of,
        record=observer.record,
        follow=guidance.follow,
    )
    readiness = Readiness(store, config.store.path, runner.opening)
    figures = Figures(
        prices=Prices(input=config.metrics.input_price, output=config.metrics.output_price),
        store=store,
        tools=tools,
        runner=runner,
        approvals=broker.approvals,
        live=observer.live,
        guidance=guidance,
        readiness=readiness,
        upkeep=upkeep,
    )
    alerting = Alerting(
        config.alerts,
        store,
        report=figures.report,
        statuses=tools.statuses,
        circuits=upkeep.open_circuits,
    )
    return Yard(
        store=store,
        guards=guards,
        observer=observer,
        recorder=recorder,
        tools=tools,
        runner=runner,
        skills=skills,
        guidance=guidance,
        operations=Operations(readiness=readiness, upkeep=upkeep, figures=figures, alerting=alerting),
    )


@dataclass(kw_only=True, eq=False)
class _Listing:
    """Updates the catalog with the tools that upstreams list. Tools of a former server of that name do not count."""

    configs: Mapping[str, UpstreamConfig]
    store: Store
    catalog: Catalog
    servers: Mapping[str, ToolServer]
    finder: Finder
    names: NameCheck
    kept: dict[str, str]
    """The fingerprints in the store."""
    is_complete: bool = False

    async def take(self, upstream: str, definitions: list[Definition]) -> None:
        """Update the catalog with the tools that `upstream` lists now."""
        config = self.configs.get(upstream)
        declared, source = self.servers[upstream].status().server, "" if config is None else _source(config)
        change = await self.catalog.update(upstream, definitions, declared=declared, source=source)
        mark = None if config is None else _fingerprint(config)
        if mark is not None and self.kept.get(upstream) != mark:
            self.kept[upstream] = mark
            await self.store.save_fingerprint(upstream, mark)
        self.finder.note_listed(upstream)
        if change.changed:
            more = len(change.changed) - _CHANGES_NAMED
            names = ", ".join(change.changed[:_CHANGES_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            _log.warning("The definition of %s changed. Look at it: sealyard tools --status.", names)
        if self.is_complete:
            await self._log_names()

    async def check_names(self) -> None:
        """Log names of the config that match no tool, after the first listing of all servers and at each later one."""
        await self.finder.listed()
        await self._log_names()
        self.is_complete = True

    async def _log_names(self) -> None:
        await self.names.log(self.catalog.snapshot, self.finder.unlisted(), self.finder.idle_patterns())


@contextlib.asynccontextmanager
async def open_border(config: Config, *, preset: Preset = "open") -> AsyncIterator[Border]:
    """The border of the config, over its store. Takes `preset` and raises errors like `open_yard`."""
    policy = Policy(config.policy, preset=config.policy.preset or preset, trusted=config.trusted)
    privacy = build_privacy(config.privacy)
    async with open_store(config.store.path) as store, contextlib.AsyncExitStack() as stack:
        guards = await _open_guards(config, privacy, store, stack)
        await _serve(config, policy, store, guards, stack)
        approvals = Approvals(store, config.policy, config.approval, find=guards.find)
        broker = Broker({}, policy=policy, approvals=approvals, store=store, digest=guards.digest)
        upkeep = Upkeep(store, config.metrics, record=store.metrics.record)
        begin(stack, upkeep.run())
        yield Border(
            guards=guards,
            policy=policy,
            approvals=approvals,
            broker=broker,
            recorder=Recorder(store, broker),
            store=store,
            begin=lambda principal: None,
            reaches=lambda upstream, principal: True,  # without a catalog, only single tools can be hidden
            names=NameCheck(config),
            readiness=Readiness(store, config.store.path, None),
        )


async def _open_guards(config: Config, privacy: Privacy, store: Store, stack: contextlib.AsyncExitStack) -> Guards:
    settings = config.privacy
    folder = (await asyncio.to_thread(config.store.path.resolve)).parent  # where the store's own files lie
    load = KeyPlace(settings.key, folder=folder, environment_value=settings.vault_key).load
    keys = await asyncio.to_thread(load)
    vault = None
    if not privacy.is_off:
        vault = Vault(keys, store.vault, expires_seconds=settings.expires_seconds, reload_keys=load)
    secret = hmac.digest(keys.all()[0], ARGUMENT_DIGESTS, "sha256")
    offload = Offload()
    stack.push_async_callback(offload.close)
    return Guards(privacy, vault, scope=settings.scope, secret=secret, offload=offload)


async def _open_tracing(config: Config, endpoint: str, guards: Guards) -> contextlib.AbstractContextManager[Tracing]:
    log = await guards.of("log")
    return open_tracing(
        endpoint,
        headers=config.otel.headers,
        service_name=config.otel.service_name,
        version=__version__,
        conceal=log.conceal,
    )


async def _serve(config: Config, rules: Policy, store: Store, guards: Guards, stack: contextlib.AsyncExitStack) -> None:
    """Record start and stop in the audit log, and expire values of the vault in between."""
    await _record_start(config, rules, store)
    stack.callback(store.audit, AuditEntry(kind="gateway.stop", principal="local"))
    begin(stack, guards.expire())


async def _record_start(config: Config, rules: Policy, store: Store) -> None:
    """Record the start of this gateway with its rules, and a change of the rules since the last start."""
    public = msgspec.structs.replace(config.privacy, vault_key=None)
    encoded = msgspec.json.encode([rules.preset, config.policy, public, sorted(config.trusted)], order="sorted")
    body: dict[str, Any] = {
        "version": __version__,
        "preset": rules.preset,
        "privacy": config.privacy.mode,
        "rules_sha256": hashlib.sha256(encoded).hexdigest(),
    }
    last = await store.audit_entries(limit=1, kind="gateway.start")
    store.audit(AuditEntry(kind="gateway.start", principal="local", body=body))
    if last and last[0].body.get("rules_sha256") != body["rules_sha256"]:
        rules_body = {
            "preset": rules.preset,
            "policy": msgspec.to_builtins(config.policy),
            "privacy": msgspec.to_builtins(public),
        }
        store.audit(AuditEntry(kind="policy.change", principal="local", body=rules_body))


def _fingerprint(upstream: UpstreamConfig) -> str:
    """Identifies the selected tools of a server: a listing made with another selection does not apply."""
    return _digest(_source(upstream), *(upstream.tools or ("*",)), "without", *upstream.without_tools)


def _source(upstream: UpstreamConfig) -> str:
    """Identifies a server by its command or address, without parts that may change between two starts."""
    parts = (upstream.command or "", *upstream.args, upstream.cwd or "", upstream.url or upstream.module or "")
    return _digest(upstream.transport, *parts)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


async def _load_meaning(finder: Finder, store: Store, folder: str | None) -> None:
    """Load the encoder, which takes a moment. Until then, searches rank by words."""
    meaning = await asyncio.to_thread(Semantic.load, store, folder=Path(folder) if folder else None)
    if meaning is not None:
        finder.use_meaning(meaning)


async def _close_all(servers: Mapping[str, ToolServer]) -> None:
    """Close all concurrently, so that one slow server delays only itself."""
    await asyncio.gather(*(server.close() for server in servers.values()))
