"""Code rewritten for a tool that changed.

`abstract` has the things an expression may stand for, `facts` what is known of them, `interpreter` and `effects` follow
the code, `rewriter` decides what is written anew, and `splices` writes it.
"""

from sealyard.versioning.migrate.migration import Migration, Refusal, diff, migrate, rewrite_beside

__all__ = ("Migration", "Refusal", "diff", "migrate", "rewrite_beside")
