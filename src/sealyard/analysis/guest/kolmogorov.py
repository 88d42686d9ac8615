"""How likely a largest distance between distribution functions is: one sample against a law, or two samples.

One sample: exact (Durbin's recursion in the form of Marsaglia, Tsang and Wang) while it is affordable, Pelz and Good's
expansion beyond, and twice the exact one-sided tail where both sides can no longer be exceeded at once.
Two samples: every path through the grid of the merged sample is counted, as a share; beyond `GRID_CELLS` the
one-sample law of the equivalent size stands in.
"""

import math
from itertools import accumulate
from operator import mul

from .distributions import binomial_density

# Multiplications and grid cells that a pure Python loop does in about a second.
_EXACT_STEPS = 10_000_000
GRID_CELLS = 4_000_000
# Beyond these, in units of n * distance**2, exceeding both sides adds less than 1e-10 of the tail ...
_ONE_SIDED_FROM = 4.0
# ... or less than Pelz and Good's expansion is wrong by.
_ONE_SIDED_FROM_LARGE = 2.2
# Terms of the one-sided sum; for larger samples its own expansion is better than 1e-6 of the tail.
_SUMMED_TO = 200_000


def distance_tail(distance: float, n: int) -> tuple[float, bool]:
    """The chance that `n` values lie this far from their own law or farther, and whether that is exact."""
    if n * distance <= 0.5:
        return 1.0, True
    if distance >= 1.0:
        return 0.0, True
    reach = n * distance * distance
    if distance >= 0.5 or reach >= _ONE_SIDED_FROM:
        return min(1.0, 2.0 * one_sided_tail(distance, n)), n <= _SUMMED_TO
    size = 2 * (int(n * distance) + 1) - 1
    if n * size * size <= _EXACT_STEPS:
        return _between_zero_and_one(1.0 - _inside(distance, n)), True
    if reach >= _ONE_SIDED_FROM_LARGE:
        return 2.0 * one_sided_tail(distance, n), False
    return _between_zero_and_one(1.0 - _expansion(distance * math.sqrt(n), n)), False


def one_sided_tail(distance: float, n: int) -> float:
    """The chance that the sample's distribution function is somewhere above its law by `distance` or more."""
    if distance >= 1.0:
        return 0.0
    if n > _SUMMED_TO:
        six = 6.0 * n * distance + 1.0
        scaled = six * six / (18.0 * n)
        return math.exp(-scaled) * (1.0 - (2.0 * scaled * scaled - 4.0 * scaled - 1.0) / (18.0 * n))
    terms = []
    for j in range(int(n * (1.0 - distance)) + 1):
        hit = distance + j / n
        miss = (n - j) / n - distance
        if miss > 0.0:
            terms.append(distance / hit * binomial_density(j, n - j, hit, miss))
    return min(1.0, math.fsum(terms))


def _inside(distance: float, n: int) -> float:
    """The chance that all `n` values stay nearer than `distance`: n steps of a vector through Durbin's matrix."""
    k = int(n * distance) + 1
    h = k - n * distance
    size = 2 * k - 1
    reciprocals = list(accumulate(range(1, size + 1), lambda value, j: value / j, initial=1.0))
    edge = [(1.0 - h ** (i + 1)) * reciprocals[i + 1] for i in range(size)]
    corner = (1.0 - 2.0 * h**size + max(0.0, 2.0 * h - 1.0) ** size) * reciprocals[size]
    # Row i of the matrix has 1/(i - j + 1)! at column j; its first column and last row are the edges.
    columns = [[*edge[:-1], corner]]
    columns += [[*([0.0] * (j - 1)), *reciprocals[: size - j], edge[size - 1 - j]] for j in range(1, size)]
    vector = [0.0] * size
    vector[k - 1] = 1.0
    scale = 0
    for step in range(1, n + 1):
        # n! / n**n is multiplied in on the way, which keeps every number near 1.
        weight = step / n
        vector = [weight * sum(map(mul, vector, column)) for column in columns]
        largest = math.frexp(max(vector))[1]
        vector = [math.ldexp(value, -largest) for value in vector]
        scale += largest
    return math.ldexp(vector[k - 1], scale)


