"""What `load_config` makes of files and the environment, and how it names what is wrong."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from sealyard.config import Config, describe_upstream, load_config, read_machine
from sealyard.config.settings import (
    DiscoveryConfig,
    HttpConfig,
    LearningConfig,
    PrincipalEntry,
    SandboxConfig,
    StoreConfig,
    SurfaceConfig,
)
from sealyard.errors import InvalidConfig
from sealyard.sandbox import IsolationLevel
from sealyard.values.access import PrincipalScope
from sealyard.values.tools import OAuthConfig, UpstreamConfig

SECRET = "s3cret-value"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home of its own and one secret."""
    (tmp_path / "home").mkdir()
    (tmp_path / "shop").mkdir()
    return {"HOME": str(tmp_path / "home"), "TOKEN": SECRET}


def sha256(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def load(tmp_path: Path, environ: dict[str, str], text: str, name: str = "sealyard.toml") -> Config:
    """The configuration that this text is, in the folder `shop`."""
    file = tmp_path / "shop" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ=environ, directory=tmp_path / "shop")


def test_every_key_of_the_file_arrives(tmp_path: Path, environ: dict[str, str]) -> None:
    """A file that sets everything gives a config that has everything, references expanded."""
    shop = tmp_path / "shop"
    config = load(
        tmp_path,
        environ,
        """
        [upstreams.github]
        command = "npx"
        args = ["-y", "server", "--token=${TOKEN}"]
        env = { GITHUB_TOKEN = "${TOKEN}", PLAIN = "1" }
        cwd = "sub"
        tools = ["list_*"]
        without_tools = ["list_all"]
        start_seconds = 5
        call_seconds = 6.5
        idle_seconds = 0
        concurrent_calls = 2
        answer_bytes = 4096

        [upstreams.docs]
        url = "https://${HOST:-docs.example}/mcp"
        transport = "streamable-http"
        headers = { X-Team = "${TOKEN}" }
        bearer_token = "${TOKEN}"
        oauth = { client_id = "me", client_secret = "${TOKEN}", scopes = ["read"], redirect_port = 9000 }

        [upstreams.old]
        url = "http://127.0.0.1:1/sse"
        transport = "sse"
        oauth = true

        [upstreams.off]
        command = "off"
        disabled = true

        [surface]
        mode = "hybrid"
        direct = ["mcp__github__*"]
        result_tokens = 500
        name = "tools"
        instructions = "Be brief."

        [sandbox]
        level = "hardened"
        tier = "landlock"
        allow_weaker = true
        pool_size = 3
        packages = ["polars"]
        running = 4

        [store]
        path = "data/yard.db"

        [http]
        token = "${TOKEN}"
        tokens = { ada = "t-ada" }
        allowed_hosts = ["yard.example"]
        allowed_origins = ["https://yard.example"]
        max_request_bytes = 2048

        [http.principals.ci]
        token = "${C:-c}"
        token_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
        upstreams = ["git*"]
        level = "hardened"
        reveal = true
        approve = true

        [discovery]
        semantic = true
        vectors = "models/words"
        """,
    )

    assert config == Config(
        upstreams={
            "github": UpstreamConfig(
                name="github",
                transport="stdio",
                command="npx",
                args=("-y", "server", f"--token={SECRET}"),
                env={"GITHUB_TOKEN": SECRET, "PLAIN": "1"},
                cwd=str(shop / "sub"),
                tools=("list_*",),
                without_tools=("list_all",),
                start_seconds=5.0,
                call_seconds=6.5,
                idle_seconds=None,
                concurrent_calls=2,
                answer_bytes=4096,
            ),
            "docs": UpstreamConfig(
                name="docs",
                transport="http",
                url="https://docs.example/mcp",
                headers={"X-Team": SECRET},
                bearer_token=SECRET,
                oauth=OAuthConfig(client_id="me", client_secret=SECRET, scopes=("read",), redirect_port=9000),
            ),
            "old": UpstreamConfig(name="old", transport="sse", url="http://127.0.0.1:1/sse", oauth=OAuthConfig()),
        },
        surface=SurfaceConfig(
            mode="hybrid", direct=("mcp__github__*",), result_tokens=500, name="tools", instructions="Be brief."
        ),
        sandbox=SandboxConfig(
            level="hardened", tier="landlock", allow_weaker=True, pool_size=3, packages=("polars",), running=4
        ),
        store=StoreConfig(path=shop / "data" / "yard.db"),
        http=HttpConfig(
            principals={"ci": PrincipalEntry(upstreams=("git*",), level="hardened", reveal=True, approve=True)},
            digests={
                sha256(SECRET).hex(): "http",
                sha256("t-ada").hex(): "ada",
                sha256("c").hex(): "ci",
                "0" * 64: "ci",
            },
            allowed_hosts=("yard.example",),
            allowed_origins=("https://yard.example",),
            max_request_bytes=2048,
        ),
        discovery=DiscoveryConfig(semantic=True, vectors=str(shop / "models" / "words")),
        source=shop / "sealyard.toml",
    )
    assert config.http.clients() == {sha256(SECRET): "http", sha256("t-ada"): "ada", sha256("c"): "ci", bytes(32): "ci"}
    assert config.http.scopes() == {
        "http": PrincipalScope(name="http"),
        "ada": PrincipalScope(name="ada"),
        "ci": PrincipalScope(name="ci", upstreams=("git*",), level="hardened", reveal=True, approve=True),
    }


