"""The page about clients says what the tests have found: each test compares its cells, and a whole run the page."""

import pytest
from tests.clients.programs import PROGRAMS
from tests.clients.table import ROWS, Table, read_cells, read_section, write_section


def test_the_page_has_a_cell_for_every_row_and_client() -> None:
    """No test compares one that is left over."""
    assert list(read_cells()) == [(row, client) for row in ROWS for client in PROGRAMS]


def test_the_page_is_what_a_whole_run_found(request: pytest.FixtureRequest, table: Table) -> None:
    """Selected by `--table` alone, which says that the run is whole: every cell of the page was found."""
    assert table.cells().keys() == {(row, client) for row in ROWS for client in PROGRAMS}
    if request.config.getoption("--table") == "write":
        write_section(table.section())
    assert read_section() == table.section()
