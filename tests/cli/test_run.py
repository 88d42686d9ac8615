"""`sealyard run` as a user meets it: what it prints where, and what it exits with."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_output_and_result_go_to_standard_output(installed: Command) -> None:
    """What the code prints comes first, then its result as indented JSON."""
    done = installed("run", "-c", "print('counting')\nprint('no newline', end='')\nresult = {'n': [1, 2.5, None]}")

    assert done.returncode == 0
    assert done.stdout == 'counting\nno newline\n{\n  "n": [\n    1,\n    2.5,\n    null\n  ]\n}\n'


def test_nothing_is_printed_for_code_without_a_result(sealyard: Command) -> None:
    """A result of `None` is no result: only the output is shown."""
    done = sealyard("run", "-c", "print(sum(range(10)))")

    assert (done.returncode, done.stdout) == (0, "45\n")


def test_footer_names_status_tier_and_level(sealyard: Command) -> None:
    """One line on standard error says how the run ended and behind which walls."""
    done = sealyard("run", "-c", "1", "--level", "hardened", "--json")
    tier = json.loads(done.stdout)["tier"]

    done = sealyard("run", "-c", "1", "--level", "hardened")

    words = done.stderr.split()
    assert words[:2] + words[3:] == ["ok", "in", "s", f"({tier}", "tier,", "hardened", "level)"]


def test_code_is_read_from_a_file(sealyard: Command, tmp_path: Path) -> None:
    """A file is UTF-8, with or without a byte order mark."""
    file = tmp_path / "größe.py"
    file.write_text("result = 'größe'", encoding="utf-8-sig")

    done = sealyard("run", str(file))

    assert (done.returncode, done.stdout) == (0, '"größe"\n')


def test_code_is_read_from_standard_input(sealyard: Command) -> None:
    """`-` stands for standard input."""
    done = sealyard("run", "-", stdin=b"print(6 * 7)")

    assert (done.returncode, done.stdout) == (0, "42\n")


def test_context_values_become_variables(sealyard: Command) -> None:
    """The keys of the object are names that the code can use."""
    done = sealyard("run", "-c", "[n + 1, name]", "--context", '{"n": 3, "name": "x"}', "--json")

    assert json.loads(done.stdout)["result"] == [4, "x"]


def test_failing_code_shows_its_error_and_exits_with_1(sealyard: Command) -> None:
    """The error has type, message, line and source line, none of our own frames; the output so far is kept."""
    done = sealyard("run", "-c", "print('before')\nvalue = 0\n1 / value")

    assert (done.returncode, done.stdout) == (1, "before\n")
    assert done.stderr.splitlines()[:2] == ["ZeroDivisionError: division by zero", "  line 3: 1 / value"]
    assert "sealyard" not in done.stderr


def test_syntax_error_is_refused_with_its_line(sealyard: Command) -> None:
    """Code that is not Python never starts."""
    done = sealyard("run", "-c", "x = 1\ny = (", "--json")

    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["status"], answer["failure"]["kind"], answer["failure"]["line"]) == ("failed", "syntax", 2)
    assert (answer["review"]["verdict"], answer["timing"]["run_seconds"]) == ("refuse", 0.0)


def test_refused_code_does_not_run(sealyard: Command) -> None:
    """A review that refuses ends the command before a sandbox is opened."""
    done = sealyard("run", "-c", "print('started')\nimport subprocess")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1] == "  line 2: import subprocess"
    assert done.stderr.splitlines()[-1] == "refused in 0.000 s (production level)"


def test_json_of_refused_code_names_the_refusal(sealyard: Command) -> None:
    """A program can tell code that was never started from code that failed."""
    done = sealyard("run", "-c", "eval('1')", "--level", "hardened", "--json")

    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["failure"]["kind"]) == (1, "failed", "refused")
    assert answer["review"]["findings"][0]["rule"] == "eval"


def test_packages_that_the_code_does_not_import_are_not_loaded(sealyard: Command) -> None:
    """A single run does not pay for a data package it has no use for, and finds one it names."""
    code = "import sys\nresult = 'numpy' in sys.modules"

    without, with_it = sealyard("run", "-c", code), sealyard("run", "-c", f"import numpy\n{code}")

    assert (without.stdout, with_it.stdout) == ("false\n", "true\n")


def test_json_is_one_object_with_everything(sealyard: Command) -> None:
    """`--json` holds the outcome, the review and the timing, and standard error stays empty."""
    done = sealyard("run", "-c", "print('hello')\n[1, 2]", "--level", "development", "--json")

    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (answer["status"], answer["result"], answer["output"]) == ("ok", [1, 2], "hello\n")
    assert (answer["level"], answer["failure"], answer["review"]["verdict"]) == ("development", None, "allow")
    assert set(answer["timing"]) == {"start_seconds", "run_seconds"}


def test_json_of_failing_code_exits_with_1(sealyard: Command) -> None:
    """A program sees the failure both in the object and in the exit code."""
    done = sealyard("run", "-c", "raise KeyError('missing')", "--json")

    failure = json.loads(done.stdout)["failure"]
    assert done.returncode == 1
    assert (failure["type"], failure["line"], failure["source_line"]) == ("KeyError", 1, "raise KeyError('missing')")


def test_timeout_ends_an_endless_loop(sealyard: Command) -> None:
    """The wall limit is the one that was asked for, and what was printed before it is shown."""
    done = sealyard("run", "-c", "print('started', flush=True)\nwhile True: pass", "--timeout", "1")

    assert (done.returncode, done.stdout) == (1, "started\n")
    assert done.stderr.splitlines()[-1].split()[0] == "timeout"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give the code in one way: a file, - for standard input, or -c CODE."),
        (["x.py", "-c", "1"], "Give the code in one way: a file, - for standard input, or -c CODE."),
        (["-c", " \n"], "The code is empty. Give at least one statement."),
        (
            ["no/such/file.py"],
            "'no/such/file.py' cannot be read: No such file or directory. Check the path, or give the code with -c.",
        ),
        (["/"], "'/' cannot be read: Is a directory. Check the path, or give the code with -c."),
        (["-"], "Standard input is not UTF-8 after byte 5. Save it as UTF-8 text."),
        (
            ["-c", "1", "--context", "[1]"],
            "--context is '[1]', not a JSON object. Give one such as '{\"n\": 3}'.",
        ),
        (["-c", "1", "--timeout", "0.5"], "--timeout is 0.5. Give a number of seconds from 1 to 120."),
        (["-c", "1", "--timeout", "121"], "--timeout is 121. Give a number of seconds from 1 to 120."),
        (["-c", "1", "--timeout", "nan"], "--timeout is nan. Give a number of seconds from 1 to 120."),
        (
            ["-c", "1", "--package", "no-such-package"],
            "No package 'no-such-package' is installed here. Install it beside sealyard, or leave it out.",
        ),
    ],
)
def test_mistake_in_the_request_is_one_sentence_and_exit_code_2(
    sealyard: Command, arguments: list[str], message: str
) -> None:
    """What is wrong and what to do instead, without a traceback."""
    done = sealyard("run", *arguments, stdin=b"x = '\xff'")

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


def test_context_that_is_not_json_is_a_mistake_in_the_request(sealyard: Command) -> None:
    """The parser's own words stand between ours."""
    done = sealyard("run", "-c", "1", "--context", "{n: 3}")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --context is not JSON: ")
    assert done.stderr.endswith(" Give an object such as '{\"n\": 3}'.\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_a_running_command_in_order(number: signal.Signals, code: int) -> None:
    """Output is streamed while the code runs; a signal closes the sandbox and sets the exit code, quietly."""
    endless = "print('running', flush=True)\nfor _ in iter(int, 1): pass"
    with subprocess.Popen(
        [sys.executable, "-m", "sealyard", "run", "-c", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        process.send_signal(number)
        rest, errors = process.communicate(timeout=60)

    assert (process.returncode, rest, errors.strip()) == (code, b"", b"")


def test_reader_that_goes_away_causes_no_traceback() -> None:
    """`sealyard run … | head -1` ends quietly."""
    endless = "print('running', flush=True)\nfor _ in iter(int, 1): print('x' * 1000)"
    with subprocess.Popen(
        [sys.executable, "-m", "sealyard", "run", "-c", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"running\n"
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(timeout=60)

    assert (process.returncode, errors) == (1, b"")


def test_terminal_is_not_commanded_by_agent_code(sealyard: Command) -> None:
    """Escape sequences are spelled out on a terminal and left alone in a pipe."""
    code = "print('\\x1b]0;title\\x07\\x9b2J')"
    primary, secondary = pty.openpty()
    with os.fdopen(primary, "rb") as reader:
        with subprocess.Popen([sys.executable, "-m", "sealyard", "run", "-c", code], stdout=secondary) as process:
            os.close(secondary)
            shown = reader.readline()
        assert process.returncode == 0

    assert shown == b"\\x1b]0;title\\x07\\x9b2J\r\n"
    assert sealyard("run", "-c", code).stdout == "\x1b]0;title\x07\x9b2J\n"


def test_the_configs_level_and_packages_hold_for_a_single_run(sealyard: Command, tmp_path: Path) -> None:
    """With its servers or without them; what is asked for on the command line goes before."""
    file = tmp_path / "sealyard.toml"
    store = f'[store]\npath = "{tmp_path}/sealyard.db"\n'
    file.write_text(f'{store}[sandbox]\nlevel = "hardened"\npackages = ["msgspec"]\n', encoding="utf-8")
    given = ("--config", str(file))

    refused = [sealyard("run", *given, *more, "-c", "import os") for more in ((), ("--no-tools",))]
    imported = [sealyard("run", *given, *more, "-c", "import msgspec\n1") for more in ((), ("--no-tools",))]
    asked = sealyard("run", *given, "--level", "production", "-c", "import os\n2")

    assert [
        (done.returncode, "'os' cannot be imported under policy 'hardened'" in done.stderr) for done in refused
    ] == [(1, True)] * 2
    assert [(done.returncode, done.stdout) for done in (*imported, asked)] == [(0, "1\n"), (0, "1\n"), (0, "2\n")]
