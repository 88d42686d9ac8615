"""The shelf: names, namespaces and limits of skills, and the version that an import gets.

Each principal has a namespace of its own, searched before the shared one. A name resolves to the first namespace that
has a usable version of it.
"""

import asyncio
import difflib
import hashlib
import heapq
import itertools
import keyword
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from sealyard.errors import InvalidSkill, SkillUnusable, UnknownSkill
from sealyard.store import Store
from sealyard.values.changes import Severity, matches
from sealyard.values.skills import (
    ShelfLimits,
    Skill,
    SkillStatus,
    namespace_of,
    namespaces_for,
    recorded_tools,
    unknown_version,
)
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import compare

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""At most 64 characters: the limit of the Agent Skills format."""
_RESERVED = frozenset(("load", "servers", "shared", "skills"))
_DECEPTIVE = re.compile(r"\r(?!\n)|[\x01-\x08\x0b\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that command a terminal or reorder text, so that a reader sees other text than the one that runs."""
_ESCAPE = "~"
_NAMESPACE_CHARACTERS = 128  # as long as the longest name of a principal
_NOTE_CHARACTERS = 2_000  # of a note, which may quote an error
_COMPARED = 20  # names that are compared letter by letter, which is slow
_USED: tuple[SkillStatus, ...] = ("draft", "active")
IsVisible = Callable[[Skill], Awaitable[bool]]
"""True for a version that exists for the principal who asks; False for one that reaches what is hidden from it."""


async def _always(skill: Skill) -> bool:
    return True


def check_name(name: str) -> None:
    """Raise `InvalidSkill` unless code can import a skill by this name, and nothing else has it."""
    if not _NAME.fullmatch(name):
        raise InvalidSkill(
            f"A skill cannot be called {_quote(name)}. Use 1 to 64 characters: a lower-case letter from a to z, then"
            " letters, digits and underscores, such as 'monthly_total'."
        )
    if keyword.iskeyword(name) or name in _RESERVED:
        raise InvalidSkill(f"A skill cannot be called {name!r}, since that means something else. Use another name.")


def split_pin(name: str, pin: str | None = None) -> tuple[str, str | None]:
    """Split a name such as `monthly_total@1.2`, or `skills.monthly_total@1.2`, into name and version.

    Raises:
        UnknownSkill: Two different versions are named.
    """
    bare, _, own = name.removeprefix("skills.").partition("@")
    if own and pin and own != pin:
        raise UnknownSkill(f"Both {_quote(name)} and version {_quote(pin)} are asked for. Name the version once.")
    return bare, own or pin or None


def digest_of(skill: Skill) -> str:
    """SHA-256 of the content of a skill, without author, time, namespace and the results of its examples."""
    parts = {
        "name": skill.name,
        "form": skill.form,
        "language": skill.language,
        "code": skill.code,
        "description": skill.description,
        "input_schema": skill.input_schema,
        "output_schema": skill.output_schema,
        "properties": list(skill.input_schema.get("properties", ())),  # order matters
        "tags": skill.tags,
        "examples": [(example.inputs, example.output) for example in skill.examples],
        "tools": [(need.tool, need.version, need.digest) for need in skill.tools],
        "skills": [(need.name, need.version) for need in skill.skills],
    }
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


