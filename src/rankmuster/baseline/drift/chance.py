"""Exact tails of two discrete distributions; numpy has none, and scipy is too much for two sums."""

from __future__ import annotations

import math


def at_least(successes: int, trials: int, rate: float) -> float:
    """P(X >= successes) of the binomial distribution: as many of `trials`, each by itself at `rate`."""
    if successes <= 0:
        return 1.0
    if successes > trials or rate <= 0:
        return 0.0
    if rate >= 1:
        return 1.0
    terms = [
        _log_choose(trials, k) + k * math.log(rate) + (trials - k) * math.log1p(-rate)
        for k in range(successes, trials + 1)
    ]
    return min(1.0, _sum_of_logs(terms))


def shares_at_least(hit: int, group: int, hits: int, total: int) -> float:
    """Fisher's exact test, one-sided: P(at least `hit` of `group` are among the `hits` of `total`) by chance alone."""
    least, most = max(0, group + hits - total), min(group, hits)
    if hit <= least:
        return 1.0
    if hit > most:
        return 0.0
    whole = _log_choose(total, group)
    terms = [_log_choose(hits, k) + _log_choose(total - hits, group - k) - whole for k in range(hit, most + 1)]
    return min(1.0, _sum_of_logs(terms))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _sum_of_logs(terms: list[float]) -> float:
    top = max(terms)
    return math.exp(top) * sum(math.exp(term - top) for term in terms)
