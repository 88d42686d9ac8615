"""Code rewritten for a tool that changed.

`migration` needs libcst, which takes 0.4 s to import. So `rewrite_beside` imports it when it is called.
"""

from sealyard.versioning.migrate.beside import rewrite_beside

__all__ = ("rewrite_beside",)
