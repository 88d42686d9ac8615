"""The audit log of a store: writing, export and verification.

`Store` writes it. `verify_store` and `verify_file` open no store: they read the file.
"""

from sealyard.store.audit.log import AUDIT_KINDS, AuditHead, AuditRow
from sealyard.store.audit.verification import AuditVerification, AuditWatch, export_audit, verify_file, verify_store

__all__ = (
    "AUDIT_KINDS",
    "AuditHead",
    "AuditRow",
    "AuditVerification",
    "AuditWatch",
    "export_audit",
    "verify_file",
    "verify_store",
)