def test_secrets_are_in_no_repr_and_no_description(tmp_path: Path, environ: dict[str, str]) -> None:
    """Neither what was expanded nor what the file holds in place of a reference is shown."""
    config = load(
        tmp_path,
        environ,
        """
        [upstreams.a]
        command = "run"
        args = ["${TOKEN}", "--key", "literal-secret", "--password=literal-secret", "pg://u:literal-secret@h", "y z"]
        env = { KEY = "literal-secret", REF = "${TOKEN}" }
        [upstreams.b]
        url = "https://me:literal-secret@x.example/${TOKEN}?k=literal-secret&t=${TOKEN}"
        headers = { X-Key = "literal-secret" }
        bearer_token = "literal-secret"
        oauth = { client_secret = "literal-secret" }
        [http]
        token = "literal-secret"
        tokens = { ada = "${TOKEN}" }
        """,
    )

    assert [describe_upstream(each) for each in config.upstreams.values()] == [
        "run '${TOKEN}' --key … --password=… pg://…@h 'y z' (env: KEY, REF)",
        "https://…@x.example/${TOKEN}?k=…&t=${TOKEN} (headers: X-Key, Authorization)",
    ]
    for each in (
        config.upstreams["b"].headers,
        config.upstreams["b"].oauth,
        config.http,
        read_machine(environ=environ),
    ):
        assert SECRET not in repr(each)
        assert "literal-secret" not in repr(each)
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1",
         "the file has no key 'a'. Its keys are agent, alerts, approval, discovery, http, learning, metrics, otel,"
         " policy, privacy, profiles, sandbox, skills, store, surface, upstreams."),
        ("[surfaces]", "the file has no key 'surfaces'. Did you mean 'surface'?"),
        ("[surface]\nmod = 'code'", "surface has no key 'mod'. Did you mean 'mode'?"),
        ("surface = 3", "surface is 3. Give a table."),
        ("[surface]\nmode = 'cod'", "surface.mode is 'cod'. Give 'code', 'hybrid', 'proxy' or 'search'."),
        ("[surface]\nresult_tokens = 99", "surface.result_tokens is 99. Give a whole number from 100 to 50,000."),
        ("[surface]\nresult_tokens = 1.5", "surface.result_tokens is 1.5. Give a whole number from 100 to 50,000."),
        ("[surface]\ndirect = 'x'", "surface.direct is 'x'. Give a list of strings."),
        ("[surface]\ndirect = ['x', 1]", "surface.direct.1 is 1. Give a string."),
        ("[sandbox]\nallow_weaker = 'yes'", "sandbox.allow_weaker is 'yes'. Give true or false."),
        ("[sandbox]\npool_size = -1", "sandbox.pool_size is -1. Give a whole number from 0 to 1,000."),
        ("[learning]\nscope = 'all'", "learning.scope is 'all'. Give 'domain', 'principal' or 'shared'."),
        ("[learning]\nhalf_life_days = 0", "learning.half_life_days is 0. Give a number from 1 to 3,650."),
        ("[learning]\ncritical = 'stop'", "learning.critical is 'stop'. Give 'ask', 'refuse' or 'warn'."),
        ("[learning]\nlimit = true", "learning has no key 'limit'. Did you mean 'limits'?"),
        ("[learning]\nenabled = 'yes'", "learning.enabled is 'yes'. Give true or false."),
        ("[learning]\nlimits = 3", "learning.limits is 3. Give true or false."),
        ("learning = false", "learning is False. Give a table."),
        ("[learning]\ndomain = 'Data Team'",
         "learning.domain is 'Data Team'. Give a word of up to 32 small letters, digits, '-' or '_', such as 'data'."),
        ("[http.principals.ci]\ntoken = 'a'\ndomain = 'Data'",
         "http.principals.ci.domain is 'Data'. Give a word of up to 32 small letters, digits, '-' or '_', such as "
         "'data'."),
        ("[store]\npath = 1979-05-27", "store.path is a date. Give a string."),
        ("[http]\nunset = []",
         "http has no key 'unset'. Its keys are allowed_hosts, allowed_origins, answer_seconds, body_seconds, "
         "compress, connections, dashboard, header_seconds, idle_seconds, max_request_bytes, principals, "
         "requests_per_minute, token, tokens."),
        ("[http.principals]\nci = 'secret'", "http.principals.ci is a string. Give a table."),
        ("[http.principals.ci]\nlevel = 'production'",
         "http.principals.ci has no token. Give it a token_sha256: `sealyard token ci` makes one."),
        ("[http.principals.ci]\ntoken_sha256 = 'my-plain-token'",
         "http.principals.ci.token_sha256 is not a SHA-256. Give 64 hex digits: `sealyard token ci`."),
        ("[http.principals.ci]\ntoken = 'a'\nlevel = 'development'",
         "http.principals.ci.level is 'development'. Give 'production', which is sandbox.level, or a stricter one."),
        ("[sandbox]\nlevel = 'hardened'\n[http.principals.ci]\ntoken = 'a'\nlevel = 'production'",
         "http.principals.ci.level is 'production'. Give 'hardened', which is sandbox.level, or a stricter one."),
        ("profiles = 3", "profiles is 3. Give a table for each profile, such as [profiles.support]."),
        ("[profiles.a]\nupstream = ['x']", "profiles.a has no key 'upstream'. Did you mean 'upstreams'?"),
        ("[profiles.a]\nmode = 'cod'", "profiles.a.mode is 'cod'. Give 'code', 'hybrid', 'proxy' or 'search'."),
        ("[profiles.a]\nlevel = 'development'",
         "profiles.a.level is 'development'. Give 'production', which is sandbox.level, or a stricter one."),
        ("[profiles.'a/../b']",
         "profiles.'a/../b' has a name that cannot be part of a URL. Use 1 to 24 small letters, digits, '-' or '_', "
         "beginning with a letter or digit."),
        ("[surface.clients]\n'x*' = 'cod'",
         "surface.clients.'x*' is 'cod'. Give 'code', 'hybrid', 'proxy' or 'search'."),
        ("[profiles.a]\n[http.principals.ci]\ntoken = 'a'\nprofiles = ['b']",
         "http.principals.ci names the profile 'b'. There are: a."),
        ("[http.principals.ci]\ntoken = 12345", "http.principals.ci.token is a number. Give a string."),
        ("[http.principals.ci]\ntoken = 'a'\nupstream = []",
         "http.principals.ci has no key 'upstream'. Did you mean 'upstreams'?"),
        ("[http]\ntoken = 123456", "http.token is a number. Give a string."),
        ("[http.tokens]\nada = 123456", "http.tokens.ada is a number. Give a string."),
        ("upstreams = []", "upstreams is a list. Give a table for each upstream, such as [upstreams.github]."),
        ("[upstreams]\nx = 'npx'", "upstreams.x is 'npx'. Give a table."),
        ("[upstreams.x]\ncomand = 'npx'", "upstreams.x has no key 'comand'. Did you mean 'command'?"),
        ("[upstreams.x]", "upstreams.x has neither of command and url. Give one of them."),
        ("[upstreams.x]\ncommand = 'a'\nurl = 'https://a'",
         "upstreams.x has both of command and url. Give one of them."),
        ("[upstreams.x]\ncommand = ' '", "upstreams.x.command is ' '. Give the program to start."),
        ("[upstreams.x]\ncommand = 'a'\ntransport = 'http'",
         "upstreams.x.transport is 'http'. Give 'stdio', or leave it out."),
        ("[upstreams.x]\nurl = 'https://a'\ntransport = 'stdio'",
         "upstreams.x.transport is 'stdio'. Give 'http' or 'sse', or leave it out."),
        ("[upstreams.x]\nurl = 'ftp://u:s3cret-value@a'",
         "upstreams.x.url is not the address of a server. Give one that begins with https:// or http://."),
        ("[upstreams.x]\ncommand = 'a'\nargs = 's3cret-value'",
         "upstreams.x.args is a string. Give a list of strings."),
        ("[upstreams.x]\ncommand = 'a'\nenv.A = 12345678", "upstreams.x.env.A is a number. Give a string."),
        ("[upstreams.x]\ncommand = \"a\\u0000\"",
         "upstreams.x holds a character that no process can be given. Take it out."),
        ("[upstreams.x]\ncommand = 'a'\nstart_seconds = nan",
         "upstreams.x.start_seconds is nan. Give a number above 0 to 86,400."),
        ("[upstreams.x]\ncommand = 'a'\nidle_seconds = -1",
         "upstreams.x.idle_seconds is -1. Give a number from 0 to 31,536,000."),
        ("[upstreams.x]\ncommand = 'a'\noauth = 3", "upstreams.x.oauth is 3. Give true or false or a table."),
        ("[upstreams.x]\nurl = 'https://a'\noauth.clientid = 'a'",
         "upstreams.x.oauth has no key 'clientid'. Did you mean 'client_id'?"),
        ('[upstreams."a\\nb"]', "upstreams.'a\\nb' has a name that cannot be used. "
         "Give it 1 to 100 letters, digits, '-' or '_'."),
    ],
)  # fmt: skip
def test_wrong_value_is_named_with_the_right_ones(
    tmp_path: Path, environ: dict[str, str], text: str, message: str
) -> None:
    """The message says in which file, at which key, what is there unless it may be secret, and what should be."""
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, environ, text)

    assert str(caught.value) == f"In {str(tmp_path / 'shop' / 'sealyard.toml')!r}, {message}"


