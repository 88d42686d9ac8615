"""Rewrites the arguments of calls: by position, by keyword, by a mapping that is unpacked or handed to `call_tool`."""

import ast
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import libcst as cst

from toolyard.versioning.migrate_facts import Touch, Use
from toolyard.versioning.migrate_flow import Flow
from toolyard.versioning.migrate_scopes import spelled
from toolyard.versioning.migrate_signature import Retype, Signature
from toolyard.versioning.migrate_text import Sources
from toolyard.versioning.migrate_values import NONE, PLAIN, SCALAR, Site, Text, Value
from toolyard.versioning.steps import Untranslatable, convert

__all__ = ("Arguments",)

_SURE_CALLS = frozenset("str int float bool len round abs repr format sum".split())
_WHOLE_CALLS = frozenset("int len ord id hash".split())
_ACTS = (cst.Call, cst.Await, cst.NamedExpr, cst.Yield)


class _Rules(NamedTuple):
    """What a signature means for names of one style: those of the function, or the schema's keys."""

    names: Mapping[str, str | None]
    retyped: Mapping[str, Retype]
    blocked: Mapping[str, str]
    added: Mapping[str, Any]
    touched: frozenset[str]


class Arguments:
    """The calls of one piece of code, rewritten into `sources`."""

    def __init__(self, flow: Flow, sources: Sources, refuse: Callable[[cst.CSTNode, str], None]) -> None:
        self._flow = flow
        self._sources = sources
        self._refuse = refuse
        self._lines: dict[cst.CSTNode, tuple[cst.SimpleStatementLine, bool]] = {}
        """Statements that have a line for themselves, and whether nothing else is in their block."""
        self._consumers = _propagated(flow)
        self._done: set[cst.CSTNode] = set()

    def rewrite(self, module: cst.Module) -> None:
        """Rewrite every call and every mapping of arguments."""
        self._find_lines(module)
        partials: dict[cst.Call, list[tuple[cst.Call, Use]]] = {}
        for node, uses in self._flow.calls.items():
            tools = {use for use in uses if use is not None}
            if not tools:
                continue
            use = next(iter(tools))
            signature = self._flow.signatures[use.plan]
            if not any(self._flow.signatures[each.plan].changes for each in tools):
                continue
            if signature.whole is not None:
                self._refuse(node, signature.whole)
            elif len(uses) > 1:
                self._refuse(node, f"this may be a call of `{self._flow.function(use.plan)}` or of something else")
            elif use.kind == "partial":
                partials.setdefault(node, [])
            elif use.partial is not None:
                partials.setdefault(use.partial, []).append((node, use))
            elif use.kind == "mapped":
                self._check_mapped(node, signature, use, 0)
            elif use.kind == "named":
                self._rewrite_named(node, signature)
            else:
                self._rewrite_call(node, node.args[use.first :], signature)
        for node, calls in partials.items():
            self._rewrite_partial(node, calls)
        for site, consumers in self._consumers.items():
            self._rewrite_mapping(site, consumers)

    # Calls of the function

    def _rewrite_call(
        self,
        node: cst.Call,
        arguments: Sequence[cst.Arg],
        signature: Signature,
        *,
        offset: int = 0,
        by_name: bool = False,
        given: frozenset[str] = frozenset(),
        add: bool = True,
    ) -> None:
        """Rewrite one call. `offset` and `given`: what a `partial` gave before; `by_name`: nothing stays positional."""
        sources, rules = self._sources, _by_names(signature)
        sources.show(node, f"the parameters of `{self._flow.function(self._plan(node))}` changed")
        position, kept, named, starred = offset, offset, by_name, False
        maybe: set[str] = set()
        have = set(given)
        explicit = {spelled(each.keyword) for each in arguments if each.keyword is not None}
        explicit |= set(signature.before[offset : offset + sum(not _is_special(each) for each in arguments)])
        for number, argument in enumerate(arguments):
            index = len(node.args) - len(arguments) + number
            if argument.star == "*":
                starred = True
                if self._check_star(argument, signature, position, named=named):
                    maybe |= {signature.names[name] or "" for name in signature.before[position:]}
                continue
            if argument.star == "**":
                have_here, maybe_here = self._check_unpacked(argument, signature, rules, explicit)
                have |= have_here
                maybe |= maybe_here
                continue
            if argument.keyword is None:
                if starred:
                    continue
                name = signature.find_positional(position)
                position += 1
                if name is None:
                    self._refuse(argument, "the call gives more arguments by position than the tool has parameters")
                    return
            else:
                name = spelled(argument.keyword)
                if name not in rules.names:
                    if name in rules.added or name in rules.names.values():
                        self._refuse(argument, f"the call gives `{name}`, which the old tool did not have")
                    have.add(name)
                    continue
            after = rules.names[name]
            if name in rules.blocked:
                self._refuse(argument, rules.blocked[name])
                continue
            if after is None:
                self._drop(node.args, index, argument.value, name)
                continue
            have.add(after)
            start = sources.span(argument)[0]
            if argument.keyword is not None:
                if after != name:
                    self._keyword(argument.keyword, after)
            else:
                named = named or kept >= len(signature.after) or signature.after[kept] != after
                kept += 1
                if named:
                    self._identifier(argument, after)
                    sources.replace(start, start, f"{after}=")
            if name in rules.retyped:
                self._retype(argument.value, rules.retyped[name], name, self._flow.given.get(argument, frozenset()))
        if add:
            self._add(node, rules.added, have, maybe)

    def _add(self, node: cst.Call, added: Mapping[str, Any], have: set[str], maybe: set[str]) -> None:
        sources = self._sources
        end = sources.span(node)[1]
        texts = []
        for name, value in added.items():
            if name in have:
                continue
            if name in maybe:
                self._refuse(node, f"nobody knows whether the call gives `{name}`, which is required now")
            text = sources.literal(value, end - 1)
            self._identifier(node, name)
            if text is None:
                self._refuse(node, f"`{name}` needs a value that cannot be written here")
            texts.append(f"{name}={text}")
        if not texts:
            return
        if any(isinstance(each.value, cst.GeneratorExp) and not each.value.lpar for each in node.args):
            self._refuse(node, "a generator is the only argument, and another one has to be added")
        sources.append(node.args, ", ".join(texts), end)

    def _check_star(self, argument: cst.Arg, signature: Signature, position: int, *, named: bool) -> bool:
        """Whether `*x` may stay as it is; what it holds is not known."""
        rest = signature.before[position:]
        hit = [name for name in rest if name in signature.retyped or name in signature.blocked]
        hit += [name for name in rest if signature.names[name] is None]
        if named or hit or signature.moves(position):
            self._refuse(argument, "what `*` unpacks is not known, and the parameters it fills changed")
            return False
        return True

    def _check_unpacked(
        self, argument: cst.Arg, signature: Signature, rules: _Rules, explicit: set[str]
    ) -> tuple[set[str], set[str]]:
        """New parameters that `**x` gives, and those that it may give."""
        have: set[str] = set()
        maybe: set[str] = set()
        for atom in self._flow.given.get(argument, frozenset()):
            keys, complete = self._keys(atom)
            if not complete:
                hit = rules.touched - explicit
                if hit:
                    names = ", ".join(f"`{name}`" for name in sorted(hit)[:5])
                    self._refuse(argument, f"what `**` unpacks is not known, and {names} may be in it")
                maybe |= {after for name, after in rules.names.items() if after and name not in explicit}
                if signature.is_open:
                    maybe |= rules.added.keys()
            sure = {key for key, certain in keys.items() if certain}
            have |= {rules.names.get(key, key) or "" for key in sure}
            maybe |= {rules.names.get(key, key) or "" for key in keys.keys() - sure}
        return have, maybe

    # Partials and maps

    def _rewrite_partial(self, node: cst.Call, calls: Sequence[tuple[cst.Call, Use]]) -> None:
        plan = self._plan(node)
        signature = self._flow.signatures[plan]
        first = node.args[1:]
        positional = sum(not _is_special(each) for each in first)
        count = [sum(not _is_special(each) for each in call.args[use.first :]) for call, use in calls]
        used = positional + max(count, default=0)
        if any(each.star for each in first) or any(each.star == "*" for call, use in calls for each in call.args):
            if signature.changes:
                self._refuse(node, "a `partial` with `*` or `**` is not followed")
            return
        gone = any(signature.names[name] is None for name in signature.before[:used])
        by_name = gone or signature.moves(0, used)
        rules = _by_names(signature)
        given = frozenset(
            [rules.names.get(spelled(each.keyword)) or "" for each in first if each.keyword is not None]
            + [signature.names[name] or "" for name in signature.before[:positional]]
        )
        later = {signature.names[name] for name in signature.before[positional:used]}
        if later & (rules.added.keys() - given):
            self._refuse(node, "a parameter that is required now is given by position later")
        self._rewrite_call(node, first, signature, by_name=by_name)
        for call, use in calls:
            if use.kind == "mapped":
                self._check_mapped(call, signature, use, positional, add=False)
            else:
                rest = call.args[use.first :]
                self._rewrite_call(call, rest, signature, offset=positional, by_name=by_name, given=given, add=False)

    def _check_mapped(self, node: cst.Call, signature: Signature, use: Use, offset: int, *, add: bool = True) -> None:
        """`map` gives each list's items by position: that has to mean the same as before."""
        count = sum(argument.keyword is None for argument in node.args[use.first :])
        names = signature.before[offset : offset + count]
        changed = any(name in signature.retyped or name in signature.blocked for name in names)
        changed = changed or any(signature.names[name] is None for name in names)
        missing = add and signature.added.keys() - {signature.names[name] for name in names}
        if changed or missing or signature.moves(offset, offset + count):
            self._refuse(node, "the tool is called by `map`, which gives arguments by position only")

    # Mappings

    def _rewrite_named(self, node: cst.Call, signature: Signature) -> None:
        """`call_tool(name, arguments)`."""
        rules = _by_keys(signature)
        sources = self._sources
        rest = [each for each in node.args if each.keyword is None or each.keyword.value != "name"]
        if (
            rest
            and rest[0].keyword is None
            and not any(each.keyword and each.keyword.value == "name" for each in node.args)
        ):
            rest = rest[1:]
        sources.show(node, f"the parameters of `{self._flow.function(self._plan(node))}` changed")
        missing = dict(rules.added)
        if not rest or (isinstance(rest[0].value, cst.Name) and rest[0].value.value == "None"):
            if missing:
                text = sources.literal(missing, sources.span(node)[1] - 1)
                if text is None:
                    self._refuse(node, "the arguments that are required now cannot be written here")
                elif rest:
                    sources.replace_node(rest[0].value, text)
                else:
                    sources.append(node.args, text, sources.span(node)[1])
            return
        for atom in self._flow.given.get(rest[0], frozenset()):
            keys, complete = self._keys(atom)
            if atom == NONE:
                if missing:
                    self._refuse(node, "the arguments may be `None`, and some are required now")
            elif not complete and (rules.touched or missing):
                self._refuse(node, "the arguments that `call_tool` gets are not known")
            elif isinstance(atom, Site):
                self._add_to_mapping(atom, {key: value for key, value in missing.items() if not keys.get(key)}, keys)

    def _add_to_mapping(self, site: Site, missing: Mapping[str, Any], keys: Mapping[str, bool]) -> None:
        sources, node = self._sources, site.node
        if not missing or node in self._done:
            return
        self._done.add(node)
        if not isinstance(node, cst.Dict | cst.Call) or site.level:
            self._refuse(node, "a required argument has to be added to a mapping that is not written out")
            return
        end = sources.span(node)[1]
        texts = []
        for key, value in missing.items():
            text = sources.literal(value, end - 1)
            name = sources.quoted(key, end - 1)
            if text is None or name is None:
                self._refuse(node, f"`{key}` needs a value that cannot be written here")
            elif isinstance(node, cst.Call):
                self._identifier(node, key)
                texts.append(f"{key}={text}")
            else:
                texts.append(f"{name}: {text}")
        if len(self._consumers.get(site, set())) != 1:
            self._refuse(node, "a required argument has to be added to a mapping that is used for something else too")
        # Where a later statement may set the key, the value in front is what holds if it does not.
        if self._flow.spreads.get(site) and missing.keys() & keys.keys():
            self._refuse(node, "nobody knows whether a mapping that is unpacked holds what is required now")
        sources.append(node.elements if isinstance(node, cst.Dict) else node.args, ", ".join(texts), end)
        sources.show(node, "arguments are required now")

    def _rewrite_mapping(self, site: Site, consumers: set[tuple[str, int] | None]) -> None:
        """Rename, drop and convert in a mapping of arguments, wherever a key of it is written."""
        tools = [each for each in consumers if each is not None]
        rules = [
            _by_keys(self._flow.signatures[p]) if s == "keys" else _by_names(self._flow.signatures[p]) for s, p in tools
        ]
        keys, _ = self._keys(site)
        hit = [key for rule in rules for key in keys if key in rule.touched]
        if not hit:
            return
        if len(consumers) > 1 and (None in consumers or any(rule[:4] != rules[0][:4] for rule in rules[1:])):
            self._refuse(site.node, f"a mapping of arguments with `{hit[0]}` is used for something else too")
            return
        rule = rules[0]
        node = site.node
        self._sources.show(node, f"the parameters of `{self._flow.function(tools[0][1])}` changed")
        if isinstance(node, cst.Dict):
            for number, element in enumerate(node.elements):
                if isinstance(element, cst.DictElement):
                    text = _text_of(element.key)
                    self._entry(node.elements, number, element.key, element.value, text, rule)
        elif isinstance(node, cst.Call) and not site.level:
            for number, argument in enumerate(node.args):
                if argument.keyword is not None:
                    self._entry(node.args, number, argument.keyword, argument.value, spelled(argument.keyword), rule)
        elif not isinstance(node, cst.BinaryOperation):
            self._refuse(node, f"`{hit[0]}` is in a mapping that is not written out")
        for touch in self._flow.touches.get(site, ()):
            self._touch(touch, rule)

    def _entry(
        self,
        parts: Sequence[Any],
        number: int,
        key: cst.BaseExpression,
        value: cst.BaseExpression,
        text: str | None,
        rule: _Rules,
    ) -> None:
        if text is None or text not in rule.touched or key in self._done:
            return
        self._done.add(key)
        after = rule.names.get(text, text)
        if text in rule.blocked:
            self._refuse(key, rule.blocked[text])
        elif after is None:
            self._drop(parts, number, value, text)
        else:
            if after != text:
                self._key(key, after)
            if text in rule.retyped:
                self._retype(value, rule.retyped[text], text, frozenset())

    def _touch(self, touch: Touch, rule: _Rules) -> None:
        """A place outside of the literal that reads or writes a key."""
        node = touch.node
        place: cst.BaseExpression | None = None
        if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
            place = node.slice[0].slice.value
        elif isinstance(node, cst.Call) and node.args:
            place = node.args[0].value
        elif isinstance(node, cst.Comparison):
            place = node.left
        elif isinstance(node, cst.Arg):
            place = node.keyword
        text = spelled(place) if isinstance(node, cst.Arg) and isinstance(place, cst.Name) else _text_of(place)
        if text is None or place is None:
            if any(isinstance(atom, Text) and atom.text in rule.touched for atom in touch.key):
                self._refuse(node, "a key of the arguments is named in a way that is not followed")
            return
        if text not in rule.touched or place in self._done:
            return
        self._done.add(place)
        self._sources.show(node, "a parameter changed")
        after = rule.names.get(text, text)
        if text in rule.blocked:
            self._refuse(node, rule.blocked[text])
        elif after is None:
            statement = next(
                (each for each in self._lines if isinstance(each, cst.Assign) and _targets(each, node)), None
            )
            if statement is None or not isinstance(statement, cst.Assign) or not _is_pure(statement.value):
                self._refuse(node, f"the parameter `{text}` is gone, and this use of it cannot be taken out")
            else:
                line, alone = self._lines[statement]
                self._sources.remove_statement(line, alone=alone)
        else:
            if after != text:
                self._key(place, after)
            if text in rule.retyped and touch.value is not None and touch.value is not node:
                self._retype(touch.value, rule.retyped[text], text, frozenset())
            elif text in rule.retyped:
                self._refuse(node, f"`{text}` has another type now, and this use of it is not followed")

    def _keys(self, atom: object) -> tuple[dict[str, bool], bool]:
        """The keys of a mapping, each with whether it is there for certain, and whether these are all."""
        if atom == NONE:
            return {}, True
        if not isinstance(atom, Site) or atom not in self._flow.keys or isinstance(atom.node, cst.Param):
            return {}, False
        node, slots = atom.node, self._flow.contents.get(atom, {})
        certain: set[str | None] = set()
        if isinstance(node, cst.Dict):
            certain |= {_text_of(each.key) for each in node.elements if isinstance(each, cst.DictElement)}
        elif isinstance(node, cst.Call):
            certain |= {spelled(each.keyword) for each in node.args if each.keyword is not None}
        complete = isinstance(node, cst.Dict | cst.Call | cst.BinaryOperation) and not atom.level
        complete = complete and not slots.get(None)
        for base in self._flow.spreads.get(atom, frozenset()):
            keys, whole = self._keys(base) if base != atom else ({}, True)
            complete = complete and whole
            only = len(self._flow.spreads[atom]) == 1
            certain |= {key for key, sure in keys.items() if sure and only}
        return {slot: slot in certain for slot in slots if isinstance(slot, str)}, complete

    # Words

    def _keyword(self, node: cst.Name, after: str) -> None:
        self._identifier(node, after)
        self._sources.replace_node(node, after)

    def _key(self, node: cst.BaseExpression, after: str) -> None:
        if isinstance(node, cst.Name):
            self._keyword(node, after)
            return
        like = node.quote[0] if isinstance(node, cst.SimpleString) else '"'
        text = self._sources.quoted(after, self._sources.span(node)[0], like)
        if text is None:
            self._refuse(node, f"`{after}` cannot be written here")
        else:
            self._sources.replace_node(node, text)

    def _identifier(self, node: cst.CSTNode, name: str) -> None:
        if not name.isidentifier() or keyword.iskeyword(name):
            self._refuse(node, f"`{name}` is no name that Python code can give an argument by")

    def _drop(self, parts: Sequence[Any], number: int, value: cst.BaseExpression, name: str) -> None:
        if _is_pure(value):
            self._sources.remove(parts, number)
        else:
            self._refuse(
                value, f"the parameter `{name}` is gone, and what it was given does something when it is evaluated"
            )

    # Types

    def _retype(self, node: cst.BaseExpression, retype: Retype, name: str, held: Value) -> None:
        """Convert what is given for a parameter."""
        found, value = _literal(self._sources.text(node))
        if found and not isinstance(value, list | dict | tuple | set | bytes):
            try:
                converted = convert(value, retype.to, name)
            except Untranslatable as error:
                self._refuse(node, str(error))
                return
            if converted != value or type(converted) is not type(value):
                text = self._sources.literal(converted, self._sources.span(node)[0])
                if text is None:
                    self._refuse(node, f"the value of `{name}` cannot be written here")
                else:
                    self._sources.replace_node(node, text)
            return
        if retype.before == "number" and retype.to == "integer" and self._is_whole(node):
            return
        template = _template(retype)
        if template is None or isinstance(node, _COLLECTIONS):
            self._refuse(node, f"`{name}` is {retype.to} now, and what it is given cannot be converted for certain")
            return
        before, after = template
        if after.endswith("=="):
            after = f" == {self._sources.quoted('true', self._sources.span(node)[0])})"
        if not retype.may_be_none or self._is_something(node, held):
            self._sources.wrap(node, before, after)
        elif isinstance(node, cst.Name):
            self._sources.wrap(node, f"None if {node.value} is None else {before}", after)
        elif not _holds(node, (cst.Await, cst.NamedExpr, cst.Yield)):
            start = f"(lambda value: None if value is None else {before}value{after})("
            self._sources.wrap(node, start, ")")
        else:
            self._refuse(node, f"`{name}` is {retype.to} now, and what it is given may be `None`")

    def _is_something(self, node: cst.BaseExpression, held: Value) -> bool:
        """Whether an expression is certainly not `None`."""
        if isinstance(node, cst.FormattedString | cst.BinaryOperation | cst.Comparison | cst.UnaryOperation):
            return True
        if isinstance(node, cst.Call) and self._called(node) in _SURE_CALLS:
            return True
        return bool(held) and all(isinstance(atom, Text) or atom in (PLAIN, SCALAR) for atom in held)

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is certainly an integer."""
        if isinstance(node, cst.Integer):
            return True
        if isinstance(node, cst.BinaryOperation):
            exact = isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply)
            return exact and self._is_whole(node.left) and self._is_whole(node.right)
        return isinstance(node, cst.Call) and self._called(node) in _WHOLE_CALLS

    def _called(self, node: cst.Call) -> str | None:
        if isinstance(node.func, cst.Name) and node.func not in self._flow.scopes.of:
            return node.func.value
        return None

    def _plan(self, node: cst.Call) -> int:
        return next(use.plan for use in self._flow.calls[node] if use is not None)

    def _find_lines(self, node: cst.CSTNode) -> None:
        for child in node.children:
            if isinstance(child, cst.SimpleStatementLine) and len(child.body) == 1:
                inside = node.body if isinstance(node, cst.IndentedBlock) else (child, child)
                self._lines[child.body[0]] = child, len(inside) == 1
            elif isinstance(
                child, cst.BaseCompoundStatement | cst.BaseSuite | cst.Else | cst.Finally | cst.ExceptHandler
            ) or isinstance(child, cst.ExceptStarHandler | cst.MatchCase):
                self._find_lines(child)


_COLLECTIONS = (cst.List, cst.Tuple, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


def _by_names(signature: Signature) -> _Rules:
    return _Rules(signature.names, signature.retyped, signature.blocked, signature.added, signature.touched)


def _by_keys(signature: Signature) -> _Rules:
    s = signature
    return _Rules(s.keys, s.retyped_keys, s.blocked_keys, s.added_keys, s.touched_keys)


def _propagated(flow: Flow) -> dict[Site, set[tuple[str, int] | None]]:
    """Whose arguments each mapping is, with those that are unpacked into another."""
    consumers = {site: set(found) for site, found in flow.consumers.items()}
    queue = list(consumers)
    while queue:
        site = queue.pop()
        for base in flow.spreads.get(site, frozenset()):
            if isinstance(base, Site) and not consumers[site] <= consumers.get(base, set()):
                consumers.setdefault(base, set()).update(consumers[site])
                queue.append(base)
    return consumers


def _template(retype: Retype) -> tuple[str, str] | None:
    match retype.before, retype.to:
        case "string", "integer":
            return "int(", ")"
        case "string", "number":
            return "float(", ")"
        case (("integer" | "number"), "string"):
            return "str(", ")"
        case "boolean", ("integer" | "number"):
            return "int(", ")"
        case "integer", "boolean" if retype.words:
            return "bool(", ")"
        case "string", "boolean" if retype.words:
            return "(", "=="
        case "integer", "number":
            return "", ""
    return None


def _literal(text: str) -> tuple[bool, Any]:
    try:
        return True, ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False, None


def _text_of(node: cst.BaseExpression | None) -> str | None:
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and isinstance(node.evaluated_value, str):
        return node.evaluated_value
    return None


def _is_special(argument: cst.Arg) -> bool:
    return argument.keyword is not None or bool(argument.star)


def _is_pure(node: cst.CSTNode) -> bool:
    """Whether nothing happens when an expression is not evaluated."""
    return not _holds(node, _ACTS)


def _holds(node: cst.CSTNode, kinds: tuple[type, ...]) -> bool:
    return isinstance(node, kinds) or any(_holds(child, kinds) for child in node.children)


def _targets(statement: cst.Assign, node: cst.CSTNode) -> bool:
    return len(statement.targets) == 1 and statement.targets[0].target is node
