"""Saved skills over MCP: the skills extension (SEP-2640). Each skill is a folder, and its files are resources.

What is asked for is looked up by its exact URI among what the principal's own listing holds: no URI is decoded, joined
or normalised, so none leads elsewhere.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from sealyard.serve.cursors import read_cursor, to_cursor
from sealyard.serve.dialogue import Context, principal_of
from sealyard.values.skills import ServedFolder

if TYPE_CHECKING:  # the handshake names the extension before skills can be read
    from sealyard.skills import Skills

EXTENSION = "io.modelcontextprotocol/skills"

Json = dict[str, Any]

_SETTINGS: Json = {"directoryRead": True}
_HANDSHAKES = frozenset({"initialize", "server/discover"})
_READERS = frozenset({"claude-code", "codex-mcp-client", "opencode"})
"""Agents that do not know the extension, and give their model three more tools, 280 to 370 tokens, for a server with
resources. The handshake names none to them."""
_LIST, _GET, _DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
_RESOURCES, _TEMPLATES, _READ = "resources/list", "resources/templates/list", "resources/read"

_PAGE_ENTRIES = 50  # an entry has the digests of all files of a skill, so pages stay short

# A skill can be saved anew at any time, and a file must fit the digest in its entry: nothing is to be kept.
_RESULT: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

_SKILL_FILE = "SKILL.md"
_PATH_CHARACTERS = "/!$&'()*+,;=:@"  # allowed in the path of a URI besides those that always are
_MIME_TYPES = {"json": "application/json", "md": "text/markdown", "py": "text/x-python"}
"""By the endings of the files that a saved skill is written as: all of them are text."""

_log = logging.getLogger(__name__)


class _SkillParams(types.RequestParams):
    uri: str


class _DirectoryParams(types.PaginatedRequestParams):
    uri: str


def extend(server: Server[Any], skills: "Callable[[], Skills]") -> None:
    """Serve the folders of what `skills` returns, to each principal its own.

    The server must have no resources of another kind.
    """
    served = _Served(skills)
    server.extensions[EXTENSION] = _SETTINGS
    server.middleware.append(_declare)  # type: ignore[arg-type] # any awaitable will do
    server.add_request_handler(_LIST, types.PaginatedRequestParams, served.list_skills)
    server.add_request_handler(_GET, _SkillParams, served.get_skill)
    server.add_request_handler(_DIRECTORY, _DirectoryParams, served.read_directory)
    server.add_request_handler(_RESOURCES, types.PaginatedRequestParams, served.list_resources)
    server.add_request_handler(_TEMPLATES, types.PaginatedRequestParams, served.list_templates)
    server.add_request_handler(_READ, types.ReadResourceRequestParams, served.read_resource)


def _declare(ctx: Context, call_next: CallNext) -> Awaitable[HandlerResult]:
    """Names the extension in the handshake. Any other request passes without a frame of ours around it."""
    return _declared(ctx, call_next) if ctx.method in _HANDSHAKES else call_next(ctx)


async def _declared(ctx: Context, call_next: CallNext) -> HandlerResult:
    """The handshake with the extension, which the SDK takes out: the older era's schema does not know it."""
    result = await call_next(ctx)
    if not isinstance(result, dict):
        return result
    capabilities = dict(result["capabilities"])
    capabilities["extensions"] = {**capabilities.get("extensions", {}), EXTENSION: _SETTINGS}
    if client_name(ctx) in _READERS:
        del capabilities["resources"]
    return {**result, "capabilities": capabilities}


def client_name(ctx: Context) -> str:
    """The name that a client gives itself, in the handshake and after it."""
    known = ctx.session.client_params
    if known is not None:
        return known.client_info.name
    info = (ctx.params or {}).get("clientInfo")
    return str(info.get("name", "")) if isinstance(info, dict) else ""


