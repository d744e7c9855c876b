"""Step times between two scrapes: what rose, in which bucket, and nothing that did not happen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.watch.signals.engine_mapping import tables
from rankmuster.watch.signals.engine_steps import MOST_SETS, Spread, StepTimes

BUCKETS = tables().buckets
NAME = "vllm:inter_token_latency_seconds"
OLD = "vllm:time_per_output_token_seconds"


def page(
    *counts: float | str, name: str = NAME, bounds: tuple[str, ...] = ("0.1", "0.2", "+Inf"), **labels: str
) -> str:
    told = "".join(f',{key}="{value}"' for key, value in labels.items())
    return "".join(f'{name}_bucket{{le="{le}"{told}}} {n}\n' for le, n in zip(bounds, counts, strict=True))


def spreads(*texts: str) -> list[tuple[Spread, ...]]:
    of = StepTimes(BUCKETS)
    return [of.add(one.encode()) for one in texts]


def counts(said: tuple[Spread, ...]) -> dict[float, float]:
    (one,) = said
    return {round(value, 6): count for value, count in zip(one.values, one.counts, strict=True)}


def test_the_first_scrape_says_nothing_and_a_quiet_one_neither() -> None:
    assert spreads(page(1, 2, 3), page(1, 2, 3), "", page(1, 2, 3)) == [(), (), (), ()]


def test_what_rose_is_told_by_the_middle_of_its_bucket() -> None:
    _, said = spreads(page(1, 2, 3), page(2, 5, 8))
    assert said[0].engine == "vllm"
    assert counts(said) == {0.05: 1, 0.15: 2, 0.2: 2}  # above the last bound is told as that bound


def test_replicas_are_added_and_ranks_of_one_are_not() -> None:
    def both(n: int) -> str:
        return "".join(page(n, n, n, engine=e, tp_rank=r) for e in "01" for r in "012")

    _, said = spreads(both(1), both(4))
    assert counts(said) == {0.05: 6}


def test_of_two_histograms_of_the_same_the_better_one_is_counted() -> None:
    _, said = spreads(page(1, 1, 1) + page(1, 1, 1, name=OLD), page(2, 2, 2) + page(2, 2, 2, name=OLD))
    assert counts(said) == {0.05: 1}
    _, said = spreads(page(1, 1, 1, name=OLD), page(2, 2, 2, name=OLD))
    assert counts(said) == {0.05: 1}


def test_after_a_restart_all_that_is_there_is_new() -> None:
    _, said, after = spreads(page(10, 20, 30), page(1, 2, 2), page(2, 3, 3))
    assert counts(said) == {0.05: 1, 0.15: 1}
    assert counts(after) == {0.05: 1}


def test_a_replica_that_comes_later_is_counted_from_its_start() -> None:
    _, said = spreads(page(5, 5, 5, engine="0"), page(5, 5, 5, engine="0") + page(2, 2, 2, engine="1"))
    assert counts(said) == {0.05: 2}


@pytest.mark.parametrize(
    "damaged", ["", page(1, "NaN", 3), page(9, 2, 3), page(1, 2, "-3"), page(1, "+Inf", 3), page(1, "x", 3)]
)
def test_a_damaged_scrape_costs_nothing_but_itself(damaged: str) -> None:
    _, said, after = spreads(page(1, 2, 3), damaged, page(2, 3, 4))
    assert said == ()
    assert counts(after) == {0.05: 1}


def test_a_damaged_first_scrape_makes_no_past_new() -> None:
    _, said, after = spreads(page(100, "NaN", 300), page(101, 201, 301), page(102, 202, 302))
    assert said == ()
    assert counts(after) == {0.05: 1}


def test_other_buckets_after_a_restart_with_another_version() -> None:
    other = ("0.5", "1.0", "+Inf")
    _, said, after = spreads(page(10, 20, 30), page(100, 200, 300, bounds=other), page(101, 201, 301, bounds=other))
    assert said == ()
    assert counts(after) == {0.25: 1}


def test_a_series_that_comes_twice_is_counted_once() -> None:
    _, said = spreads(page(1, 1, 1) * 2, page(3, 3, 3) + page(2, 2, 2))
    assert counts(said) == {0.05: 2}


def test_other_methods_of_tgi_are_no_steps() -> None:
    name = "tgi_batch_inference_duration"
    texts = [page(n, n, n, name=name, method="prefill") + page(1, 1, n, name=name, method="decode") for n in (1, 3)]
    assert counts(spreads(*texts)[1]) == {0.2: 2}


def test_memory_is_bounded() -> None:
    of = StepTimes(BUCKETS)
    for n in range(0, 4 * MOST_SETS, MOST_SETS):
        of.add("".join(page(1, 1, 1, x=str(n + i)) for i in range(MOST_SETS)).encode())
    assert len(of._before) == MOST_SETS


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=2, max_size=6), st.binary(max_size=60))
@settings(max_examples=80, deadline=None)
def test_counts_are_positive_and_never_more_than_the_page_has(history: list[list[int]], noise: bytes) -> None:
    of = StepTimes(BUCKETS)
    for counts_now in history:
        text = page(*counts_now).encode()
        for one in of.add(text + noise):
            assert all(count > 0 for count in one.counts)
            assert all(0 < value <= 0.2 for value in one.values)
            assert sum(one.counts) <= max(counts_now)
