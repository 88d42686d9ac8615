"""Learns from the journal: what was found, used, failed and repaired, so that the next run is better than the last.

Nothing here is on the request path but lookups in memory. What is told is made of our own words, filled with names and
numbers that were checked; never of text that a tool or an agent wrote.
"""

__all__ = ()
