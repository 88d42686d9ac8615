"""The events to learn from, in the order of the journal; saved models; and the record of forgotten subjects.

A page is read in a separate thread and is bounded in rows and bytes. An unreadable fact, such as one of a newer
version, is skipped. A saved model never holds forgotten content: one transaction checks both.
"""

import hashlib
import sqlite3
import time
from functools import partial
from typing import Any, Literal, get_args

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.store.columns import Columns, upsert
from sealyard.store.metrics.sums import END, decode_fact, snapshot
from sealyard.store.stored_json import encode_context, storable
from sealyard.store.table import Table, reads
from sealyard.store.writer import ROW_BYTES
from sealyard.values.facts import CallEvidence, Executed, Forgotten, Hinted, LearningEvent, RunEvidence, Searched, Used

CALLS = 100
"""Of one run; the first."""
MODEL_BYTES = 64 << 20
"""A larger model is not kept."""

_PAGE_BYTES = 8 << 20  # of evidence in memory at once; it holds at least one run
_RUN_BYTES = 4 << 20
"""Of the values of one run's calls; those after it are left out."""
_CODE_BYTES = 256 << 10  # of code: far more than learning parses
_MESSAGE_CHARACTERS = 4_000  # of an error; its cause stands at the beginning
_FORMS = 4
"""Forms of models that are kept, the last saved: those of a gateway, of the version before and of their settings."""
_FORGOTTEN = 10_000  # marks: every piece of evidence is compared with all of them
_SUBJECT_CHARACTERS = 256  # of a name to forget; twice the longest of a tool

_What = Literal["tool", "principal", "all"]

# As bytes, since another program may have written invalid text. Only facts to learn from are read whole.
_FACTS = (
    "SELECT number, at, CASE WHEN kind IN ('search', 'hit', 'execution', 'hint') THEN CAST(fact AS BLOB) END"
    " FROM facts WHERE number > ? ORDER BY number LIMIT ?"
)
_RUN = (
    "SELECT CAST(session AS BLOB), started_at, CAST(context AS BLOB), context_cut, CAST(outcome AS BLOB),"
    " CASE WHEN length(code) <= ? THEN CAST(code AS BLOB) END"
    " FROM executions LEFT JOIN codes ON codes.sha256 = code_sha256 WHERE execution_id = ?"
)
_CALLS = (
    "SELECT number, CAST(tool AS BLOB), CAST(version AS BLOB), CAST(arguments AS BLOB), CAST(answer AS BLOB),"
    " answer_cut, CAST(error AS BLOB), started_at, seconds, answer_bytes, CAST(answer_sample AS BLOB)"
    " FROM calls WHERE execution_id = ? ORDER BY number, rowid LIMIT ?"
)
_SKILLS = (
    "SELECT DISTINCT CAST(namespace AS BLOB), CAST(name AS BLOB) FROM skill_uses WHERE execution_id = ?"
    " ORDER BY namespace, name"
)
_GENERATION = "SELECT coalesce(max(number), 0) FROM learning_forgotten"
_NEWEST = "SELECT coalesce(max(number), 0) FROM facts"


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events, each with the number of its fact."""

    events: list[tuple[int, LearningEvent]]
    last: int
    """The number of the last fact read: the next page begins after it."""
    is_end: bool
    """True if there was no fact after it."""
    forgotten: int
    """A number that grows whenever something is forgotten, at the time of reading the page."""


class SavedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as it was saved."""

    number: int
    """The number of the last fact it was learned from."""
    forgotten: int
    """As in `EventPage`: the model holds nothing forgotten up to then."""
    model: bytes


class _Failure(msgspec.Struct):
    type: str = ""
    message: str = ""
    line: int | None = None


class _Ended(msgspec.Struct):
    failure: _Failure | None = None


_ENDED = msgspec.json.Decoder(_Ended)
_MODELS = Columns("learning_models", SavedModel, decode={"model": bytes})  # another program may have written text
_MARKS = Columns("learning_forgotten", Forgotten, read={"number": "fact"})


# Evidence


def _read_page(connection: sqlite3.Connection, after: int, limit: int) -> EventPage:
    """The events after fact number `after`: at most `limit` facts are read, and fewer if they are large."""
    events: list[tuple[int, LearningEvent]] = []
    last, size_bytes = after, 0
    with snapshot(connection):
        rows = connection.execute(_FACTS, (after, limit)).fetchall()
        for number, at, text in rows:
            if size_bytes > _PAGE_BYTES:
                break
            last = number
            event, more_bytes = _read_event(connection, at, text)
            size_bytes += more_bytes
            if event is not None:
                events.append((number, event))
        forgotten = _integer(connection, _GENERATION)
    is_end = len(rows) < limit and (not rows or last == rows[-1][0])
    return EventPage(events=events, last=last, is_end=is_end, forgotten=forgotten)