def test_broken_files_are_named(tmp_path: Path, environ: dict[str, str]) -> None:
    """With the line where there is one."""
    shop = tmp_path / "shop"
    (shop / "bytes.toml").write_bytes(b"a = '\xff'")
    os.mkfifo(shop / "pipe.json")
    (shop / "list.json").write_text("[]", encoding="utf-8")
    (shop / "other.json").write_text("{}", encoding="utf-8")
    (shop / "broken.toml").write_text("[upstreams.x]\nenv.A = s3cret\n", encoding="utf-8")
    messages = {}
    for name in ("bytes.toml", "pipe.json", "list.json", "other.json", "broken.toml", "none.toml"):
        with pytest.raises(InvalidConfig) as caught:
            load_config(Path(name), environ=environ, directory=shop)
        messages[name] = str(caught.value).removeprefix(repr(str(shop / name)))

    assert messages == {
        "bytes.toml": " is not UTF-8 after byte 5. Save it as UTF-8 text.",
        "pipe.json": f"There is no file {str(shop / 'pipe.json')!r}. Give a sealyard.toml or an MCP client's file.",
        "list.json": " is not an object. Give a sealyard.toml, or an MCP client's file.",
        "other.json": " has neither 'mcpServers' nor 'servers'. Give an MCP client's file.",
        "broken.toml": " is not TOML: Invalid value (at line 2, column 9). Correct it there.",
        "none.toml": f"There is no file {str(shop / 'none.toml')!r}. Give a sealyard.toml or an MCP client's file.",
    }


