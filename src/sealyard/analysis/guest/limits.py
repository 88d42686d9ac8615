"""The bounds on a request and on the work it asks for, each with its reason.

A request that exceeds one is refused with a message; `docs/reference/analysis.md` lists them for its readers.
"""

# Of a request: what a model or a person writes fits many times over, and reading it takes no time.
MAX_ITEMS = 1_000
"""Fields, conditions, steps or keys in one list: the widest tables have a few hundred columns."""
MAX_CHARACTERS = 4_000
"""Characters of an expression: about a page. It bounds the parser before its depth and its parts can."""
MAX_NODES = 300
"""Parts of an expression: each is a pass over all rows."""
MAX_DEPTH = 50
"""Nesting of an expression or of conditions: far below the interpreter's limit on recursion."""
MAX_PATTERN = 1_000
"""Characters of a regular expression, which bound the time to compile it."""
MAX_OPTIONS = 100_000
"""Values after `in`: identifiers of another result, given in full; they become one set."""
MAX_ENUM = 10_000
"""Values of an `enum`: the codes of a large register, such as all airports."""
MAX_RULES = 200
"""Rules of a validation: each is a pass over all rows, and may add samples to the answer."""

# Of values that an analysis makes.
MAX_INTEGER = 2**127 - 1
"""Magnitude of a whole number: that of DuckDB's largest integers, so that both engines can hold a sum."""
MAX_TEXT = 1_000_000
"""Characters of a text that an expression makes: repeated doubling ends before it fills the memory."""

# Of rows: they have to fit into the memory of a sandbox, a few hundred bytes each.
MAX_BYTES = 128 * 1024 * 1024
"""Bytes of a file that is read as a whole: as objects of Python its rows take about ten times that."""
MAX_ROWS = 5_000_000
"""Rows that a join, an explode, an unpivot or one read of Parquet makes."""
MAX_COLUMNS = 1_000
"""Columns of a pivot: more are a mistake in the choice of the field, and each row would have them all."""
MAX_BUCKETS = 100_000
"""Rows of a series with its gaps filled, unless the input has more: a day of seconds."""
MAX_REDUCED = 20_000_000
"""Values in all windows of a function that reduces each window anew: a few seconds of work."""
MAX_CELLS = 100_000
"""Cells of a table of counts: SciPy holds several arrays of that size."""
MAX_PAIRS = 10_000
"""Pairs of values of two samples whose orders SciPy counts: its time, 0.1 seconds here, grows with their square."""

# Of an answer, so that it fits a model's context.
MAX_FIELDS = 50
"""Fields that one answer describes, each by a line of about ten figures."""
MAX_MATRIX = 25
"""Fields of a correlation or covariance matrix: 625 figures, and as many counts."""
