"""What the change of a tool means for code that calls it. Pure: it keeps nothing.

`compare/` says how two definitions differ, `plan` how to get from one to the other, and `migrate/` rewrites code.
"""

from sealyard.versioning.plan import adapt_answer, make_plan, translate_answer, translate_arguments
from sealyard.versioning.steps import Difficulty, Plan, Untranslatable

__all__ = (
    "Difficulty",
    "Plan",
    "Untranslatable",
    "adapt_answer",
    "make_plan",
    "translate_answer",
    "translate_arguments",
)
