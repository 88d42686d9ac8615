"""The ways in which code reaches a tool, hands it arguments, and stands around the call.

Each is a template. Those that are not `is_provable` may be refused; what is accepted must still do the same.
"""

from collections.abc import Mapping

import msgspec


class Callee(msgspec.Struct, frozen=True):
    """The way to the tool: `{module}`, `{function}`, `{full}` and `{other}`, a tool that stays, are put in."""

    head: str
    """At the top of the code."""
    call: str
    """The name that is called."""
    inside: str = ""
    """Right before the call, in the same block."""
    is_provable: bool = True
    by_name: bool = False
    """It is `call_tool`, which takes a dict; `call` is the name then."""
    first: str = ""
    """An argument before all others: the tool itself, where something else calls it."""
    last: str = ""
    """The text that follows the call."""
    inputs: Mapping[str, str] = {}
    held_out: Mapping[str, str] = {}
    """Other inputs, with which something else is called."""


CALLEES: dict[str, Callee] = {
    "from import": Callee("from servers.{module} import {function}", "{function}"),
    "from import as": Callee("from servers.{module} import {function} as ask", "ask"),
    "in parentheses": Callee("from servers.{module} import (\n    {function},  # this one\n)", "{function}"),
    "beside another": Callee("from servers.{module} import {other}, {function}", "{function}"),
    "import module": Callee("import servers.{module}", "servers.{module}.{function}"),
    "import module as": Callee("import servers.{module} as remote", "remote.{function}"),
    "import root": Callee("import servers", "servers.{module}.{function}"),
    "from root": Callee("from servers import {module}", "{module}.{function}"),
    "from root as": Callee("from servers import {module} as remote", "remote.{function}"),
    "imported inside": Callee("", "{function}", "from servers.{module} import {function}"),
    "rebound": Callee("from servers.{module} import {function}\n\nask = {function}", "ask"),
    "rebound inside": Callee("from servers.{module} import {function}", "ask", "ask = {function}"),
    "rebound attribute": Callee("import servers.{module} as remote\n\nask = remote.{function}", "ask"),
    "rebound again": Callee(
        "from servers.{module} import {function}\n\nfirst_name = {function}\nask = first_name", "ask", is_provable=False
    ),
    "rebound module": Callee("import servers\n\nremote = servers.{module}", "remote.{function}", is_provable=False),
    "call_tool": Callee("", '"{full}"', by_name=True),
    "call_tool constant": Callee('TOOL = "{full}"', "TOOL", by_name=True),
    "call_tool keyword": Callee("", 'name="{full}"', by_name=True),
    "call_tool joined": Callee("", '"{full}"[:5] + "{full}"[5:]', by_name=True, is_provable=False),
    "call_tool input": Callee(
        "",
        "tool_name",
        by_name=True,
        is_provable=False,
        inputs={"tool_name": "{full}"},
        held_out={"tool_name": "{other_full}"},
    ),
    "call_tool rebound": Callee("invoke = call_tool", '"{full}"', by_name=True, is_provable=False),
    "chosen": Callee(
        "from servers.{module} import {function}, {other}",
        "ask",
        "ask = {other}\nif wanted:\n    ask = {function}",
        is_provable=False,
        inputs={"wanted": "yes"},
        held_out={"wanted": ""},
    ),
    "getattr": Callee(
        "from servers import {module}",
        "getattr({module}, function_name)",
        is_provable=False,
        inputs={"function_name": "{function}"},
        held_out={"function_name": "{other}"},
    ),
    "getattr literal": Callee("from servers import {module}", 'getattr({module}, "{function}")', is_provable=False),
    "star": Callee("from servers.{module} import *", "{function}", is_provable=False),
    "registry": Callee(
        "from servers.{module} import {function}\n\nKNOWN = {{'it': {function}}}", "KNOWN['it']", is_provable=False
    ),
    "importlib": Callee(
        "import importlib", "importlib.import_module('servers.{module}').{function}", is_provable=False
    ),
    "globals": Callee("from servers.{module} import {function}", "globals()['{function}']", is_provable=False),
    "tried": Callee(
        "try:\n    from servers.{module} import {function}\nexcept ImportError:\n    {function} = None",
        "{function}",
        is_provable=False,
    ),
    "default value": Callee(
        "from servers.{module} import {function}",
        "ask()",
        "def ask(found={function}):\n    return found",
        is_provable=False,
    ),
    "forwarded": Callee(
        "from servers.{module} import {function}",
        "ask",
        "def ask(*given, **options):\n    return {function}(*given, **options)",
        is_provable=False,
    ),
    "attribute": Callee(
        "from servers.{module} import {function}",
        "Box.ask",
        "class Box:\n    ask = staticmethod({function})",
        is_provable=False,
    ),
    "partial": Callee(
        "import functools\nfrom servers.{module} import {function}",
        "ask",
        "ask = functools.partial({function})",
        is_provable=False,
    ),
    "imported twice": Callee(
        "from servers.{module} import {function}", "{function}", "from servers.{module} import {function}"
    ),
    "two on a line": Callee("import json, servers.{module} as remote", "remote.{function}"),
    "partial with arguments": Callee(
        "import functools\nfrom servers.{module} import {function}",
        "functools.partial",
        is_provable=False,
        first="{function}",
        last="()",
    ),
    "submitted": Callee(
        "from concurrent.futures import ThreadPoolExecutor\nfrom servers.{module} import {function}",
        "ThreadPoolExecutor(1).submit",
        is_provable=False,
        first="{function}",
        last=".result()",
    ),
    "handed over": Callee(
        "from servers.{module} import {function}\n\n\ndef use(tool, *given, **options):\n"
        "    return tool(*given, **options)\n\n",
        "use",
        is_provable=False,
        first="{function}",
    ),
    "unpacked": Callee(
        "from servers.{module} import {function}, {other}\n\nask, never = {function}, {other}", "ask", is_provable=False
    ),
    "two at once": Callee(
        "from servers.{module} import {function}\n\nask = again = {function}", "ask", is_provable=False
    ),
    "annotated": Callee(
        "from servers.{module} import {function}\n\nask: object = {function}", "ask", is_provable=False
    ),
    "eval": Callee("from servers.{module} import {function}", "eval('{function}')", is_provable=False),
    "conditional": Callee(
        "from servers.{module} import {function}, {other}",
        "({function} if wanted else {other})",
        is_provable=False,
        inputs={"wanted": "yes"},
        held_out={"wanted": ""},
    ),
}