class Shelf:
    """The skills of one store, with their rules."""

    def __init__(
        self, store: Store, *, limits: ShelfLimits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.limits = limits or ShelfLimits()
        self.table = store.skills
        self._clock = clock

    # Saving

    def check(self, skill: Skill) -> None:
        """Raise `InvalidSkill` for a skill that `save` would refuse, as far as the store is not needed."""
        limits = self.limits
        check_name(skill.name)
        if not 0 < len(skill.namespace) <= _NAMESPACE_CHARACTERS or not skill.namespace.isprintable():
            raise InvalidSkill(f"There is no namespace {_quote(skill.namespace)}. Use `shared`, or a principal's own.")
        code_bytes = len(skill.code.encode("utf-8", "surrogatepass"))
        if code_bytes > limits.code_bytes:
            raise InvalidSkill(
                f"The code has {code_bytes:,} bytes, and {limits.code_bytes:,} are allowed."
                " Pass data in as inputs, or split it into skills that import each other."
            )
        if not skill.code.strip():
            raise InvalidSkill("The code is empty. Send the Python text that the skill is.")
        _check_most("The description", len(skill.description), limits.description_characters, "characters")
        _check_most("The skill", len(skill.tags), limits.tags, "tags")
        _check_most("The skill", len(skill.examples), limits.examples, "examples")
        for what in ("namespace", "code", "description", "author", "origin", "note"):
            _check_text(what, getattr(skill, what))
        for tag in skill.tags:
            _check_text("tag", tag)
            if not 0 < len(tag) <= limits.tag_characters or not tag.isprintable():
                raise InvalidSkill(
                    f"{_quote(tag)} is not a tag. Use 1 to {limits.tag_characters} characters that can be printed."
                )

    async def save(self, skill: Skill) -> Skill:
        """Keep a skill as the newest version of its name, durably, and return it with its version.

        Its version, digest and times are set here. An unchanged skill is returned as it is stored.

        Raises:
            InvalidSkill: A name, size or count is out of bounds. Nothing was kept.
            StoreError: It could not be written. Nothing was kept.
        """
        self.check(skill)
        try:
            digest = digest_of(skill)
        except (OverflowError, RecursionError, TypeError, ValueError) as error:
            raise InvalidSkill(
                f"The skill holds a value that JSON cannot hold: {error}. Use plain, shallow data."
            ) from None
        changes = {"digest": digest, "note": skill.note[:_NOTE_CHARACTERS], "recorded": recorded_tools(skill.examples)}
        skill = msgspec.structs.replace(skill, **changes, modified_at=self._clock(), version="0.0.0")
        return await self.table.add(skill, lambda before: bump(skill, before), limits=self.limits)

    async def update(self, skill: Skill) -> None:
        """Keep the status, the note and the examples that a version has now, durably. Raises `UnknownSkill`."""
        note = skill.note[:_NOTE_CHARACTERS]
        await self.table.update(msgspec.structs.replace(skill, note=note), limits=self.limits)

    async def delete(self, namespace: str, name: str, version: str | None = None) -> int:
        """Delete one version, or all of them, and return their number. A version number is never used again.

        Raises:
            UnknownSkill: There is no such skill or version.
        """
        count = await self.table.delete(namespace, name, version, self._clock())
        if not count:
            wanted = "skill" if version is None else f"version {version} of a skill"
            raise UnknownSkill(f"There is no {wanted} {_quote(name)} in {_quote(namespace)}. List the skills first.")
        return count

    async def restore(self, namespace: str, name: str, version: str, *, author: str) -> Skill:
        """Keep an older version, deleted or not, as the newest one. Raises `UnknownSkill`, or as `save` does."""
        old = await self.table.get(namespace, name, version, with_deleted=True)
        if old is None:
            raise unknown_version(name, version)
        origin = f"restored from {old.version}"
        skill = msgspec.structs.replace(old, origin=origin, author=author, modified_at=self._clock())
        return await self.table.add(skill, lambda before: bump(skill, before), limits=self.limits)

    # Finding

    async def list_all(self) -> list[Skill]:
        """The newest version of each skill in every namespace, without examples."""
        return await self.table.newest(await self._namespaces())

    async def list_used(self) -> list[Skill]:
        """The version of each skill that an import gets: the newest active one, or else the newest draft."""
        namespaces = await self._namespaces()
        found: dict[tuple[str, str], Skill] = {}
        for status in _USED:
            found |= {(each.namespace, each.name): each for each in await self.table.newest(namespaces, status=status)}
        return [found[place] for place in sorted(found)]

    async def _namespaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(namespace for namespace, _ in await self.table.names()))

    async def get(self, name: str, pin: str | None, principal: str) -> Skill:
        """The newest version that a principal sees, with its examples, even if its code may not import it.

        Raises:
            UnknownSkill: There is no such skill or version.
        """
        name, pin = split_pin(name, pin)
        for namespace, version in await self._candidates(name, pin, principal):
            skill = await self.table.get(namespace, name, version)
            if skill is not None:  # else it was just deleted
                return skill
        raise await self._unknown(name, pin, principal)

    async def resolve(
        self,
        name: str,
        pin: str | None,
        principal: str,
        *,
        why_not: Callable[[Skill], Awaitable[str]],
        is_visible: IsVisible = _always,
    ) -> Skill:
        """The version that a principal's code gets, without examples: the newest active one that it can use.

        A draft of its own is taken only if there is no such version. `why_not` returns the reason why one cannot be
        used, or an empty text. A skill that is not visible does not exist.

        Raises:
            UnknownSkill: There is no such skill or version.
            SkillUnusable: No version can be used; the message is about the newest.
        """
        name, pin = split_pin(name, pin)
        refusal: SkillUnusable | None = None
        async for skill in self._seen(name, pin, principal, is_visible):
            why = _why_not(skill, principal) or await why_not(skill)
            if not why:
                return skill
            refusal = refusal or SkillUnusable(f"The skill {name!r} {skill.version} cannot be imported: {why}")
        raise refusal or await self._unknown(name, pin, principal, is_visible)

    async def _candidates(self, name: str, pin: str | None, principal: str) -> Sequence[tuple[str, str]]:
        """Namespaces and versions that a name and a pin may mean, the best first: active ones before others."""
        if not _NAME.fullmatch(name):
            return ()
        namespaces = namespaces_for(principal)
        found = [each for each in await self.table.statuses(namespaces, name) if pin is None or matches(pin, each[1])]
        found.sort(key=lambda each: (namespaces.index(each[0]), each[2] != "active"))
        return [(namespace, version) for namespace, version, _ in found]

    async def _seen(self, name: str, pin: str | None, principal: str, is_visible: IsVisible) -> AsyncIterator[Skill]:
        """The visible versions that a name and a pin may mean, the best first, without examples."""
        for namespace, version in await self._candidates(name, pin, principal):
            skill = await self.table.get(namespace, name, version, with_examples=False)
            if skill is not None and await is_visible(skill):  # else it was just deleted, or is hidden
                yield skill

    async def _unknown(
        self, name: str, pin: str | None, principal: str, is_visible: IsVisible = _always
    ) -> UnknownSkill:
        """The error for an unknown name. It reveals nothing of skills that are not visible to the principal."""
        kept = [each.version async for each in self._seen(name, None, principal, is_visible)]
        if kept:
            return UnknownSkill(
                f"The skill {name!r} has no version {_quote(pin or '')}. It has {', '.join(kept[:10])}: name one of"
                " these, or none for the newest."
            )
        namespaces = namespaces_for(principal)
        for namespace in namespaces if _NAME.fullmatch(name) else ():
            for version in await self.table.deleted(namespace, name):
                gone = await self.table.get(namespace, name, version, with_deleted=True, with_examples=False)
                if gone is not None and await is_visible(gone):
                    return UnknownSkill(f"The skill {name!r} was deleted. Restore it, or save it again.")
        names = sorted({each for namespace, each in await self.table.names() if namespace in namespaces})
        near = [
            each
            for each in await asyncio.to_thread(_nearest, name[:64], names)
            if await anext(self._seen(each, None, principal, is_visible), None) is not None
        ]
        hint = f"Nearest: {', '.join(map(repr, near))}." if near else "Call find_skills to find one that exists."
        return UnknownSkill(f"No skill named {_quote(name)}. {hint}")


