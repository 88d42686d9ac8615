"""Reading: where values stand in data and text, what the names of fields mean, and what a single value looks like.

`text` takes any text apart, and `fields` makes a tree of any data, in which each value keeps its place.
"""

from sealyard.privacy.reading.lexicon import GIVEN_NAMES, read_name, split_name

__all__ = ("GIVEN_NAMES", "read_name", "split_name")
