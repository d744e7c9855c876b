"""Two ranks that are late alike hide each other: neither is convicted, and that they are is said."""

from __future__ import annotations

import numpy as np
import pytest

from build_slow import SlowWorld, context_of, tensor_parallel
from rankmuster.diagnose.slow.late import SLOW
from rankmuster.diagnose.slow.measure import measure
from rankmuster.model.slow import LateRank
from rankmuster.report.slow_words import headline, late_text


def told(world: SlowWorld) -> list[LateRank]:
    return [one for one in measure(context_of(world)).late if one.together]


def test_two_ranks_that_are_late_alike_are_both_named() -> None:
    report = measure(context_of(tensor_parallel(8, 8, steps=400, late={2: 8.0, 6: 8.0})))
    one = next(one for one in report.late if one.together)
    assert one.together == (2, 6)
    assert one.together_share > 0.25
    assert one.pattern not in SLOW
    assert "ranks 2, 6 come late together" in headline(report)
    assert "ranks 2, 6 come after all others together" in late_text(one)


def test_one_late_rank_is_that_one_alone() -> None:
    assert told(tensor_parallel(8, 8, steps=400, late={2: 8.0})) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_healthy_job_has_none(seed: int) -> None:
    jitter, compute = 0.05 + 0.04 * seed, (0.3, 4.0, 10.0, 30.0)[seed % 4]
    biased = {seed: 80.0, (seed + 3) % 16: 75.0}
    assert told(tensor_parallel(16, 8, steps=400, seed=seed, jitter=jitter, compute=compute, biased=biased)) == []


def test_a_half_that_waits_for_the_other_tells_nobody() -> None:
    assert told(tensor_parallel(8, 8, steps=400, late=dict.fromkeys((0, 1, 2, 3), 8.0))) == []


def test_two_victims_of_a_late_rank_in_their_own_group_are_no_origin() -> None:
    """Rank 5 is late in its group of four; with its peers it comes late to everybody's."""
    for one in told(tensor_parallel(16, 4, steps=400, late={5: 8.0})):
        raise AssertionError(late_text(one))


def test_one_slow_start_is_not_what_is_typical() -> None:
    """A first collective that one rank reaches seconds late, and a thousand to which it comes by milliseconds."""
    late = np.full(400, 4.0)
    late[0] = 1500.0
    report = measure(context_of(tensor_parallel(8, 8, steps=400, late={2: late})))
    assert report.late[0].typical_ms == pytest.approx(4.0, abs=1.5)