def test_configuration_is_found_in_order(tmp_path: Path, environ: dict[str, str]) -> None:
    """The variable, the file here, the user's file, the project's client file; each hides the next."""
    shop = tmp_path / "shop"
    files = [
        tmp_path / "named.toml",
        shop / "sealyard.toml",
        tmp_path / "home" / ".config" / "sealyard" / "sealyard.toml",
        shop / ".mcp.json",
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}" if file.suffix == ".json" else "", encoding="utf-8")
    files[3].write_text('{"mcpServers": {}}', encoding="utf-8")

    found = [load_config(None, environ={**environ, "SEALYARD_CONFIG": "../named.toml"}, directory=shop).source]
    for file in files[1:]:
        found.append(load_config(None, environ=environ, directory=shop).source)
        file.unlink()
    nothing = load_config(None, environ=environ, directory=shop)

    assert found == [shop / "../named.toml", *files[1:]]
    assert nothing == Config(
        store=StoreConfig(path=tmp_path / "home" / ".local" / "share" / "sealyard" / "sealyard.db"),
        warnings=("No configuration was found, so there are no tools. Run `sealyard init` to make one.",),
    )


def test_unset_variable_costs_only_its_upstream(tmp_path: Path, environ: dict[str, str]) -> None:
    """The warning names every variable and where it is needed; the others work."""
    config = load(
        tmp_path,
        environ,
        """
        [upstreams.a]
        command = "a"
        args = ["${NONE}", "${TOKEN}"]
        env = { X = "${env:ALSO_NONE}" }
        [upstreams.b]
        command = "b"
        [upstreams.c]
        url = "${TOKEN}/mcp"
        [upstreams.d]
        command = "d"
        env_file = "none.env"
        [upstreams.e]
        url = "https://e"
        bearer_token = "${TWO_LINES}"
        """,
    )
    config = load_config(config.source, environ={**environ, "TWO_LINES": f"{SECRET}\nInjected: 1"}, directory=tmp_path)

    assert list(config.upstreams) == ["b"]
    assert config.warnings == (
        "Upstream 'a' is not used: the variable NONE is not set (needed by args); the variable ALSO_NONE is not set "
        "(needed by env.X).",
        "Upstream 'c' is not used: its url does not begin with https:// or http://.",
        f"Upstream 'd' is not used: its env_file {str(tmp_path / 'shop' / 'none.env')!r} cannot be read: "
        "No such file or directory.",
        "Upstream 'e' is not used: 'bearer_token' holds a character that a header cannot.",
    )


