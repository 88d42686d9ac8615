"""Schemas and values made to crash or stall whoever validates with them.

They run in a process of their own, which is this file as a script: one that overflows its stack takes no test with it.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sealyard.catalog import check_arguments
from sealyard.catalog.stubs import Stub
from sealyard.errors import InvalidArguments
from sealyard.values.tools import ToolSpec

Schema = dict[str, Any]


def nested(levels: int, value: Any, wrap: Callable[[Any], Any]) -> Any:
    """`value` inside of itself, so many times."""
    for _ in range(levels):
        value = wrap(value)
    return value


def lists(levels: int) -> Any:
    """`[[[1]]]`."""
    return nested(levels, 1, lambda value: [value])


def objects(levels: int) -> Any:
    """`{"x": {"x": {}}}`."""
    return nested(levels, {}, lambda value: {"x": value})


def x(schema: Schema, **root: Any) -> Schema:
    """A tool with the one parameter `x`."""
    return {"properties": {"x": schema}, **root}


def doubled(keyword: str, levels: int) -> Schema:
    """Each definition refers to the one before it twice."""
    chain = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, levels)}
    return x({"$ref": f"#/$defs/d{levels - 1}"}, **{"$defs": {"d0": {"type": "integer"}, **chain}})


def chained(levels: int) -> Schema:
    """Each definition refers to the next one."""
    links = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)}
    return x({"$ref": "#/$defs/d0"}, **{"$defs": {**links, f"d{levels}": {"type": "integer"}}})


def unevaluated(levels: int) -> Schema:
    """Each level goes through all below it again to learn what was evaluated."""
    inner = {"properties": {"x": {}}, "unevaluatedProperties": False}
    schema: Schema = nested(levels, inner, lambda schema: {"anyOf": [schema], "unevaluatedProperties": False})
    return schema


def circles() -> Iterator[tuple[str, Schema, Any]]:
    """Schemas that apply themselves to the same value. None can be judged, so all pass."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield f"itself in {keyword}", {keyword: [{"$ref": "#"}]}, {"x": 1}
    yield "itself", {"$ref": "#"}, {"x": 1}
    yield "itself in not", {"not": {"$ref": "#"}}, {"x": 1}
    yield "itself in if", {"if": {"$ref": "#"}, "then": {}}, {"x": 1}
    yield "itself by a dependency", {"dependentSchemas": {"x": {"$ref": "#"}}}, {"x": 1}
    yield "itself by an anchor", {"$anchor": "me", "anyOf": [{"$ref": "#me"}]}, {"x": 1}
    yield "itself by a dynamic one", {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]}, {"x": 1}
    yield (
        "each other",
        x({"$ref": "#/$defs/a"}, **{"$defs": {k: {"$ref": f"#/$defs/{v}"} for k, v in ("ab", "ba")}}),
        {"x": 1},
    )