class Arguments(msgspec.Struct, frozen=True):
    """The way that arguments are written: some by position, then by keyword, then in a dict that is unpacked."""

    positional: int = 0
    unpacked: int = 0
    """The number of the last ones that are in the dict."""
    dict_form: str = "literal"
    shuffled: bool = False
    is_provable: bool = True


_ALL = 99
ARGUMENTS: dict[str, Arguments] = {
    "keyword": Arguments(),
    "keyword shuffled": Arguments(shuffled=True),
    "positional": Arguments(positional=_ALL),
    "mixed": Arguments(positional=1),
    "** literal": Arguments(unpacked=_ALL),
    "** literal last": Arguments(unpacked=1),
    "** name": Arguments(unpacked=_ALL, dict_form="name"),
    "** name last": Arguments(positional=1, unpacked=1, dict_form="name"),
    "** dict()": Arguments(unpacked=_ALL, dict_form="dict()", is_provable=False),
    "** changed": Arguments(unpacked=_ALL, dict_form="changed", is_provable=False),
    "** merged": Arguments(unpacked=_ALL, dict_form="merged", is_provable=False),
    "** input": Arguments(unpacked=_ALL, dict_form="input", is_provable=False),
    "** comprehension": Arguments(unpacked=_ALL, dict_form="comprehension", is_provable=False),
    "* literal": Arguments(positional=_ALL, dict_form="starred", is_provable=False),
}
DICTS: dict[str, Arguments] = {
    "dict": Arguments(unpacked=_ALL),
    "dict name": Arguments(unpacked=_ALL, dict_form="name"),
    "dict()": Arguments(unpacked=_ALL, dict_form="dict()", is_provable=False),
    "dict changed": Arguments(unpacked=_ALL, dict_form="changed", is_provable=False),
    "dict merged": Arguments(unpacked=_ALL, dict_form="merged", is_provable=False),
    "dict input": Arguments(unpacked=_ALL, dict_form="input", is_provable=False),
}
"""The same for `call_tool`."""


