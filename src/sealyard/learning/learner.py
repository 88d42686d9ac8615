"""Learns from the journal in the background, and holds the model that requests query.

Pages are read and prepared in threads; the event loop learns for a few milliseconds at a time. Each part of the model
learns separately, and a failure of one reaches neither another part nor a request: there is always a model, possibly an
empty one. The same lessons in the same order make the same bytes.
"""

import asyncio
import functools
import hashlib
import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from sealyard import __version__
from sealyard.config.settings import LearningConfig
from sealyard.errors import InvalidRequest, StoreError
from sealyard.learning.causes import prepare_cause
from sealyard.learning.chains import Chains
from sealyard.learning.failures import Failures
from sealyard.learning.part import (
    MAX_ITEMS,
    Insight,
    Lesson,
    Part,
    PartInsights,
    Viewer,
    fact_of,
    merged,
    put_last,
    touch,
)
from sealyard.learning.prints import code_print
from sealyard.learning.ranking import Ranking
from sealyard.learning.resources import Resources
from sealyard.learning.risk import RiskModel
from sealyard.learning.shapes import Shapes, prepare_answers
from sealyard.learning.skills import Candidate, SkillMemory
from sealyard.store import Store
from sealyard.values.access import AuditEntry
from sealyard.values.facts import Executed, Forgotten, Hinted, LearningEvent, RunEvidence, Searched, Used
from sealyard.values.naming import spelled
from sealyard.wording import suggest

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_REST_SECONDS = 0.25  # longest pause after preparing a run, so that one slow run does not stop learning
SLICE_SECONDS = 0.004  # time on the event loop before other tasks get a turn
_ENTRIES = 32  # entries of a table encoded at once, to keep within the slice
_PACKING = 1  # zlib's fastest level
_UNPACKED_BYTES = 512 << 20  # largest saved model: a bound against a stored zip bomb
_PRINCIPALS = 1_000  # principals whose domain is remembered, the most recent: a bound
PARTITIONS = 64  # principals or domains that learn separately, the most recent: a bound
REBUILD_FACTS = 200_000  # newest facts from which everything is learned anew: a bound on the time of a start
_EVERY_SECONDS = 2.0  # pause between two readings of the journal
_SAVE_SECONDS = 300.0  # pause between two saves; after a crash that much is learned again
_PAGE_FACTS = 500  # facts read at once: a bound on memory
_DAY = 86_400.0  # seconds
_SUBJECT_CHARACTERS = 200  # of a subject to forget, as it is logged and quoted: a bound
_MEANT = 3  # tools of one name that an error lists

_log = logging.getLogger(__name__)

# Lessons

_T = TypeVar("_T")
_failures: Counter[str] = Counter()


def prepare_all(
    events: Iterable[tuple[int, LearningEvent]], forgotten: Sequence[Forgotten] = (), *, rest: float = 0.0
) -> list[Lesson]:
    """The lessons of a page, for a thread.

    It pauses after each run for `rest` times the time spent on it, so that requests come first.
    """
    lessons = []
    for number, event in events:
        started = time.perf_counter()
        if not _is_forgotten(number, event, forgotten):
            lesson = without_forgotten(prepare(event, number), forgotten)
            if lesson is not None:
                lessons.append(lesson)
        if isinstance(event, RunEvidence):
            time.sleep(min(rest * (time.perf_counter() - started), _REST_SECONDS))
    return lessons


def prepare(event: LearningEvent, number: int = 0) -> Lesson:
    """The lesson of an event."""
    faults: list[str] = []
    if not isinstance(event, RunEvidence):
        return Lesson(number=number, event=event)
    run = event
    code = _try("code", faults, lambda: code_print(run.code) if run.code else None, None)
    return Lesson(
        number=number,
        event=run,
        code=code,
        answers=_try("shapes", faults, lambda: prepare_answers(run), ()),
        cause=_try("failures", faults, lambda: prepare_cause(run), None),
        faults=tuple(faults),
    )


