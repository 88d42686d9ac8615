"""Rewrites the arguments of calls: by position, by keyword, unpacked, through `functools.partial` and through `map`."""

from collections.abc import Sequence
from typing import Any

import libcst as cst

from sealyard.versioning.migrate.facts import Use
from sealyard.versioning.migrate.mappings import Mappings
from sealyard.versioning.migrate.scopes import spelled
from sealyard.versioning.migrate.signature import Rules, Signature
from sealyard.versioning.migrate.values import NOTHING, Site


class Arguments(Mappings):
    """The calls of one piece of code."""

    def rewrite(self, module: cst.Module) -> None:
        """Rewrite every call and every mapping of arguments."""
        partials: dict[cst.Call, list[tuple[cst.Call, Use]]] = {}
        for node, uses in self.flow.calls.items():
            tools = [use for use in uses if use is not None]
            if not any(self.flow.signatures[use.plan].changes for use in tools):
                continue
            use = tools[0]
            signature = self.flow.signatures[use.plan]
            if signature.whole is not None:
                self.refuse(node, signature.whole)
            elif len(uses) > 1:
                self.refuse(node, f"this may be a call of `{self.flow.function(use.plan)}` or of something else")
            elif use.kind == "partial":
                partials.setdefault(node, [])
            elif use.partial is not None:
                partials.setdefault(use.partial, []).append((node, use))
            elif use.kind in ("mapped", "positional"):
                self._rewrite_mapped(node, signature, use)
            elif use.kind == "named":
                self.rewrite_named(node, signature)
            else:
                _Call(self, node, node.args[use.first :], signature).rewrite()
        for node, calls in partials.items():
            self._rewrite_partial(node, calls)
        self.rewrite_mappings(module)

    # Partials

    def _rewrite_partial(self, node: cst.Call, calls: Sequence[tuple[cst.Call, Use]]) -> None:
        signature = self.flow.signatures[self.plan_of(node)]
        first = node.args[1:]
        later = [call.args[use.first :] for call, use in calls]
        if any(each.star for each in first) or any(each.star == "*" for rest in later for each in rest):
            self.refuse(node, "a `partial` with `*` or `**` is not followed")
            return
        count = _positional(first)
        used = count + max(map(_positional, later), default=0)
        gone = any(signature.names[name] is None for name in signature.before[:used])
        by_name = gone or signature.moves(0, used)
        given = {signature.names.get(spelled(each.keyword)) for each in first if each.keyword is not None}
        given |= {signature.names[name] for name in signature.before[:count]}
        if {signature.names[name] for name in signature.before[count:used]} & (signature.by_name.added.keys() - given):
            self.refuse(node, "a parameter that is required now is given by position later")
        _Call(self, node, first, signature, by_name=by_name, demand=False).rewrite()
        have = {name for name in given if name is not None}
        for (call, use), rest in zip(calls, later, strict=True):
            if use.kind in ("mapped", "positional"):
                self._check_mapped(call, signature, use, count)
            else:
                _Call(self, call, rest, signature, offset=count, by_name=by_name, have=have, add=False).rewrite()

    # Calls that give arguments by position only

    def _rewrite_mapped(self, node: cst.Call, signature: Signature, use: Use) -> None:
        """`map(tool, xs)` and its kin: where positions do not suffice, `map(lambda value: tool(name=value), xs)`."""
        rest = node.args[use.first :]
        names = signature.before[: sum(each.keyword is None for each in rest)]
        have = {signature.names[name] for name in names}
        rules = signature.by_name
        if not _is_hit(signature, names, 0) and not (rules.added.keys() | rules.omitted.keys()) - have:
            return
        called = node.args[use.first - 1].value
        plain = isinstance(called, cst.Name) or (
            isinstance(called, cst.Attribute) and isinstance(called.value, cst.Name)
        )
        if not plain or any(each.star or each.keyword for each in rest):
            self.refuse(node, "the tool is called by something that gives it arguments by position only")
            return
        places = [f"value{number + 1 if number else ''}" for number in range(len(names))]
        texts = [
            text for name, place in zip(names, places, strict=True) if (text := self._named(node, rules, name, place))
        ]
        for name, value in rules.added.items():
            if name not in have:
                self.check_name(node, name)
                texts.append(f"{name}={self.write(node, name, value)}")
        self.demand(node, rules, {name for name in have if name is not None})
        if self.flow.scopes.spellings & {*places}:
            self.refuse(node, "the names `value`, `value2` and so on are taken")
        self.sources.wrap(called, f"lambda {', '.join(places)}: ", f"({', '.join(texts)})")
        self.sources.show(node, f"the parameters of `{self.flow.function(use.plan)}` changed")

    def _named(self, node: cst.Call, rules: Rules, name: str, place: str) -> str:
        """The argument by its new name, from the variable `place`; empty if it is gone."""
        after, retype = rules.names[name], rules.retyped.get(name)
        template = self.template(retype, node) if retype is not None else ("", "")
        if name in rules.blocked or template is None:
            self.refuse(node, f"`{name}` changed, and the tool is called by something that gives it by position only")
            return ""
        if after is None:
            return ""
        self.check_name(node, after)
        text = f"{template[0]}{place}{template[1]}"
        optional = retype is not None and retype.may_be_none
        return f"{after}=None if {place} is None else {text}" if optional else f"{after}={text}"

    def _check_mapped(self, node: cst.Call, signature: Signature, use: Use, offset: int) -> None:
        """A `partial` that is called so: positions have to mean what they meant."""
        count = sum(each.keyword is None for each in node.args[use.first :])
        names = signature.before[offset : offset + count]
        if _is_hit(signature, names, offset) or signature.by_name.omitted:
            self.refuse(node, "the tool is called by something that gives it arguments by position only")

    def write(self, node: cst.Call, name: str, value: Any) -> str:
        """A value as it may stand at the end of a call."""
        text = self.sources.literal(value, self.sources.span(node)[1] - 1)
        if text is None:
            self.refuse(node, f"`{name}` needs a value that cannot be written here")
        return text or "None"


