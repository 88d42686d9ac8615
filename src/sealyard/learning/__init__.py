"""Learns from the journal: tools found and used, failures and their repairs, so that the next run is better.

Readers turn hostile code and answers into facts without values (`code`, `causes`, `answers`, `flows`, `disclosure`).
`part` is the skeleton: a lesson in, evidence that fades, insights out. Eight parts stand on it, one file each, two for
failures (`repairs`) and for risk (`precedents`). `learner` feeds them in the background; `guidance` asks them.

Nothing here is on the request path but lookups in memory. Agents are shown our own words, filled with names and numbers
that were checked; never text that a tool or an agent wrote.
"""

__all__ = ()