class Place(msgspec.Struct, frozen=True):
    """The text around the call: `{inside}`, `{call}`, `{use}` and `{value}` are put in, and it fills `out`."""

    text: str
    repeats: bool = False
    """True where `item` stands for one argument, and `{items}` for its values."""
    is_inside: bool = False
    """True where `{inside}` is where `item` is."""
    is_followed: bool = True
    """True where the answer can be followed from the call to its use."""
    head: str = ""
    is_chained: bool = False
    """True where the value is made from the call itself, without a name."""
    is_quoted: bool = False
    """True where the call stands in a string, where it can have no double quotes and only one line."""


PLACES: dict[str, Place] = {
    "straight": Place("{inside}\nanswer = {call}\n{use}\nout = {value}"),
    "annotated": Place("{inside}\nanswer: object = {call}\n{use}\nout = {value}"),
    "chained": Place("{inside}\nout = {value}", is_chained=True),
    "two names": Place("{inside}\nanswer = {call}\nsame = answer\n{use}\nout = {value}"),
    "walrus": Place("{inside}\nif (answer := {call}) is None:\n    raise ValueError\n{use}\nout = {value}"),
    "in if": Place("if True:\n    {inside}\n    answer = {call}\n    {use}\n    out = {value}\nelse:\n    out = None"),
    "try": Place(
        "try:\n    {inside}\n    answer = {call}\nexcept ToolError:\n    raise\nelse:\n    {use}\n    out = {value}"
    ),
    "in with": Place(
        "with contextlib.suppress(OSError):\n    {inside}\n    answer = {call}\n    {use}\n    out = {value}",
        head="import contextlib",
    ),
    "loop": Place(
        "out = []\nfor item in {items}:\n    {inside}\n    answer = {call}\n    {use}\n    out.append({value})",
        repeats=True,
        is_inside=True,
    ),
    "while": Place(
        "{inside}\nout = []\nwaiting = {items}\nwhile waiting:\n    item = waiting.pop()\n    answer = {call}\n"
        "    {use}\n    out.append({value})",
        repeats=True,
    ),
    "inner function": Place(
        "def inner():\n    {inside}\n    answer = {call}\n    {use}\n    return {value}\n\nout = inner()"
    ),
    "inner function with parameter": Place(
        "def inner(item):\n    {inside}\n    answer = {call}\n    {use}\n    return {value}\n\n"
        "out = [inner(each) for each in {items}]",
        repeats=True,
        is_inside=True,
    ),
    "method": Place(
        "class Job:\n    def run(self):\n        {inside}\n        answer = {call}\n        {use}\n"
        "        return {value}\n\nout = Job().run()"
    ),
    "await": Place(
        "async def main():\n    {inside}\n    answer = await {call}\n    {use}\n    return {value}\n\n"
        "out = asyncio.run(main())",
        head="import asyncio",
    ),
    "comprehension": Place(
        "{inside}\nout = []\nfor answer in [{call} for item in {items}]:\n    {use}\n    out.append({value})",
        repeats=True,
    ),
    "dict comprehension": Place(
        "{inside}\nanswers = {{number: {call} for number, item in enumerate({items})}}\nout = []\n"
        "for number in answers:\n    answer = answers[number]\n    {use}\n    out.append({value})",
        repeats=True,
        is_followed=False,
    ),
    "lambda": Place(
        "{inside}\nlook = lambda item: {call}\nout = []\nfor each in {items}:\n    answer = look(each)\n    {use}\n"
        "    out.append({value})",
        repeats=True,
        is_followed=False,
    ),
    "returned": Place(
        "def inner():\n    {inside}\n    return {call}\n\nanswer = inner()\n{use}\nout = {value}", is_followed=False
    ),
    "collected": Place(
        "{inside}\nanswers = []\nfor item in {items}:\n    answers.append({call})\nout = []\nfor answer in answers:\n"
        "    {use}\n    out.append({value})",
        repeats=True,
        is_followed=False,
    ),
    "generator": Place(
        "def ask_each():\n    {inside}\n    for item in {items}:\n        yield {call}\n\nout = []\n"
        "for answer in ask_each():\n    {use}\n    out.append({value})",
        repeats=True,
        is_followed=False,
    ),
    "gather": Place(
        "async def main():\n    {inside}\n    return await asyncio.gather(*[{call} for item in {items}])\n\nout = []\n"
        "for answer in asyncio.run(main()):\n    {use}\n    out.append({value})",
        repeats=True,
        is_followed=False,
        head="import asyncio",
    ),
    "if expression": Place(
        "{inside}\nanswer = {call} if out_of_luck is None else None\n{use}\nout = {value}",
        head="out_of_luck = None",
        is_followed=False,
    ),
    "either branch": Place(
        "{inside}\nif len('ab') > 1:\n    answer = {call}\nelse:\n    answer = None\n{use}\nout = {value}",
        is_followed=False,
    ),
    "match": Place(
        "{inside}\nmatch [1]:\n    case [1]:\n        answer = {call}\n        {use}\n        out = {value}",
    ),
    "f-string": Place('{inside}\nout = f"{{{call}}}"', is_followed=False, is_quoted=True),
    "semicolons": Place("{inside}\nanswer = {call}; same = 1\n{use}\nout = {value}"),
}

