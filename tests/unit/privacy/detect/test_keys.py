"""Keys by the form their vendor gives them, and secrets by the name they are assigned to."""

import random
import re
import string

import pytest

from sealyard.privacy.detect.credentials import KEY_FORMATS, MARKED_FORMATS
from sealyard.privacy.detect.forms import find_values
from sealyard.privacy.span import Span

CHANCE = random.Random(7)
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def draw(characters: str, count: int) -> str:
    """As many characters by chance: no key of anybody stands in this file."""
    return "".join(CHANCE.choice(characters) for _ in range(count))


def uuid() -> str:
    """A random text in the form of a UUID."""
    return "-".join(draw(HEX, count) for count in (8, 4, 4, 4, 12))


KEYS = {
    "aws_access_key": "AKIA" + draw(string.ascii_uppercase + "234567", 16),
    "aws_session": "ASIA" + draw(string.ascii_uppercase + "234567", 16),
    "adobe": "p8e-" + draw(string.ascii_lowercase + string.digits, 32),
    "authress": "sc_" + draw(HEX, 12) + "." + draw(HEX, 4) + ".acc-" + draw(HEX, 16) + "." + draw(LETTERS, 60),
    "aws_bedrock": "bedrock-api-key-" + draw(LETTERS, 60),
    "clickhouse": "4b1d" + draw(LETTERS, 38),
    "defined_networking": "dnkey-" + draw(LETTERS, 26) + "-" + draw(LETTERS, 52),
    "flutterwave": "FLWSECK_TEST-" + draw("abcdefgh123456789", 12),
    "harness": "pat." + draw(LETTERS, 22) + "." + draw(LETTERS, 24) + "." + draw(LETTERS, 20),
    "intra42": "s-s4t2ud-" + draw(HEX, 64),
    "mailgun_public": "pubkey-" + draw(HEX, 32),
    "maxmind": draw(LETTERS, 6) + "_" + draw(LETTERS, 29) + "_mmk",
    "openshift": "sha256~" + draw(LETTERS, 43),
    "scalingo": "tk-us-" + draw(LETTERS, 48),
    "settlemint": "sm_pat_" + draw(LETTERS, 16),
    "yandex": "t1." + draw(LETTERS, 60) + "." + draw(LETTERS, 86),
    "adafruit": "aio_" + draw(LETTERS, 28),
    "airtable": "pat" + draw(LETTERS, 14) + "." + draw(HEX, 64),
    "alibaba": "LTAI" + draw(LETTERS, 20),
    "anthropic": "sk-ant-api03-" + draw(LETTERS + "_-", 93) + "AA",
    "artifactory": "AKCp" + draw(LETTERS, 69),
    "asana": "2/" + draw("123456789", 16) + "/" + draw("123456789", 16) + ":" + draw(HEX, 32),
    "atlassian": "ATATT3xFfGF0" + draw(LETTERS + "_-=", 180),
    "azure_client_secret": "a1B8Q~" + draw(LETTERS + "_-.~", 33) + "Z",
    "azure_devops": draw(LETTERS, 52) + "JQQJ99" + draw(string.ascii_uppercase, 18) + "AZDO" + draw(LETTERS, 4),
    "bitbucket": "ATBB" + draw(LETTERS, 32),
    "brevo": "xkeysib-" + draw(HEX, 64) + "-" + draw(LETTERS, 16),
    "buildkite": "bkua_" + draw(HEX, 40),
    "clojars": "CLOJARS_" + draw(HEX, 60),
    "databricks": "dapi" + draw(HEX, 32),
    "digitalocean": "dop_v1_" + draw(HEX, 64),
    "discord_bot": "MT" + draw(LETTERS, 24) + "." + draw(LETTERS, 6) + "." + draw(LETTERS, 38),
    "docker_hub": "dckr_pat_" + draw(LETTERS, 27),
    "doppler": "dp.pt." + draw(LETTERS, 43),
    "dropbox": "sl.B" + draw(LETTERS + "_-", 135),
    "dynatrace": "dt0c01." + draw(string.ascii_uppercase, 24) + "." + draw(string.ascii_uppercase, 64),
    "figma": "figd_" + draw(LETTERS, 43),
    "fly": "fo1_" + draw(LETTERS, 43),
    "github": "ghp_" + draw(LETTERS, 36),
    "github_app": "ghs_" + draw(LETTERS, 36),
    "github_oauth": "gho_" + draw(LETTERS, 36),
    "github_fine": "github_pat_" + draw(LETTERS, 22) + "_" + draw(LETTERS, 59),
    "gitlab": "glpat-" + draw(LETTERS, 20),
    "google_api": "AIza" + draw(LETTERS + "_-", 34) + "A",
    "google_oauth_secret": "GOCSPX-" + draw(LETTERS, 28),
    "grafana": "glsa_" + draw(LETTERS, 32) + "_" + draw(HEX, 8),
    "groq": "gsk_" + draw(LETTERS, 52),
    "heroku": "HRKU-" + uuid(),
    "hubspot": "pat-na1-" + uuid(),
    "hugging_face": "hf_" + draw(string.ascii_letters, 34),
    "langsmith": "lsv2_pt_" + draw(HEX, 32) + "_" + draw(HEX, 10),
    "launchdarkly": "sdk-" + uuid(),
    "linear": "lin_api_" + draw(LETTERS, 40),
    "mailchimp": draw(HEX, 32) + "-us12",
    "mailgun": "key-" + draw(HEX, 32),
    "netlify": "nfp_" + draw(LETTERS, 36),
    "new_relic": "NRAK-" + draw(string.ascii_uppercase + string.digits, 27),
    "notion": "ntn_" + draw(LETTERS, 46),
    "npm": "npm_" + draw(LETTERS, 36),
    "nuget": "oy2" + draw(string.ascii_lowercase + string.digits, 43),
    "nvidia": "nvapi-" + draw(LETTERS, 64),
    "openai": "sk-proj-" + draw(LETTERS + "_", 60) + "T3BlbkFJ" + draw(LETTERS, 40),
    "openai_old": "sk-" + draw(LETTERS, 20) + "T3BlbkFJ" + draw(LETTERS, 20),
    "planetscale": "pscale_tkn_" + draw(LETTERS, 43),
    "postman": "PMAK-" + draw(HEX, 24) + "-" + draw(HEX, 34),
    "pulumi": "pul-" + draw(HEX, 40),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + draw(LETTERS + "_-", 60),
    "replicate": "r8_" + draw(LETTERS, 37),
    "resend": "re_" + draw(LETTERS, 8) + "_" + draw(LETTERS, 24),
    "rubygems": "rubygems_" + draw(HEX, 48),
    "sendgrid": "SG." + draw(LETTERS, 22) + "." + draw(LETTERS, 43),
    "sentry": "sntryu_" + draw(HEX, 64),
    "shopify": "shpat_" + draw(HEX, 32),
    "slack": "xoxb-" + draw("123456789", 12) + "-" + draw("123456789", 12) + "-" + draw(LETTERS, 24),
    "sonarqube": "sqp_" + draw(HEX, 40),
    "square": "sq0atp-" + draw(LETTERS, 22),
    "stripe": "sk_live_" + draw(LETTERS, 24),
    "supabase": "sbp_" + draw(HEX, 40),
    "tailscale": "tskey-auth-" + draw(LETTERS, 17) + "-" + draw(LETTERS, 31),
    "telegram_bot": draw("123456789", 10) + ":AA" + draw(LETTERS, 33),
    "terraform": draw(LETTERS, 14) + ".atlasv1." + draw(LETTERS, 67),
    "twilio": "SK" + draw(HEX, 32),
    "vault": "hvs." + draw(LETTERS, 90),
}


