"""What the code prints: order, streaming, odd bytes, and a failing observer."""

import asyncio
from typing import Any

import pytest

from sealyard.values.runs import Limits


def test_output_and_errors_come_in_the_order_they_were_written(driver: Any) -> None:
    """Standard output and standard error are one stream, whoever buffers."""
    outcome = driver.run(
        """
        import logging, os, sys
        print("a")
        print("b", file=sys.stderr)
        sys.stdout.write("c\\n")
        logging.warning("d")
        os.write(1, b"e\\n")
        os.write(2, b"f\\n")
        sys.stdout.buffer.write(b"g\\n")
        print("h", file=sys.__stdout__)
        print("i", file=sys.__stderr__)
        print("j", end="")
        """
    )

    assert (outcome.status, outcome.output) == ("ok", "a\nb\nc\nWARNING:root:d\ne\nf\ng\nh\ni\nj")


def test_output_is_seen_while_the_code_still_runs(driver: Any) -> None:
    """By the time a tool is called, what was printed before has reached the observer."""
    seen: list[str] = []
    at_call: list[str] = []
    more = asyncio.Event()

    def on_output(text: str) -> None:
        seen.append(text)
        more.set()

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        async with asyncio.timeout(60):
            while "".join(seen) != args["expected"]:
                more.clear()
                await more.wait()
        at_call.append("".join(seen))

    outcome = driver.run(
        """
        import sys
        print("first")
        call_tool("look", {"expected": "first\\n"})
        print("second", file=sys.stderr, end="")
        call_tool("look", {"expected": "first\\nsecond"})
        print(" third")
        """,
        on_call=on_call,
        on_output=on_output,
    )

    assert at_call == ["first\n", "first\nsecond"]
    assert "".join(seen) == outcome.output == "first\nsecond third\n"


def test_bytes_that_are_not_text_are_replaced(driver: Any) -> None:
    """Output is text: what is not UTF-8 becomes the replacement character, in the stream and in the end."""
    seen: list[str] = []

    outcome = driver.run(
        r"""
        import os
        os.write(1, b"a\xffb\xc3")
        os.write(1, b"\xa4c")
        os.write(1, b"\xe2\x82")
        """,
        on_output=seen.append,
    )

    assert outcome.output == "a\ufffdbäc\ufffd"
    assert "".join(seen) == "a\ufffdbäc"


def test_text_that_is_not_unicode_is_printed_with_escapes(driver: Any) -> None:
    """Printing half a surrogate pair neither fails nor breaks the stream."""
    assert driver.run(r"print('\ud800', 'größe')").output == "\\ud800 größe\n"


@pytest.mark.parametrize("end", ["sys.stdout.close()", "os.close(1)", "sys.stdout = None", "del sys.stdout"])
def test_closing_the_output_does_not_lose_the_result(driver: Any, end: str) -> None:
    """Code may close or remove its own output; what was printed before and the result still arrive."""
    outcome = driver.run(f"import os, sys\nprint('before')\n{end}\n5")

    assert (outcome.status, outcome.result, outcome.output) == ("ok", 5, "before\n")


def test_output_of_exactly_the_limit_is_kept(driver: Any) -> None:
    """The limit is what may be written, not what may not."""
    outcome = driver.run("import sys\nn = sys.stdout.write('x' * 1024)\nn", limits=Limits(output_bytes=1024))

    assert (outcome.status, outcome.result, outcome.output) == ("ok", 1024, "x" * 1024)


def test_output_past_the_limit_is_a_failure_even_at_the_very_end(driver: Any) -> None:
    """One byte too many fails the run whether or not the code was done when it was read."""
    outcomes = [
        driver.run("import sys\nsys.stdout.write('x' * 1025)\n1", limits=Limits(output_bytes=1024)) for _ in range(20)
    ]

    assert {outcome.status for outcome in outcomes} == {"limit"}
    assert {outcome.output for outcome in outcomes} == {"x" * 1024}


def test_reading_standard_input_finds_nothing(driver: Any) -> None:
    """There is nobody to ask."""
    outcome = driver.run("import sys\ntext = sys.stdin.read()\ninput()")

    assert (outcome.failure.type, outcome.failure.message) == ("EOFError", "EOF when reading a line")


def test_error_of_the_observer_is_raised_to_the_caller(driver: Any) -> None:
    """What the caller's own callback raises is not the code's failure."""

    def observe(text: str) -> None:
        raise LookupError(f"cannot show {text!r}")

    with pytest.raises(LookupError) as caught:
        driver.run("print('x', end='')", on_output=observe)

    assert str(caught.value) == "cannot show 'x'"
    assert driver.run("1").result == 1


def test_thread_that_prints_forever_after_the_end_does_not_hold_up_the_caller(driver: Any) -> None:
    """The output is taken up to its limit and no further, even if the worker forges its own end and goes on."""
    outcome = driver.run(
        """
        import os, struct, threading

        def flood():
            while True:
                os.write(1, b"x" * 65536)

        for _ in range(8):
            threading.Thread(target=flood).start()
        body = b'{"t":"done","ok":true,"cpu_seconds":0.0,"memory_peak_bytes":0}'
        os.write(3, struct.pack("<I", len(body)) + body)
        """,
        limits=Limits(output_bytes=16 << 20),
    )

    assert outcome.status in ("ok", "limit")
    assert len(outcome.output) <= 16 << 20
