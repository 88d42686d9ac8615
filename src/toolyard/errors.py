"""Every exception toolyard raises on purpose.

ToolyardError
├── InvalidRequest          the request is wrong: change it and try again
│   └── UnknownSession      no workspace of that name: run with it first, or list the sessions
├── LevelUnavailable        this machine cannot honour the isolation level: read `toolyard doctor`
├── SandboxUnavailable      no sandbox could be built here at all: read `toolyard doctor`
├── SandboxBroken           a part of the sandbox failed on the host side: report it, a new run may work
├── SandboxClosed           the sandbox was closed before or during the call
└── CallRefused             raised by an `on_call` callback; re-raised in the guest under its own name

What agent code does wrong is never an exception here: it is a `Failure` in an `Outcome`.
"""

__all__ = (
    "CallRefused",
    "InvalidRequest",
    "LevelUnavailable",
    "SandboxBroken",
    "SandboxClosed",
    "SandboxUnavailable",
    "ToolyardError",
    "UnknownSession",
)


class ToolyardError(Exception):
    """Base of all of them."""


class InvalidRequest(ToolyardError, ValueError):
    """The request cannot be carried out as it is written."""


class UnknownSession(InvalidRequest):
    """No session of this name has a workspace."""


class LevelUnavailable(ToolyardError):
    """The machine lacks a layer that the isolation level demands."""


class SandboxUnavailable(ToolyardError):
    """No tier of isolation could be built and proven on this machine."""


class SandboxBroken(ToolyardError):
    """The host side of the sandbox failed; the run did not happen or its end is unknown."""


class SandboxClosed(ToolyardError):
    """The sandbox was closed."""


class CallRefused(ToolyardError):
    """A call from the guest is not allowed; its message is shown to the agent's code."""