@pytest.mark.parametrize("vendor", KEYS)
@pytest.mark.parametrize(
    "frame", ["{}", 'call with "{}", please', '{{"a":"x","b":"{}"}}', "line\\n{}\\nline", "x={};y=1"]
)
def test_key_is_found_whole_wherever_it_stands(vendor: str, frame: str) -> None:
    """Bare, quoted, in JSON, behind an escaped line end, in a list of settings."""
    text = frame.format(KEYS[vendor])
    start = text.index(KEYS[vendor])

    assert [(span.start, span.end) for span in find_values(text)] == [(start, start + len(KEYS[vendor]))]


def test_forms_of_keys_start_with_a_character_of_their_own_and_compile() -> None:
    """The one pattern is grouped by that character."""
    assert [name for name, form in KEY_FORMATS if not form[0].isalnum() or form[1] in "*+?{"] == []
    assert [
        name for name, (head, mark, tail) in MARKED_FORMATS.items() if not mark or not re.compile(head + tail)
    ] == []
    assert len({name for name, _ in KEY_FORMATS} | set(MARKED_FORMATS)) >= 100


@pytest.mark.parametrize(
    "text",
    [
        "gift_card_9708163",
        "ApprovedBy_example_7323",
        uuid(),
        "sha256:" + draw(HEX, 64),
        "commit " + draw(HEX, 40),
        "some_long_function_name_2",
        "https://example.com/2024/05/a-long-title-of-a-page-12",
        "s3://bucket/key/2024-01-01",
        "IMG_20240101_123456789.jpeg",
        "sk-learn",
        "npm_config_registry_of_the_whole_organisation",
        "key-value-store-10",
    ],
)
def test_long_words_that_are_no_keys_are_left(text: str) -> None:
    """Ids, hashes, names and paths are the bulk of what tools answer."""
    assert find_values(text) == []


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + draw(LETTERS, 43)


