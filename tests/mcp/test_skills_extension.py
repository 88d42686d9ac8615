"""Saved skills over MCP: what clients are served, what the suite and the Inspector say of it, and what is refused."""

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import msgspec
import pytest
import yaml
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import RootModel
from tests.mcp import peers
from tests.mcp.conformance import count_checks
from tests.mcp.processes import run
from tests.surfaces.conftest import config_text
from tests.surfaces.test_skills import serving as gateway

from sealyard.config.settings import HttpConfig
from sealyard.serve.cursors import to_cursor
from sealyard.serve.http import open_http
from sealyard.serve.skills_extension import EXTENSION, extend
from sealyard.skills.shelf import Shelf
from sealyard.store import open_store
from sealyard.values.skills import Skill, SkillExample

Json = dict[str, Any]

ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
MODES = {"legacy": "legacy", "modern": "auto"}
SCENARIOS = {  # the checks of each that apply, by revision; two of the first are about what only the newer one has
    "sep-2640-skills-enumeration": {"2025-11-25": 30, "2026-07-28": 32},
    "sep-2640-skills-manifest": {"2025-11-25": 6, "2026-07-28": 6},
    "sep-2640-skills-directory": {"2025-11-25": 7, "2026-07-28": 7},
}
NOTES = "\ufeffÉté\r\n\x00\u2028 €".encode()


class Folder(msgspec.Struct, frozen=True):
    """A skill as the extension takes it."""

    path: str
    frontmatter: Json
    files: Mapping[str, bytes]


class Source:
    """Skills in memory, by principal."""

    def __init__(self, folders: dict[str, list[Folder]]) -> None:
        self._folders = folders

    async def folders(self, principal: str) -> Sequence[Folder]:
        """Those of the principal alone."""
        return self._folders.get(principal, [])


def skill(path: str, files: Mapping[str, bytes] | None = None, **fields: Any) -> Folder:
    """A skill whose `SKILL.md` has these fields in its frontmatter."""
    frontmatter = {"name": path.rpartition("/")[2], "description": f"Does: {path}", **fields}
    text = f"---\n{yaml.safe_dump(frontmatter, allow_unicode=True)}---\n\nDo it.\n"
    return Folder(path, frontmatter, {"SKILL.md": text.encode(), **(files or {"scripts/do.py": b"result = 1\n"})})


TOTAL = skill(
    "shared/monthly-total",
    {
        "scripts/monthly_total.py": b"def monthly_total(): ...\n",
        "references/notes (été) #1.md": NOTES,
        "assets/empty": b"",
    },
    license="Apache-2.0",
    metadata={"version": "1.2.0", "tools": "mcp__expenses__list_expenses@1.0.0"},
)
REFUNDS = skill("shared/refunds")


def build(folders: dict[str, list[Folder]]) -> Server[Any]:
    """A server that has these skills, by principal."""
    server: Server[Any] = Server("sealyard")
    extend(server, lambda: Source(folders))  # type: ignore[arg-type,return-value] # has the one method that is called
    return server


@contextlib.asynccontextmanager
async def serving(*folders: Folder) -> AsyncIterator[str]:
    """The URL of a server over HTTP that has these skills, which no gateway would have."""
    async with open_http(build({"local": list(folders)}), HttpConfig(), address=("127.0.0.1", 0), readiness=None) as (
        url,
        http,
    ):
        running = asyncio.create_task(http.run_until_cancelled())
        try:
            yield url
        finally:
            running.cancel()
            await asyncio.wait({running})


