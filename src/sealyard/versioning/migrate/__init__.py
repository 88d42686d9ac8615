"""Code rewritten for a tool that changed. `migration` needs libcst, which takes 0.4 s to import; `beside` does not."""

__all__ = ()