class _Call:
    """One call, argument by argument."""

    def __init__(
        self,
        calls: Arguments,
        node: cst.Call,
        arguments: Sequence[cst.Arg],
        signature: Signature,
        *,
        offset: int = 0,
        by_name: bool = False,
        have: set[str] | None = None,
        add: bool = True,
        demand: bool = True,
    ) -> None:
        """`offset` and `have`: what a `partial` gave before. `by_name`: nothing stays positional."""
        self._calls = calls
        self._node = node
        self._arguments = arguments
        self._signature = signature
        self._rules = signature.by_name
        self._add = add
        self._demand = demand
        self._position = offset
        self._kept = offset
        self._named = by_name
        self._starred = False
        self._have = set(have or ())
        """New names that the call gives, and those that it may give."""
        self._maybe: set[str] = set()
        self._explicit = {spelled(each.keyword) for each in arguments if each.keyword is not None}
        self._explicit |= set(signature.before[offset : offset + _positional(arguments)])

    def rewrite(self) -> None:
        """Rewrite it."""
        node, calls = self._node, self._calls
        calls.sources.show(node, f"the parameters of `{calls.flow.function(calls.plan_of(node))}` changed")
        first = len(node.args) - len(self._arguments)
        for number, argument in enumerate(self._arguments, first):
            if argument.star == "*":
                self._unpack_list(argument)
            elif argument.star == "**":
                self._unpack_mapping(argument)
            elif not (self._starred and argument.keyword is None):
                self._rewrite_one(argument, number)
        if self._add:
            self._add_missing()
        if self._demand:
            calls.demand(node, self._rules, self._have)

    def _rewrite_one(self, argument: cst.Arg, number: int) -> None:
        """An argument that is written out."""
        calls, rules = self._calls, self._rules
        name = self._name_of(argument)
        if name is None:
            return
        held = calls.flow.given.get(argument, NOTHING)
        if name in rules.blocked and not calls.passes(argument.value, name, rules, held):
            calls.refuse(argument, rules.blocked[name])
            return
        after = rules.names[name]
        if after is None:
            calls.drop(self._node.args, number, argument.value, name)
            return
        self._have.add(after)
        if argument.keyword is not None:
            if after != name:
                calls.rename(argument.keyword, after)
        else:
            order = self._signature.after
            self._named = self._named or self._kept >= len(order) or order[self._kept] != after
            self._kept += 1
            if self._named:
                calls.check_name(argument, after)
                start = calls.sources.span(argument)[0]
                calls.sources.replace(start, start, f"{after}=")
        if name in rules.retyped:
            calls.retype(argument.value, rules.retyped[name], name, held)

    def _name_of(self, argument: cst.Arg) -> str | None:
        """The old parameter that an argument is for; None if there is nothing to be done."""
        rules, refuse = self._rules, self._calls.refuse
        if argument.keyword is None:
            self._position += 1
            if self._position > len(self._signature.before):
                refuse(argument, "the call gives more arguments by position than the tool has parameters")
                return None
            return self._signature.before[self._position - 1]
        name = spelled(argument.keyword)
        if name in rules.names:
            return name
        if name in rules.added or name in rules.names.values():
            refuse(argument, f"the call gives `{name}`, which the old tool did not have")
        if "" in rules.blocked:
            refuse(argument, rules.blocked[""])
        self._have.add(name)
        return None

    def _unpack_list(self, argument: cst.Arg) -> None:
        """`*x` stays as it is, or the call is refused."""
        signature = self._signature
        length = self._length(argument)
        stop = None if length is None else self._position + length
        names = signature.before[self._position : stop]
        if self._named or self._kept != self._position or _is_hit(signature, names, self._position):
            reason = "what `*` unpacks cannot be given by name, and the parameters it fills changed"
            self._calls.refuse(argument, reason)
        passed = {after for name in names if (after := signature.names[name]) is not None}
        if length is None:
            self._starred = True
            self._maybe |= passed
        else:
            self._have |= passed
            self._position += length
            self._kept += length

    def _length(self, argument: cst.Arg) -> int | None:
        """How many arguments `*x` gives, if that is known."""
        flow = self._calls.flow
        lengths: set[int | None] = set()
        for atom in flow.given.get(argument, NOTHING):
            known = isinstance(atom, Site) and isinstance(atom.node, cst.Tuple | cst.List) and not atom.level
            slots = flow.contents.get(atom, {}) if isinstance(atom, Site) and atom not in flow.removed else {}
            lengths.add(len(slots) if known and slots and None not in slots else None)
        return lengths.pop() if len(lengths) == 1 else None

    def _unpack_mapping(self, argument: cst.Arg) -> None:
        """`**x`: what is known of it is rewritten where it is written; what is not must not matter."""
        rules, calls = self._rules, self._calls
        sure: list[set[str]] = []
        maybe: set[str] = set()
        for atom in calls.flow.given.get(argument, NOTHING):
            keys, complete = calls.keys(atom)
            if not complete:
                hit = rules.touched - self._explicit
                if hit:
                    names = ", ".join(f"`{name}`" for name in sorted(hit)[:5])
                    calls.refuse(argument, f"what `**` unpacks is not known, and {names} may be in it")
                maybe |= {after for name, after in rules.names.items() if after and name not in self._explicit}
                maybe |= rules.added.keys() if self._signature.is_open else set()
            sure.append({rules.names.get(key, key) or "" for key, certain in keys.items() if certain})
            maybe |= {rules.names.get(key, key) or "" for key in keys}
        have = set.intersection(*sure) if sure else set()
        self._have |= have
        self._maybe |= maybe - have

    def _add_missing(self) -> None:
        """Give what has to be given now."""
        node, calls = self._node, self._calls
        texts = []
        for name, value in self._rules.added.items():
            if name in self._maybe and name not in self._have:
                self._add_before(name, value)
            elif name not in self._have:
                calls.check_name(node, name)
                texts.append(f"{name}={calls.write(node, name, value)}")
        if not texts:
            return
        if any(isinstance(each.value, cst.GeneratorExp) and not each.value.lpar for each in node.args):
            calls.refuse(node, "a generator is the only argument, and another one has to be added")
        calls.sources.append(node.args, ", ".join(texts), calls.sources.span(node)[1])

    def _add_before(self, name: str, value: Any) -> None:
        """Add what a mapping may or may not hold to the literal that it starts as."""
        node, calls = self._node, self._calls
        unpacked = [each for each in node.args if each.star]
        atoms = [atom for each in unpacked for atom in calls.flow.given.get(each, NOTHING)]
        reason = f"nobody knows whether the call gives `{name}`, which is required now"
        if any(each.star == "*" for each in unpacked):
            calls.refuse(node, reason)
        for atom in atoms:
            keys, complete = calls.keys(atom)
            if not complete or not isinstance(atom, Site) or calls.flow.callers.get(atom) != {node}:
                calls.refuse(node, reason)
            elif not keys.get(name):
                calls.add_to_mapping(atom, {name: value}, keys)


def _is_hit(signature: Signature, names: Sequence[str], offset: int) -> bool:
    """Whether arguments for these parameters, from a position on, cannot stay as they are."""
    rules = signature.by_name
    changed = any(name in rules.retyped or name in rules.blocked or rules.names[name] is None for name in names)
    return changed or signature.moves(offset, offset + len(names))


def _positional(arguments: Sequence[cst.Arg]) -> int:
    return sum(each.keyword is None and not each.star for each in arguments)