def test_line_end_behind_a_token_is_dropped(tmp_path: Path, environ: dict[str, str]) -> None:
    """As a token read from a file with `$(cat …)` in some shells has it."""
    config = load(tmp_path, {**environ, "T": "abc\n"}, "[upstreams.a]\nurl = 'https://a'\nheaders.X = 'Key ${T}'")

    assert (config.upstreams["a"].headers, config.warnings) == ({"X": "Key abc"}, ())


@pytest.mark.parametrize(
    "command",
    [
        '"sealyard"',
        '"/usr/bin/sealyard"\nargs = ["serve"]',
        '"C:\\\\Tools\\\\Sealyard.exe"',
        '"python3"\nargs = ["-m", "sealyard", "serve"]',
        '"uvx"\nargs = ["sealyard", "serve"]',
        '"${SELF}"',
    ],
)
def test_sealyard_is_never_its_own_upstream(tmp_path: Path, environ: dict[str, str], command: str) -> None:
    """Or one would start the next without end."""
    config = load(tmp_path, {**environ, "SELF": "sealyard"}, f"[upstreams.me]\ncommand = {command}")

    assert (config.upstreams, config.warnings) == ({}, ("Upstream 'me' is not used: it is sealyard itself.",))


def test_folder_called_sealyard_is_no_sealyard(tmp_path: Path, environ: dict[str, str]) -> None:
    """Only what starts it counts."""
    config = load(
        tmp_path, environ, "[upstreams.files]\ncommand = 'npx'\nargs = ['files', '/src/sealyard', 'sealyard']"
    )

    assert list(config.upstreams) == ["files"]