def explosions() -> Iterator[tuple[str, Schema, Any]]:
    """Little text, much work."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield f"doubled {keyword}", doubled(keyword, 40), {"x": "s"}
    yield "refused: doubled a little", doubled("anyOf", 8), {"x": "s"}
    yield "long chain", chained(100_000), {"x": "s"}
    yield "refused: short chain", chained(30), {"x": "s"}
    branches = [{"properties": {"x": {"$ref": "#"}}, "required": [key]} for key in "yz"]
    yield "branching circle", {"anyOf": branches}, objects(60)
    yield "refused: branching circle in short", {"anyOf": branches}, objects(5)
    tangle = {
        f"n{n}": {"additionalProperties": {"anyOf": [{"$ref": f"#/$defs/n{m}"} for m in range(12)]}} for n in range(12)
    }
    yield "tangle", {"$ref": "#/$defs/n0", "$defs": tangle}, objects(12)
    yield "unevaluated", unevaluated(40), {"x": 1}


def sizes() -> Iterator[tuple[str, Schema, Any]]:
    """Too deep, too long, too many."""
    yield "deep", nested(10_000, {}, lambda schema: {"items": schema}), {"x": 1}
    yield "rather deep", nested(240, {}, lambda schema: {"anyOf": [schema]}), {"x": 1}
    yield "deep enum", {"enum": [lists(5000)]}, {"x": 1}
    yield "deep value", {"additionalProperties": {"$ref": "#"}}, objects(50_000)
    yield (
        "deep list",
        x({"$ref": "#/$defs/l"}, **{"$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}}),
        {"x": lists(50_000)},
    )
    yield "many properties", {"properties": {f"p{n}": {"type": "string"} for n in range(30_000)}}, {"p1": 1}
    yield "refused: many demanded", {"required": [f"p{n}" for n in range(15_000)]}, {}
    yield "many to compare", x({"items": {"enum": [{"a": n} for n in range(5000)]}}), {"x": [{"a": 4999}] * 20_000}
    yield "refused: many errors", x({"items": {"type": "string"}}), {"x": [1] * 500_000}
    yield "many parts", x({"items": {"type": "string"}}), {"x": [1] * 3_000_000}
    yield "long description", {"description": "d" * 5_000_000}, {"x": 1}
    yield "refused: half a character", {"properties": {"\ud800": {}}, "required": ["\ud800"]}, {"x": "\ud800"}
    odd = {"a": 5, "b": [], "c": {"type": [5, None], "items": 5, "anyOf": [5], "enum": 5}}
    yield (
        "wrong everywhere",
        {"type": 5, "properties": odd, "required": [5, {}], "allOf": 5, "$ref": 5, "$defs": 5},
        {"x": 1},
    )


def patterns() -> Iterator[tuple[str, Schema, Any]]:
    """Regular expressions that take long, or much memory."""
    yield "refused: steep", x({"pattern": "^(a+)+$"}), {"x": "a" * 50 + "!"}
    yield "looking ahead", x({"pattern": "^(?=(a+)+$)"}), {"x": "a" * 50 + "!"}
    yield "growing", x({"pattern": "((a{1,900}){1,900}){1,900}"}), {"x": "a"}
    yield "nested pattern", x({"pattern": "(" * 50_000 + ")" * 50_000}), {"x": "a"}
    many = {f"x{n}": {"pattern": f"(\\w{{1,90}}){{1,9}}{n}"} for n in range(5000)}
    yield "many patterns", {"properties": many}, {"x1": "a"}
    yield (
        "patterns on one text",
        x({"allOf": [{"pattern": f"^[ab]*a[ab]{{{n}}}$"} for n in range(400, 490)]}),
        {"x": "ab" * 9000},
    )
    yield "pattern for names", {"patternProperties": {"^[ab]*a[ab]{500}$": {}}}, {"ab" * 10**6: 1}


def attacks() -> list[tuple[str, Schema, Any]]:
    """All of them; those whose name says so are judged, and the rest is left to the upstream."""
    return [*circles(), *explosions(), *sizes(), *patterns()]


def main() -> None:
    """Try them all, and print a line about each."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    for number, (name, schema, arguments) in enumerate(attacks()):
        names = {"upstream": "u", "name": "t", "full_name": "mcp__u__t", "module": "u", "function": "t"}
        spec = ToolSpec(**names, input_schema=schema, output_schema=schema, digest=str(number))
        verdicts = set()
        for _ in range(2):  # once to compile, once to use
            try:
                verdicts.add("passed" if check_arguments(spec, arguments) is arguments else "changed")
            except InvalidArguments as error:
                verdicts.add("refused" if len(str(error)) < 5000 else "refused at length")
        noted = sum(map(len, Stub(spec).notes.values()))
        sizes = [len(Stub(spec).signature) < 2100, noted < 3000, len(Stub(spec).returns) < 700]
        print(json.dumps([name, *verdicts, *sizes]), flush=True)


def test_no_schema_crashes_or_stalls_the_gateway() -> None:
    """Each is judged, or left to the upstream, within seconds for all of them, and what is said of it is short."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__))], check=False, capture_output=True, text=True, timeout=110
    )

    expected = [
        [name, "refused" if name.startswith("refused: ") else "passed", True, True, True] for name, _, _ in attacks()
    ]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    main()
