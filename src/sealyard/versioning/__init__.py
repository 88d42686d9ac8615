"""The effect of a changed tool on code that calls it. Pure: nothing is stored.

`compare/` finds the differences of two definitions, `plan` the steps between them, and `migrate/` rewrites code.
"""

from sealyard.versioning.plan import (
    Plan,
    Untranslatable,
    adapt_answer,
    make_plan,
    translate_answer,
    translate_arguments,
)

__all__ = (
    "Plan",
    "Untranslatable",
    "adapt_answer",
    "make_plan",
    "translate_answer",
    "translate_arguments",
)
