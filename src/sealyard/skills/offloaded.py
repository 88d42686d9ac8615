"""The reading of a skill in a helper process."""

from typing import Any

import msgspec

from sealyard.code import ToolRef
from sealyard.offload.child import Query
from sealyard.skills.reading import read_skill
from sealyard.values.tools import ToolSpec


def read(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """Run `read_skill`, and ask the gateway for the tool that a name means."""

    def find(ref: ToolRef) -> ToolSpec | None:
        found: ToolSpec | None = msgspec.convert(ask(msgspec.to_builtins(ref)), ToolSpec | None)
        return found

    found = read_skill(params["name"], body.decode(), inputs=params["inputs"], output=params["output"], find=find)
    return msgspec.to_builtins(found), b""
