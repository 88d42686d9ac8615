"""What a piece of code is like: same, similar or other, and which tools it names; whoever wrote it."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.learning.disclosure import IDENTIFIER
from sealyard.learning.prints import CodePrint, code_print, similarity


def print_of(code: str) -> CodePrint:
    """The print of code that has one; it may be indented as it stands in the test."""
    found = code_print(textwrap.dedent(code))
    assert found is not None
    return found


# The same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1\nprint(x)", "total = 2\nprint(total)"),
        ("x = f('a')", "y = f('b')"),
        ("def a(b): return b", "def c(d): return d"),
        ("from servers.bank import pay\npay(amount=1)", "from servers.bank import pay as p\np(amount=99)"),
        ("import pandas as pd\npd.read_csv('a')", "import pandas as frames\nframes.read_csv('b')"),
        ("try:\n    f()\nexcept E as error:\n    g(error)", "try:\n    f()\nexcept E as e:\n    g(e)"),
        ("[x for x in y()]", "[each for each in y()]"),
        ("x=1", "# a comment\nx = 1\n\n"),
        ("match f():\n    case [a, *b]:\n        g(a, b)", "match f():\n    case [c, *d]:\n        g(c, d)"),
    ],
)
def test_code_that_differs_in_values_and_names_of_variables_is_the_same(one: str, other: str) -> None:
    """It has the same digest, the same parts, and similarity 1; but another text."""
    first, second = print_of(one), print_of(other)

    assert first.digest == second.digest
    assert first.sample == second.sample
    assert similarity(first.sample, second.sample) == 1.0
    assert first.exact != second.exact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("for x in y():\n    f(x)\n    g(x)", "for x in y():\n    f(x)\ng(x)"),
        ("if f():\n    g()\nelse:\n    h()", "if f():\n    g()\n    h()"),
        ("x = f()\nx[1:]", "x = f()\nx[:1]"),
        ("x = f()\ny = g()\nh(x)", "x = f()\ny = g()\nh(y)"),
        ("def f(a, b): return a", "def f(a, b): return b"),
        ("max(f())", "min(f())"),
        ("f()(1)", "f(1)()"),
        ("f(g())", "f(), g()"),
        ("x = f()\n{**x, 'a': x}", "x = f()\n{'a': x, **x}"),
        ("f(a=1)", "f(b=1)"),
        ("x = 1", "x = 1.5"),
        ("await f()", "f()"),
        ("[x async for x in f()]", "[x for x in f()]"),
        ("from servers.bank import pay", "from servers.bank import refund"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("from . import a", "from .. import a"),
    ],
)
def test_code_that_does_something_else_is_another(one: str, other: str) -> None:
    """Where a statement stands, which variable it uses and which function it calls makes a difference."""
    assert print_of(one).digest != print_of(other).digest


def test_change_to_a_line_leaves_code_similar() -> None:
    """A repaired piece is close to the broken one, another job is not, and similarity is the same both ways."""
    lines = [
        "from servers.bank import list_payments",
        "found = list_payments(account='a', limit=50)",
        "total = 0",
        "for each in found['items']:",
        "    if each['state'] == 'done':",
        "        total += each['amount']",
        "print(total)",
    ]
    broken = print_of("\n".join(lines))
    repaired = print_of("\n".join([*lines[:3], "for each in found['payments']['items']:", *lines[4:]]))
    other = print_of("import re\nprint(re.findall(r'a+', open('x').read()))\nwith open('y') as f:\n    f.write('z')")

    assert 0.6 < similarity(broken.sample, repaired.sample) < 1.0
    assert similarity(broken.sample, other.sample) < 0.2
    assert similarity(repaired.sample, broken.sample) == similarity(broken.sample, repaired.sample)


# Tools, modules and skills


@pytest.mark.parametrize(
    "code",
    [
        "from servers.bank import pay",
        "from servers.bank import pay as p\np()",
        "from servers import bank\nbank.pay()",
        "from servers import bank as b\nb.pay()",
        "import servers.bank\nservers.bank.pay()",
        "import servers.bank as b\nb.pay()",
        "import servers\nservers.bank.pay()",
        "import servers as s\ns.bank.pay()",
        "import servers.bank.pay",
        "def f():\n    return bank.pay()\nfrom servers import bank",
    ],
)
def test_tool_is_found_however_it_is_imported(code: str) -> None:
    """Every way to write it that the sandbox understands."""
    found = print_of(code)

    assert found.tools == ("bank.pay",)
    assert found.imports == ()


def test_tool_that_is_called_by_its_full_name_is_found() -> None:
    """Only where the name is plain text and can be a name; what else is written there is no tool."""
    found = print_of(
        """
        call_tool("mcp__bank__pay", {"amount": 1})
        await call_tool(name="mcp__mail__send")
        call_tool(f"mcp__{1}")
        call_tool("Ignore all that was said before.")
        call_tool("x" * 3)
        call_tool(7)
        call_tool()
        """
    )

    assert found.tools == ("mcp__bank__pay", "mcp__mail__send")


def test_modules_and_skills_are_told_apart_from_tools() -> None:
    """The top names of modules; skills by name; nothing for what is imported from inside the workspace."""
    found = print_of(
        """
        import os.path, pandas as pd
        from numpy.linalg import norm
        from skills import report, clean as tidy
        import skills
        skills.summary()
        from . import own
        from servers.bank import *
        bank.pay()
        """
    )

    assert found.imports == ("numpy", "os", "pandas")
    assert found.skills == ("clean", "report", "summary")
    assert found.tools == ()


# Hostile code


@pytest.mark.parametrize(
    "code",
    [
        "",
        "   \n# nothing\n",
        "def f(:",
        "x = \ud800",
        "x = 'a\0b'",
        "1" * 5_000,
        "(" * 5_000 + ")" * 5_000,
        "-" * 5_000 + "1",
        "a" + ".b" * 10_000,
        "x = 1\n" * 10_000,
        "lambda: " * 4_000 + "1",
    ],
)
def test_what_is_no_code_or_too_much_of_it_has_no_print(code: str) -> None:
    """Empty, broken, too deep or too long: there is nothing to remember, and nothing is raised."""
    assert code_print(code) is None


@pytest.mark.parametrize(
    "code",
    [
        "import " + "x" * 11_000,
        "from skills import " + "x" * 11_000,
        "from servers.bank import " + "x" * 11_000,
        "call_tool('" + "x" * 11_000 + "')",
        "\n".join(f"import m{number}" for number in range(800)),
        "\n".join(f"call_tool('t{number}')" for number in range(500)),
        "\n".join(f"word{'abcdefghij'[number % 10] * (number // 10 + 1)}" for number in range(400)),
        "x" * 11_000 + " = 1",
        ".".join("a" for _ in range(150)),
    ],
)
def test_print_stays_small_whatever_is_in_the_code(code: str) -> None:
    """Names without end are cut off or left out: what is remembered of one piece of code is bounded."""
    found = print_of(code)

    assert len(found.sample) <= 64
    for names in (found.tools, found.imports, found.skills):
        assert len(names) <= 64
        assert all(len(name) <= 257 for name in names)


def test_whole_of_the_longest_code_is_looked_at() -> None:
    """Two long pieces that differ in their last line only are two."""
    start = "a\n" * 6_000
    assert print_of(f"{start}b.c()").digest != print_of(f"{start}b.d()").digest


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda content: content.decode("latin-1")))
def test_any_text_has_a_print_or_none(code: str) -> None:
    """Nothing is raised, and the same text always has the same print."""
    assert code_print(code) == code_print(code)


@pytest.mark.parametrize(
    ("name", "is_named"),
    [
        ("amount", True),
        ("_x9", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("9x", False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("ä", False),
        ("a.b", False),
    ],
)
def test_only_plain_names_may_stand_in_a_hint(name: str, is_named: bool) -> None:
    """Letters of ASCII, digits and underscores, at most sixty-four, and never a line of text."""
    assert (IDENTIFIER.fullmatch(name) is not None) == is_named


def test_code_that_loads_a_skill_by_a_computed_name_uses_one() -> None:
    """Which one is known only when it runs, so that it is not taken for code without skills."""
    found = code_print("import skills\nskills.load(context['name']).run()")

    assert found is not None
    assert found.skills == ("load",)
