"""Detection of private values in any data or text: by their form, by their field and by what stands beside them.

A `Scanner` applies `ScanRules` to any value.
"""

from sealyard.privacy.detect.presidio import PresidioDetector
from sealyard.privacy.detect.scanner import Scanner, ScanRules

__all__ = ("PresidioDetector", "ScanRules", "Scanner")
