"""A principal's access: the tools it sees, the isolation its code gets, and the guards of its sessions."""

__all__ = ()
