"""The probe's findings as data: for `sealyard doctor`, and kept by every sandbox as the proof it passed."""

from typing import Literal

import msgspec

from sealyard.sandbox.policy import IsolationPolicy


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One wall: whether it is there, what it is for, and what to do if it is not."""

    name: str
    present: bool
    detail: str
    meaning: str
    remedy: str


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of the probe; `held` says that it ended as it must, for a control that it succeeded."""

    name: str
    held: bool
    detail: str


class LimitReport(msgspec.Struct, frozen=True, kw_only=True):
    """The mechanism behind one limit of a policy here, for the present user."""

    name: str
    """As the field of the policy is called."""
    held: Literal["kernel", "gateway", "watched", "no"]
    """`watched` is looked at ten times a second; with `no` the level is not honoured."""
    by: str


class TierReport(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about one tier on this machine."""

    name: str
    available: bool
    reason: str
    layers: tuple[Layer, ...] = ()
    attacks: tuple[Attack, ...] = ()
    limits: tuple[LimitReport, ...] = ()
    can_fork: bool = False
    """True if code may start processes where its policy allows it: only if all of them can be held together."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the layers that are not there."""
        return tuple(layer.name for layer in self.layers if not layer.present)


class LevelReport(msgspec.Struct, frozen=True, kw_only=True):
    """A level, and the tier that can honour it here, if any."""

    honoured: bool
    tier: str | None
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `sealyard doctor` knows."""

    machine: str
    kernel: str
    python: str
    user: str
    resource_control: str
    tiers: tuple[TierReport, ...]
    levels: dict[str, LevelReport]
    packages: dict[str, str]


def shortfall(policy: IsolationPolicy, report: TierReport) -> str | None:
    """The reason why `report`'s tier is less than the policy's level promises; None when it is not."""
    if report.name != "namespace":
        return f"only the {report.name!r} tier works, which has no namespaces."
    if policy.every_layer and report.missing:
        return f"it needs every layer, and these are missing: {', '.join(report.missing)}."
    loose = ("no", "watched") if policy.every_layer else ("no",)
    unheld = [limit.name for limit in report.limits if limit.held in loose]
    if unheld:
        return f"the kernel does not hold these limits for this user: {', '.join(unheld)}."
    return None
