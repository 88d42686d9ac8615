"""`sealyard token` as a user meets it."""

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sealyard.config import load_config
from sealyard.values.access import PrincipalScope

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_the_lines_let_in_who_has_the_token(installed: Command, tmp_path: Path) -> None:
    """Standard output can be appended to the config as it is; the token is on standard error and in no other place."""
    done = installed(
        "token", "ci.eu", "--upstream", "github", "--upstream", "jira*", "--level", "hardened", "--approve", "--observe"
    )
    file = tmp_path / "sealyard.toml"
    file.write_text(done.stdout, encoding="utf-8")
    config = load_config(file, environ={"HOME": str(tmp_path)}, directory=tmp_path)
    token = done.stderr.splitlines()[-1]

    assert done.returncode == 0
    assert token not in done.stdout
    assert config.http.clients() == {hashlib.sha256(token.encode()).digest(): "ci.eu"}
    assert config.http.scopes() == {
        "ci.eu": PrincipalScope(
            name="ci.eu", upstreams=("github", "jira*"), level="hardened", approve=True, observe=True
        )
    }


def test_a_plain_client_has_no_scope_and_every_token_is_new(sealyard: Command) -> None:
    """Only the digest is written when nothing else was asked for."""
    made = [json.loads(sealyard("token", "ci", "--json").stdout) for _ in range(2)]

    assert made[0]["token"] != made[1]["token"]
    assert [tomllib.loads(each["toml"]) for each in made] == [
        {"http": {"principals": {"ci": {"token_sha256": hashlib.sha256(each["token"].encode()).hexdigest()}}}}
        for each in made
    ]
    assert [len(each["token"]) for each in made] == [52, 52]


@pytest.mark.parametrize("name", ["a:b", "", "local", "operator", "a b"])
def test_a_name_that_no_principal_can_have_is_refused(sealyard: Command, name: str) -> None:
    """Before anything is made."""
    done = sealyard("token", name)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: http.tokens or http.principals names the principal {name!r}. Use 1 to 40 letters, digits and . _ @ - "
        "beginning with a letter or digit, and not 'local' or 'operator', which are reserved for callers without a "
        "token and for the holder of the gateway's own key.\n"
    )