@pytest.mark.parametrize(
    ("text", "value", "name"),
    [
        (f"id {JWT}.", JWT, "auth_token"),
        ("Authorization: Bearer abc123def456", "abc123def456", "auth_token"),
        ("curl -H 'authorization: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz", "auth_token"),
        ("access_token=" + "a1b2c3d4e5f6a7b8&x=1", "a1b2c3d4e5f6a7b8", "auth_token"),
        ("Set-Cookie: sid=9f86d081884c7d659a2f; Path=/", "9f86d081884c7d659a2f", "auth_token"),
        ("password=hunter2", "hunter2", "password"),
        ('{"db_password": "correct horse"}', "correct horse", "password"),
        ("PGPASSWORD: 'p@ss'", "p@ss", "password"),
        ("<password>hunter2</password>", "hunter2", "password"),
        ('<add key="SmtpPassword" value="hunter2"/>', "hunter2", "password"),
        ("mysql --password hunter2", "hunter2", "password"),
        ("The password is Tr0ub4dor&3", "Tr0ub4dor", "password"),
        ("contraseña: secreto1", "secreto1", "password"),
        ("Passwort: geheim1", "geheim1", "password"),
        ("пароль: qwerty1", "qwerty1", "password"),
        ("密码: qwerty1", "qwerty1", "password"),
        ("curl -u admin:hunter2 https://example.com", "admin:hunter2", "password"),
        ("ada@example.org:Winter2024!", "Winter2024!", "password"),
        ("$2b$12$" + "a" * 53, "$2b$12$" + "a" * 53, "password"),
        ('api_key = "q8Zr1Yt7Wm3Kp5Xs"', "q8Zr1Yt7Wm3Kp5Xs", "api_key"),
        ('"clientSecret": "q8Zr1Yt7Wm3Kp5Xs"', "q8Zr1Yt7Wm3Kp5Xs", "api_key"),
        ("AccountKey=" + "Zm9vYmFyMTIzNDU2Nzg5MA==" + ";X=1", "Zm9vYmFyMTIzNDU2Nzg5MA==", "api_key"),
    ],
)
def test_secret_is_found_by_what_it_is_assigned_to(text: str, value: str, name: str) -> None:
    """The value alone, not the name and not the quotes. A bare value ends at `&`: it may stand in a query."""
    start = text.index(value)

    assert Span(start, start + len(value), name) in find_values(text)


@pytest.mark.parametrize(
    "text",
    [
        'password: "string"',
        "password = None",
        "password=os.environ['X']",
        "password: ${DB_PASSWORD}",
        "password=****",
        "The password is required.",
        "Enter your password: ",
        "password must be changed",
        "if password == self.password:",
        "def login(user: str, password: str) -> bool:",
        "max_tokens: 4096",
        "nextPageToken: CAUQAA",
        '"key": "PROJ-12"',
        "the key is to listen",
        "pass `background=true`",
        "token_type: bearer",
        "primary_key=id",
        "__PII_password_0123456789ab__",
        'password: "__PII_password_0123456789ab__"',
    ],
)
def test_names_without_a_secret_are_left(text: str) -> None:
    """Schemas, code, prose, placeholders and tokens of our own."""
    assert find_values(text) == []


PEM = (
    "-----BEGIN {0}PRIVATE KEY-----\n"
    + "\n".join(draw(LETTERS + "+/", 64) for _ in range(6))
    + "\n-----END {0}PRIVATE KEY-----"
)


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA "])
def test_private_key_is_one_span_from_begin_to_end(kind: str) -> None:
    """Also where JSON has escaped its line ends."""
    key = PEM.format(kind)
    escaped = key.replace("\n", "\\n")

    assert find_values(f"a\n{key}\nb") == [Span(2, 2 + len(key), "private_key")]
    assert find_values(f'{{"k": "{escaped}"}}') == [Span(7, 7 + len(escaped), "private_key")]


def test_private_key_that_was_cut_off_is_found_as_far_as_it_goes() -> None:
    """A preview ends in the middle of anything."""
    cut = PEM.format("RSA ")[:200]

    assert find_values(cut) == [Span(0, 200, "private_key")]


def test_other_private_keys_are_found() -> None:
    """PGP, PuTTY and age have their own frames."""
    pgp = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabcd\n-----END PGP PRIVATE KEY BLOCK-----"
    putty = "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\nAAAA\nPrivate-MAC: " + draw(HEX, 40)
    age = "AGE-SECRET-KEY-1" + draw("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)

    assert [find_values(key) for key in (pgp, putty, age)] == [
        [Span(0, len(key), "private_key")] for key in (pgp, putty, age)
    ]


def test_public_keys_and_certificates_are_left() -> None:
    """They are made to be shown."""
    public = PEM.format("").replace("PRIVATE", "PUBLIC").replace("+", "A").replace("/", "B")

    assert [span for span in find_values(public) if span.type == "private_key"] == []


def test_a_key_is_found_behind_the_last_sign_of_another() -> None:
    """Keys may touch."""
    first = "glc_" + "Ab1" * 12 + "=="
    second = "ghp_" + "a1B2" * 9

    found = [(span.start, span.end) for span in find_values(first + second)]

    assert found[0][0] == 0
    assert found[-1][1] == len(first + second)


def test_a_row_of_one_letter_is_no_key() -> None:
    """Zeros in base64 are such a row."""
    assert find_values("A" * 200) == []


def test_a_token_behind_many_starts_of_one_is_found() -> None:
    """What begins as a token and is none hides none."""
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
    text = "-eyJaaaaaaaa" * 300 + " " + token

    assert any(span.start <= text.index(token) and span.end == len(text) for span in find_values(text))
