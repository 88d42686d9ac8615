"""Backups of a store: one file that holds all of it, checked as a whole before it replaces anything."""

from sealyard.store.backup.copies import Backup, Restored, check_backup, restore_backup, write_backup

__all__ = ("Backup", "Restored", "check_backup", "restore_backup", "write_backup")
