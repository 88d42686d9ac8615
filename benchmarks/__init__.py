"""Figures for the promises of SPECIFICATION.md, each taken beside its yardstick in one run.

Run one as `.venv/bin/python -m benchmarks NAME`. This package is not in the wheel, and the product imports none of it.
"""

__all__ = ()
