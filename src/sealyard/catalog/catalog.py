"""The tools of all upstreams with their names and versions, and warnings of changed definitions.

A listing becomes visible when it is on disk, as a new `Snapshot`; older snapshots never change.
"""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from sealyard.catalog.history import observe, read_listing
from sealyard.catalog.shapes.places import LearnedShape
from sealyard.catalog.snapshot import Snapshot
from sealyard.errors import StoreError
from sealyard.store import LastRelease, Release, Store
from sealyard.values.changes import Comparison
from sealyard.values.documents import MOST_DEPTH, is_too_deep, signs_of
from sealyard.values.naming import assign, full_name, function_name, identifier, tool_part, upstream_part
from sealyard.values.tools import Definition, ToolSpec
from sealyard.wording import one_line

_DEFINITION_BYTES = 256 << 10  # a definition has a few kB; a larger one would fill a context by itself
_WARNINGS = 100  # kept of one upstream, the last: a bound on memory
_RECALLED_SECONDS = 30 * 86_400  # a change a month ago is no news
_ATTEMPTS = 20  # each fails only if another gateway stored a change meanwhile
_DECLARED_CHARACTERS = 200  # of a version that a server declares; those in use have a dozen
_DEFINED = ("title", "description", "input_schema", "output_schema", "annotations")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The changes by a listing, by full names. It is false if there are none."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Tools with another definition than before, or with other observed answers."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


Subscriber = Callable[[Snapshot, Change], None]