def test_http_token_that_is_not_set_closes_http(tmp_path: Path, environ: dict[str, str]) -> None:
    """Without it anyone would be let in; everything but HTTP works."""
    config = load(tmp_path, environ, "[http]\ntoken = '${NONE}'\ntokens = { ada = '${TOKEN}', bob = '' }")

    assert (config.http.token, config.http.digests) == (None, {sha256(SECRET).hex(): "ada"})
    with pytest.raises(InvalidConfig) as caught:
        config.http.clients()
    assert str(caught.value) == (
        "HTTP cannot be served: the variable NONE is not set (needed by http.token); http.tokens.bob is empty. "
        "Set it, or take the token out."
    )


@pytest.mark.parametrize("token", ["", " ", "${EMPTY}", "${NONE:-}"])
def test_empty_http_token_closes_http(tmp_path: Path, environ: dict[str, str], token: str) -> None:
    """It would let in whoever sends nothing."""
    config = load(tmp_path, {**environ, "EMPTY": ""}, f"[http]\ntoken = '{token}'")

    assert (config.http.token, config.http.unset) == (None, ("http.token is empty",))


def test_http_token_comes_from_the_environment(tmp_path: Path, environ: dict[str, str]) -> None:
    """`SEALYARD_TOKEN` needs no file; a token in the file comes first; an empty variable is none."""
    tokens = [
        load_config(None, environ={**environ, "SEALYARD_TOKEN": "t"}, directory=tmp_path).http.clients(),
        load(tmp_path, {**environ, "SEALYARD_TOKEN": "t"}, "[http]\ntoken = 'f'").http.clients(),
        load_config(None, environ={**environ, "SEALYARD_TOKEN": ""}, directory=tmp_path).http.clients(),
    ]

    assert tokens == [{sha256("t"): "http"}, {sha256("f"): "http"}, {}]


def test_no_plain_token_is_kept(tmp_path: Path, environ: dict[str, str]) -> None:
    """What is loaded lets a token in without holding one, in whatever place the file has it."""
    config = load(
        tmp_path,
        environ,
        """
        [http]
        token = "plain-one"
        tokens = { ada = "plain-two" }
        principals = { ci = { token = "plain-${TOKEN}" } }
        """,
    )

    held = str(msgspec.to_builtins(config.http))
    assert [text in held for text in ("plain", SECRET)] == [False, False]
    assert config.http.clients()[sha256(f"plain-{SECRET}")] == "ci"


def test_a_principal_with_a_token_that_is_not_set_closes_http(tmp_path: Path, environ: dict[str, str]) -> None:
    """Nobody is let in by its absence, nor shut out without a word."""
    config = load(tmp_path, environ, "[http.principals]\nci.token = '${NONE}'\nbob.token = ' '")

    with pytest.raises(InvalidConfig) as caught:
        config.http.clients()
    assert str(caught.value) == (
        "HTTP cannot be served: the variable NONE is not set (needed by http.principals.ci.token); "
        "http.principals.bob.token is empty. Set it, or take the token out."
    )


def test_a_scope_holds_for_the_shorthand_token_of_the_same_principal(tmp_path: Path, environ: dict[str, str]) -> None:
    """A second way to write its token is no way around its scope."""
    config = load(tmp_path, environ, "[http]\ntokens.ci = 'a'\nprincipals.ci.upstreams = ['none']")

    assert config.http.clients() == {sha256("a"): "ci"}
    assert config.http.scopes() == {"ci": PrincipalScope(name="ci", upstreams=("none",))}


