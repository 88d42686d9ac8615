"""Metrics by name, and facts and calls added up to their values."""

from sealyard.metrics.sums.names import METRICS
from sealyard.metrics.sums.sums import OUTCOMES_FAILED, OUTCOMES_OUTSIDE, CallRow, Key, Sum, Sums, outcome_of

__all__ = ("METRICS", "OUTCOMES_FAILED", "OUTCOMES_OUTSIDE", "CallRow", "Key", "Sum", "Sums", "outcome_of")
