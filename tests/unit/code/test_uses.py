"""Which tools and skills code uses: what its text proves is found, what it does not is said, and no text is trusted."""

import textwrap
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.code import Ref, Source, find_uses, parse
from sealyard.code.uses import Unknown, Uses
from sealyard.errors import InvalidSkill


def uses_in(code: str) -> Uses:
    """The tools and skills that code uses."""
    return find_uses(parse(code))


def uses(code: str) -> Uses:
    """What code uses that may be indented as it stands in the test."""
    return uses_in(textwrap.dedent(code).strip("\n"))


def pay(*lines: int) -> Ref:
    """The tool of most tests, used on these lines."""
    return Ref("servers.bank.pay", None, lines)


FORMS = {
    "from the server": "from servers.bank import pay\npay()",
    "under another name": "from servers.bank import pay as p\np()",
    "the server under another name": "import servers.bank as b\nb.pay()",
    "the whole package": "import servers\nservers.bank.pay()",
    "the server by its path": "import servers.bank\nservers.bank.pay()",
    "the server from the package": "from servers import bank\nbank.pay()",
    "the server from the package, renamed": "from servers import bank as b\nb.pay()",
    "the file of the tool": "from servers.bank.pay import pay\npay()",
    "the file of the tool as a module": "import servers.bank.pay as p\np.pay()",
    "awaited": "from servers.bank import pay\nawait pay()",
    "passed on as a function": "from servers.bank import pay\nlist(map(pay, [1]))",
}


@pytest.mark.parametrize("code", FORMS.values(), ids=FORMS)
def test_every_way_to_import_a_tool_is_followed(code: str) -> None:
    """Whatever the spelling, the same tool is used on line two."""
    found = uses_in(code)

    assert {(ref.name, ref.lines[-1]) for ref in found.tools} == {("servers.bank.pay", 2)}
    assert found.unknown == ()


def test_import_alone_is_a_use() -> None:
    """Without the tool the import fails, whether it is called or not."""
    assert uses_in("from servers.bank import pay").tools == (pay(1),)


def test_call_by_full_name_is_a_use() -> None:
    """The name may be a literal, a keyword or a constant that has one value."""
    code = """
    from tool_discovery import call_tool as call
    from servers import call_tool as other
    NAME = "mcp__bank__close"
    def run():
        call_tool("mcp__bank__pay", {})
        call(name="mcp__bank__open", arguments={})
        other(NAME, {})
    """

    assert uses(code) == Uses(
        tools=(
            Ref("mcp__bank__pay", None, (5,)),
            Ref("mcp__bank__open", None, (6,)),
            Ref("mcp__bank__close", None, (7,)),
        )
    )


def test_uses_inside_functions_classes_and_comprehensions_are_found() -> None:
    """Scopes are those of Python: a function's import is its own, a method sees past its class."""
    code = """
    import servers.bank as bank
    class Account:
        rows = [bank.list_rows(n) for n in range(3)]
        def close(self):
            return bank.close()
    def outer():
        from servers.mail import send
        return lambda: send(to="a")
    """

    assert uses(code).tools == (
        Ref("servers.bank.list_rows", None, (3,)),
        Ref("servers.bank.close", None, (5,)),
        Ref("servers.mail.send", None, (7, 8)),
    )


def test_rebound_names_are_followed() -> None:
    """`b = bank` and a constant name are as good as an import."""
    code = """
    from importlib import import_module
    from servers import bank
    b = bank
    c = call_tool
    m = import_module("servers.mail")
    b.pay(), m.send(), c("mcp__x__y"), getattr(bank, "close")(), __import__("servers.trips").trips.go()
    """

    assert uses(code) == Uses(
        tools=(
            Ref("mcp__x__y", None, (6,)),
            Ref("servers.bank.close", None, (6,)),
            Ref("servers.bank.pay", None, (6,)),
            Ref("servers.mail.send", None, (6,)),
            Ref("servers.trips.go", None, (6,)),
        )
    )


SHADOWED = {
    "a parameter": "from servers import bank\ndef f(bank):\n    return bank.append(1)",
    "a loop in a comprehension": "from servers import bank\n[bank.x for bank in rows]",
    "a local variable": "from servers import bank\ndef f():\n    bank = Bank()\n    return bank.total",
    "an attribute of something else": "from servers import bank\nself.bank.total",
    "an own function": "def call_tool(name): ...\ncall_tool(name)",
    "a word argument": "from servers import bank\nf(bank=1).pay",
}


@pytest.mark.parametrize("code", SHADOWED.values(), ids=SHADOWED)
def test_name_that_means_something_else_is_no_use(code: str) -> None:
    """An inner binding hides the import, and nothing is said about it."""
    assert uses_in(code) == Uses()


def test_global_and_nonlocal_bind_where_they_say() -> None:
    """An import into the module is seen by all of it; a server that a function may replace is uncertain."""
    code = """
    def load():
        global bank
        from servers import bank
    def outer():
        from servers import mail
        def change():
            nonlocal mail
            mail = None
        mail.send()
    bank.pay()
    """

    assert uses(code) == Uses(tools=(pay(10),), unknown=(Unknown(9, "`mail.send` may stand for more than one thing."),))


