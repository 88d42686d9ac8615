"""What sealyard counts about itself. Nothing here knows about tools, runs or servers: it is given text and numbers."""

__all__ = ()
