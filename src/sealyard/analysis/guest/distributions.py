"""The tail probabilities behind the hypothesis tests: normal, Student's t, chi-square and, below them, beta and gamma.

Densities are computed from deviances rather than as differences of large logarithms, so that a million degrees of
freedom cost no digits. A tail is summed directly wherever it is small: it keeps its relative precision down to 1e-300.
"""

import math

# Below this the series after Stirling's formula is no longer good to the last digit.
_STIRLING_FROM = 16.0
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_TINY = 1e-300
# Two units in the last place: a factor may swing between the neighbours of 1 for ever.
_PRECISION = 4.5e-16
# A million degrees of freedom take about a thousand; without a bound, a step that never settles would hang.
_MOST_STEPS = 1_000_000


def normal_tail(z: float) -> float:
    """The chance that a standard normal value is above `z`."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def student_tail(t: float, degrees: float) -> float:
    """The chance that Student's t with `degrees` of freedom (a fraction is allowed) is above `t`."""
    square = t * t
    if not math.isfinite(square):
        return 0.0 if t > 0 else 1.0
    beyond = 0.5 * incomplete_beta(0.5 * degrees, 0.5, degrees / (degrees + square), square / (degrees + square))
    return beyond if t > 0 else 1.0 - beyond


def chi_square_tail(statistic: float, degrees: float) -> float:
    """The chance that chi-square with `degrees` of freedom is above `statistic`."""
    return upper_gamma(0.5 * degrees, 0.5 * statistic)


def incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function of `x`, given `rest` = 1 - x so that neither loses digits near 0."""
    if x <= 0.0:
        return 0.0
    if rest <= 0.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(b, a, rest, x)
    return binomial_density(a, b, x, rest) * b / (a + b) * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, from its head on (Lentz's method)."""
    above, below = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value = below
    for m in range(1, _MOST_STEPS):
        twice = a + 2.0 * m
        for step in (
            m * (b - m) * x / ((twice - 1.0) * twice),
            -(a + m) * (a + b + m) * x / (twice * (twice + 1.0)),
        ):
            below = 1.0 / _away_from_zero(1.0 + step * below)
            above = _away_from_zero(1.0 + step / above)
            value *= above * below
        if abs(above * below - 1.0) < _PRECISION:
            break
    return value


def upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function of `x`."""
    if x <= 0.0:
        return 1.0
    if not math.isfinite(x):
        return 0.0
    if x < a + 1.0:
        return 1.0 - poisson_density(a, x) * _gamma_series(a, x)
    return poisson_density(a, x) * a * _gamma_fraction(a, x)


def _gamma_series(a: float, x: float) -> float:
    term = total = 1.0
    for n in range(1, _MOST_STEPS):
        term *= x / (a + n)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _gamma_fraction(a: float, x: float) -> float:
    middle = x + 1.0 - a
    above, below = 1.0 / _TINY, 1.0 / _away_from_zero(middle)
    value = below
    for n in range(1, _MOST_STEPS):
        numerator = -n * (n - a)
        middle += 2.0
        below = 1.0 / _away_from_zero(numerator * below + middle)
        above = _away_from_zero(middle + numerator / above)
        value *= above * below
        if abs(above * below - 1.0) < _PRECISION:
            break
    return value


def binomial_density(a: float, b: float, x: float, rest: float) -> float:
    """The chance of `a` hits, each of chance `x`, and `b` misses, each of chance `rest`; neither need be whole."""
    if a == 0.0:
        return math.exp(b * math.log1p(-x))
    if b == 0.0:
        return math.exp(a * math.log1p(-rest))
    n = a + b
    surprise = deviance(a, n * x) + deviance(b, n * rest) + stirling_rest(a) + stirling_rest(b) - stirling_rest(n)
    return math.exp(-surprise) * math.sqrt(n / (2.0 * math.pi * a * b))


def poisson_density(a: float, mean: float) -> float:
    """The chance of `a` events where `mean` are expected: mean**a * exp(-mean) / gamma(a + 1)."""
    return math.exp(-stirling_rest(a) - deviance(a, mean)) / math.sqrt(2.0 * math.pi * a)


def deviance(seen: float, expected: float) -> float:
    """seen * log(seen / expected) + expected - seen, without the cancellation where the two are close."""
    difference = seen - expected
    if abs(difference) > 0.1 * (seen + expected):
        return seen * math.log(seen / expected) - difference
    ratio = difference / (seen + expected)
    total, term = difference * ratio, 2.0 * seen * ratio
    for n in range(1, _MOST_STEPS):
        term *= ratio * ratio
        grown = total + term / (2 * n + 1)
        if grown == total:
            break
        total = grown
    return total


def stirling_rest(z: float) -> float:
    """What Stirling's formula for log(gamma(z + 1)) leaves out, so that factorials can be divided without overflow."""
    if z < _STIRLING_FROM:
        return math.lgamma(z + 1.0) - (z + 0.5) * math.log(z) + z - _HALF_LOG_TWO_PI
    square = 1.0 / (z * z)
    series = 1.0 / 1260.0 - square * (1.0 / 1680.0 - square * (1.0 / 1188.0 - square * 691.0 / 360360.0))
    return (1.0 / 12.0 - square * (1.0 / 360.0 - square * series)) / z


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
