"""The `proxy` mode: upstream servers passed through to clients as if the gateway were not there."""

__all__ = ()