class Catalog:
    """The tools of all upstreams."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshot = Snapshot({})
        self._shapes: Mapping[str, LearnedShape] = {}
        self._modules: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        self._warnings: dict[str, deque[str]] = {}
        self._subscribers: list[Subscriber] = []
        self._updating = asyncio.Lock()

    @property
    def snapshot(self) -> Snapshot:
        """All tools as they are now."""
        return self._snapshot

    def use_shapes(self, shapes: Mapping[str, LearnedShape]) -> Snapshot:
        """Use learned shapes of answers in stubs, by full name: a new snapshot of the same tools.

        Its `version` stays, so nothing is indexed again; its stubs have to be published.
        """
        self._shapes = dict(shapes)
        self._snapshot = Snapshot(self._snapshot.by_upstream, self._shapes)
        return self._snapshot

    def changes_of(self, upstream: str) -> tuple[str, ...]:
        """Warnings about the definitions of an upstream for an operator, the newest last."""
        return tuple(self._warnings.get(upstream, ()))

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each new snapshot and its changes; the returned function ends that."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def load(self, upstreams: Iterable[str] | None = None) -> Snapshot:
        """Load the stored tools of `upstreams`, and forget all others; `None` keeps every one."""
        async with self._updating:
            known = await self._store.load_tools()
            wanted = set(known) if upstreams is None else set(upstreams)
            forgotten = known.keys() - wanted
            if forgotten:
                await self._store.drop_tools(sorted(forgotten))
            kept = {upstream: tuple(specs) for upstream, specs in known.items() if upstream in wanted}
            first = {upstream: specs[0] for upstream, specs in kept.items() if specs}
            self._modules = {upstream: spec.module for upstream, spec in first.items()}
            self._prefixes = {upstream: spec.full_name.split("__")[1] for upstream, spec in first.items()}
            self._name_upstreams(wanted)
            self._snapshot = Snapshot(kept, self._shapes)
            await self._recall_changes()
            return self._snapshot

    async def _recall_changes(self) -> None:
        """Repeat the warnings of recent changes, for operators who missed them."""
        known = {(spec.upstream, spec.name, spec.digest): spec.full_name for spec in self._snapshot.tools.values()}
        for change in await self._store.changes(since=time.time() - _RECALLED_SECONDS):
            name = known.get((change.upstream, change.name, change.after))
            if name is not None:
                day = time.strftime("%Y-%m-%d", time.gmtime(change.changed_at))
                warning = f"The definition of {name} changed on {day} ({_marks(change.before, change.after)})."
                self._warn(change.upstream, [warning])

    async def update(
        self,
        upstream: str,
        definitions: Sequence[Definition],
        *,
        declared: str | None = None,
        declared_tools: Mapping[str, str] | None = None,
        source: str = "",
    ) -> Change:
        """Replace the tools of `upstream` by a listing, stored before it is visible. An unchanged one costs little.

        A definition that cannot be stored, is too deep or over 256 KiB, is left out with a warning; of two tools with
        the same name the first counts. `declared` is the version that the upstream states for itself, `declared_tools`
        the versions of its tools, and `source` a digest of the connection: each change records them.

        Raises:
            StoreError: It could not be stored; the catalog is as before.
        """
        async with self._updating:
            before = {spec.name: spec for spec in self._snapshot.by_upstream.get(upstream, ())}
            digests, listed, warnings = await asyncio.to_thread(_read, definitions)
            same = {name: spec for name, spec in before.items() if digests.get(name) == spec.digest}
            if len(same) == len(before) == len(digests):
                self._warn(upstream, warnings)
                return Change()
            self._name_upstreams({upstream})
            # There may be thousands of them, so slow work runs in a thread.
            fresh = await asyncio.to_thread(self._specs, upstream, before, listed, digests)
            fresh = [same.get(spec.name, spec) for spec in fresh]
            stated = {**dict.fromkeys(digests, declared or ""), **(declared_tools or {})}
            versions = {name: one_line(text, limit=_DECLARED_CHARACTERS) for name, text in stated.items() if text}

            def make(last: dict[str, LastRelease]) -> tuple[list[ToolSpec], list[Release]]:
                return read_listing(fresh, last, declared=versions, source=source, at=time.time())

            specs, last = await self._save(upstream, digests, make)
            change = await asyncio.to_thread(_compare, before.values(), specs)
            self._warn(upstream, warnings + await asyncio.to_thread(_suspicions, before, specs, last, source))
            self._snapshot = await asyncio.to_thread(
                _snapshot, {**self._snapshot.by_upstream, upstream: specs}, self._shapes
            )
        self._notify(change)
        return change

    async def observe(self, spec: ToolSpec, comparison: Comparison) -> ToolSpec | None:
        """Give a tool the version for a change of its answers. It is stored before it is visible.

        None if the tool has changed since `spec` was taken from the catalog.

        Raises:
            StoreError: It could not be stored; the catalog is as before.
        """
        async with self._updating:
            if self._snapshot.tools.get(spec.full_name) != spec:
                return None
            every = self._snapshot.by_upstream[spec.upstream]

            def make(last: dict[str, LastRelease]) -> tuple[list[ToolSpec], list[Release]]:
                was = last.get(spec.name)
                if was is None or was.is_gone or was.digest != spec.digest:
                    return list(every), []
                # Another gateway of this store may have seen it first.
                made = [observe(spec, was, comparison, at=time.time())] if was.version == spec.version else []
                version = made[0].version if made else was.version
                new = msgspec.structs.replace(spec, version=version)
                return [new if each.name == spec.name else each for each in every], made

            specs, _ = await self._save(spec.upstream, {each.name: each.digest for each in every}, make)
            if spec in specs:
                return None
            self._warn(spec.upstream, [f"The answers of {spec.full_name} changed, and its definition did not."])
            self._snapshot = Snapshot({**self._snapshot.by_upstream, spec.upstream: specs}, self._shapes)
        self._notify(Change(changed=(spec.full_name,)))
        return self._snapshot.tools.get(spec.full_name)

    async def _save(
        self,
        upstream: str,
        digests: Mapping[str, str],
        make: Callable[[dict[str, LastRelease]], tuple[list[ToolSpec], list[Release]]],
    ) -> tuple[list[ToolSpec], dict[str, LastRelease]]:
        """Store the releases that `make` derives from the history; repeat it if another gateway adds to the history."""
        for _ in range(_ATTEMPTS):
            last = await self._store.releases.last(upstream, digests)
            specs, releases = await asyncio.to_thread(make, last)
            if await self._store.save_tools(upstream, specs, releases=releases):
                return specs, last
        raise StoreError(
            f"The tools of {upstream!r} could not be stored: other gateways change them all the time."
            " Give each gateway a store of its own, or the same servers."
        )

    def _notify(self, change: Change) -> None:
        for callback in tuple(self._subscribers):
            callback(self._snapshot, change)

    def _name_upstreams(self, upstreams: set[str]) -> None:
        every = upstreams | self._modules.keys()
        if every != self._modules.keys():
            self._modules = assign(every, lambda name: identifier(name, fallback="server"), kept=self._modules)
            self._prefixes = assign(every, upstream_part, kept=self._prefixes)

    def _specs(
        self, upstream: str, before: dict[str, ToolSpec], listed: dict[str, Definition], digests: dict[str, str]
    ) -> list[ToolSpec]:
        prefix = self._prefixes[upstream]
        start = len(full_name(prefix, ""))
        parts = assign(
            listed,
            lambda name: tool_part(name, upstream=prefix),
            kept={name: spec.full_name[start:] for name, spec in before.items()},
        )
        functions = assign(listed, function_name, kept={name: spec.function for name, spec in before.items()})
        return [
            ToolSpec(
                upstream=upstream,
                name=name,
                full_name=full_name(prefix, parts[name]),
                module=self._modules[upstream],
                function=functions[name],
                digest=digests[name],
                **{field: getattr(definition, field) for field in _DEFINED},
            )
            for name, definition in listed.items()
        ]

    def _warn(self, upstream: str, warnings: list[str]) -> None:
        kept = self._warnings.setdefault(upstream, deque(maxlen=_WARNINGS))
        kept.extend(warning for warning in warnings if warning not in kept)


def _snapshot(by_upstream: Mapping[str, Sequence[ToolSpec]], shapes: Mapping[str, LearnedShape]) -> Snapshot:
    """A snapshot with a known version: computing that of ten thousand tools is slow."""
    made = Snapshot(by_upstream, shapes)
    _ = made.version, made.stubs_version
    return made


def _read(definitions: Sequence[Definition]) -> tuple[dict[str, str], dict[str, Definition], list[str]]:
    """The digests and definitions by name, and a warning for each that cannot be used."""
    digests: dict[str, str] = {}
    listed: dict[str, Definition] = {}
    warnings = []
    for definition in definitions:
        if definition.name in digests:
            continue
        schemas = [definition.input_schema, definition.output_schema]
        try:
            canonical = msgspec.json.encode(definition, order="sorted")
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            reason = f"it cannot be written as JSON ({type(error).__name__})"
        else:
            if len(canonical) > _DEFINITION_BYTES:
                reason = f"its definition has {len(canonical)} bytes, more than {_DEFINITION_BYTES}"
            elif signs_of(canonical) > MOST_DEPTH and is_too_deep(schemas):
                reason = f"its schema has more than {MOST_DEPTH} levels"
            else:
                digests[definition.name] = hashlib.sha256(canonical).hexdigest()
                listed[definition.name] = definition
                continue
        warnings.append(f"The tool {one_line(definition.name, limit=80)!r} was left out: {reason}.")
    return digests, listed, warnings


def _suspicions(
    before: Mapping[str, ToolSpec], specs: list[ToolSpec], last: Mapping[str, LastRelease], source: str
) -> list[str]:
    """A warning for each tool with a changed definition."""
    found = []
    for spec in specs:
        known = before.get(spec.name)
        was = last.get(spec.name)
        if known is not None and known.digest != spec.digest:
            fields = [field for field in _DEFINED if getattr(known, field) != getattr(spec, field)]
            where = f"{', '.join(fields)}, " if fields else ""
            found.append(f"The definition of {spec.full_name} changed ({where}{_marks(known.digest, spec.digest)}).")
        elif known is None and was is not None and was.digest != spec.digest and was.source in ("", source):
            marks = _marks(was.digest, spec.digest)
            found.append(f"{spec.full_name} was taken away and came back with another definition ({marks}).")
    return found


def _compare(before: Iterable[ToolSpec], after: Iterable[ToolSpec]) -> Change:
    known, listed = ({spec.full_name: spec.digest for spec in specs} for specs in (before, after))
    return Change(
        added=tuple(name for name in listed if name not in known),
        removed=tuple(name for name in known if name not in listed),
        changed=tuple(name for name, digest in listed.items() if known.get(name, digest) != digest),
    )


def _marks(before: str, after: str) -> str:
    return f"{before[:12]} is now {after[:12]}"
