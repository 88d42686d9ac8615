"""The conversations of the clients that are tested, and the table of what was found."""

import signal
from collections.abc import Iterator

import pytest
from tests.clients.conversations import TRANSPORTS, Conversations, Cut, Talk
from tests.clients.programs import PROGRAMS
from tests.clients.table import Table

WHOLE = "test_the_page_is_what_a_whole_run_found"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option of a whole run."""
    words = "compare docs/howto/clients.md with what a whole run found, or write it"
    parser.addoption("--table", choices=("compare", "write"), help=words)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the test of a whole run if this is none."""
    if config.getoption("--table") is None:
        partial = [item for item in items if item.name == WHOLE]
        config.hook.pytest_deselected(items=partial)
        items[:] = [item for item in items if item not in partial]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of a client is one for each of them, and over each transport where it takes one."""
    for name, values in (("client", PROGRAMS), ("transport", TRANSPORTS)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list(values), scope="session")


@pytest.fixture(scope="session")
def conversations(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """The conversations of the clients whose tests are selected."""
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    clients, transports = ({each[name] for each in chosen if name in each} for name in ("client", "transport"))
    had = Conversations(
        tmp_path_factory.mktemp("clients"),
        [name for name in PROGRAMS if name in clients],
        [name for name in TRANSPORTS if name in transports or not transports],
    )
    yield had
    had.close()


@pytest.fixture
def talk(client: str, transport: str, conversations: Conversations) -> Talk:
    """The conversation of one client over one transport."""
    return conversations.talk(client, transport)


@pytest.fixture
def results(talk: Talk) -> dict[str, str]:
    """What the model saw of each step."""
    return talk.results


@pytest.fixture(params=[signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def how(request: pytest.FixtureRequest) -> signal.Signals:
    """An end in mid-run: that of a user, or that of an accident."""
    return signal.Signals(request.param)


@pytest.fixture
def cut(client: str, transport: str, how: signal.Signals, conversations: Conversations) -> Cut:
    """What was left of a client that was ended in mid-run."""
    return conversations.cut(client, transport, how)


@pytest.fixture(scope="session")
def table(request: pytest.FixtureRequest) -> Table:
    """What the tests of this process have found."""
    return Table(is_written=request.config.getoption("--table") == "write")
