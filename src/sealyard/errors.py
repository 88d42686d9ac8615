"""Every exception that sealyard raises on purpose.

SealyardError
├── InvalidRequest          the request is wrong: change it and try again
│   ├── UnknownSession      no workspace of that name: run with it first, or list the sessions
│   ├── UnknownTool         no tool of that name: search for one that exists
│   ├── UnknownExecution    no execution of that id: start one
│   ├── UnknownApproval     no pending approval has that id: list the pending ones
│   ├── UnknownSkill        no skill of that name or version: find one that exists
│   ├── InvalidSkill        a skill cannot be saved, read or imported: the message names the line
│   ├── InvalidArguments    a tool's arguments do not match its schema: change them as the message says
│   └── InvalidConfig       the configuration is wrong: the message names the file, the key and the fix
├── UpstreamError           a tool server failed
│   ├── UpstreamUnavailable it is not running and could not be started: read `sealyard tools --status`
│   ├── UpstreamTimeout     it did not respond in time; the call may have taken effect
│   └── ToolFailed          the tool reported an error; the message is the upstream's own
├── StoreError              the store cannot be read or written: the message names the file
├── LevelUnavailable        this machine does not support the isolation level: read `sealyard doctor`
├── SandboxUnavailable      no sandbox can be built on this machine: read `sealyard doctor`
├── SandboxBroken           the host side of the sandbox failed: report it; a new run may work
├── SandboxClosed           the sandbox was closed before or during the call
├── QueueFull               too many runs wait for a slot: try again after `retry_seconds`
│   └── OwnQueueFull        too many runs of this client wait: wait for some, or cancel some
├── HelperFailed            a helper process took too long or ended: send less, or simpler data
├── ModelError              a model gave no usable reply: try again, or use another one
│   ├── ModelRejected       the provider refuses the request: check the key, the model's name and its limits
│   └── ModelUnavailable    the provider is overloaded or cannot be reached: try again after `retry_seconds`
├── VaultError              the vault of private values cannot be opened: the message names the missing key
└── CallRefused             raised by an `on_call` callback; re-raised in the guest under its own name
    ├── UnknownToken        a token does not belong to this session: pass it exactly as it was received
    ├── SkillUnusable       a skill cannot be imported: another author's draft, quarantined, or its tools changed
    ├── NotRecorded         a replay made a call that its trace does not contain
    ├── LimitReached        the tool's limit of calls or time is used up, or its circuit breaker is open
    └── PolicyRefused       a rule denies the call: `sealyard policy explain` names it
        └── ApprovalRefused a person refused it, or nobody answered in time

A mistake of agent code is not an exception but a `Failure` in an `Outcome`.
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
    "ModelError",
    "ModelRejected",
    "ModelUnavailable",
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
    """The base class."""


class InvalidRequest(SealyardError, ValueError):
    """The request is wrong."""


class UnknownSession(InvalidRequest):
    """No session of this name has a workspace."""


class UnknownTool(InvalidRequest):
    """No tool of this name is in the catalog or in the grant."""


class UnknownExecution(InvalidRequest):
    """This client has no execution with this id."""


class UnknownApproval(InvalidRequest):
    """No pending approval has this id."""


class UnknownSkill(InvalidRequest):
    """This principal has no skill of this name, or not the requested version."""


class InvalidSkill(InvalidRequest):
    """A skill, or a folder or archive of skills, is not acceptable; nothing was stored."""


class InvalidArguments(InvalidRequest):
    """The arguments of a tool do not match its input schema."""


class InvalidConfig(InvalidRequest):
    """The configuration is wrong."""


class UpstreamError(SealyardError):
    """A tool server failed."""


class UpstreamUnavailable(UpstreamError):
    """The upstream is not running and could not be started."""


class UpstreamTimeout(UpstreamError):
    """The upstream did not respond in time; the call may have taken effect."""


class ToolFailed(UpstreamError):
    """The tool reported an error; the message is its own."""


class StoreError(SealyardError):
    """The store cannot be read or written."""


class LevelUnavailable(SealyardError):
    """The machine lacks a layer that the isolation level requires."""


class SandboxUnavailable(SealyardError):
    """No tier of isolation could be built and proven on this machine."""


class SandboxBroken(SealyardError):
    """The host side of the sandbox failed; the run did not happen or its end is unknown."""


class SandboxClosed(SealyardError):
    """The sandbox was closed."""


class QueueFull(SealyardError):
    """The run did not start, because the queue of the gateway is full."""

    def __init__(self, message: str, *, retry_seconds: float) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds
        """Seconds until a retry makes sense."""


class OwnQueueFull(QueueFull):
    """The run did not start, because the queue of its client is full."""


class HelperFailed(SealyardError):
    """A helper process took too long, ended or could not be started."""


class ModelError(SealyardError):
    """A model gave no usable reply."""


class ModelRejected(ModelError):
    """The provider refuses the request: another attempt cannot help."""


class ModelUnavailable(ModelError):
    """The provider is overloaded, limits the rate or cannot be reached."""

    def __init__(self, message: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds
        """The pause that the provider asks for, if it does."""


class VaultError(SealyardError):
    """The available keys cannot open the vault."""


class CallRefused(SealyardError):
    """A call from the guest is not allowed; its message is shown to the agent's code."""


class UnknownToken(CallRefused):
    """A token does not belong to this session: it is forged, foreign, truncated, expired or erased."""


class SkillUnusable(CallRefused):
    """A skill exists, but this run cannot import it."""


class NotRecorded(CallRefused):
    """A replay made a call that its trace does not contain."""


class LimitReached(CallRefused):
    """A limit of the tool is used up, or its circuit breaker is open."""


class PolicyRefused(CallRefused):
    """A rule of the policy denies the call."""


class ApprovalRefused(PolicyRefused):
    """A person refused the call, nobody answered in time, or nobody can be asked."""