def _read_event(connection: sqlite3.Connection, at: Any, text: bytes | None) -> tuple[LearningEvent | None, int]:
    """A fact with its journal entries as an event, and the number of bytes read."""
    if text is None or not isinstance(at, float) or not 0 <= at < END:
        return None, 0
    fact = decode_fact(text)
    if isinstance(fact, Executed) and fact.form != "proxy":  # the journal has no answers of relayed calls
        run, size_bytes = _read_run(connection, fact)
        return run, len(text) + size_bytes
    return (fact if isinstance(fact, Searched | Used | Hinted) else None), len(text)


def _read_run(connection: sqlite3.Connection, fact: Executed) -> tuple[RunEvidence, int]:
    """A run; if its row is gone, only the content of its fact."""
    row = connection.execute(_RUN, (_CODE_BYTES, storable(fact.execution_id))).fetchone() if fact.execution_id else None
    if row is None or not isinstance(row[1], float):
        return RunEvidence(fact=fact, started_at=fact.at - fact.seconds), 0
    session, started_at, context, is_cut, outcome, code = row
    failure = _read_failure(outcome)
    calls, size_bytes = _read_calls(connection, fact.execution_id)
    run = RunEvidence(
        fact=fact,
        code=_code(code),
        # A value too large to keep may have been anything, so it equals that of no other run.
        context_digest=_digest(storable(fact.execution_id).encode() if is_cut else context),
        session=_text(session),
        started_at=started_at,
        failure_type=failure.type[:_MESSAGE_CHARACTERS],
        failure_message=failure.message[:_MESSAGE_CHARACTERS],
        failure_line=failure.line,
        calls=calls,
        skills=_read_skills(connection, fact.execution_id) if fact.skills else (),
    )
    return run, size_bytes + len(code or b"") + len(context or b"") + len(outcome or b"")


def _read_calls(connection: sqlite3.Connection, execution_id: str) -> tuple[tuple[CallEvidence, ...], int]:
    found = []
    size_bytes = 0
    for row in connection.execute(_CALLS, (storable(execution_id), CALLS)):
        number, tool, version, arguments, answer, is_cut, error, started_at, seconds, answer_bytes, sample = row
        size_bytes += len(arguments or b"") + len(answer or b"") + len(sample or b"")
        is_kept = size_bytes <= _RUN_BYTES
        has_arguments, arguments = _decode(arguments) if is_kept else (False, None)
        has_answer, answer = _decode(answer) if is_kept and error is None and not is_cut else (False, None)
        has_sample, sample = _decode(sample) if is_kept and error is None and is_cut else (False, None)
        call = {
            "number": number,
            "tool": _text(tool),
            "version": _text(version) or "1.0.0",  # of a call from before tools had versions
            "arguments": arguments if has_arguments else None,
            "answer": answer if has_answer else None,
            "has_answer": has_answer,
            "sample": sample if has_sample else None,
            "error": None if error is None else _text(error)[:_MESSAGE_CHARACTERS],
            "started_at": started_at,
            "seconds": seconds,
            "answer_bytes": answer_bytes,
        }
        try:
            found.append(msgspec.convert(call, CallEvidence))
        except msgspec.ValidationError:
            continue  # a column holds an impossible value, which another program wrote
    return tuple(found), min(size_bytes, _RUN_BYTES)


def _read_skills(connection: sqlite3.Connection, execution_id: str) -> tuple[str, ...]:
    rows = connection.execute(_SKILLS, (storable(execution_id),))
    return tuple(f"{_text(namespace)}/{_text(name)}" for namespace, name in rows)


def _read_failure(outcome: bytes | None) -> _Failure:
    if outcome is None:
        return _Failure()
    try:
        return _ENDED.decode(outcome).failure or _Failure()
    except (msgspec.DecodeError, RecursionError):
        return _Failure()


def _decode(text: bytes | None) -> tuple[bool, Any]:
    """True if a value can be read, and the value."""
    if text is None:
        return True, None
    try:
        return True, msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False, None


def _code(content: bytes | None) -> str:
    try:
        return "" if content is None else content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return ""


def context_digest(context: Any) -> str:
    """The digest of `RunEvidence` for the context of code; unique if the context was too large to keep."""
    text, is_cut = encode_context(context)
    return "-" if is_cut else _digest(None if text is None else text.encode())


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.blake2b(content, digest_size=12).hexdigest()


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _integer(connection: sqlite3.Connection, query: str, values: tuple[str, ...] = ()) -> int:
    number: int = connection.execute(query, values).fetchone()[0]
    return number


def _read_newest(connection: sqlite3.Connection) -> int:
    """The number of the last fact, 0 if there is none."""
    return _integer(connection, _NEWEST)


