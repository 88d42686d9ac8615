"""The page about clients says what the tests have found."""

import pytest
from tests.clients.programs import PROGRAMS
from tests.clients.table import ROWS, Table, read_section, write_section


def test_the_page_says_what_was_found(request: pytest.FixtureRequest, table: Table) -> None:
    """All of it after a whole run of these tests; after a part of it, the cells that it found."""
    found = table.cells()
    whole = len(found) == len(ROWS) * len(PROGRAMS)
    if request.config.getoption("--write-table"):
        assert whole, "Only a whole run can write the table."
        write_section(table.section())
    if whole:
        assert read_section() == table.section()