FILES = ("spaces", "spaces", "spaces", "tabs", "crlf")
"""Indents of the whole text, and ends of its lines."""
LAYOUTS = ("plain", "exploded", "odd", "trailing comma")


def lay_out(callee: str, parts: list[str], layout: str) -> str:
    """The text of a call."""
    match layout:
        case "exploded" if parts:
            lines = "".join(f"    {part},{'' if number % 2 else '  # so'}\n" for number, part in enumerate(parts))
            return f"{callee}(\n{lines})"
        case "odd":
            return f"{callee} ( {' ,'.join(parts)} )"
        case "trailing comma" if parts:
            return f"{callee}({', '.join(parts)},)"
    return f"{callee}({', '.join(parts)})"


DISTRACTORS: dict[str, str] = {
    "nothing": "",
    "same keywords": "def note(**given):\n    return sorted(given)\n\nextra = note({keywords})",
    "same method": "class Desk:\n    def {function}(self, **given):\n        return sorted(given)\n\n"
    "extra = Desk().{function}({keywords})",
    "same key": 'box = {{"{field}": 5}}\nextra = [box["{field}"], box.get("{field}")]',
    "same parameter name": "def local({function}):\n    return {function}({keywords})\n\n"
    "extra = local(lambda **given: sorted(given))",
    "second call": "second = {again}\nextra = second is not None",
    "in a text": 'extra = "{function} {full} {field}"',
    "other tool": "other = {other_call}\nextra = other",
    "other tool's field": 'rows = {other_call}["entries"]\nextra = [row["display_name"] for row in rows]',
}
"""Text that looks like a use of the tool and is not one: it fills `extra`, and must not be touched."""


def dict_text(items: list[tuple[str, str]], form: str) -> tuple[str, str]:
    """The statement before, and the expression, for a dict with these keys and values as source."""
    inner = ", ".join(f'"{key}": {value}' for key, value in items)
    match form:
        case "name":
            return f"options = {{{inner}}}", "options"
        case "dict()" if all(key.isidentifier() for key, _ in items):
            return "", f"dict({', '.join(f'{key}={value}' for key, value in items)})"
        case "changed" if items:
            (key, value), rest = items[-1], items[:-1]
            head = ", ".join(f'"{each}": {text}' for each, text in rest)
            return f'options = {{{head}}}\noptions["{key}"] = {value}', "options"
        case "merged" if items:
            (key, value), rest = items[-1], items[:-1]
            head = ", ".join(f'"{each}": {text}' for each, text in rest)
            return f"options = {{{head}}}", f'{{**options, "{key}": {value}}}'
        case "comprehension":
            return "", f"{{key: value for key, value in [{', '.join(f'({key!r}, {text})' for key, text in items)}]}}"
    return "", f"{{{inner}}}"