# Models


def _read_model(connection: sqlite3.Connection, form: str) -> SavedModel | None:
    """The model of that form, None if none is kept. Its bytes are not trusted."""
    return _MODELS.first(
        connection, f"WHERE form = ? AND forgotten = ({_GENERATION}) AND number <= ({_NEWEST})", (form,)
    )


def _write_model(connection: sqlite3.Connection, form: str, saved: SavedModel, at: float) -> None:
    if saved.forgotten != _integer(connection, _GENERATION):
        return
    connection.execute(
        upsert("learning_models", "form, number, forgotten, at, model", key="form")
        + " WHERE excluded.number >= learning_models.number OR excluded.forgotten <> learning_models.forgotten",
        (form, saved.number, saved.forgotten, at, saved.model),
    )
    connection.execute(
        "DELETE FROM learning_models WHERE form NOT IN (SELECT form FROM learning_models ORDER BY at DESC, form"
        " LIMIT ?)",
        (_FORMS,),
    )


# Forgetting


def _write_forgotten(connection: sqlite3.Connection, what: _What, subject: str, at: float) -> Forgotten | None:
    """Mark a subject as forgotten; None, without any change, if too many are already."""
    covered, values = "? = 'all' OR (what = ? AND subject = ?)", (what, what, subject)  # by this one from now on
    if _integer(connection, f"SELECT count(*) FROM learning_forgotten WHERE NOT ({covered})", values) >= _FORGOTTEN:  # noqa: S608
        return None
    fact = _integer(connection, _NEWEST)
    number = _integer(connection, _GENERATION) + 1
    connection.execute(f"DELETE FROM learning_forgotten WHERE {covered}", values)  # noqa: S608
    connection.execute(
        "INSERT INTO learning_forgotten (number, what, subject, fact, at) VALUES (?, ?, ?, ?, ?)",
        (number, what, subject, fact, at),
    )
    connection.execute("DELETE FROM learning_models")
    return Forgotten(what=what, subject=subject, number=fact, at=at)


def _read_forgotten(connection: sqlite3.Connection) -> tuple[int, list[Forgotten]]:
    """The forgotten subjects as of one moment, the oldest first, and the number of `EventPage.forgotten`."""
    with snapshot(connection):
        marks = _MARKS.all(connection, "ORDER BY learning_forgotten.number")
        generation = _integer(connection, _GENERATION)
    return generation, [mark for mark in marks if mark.what in get_args(_What)]


def _read_known(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """The full names of all present and former tools, and all principals of the journal."""
    tools = connection.execute("SELECT DISTINCT full_name FROM tool_releases ORDER BY full_name").fetchall()
    principals = connection.execute("SELECT DISTINCT principal FROM facts ORDER BY principal").fetchall()
    return [name for (name,) in tools], [name for (name,) in principals]


class LearningTables(Table):
    """The data of one store for learning. It has a separate reader, so that no other read waits for a page."""

    events = reads(_read_page)
    newest = reads(_read_newest)
    load = reads(_read_model)
    known = reads(_read_known)
    context_digest = staticmethod(context_digest)
    forgotten_until = reads(_read_forgotten)

    def save(self, form: str, number: int, forgotten: int, model: bytes) -> None:
        """Keep a model in place of one that was learned from fewer facts. Only enqueues.

        It is not kept if it is larger than `MODEL_BYTES`, or if something was forgotten that it may still hold.
        """
        if len(model) <= MODEL_BYTES:
            saved = SavedModel(number=number, forgotten=forgotten, model=model)
            self._writer.put(partial(_write_model, form=form, saved=saved, at=time.time()), len(model) + ROW_BYTES)

    async def forget(self, what: _What, subject: str, at: float) -> Forgotten:
        """Exclude, durably, everything that the journal now holds about a subject from learning.

        Saved models are removed too.

        Raises:
            InvalidRequest: There is no such kind of thing, or no subject.
            StoreError: It could not be written.
        """
        if what not in get_args(_What):
            raise InvalidRequest(f"There is no {what!r} to be forgotten. Use one of {', '.join(get_args(_What))}.")
        if (what == "all") == bool(subject) or len(subject) > _SUBJECT_CHARACTERS:
            raise InvalidRequest("Name the tool or the principal that is to be forgotten, and nothing to forget all.")
        made = await self._writer.change(partial(_write_forgotten, what=what, subject=storable(subject), at=at))
        if made is None:
            raise InvalidRequest(f"{_FORGOTTEN:,} things are forgotten one by one already. Forget all instead.")
        return made

    async def forgotten(self) -> list[Forgotten]:
        """The forgotten subjects that the journal may still mention, the oldest first. Raises `StoreError`."""
        _, found = await self.forgotten_until()
        return found