def _nearest(name: str, names: Sequence[str]) -> list[str]:
    """The most similar names. Only those that share the most pairs of letters are compared, which is slow."""
    pairs = set(map("".join, itertools.pairwise(name)))
    alike = heapq.nlargest(_COMPARED, names, key=lambda each: sum(pair in each for pair in pairs))
    return difflib.get_close_matches(name, alike, n=3)


def _why_not(skill: Skill, principal: str) -> str:
    """The reason why the status of a skill keeps a principal's code from it; empty if it does not."""
    note = f" ({skill.note.rstrip('.')})" if skill.note else ""
    if skill.status == "quarantined":
        return f"it is in quarantine{note}. A person has to approve it first."
    if skill.status == "draft" and skill.namespace != namespace_of(principal) and skill.author != principal:
        return f"it is a draft of {skill.author!r}{note}. It becomes active once one of its examples passes."
    return ""


def _check_text(what: str, text: str) -> None:
    if "\0" in text:
        raise InvalidSkill(f"The {what} holds a null byte. Take it out.")
    found = _DECEPTIVE.search(text)
    if found is not None and what != "tag":  # a stricter check of tags follows
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidSkill(
            f"The {what} holds the character {found[0]!a} in line {line}, which makes it look like something else."
            " Write it as an escape, or take it out."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSkill(f"The {what} holds half of a surrogate pair, which is not Unicode. Take it out.") from None


def _check_most(what: str, count: int, most: int, unit: str) -> None:
    if count > most:
        raise InvalidSkill(f"{what} has {count:,} {unit}, and {most:,} are allowed. Leave some out.")


def _quote(text: str) -> str:
    """The text as an ASCII literal: similar letters differ, and nothing in it acts on a terminal."""
    return ascii(text if len(text) <= 80 else text[:79] + "…")


# Versions


def bump(after: Skill, before: Skill | None) -> Severity:
    """The part of the version that the step from `before` to `after` raises, by the rules for tools.

    Without a version before, every earlier one is deleted: code that calls those breaks.
    """
    if before is None:
        return "major"
    names = [list(skill.input_schema.get("properties", ())) for skill in (before, after)]
    if names[1][: len(names[0])] != names[0]:  # a skill is called by position too
        return "major"
    return compare(as_tool(before), as_tool(after)).bump


def as_tool(skill: Skill) -> ToolSpec:
    """The skill as if it were a tool, for rules and rankers that read tools."""
    return ToolSpec(
        upstream="skills",
        name=skill.name,
        full_name=skill.name,
        module="skills",
        function=skill.name,
        description=skill.description,
        input_schema=skill.input_schema,
        output_schema=skill.output_schema,
        digest=skill.digest,
    )
