"""Calls of tools through the relay: each is an execution of its own, which goes through the broker.

A refusal becomes a result that the model can read; the upstream's own errors pass through unchanged.
"""

import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import methods as wire

from sealyard.broker import Attempts, OpenCall, Passage
from sealyard.errors import SealyardError, StoreError, ToolFailed, UpstreamError, UpstreamTimeout
from sealyard.serve.dialogue import Asking
from sealyard.serve.relay.border import Screen
from sealyard.serve.relay.bulk import Json, size_of
from sealyard.serve.relay.clients import Context, is_modern
from sealyard.values.access import Grant
from sealyard.values.tools import ToolSpec
from sealyard.yard import Border

_ROUNDS_KEPT = 1_000  # bounds the memory for clients that never come back

_Round = tuple[str, str, str, str | None]


class Calls:
    """Carries calls of tools out, as far as the policy goes, and records each as an execution of its own."""

    def __init__(self, border: Border) -> None:
        self._border = border
        self._broker = border.broker
        self._asking = Asking(border.approvals)
        self._rounds: OrderedDict[_Round, OpenCall] = OrderedDict()
        """Calls that wait for their client's next round. They are already allowed, with exactly these arguments."""

    @asynccontextmanager
    async def open(self, screen: Screen, params: Json) -> AsyncIterator["RelayedCall"]:
        """One call of a client, which is recorded, on disk, when this is left. The body sets its `result`.

        If the call is refused, the refusal is its result.

        Raises:
            MCPError: The upstream answered with an error, or the call could not be recorded.
        """
        grant = Grant(execution_id=secrets.token_hex(8), principal=screen.principal, session=screen.session, tools={})
        try:
            async with self._border.recorder.open(grant, screen.guard, form="proxy") as run:
                call = RelayedCall(screen, run.passage, await screen.leaving(params.get("arguments") or {}))
                try:
                    yield call
                    call.note_result()
                    run.finish("ok", "")
                except MCPError as error:
                    call.note_failure(f"MCPError: {error.message}")
                    if call.opened is None:
                        await self._broker.note_unknown(run.passage, str(params["name"]), error.message)
                    raise
                except SealyardError as error:
                    safe = await screen.error_of(error)
                    call.stop(f"{type(safe).__name__}: {safe}")
                    run.finish("failed", "")
                finally:
                    if call.opened is not None:
                        call.opened.finish()
        except StoreError as error:
            raise MCPError(types.INTERNAL_ERROR, f"{type(error).__name__}: {error}") from error

    def is_hidden(self, spec: ToolSpec, principal: str) -> bool:
        """True if the tool does not exist for the principal."""
        return self._border.policy.is_hidden(spec, principal)

    @asynccontextmanager
    async def admitted(self, ctx: Context, call: "RelayedCall", real: Json) -> AsyncIterator[Attempts]:
        """The attempts of a call, once it is allowed with the revealed arguments.

        Raises:
            PolicyRefused: A rule or a person said no; nothing was sent.
            LimitReached: The tool was called too often, or its server fails.
        """
        opened, session = call.get(), call.screen.session
        params = ctx.params or {}
        key = (session, opened.spec.full_name, self._broker.digest(opened.written, real))
        earlier = None
        if params.get("inputResponses") is not None:
            earlier = self._rounds.pop((*key, params.get("requestState")), None)
        if is_modern(ctx):  # a round that ends in our question would look like one that ends in the upstream's
            await self._broker.decide(opened, real, is_private=call.screen.is_private, earlier=earlier)
        else:
            async with self._asking.dialogue(ctx) as dialogue:
                with dialogue.channel(opened.grant.execution_id):
                    await self._broker.decide(opened, real, is_private=call.screen.is_private, earlier=earlier)
        try:
            async with self._broker.turn(opened) as attempts:
                yield attempts
        except _Answered as answered:
            raise answered.error from None
        if wire.is_input_required(call.result):
            self._rounds[(*key, call.result.get("requestState"))] = opened
            while len(self._rounds) > _ROUNDS_KEPT:
                self._rounds.popitem(last=False)


@contextmanager
def attempting(attempt: Attempts, spec: ToolSpec) -> Iterator[None]:
    """One attempt, in its time. An error in the upstream's answer shows that its server works."""
    with attempt:
        try:
            with anyio.fail_after(attempt.seconds):
                yield
        except TimeoutError:
            raise UpstreamTimeout(
                f"{spec.full_name!r} did not answer within {attempt.seconds:g} s; whether the call happened is unknown."
            ) from None
        except MCPError as error:
            if isinstance(error, UpstreamError):
                raise
            raise _Answered(error) from None


class _Answered(ToolFailed):
    """The upstream answered with an error of the protocol, so its server works."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(error.message)
        self.error = error


class RelayedCall:
    """One call of a client while it happens."""

    def __init__(self, screen: Screen, passage: Passage, arguments: Any) -> None:
        self.screen = screen
        self.opened: OpenCall | None = None
        """Set once its tool is known."""
        self.result: Json = {}
        """The client's result."""
        self._passage = passage
        self._arguments = arguments

    def name(self, spec: ToolSpec, given: Json) -> None:
        """Set the tool. `given` are the arguments as the client sent them."""
        self.opened = OpenCall(passage=self._passage, spec=spec, number=self._passage.number_next(), written=given)
        self.opened.arguments = self._arguments

    def get(self) -> OpenCall:
        """The call, once its tool is known."""
        assert self.opened is not None
        return self.opened

    def note_result(self) -> None:
        """Record the concealed result. Raises `UpstreamError` if it is not JSON."""
        opened, result = self.get(), self.result
        try:
            opened.answer_bytes = size_of(result)
        except (TypeError, ValueError, RecursionError) as error:
            raise UpstreamError(
                f"{opened.spec.full_name!r} answered with something that is not JSON: {error}."
            ) from error
        opened.failure = None
        if result.get("isError") is True:
            blocks = result.get("content")
            blocks = blocks if isinstance(blocks, list) else []  # not of one that was too large to be decoded
            texts = [block.get("text") for block in blocks if isinstance(block, dict)]
            opened.failure = f"ToolFailed: {next((text for text in texts if isinstance(text, str)), '')}"

    def note_failure(self, text: str) -> None:
        """Record the reason why there is no result."""
        if self.opened is not None:
            self.opened.failure = text

    def stop(self, text: str) -> None:
        """Make a refusal the result, so that the model can read it."""
        self.note_failure(text)
        self.result = {"content": [{"type": "text", "text": text}], "isError": True}
