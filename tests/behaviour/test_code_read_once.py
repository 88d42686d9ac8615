"""Agent code through a whole gateway: each text is parsed once, however it ends and however often it runs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.code import source
from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
CALLS = "from servers.bank import pay\nresult = [pay(amount=n)['paid'] for n in range(3)]"
LONG = CALLS + "\n" + "\n".join(f"step_{number} = result[0] + {number}" for number in range(100))


def pay(amount: int) -> dict[str, Any]:
    """Pay a bill."""
    return {"paid": amount}


@pytest.mark.parametrize(
    ("code", "is_ok"),
    [
        ("1 + 1", True),
        (CALLS, True),
        (CALLS + "[0]['missing']", False),
        ("1 / 0", False),
        ("import subprocess", False),
        ("for x in", False),
        (LONG, True),
        (LONG + "\nmissing", False),
    ],
    ids=["trivial", "calls", "fails after calls", "fails", "refused", "no Python", "long", "long and fails"],
)
async def test_code_is_parsed_once_and_not_again_when_it_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, is_ok: bool
) -> None:
    """Review, guidance, hints and learning share one tree; long code is reviewed by a helper, which has its own."""
    parsed: list[str] = []

    def counting(text: Any, *args: Any, **kwargs: Any) -> Any:
        parsed.append(text)
        return compile(text, *args, **kwargs)

    monkeypatch.setattr(source, "_kept", type(source._kept)())
    monkeypatch.setattr(source, "_kept_characters", 0)
    monkeypatch.setattr(source, "compile", counting, raising=False)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    async with open_yard(config, policy=PLAIN, upstreams={"bank": FakeUpstream("bank", pay=pay)}) as yard:
        await (await yard.sandbox()).settle()
        parsed.clear()  # of what the sandbox ran to try its walls
        first = await yard.execute(ExecuteRequest(code=code))
        after_first = list(parsed)
        await yard.guidance.learner.once()
        again = await yard.execute(ExecuteRequest(code=code))
        await yard.guidance.learner.once()

    assert (first.outcome.ok, again.outcome.ok) == (is_ok, is_ok)
    assert after_first == [code]
    assert parsed == [code]
