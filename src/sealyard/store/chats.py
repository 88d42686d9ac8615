"""Conversations with models, message by message.

A message is on disk before anything follows from it: a request to the model, a call, an answer. The text of a message
holds tokens in place of private values, as everything that a model reads does.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.store.columns import Columns
from sealyard.store.stored_json import encode_json, storable
from sealyard.store.table import Table, reads, writes
from sealyard.values.chat import Conversation, Message

_ADD_TO_DAY = (
    "INSERT INTO chat_days (principal, day, input_tokens, output_tokens, usd, runs) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (principal, day) DO UPDATE SET input_tokens = chat_days.input_tokens + excluded.input_tokens,"
    " output_tokens = chat_days.output_tokens + excluded.output_tokens, usd = chat_days.usd + excluded.usd,"
    " runs = chat_days.runs + excluded.runs"
)
_COLUMNS = Columns("conversations", Conversation)
_MESSAGE = msgspec.json.Decoder(Message)
_KEY = "principal, name"
_PRUNED = 100  # conversations in one transaction; the next hour removes more
_MATCHES = "WHERE principal = ? AND name = ?"


class Spent(msgspec.Struct, frozen=True):
    """Sums of one principal and day."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    runs: int = 0


def _read(connection: sqlite3.Connection, principal: str, name: str) -> tuple[Conversation | None, list[Message]]:
    """A conversation with its messages; None and nothing if there is none of that name."""
    found = _COLUMNS.first(connection, _MATCHES, (principal, name))
    query = f"SELECT message FROM messages {_MATCHES} ORDER BY number"  # noqa: S608 - our words
    return found, [_MESSAGE.decode(text) for (text,) in connection.execute(query, (principal, name))]


def _list(connection: sqlite3.Connection, principal: str, limit: int) -> list[Conversation]:
    """The conversations of a principal, the last changed first."""
    return _COLUMNS.all(connection, "WHERE principal = ? ORDER BY changed_at DESC LIMIT ?", (principal, limit))


def _write(connection: sqlite3.Connection, conversation: Conversation, messages: Sequence[Message]) -> None:
    """Add messages, and write the conversation as it is with them.

    Raises:
        InvalidRequest: It has changed since it was read.
    """
    before = _COLUMNS.first(connection, _MATCHES, _key(conversation))
    first = conversation.messages - len(messages)
    if (before.messages if before else 0) != first:
        raise InvalidRequest(
            f"The conversation {conversation.name!r} goes on elsewhere at the same time. Wait for that turn, then "
            "send the message again."
        )
    spent = _spent_since(before, conversation)
    connection.execute(_ADD_TO_DAY, (conversation.principal, day_of(conversation.changed_at), *spent))
    _COLUMNS.put(connection, conversation, key=_KEY)
    for number, message in enumerate(messages, first):
        text = storable(encode_json(message) or "")
        connection.execute(
            "INSERT INTO messages (principal, name, number, message) VALUES (?, ?, ?, ?)",
            (*_key(conversation), number, text),
        )


def _delete(connection: sqlite3.Connection, principal: str, name: str) -> bool:
    """Delete a conversation; False if there is none of that name."""
    connection.execute(f"DELETE FROM messages {_MATCHES}", (principal, name))  # noqa: S608
    return connection.execute(f"DELETE FROM conversations {_MATCHES}", (principal, name)).rowcount > 0  # noqa: S608


def _spent(connection: sqlite3.Connection, principal: str, at: float) -> Spent:
    """The sums of a principal on the day of a time."""
    query = "SELECT input_tokens, output_tokens, usd, runs FROM chat_days WHERE principal = ? AND day = ?"
    row = connection.execute(query, (principal, day_of(at))).fetchone()
    return Spent(*row) if row else Spent()


def _spent_since(before: Conversation | None, now: Conversation) -> tuple[int, int, float, int]:
    """The difference between two states of a conversation, in the order of `Spent`."""
    return (
        now.input_tokens - (before.input_tokens if before else 0),
        now.output_tokens - (before.output_tokens if before else 0),
        (now.usd or 0.0) - (before.usd or 0.0 if before else 0.0),
        now.runs - (before.runs if before else 0),
    )


def _prune(connection: sqlite3.Connection, before: float) -> None:
    """Remove conversations that nobody has gone on with since a time, and sums of earlier days."""
    query = "SELECT principal, name FROM conversations WHERE changed_at < ? ORDER BY changed_at LIMIT ?"
    for key in connection.execute(query, (before, _PRUNED)).fetchall():
        _delete(connection, *key)
    connection.execute("DELETE FROM chat_days WHERE day < ?", (day_of(before),))


def day_of(at: float) -> int:
    """The number of the day of a time, in UTC."""
    return int(at // 86_400)


def _key(conversation: Conversation) -> tuple[str, str]:
    return conversation.principal, conversation.name


class ChatTable(Table):
    """The conversations of one store, separate for each principal."""

    read = reads(_read)
    list = reads(_list)
    spent = reads(_spent)
    write = writes(_write)
    delete = writes(_delete)
    prune = writes(_prune)