def test_a_pattern_that_names_no_upstream_is_pointed_out(tmp_path: Path, environ: dict[str, str]) -> None:
    """It is most likely misspelled; what it names is then not seen."""
    config = load(
        tmp_path,
        environ,
        "[upstreams.github]\ncommand = 'a'\n[http.principals.ci]\ntoken = 'a'\nupstreams = ['git*', 'jria']",
    )

    assert config.warnings == ("http.principals.ci.upstreams names 'jria', but no upstream has a matching name.",)


def test_two_principals_cannot_share_a_token(tmp_path: Path, environ: dict[str, str]) -> None:
    """Nobody could tell who came in, and the message does not show it."""
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, environ, "[http]\ntokens = { ada = '${TOKEN}', bob = 's3cret-value' }")

    file = str(tmp_path / "shop" / "sealyard.toml")
    assert str(caught.value) == f"In {file!r}, two principals have the same token. Give each one of its own."


def test_env_file_is_read_and_env_comes_first(tmp_path: Path, environ: dict[str, str]) -> None:
    """Quotes, remarks and `export` are understood; references in it are not, as in the clients."""
    (tmp_path / "home" / "my.env").write_text(
        "# remark\nA=1\nexport B='two # words'\nC = \"x\" # why\nD=a#b # c\n\nbroken line\nE=${TOKEN}\n",
        encoding="utf-8",
    )
    config = load(tmp_path, environ, "[upstreams.a]\ncommand = 'a'\nenv_file = '~/my.env'\nenv.A = 'first'")

    assert config.upstreams["a"].env == {"A": "first", "B": "two # words", "C": "x", "D": "a#b", "E": "${TOKEN}"}
    assert "two" not in repr(config.upstreams["a"])


@pytest.mark.parametrize(
    ("name", "document"),
    [
        (".mcp.json", {"mcpServers": {"a": {"command": "${workspaceFolder}/run"}}}),
        (".vscode/mcp.json", {"servers": {"a": {"type": "stdio", "command": "${workspaceFolder}/run"}}, "inputs": []}),
        (".cursor/mcp.json", {"mcpServers": {"a": {"command": "${workspaceFolder}/run"}}}),
        ("any.json", {"servers": {"a": {"command": "${workspaceFolder}/run"}}}),
    ],
)
def test_clients_file_is_a_configuration(
    tmp_path: Path, environ: dict[str, str], name: str, document: dict[str, Any]
) -> None:
    """`sealyard serve .mcp.json` needs nothing else; the workspace is the project the file lies in."""
    shop = tmp_path / "shop"
    config = load(tmp_path, environ, f"// mine\n{json.dumps(document)}", name)

    expected = UpstreamConfig(name="a", transport="stdio", command=f"{shop}/run", cwd=str(shop))
    assert (config.upstreams, config.warnings) == ({"a": expected}, ())


def test_users_own_files_start_servers_where_sealyard_was_started(tmp_path: Path, environ: dict[str, str]) -> None:
    """A home folder is nobody's project."""
    file = tmp_path / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {"command": "a"}}}', encoding="utf-8")

    config = load_config(file, environ=environ, directory=tmp_path / "shop")

    assert config.upstreams["a"].cwd == str(tmp_path / "shop")


def test_one_bad_server_in_a_clients_file_costs_only_itself(tmp_path: Path, environ: dict[str, str]) -> None:
    """The file is not ours to be strict about."""
    servers = {"bad": {"type": "pigeon", "command": "x"}, "none": 3, "empty": {}, "good": {"command": "g"}}
    config = load(tmp_path, environ, json.dumps({"mcpServers": servers}), ".mcp.json")

    file = str(tmp_path / "shop" / ".mcp.json")
    assert list(config.upstreams) == ["good"]
    assert config.warnings == (
        f"In {file!r}, the server 'bad' has the type 'pigeon', which sealyard does not know. This server is not used.",
        f"In {file!r}, the server 'none' is not an object. This server is not used.",
        f"In {file!r}, mcpServers.empty has neither of command and url. Give one of them. This server is not used.",
    )


