"""The benchmark of the scanner by kind of text."""

from benchmarks.privacy.scanner import KINDS, generate, measure


def test_every_kind_is_measured_and_the_mean_is_harmonic() -> None:
    """A speed for each kind, and the mean that one slow kind pulls down."""
    figures = measure(rounds=1, characters=2_000)

    speeds = figures["mb_per_second_by_kind"]
    assert list(speeds) == list(KINDS)
    assert len(speeds) >= 14
    assert min(speeds.values()) > 0
    assert abs(len(speeds) / figures["mb_per_second"] - sum(1 / each for each in speeds.values())) < 1e-6


def test_generated_text_follows_from_its_seed() -> None:
    """The same seed gives the same answer, another seed another one, of the size asked for."""
    first, again, other = (generate("paths", seed=seed, characters=10_000) for seed in (1, 1, 2))

    assert first == again != other
    assert 9_000 < sum(len(path) + 4 for path in first) < 11_000
