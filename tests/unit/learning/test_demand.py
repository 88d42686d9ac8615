"""Demand: how many workers should wait, and with which packages."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sealyard.learning.resources import Demand, Wanted, wanted

NOW = 1_800_000_000.0
OFFERED = ("numpy", "pandas")


def burst(demand: Demand, at: float, runs: int, principal: str = "ann", imports: tuple[str, ...] = ()) -> None:
    """So many runs that begin within a tenth of a second."""
    for number in range(runs):
        demand.ran(at + number * 0.1 / runs, principal, imports)


def size(demand: Demand, now: float = NOW) -> int:
    """How many workers it wants to wait."""
    return wanted([demand], now=now, offered=()).size


def packages(demand: Demand, now: float = NOW) -> tuple[str, ...]:
    """Which of the packages that are offered it wants."""
    return wanted([demand], now=now, offered=OFFERED).packages


def test_nothing_known_asks_for_no_worker_and_every_package() -> None:
    """The pool is then as it was configured."""
    assert wanted([], now=NOW, offered=OFFERED) == Wanted(size=0, packages=OFFERED)
    assert wanted([Demand()], now=NOW, offered=OFFERED) == Wanted(size=0, packages=OFFERED)


def test_a_burst_counts_once_it_has_come_again() -> None:
    """One alone is chance; the smaller of two is what to be ready for."""
    demand = Demand()
    burst(demand, NOW - 60, 6)
    once = size(demand)
    burst(demand, NOW - 30, 4)

    assert (once, size(demand)) == (0, 4)


def test_runs_one_after_another_ask_for_one_worker() -> None:
    """However many they are."""
    demand = Demand()
    for number in range(100):
        demand.ran(NOW - 800 + number * 2, "ann", ())

    assert size(demand) == 1


def test_a_quarter_of_an_hour_without_bursts_forgets_them() -> None:
    """The pool shrinks again by itself."""
    demand = Demand()
    burst(demand, NOW - 60, 6)
    burst(demand, NOW - 30, 6)

    assert [size(demand, NOW + after) for after in (0, 800, 900)] == [6, 6, 0]


def test_runs_of_different_partitions_are_one_burst() -> None:
    """Where each principal learns apart, they still share the pool."""
    apart = [Demand(), Demand()]
    for at in (NOW - 60, NOW - 30):
        for demand in apart:
            burst(demand, at, 2)

    assert wanted(apart, now=NOW, offered=()).size == 4


def test_packages_that_were_imported_lately_are_wanted() -> None:
    """Those of the last three days, whoever imported them, once enough runs are known."""
    demand = Demand()
    demand.ran(NOW - 100, "bob", ("pandas", "re"))
    for number in range(18):
        demand.ran(NOW - 90 + number, "ann", ("json",))
    before = packages(demand)
    demand.ran(NOW - 50, "ann", ())

    assert (before, packages(demand)) == (OFFERED, ("pandas",))
    assert packages(demand, NOW + 3 * 86_400 - 95) == OFFERED  # most of the runs are too old to say anything


def test_a_run_whose_imports_are_unknown_keeps_every_package() -> None:
    """A skill's code imports too, and nobody sees what."""
    demand = Demand()
    for number in range(30):
        demand.ran(NOW - 60 + number, "ann", ("json",))
    known = packages(demand)
    demand.ran(NOW - 5, "ann", None)

    assert (known, packages(demand)) == ((), OFFERED)


def test_strange_names_of_one_principal_push_out_only_its_own() -> None:
    """A thousand of them take pandas away from nobody, and are themselves never wanted."""
    demand = Demand()
    demand.ran(NOW - 3_000, "ann", ("pandas",))
    for number in range(1_000):
        demand.ran(NOW - 2_000 + number, "mallory", tuple(f"strange{number}_{each}" for each in range(40)))

    assert packages(demand) == ("pandas",)
    assert len(demand.imported["mallory"]) == 32


def test_a_flood_is_remembered_within_bounds() -> None:
    """A model must not grow with what is thrown at it."""
    demand = Demand()
    for number in range(3_000):
        demand.ran(NOW - 3_000 + number, f"principal{number}", (f"module{number}",))

    assert (len(demand.starts), len(demand.imported)) == (1_024, 64)


@given(
    st.lists(st.tuples(st.floats(0, 1e10), st.sampled_from("abc"), st.none() | st.tuples(st.sampled_from("xyz")))),
    st.floats(0, 1e10),
)
def test_the_same_runs_make_the_same_bytes_and_always_an_answer(
    runs: list[tuple[float, str, tuple[str, ...] | None]], now: float
) -> None:
    """Whatever the clock did; and only what was offered is wanted."""
    one, other = Demand(), Demand()
    for each in runs:
        one.ran(*each)
        other.ran(*each)
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Demand)
    found = wanted([read], now=now, offered=OFFERED)

    assert msgspec.msgpack.encode(one) == msgspec.msgpack.encode(other)
    assert found == wanted([one], now=now, offered=OFFERED)
    assert set(found.packages) <= set(OFFERED)
    assert 0 <= found.size <= len(runs)
