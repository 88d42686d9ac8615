"""The audit log of a store: written, exported, and proved to be as it was written.

`Store` writes it. Whoever proves it opens no store: `verify_store` and `verify_file` read what is on disk.
"""

from sealyard.store.audit.chain import AuditVerification
from sealyard.store.audit.log import AUDIT_KINDS, AuditHead, AuditRow
from sealyard.store.audit.verification import AuditWatch, export_audit, verify_file, verify_store

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