class _Served:
    """Answers the extension's methods."""

    def __init__(self, skills: "Callable[[], Skills]") -> None:
        self._skills = skills

    async def list_skills(self, ctx: Context, params: types.PaginatedRequestParams) -> Json:
        skills = (await self._look(ctx)).skills
        page, more = _page(skills, _LIST, params.cursor)
        return {"skills": [_entry(uri, skills[uri]) for uri in page], **more, **_RESULT}

    async def get_skill(self, ctx: Context, params: _SkillParams) -> Json:
        skill = (await self._look(ctx)).skills.get(params.uri)
        if skill is None:
            raise _refusal(f"No skill is served at {params.uri[:200]!r}. Take a URI of {_LIST}.")
        return {"skill": _entry(params.uri, skill), **_RESULT}

    async def read_directory(self, ctx: Context, params: _DirectoryParams) -> Json:
        listing = await self._look(ctx)
        children = listing.directories().get(params.uri)
        if children is None:
            raise _refusal(
                f"{params.uri[:200]!r} is not a directory that is served. Take the URI of a skill's {_SKILL_FILE} "
                f"without /{_SKILL_FILE}, or a directory below it, without a slash at the end."
            )
        page, more = _page(children, f"{_DIRECTORY} {params.uri}", params.cursor)
        return {"resources": list(map(listing.resource, page)), **more, **_RESULT}

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams) -> Json:
        listing = await self._look(ctx)
        page, more = _page(listing.files, _RESOURCES, params.cursor)
        return {"resources": list(map(listing.resource, page)), **more, **_RESULT}

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams) -> Json:
        _page((), _TEMPLATES, params.cursor)
        return {"resourceTemplates": [], **_RESULT}

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Json:
        found = (await self._look(ctx)).files.get(params.uri)
        if found is None:
            raise _refusal(f"No resource is served at {params.uri[:200]!r}. Take a URI of {_RESOURCES}.")
        skill, name = found
        contents = {"uri": params.uri, "mimeType": _mime_type(name), "text": skill.files[name].decode()}
        return {"contents": [contents], **_RESULT}

    async def _look(self, ctx: Context) -> "_Listing":
        return _Listing(await self._skills().folders(principal_of(ctx)))


class _Listing:
    """The skills and files of one principal, by URI."""

    def __init__(self, skills: Iterable[ServedFolder]) -> None:
        self.skills: dict[str, ServedFolder] = {}
        """By the URI of `SKILL.md`."""
        self.files: dict[str, tuple[ServedFolder, str]] = {}
        for skill in skills:
            problem = _problem(skill)
            if problem is None and self.skills.setdefault(_uri(skill, _SKILL_FILE), skill) is not skill:
                problem = "another one has this path"
            if problem is not None:
                _log.warning("The skill %r is not served: %s.", skill.path, problem)
                continue
            self.files.update((_uri(skill, name), (skill, name)) for name in skill.files)

    def directories(self) -> dict[str, set[str]]:
        """The direct entries of each directory, down from the first part of a skill's path."""
        found: dict[str, set[str]] = {}
        for uri in self.files:
            below = uri
            while below.count("/") > 2:  # two are in skill://
                above = below.rpartition("/")[0]
                found.setdefault(above, set()).add(below)
                below = above
        return found

    def resource(self, uri: str) -> Json:
        """A file or a directory, described."""
        if uri not in self.files:
            return {"uri": uri, "name": unquote(uri.rpartition("/")[2]), "mimeType": "inode/directory"}
        skill, name = self.files[uri]
        content = skill.files[name]
        described = {"name": name.rpartition("/")[2]}
        if name == _SKILL_FILE:
            described = {field: skill.frontmatter[field] for field in ("name", "description")}
        return {"uri": uri, **described, "mimeType": _mime_type(name), "size": len(content)}


def _problem(skill: ServedFolder) -> str | None:
    """The reason why a skill cannot be served: a URI of it would lead out of its folder."""
    for path in (skill.path, *skill.files):
        if "\\" in path or not path.isprintable() or not {"", ".", ".."}.isdisjoint(path.split("/")):
            return f"{path!r} is not a plain relative path"
    return None


def _entry(uri: str, skill: ServedFolder) -> Json:
    """A skill with the digests of all its files, of exactly the bytes that a client reads."""
    resources = [
        {
            "uri": _uri(skill, name),
            "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "size": len(content),
        }
        for name, content in sorted(skill.files.items())
    ]
    return {"uri": uri, "frontmatter": dict(skill.frontmatter), "resources": resources}


def _mime_type(name: str) -> str:
    return _MIME_TYPES.get(name.rpartition(".")[2], "text/plain")


def _uri(skill: ServedFolder, name: str) -> str:
    return f"skill://{quote(f'{skill.path}/{name}', safe=_PATH_CHARACTERS)}"


def _page(uris: Iterable[str], scope: str, cursor: str | None) -> tuple[list[str], Json]:
    """The URIs after the cursor, as many as a page holds, and the field with the cursor for the next.

    A cursor names the last URI of a page and the request that the page answered, so that it fits what has been added or
    deleted meanwhile, and no other request. It grants no access: it only leaves out.
    """
    after = "" if cursor is None else _last_seen(scope, cursor)
    rest = sorted(uri for uri in uris if uri > after)
    if len(rest) <= _PAGE_ENTRIES:
        return rest, {}
    page = rest[:_PAGE_ENTRIES]
    return page, {"nextCursor": to_cursor(scope, page[-1])}


def _last_seen(scope: str, cursor: str) -> str:
    found = read_cursor(cursor, str)
    if found is None or found[0] != scope:
        raise _refusal(f"{cursor[:200]!r} is not a cursor of this list. Begin without one, and pass on nextCursor.")
    return found[1]


def _refusal(message: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, message)
