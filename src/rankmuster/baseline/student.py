"""Student's t distribution: tail and quantile, without scipy (numpy alone is a dependency).

The tail by the continued fraction of the incomplete beta function (Numerical Recipes, 6.4; Abramowitz and Stegun
26.5.8, 26.7.1), relative error below 1e-9; the quantile by bisection over it.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TERMS = 300
_TINY = 1e-300


@lru_cache(maxsize=65536)
def upper_tail(t: float, dof: float) -> float:
    """P(T > t) for `dof` > 0 degrees of freedom (need not be whole)."""
    if t < 0:
        return 1.0 - upper_tail(-t, dof)
    return 0.5 * _incomplete_beta(dof / 2, 0.5, dof / (dof + t * t))


def quantile_above(tail: float, dof: float) -> float:
    """The t that is exceeded with probability `tail`, 0 < tail <= 0.5. Degrees of freedom count to a tenth."""
    return _quantile(tail, max(1.0, round(dof, 1)))


@lru_cache(maxsize=65536)
def _quantile(tail: float, dof: float) -> float:
    low, high = 0.0, 2.0
    while upper_tail(high, dof) > tail:
        low, high = high, high * 2
        if high > 1e12:
            return high
    for _ in range(60):
        middle = (low + high) / 2
        if upper_tail(middle, dof) > tail:
            low = middle
        else:
            high = middle
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x),
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's evaluation of the continued fraction."""
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 + even * d
        c = 1 + even / c
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 + odd * d
        c = 1 + odd / c
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        step = d * c
        result *= step
        if abs(step - 1) < 1e-12:
            break
    return result
