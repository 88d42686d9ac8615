"""Code rewritten for a tool that changed.

`values` are the things an expression may stand for, `state` what is known of them, `interpreter` and `calls` follow the
code, `renames` and `arguments` decide what is written anew, and `text` writes it.
"""

from sealyard.versioning.migrate.migration import Migration, Refusal, diff, migrate, rewrite_beside

__all__ = ("Migration", "Refusal", "diff", "migrate", "rewrite_beside")
