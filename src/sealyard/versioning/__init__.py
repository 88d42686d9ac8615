"""What the change of a tool means for code that calls it. Pure: it keeps nothing.

`compare/` says how two definitions differ, `plan` how to get from one to the other, and `migrate/` rewrites code.
"""

from sealyard.versioning.plan import (
    Difficulty,
    Plan,
    Untranslatable,
    adapt_answer,
    make_plan,
    translate_answer,
    translate_arguments,
)

__all__ = (
    "Difficulty",
    "Plan",
    "Untranslatable",
    "adapt_answer",
    "make_plan",
    "translate_answer",
    "translate_arguments",
)
