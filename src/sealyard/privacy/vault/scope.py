"""One scope of the vault in memory: a value's token and a token's value, without waiting for a disk.

`reveal_tokens` turns tokens inside arguments back into values where they stand. A string that is one token becomes the
value, of the kind that the tool's schema asks for. Inside a longer string the value is written as that text needs it:
escaped in JSON text, percent-encoded in a URL or where the token itself was, else as it is. A revealed value is not
read again, so one that looks like a token stays as it is.

Where only whole strings may be revealed, a token inside a longer one is refused: code that chooses what stands beside
a value has half of what it takes to compute on it.
"""

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from sealyard.errors import CallRefused, LimitReached, UnknownToken
from sealyard.privacy.span import TOKEN
from sealyard.privacy.vault.seal import (
    Origin,
    PrivateValue,
    ScopeSecrets,
    SealedScope,
    SealedValue,
    VaultStorage,
    spell,
)

VALUES_MOST = 1_000_000
"""In one scope: a server that sends private values without end must not fill the memory."""

_RENEWED_SHARE = 0.1
"""Of the time to expiry, after which a value that is seen again is given the whole time anew."""
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)

Find = Callable[[str, str], PrivateValue | None]
"""The value of the token of this type and id, both in lower case; None if there is none."""

OnText = Callable[[str, list[tuple[str, str | None]]], None]
"""Gets each string that holds a token, and its revealed pieces: a text, and its type if it is a value."""

OpenedValue = tuple[SealedValue, PrivateValue, Origin]


