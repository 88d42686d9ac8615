"""The audit log of a store: writing, export and verification.

`Store` writes it. `open_log`, `verify_store` and `export_audit` open no store: they read the file.
"""

from sealyard.store.audit.log import AuditHead, AuditSegment, open_log
from sealyard.store.audit.verification import AuditVerification, export_audit, verify_file, verify_store

__all__ = (
    "AuditHead",
    "AuditSegment",
    "AuditVerification",
    "export_audit",
    "open_log",
    "verify_file",
    "verify_store",
)