SAVED: list[Json] = [
    {
        "name": "monthly_total",
        "code": 'def monthly_total(rows: list) -> float:\n    """The sum."""\n    return sum(rows)\n',
        "description": "Adds up rows.",
        "tags": ["money"],
        "examples": [{"inputs": {"rows": [1, 2]}}],
    },
    {
        "name": "overdue_bills",
        "code": 'def overdue_bills(days: int = 30) -> list[str]:\n    """Bills: "old" ones — été."""\n    return []\n',
        "description": 'Lists bills that are overdue: "old" ones, by # of days — été.',
        "tags": ["bills", "yes"],
        "examples": [{"inputs": {"days": 3}, "output": []}],
    },
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The gateway, in which an agent has saved two skills that are active, and one that is a draft."""
    folder = tmp_path_factory.mktemp("gateway")
    config = folder / "sealyard.toml"
    config.write_text(config_text(folder / "sealyard.db", ""), encoding="utf-8")
    with gateway(config) as found:
        asyncio.run(save(found, *SAVED, {"name": "draft", "code": "result = 1\n", "description": "Not proven."}))
        yield found


async def save(url: str, *skills: Json) -> None:
    """Save skills as an agent does."""
    async with connected_to(url) as agent:
        for each in skills:
            result = await agent.client.call_tool("save_skill", each)
            assert not result.is_error, result.content


class Agent:
    """A client of any of the protocol's eras."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, method: str, **params: Any) -> Json:
        """The result of a request."""
        request = types.Request[dict[str, Any], str](method=method, params=params)
        return (await self.client.session.send_request(request, RootModel[dict[str, Any]])).root

    async def refused(self, method: str, **params: Any) -> str:
        """Why a request is refused as one with wrong parameters."""
        with pytest.raises(MCPError) as caught:
            await self.ask(method, **params)
        assert caught.value.error.code == types.INVALID_PARAMS
        return caught.value.error.message

    async def read(self, uri: str) -> bytes:
        """The bytes of a file."""
        (contents,) = (await self.ask("resources/read", uri=uri))["contents"]
        assert contents["uri"] == uri
        return str(contents["text"]).encode()

    async def uris(self, method: str, key: str, **params: Any) -> list[list[str]]:
        """The URIs in a list, page by page."""
        result = await self.ask(method, **params)
        pages = [result[key]]
        while "nextCursor" in result:
            assert len(pages) < 10
            result = await self.ask(method, **params, cursor=result["nextCursor"])
            pages.append(result[key])
        return [[each["uri"] for each in page] for page in pages]


@contextlib.asynccontextmanager
async def connected(*folders: Folder, era: str = "modern") -> AsyncIterator[Agent]:
    """A client of a server in this process."""
    async with Client(build({"local": list(folders)}), mode=MODES[era], cache=None) as client:
        assert client.protocol_version == ERAS[era]
        yield Agent(client)


@contextlib.asynccontextmanager
async def connected_to(url: str, *, era: str = "modern", token: str = "") -> AsyncIterator[Agent]:
    """A client over HTTP."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=MODES[era], cache=None) as client,
    ):
        assert client.protocol_version == ERAS[era]
        yield Agent(client)


@pytest.mark.behaviour("skills.extension")
@pytest.mark.parametrize("revision", ERAS.values())
def test_official_suite_has_nothing_to_object_to(url: str, revision: str) -> None:
    """Every check of the three scenarios about skills passes, without a warning, in both eras."""
    counts = [count_checks(url, revision, scenario) for scenario in SCENARIOS]

    expected = [{"passed": checks[revision], "failed": 0, "warnings": 0} for checks in SCENARIOS.values()]
    assert dict(zip(SCENARIOS, counts, strict=True)) == dict(zip(SCENARIOS, expected, strict=True))


async def test_official_suite_notices_what_is_missing() -> None:
    """The measure can fail: a server without a skill has no directory to show."""
    async with serving() as url:
        counts = await asyncio.to_thread(count_checks, url, "2026-07-28", "sep-2640-skills-directory")

    assert counts["failed"] > 0


@pytest.mark.parametrize("era", ERAS)
def test_inspector_verifies_every_digest(url: str, era: str) -> None:
    """It reads every file over HTTP and finds the bytes, sizes and frontmatter that the entries promise."""
    done = run(inspector(url, era))

    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["uri"], each["outcome"], len(each["files"]), each["conformance"]) for each in reports] == [
        ("skill://own/monthly-total/SKILL.md", "verified", 3, []),
        ("skill://own/overdue-bills/SKILL.md", "verified", 3, []),
    ]


async def test_inspector_notices_a_wrong_digest() -> None:
    """The measure can fail: a file with other bytes at every look does not fit its digest."""
    async with serving(Folder(REFUNDS.path, REFUNDS.frontmatter, Changing(REFUNDS.files))) as url:
        done = await asyncio.to_thread(run, inspector(url, "modern"))

    assert done.returncode == 7
    assert {each["status"] for each in json.loads(done.stdout)["files"]} == {"mismatch"}


def inspector(url: str, era: str) -> list[str]:
    """The Inspector, verifying."""
    reach = (url, "--transport", "http", "--protocol-era", era)
    return peers.inspector(*reach, "--method", "skills/list", "--verify")


class Changing(dict[str, bytes]):
    """Files that are longer for whoever reads them than for whoever lists them."""

    def __getitem__(self, name: str) -> bytes:
        return super().__getitem__(name) + b"\n"


@pytest.mark.parametrize("era", ERAS)
async def test_a_saved_skill_is_served_as_a_folder(url: str, era: str) -> None:
    """Both eras declare the extension; a draft is left out, the code is what was saved, recordings stay here."""
    async with connected_to(url, era=era) as agent:
        extensions = agent.client.server_capabilities.extensions
        uris = await agent.uris("resources/list", "resources")
        script = await agent.read("skill://own/monthly-total/scripts/monthly_total.py")
        text = (await agent.read("skill://own/overdue-bills/SKILL.md")).decode()
        record = json.loads(await agent.read("skill://own/monthly-total/assets/skill.json"))

    assert extensions == {EXTENSION: {"directoryRead": True}}
    files = ("SKILL.md", "assets/skill.json", "scripts/{}.py")
    assert uris == [
        [
            f"skill://own/{name.replace('_', '-')}/{file.format(name)}"
            for name in ("monthly_total", "overdue_bills")
            for file in files
        ]
    ]
    assert script.decode() == SAVED[0]["code"]
    frontmatter = yaml.safe_load(text.split("---")[1])
    assert (frontmatter["name"], frontmatter["description"]) == ("overdue-bills", SAVED[1]["description"])
    assert (frontmatter["metadata"]["version"], frontmatter["metadata"]["tags"]) == ("1.0.0", "bills, yes")
    assert (record["version"], record["status"]) == ("1.0.0", "active")
    assert [example.get("trace") for example in record["examples"]] == [None]


@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_is_served_as_it_is(era: str) -> None:
    """Entry, list and files agree to the byte, whatever the files are named and hold."""
    async with connected(TOTAL, era=era) as agent:
        capabilities = agent.client.server_capabilities
        listed = await agent.ask("skills/list")
        got = await agent.ask("skills/get", uri="skill://shared/monthly-total/SKILL.md")
        (entry,) = listed["skills"]
        read = {each["uri"]: await agent.read(each["uri"]) for each in entry["resources"]}
        empty = await agent.ask("resources/read", uri="skill://shared/monthly-total/assets/empty")

    assert capabilities.extensions == {EXTENSION: {"directoryRead": True}}
    assert capabilities.resources is not None
    assert got["skill"] == entry
    assert (entry["uri"], entry["frontmatter"]) == ("skill://shared/monthly-total/SKILL.md", TOTAL.frontmatter)
    assert entry["resources"] == [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
        for uri, content in read.items()
    ]
    assert read == {
        "skill://shared/monthly-total/SKILL.md": TOTAL.files["SKILL.md"],
        "skill://shared/monthly-total/assets/empty": b"",
        "skill://shared/monthly-total/references/notes%20(%C3%A9t%C3%A9)%20%231.md": NOTES,
        "skill://shared/monthly-total/scripts/monthly_total.py": TOTAL.files["scripts/monthly_total.py"],
    }
    assert (empty["contents"][0]["mimeType"], empty["contents"][0]["text"]) == ("text/plain", "")
    for result in (listed, got):
        assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_knows_no_skills_finds_resources(era: str) -> None:
    """The SDK's own methods list and read the files; there are no templates."""
    async with connected(REFUNDS, era=era) as agent:
        resources = (await agent.client.list_resources()).resources
        templates = (await agent.client.list_resource_templates()).resource_templates
        (script,) = (await agent.client.read_resource("skill://shared/refunds/scripts/do.py")).contents

    assert [(each.uri, each.name, each.description, each.mime_type, each.size) for each in resources] == [
        (
            "skill://shared/refunds/SKILL.md",
            "refunds",
            "Does: shared/refunds",
            "text/markdown",
            len(REFUNDS.files["SKILL.md"]),
        ),
        ("skill://shared/refunds/scripts/do.py", "do.py", None, "text/x-python", 11),
    ]
    assert templates == []
    assert isinstance(script, types.TextResourceContents)
    assert script.text == "result = 1\n"


async def test_directories_are_read_level_by_level() -> None:
    """From the namespace down to the files; a directory is no file."""
    async with connected(TOTAL, REFUNDS) as agent:
        found = {
            uri: [
                (each["uri"].removeprefix(f"{uri}/"), each["name"], each["mimeType"])
                for each in (await agent.ask("resources/directory/read", uri=uri))["resources"]
            ]
            for uri in (
                "skill://shared",
                "skill://shared/monthly-total",
                "skill://shared/monthly-total/references",
            )
        }
        unread = await agent.refused("resources/read", uri="skill://shared/monthly-total/scripts")

    assert found == {
        "skill://shared": [
            ("monthly-total", "monthly-total", "inode/directory"),
            ("refunds", "refunds", "inode/directory"),
        ],
        "skill://shared/monthly-total": [
            ("SKILL.md", "monthly-total", "text/markdown"),
            ("assets", "assets", "inode/directory"),
            ("references", "references", "inode/directory"),
            ("scripts", "scripts", "inode/directory"),
        ],
        "skill://shared/monthly-total/references": [
            ("notes%20(%C3%A9t%C3%A9)%20%231.md", "notes (été) #1.md", "text/markdown"),
        ],
    }
    assert unread == ("No resource is served at 'skill://shared/monthly-total/scripts'. Take a URI of resources/list.")


async def test_pages_hold_everything_once_and_in_order() -> None:
    """However the source sorts them."""
    many = [skill(f"local/s{number:03}") for number in reversed(range(120))]
    wide = skill("local/wide", {f"assets/{number:03}.txt": b"" for number in range(60)})
    shelf = [*many, wide]
    async with connected(*shelf) as agent:
        skills = await agent.uris("skills/list", "skills")
        again = await agent.uris("skills/list", "skills")
        files = await agent.uris("resources/list", "resources")
        assets = await agent.uris("resources/directory/read", "resources", uri="skill://local/wide/assets")

    every = sorted(f"skill://{each.path}/SKILL.md" for each in shelf)
    assert skills == again == [every[:50], every[50:100], every[100:]]
    assert [uri for page in files for uri in page] == sorted(
        f"skill://{each.path}/{name}" for each in shelf for name in each.files
    )
    assert [len(page) for page in assets] == [50, 10]


async def test_a_page_goes_on_where_the_last_ended_whatever_changed_meanwhile() -> None:
    """A skill that is deleted or saved between two pages neither hides nor repeats another."""
    shelf = [skill(f"local/s{number:03}") for number in range(60)]
    async with Client(build({"local": shelf}), cache=None) as client:
        agent = Agent(client)
        first = await agent.ask("skills/list")
        del shelf[10], shelf[48]
        shelf.insert(0, skill("local/a-new-one"))
        second = await agent.ask("skills/list", cursor=first["nextCursor"])

    assert [each["uri"][-12:-9] for each in second["skills"]] == [f"{number:03}" for number in range(50, 60)]


@pytest.mark.parametrize("era", ERAS)
async def test_wrong_requests_are_refused_with_what_to_do(era: str) -> None:
    """Unknown URIs, other schemes, ways out and around, and cursors that no list gave."""
    wrong = [
        "",
        "skill:",
        "skill:/",
        "skill://",
        "skill:///",
        "skill://shared/",
        "skill://shared/refunds/",
        "skill://shared/refunds/SKILL.md/",
        "skill://shared/refunds/nothing.md",
        "skill://shared/refunds/../refunds/SKILL.md",
        "skill://shared/./refunds/SKILL.md",
        "skill://shared//refunds/SKILL.md",
        "skill://shared/refunds/%2e%2e/refunds/SKILL.md",
        "skill://shared/refunds%2FSKILL.md",
        "skill://shared/refunds/SKILL%2Emd",
        "skill://shared/refunds/SKILL.md?x=1",
        "skill://shared/refunds/SKILL.md#x",
        "skill://shared/refunds/SKILL.md\x00",
        "skill://SHARED/refunds/SKILL.md",
        "SKILL://shared/refunds/SKILL.md",
        "skill://user@shared/refunds/SKILL.md",
        "skill://shared\\refunds\\SKILL.md",
        "file:///etc/passwd",
        "file://shared/refunds/SKILL.md",
        "http://127.0.0.1/shared/refunds/SKILL.md",
        "shared/refunds/SKILL.md",
        "/etc/passwd",
    ]
    forged = to_cursor("resources/list", "skill://shared/a")
    lists = ["skills/list", "resources/templates/list"]
    async with connected(TOTAL, REFUNDS, era=era) as agent:
        for uri in wrong:
            assert await agent.refused("skills/get", uri=uri) == (
                f"No skill is served at {uri!r}. Take a URI of skills/list."
            )
            assert await agent.refused("resources/read", uri=uri) == (
                f"No resource is served at {uri!r}. Take a URI of resources/list."
            )
            assert await agent.refused("resources/directory/read", uri=uri) == (
                f"{uri!r} is not a directory that is served. Take the URI of a skill's SKILL.md without /SKILL.md, or "
                "a directory below it, without a slash at the end."
            )
        await agent.refused("skills/get", uri="skill://shared/refunds/scripts/do.py")
        await agent.refused("resources/directory/read", uri="skill://shared/refunds/SKILL.md")
        for cursor in ["", "?", "é", "50", "AAAA", "/w==", forged, forged + "\n"]:
            for method in lists:
                assert await agent.refused(method, cursor=cursor) == (
                    f"{cursor!r} is not a cursor of this list. Begin without one, and pass on nextCursor."
                )
            await agent.refused("resources/directory/read", uri="skill://shared", cursor=cursor)
        for method in ("skills/get", "resources/directory/read", "resources/read"):
            await agent.refused(method)
            await agent.refused(method, uri=7)
        assert len(await agent.refused("skills/get", uri="skill://" + "x" * 100_000)) < 300


async def test_a_cursor_of_one_directory_is_none_of_another() -> None:
    """Nor of a list of skills."""
    wide = [skill(f"local/{name}", {f"{number:03}.txt": b"" for number in range(60)}) for name in ("one", "two")]
    async with connected(*wide) as agent:
        cursor = (await agent.ask("resources/directory/read", uri="skill://local/one"))["nextCursor"]
        await agent.ask("resources/directory/read", uri="skill://local/one", cursor=cursor)
        await agent.refused("resources/directory/read", uri="skill://local/two", cursor=cursor)
        await agent.refused("skills/list", cursor=cursor)


async def fill(path: Path, skills: Mapping[str, Sequence[str]]) -> None:
    """Put active skills into a store: by namespace, their names."""
    async with open_store(path) as store:
        shelf = Shelf(store)
        for namespace, names in skills.items():
            for name in names:
                example = SkillExample(inputs={}, output=1, passed=True)
                code = f"def {name}() -> int:\n    return 1\n"
                kept = Skill(namespace=namespace, name=name, code=code, status="active", description=f"Does {name}.")
                await shelf.save(msgspec.structs.replace(kept, examples=(example,), author=namespace))


TOKENS = """
[http.principals.alice]
token = "a-secret"

[http.principals.bob]
token = "b-secret"
"""


async def test_a_principal_finds_nothing_of_anothers(tmp_path: Path) -> None:
    """Not by listing, not by URI, not with the other's cursor; the refusal is that of what does not exist."""
    path, config = tmp_path / "sealyard.db", tmp_path / "sealyard.toml"
    await fill(path, {"alice": [f"secret_{number:03}" for number in range(60)], "bob": ["plan"], "shared": ["common"]})
    config.write_text(config_text(path, TOKENS), encoding="utf-8")
    secret, plan, common = (f"skill://{place}/SKILL.md" for place in ("own/secret-059", "own/plan", "shared/common"))
    with gateway(config) as url:
        async with connected_to(url, token="a-secret") as alice, connected_to(url, token="b-secret") as bob:
            seen = await alice.ask("skills/list")
            everything = await alice.uris("skills/list", "skills")
            assert (await alice.read(secret)).startswith(b'---\nname: "secret-059"\n')

            assert await bob.uris("skills/list", "skills") == [[plan, common]]
            stolen = await bob.ask("skills/list", cursor=seen["nextCursor"])
            refusals = [await bob.refused(method, uri=secret) for method in ("skills/get", "resources/read")]
            for uri in ("skill://own/secret-059", "skill://own/secret-059/scripts", "skill://alice"):
                await bob.refused("resources/directory/read", uri=uri)

    assert [len(page) for page in everything] == [50, 11]
    assert [each["uri"] for each in stolen["skills"]] == [common]
    assert refusals == [
        f"No skill is served at {secret!r}. Take a URI of skills/list.",
        f"No resource is served at {secret!r}. Take a URI of resources/list.",
    ]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (skill("local/out", {"../other/SKILL.md": b""}), "'../other/SKILL.md' is not a plain relative path"),
        (skill("local/root", {"/etc/passwd": b""}), "'/etc/passwd' is not a plain relative path"),
        (skill("local/windows", {"a\\b": b""}), "'a\\\\b' is not a plain relative path"),
        (skill("local/cut", {"a\ud800": b""}), "'a\\ud800' is not a plain relative path"),
        (skill("local/../up"), "'local/../up' is not a plain relative path"),
        (skill("shared/refunds", {"other.md": b""}), "another one has this path"),
    ],
)
async def test_a_skill_with_a_path_out_of_its_folder_is_left_out(
    broken: Folder, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It hides no other skill, and the log says why it is missing."""
    with caplog.at_level(logging.WARNING, "sealyard"):
        async with connected(REFUNDS, broken) as agent:
            listed = await agent.uris("resources/list", "resources")

    assert listed == [["skill://shared/refunds/SKILL.md", "skill://shared/refunds/scripts/do.py"]]
    assert caplog.messages == [f"The skill {broken.path!r} is not served: {reason}."]
