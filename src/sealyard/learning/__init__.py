"""Learns from the journal: tools found and used, failures and their repairs, so that the next run is better.

Readers turn hostile code and answers into facts without values (`prints`, `causes`, `disclosure`). `part` is the
skeleton: a lesson in, evidence that fades, insights out. Seven parts build on it, one file each, two for failures
(`repairs`) and for risk (`precedents`). `learner` feeds them in the background; `guidance` queries them.

The request path has only lookups in memory. Agents see our own words, filled with checked names and numbers; never text
that a tool or an agent wrote.

Exported names are imported on first use: a command that shows the learned facts needs no sandbox.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.learning.guidance import Guidance, RunAdvice, SearchGuide
    from sealyard.learning.learner import Insights, Learner
    from sealyard.learning.part import Insight
    from sealyard.learning.risk import Assessment
    from sealyard.learning.skills import KnownSkills

__all__ = ("Assessment", "Guidance", "Insight", "Insights", "KnownSkills", "Learner", "RunAdvice", "SearchGuide")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        guidance="Guidance RunAdvice SearchGuide",
        learner="Insights Learner",
        part="Insight",
        risk="Assessment",
        skills="KnownSkills",
    )