def test_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without arguments it is this process that is looked at."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SEALYARD_CONFIG", str(tmp_path / "x.toml"))
    (tmp_path / "x.toml").write_text("", encoding="utf-8")

    assert load_config(None).store.path == Config().store.path == tmp_path / "data" / "sealyard" / "sealyard.db"


@pytest.mark.parametrize(
    ("platform", "environ", "folders"),
    [
        ("linux", {}, ("h/.local/share/sealyard", "h/.config/sealyard", "h/.config")),
        ("linux", {"XDG_CONFIG_HOME": "/x", "XDG_DATA_HOME": "rel"}, ("h/.local/share/sealyard", "/x/sealyard", "/x")),
        (
            "darwin",
            {"XDG_CONFIG_HOME": "/x"},
            (*["h/Library/Application Support/sealyard"] * 2, "h/Library/Application Support"),
        ),
        ("win32", {"APPDATA": "/r"}, (*["h/AppData/Local/sealyard"] * 2, "/r")),
    ],
)
def test_folders_are_those_of_the_platform(platform: str, environ: dict[str, str], folders: tuple[str, ...]) -> None:
    """Each platform has its own, and a relative XDG folder is ignored."""
    home = {"HOME": "/h", "USERPROFILE": "/h"}
    machine = read_machine(environ=home | environ, directory=Path("/d"), platform=platform)

    found = (machine.data_folder, machine.config_folder, machine.applications_folder)
    assert found == tuple(Path("/") / folder for folder in folders)


def test_levels_are_those_of_the_sandbox() -> None:
    """A level that is added there must be allowed here."""
    hints = SandboxConfig.__annotations__

    assert get_args(hints["level"]) == tuple(str(each) for each in IsolationLevel)


@pytest.mark.parametrize("principal", ["a:b", "", "x" * 41, "a b", "-a", "local"])
def test_a_principal_that_could_be_taken_for_another_is_refused(principal: str) -> None:
    """Workspaces are named after principals, so their names hold no separator."""
    with pytest.raises(InvalidConfig):
        HttpConfig(tokens={principal: "secret"}).clients()
    with pytest.raises(InvalidConfig):
        HttpConfig(principals={principal: PrincipalEntry(token="secret")}).clients()


def test_learning_is_on_and_shared_unless_the_file_says_otherwise(tmp_path: Path, environ: dict[str, str]) -> None:
    """All keys have a default; a principal may have a domain of its own."""
    text = """
    [learning]
    scope = "domain"
    domain = "code"
    half_life_days = 7
    critical = "ask"
    limits = false
    [http.principals.ci]
    token = "a"
    domain = "data"
    """
    config = load(tmp_path, environ, text)

    assert load(tmp_path, environ, "").learning == LearningConfig(
        enabled=True, scope="shared", domain=None, half_life_days=30.0, critical="refuse", limits=True
    )
    assert config.learning == LearningConfig(
        scope="domain", domain="code", half_life_days=7.0, critical="ask", limits=False
    )
    assert config.http.scopes()["ci"].domain == "data"


def test_markets_are_where_the_file_says_from_its_own_folder(tmp_path: Path) -> None:
    """Whichever folder the command is run in; a reference is expanded, and one that is not set is named."""
    file = tmp_path / "sealyard.toml"
    file.write_text('[skills.markets]\nours = "../skills"\nhome = "~/market"\nset = "${PLACE}/x"\n', encoding="utf-8")
    environ = {"HOME": "/home/somebody", "PLACE": "/srv"}
    config = load_config(file, environ=environ)
    assert config.skills.markets["ours"] == str(tmp_path / "../skills")
    assert config.skills.markets["set"] == "/srv/x"
    assert config.skills.markets["home"].endswith("/market")
    assert "~" not in config.skills.markets["home"]
    with pytest.raises(InvalidConfig, match=r"skills\.markets\.set cannot be used: .*PLACE"):
        load_config(file, environ={"HOME": "/home/somebody"})
