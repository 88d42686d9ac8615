"""What the dashboard is made of, and how it is served: without a token, since none of it is data."""

import re
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tests.dashboard.conftest import Serve

from sealyard.serve import dashboard

FOLDER = Path(dashboard.__file__).parent
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix in (".css", ".html", ".js", ".svg"))
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@pytest.fixture
def client() -> TestClient:
    """The routes alone, in this process."""
    return TestClient(Starlette(routes=dashboard.routes()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_served_with_headers_that_close_the_page(client: TestClient, path: Path) -> None:
    """Scripts and styles come from the gateway alone, types are not guessed, and nobody frames the page."""
    answer = client.get("/" if path.name == "index.html" else f"/dashboard/{path.name}")

    assert (answer.status_code, answer.content) == (200, path.read_bytes())
    assert answer.headers["content-type"] == KINDS[path.suffix]
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


def test_a_browser_that_has_the_file_is_told_so(client: TestClient) -> None:
    """The tag of a file names its content: the same one, alone or among others, is answered without a body."""
    first = client.get("/dashboard/app.js")
    tag = first.headers["etag"]

    known = [client.get("/dashboard/app.js", headers={"If-None-Match": each}) for each in (tag, f'"x", W/{tag}', "*")]
    other = client.get("/dashboard/style.css", headers={"If-None-Match": tag})

    assert [(answer.status_code, answer.content, answer.headers["etag"]) for answer in known] == [(304, b"", tag)] * 3
    assert other.status_code == 200


@pytest.mark.parametrize(
    "name", ["__init__.py", "index.html", "nothing.js", "..%2f__init__.py", "%2e%2e%2fhttp.py", "..%5capi.py", "%00"]
)
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    """The names that there are were read when the gateway began; no other leads to a file."""
    answer = client.get(f"/dashboard/{name}")

    assert answer.status_code == 404
    assert b"import" not in answer.content


def test_the_page_needs_no_token_and_its_data_does(serve: Serve) -> None:
    """A gateway with tokens gives its page to a browser, which then cannot see anything without one."""
    gateway = serve(more="[http]\ntoken = 'a-token-of-some-length'\n", token="a-token-of-some-length")
    with httpx2.Client(base_url=gateway.url) as stranger:
        answers = {path: stranger.get(path).status_code for path in ("/", "/dashboard/app.js", "/api/v1/me")}

    assert answers == {"/": 200, "/dashboard/app.js": 200, "/api/v1/me": 401}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_writes_markup(path: Path) -> None:
    """Data becomes text: there is no property or function here through which it could become elements or code."""
    text = path.read_text(encoding="utf-8")
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTMLUnsafe"
    ways += r"|\beval\(|new Function|srcdoc|cssText|setAttribute\(\"(?:style|on)"

    assert re.findall(ways, text) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_another_host(path: Path) -> None:
    """The one address in here is the name of SVG, which nobody opens."""
    text = path.read_text(encoding="utf-8")

    assert set(re.findall(r"https?://[^\"'\s<>)]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert re.findall(r"@import|url\(", text) == []


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    """All scripts and styles are files: what the policy of the page forbids is not in it."""
    text = (FOLDER / "index.html").read_text(encoding="utf-8")

    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=", text) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_import_each_other_and_nothing_else(path: Path) -> None:
    """An import names a file beside it that is there, and every name that it takes is exported there."""
    text = path.read_text(encoding="utf-8")

    for names, source in re.findall(r"import \{([^}]*)\} from \"\./([\w.]+)\";", text):
        exported = (FOLDER / source).read_text(encoding="utf-8")
        for name in filter(None, map(str.strip, names.split(","))):
            assert re.search(rf"export (?:async )?(?:function|const|class) {name}\b", exported), (source, name)
            assert len(re.findall(rf"\b{name}\b", text)) > 1, name
    assert len(re.findall(r"^import ", text, re.MULTILINE)) == len(re.findall(r"^import \{", text, re.MULTILINE))
