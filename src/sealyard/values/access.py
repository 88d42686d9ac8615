"""Rights of principals and executions, approvals with their words for people, alerts, entries of the audit log."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.values.tools import ToolSpec, glob

OPERATOR = "operator"
"""The principal that holds the key which `sealyard serve --http` prints at start. No client has it."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one execution. A tool outside the grant does not exist for it."""

    execution_id: str
    principal: str
    """The name of an authenticated client, or `local`."""
    session: str
    tools: Mapping[str, ToolSpec]
    """By full name. Shared with the catalog's snapshot, so a grant costs the same for any number of tools."""


class PrincipalScope(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one client, in addition to the policy."""

    name: str
    upstreams: tuple[str, ...] | None = None
    """Patterns over upstream names. `None`: all."""
    level: str | None = None
    """A stricter isolation level than the gateway's."""
    mode: str | None = None
    """The surface mode of its connections."""
    profiles: tuple[str, ...] | None = None
    """The profiles that it may use, and nothing else. `None`: all, and everything else."""
    reveal: bool = False
    """It may turn tokens into values over HTTP."""
    approve: bool = False
    """It may answer approvals over HTTP. Never give this to an agent's client."""
    observe: bool = False
    """It may see the activity of all principals: their runs, metrics, alerts and the audit log."""
    domain: str | None = None
    """The field it works in, such as `data` or `code`."""
    weight: float = 1.0
    """Its share of run slots relative to others."""

    def has(self, upstream: str) -> bool:
        """True if it may use the upstream."""
        return _fits(self.upstreams, upstream)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a gateway under a URL of its own. It narrows what a principal may do there, and never widens it."""

    name: str
    upstreams: tuple[str, ...] | None = None
    """Patterns over upstream names. `None`: all."""
    mode: str | None = None
    """The surface mode of its connections."""
    level: str | None = None
    """The weakest isolation level."""
    direct: tuple[str, ...] | None = None
    """The tools that mode `hybrid` passes through. `None`: those of the whole gateway."""

    @property
    def place(self) -> str:
        """Begins the names of its sessions. A client's own begin with a letter or digit, so none is another's."""
        return f":{self.name}:"

    def has(self, upstream: str) -> bool:
        """True if it lets calls of the upstream through."""
        return _fits(self.upstreams, upstream)


def _fits(patterns: tuple[str, ...] | None, upstream: str) -> bool:
    return patterns is None or any(glob(each)(upstream) for each in patterns)


ApprovalDecision = Literal["once", "run", "session", "always", "refuse"]
"""`run` and `session` cover further calls of the same tool. `always` covers these arguments in any session."""


ApprovalChannel = Literal["client", "operator"]
"""`client`: the person at the MCP client. `operator`: with `sealyard approvals`, over HTTP or on the dashboard."""


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[approval]`: the people who may answer, and what they are shown."""

    channels: tuple[ApprovalChannel, ...] = ("client", "operator")
    """Who may answer. The first answer holds."""
    reveal_to: tuple[str, ...] = ()
    """Principals whose client's form shows private values. The client may show its form to its model."""


RUN_ASK = "execute_code"
"""Replaces the tool in an ask about the code of a run. No full name of a tool equals it."""

_OPTIONS = {
    "once": "Allow this call once",
    "run": "Allow this tool until this run is over",
    "session": "Allow this tool for the rest of this session",
    "always": "Always allow this tool with exactly these arguments",
    "refuse": "Refuse this call",
}
_RUN_OPTIONS = {"once": "Run this code once", "refuse": "Do not run this code"}

# Sized for a client's dialogue: longer text is cut, with its true size and the command that shows all of it.
_ARGUMENTS = 20  # of a call: a dialogue with more could not be read at a glance
_LINE_CHARACTERS = 300  # of an argument's value: three or four lines of a dialogue
_NAME_CHARACTERS = 200  # of a name: above the 128 of a tool's, so an ordinary one is never cut
_REASON_CHARACTERS = 500  # of a reason: two or three sentences
_IN_ALL = " characters in all)"
_NOTHING: Mapping[str, object] = {}
_SUMMARY_CHARACTERS = 60  # of an argument in the call's own line: two or three fit the width of a terminal


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for approval. Everything in it may be hostile, so its texts for people escape and cut it."""

    id: str
    execution_id: str
    number: int
    principal: str
    session: str
    tool: str
    arguments: Any
    """Concealed. Long ones are truncated in lists; `Approvals.get` returns them whole."""
    cut: dict[str, int] = {}
    """The JSON length of each truncated argument. `…` counts the arguments left out."""
    arguments_sha256: str
    """Keyed digest of the tool's real arguments. It identifies them for `always` without revealing them."""
    rule: str
    """The rule that asks, as `policy explain` names it."""
    reason: str
    """The reason given by the rule."""
    asked_at: float
    expires_at: float
    """Seconds since the epoch."""
    channels: tuple[ApprovalChannel, ...] = ("client", "operator")
    """Who may answer it."""

    @property
    def is_about_run(self) -> bool:
        """True if it is about running the code, before the code makes any call."""
        return self.tool == RUN_ASK

    @property
    def options(self) -> dict[str, str]:
        """The meaning of each answer. Code can only be allowed once: each run is another question.

        The first allows the least: a form that chooses the first by itself, beside a button "Accept", allows one call.
        """
        return _RUN_OPTIONS if self.is_about_run else _OPTIONS

    def check(self, approval: "Approval") -> None:
        """Raise `InvalidRequest` for an answer of somebody who may not give it, or one that is not offered."""
        if approval.channel in _ANSWERERS and not self.takes(approval):
            raise InvalidRequest(
                f"Only the person at the client of {self.principal!r} may answer {self.id!r}: approval.channels, or the"
                ' rule that asks, does not name "operator". Answer in that client.'
            )
        if approval.channel == "http" and approval.by == self.principal != OPERATOR:
            raise InvalidRequest(
                f"{self.id!r} is about a call of {self.principal!r} itself, whose token an agent may have. Answer as"
                " another principal that has `approve = true`, on the page of the printed key, or with `sealyard"
                " approvals`."
            )
        if approval.decision not in self.options:
            raise InvalidRequest(f"{self.id!r} is about code, which is allowed once. Answer once or refuse.")

    def takes(self, approval: "Approval") -> bool:
        """True if the person who gave the approval, perhaps to another ask, may answer this one."""
        return _ANSWERERS.get(approval.channel) in self.channels

    @property
    def subject(self) -> str:
        """The subject of a refusal."""
        return "Running this code was" if self.is_about_run else self.tool

    def summary(self, values: Mapping[str, object] = _NOTHING) -> str:
        """The call on one line, for a client that shows no more than the beginning. Takes `values` as `lines` does."""
        shown = list(self._arguments().items())[:_ARGUMENTS]
        texts = [
            f"{name if name.isidentifier() else _encoded(name)}="
            f"{_encoded(values.get(value, value) if isinstance(value, str) else value)}"
            for name, value in shown
        ]
        inside = ", ".join(_shown(text, _SUMMARY_CHARACTERS, "…") for text in texts)
        return _shown(f"{self.tool}({inside})", _REASON_CHARACTERS, "…")

    def lines(self, values: Mapping[str, object] = _NOTHING) -> list[str]:
        """The facts a person needs to answer, one bounded line each: no text in it can look like another line.

        `values` are those of tokens in the arguments. Each has a line of its own: what stands beside a token in an
        argument was written by code, and must not be taken for a part of the value.
        """
        if self.is_about_run:
            lines, place = ["code that has not begun to run"], "before"
        else:
            server = self.tool.removeprefix("mcp__").partition("__")[0]
            lines = [f"tool: {_shown(self.tool, _NAME_CHARACTERS)}", f"server: {_shown(server, _NAME_CHARACTERS)}"]
            place = f"call {self.number} of"
        arguments = self._arguments()
        shown = list(arguments.items())[:_ARGUMENTS]
        texts = [_value(value, self.cut.get(name)) for name, value in shown]
        lines += [
            f"argument {_shown(str(name), _NAME_CHARACTERS)} = {text}"
            for (name, _), text in zip(shown, texts, strict=True)
        ]
        lines += [f"{token} is {_value(value, None)}" for token, value in values.items()]
        left_out = len(arguments) - len(shown) + self.cut.get("…", 0)
        if left_out:
            lines.append(f"and {left_out:,} arguments more")
        if left_out or any(text.endswith(_IN_ALL) for text in texts):
            lines.append(f"Read all of it before you answer: sealyard approvals show {self.id}")
        if not arguments:
            lines.append("without arguments")
        lines.append(f"asked because of {_shown(self.rule, _NAME_CHARACTERS)}")
        if self.reason:
            lines.append(f"reason: {_shown(self.reason, _REASON_CHARACTERS)}")
        who, session = _shown(self.principal, _NAME_CHARACTERS), _shown(self.session, _NAME_CHARACTERS)
        lines.append(f"asked by {who} in session {session}, {place} run {self.execution_id}")
        return lines

    def whole_lines(self, values: Mapping[str, object] = _NOTHING) -> list[str]:
        """Every argument of an ask that is not cut: a line with its name and size, and its JSON after it.

        Then the `values` of tokens in them, as in `lines`.
        Everything that cannot be seen is escaped, so that each argument is one line however long it is.
        """
        lines = []
        for name, value in self._arguments().items():
            text = msgspec.json.encode(value).decode()
            lines += [f"argument {_visible(str(name))}, {len(text):,} characters:", _visible(text)]
        return lines + [f"{token} is {_visible(_encoded(value))}" for token, value in values.items()]

    def refusal(self, approval: "Approval") -> str:
        """The message for the code that made the call."""
        reason = _shown(approval.reason, _REASON_CHARACTERS)
        if approval.by == "nobody":
            return f"{self.subject} refused: {reason}."
        who = f"{_shown(approval.by, _NAME_CHARACTERS)} ({approval.channel})"
        return f"{self.subject} refused by {who}" + (f": {reason}" if reason else ".")

    def _arguments(self) -> dict[str, Any]:
        return self.arguments if isinstance(self.arguments, dict) else {"(all)": self.arguments}


def _value(value: object, characters: int | None) -> str:
    """The beginning of an argument's JSON; `characters` is its true length if the value is cut already."""
    text = _encoded(value)
    if characters is None and len(text) <= _LINE_CHARACTERS:
        return _visible(text)
    return f"{_visible(text[:_LINE_CHARACTERS])}… ({characters or len(text):,}{_IN_ALL}"


def _encoded(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError):
        return "… (nested too deeply to be shown)"


def _shown(text: str, characters: int, end: str = "") -> str:
    """The text on one line, cut with `end` or its true length."""
    cut = _visible(text[:characters])
    return cut if len(text) <= characters else f"{cut}{end or f'… ({len(text):,}{_IN_ALL}'}"


def _visible(text: str) -> str:
    """The text with invisible and reordering characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an ask."""

    decision: ApprovalDecision
    by: str
    """The person's name as the channel knows it; `nobody` if it expired or nobody could be asked."""
    channel: str
    """`elicitation`, `chat`, `cli`, `http`, `remembered`, `expired`, `withdrawn`, `fallback` or `unattended`."""
    reason: str = ""
    answered_at: float


_ANSWERERS: dict[str, ApprovalChannel] = {
    "elicitation": "client",
    "chat": "client",
    "cli": "operator",
    "http": "operator",
}
"""The people behind the channels of approvals."""


class Unattended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a form in which no person had a part. It counts for nothing, whatever it says."""

    action: str
    """The answer of the client; `error` if it answered with an error, `gone` if it went away without an answer."""
    seconds: float

    @property
    def reason(self) -> str:
        """The end of the form, and the remedy if nobody else may answer."""
        ends = {"error": "the client answered its form with an error", "gone": "the client left without an answer"}
        quick = f"the client answered within {1_000 * self.seconds:.0f} ms, faster than a person reads"
        return (
            f"{ends.get(self.action, quick)}, and nobody else may answer. Use the client where it shows forms to a"
            ' person, or put "operator" into approval.channels and answer with `sealyard approvals`'
        )


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is always approved: its ask and its approval."""

    ask: ApprovalRequest
    approval: Approval

    @property
    def counts(self) -> bool:
        """False if it came through a channel that its own ask did not name; the call is asked for again."""
        return self.ask.takes(self.approval)


AlertState = Literal["pending", "firing", "resolved"]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a rule and a subject. Its fields are the columns of the table."""

    rule: str
    subject: str = ""
    state: AlertState
    value: float | None = None
    threshold: float | None = None
    message: str
    since: float
    """The first time it was seen."""
    changed_at: float
    """The last change of `state`."""
    delivered: bool = True
    """False from a change to `firing` or `resolved` until the webhook has accepted it."""


AUDIT_KINDS = {
    "gateway.start": "A gateway began to use the store.",
    "gateway.stop": "It ended normally.",
    "execution.start": "Code was accepted; `code_sha256` names its text.",
    "execution.end": "The execution ended.",
    "call": "A tool was called.",
    "decision": "The policy decided about a call.",
    "approval.ask": "A person was asked about a call.",
    "approval.answer": "The answer to that ask.",
    "approval.unattended": "A client answered an ask without a person; its answer was dropped.",
    "approval.forget": "An approval given forever was withdrawn.",
    "privacy.reveal": "An operator was shown a private value.",
    "privacy.forget": "Private values were erased.",
    "privacy.rotate": "The vault's key was changed.",
    "skill.save": "A skill, or a new version of one, was saved.",
    "skill.status": "A version of a skill was approved or deleted.",
    "skill.export": "Skills were written to a folder or an archive.",
    "skill.import": "Skills came from a folder or an archive.",
    "policy.change": "The policy changed.",
    "store.backup": "The store was written to a backup.",
    "store.restore": "The store was restored from a backup; entries made since that backup are not in this log.",
    "alert.firing": "A rule of the alerts began to fire.",
    "alert.resolved": "Its fault is gone.",
    "learning.forget": "Learned facts about a tool, a principal or everything were forgotten.",
    "audit.prune": "Entries of a closed segment were removed from the store.",
    "audit.rekey": "A new key signs the log from here on.",
}
"""Every kind of entry, and its meaning."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event for the audit log. Everything in it is already concealed."""

    kind: str
    """One of `AUDIT_KINDS`."""
    principal: str
    session: str = ""
    execution_id: str = ""
    body: dict[str, Any] = {}
    """JSON data; a value that is too long is stored as its digest and size."""

    @classmethod
    def of(cls, source: Grant | ApprovalRequest, kind: str, body: dict[str, Any]) -> Self:
        """An entry about an execution."""
        return cls(
            kind=kind,
            principal=source.principal,
            session=source.session,
            execution_id=source.execution_id,
            body=body,
        )


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the audit log, as it was written."""

    number: int
    """1 for the first; there are no gaps."""
    segment: int
    """The numbered part of the log that it is in."""
    at: float
    """The time of recording, in seconds since the epoch; it is written later."""
    kind: str
    principal: str
    session: str
    execution_id: str
    body: dict[str, Any]
    hash: str