def _expansion(z: float, n: int) -> float:
    """Pelz and Good's expansion, in powers of 1/sqrt(n), of the chance that sqrt(n) * distance stays below `z`."""
    z2 = z * z
    z4, z6 = z2 * z2, z2 * z2 * z2
    odd = [(math.pi * (k + 0.5)) ** 2 for k in range(40)]
    even = [(math.pi * k) ** 2 for k in range(1, 40)]

    def total(squares: list[float], *coefficients: float) -> float:
        # Both signs of k; the coefficients are those of 1, s, s**2, s**3.
        return 2.0 * math.fsum(
            math.exp(-s / (2.0 * z2)) * sum(c * s**power for power, c in enumerate(coefficients)) for s in squares
        )

    root = math.sqrt(math.pi / 2.0)
    first = root / z * total(odd, 1.0)
    second = root / (6.0 * z4) * total(odd, -z2, 1.0)
    third = root / (72.0 * z6 * z) * total(odd, 6.0 * z6 + 2.0 * z4, 2.0 * z4 - 5.0 * z2, 1.0 - 2.0 * z2)
    third -= root / (36.0 * z2 * z) * total(even, 0.0, 1.0)
    fourth = total(
        odd,
        -(30.0 * z6 + 90.0 * z6 * z2),
        135.0 * z4 - 96.0 * z6,
        -60.0 * z2 + 212.0 * z4,
        5.0 - 30.0 * z2,
    ) * (root / (6480.0 * z6 * z4))
    fourth += root / (216.0 * z6) * total(even, 0.0, 3.0 * z2, -1.0)
    return first + second / math.sqrt(n) + third / n + fourth / (n * math.sqrt(n))


def two_sample_tail(steps: int, first: int, second: int) -> tuple[float, bool]:
    """The chance that samples of these sizes differ by `steps` / lcm(sizes) or more, and whether that is exact."""
    if steps <= 0:
        return 1.0, True
    common = math.lcm(first, second)
    distance = steps / common
    if first == second:
        return _square_tail(steps, first), True
    # Only the cells nearer than `steps` to the diagonal are visited.
    if first * second * (1.0 - (1.0 - distance) ** 2) <= GRID_CELLS:
        return _grid_tail(steps, first, second), True
    return distance_tail(distance, round(first * second / (first + second)))[0], False


def _square_tail(steps: int, n: int) -> float:
    """Both samples have `n` values: reflections of the paths, summed with alternating signs."""
    # A product of ratios nested from the last reflection inwards, so that nothing overflows.
    tail = 0.0
    for reflection in range(n // steps, 0, -1):
        ratio = 1.0
        for j in range(steps):
            ratio *= (n - reflection * steps + steps - j) / (n + (reflection - 1) * steps + j + 1)
        tail = ratio * (1.0 - tail)
    return _between_zero_and_one(2.0 * tail)


def _grid_tail(steps: int, first: int, second: int) -> float:
    """The share of paths from corner to corner that leave the band around the diagonal.

    A cell's share is the mean of its two neighbours' shares, weighted by how many paths come from each. All terms are
    positive, so that a tiny share is as exact as a large one.
    """
    divisor = math.gcd(first, second)
    over, up = second // divisor, first // divisor
    # Cell (i, j) lies inside while abs(i * over - j * up) < steps. Outside, every path has left.
    row: list[float] = [1.0] * (second + 1)
    for i in range(first + 1):
        low = max(0, (i * over - steps) // up + 1)
        high = min(second, (i * over + steps - 1) // up)
        if low:
            row[low - 1] = 1.0
        left = 1.0
        for j in range(low, high + 1):
            if i == 0:
                left = 0.0 if j == 0 else left
            elif j == 0:
                left = row[0]
            else:
                left = (i * row[j] + j * left) / (i + j)
            row[j] = left
    return row[second]


def _between_zero_and_one(chance: float) -> float:
    return min(1.0, max(0.0, chance))
