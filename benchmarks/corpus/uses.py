"""The ways in which code uses a field of an answer. `{answer}` is the answer; rows have `{rows}`, each `row`."""

import msgspec


class Use(msgspec.Struct, frozen=True):
    """Statements, and the expression of the value that they lead to."""

    value: str
    lines: str = ""
    is_followed: bool = True
    """Code like this shows where the field is used."""
    head: str = ""


# {at} is what follows a row to get the field: `["name"]`. {up} is the same without its last step, {key} that step.
_OF_ROWS: dict[str, Use] = {
    "loop": Use("found", "found = []\nfor row in {rows}:\n    found.append(row{at})"),
    "comprehension": Use("[row{at} for row in {rows}]"),
    "generator": Use('"|".join(str(row{at}) for row in {rows})'),
    "enumerate": Use("{{number: row{at} for number, row in enumerate({rows})}}"),
    "sorted key": Use("[row{at} for row in sorted({rows}, key=lambda row: str(row{at}))]"),
    "max key": Use("max({rows}, key=lambda row: str(row{at})){at}"),
    "index": Use("{rows}[0]{at}"),
    "slice": Use("[row{at} for row in {rows}[:1]]"),
    "row get": Use('[row{up}.get("{key}") for row in {rows}]'),
    "row get default": Use('[row{up}.get("{key}", 0) for row in {rows}]'),
    "rows name": Use("[row{at} for row in found]", "found = {rows}"),
    "condition": Use("[row for row in range(len([row for row in {rows} if row{at}]))]"),
    "reversed": Use("[row{at} for row in reversed({rows})]"),
    "nested loop": Use(
        "found", "found = []\nfor turn in range(2):\n    for row in {rows}:\n        found.append(row{at})"
    ),
    "sort method": Use("[row{at} for row in found]", "found = list({rows})\nfound.sort(key=lambda row: str(row{at}))"),
    "unpacked": Use("[first{at}, len(others)]", "first, *others = {rows}", is_followed=False),
    "filter": Use("[row{at} for row in filter(lambda row: row{at} != 0, {rows})]", is_followed=False),
    "map": Use("list(map(lambda row: row{at}, {rows}))", is_followed=False),
    "named function": Use("[label(row) for row in {rows}]", "def label(row):\n    return row{at}\n", is_followed=False),
    "itemgetter": Use(
        '[operator.itemgetter("{key}")(row{up}) for row in {rows}]', is_followed=False, head="import operator"
    ),
    "key name": Use("[row{up}[key] for row in {rows}]", 'key = "{key}"', is_followed=False),
    "key loop": Use('[row{up}[key] for key in ("{key}",) for row in {rows}]', is_followed=False),
    "membership": Use('["{key}" in row{up} for row in {rows}]', is_followed=False),
    "items": Use("[sorted(row{up}) for row in {rows}]", is_followed=False),
    "copied": Use("[row{at} for row in [{{**row}} for row in {rows}]]", is_followed=False),
    "stored": Use("[row{at} for row in box['rows']]", "box = {{}}\nbox['rows'] = {rows}", is_followed=False),
    "changed": Use(
        "[row{at} for row in {rows}]", "for row in {rows}:\n    row{up}['{key}'] = str(row{at})", is_followed=False
    ),
    "mapping pattern": Use(
        "found",
        "found = []\nfor row in {rows}:\n    match row{up}:\n"
        '        case {{"{key}": seen}}:\n            found.append(seen)',
        is_followed=False,
    ),
    "first name": Use("first{at}", "first = {rows}[0]"),
    "augmented": Use("text", 'text = ""\nfor row in {rows}:\n    text += str(row{at})'),
    "rows get": Use("[row{at} for row in {got}]"),
    "or nothing": Use("[row{at} for row in {rows} or []]", is_followed=False),
    "range": Use("[{rows}[number]{at} for number in range(len({rows}))]", is_followed=False),
    "rows returned": Use("[row for row in {rows} if row{at} != 0]", is_followed=False),
    "sorted returned": Use("sorted({rows}, key=lambda row: str(row{at}))", is_followed=False),
    "same name": Use("[row{at} for row in answer]", "answer = {rows}", is_followed=False),
    "percent": Use('["%({key})s" % row{up} for row in {rows}]', is_followed=False),
    "next": Use("next(row{at} for row in {rows})"),
    "zip": Use("[row{at} for row, number in zip({rows}, range(9))]", is_followed=False),
}
_OF_OBJECT: dict[str, Use] = {
    "subscript": Use("{answer}{at}"),
    "get": Use('{answer}{up}.get("{key}")'),
    "get default": Use('{answer}{up}.get("{key}", 0)'),
    "name": Use("value", "value = {answer}{at}"),
    "f-string": Use('f"\0{answer}{single}\1"'),
    "in a list": Use("[{answer}{at}, 1, {answer}{at}]"),
    "in a call": Use("str({answer}{at}).upper()"),
    "compared": Use("value", "value = 0\nif {answer}{at} is not None:\n    value = 1"),
    "tried": Use("value", "try:\n    value = {answer}{at}\nexcept KeyError:\n    value = 'nothing'"),
    "membership": Use('"{key}" in {answer}{up}', is_followed=False),
    "pop": Use("{answer}{up}.pop('{key}')", is_followed=False),
    "key name": Use("{answer}{up}[key]", 'key = "{key}"', is_followed=False),
    "items": Use("sorted({answer}{up})", is_followed=False),
    "copied": Use("copy{at}", "copy = dict({answer})", is_followed=False),
    "unpacked": Use("value", "value, *_ = [{answer}{at}]"),
    "changed": Use("{answer}{at}", "{answer}{up}['{key}'] = 3", is_followed=False),
    "named function": Use("label({answer})", "def label(found):\n    return found{at}\n", is_followed=False),
}
_WHOLE: dict[str, Use] = {
    "whole": Use("{answer}", is_followed=False),
    "dumped": Use("json.dumps({answer}, sort_keys=True)", is_followed=False, head="import json"),
    "printed": Use("len(str({answer}))", is_followed=False),
}


def uses_of(steps: tuple[str, ...]) -> dict[str, Use]:
    """Every use of the field at `steps`, with all but `{answer}` put in."""
    filled = {}
    place = 0
    if "[]" in steps:
        place = steps.index("[]")
        rows, tail = "{answer}" + _access(steps[:place]), steps[place + 1 :]
        templates = _OF_ROWS if tail and "[]" not in tail else {}
    else:
        rows, tail, templates = "", steps, _OF_OBJECT if steps else {}
    got = f'{{answer}}{_access(steps[: place - 1])}.get("{steps[place - 1]}", [])' if rows and place else rows
    given = {"rows": rows, "got": got, "answer": "{answer}", "at": _access(tail), "up": _access(tail[:-1])}
    given |= {"key": tail[-1] if tail else "", "single": _access(tail).replace('"', "'")}
    for name, use in (templates | _WHOLE).items():
        texts = {part: _fill(getattr(use, part), given) for part in ("value", "lines")}
        filled[name] = msgspec.structs.replace(use, **texts)
    return filled


def _access(steps: tuple[str, ...]) -> str:
    return "".join(f'["{step}"]' for step in steps)


def _fill(template: str, given: dict[str, str]) -> str:
    """Braces stay doubled: the answer is put in later."""
    text = template.replace("{{", "\0").replace("}}", "\1")
    for name, value in given.items():
        text = text.replace("{" + name + "}", value)
    return text.replace("\0", "{{").replace("\1", "}}")
