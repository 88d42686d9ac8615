"""Counts of sealyard's own work: metrics, reports, tokens, traces, alert rules.

Nothing here knows about tools, runs or servers: it takes text and numbers. Modules are imported one by one, because
`otel` and `tokens` load libraries that most commands do not need.
"""

__all__ = ()
