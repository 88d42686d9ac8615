"""Detection of private values in any data or text: by their form, by their field and by what stands beside them.

A `Scanner` applies `ScanRules` to any value. `check_detection` shows that a configured scanner finds samples
of every type.
"""

from sealyard.privacy.detect.presidio import PresidioDetector
from sealyard.privacy.detect.scanner import Scanner, ScanRules
from sealyard.privacy.detect.selfcheck import check_detection

__all__ = ("PresidioDetector", "ScanRules", "Scanner", "check_detection")
