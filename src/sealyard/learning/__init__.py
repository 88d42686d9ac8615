"""Learns from the journal: tools found and used, failures and their repairs, so that the next run is better.

Nothing here is on the request path but lookups in memory. What is told is made of our own words, filled with names and
numbers that were checked; never of text that a tool or an agent wrote.
"""

__all__ = ()
