"""Every exception sealyard raises on purpose.

SealyardError
├── InvalidRequest          the request is wrong: change it and try again
│   ├── UnknownSession      no workspace of that name: run with it first, or list the sessions
│   ├── UnknownTool         no tool of that name: search for one that exists
│   ├── UnknownExecution    no execution of that id: start one
│   ├── UnknownApproval     no approval of that id waits: list those that do
│   ├── UnknownSkill        no skill of that name or version: find one that exists
│   ├── InvalidSkill        a skill cannot be saved, read or imported as it is: the message names the line
│   ├── InvalidArguments    a tool's arguments do not fit its schema: read the message and change them
│   └── InvalidConfig       the configuration is wrong: the message names the file, the key and what it should be
├── UpstreamError           a tool server failed
│   ├── UpstreamUnavailable it is not running and could not be started: read `sealyard tools --status`
│   ├── UpstreamTimeout     it did not answer in time; the call may have happened
│   └── ToolFailed          the tool itself answered with an error; the message is the upstream's own
├── StoreError              the store cannot be read or written: the message names the file
├── LevelUnavailable        this machine cannot honour the isolation level: read `sealyard doctor`
├── SandboxUnavailable      no sandbox could be built here at all: read `sealyard doctor`
├── SandboxBroken           a part of the sandbox failed on the host side: report it, a new run may work
├── SandboxClosed           the sandbox was closed before or during the call
├── QueueFull               too many runs wait for their turn: try again after `retry_seconds`
│   └── OwnQueueFull        too many of this client's own do: wait for some of them, or cancel some
├── HelperFailed            a helper process took too long over something or ended: send less, or simpler data
├── VaultError              the vault of private values cannot be opened: the message says which key is missing
└── CallRefused             raised by an `on_call` callback; re-raised in the guest under its own name
    ├── UnknownToken        a private value's token is not one of this session: use it as it was given
    ├── SkillUnusable       a skill cannot be imported: a draft of somebody else's, in quarantine, or its tools changed
    ├── NotRecorded         a replay was asked for a call that its trace does not hold
    ├── LimitReached        the tool's limit of calls or time is used up, or its circuit breaker is open
    └── PolicyRefused       a rule denies the call: `sealyard policy explain` says which
        └── ApprovalRefused a person refused it, or nobody answered in time

What agent code does wrong is never an exception here: it is a `Failure` in an `Outcome`.
"""

__all__ = (
    "ApprovalRefused",
    "CallRefused",
    "HelperFailed",
    "InvalidArguments",
    "InvalidConfig",
    "InvalidRequest",
    "InvalidSkill",
    "LevelUnavailable",
    "LimitReached",
    "NotRecorded",
    "OwnQueueFull",
    "PolicyRefused",
    "QueueFull",
    "SandboxBroken",
    "SandboxClosed",
    "SandboxUnavailable",
    "SealyardError",
    "SkillUnusable",
    "StoreError",
    "ToolFailed",
    "UnknownApproval",
    "UnknownExecution",
    "UnknownSession",
    "UnknownSkill",
    "UnknownToken",
    "UnknownTool",
    "UpstreamError",
    "UpstreamTimeout",
    "UpstreamUnavailable",
    "VaultError",
)


class SealyardError(Exception):
    """Base of all of them."""


class InvalidRequest(SealyardError, ValueError):
    """The request cannot be carried out as it is written."""


class UnknownSession(InvalidRequest):
    """No session of this name has a workspace."""


class UnknownTool(InvalidRequest):
    """No tool of this name is in the catalog or in the grant."""


class UnknownExecution(InvalidRequest):
    """No execution of this id is known to this client."""


class UnknownApproval(InvalidRequest):
    """No approval of this id waits for an answer."""


class UnknownSkill(InvalidRequest):
    """No skill of this name, or no version of it that was asked for, is on the shelf for this principal."""


class InvalidSkill(InvalidRequest):
    """A skill, or a folder or archive of skills, cannot be taken as it is; nothing of it was kept."""


class InvalidArguments(InvalidRequest):
    """The arguments of a tool do not fit its input schema."""


class InvalidConfig(InvalidRequest):
    """The configuration cannot be used as it is written."""


class UpstreamError(SealyardError):
    """A tool server failed."""


class UpstreamUnavailable(UpstreamError):
    """The upstream is not running and could not be started."""


class UpstreamTimeout(UpstreamError):
    """The upstream did not answer in time; whether the call happened is unknown."""


class ToolFailed(UpstreamError):
    """The tool answered with an error; the message is its own."""


class StoreError(SealyardError):
    """The store cannot be read or written."""


class LevelUnavailable(SealyardError):
    """The machine lacks a layer that the isolation level demands."""


class SandboxUnavailable(SealyardError):
    """No tier of isolation could be built and proven on this machine."""


class SandboxBroken(SealyardError):
    """The host side of the sandbox failed; the run did not happen or its end is unknown."""


class SandboxClosed(SealyardError):
    """The sandbox was closed."""


class QueueFull(SealyardError):
    """The run was not begun: more wait for their turn than the gateway keeps waiting."""

    def __init__(self, message: str, *, retry_seconds: float) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds
        """When it is worth trying again."""


class OwnQueueFull(QueueFull):
    """The run was not begun: more of the same client's wait for their turn than it may have."""


class HelperFailed(SealyardError):
    """A helper process took too long, ended or could not be started."""


class VaultError(SealyardError):
    """The vault cannot be opened with the keys that are there."""


class CallRefused(SealyardError):
    """A call from the guest is not allowed; its message is shown to the agent's code."""


class UnknownToken(CallRefused):
    """A token of a private value that this session does not have: forged, foreign, cut, expired or erased."""


class SkillUnusable(CallRefused):
    """A skill that exists cannot be imported by this run."""


class NotRecorded(CallRefused):
    """A replay was asked for a call that its trace does not hold."""


class LimitReached(CallRefused):
    """A limit of the tool is used up, or its circuit breaker is open."""


class PolicyRefused(CallRefused):
    """A rule of the policy denies the call."""


class ApprovalRefused(PolicyRefused):
    """A person refused the call, nobody answered in time, or nobody can be asked."""