class Scope:
    """The tokens of one scope. `Vault.scope` gives it, and again at the start of each piece of work.

    `token`, `reveal` and `has` never wait and may be called from any thread. A token is durable once what was enqueued
    to the storage is.
    """

    def __init__(
        self,
        row: SealedScope,
        secrets: ScopeSecrets,
        storage: VaultStorage,
        *,
        expires_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.name = row.name
        self._storage = storage
        self._expires_seconds = expires_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._by_text: dict[Origin, dict[str, _Entry]]
        self._by_token: dict[str, _Entry]
        self.restart(row, secrets)

    def token(self, type: str, value: PrivateValue, *, origin: Origin = "tool") -> str:  # noqa: A002
        """The token of a value: always the same one, whatever the type or kind in which it is found again.

        A number and its text are one value. What code itself made, origin `code`, has a token of its own: else code
        could print guesses and see which one gets the token that it wants to know the value of.

        Raises:
            LimitReached: The scope is full.
            StoreError: The store is closed.
        """
        text = value if isinstance(value, str) else str(value)
        entry = self._by_text[origin].get(text)
        if entry is None or self._clock() >= entry.renewed_at:
            return self.tokens([(type, value, origin)])[0]
        return entry.token

    def tokens(self, wanted: Iterable[tuple[str, PrivateValue, Origin]]) -> list[str]:
        """`token` for several values by type, value and origin: new and renewed ones are enqueued as one.

        Raises what `token` does. Then none of them is known.
        """
        with self._lock:
            now = self._clock()
            new: dict[str, _Entry] = {}
            by_text: dict[tuple[Origin, str], _Entry] = {}
            renewed: dict[str, _Entry] = {}
            tokens = []
            for kind, value, origin in wanted:
                text = value if isinstance(value, str) else str(value)
                entry = self._by_text[origin].get(text) or by_text.get((origin, text))
                if entry is None:
                    entry = by_text[origin, text] = self._make(kind, value, text, origin, new)
                    new[entry.token] = entry
                elif entry.token not in new and now >= entry.renewed_at:
                    renewed[entry.token] = entry
                tokens.append(entry.token)
            if new or renewed:
                # Before anybody else can be given one of them: what comes after it in the storage is not without it.
                self._put([*new.values(), *renewed.values()])
            for entry in new.values():
                self._keep(entry)
            return tokens

    async def room(self) -> None:
        """Wait while many new values are not on disk yet. Raises `StoreError`."""
        await self._storage.room()

    def reveal(
        self,
        value: Any,
        *,
        schema: Mapping[str, Any] | None = None,
        is_inside: bool = True,
        on_text: OnText = lambda _, __: None,
    ) -> Any:
        """`reveal_tokens` with the values of this scope. Raises what that does."""
        return reveal_tokens(value, self._find, schema, is_inside=is_inside, on_text=on_text)

    def has(self, token: str) -> bool:
        """True if this is one whole token of this scope, in whatever case."""
        match = TOKEN.fullmatch(token)
        return match is not None and self._find(match[1].lower(), match[2].lower()) is not None

    def __len__(self) -> int:
        return len(self._by_token)

    # For the vault

    def restart(self, row: SealedScope, secrets: ScopeSecrets) -> None:
        """Forget everything and be this scope from now on."""
        with self._lock:
            self.id = row.id
            self.erasures = row.erasures
            self.last_number = 0
            self._secrets = secrets
            self._by_text = {"tool": {}, "code": {}}
            self._by_token = {}

    def erase(self, ids: Iterable[str], *, erasures: int, secrets: ScopeSecrets) -> None:
        """Drop the values of these ids, and give ids to new values by these secrets."""
        with self._lock:
            self.erasures = erasures
            self.last_number = 0  # numbers of deleted rows are given again
            self._secrets = secrets
            gone = set(ids)
            self._drop([entry for entry in self._by_token.values() if entry.id in gone])

    def open(self, rows: Iterable[SealedValue]) -> list[OpenedValue]:
        """The values in rows that are new here. It takes a few microseconds for each, and may run in a thread.

        Raises:
            VaultError: A row was changed, or belongs elsewhere.
        """
        opened = []
        for row in rows:
            entry = self._by_token.get(spell(row.type, row.id))
            if entry is None:
                opened.append((row, *self._secrets.open(row)))
            elif row.expires_at > entry.expires_at:
                self._extend(entry, row.expires_at)
        return opened

    def learn(self, opened: Iterable[OpenedValue]) -> None:
        """Know these values too. Where two tokens stand for one value, `token` goes on returning the older one."""
        with self._lock:
            for row, value, origin in opened:
                entry = _entry(row.id, row.type, value, origin)
                self._extend(entry, row.expires_at)
                self._keep(entry)

    def prune(self) -> None:
        """Drop expired values."""
        now = self._clock()
        with self._lock:
            self._drop([entry for entry in self._by_token.values() if entry.expires_at <= now])

    # Entries

    def _find(self, kind: str, value_id: str) -> PrivateValue | None:
        entry = self._by_token.get(spell(kind, value_id))
        return entry.value if entry is not None and entry.expires_at > self._clock() else None

    def _make(self, kind: str, value: PrivateValue, text: str, origin: Origin, new: Mapping[str, "_Entry"]) -> "_Entry":
        """A value's entry beside those that there are and the `new` ones."""
        given: object = value
        if not isinstance(given, str | int | float) or isinstance(given, bool) or not _TYPE.fullmatch(kind):
            raise ValueError(f"A value of type {kind!r} and kind {type(given).__name__} cannot have a token.")
        if len(self._by_token) + len(new) >= VALUES_MOST:
            raise LimitReached(
                f"This session has {VALUES_MOST:,} private values, which is its limit. Ask for less, or use another"
                " session."
            )
        attempt = 0
        entry = _entry(self._secrets.make_id(origin, text), kind, value, origin)
        while entry.token in self._by_token or entry.token in new:  # another value's: a pair in 280 million million
            attempt += 1
            entry = _entry(self._secrets.make_id(origin, text, attempt), kind, value, origin)
        return entry

    def _put(self, entries: list["_Entry"]) -> None:
        """Enqueue values with their whole time before them."""
        expires_at = self._clock() + self._expires_seconds
        scope_id, secrets = self.id, self._secrets

        def seal() -> list[SealedValue]:  # in the storage's thread: it costs as much as all the rest
            return [
                SealedValue(
                    scope_id=scope_id,
                    id=entry.id,
                    type=entry.type,
                    sealed=secrets.seal(scope_id, entry.id, entry.type, entry.value, entry.origin),
                    expires_at=expires_at,
                )
                for entry in entries
            ]

        self._storage.put_values(seal, len(entries), sum(len(str(entry.value)) for entry in entries))
        for entry in entries:
            self._extend(entry, expires_at)

    def _extend(self, entry: "_Entry", expires_at: float) -> None:
        entry.expires_at = expires_at
        entry.renewed_at = expires_at - (1 - _RENEWED_SHARE) * self._expires_seconds

    def _keep(self, entry: "_Entry") -> None:
        self._by_token[entry.token] = entry
        self._by_text[entry.origin].setdefault(str(entry.value), entry)

    def _drop(self, entries: Iterable["_Entry"]) -> None:
        for entry in entries:
            del self._by_token[entry.token]
            known = self._by_text[entry.origin]
            if known.get(str(entry.value)) is entry:
                del known[str(entry.value)]


class _Entry(msgspec.Struct, eq=False, gc=False):
    """One value with its token. It refers to nothing that refers back, and there may be a million.

    The garbage collector skips it, since a pass over all of them would hold the interpreter.
    """

    id: str
    type: str
    value: PrivateValue
    origin: Origin
    token: str
    expires_at: float = 0.0
    renewed_at: float = 0.0


def _entry(value_id: str, kind: str, value: PrivateValue, origin: Origin) -> _Entry:
    return _Entry(value_id, kind, value, origin, spell(kind, value_id))


_U = "(?:_|%5F)"
_BEGIN = re.compile(r"(?:__|%5F%5F|_%5F|%5F_)PII(?:_|%5F)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(
    rf"{_U}{{2}}PII{_U}([a-z](?:[a-z0-9_]|%5F){{0,39}}?){_U}([0-9a-f]{{12}}){_U}{{2}}", re.IGNORECASE | re.ASCII
)
_PERCENT = re.compile("%5F", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://([^/?#\s]*)\S*", re.IGNORECASE | re.ASCII)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{1,300})?(?:e[+-]?[0-9]{1,3})?", re.IGNORECASE | re.ASCII)
_SHOWN = 64  # characters of an unknown token in a message
_BRANCHES = 64
"""Of a schema that are looked at for one value: `anyOf` within `anyOf` must not multiply without end."""
_RAW_JSON = msgspec.json.Decoder(msgspec.Raw)

_Schemas = tuple[Mapping[str, Any], ...]


def reveal_tokens(
    value: Any,
    find: Find,
    schema: Mapping[str, Any] | None = None,
    *,
    is_inside: bool = True,
    on_text: OnText = lambda _, __: None,
) -> Any:
    """JSON data with every token replaced, in keys too; the very same object if it holds none.

    `schema` is the JSON Schema of the data: a token that stands alone becomes the number or the text it asks for.
    Unless `is_inside`, a token is replaced only where it is the whole of a string other than a key. `on_text` gets each
    string that held one.

    Raises:
        UnknownToken: Something begins like a token, and `find` does not know it.
        CallRefused: Two keys of one object are the same token, or a token is not alone and must be.
    """
    if not count_tokens(value, 1):
        return value
    shape = _Shape(schema)
    write = _Writer(find, on_text, is_inside=is_inside)
    holder = [value]
    waiting: deque[tuple[Any, Any, Any, _Schemas]] = deque([(holder, 0, value, shape.root)])
    while waiting:  # not by recursion: code may nest as deep as it likes
        parent, place, each, schemas = waiting.popleft()
        if isinstance(each, str):
            parent[place] = write.whole(each, schemas)
        elif isinstance(each, dict):
            made: dict[Any, Any] = {}
            parent[place] = made
            if len({key.lower() if isinstance(key, str) and _begins(key) else key for key in each}) < len(each):
                raise CallRefused("Two keys of an object are the same token. Keep one of them.")
            for key, below in each.items():
                # Of two keys for the same value the last counts. To refuse them would show whether a guess is right.
                key = write.inside(key) if isinstance(key, str) else key
                made[key] = below
            waiting.extend(
                (made, key, below, shape.below(schemas, key))
                for key, below in made.items()
                if isinstance(below, str | dict | list | tuple)
            )
        else:
            items = parent[place] = list(each)
            inner = shape.below(schemas, None)
            waiting.extend(
                (items, number, below, inner)
                for number, below in enumerate(items)
                if isinstance(below, str | dict | list | tuple)
            )
    return holder[0]


def count_tokens(value: Any, most: int) -> int:
    """The number of tokens in JSON data, counted no further than `most`."""
    count = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if _begins(each):
                count += sum(1 for _ in _BEGIN.finditer(each))
                if count >= most:
                    break
        elif isinstance(each, dict):
            waiting += each
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
    return count


def tokens_in(value: Any) -> Iterator[tuple[str, str]]:
    """Each token in JSON data as `reveal_tokens` finds it: as it is spelled there, and as it was given out."""
    waiting = deque([value])
    while waiting:
        each = waiting.popleft()
        if isinstance(each, str):
            for match in _WHOLE.finditer(each) if _begins(each) else ():
                yield match[0], _PERCENT.sub("_", match[0])
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each


def _begins(text: str) -> bool:
    # The plain searches are ten times as fast as the pattern, and nearly always enough.
    return ("__" in text or "%5" in text) and _BEGIN.search(text) is not None


class _Writer:
    """Writes strings with values in the place of tokens."""

    def __init__(self, find: Find, on_text: OnText, *, is_inside: bool) -> None:
        self._find = find
        self._on_text = on_text
        self._is_inside = is_inside

    def whole(self, text: str, schemas: _Schemas) -> Any:
        """The result for a string that may be one token."""
        match = _WHOLE.match(text)
        if match is None or match.end() < len(text) or "%" in text:
            return self.inside(text)
        kind, value = self._value(match)
        self._on_text(text, [(str(value), kind)])
        return _in_kind(value, schemas)

    def inside(self, text: str) -> str:
        """The result for a string that may hold tokens."""
        if not _begins(text):
            return text
        write = _writer_for(text)
        parts: list[str] = []
        pieces: list[tuple[str, str | None]] = []
        done = 0
        while (begin := _BEGIN.search(text, done)) is not None:
            match = _WHOLE.match(text, begin.start())
            if match is None:
                raise _unknown(text[begin.start() : begin.start() + _SHOWN])
            kind, found = self._value(match)
            value = str(found)
            pieces += ((text[done : match.start()], None), (value, kind))
            parts += (text[done : match.start()], _percent(value) if "%" in match[0] else write(value, match.start()))
            done = match.end()
        if not self._is_inside and any(kind not in (None, "literal") for _, kind in pieces):
            raise CallRefused(
                "A token stands inside a longer text or in a key, and this tool is handed a token only as the whole "
                'value of an argument. Pass it alone, or have the operator set reveal = "inside" for this tool.'
            )
        self._on_text(text, [*pieces, (text[done:], None)])
        return "".join((*parts, text[done:]))

    def _value(self, match: re.Match[str]) -> tuple[str, PrivateValue]:
        kind = match[1].lower().replace("%5f", "_")
        value = self._find(kind, match[2].lower())
        if value is None:
            raise _unknown(match[0])
        return kind, value


def _unknown(text: str) -> UnknownToken:
    return UnknownToken(
        f"{text!r} is no token of this session: it was cut or changed, has expired, was erased, or is another's."
        " Pass a token on exactly as a tool gave it, or ask the tool for the value again."
    )


def _writer_for(text: str) -> Callable[[str, int], str]:
    """The spelling of a value at an offset of this text."""
    if _is_json(text):
        return lambda value, _: json.dumps(value)[1:-1]
    url = _URL.fullmatch(text)
    if url is None:
        return lambda value, _: value
    host_start = url.start(1) + url[1].rfind("@") + 1
    host = range(host_start, url.end(1))
    # Whatever the value holds, it cannot lead to another host nor add a parameter.
    return lambda value, at: _percent(value, safe=":[]" if at in host else "")


def _percent(value: str, safe: str = "") -> str:
    return quote(value, safe=safe, errors="surrogatepass")


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    for decode in (_RAW_JSON.decode, _RAW_JSON.decode_lines):
        try:
            decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            continue
        return True
    return False


# Schemas


def _in_kind(value: PrivateValue, schemas: _Schemas) -> PrivateValue:
    """The value as its schema wants it, if it says so and the value can be that."""
    wanted: set[Any] = set()
    for schema in schemas:
        named = schema.get("type")
        wanted.update(named if isinstance(named, list | tuple) else (named,))
    if not wanted & {"string", "integer", "number"}:
        return value
    if isinstance(value, str):
        if "string" in wanted:
            return value
        if _INTEGER.fullmatch(value):
            return int(value)
        return float(value) if "number" in wanted and _NUMBER.fullmatch(value) else value
    if "number" in wanted or ("integer" in wanted and isinstance(value, int)):
        return value
    return str(value) if "string" in wanted else value


class _Shape:
    """Walks a JSON Schema beside the data, as far as it describes the data plainly."""

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        self._document = schema
        self._known: dict[tuple[int, Any], _Schemas] = {}
        self.root = self._branches([schema])

    def below(self, schemas: _Schemas, key: Any) -> _Schemas:
        """The schemas of the value at `key`, or of an item if that is None."""
        if not schemas:
            return ()
        known = self._known.get((id(schemas), key))
        if known is None:
            known = self._branches([_step(schema, key) for schema in schemas])
            self._known[id(schemas), key] = known
        return known

    def _branches(self, schemas: list[Any]) -> _Schemas:
        """These schemas and all that they refer to or offer as alternatives."""
        found: list[Mapping[str, Any]] = []
        while schemas and len(found) < _BRANCHES:
            schema = schemas.pop()
            if not isinstance(schema, Mapping) or any(schema is each for each in found):
                continue
            found.append(schema)
            schemas.append(self._resolve(schema.get("$ref")))
            for word in ("anyOf", "oneOf", "allOf"):
                if isinstance(schema.get(word), list):
                    schemas += schema[word][:_BRANCHES]
        return tuple(found)

    def _resolve(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        target: Any = self._document
        for part in reference.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            target = target.get(part) if isinstance(target, Mapping) else None
        return target


def _step(schema: Mapping[str, Any], key: Any) -> Any:
    if key is None:
        return schema.get("items")
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    return schema.get("additionalProperties")
