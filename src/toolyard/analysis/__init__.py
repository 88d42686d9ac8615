"""Analysis without code: filter, aggregate, transform, validate and statistics over rows, carried out in the sandbox.

`guest` is shipped into the sandbox, where it is called `toolyard_analysis`.
"""

__all__ = ()
