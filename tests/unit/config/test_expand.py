"""References in a configuration, and text that hides itself."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.config.references import Hidden, Unresolved, expand, has_reference, name_of_input
from sealyard.config.settings import Machine

MACHINE = Machine(
    environ={"TOKEN": "s3cret", "EMPTY": "", "TRICKY": "${TOKEN} $TOKEN", "GITHUB_TOKEN": "from-input"},
    directory=Path("/src/shop"),
    home=Path("/home/ada"),
    platform="linux",
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${TOKEN}", "s3cret"),
        ("Bearer ${env:TOKEN}!", "Bearer s3cret!"),
        ("${TOKEN}${TOKEN}", "s3crets3cret"),
        ("${TOKEN:-other}", "s3cret"),
        ("${NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${env:NONE:-a:-b}", "a:-b"),
        ("${TRICKY}", "${TOKEN} $TOKEN"),
        ("${input:github-token}", "from-input"),
        ("${workspaceFolder}/x", "/src/shop/x"),
        ("${workspaceFolderBasename}", "shop"),
        ("${userHome}${pathSeparator}x", "/home/ada/x"),
        ("$TOKEN $$ ${} ${1} ${#TOKEN} ${TOKEN", "$TOKEN $$ ${} ${1} ${#TOKEN} ${TOKEN"),
    ],
)
def test_references_become_what_they_stand_for(text: str, value: str) -> None:
    """Known references are replaced once, defaults stand in, and what is no reference is left alone."""
    assert expand(text, MACHINE) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a ${NONE} b", "the variable NONE is not set"),
        ("${env:NONE}", "the variable NONE is not set"),
        ("${input:my key}", "the variable MY_KEY is not set"),
        ("${NONE:-${ALSO}}", "the default of ${NONE} holds a brace, such as that of another reference"),
        ('${TOKEN:-{"a": 1}}', "the default of ${TOKEN} holds a brace, such as that of another reference"),
        ("${command:pick-secret}", "${command:…} is a reference that sealyard does not know"),
        ("${TOKEN:+set}", "${TOKEN:…} is a reference that sealyard does not know"),
    ],
)
def test_what_stands_for_nothing_is_named(text: str, reason: str) -> None:
    """The reason names the variable or the kind of reference, and no text around it."""
    with pytest.raises(Unresolved) as caught:
        expand(text, MACHINE)

    assert str(caught.value) == reason


@given(name=NAMES, value=st.text(), before=st.text(), after=st.text())
def test_any_value_of_a_variable_arrives_as_it_is(name: str, value: str, before: str, after: str) -> None:
    """A value that looks like a reference itself is not read again, so that the environment cannot reach for others."""
    before, after = before.replace("$", ""), after.replace("$", "")
    machine = Machine(environ={name: value}, directory=Path("/f"), home=Path("/h"), platform="linux")
    if name in ("workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator"):
        return

    for reference in (f"${{{name}}}", f"${{env:{name}}}"):
        assert expand(before + reference + after, machine) == before + value + after


@given(st.text(alphabet="${}:-env AB1/"))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    """No text breaks the reader, and one without a reference stays the same."""
    try:
        value = expand(text, MACHINE)
    except Unresolved:
        assert has_reference(text)
    else:
        assert has_reference(text) or value == text.replace("${/}", "/")


def test_expanded_text_does_not_show_its_value() -> None:
    """Its `repr` is what the file says without defaults, and it cannot be encoded by accident."""
    text = expand("--token=${TOKEN:-fallback}", MACHINE)

    assert (repr(text), text) == ("'--token=${TOKEN}'", "--token=s3cret")
    assert (repr({"a": Hidden("s3cret")}), repr(MACHINE)) == (
        "{'a': '…'}",
        "Machine(home=PosixPath('/home/ada'), directory=PosixPath('/src/shop'), platform='linux')",
    )
    with pytest.raises(TypeError):
        msgspec.json.encode(text)


@pytest.mark.parametrize(
    ("identifier", "name"),
    [("github-token", "GITHUB_TOKEN"), ("apiKey", "APIKEY"), ("2fa", "INPUT_2FA"), ("é", "INPUT_")],
)
def test_inputs_have_the_names_of_variables(identifier: str, name: str) -> None:
    """Whatever the identifier, the variable can be set in a shell."""
    assert name_of_input(identifier) == name