def test_skills_are_found_in_every_form() -> None:
    """Imports, attributes and `load` with or without a version; the error beside them is no skill."""
    code = """
    from skills import monthly_total as total, load, SkillInputError
    from skills.yearly import yearly
    import skills
    import skills.weekly as w
    skills.daily(1)
    skills.load("hourly@1.2"), load("hourly"), load(reference="hourly@1"), skills.SkillInputError
    """

    assert uses(code) == Uses(
        skills=(
            Ref("monthly_total", None, (1,)),
            Ref("yearly", None, (2,)),
            Ref("weekly", None, (4,)),
            Ref("daily", None, (5,)),
            Ref("hourly", None, (6,)),
            Ref("hourly", "1", (6,)),
            Ref("hourly", "1.2", (6,)),
        )
    )


UNKNOWN = {
    "call_tool(name)": "`call_tool` is called with a name that the code does not spell out.",
    "call_tool(f'mcp__{x}')": "`call_tool` is called with a name that the code does not spell out.",
    "call_tool()": "`call_tool` is called with a name that the code does not spell out.",
    "map(call_tool, names)": "`call_tool` is passed on, so what it is called with is unknown.",
    "from servers.bank import *": "`from servers.bank import *` does not say what it imports.",
    "from skills import *": "`from skills import *` does not say what it imports.",
    "import servers; f(servers.bank)": "`servers.bank` is passed on, so which tools are used of it is unknown.",
    "import servers; f(servers)": "`servers` is passed on, so which tools are used of it is unknown.",
    "import servers.bank as b; vars(b)": "`servers.bank` is passed on, so which tools are used of it is unknown.",
    "import servers.bank as b; b.__dict__[x]": "`servers.bank.__dict__` reaches every tool of the server.",
    "import servers as s; getattr(s, x)": "`getattr` takes a name of `servers` that the code does not spell out.",
    "import skills; f(skills)": "`skills` is passed on, so which skills are used is unknown.",
    "import skills; skills.load(x)": "`skills.load` is called with a name that the code does not spell out.",
    "from skills import load; f(load)": "`skills.load` is passed on, so what it is called with is unknown.",
    "exec(text)": "`exec` runs text, and what that uses is unknown.",
    "__import__(name)": "A module is imported by a name that the code does not spell out.",
    "class C:\n b = call_tool": "`call_tool` is passed on, so what it is called with is unknown.",
}


@pytest.mark.parametrize("code", UNKNOWN)
def test_what_cannot_be_known_is_said(code: str) -> None:
    """A dependency that may be missing is told with its line, and nothing is guessed."""
    found = uses_in(code)

    assert (found.tools, found.skills) == ((), ())
    assert found.unknown == (Unknown(code.count("\n") + 1, UNKNOWN[code]),)


def test_looking_at_a_server_is_harmless() -> None:
    """`dir` and `print` use no tool, nor does the docstring of a module."""
    assert uses_in("import servers.bank as b\nprint(b.__doc__, dir(b), b)") == Uses()


HOSTILE = {
    "deep attributes": "x" + ".a" * 30_000,
    "deep lambdas": "lambda:" * 5_000 + "1",
    "deep brackets": "(" * 500 + ")" * 500,
    "deep sums": "x" + "+x" * 60_000,
    "a null byte": "x = 1\ny = '\0'",
    "half a surrogate pair": "x = 1\ny = '\ud800'",
    "too many bytes": "x" * (Source.most_bytes + 1),
    "too many bytes in few characters": "'" + "\U0001f600" * (Source.most_bytes // 4) + "'",
    "no Python": "def",
    "a byte order mark": "\ufeffx = 1",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused(code: str) -> None:
    """Whatever the text does to a parser, the answer is one error of ours."""
    with pytest.raises(InvalidSkill):
        uses_in(code)


def test_refusal_names_the_line() -> None:
    """Lines are counted as Python counts them; a form feed ends none."""
    told = []
    for code in ("x = 1\r\n\f\ry = '\0'", "x = 1\ny = '\ud800'", "x = 1\ny = (\n"):
        with pytest.raises(InvalidSkill) as caught:
            uses_in(code)
        told.append(str(caught.value))

    assert told == [
        "Line 3: the code holds a null byte. Take it out.",
        "Line 2: the code holds half of a surrogate pair. Send it as Unicode.",
        "Line 2: SyntaxError: '(' was never closed. Change the code and try again.",
    ]


def test_long_chains_of_names_end() -> None:
    """Thousands of rebindings, also in circles, cost their length and no more."""
    chain = "import servers.bank as a0\n" + "".join(f"a{number + 1} = a{number}\n" for number in range(3_000))
    circle = "a = b\nb = a\na.pay()\nc = c.x\nc.y()\n"
    many = "".join(f"x = servers{number}.a\n" for number in range(3_000)) + "x.pay()"

    assert [uses_in(code).tools for code in (chain + "a40.pay()", circle, many)] == [(pay(3_002),), (), ()]


def test_warnings_of_the_parser_are_kept_off_in_every_thread() -> None:
    """Text with odd escapes, read in many threads at once: nobody is warned, and the filters are as before."""
    errors: list[Exception] = []

    def read() -> None:
        try:
            for _ in range(50):
                parse("x = '\\d' is 1")
        except (InvalidSkill, Warning) as error:
            errors.append(error)

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    with pytest.raises(SyntaxError):
        compile("x = '\\d'", "<test>", "exec")  # warnings are errors in tests, still


PIECES = st.sampled_from(
    "servers skills bank pay call_tool load import from as . ( ) = , 'mcp__a__b' x def class : \n lambda for in global "
    "nonlocal [ ] { } * ** @ if else await := | -> with try except match case type del return getattr".split(" ")
)


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.text())
def test_any_text_is_read_or_refused(code: str) -> None:
    """Nothing but an answer or `InvalidSkill` comes out."""
    try:
        assert isinstance(uses_in(code), Uses)
    except InvalidSkill:
        pass