def _try(part: str, faults: list[str], work: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return work()
    except Exception:  # noqa: BLE001 - hostile code and answers: what one part stumbles over must not stop the others
        faults.append(part)
        _failures[part] += 1
        if _failures[part].bit_count() == 1:  # the first, the second, the fourth: not each of thousands
            _log.exception("A run could not be read for the part %s of learning (%d so far).", part, _failures[part])
        return otherwise


# Forgetting


def without_forgotten(lesson: Lesson, forgotten: Sequence[Forgotten]) -> Lesson | None:
    """A lesson without its forgotten content; None if nothing is left."""
    if _is_forgotten(lesson.number, lesson.event, forgotten):
        return None
    for each in forgotten:
        if each.what == "tool" and _is_before(lesson.number, lesson.event, each):
            if not isinstance(lesson.event, Searched):
                if _is_about(lesson, each.subject):
                    return None
            elif each.subject in lesson.event.found:
                lesson = msgspec.structs.replace(lesson, event=_without_hit(lesson.event, each.subject))
    return lesson


def _is_forgotten(number: int, event: LearningEvent, forgotten: Sequence[Forgotten]) -> bool:
    """True if the whole event is forgotten, regardless of its tools."""
    return any(
        _is_before(number, event, each)
        and (each.what == "all" or (each.what == "principal" and each.subject == fact_of(event).principal))
        for each in forgotten
    )


def _is_before(number: int, event: LearningEvent, forgotten: Forgotten) -> bool:
    """True if the event precedes the forgetting, by number, or by time if another gateway wrote it a moment later."""
    return number <= forgotten.number or fact_of(event).at < forgotten.at


def _is_about(lesson: Lesson, tool: str) -> bool:
    """True if it calls, imports or names a tool. A hint about a whole run names none."""
    match lesson.event:
        case Used(tool=name):
            return tool == name
        case Hinted(subject=subject):
            return tool in subject.split()
        case RunEvidence() as run:
            named = set() if lesson.code is None else set(map(spelled, lesson.code.tools))
            called = {*run.fact.tools, *(call.tool for call in run.calls)}
            return tool in called or spelled(tool) in named
    return False


def _without_hit(search: Searched, tool: str) -> Searched:
    places = [place for place, name in enumerate(search.found) if name != tool]
    return msgspec.structs.replace(
        search,
        found=tuple(search.found[place] for place in places),
        text_ranks=tuple(search.text_ranks[place] for place in places if place < len(search.text_ranks)),
    )


# The model

PARTS = ("ranking", "chains", "shapes", "failures", "risk", "skills", "resources")
"""The parts of a `Model`, in the order in which they are shown."""


class Domains(msgspec.Struct):
    """The configured domains of principals."""

    principals: dict[str, str] = {}
    """The most recent principals with their domains; empty for one without."""

    def note(self, lesson: Lesson) -> None:
        """Remember the principal of a search or run, with its domain."""
        fact = fact_of(lesson.event)
        if isinstance(fact, Searched | Executed):
            put_last(self.principals, fact.principal, fact.domain, _PRINCIPALS)


class Model(msgspec.Struct, kw_only=True):
    """Everything learned. Only the event loop's thread uses it."""

    ranking: Ranking = msgspec.field(default_factory=Ranking)
    chains: Chains = msgspec.field(default_factory=Chains)
    shapes: Shapes = msgspec.field(default_factory=Shapes)
    failures: Failures = msgspec.field(default_factory=Failures)
    risk: RiskModel = msgspec.field(default_factory=RiskModel)
    skills: SkillMemory = msgspec.field(default_factory=SkillMemory)
    resources: Resources = msgspec.field(default_factory=Resources)
    domains: Domains = msgspec.field(default_factory=Domains)
    faults: dict[str, int] = {}
    """The number of lessons that each part failed to learn."""

    def learn(self, lesson: Lesson, half_life: float) -> None:
        """Learn one lesson. A part that fails is counted; the others still learn it."""
        self.domains.note(lesson)
        for part in lesson.faults:
            self._note_fault(part)
        for name in PARTS:
            if name not in lesson.faults:
                self._teach(name, lesson, half_life)

    def _teach(self, name: str, lesson: Lesson, half_life: float) -> None:
        try:
            getattr(self, name).learn(lesson, half_life)
        except Exception:  # noqa: BLE001 - a broken part must neither stop nor falsify the others
            self._note_fault(name)
            if self.faults[name].bit_count() == 1:  # the first, the second, the fourth: not each of thousands
                _log.exception("The part %s of learning failed at an event (%d so far).", name, self.faults[name])

    def _note_fault(self, part: str) -> None:
        self.faults[part] = self.faults.get(part, 0) + 1

    def encode(self) -> bytes:
        """The whole model as bytes."""
        return msgspec.msgpack.encode(self)


def layout() -> str:
    """The key of a saved model's form: the version of sealyard and a digest of the structure."""
    described = msgspec.json.encode(msgspec.json.schema(Model), order="sorted")
    return f"{__version__}-{hashlib.blake2b(described, digest_size=8).hexdigest()}"


# Saving


class BrokenModels(Exception):
    """The bytes were not made by `pack`."""


async def pack(models: Mapping[str, Model]) -> bytes:
    """All models, by partition. They must not change meanwhile."""
    pieces = [_map_header(len(models))]
    until = time.perf_counter() + SLICE_SECONDS
    for name, model in models.items():
        pieces.append(msgspec.msgpack.encode(name))
        for piece in _pieces(model):
            pieces.append(piece)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE_SECONDS
    return await asyncio.to_thread(lambda: zlib.compress(b"".join(pieces), _PACKING))


def unpack(content: bytes) -> dict[str, Model]:
    """The models, in their order, for a thread. Raises `BrokenModels`."""
    try:
        unpacked = zlib.decompressobj().decompress(content, _UNPACKED_BYTES)
        return msgspec.msgpack.decode(unpacked, type=dict[str, Model])
    except (msgspec.MsgspecError, RecursionError, zlib.error) as error:
        raise BrokenModels(f"A saved model cannot be read: {error}.") from None


def _pieces(value: object) -> Iterator[bytes]:
    """The bytes of `msgspec.msgpack.encode`, in pieces."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        if not config.array_like and not config.omit_defaults and config.tag is None:
            yield _map_header(len(value.__struct_encode_fields__))
            for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
                yield msgspec.msgpack.encode(name)
                yield from _pieces(getattr(value, field))
            return
    if isinstance(value, dict) and len(value) > _ENTRIES:
        yield _map_header(len(value))
        entries = list(value.items())
        for start in range(0, len(entries), _ENTRIES):
            some = dict(entries[start : start + _ENTRIES])
            yield msgspec.msgpack.encode(some)[len(_map_header(len(some))) :]
    else:
        yield msgspec.msgpack.encode(value)


def _map_header(length: int) -> bytes:
    """The first bytes of a map in MessagePack."""
    if length < 1 << 4:
        return bytes([0x80 | length])
    return b"\xde" + length.to_bytes(2) if length < 1 << 16 else b"\xdf" + length.to_bytes(4)


# The learner

_What = Literal["tool", "principal", "all"]


class Insights(msgspec.Struct, frozen=True, kw_only=True):
    """The learned facts, their evidence and their accuracy, for people. Each list has at most fifty items."""

    enabled: bool
    scope: str
    half_life_days: float
    is_ready: bool
    """True if the whole journal has been learned."""
    facts: int
    """The number of the last learned fact of the journal."""
    partitions: list[str]
    """Principals or domains with a model of their own; an empty one for the shared model. At most 64."""
    parts: list[PartInsights]
    faults: dict[str, int] = {}
    """The failures of each part: lessons that it could not learn, and times that it was switched off for requests."""
    forgotten: list[Forgotten] = []
    """The newest first."""


class _State(msgspec.Struct):
    """The models, and the last fact that they were learned from."""

    models: dict[str, Model] = {}
    """By partition, the most recent last."""
    number: int = 0
    """The last fact."""

    def model_of(self, partition: str) -> Model:
        """The model of a partition that learns now."""
        return touch(self.models, partition, Model, PARTITIONS)


class Learner:
    """Learns from one store, with the fading and the sharing between principals that the configuration sets."""

    def __init__(self, store: Store, settings: LearningConfig, *, rest: float = 0.0) -> None:
        """`rest` is the length of the pause after preparing a run, as a multiple of the time spent."""
        self._store = store
        self._tables = store.learning
        self._settings = settings
        self._half_life = settings.half_life_days * _DAY
        self._scope = settings.scope
        self._rest = rest
        self._form = f"{layout()}-{self._scope}-{self._half_life:g}"
        self._busy = asyncio.Lock()
        self._state = _State()
        self._is_current = False
        """True if the state is current: it need be neither loaded nor rebuilt."""
        self._is_loaded = False
        self._forgotten: tuple[Forgotten, ...] = ()
        self._generation = -1
        """The number of the last known act of forgetting."""
        self._revision = 0
        self._saved_number = 0
        self._saved_at = time.monotonic()
        self.is_ready = False
        """True once everything is learned that the journal held at the start, or at the last act of forgetting."""

    @property
    def models(self) -> Mapping[str, Model]:
        """The models by partition: the principal, the domain, or empty for the one that all share."""
        return self._state.models

    @property
    def revision(self) -> int:
        """A number that changes whenever `model_for` may return something else."""
        return self._revision

    @property
    def number(self) -> int:
        """The number of the last learned fact."""
        return self._state.number

    # Queries by requests

    def viewer(self, principal: str) -> Viewer:
        """A principal at the present time."""
        return Viewer(principal, time.time(), self._half_life)

    def model_for(self, principal: str, domain: str = "") -> Model:
        """The model for a principal that works in `domain`, if known. Never fails; the model may be empty."""
        models = self._state.models
        if self._scope == "domain":
            everything = models.get("", Model())
            return models.get(domain or everything.domains.principals.get(principal, ""), everything)
        return models.get(principal if self._scope == "principal" else "", Model())

    # Queries by people

    async def insights(
        self, principal: str | None = None, *, domain: str = "", faults: Mapping[str, int] | None = None
    ) -> Insights:
        """The insights of all models, or of the model of one principal, which works in `domain` if that is known.

        `faults` are the times that each part was switched off for requests. Raises `StoreError`.
        """
        forgotten = await self._tables.forgotten() if principal is None else []
        source = self._sources(principal, domain)
        counted = Counter(faults or {})
        for model in source.values():
            counted.update(model.faults)
        return Insights(
            enabled=self._settings.enabled,
            scope=self._scope,
            half_life_days=self._settings.half_life_days,
            is_ready=self.is_ready,
            facts=self.number,
            partitions=sorted(self.models if principal is None else source),
            parts=await self.census(principal, domain=domain),
            faults=dict(counted),
            forgotten=forgotten[: -MAX_ITEMS - 1 : -1],
        )

    async def census(self, principal: str | None = None, *, domain: str = "") -> list[PartInsights]:
        """The record of each part, from all models or from that of a principal. Other requests run in between.

        A part that fails is left out.
        """
        models = list(self._sources(principal, domain).values())
        return [merged(part, await self._insights(part, models)) for part in PARTS]

    async def _insights(self, name: str, models: Iterable[Model]) -> list[PartInsights]:
        found, viewer, until = [], self.viewer(""), time.perf_counter() + SLICE_SECONDS
        for model in models:
            try:
                part: Part = getattr(model, name)
                items: list[Insight] = []
                for item in part.items(viewer):
                    items += [] if item is None else [item]
                    if time.perf_counter() > until:
                        await asyncio.sleep(0)
                        until = time.perf_counter() + SLICE_SECONDS
                found.append(part.summary(items))
            except Exception:  # noqa: BLE001 - a broken part must not hide the others
                _log.exception("The insights of %s could not be read.", name)
        return found

    def candidates(self) -> list[Candidate]:
        """Code of all principals that is worth saving, that which ran most often first."""
        viewer, models = self.viewer(""), self._sources().values()
        found = {(each.principal, each.mark): each for model in models for each in model.skills.candidates(viewer)}
        return sorted(found.values(), key=lambda each: (-each.times, -each.last_at, each.principal, each.mark))

    def _sources(self, principal: str | None = None, domain: str = "") -> dict[str, Model]:
        """The models that apply, by partition, without duplicates."""
        models = dict(self.models)
        if principal is not None:
            source = self.model_for(principal, domain)
            return {name: model for name, model in models.items() if model is source}
        return {"": models[""]} if "" in models else models  # the shared model includes those of all domains

    # Learning

    async def watch(self) -> None:
        """Learn for as long as the gateway lives. An error ends only its own round."""
        while True:
            try:
                await self.once()
                if time.monotonic() - self._saved_at > _SAVE_SECONDS:
                    await self.save()
            except StoreError as error:
                _log.error("Reading the journal failed; it is retried: %s", error)
            except Exception:  # noqa: BLE001 - else nothing would be learned until the next start
                _log.exception("Learning from the journal failed, and is tried again.")
            await asyncio.sleep(_EVERY_SECONDS)

    async def once(self) -> int:
        """Learn the new facts and return the number of lessons. Raises `StoreError`."""
        await self._catch_up()
        async with self._busy:
            if not self._is_loaded:
                await self._load()
            count = await self._follow(self._state) if self._is_current else None
            return await self._start_anew() if count is None else count

    async def rebuild(self) -> None:
        """Learn everything again from the newest facts. The present models serve meanwhile. Raises `StoreError`."""
        async with self._busy:
            self._is_loaded = True
            await self._start_anew()
            await self._save()

    async def forget(self, what: _What, subject: str = "") -> Forgotten:
        """Forget a tool, a principal or everything: durably, and here at once. `once` learns the rest again.

        Raises:
            InvalidRequest: There is no such kind of thing, or no subject.
            StoreError: It could not be written.
        """
        await self._catch_up()
        forgotten = await self._tables.forget(what, subject, time.time())
        self._drop([forgotten])
        return forgotten

    async def forget_named(self, subject: str, *, principal: str) -> Forgotten:
        """Forget everything learned about a tool, a principal, or all of it, as `forget`.

        `subject` is `ALL`, the name of a tool or of a principal; `tool:NAME` and `principal:NAME` state which. The
        audit log names `principal` as requester.

        Raises:
            InvalidRequest: Nothing is known by this name, or it can mean several things.
            StoreError: It could not be written.
        """
        what, name = await self._resolve(subject.strip())
        forgotten = await self.forget(what, name)
        body = {"what": what, "subject": name}
        self._store.audit(AuditEntry(kind="learning.forget", principal=principal, body=body))
        await self._store.flush()
        return forgotten

    async def _resolve(self, subject: str) -> tuple[_What, str]:
        if subject == "ALL":
            return "all", ""
        kind, _, rest = subject.partition(":")
        meant, named = (kind, rest) if kind in ("tool", "principal") and rest else ("", subject)
        if not named:
            raise InvalidRequest("There is no name to forget. Give the name of a tool or of a principal, or ALL.")
        tools, principals = await self._tables.known()
        found = _find_tools(named, tools) if meant != "principal" else []
        is_principal = meant != "tool" and named in principals
        if found and is_principal:
            raise InvalidRequest(f"{named!r} is a tool and a principal. Write 'tool:{named}' or 'principal:{named}'.")
        if len(found) > 1:
            raise InvalidRequest(f"{named!r} can be {' or '.join(map(repr, found[:_MEANT]))}. Give the full name.")
        if found or is_principal:
            return ("tool", found[0]) if found else ("principal", named)
        known = [*(tools if meant != "principal" else ()), *(principals if meant != "tool" else ())]
        shown = named[:_SUBJECT_CHARACTERS]
        advice = suggest(shown, known, "Give a tool, a principal, or ALL.")
        raise InvalidRequest(f"Nothing was learned of {shown!r}. {advice}")

    async def _catch_up(self) -> None:
        """Wait until the facts of every execution that was answered are recorded. Raises `StoreError`."""
        await asyncio.sleep(0)  # an execution's observers see its end in the turn of the loop after its answer
        await self._tables.flush()

    async def save(self) -> None:
        """Save the models, so that the next start need not learn them again. Raises `StoreError`."""
        async with self._busy:
            await self._save()

    async def close(self) -> None:
        """Save, if the store can."""
        try:
            await self.save()
        except StoreError as error:
            _log.error("What was learned could not be saved, and is learned anew at the next start: %s", error)

    async def _start_anew(self) -> int:
        """Learn everything again, without forgotten content, and return the number of lessons."""
        while True:
            generation, forgotten = await self._tables.forgotten_until()
            if generation != self._generation:
                self._drop([each for each in forgotten if each not in self._forgotten])
                self._generation, self._forgotten = generation, tuple(forgotten)
            fresh = _State(number=max(0, await self._tables.newest() - REBUILD_FACTS))
            if not self._state.models:
                self._state = fresh  # a part of it is better than nothing
            before = self._state
            count = await self._follow(fresh)
            if count is not None and self._state is before:  # nothing was forgotten meanwhile
                self._state, self._saved_number = fresh, 0
                self._revision += 1
                self._is_current = self.is_ready = True
                return count

    async def _follow(self, state: _State) -> int | None:
        """Learn up to the newest fact and return the number of lessons; None if something was forgotten meanwhile."""
        count = 0
        while True:
            page = await self._tables.events(state.number, _PAGE_FACTS)
            if page.forgotten != self._generation:
                return None
            prepare = functools.partial(prepare_all, page.events, self._forgotten, rest=self._rest)
            lessons = await asyncio.to_thread(prepare) if page.events else []
            await self._take(state, lessons)
            state.number = page.last
            count += len(lessons)
            if page.is_end:
                return count

    async def _take(self, state: _State, lessons: Sequence[Lesson]) -> None:
        until = time.perf_counter() + SLICE_SECONDS
        for lesson in lessons:
            self._revision += 1
            state.number = lesson.number  # a stop between two lessons repeats none of them
            for partition in self._partitions(state, lesson):
                state.model_of(partition).learn(lesson, self._half_life)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE_SECONDS

    def _partitions(self, state: _State, lesson: Lesson) -> tuple[str, ...]:
        """The partitions that learn a lesson."""
        if self._scope == "shared":
            return ("",)
        if self._scope == "principal":
            return (lesson.principal,)
        # Of all principals: an event without a domain belongs to the domain of its principal.
        domains = state.model_of("").domains
        domains.note(lesson)
        domain = domains.principals.get(lesson.principal, "")
        return ("", domain) if domain else ("",)

    def _drop(self, forgotten: Sequence[Forgotten]) -> None:
        """Stop serving models that may hold forgotten content. A model that is still learning is dropped too."""
        kept: dict[str, Model] = {}
        if self._scope == "principal" and all(each.what == "principal" for each in forgotten):
            gone = {each.subject for each in forgotten}
            kept = {name: model for name, model in self._state.models.items() if name not in gone}
        self._state = _State(models=kept)
        self._revision += 1
        self._is_current = self.is_ready = False

    # The saved state for the next start

    async def _load(self) -> None:
        """Load the saved models, if they can be used."""
        before = self._state
        generation, forgotten = await self._tables.forgotten_until()
        newest = await self._tables.newest()
        saved = await self._tables.load(self._form)
        self._is_loaded = True
        if saved is None or saved.forgotten != generation or newest - saved.number > REBUILD_FACTS:
            return
        try:
            models = await asyncio.to_thread(unpack, saved.model)
        except BrokenModels as error:
            _log.warning("What was learned is learned anew. %s", error)
            return
        if self._state is not before:  # something was forgotten meanwhile
            return
        self._state = _State(models=models, number=saved.number)
        self._revision += 1
        self._generation, self._forgotten = generation, tuple(forgotten)
        self._saved_number = saved.number
        self._is_current = self.is_ready = True

    async def _save(self) -> None:
        state = self._state
        self._saved_at = time.monotonic()
        if not self._is_current or state.number == self._saved_number:
            return
        content = await pack(state.models)  # they do not change: learning needs the lock
        # The store refuses it if something was forgotten meanwhile.
        self._tables.save(self._form, state.number, self._generation, content)
        self._saved_number = state.number


def _find_tools(name: str, tools: Sequence[str]) -> list[str]:
    """The tool with this full name, or all that match `server.function` or the upstream's name."""
    if name in tools:
        return [name]
    wanted = spelled(name)
    return [tool for tool in tools if wanted in (spelled(tool), spelled(tool).partition(".")[2])]
