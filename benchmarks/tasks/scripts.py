"""Writes the calls of a ground truth as one script that reads its arguments from the answers of earlier calls.

Whoever writes it knows the answers, so a script shows what code can do, not what a model would write at once. Private
values are read in all cases: a model behind the gateway never learns them, so it could not write them down.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

_LEAST = 4
"""Characters of a text that is sought inside others: shorter ones stand in them by chance."""
_ANCHOR = 40
"""Characters at most before and after a text by which a script cuts it out of a longer one."""


class Call(msgspec.Struct, frozen=True):
    """A call of the ground truth."""

    function: str
    args: dict[str, Any]


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script, the tools it calls, and how many arguments it reads, takes from the prompt, or has written into it."""

    code: str
    tools: tuple[str, ...]
    sources: Counter[str]


def compose(
    calls: Sequence[Call],
    answers: Sequence[Any],
    *,
    prompt: str,
    private: AbstractSet[str],
    result: str,
    server: str,
    known: Collection[str] | None,
) -> Script:
    """The calls as lines of a script that ends with `result`, an expression over the answers `a0`, `a1` and so on.

    Tools are imported from a server, with those of `known` that `result` calls. None: there is FastMCP's `call_tool`,
    which has the server in the names.
    """
    weaver = _Weaver(prompt, private)
    more = [name for name in known or () if f"{name}(" in result]
    tools = tuple(dict.fromkeys([*(call.function for call in calls), *more]))
    lines = [] if known is None else [f"from servers.{server} import {', '.join(tools)}"]
    for number, (call, answer) in enumerate(zip(calls, answers, strict=True)):
        arguments = {name: weaver.weave(value) for name, value in call.args.items()}
        if known is None:
            pairs = ", ".join(f"{name!r}: {text}" for name, text in arguments.items())
            lines.append(f"a{number} = (await call_tool({f'{server}_{call.function}'!r}, {{{pairs}}}))['result']")
        else:
            pairs = ", ".join(f"{name}={text}" for name, text in arguments.items())
            lines.append(f"a{number} = {call.function}({pairs})")
        weaver.learn(f"a{number}", answer)
    *before, last = result.split("\n")
    end = f"return {last}" if known is None else last
    return Script(code="\n".join([*lines, *before, end]), tools=tools, sources=weaver.sources)


class _Weaver:
    """Expressions for values, over the answers that a script has at that point."""

    def __init__(self, prompt: str, private: AbstractSet[str]) -> None:
        self._prompt = prompt
        self._private = private
        self._leaves: list[tuple[str, Any]] = []
        self.sources: Counter[str] = Counter()

    def learn(self, name: str, answer: Any) -> None:
        """From here on, a script has this answer under this name."""
        self._leaves += self._places(name, answer)

    def weave(self, value: Any) -> str:
        """An expression with this value."""
        if isinstance(value, list | dict) and value:
            if found := self._find(value):
                return self._note("read", found)
            if isinstance(value, list):
                return f"[{', '.join(self.weave(each) for each in value)}]"
            return f"{{{', '.join(f'{key!r}: {self.weave(each)}' for key, each in value.items())}}}"
        if str(value) in self._prompt:
            return self._note("prompt", repr(value))
        if found := None if isinstance(value, bool) else self._find(value) or self._cut(value):
            return self._note("read", found)
        pieces = self._split(value) if isinstance(value, str) else None
        return self._note("read", pieces) if pieces else self._note("written", repr(value))

    def _note(self, source: str, text: str) -> str:
        self.sources[source] += 1
        return text

    def _places(self, place: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Every value inside an answer that is no empty one, with the expression that reads it."""
        if value is None or isinstance(value, bool) or value in ("", [], {}):
            return
        yield place, value
        if isinstance(value, dict):
            for number, (key, each) in enumerate(value.items()):
                if key in self._private:
                    yield f"list({place})[{number}]", key
                else:
                    yield from self._places(f"{place}[{key!r}]", each)
        elif isinstance(value, str) and "\n" in value:  # often a heading, and a name on each line
            yield from self._places(f"{place}.split(': ', 1)[-1].splitlines()", value.split(": ", 1)[-1].splitlines())
        elif isinstance(value, list):
            for number, each in enumerate(value):
                yield from self._places(self._item(place, value, number), each)

    def _item(self, place: str, items: list[Any], number: int) -> str:
        """An item of a list by a field that the prompt names, if one tells it from the others; else by its place."""
        if isinstance(items[number], dict) and len(items) > 1:
            for key, value in items[number].items():
                is_named = isinstance(value, str) and len(value) >= _LEAST and value in self._prompt
                if is_named and not self._holds_private(value) and [i.get(key) for i in items].count(value) == 1:
                    return f"[e for e in {place} if e[{key!r}] == {value!r}][0]"
        return f"{place}[{number}]"

    def _find(self, value: Any) -> str | None:
        """The shortest expression for a value that stands somewhere as it is."""
        places = [place for place, leaf in self._leaves if type(leaf) is type(value) and leaf == value]
        return min(places, key=len, default=None)

    def _cut(self, value: Any) -> str | None:
        """An expression that cuts a text out of a longer one, by what stands around it there."""
        if not isinstance(value, str) or len(value) < _LEAST:
            return None
        texts = ((place, leaf) for place, leaf in self._leaves if isinstance(leaf, str) and value in leaf)
        return min(filter(None, (self._cut_from(place, leaf, value) for place, leaf in texts)), key=len, default=None)

    def _cut_from(self, place: str, text: str, value: str) -> str | None:
        start = text.index(value)
        before = self._anchor(text[:start][::-1], lambda found: text.split(found[::-1], 1)[1].startswith(value))
        after = self._anchor(text[start + len(value) :], lambda found: value + found in text and found not in value)
        if before is None or after is None:
            return None
        place += f".split({before[::-1]!r}, 1)[1]" if before else ""
        return place + (f".split({after!r}, 1)[0]" if after else "")

    def _anchor(self, text: str, is_enough: Callable[[str], bool]) -> str | None:
        """The shortest beginning of a text that is enough. None if it is private, so that no script could seek it."""
        if not text:
            return ""
        beginnings = (text[:length] for length in range(1, min(len(text), _ANCHOR) + 1))
        return next((each for each in beginnings if is_enough(each) and not self._is_private_part(each)), None)

    def _is_private_part(self, text: str) -> bool:
        return any(text in each or text[::-1] in each for each in self._private)

    def _holds_private(self, text: str) -> bool:
        return any(each in text for each in self._private)

    def _split(self, text: str) -> str | None:
        """A sum of what a text is made of, if some of it stands in the answers."""
        leaves = [leaf for _, leaf in self._leaves if isinstance(leaf, str) and len(leaf) >= _LEAST]
        hidden = [each for each in self._private if any(each in leaf for leaf in leaves)]
        parts = [part for part in (*leaves, *hidden) if part in text and part not in self._prompt]
        if not parts:
            return None
        part = max(parts, key=len)
        read = self._find(part) or self._cut(part)
        if read is None:
            return None
        head, tail = text.split(part, 1)
        around = [each and (self._split(each) or repr(each)) for each in (head, tail)]
        return " + ".join(each for each in (around[0], read, around[1]) if each)
