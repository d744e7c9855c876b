"""Is it advancing, slow, idle or stopped: what each plane may say of it, and what outranks what."""

from __future__ import annotations

import random

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    culprits,
    even,
    flat_pages,
    instance,
    log,
    ras_json,
    ras_text,
    samples,
    sglang_old_page,
    stamped,
    steady_pages,
    verdict_of,
    vllm_page,
    watchdog,
)

from rankmuster.evidence.blob import Blob

ALL = (0, 1, 2, 3)


def looks(times: tuple[float, ...], **behind: int) -> list[Blob]:
    return [ras_json(T0 + at, [Comm(ALL, even(ALL, 600, **behind))]) for at in times]


def idle_pages() -> list[Blob]:
    return [vllm_page(T0 + i, 1000, running=0) for i in range(20)]


@pytest.mark.parametrize("behind", [{}, {"r2": 599}, {"r0": 604}], ids=["equal", "one behind", "one ahead"])
def test_no_request_and_frozen_counts_is_idle(behind: dict[str, int]) -> None:
    verdict = verdict_of([instance(), *idle_pages(), *looks((2, 8, 14, 19), **behind)])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "idle")


def test_a_mismatch_in_the_last_poll_of_an_idle_instance_is_no_fault() -> None:
    blobs = [
        instance(),
        *idle_pages(),
        samples([(20, dict.fromkeys(ALL, IDLE))]),
        *looks((2, 8, 14)),
        *looks((19,), r2=599),
    ]
    verdict = verdict_of(blobs)
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "idle")


def test_one_request_an_hour_is_idle() -> None:
    pages = [vllm_page(T0 + i * 60, 1000 + (50 if i >= 30 else 0), running=0) for i in range(60)]
    verdict = verdict_of([instance(last_look=T0 + 3600), *pages])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "idle")


def prefill_pages(gauge: bool) -> list[Blob]:
    """Token counters stop at 5 s with a request running, as in a middle chunk of a long prefill."""
    return [vllm_page(T0 + i, 1000 + 50 * min(i, 5), 1, cache=0.1 + 0.01 * i if gauge else None) for i in range(30)]


def test_a_long_prefill_is_not_stopped() -> None:
    moving = samples([(30, dict.fromkeys(ALL, (100.0, 30_000.0)))])
    verdict = verdict_of([instance(), *prefill_pages(gauge=True), moving])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "advancing")


def test_a_long_prefill_seen_by_its_gauges_alone_is_unknown() -> None:
    assert verdict_of([instance(), *prefill_pages(gauge=True)]).progress.value == "unknown"


def test_a_long_prefill_seen_by_launched_counts_is_advancing() -> None:
    moved = [ras_json(T0 + at, [Comm(ALL, even(ALL, 600 + 4 * at))]) for at in (2, 9, 16, 25)]
    assert verdict_of([instance(), *prefill_pages(gauge=False), *moved]).progress.value == "advancing"


def test_a_trickle_of_bytes_beside_frozen_counters_is_no_prefill() -> None:
    """Retries over a cut path move some KiB; a prefill moves more than decoding did."""
    trickle = samples([(10, dict.fromkeys(ALL, MOVE)), (40, dict.fromkeys(ALL, (100.0, 200.0)))])
    verdict = verdict_of([instance(), *steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500), trickle])
    assert (verdict.class_.value, verdict.progress.value) == ("inconclusive", "stopped")


def test_flat_totals_of_an_old_sglang_say_nothing() -> None:
    pages = [sglang_old_page(T0 + i, 5000, usage=0.1) for i in range(30)]
    assert verdict_of([instance(), *pages]).progress.value == "unknown"
    assert verdict_of([instance(), *pages, samples([(30, dict.fromkeys(ALL, MOVE))])]).progress.value == "advancing"


def test_a_restart_a_gap_and_any_order_of_pages_are_no_stop() -> None:
    restarted = steady_pages(T0, 8, first=100_000) + steady_pages(T0 + 12, 8, first=0)
    gap = steady_pages(T0, 6) + steady_pages(T0 + 17, 3, first=1850)
    shuffled = steady_pages(T0, 20)
    random.Random(1).shuffle(shuffled)
    for pages in (restarted, gap, shuffled):
        assert verdict_of([instance(), *pages]).progress.value == "advancing"


def test_pages_that_end_before_the_fault_do_not_call_it_healthy() -> None:
    """The last page is 4 s older than two RAS looks at which counts differed and stood still."""
    stopped = [ras_json(T0 + at, [Comm(ALL, even(ALL, 604, r2=600))]) for at in (24, 30, 36)]
    verdict = verdict_of([instance(last_look=T0 + 38), *steady_pages(T0, 20), *stopped])
    assert (verdict.class_.value, culprits(verdict)) == ("collective_desync", [2])


def test_one_stalled_replica_of_several_stops_the_instance() -> None:
    pages = [vllm_page(T0 + i, 0, engines={"0": (8, 1000 + 50 * i), "1": (8, 600 + 50 * min(i, 5))}) for i in range(30)]
    assert verdict_of([instance(last_look=T0 + 30), *pages]).progress.value == "stopped"
    idle = [vllm_page(T0 + i, 0, engines={"0": (8, 1000 + 50 * i), "1": (0, 900)}) for i in range(30)]
    assert verdict_of([instance(last_look=T0 + 30), *idle]).progress.value == "advancing"


def test_an_engine_asleep_is_idle() -> None:
    assert verdict_of([instance(), *[vllm_page(T0 + i, 9, 2, asleep=True) for i in range(20)]]).progress.value == "idle"


def test_busy_gpus_before_the_first_request_are_no_stop() -> None:
    """Weight loading, compilation and graph capture: load without traffic, and nobody asked for anything yet."""
    busy = samples([(20, dict.fromkeys(ALL, (99.0, 0.0)))])
    verdict = verdict_of([instance(), *[vllm_page(T0 + i, 0, 0) for i in range(20)], busy])
    assert (verdict.class_.value, verdict.progress.value) == ("inconclusive", "unknown")


def test_a_short_healthy_capture_with_mismatch_in_every_poll_is_healthy() -> None:
    pages = [vllm_page(T0 + i * 1.2, 1000 + 50 * i) for i in range(5)]
    polls = [
        ras_json(T0 + 1, [Comm(ALL, even(ALL, 600, r2=599))]),
        ras_json(T0 + 4, [Comm(ALL, even(ALL, 640, r1=641))]),
    ]
    verdict = verdict_of([instance(last_look=T0 + 6), *pages, *polls, samples([(6, dict.fromkeys(ALL, MOVE))])])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "advancing")
    text = [ras_text(T0 + 1, Comm(ALL, even(ALL, 600, r2=599))), ras_text(T0 + 4, Comm(ALL, even(ALL, 640, r1=641)))]
    assert verdict_of([instance(last_look=T0 + 6), *pages, *text]).class_.value == "healthy"


def test_slow_against_its_own_earlier_rate() -> None:
    pages = [vllm_page(T0 + i, 1000 + 50 * min(i, 25) + 5 * max(i - 25, 0)) for i in range(45)]
    verdict = verdict_of([instance(last_look=T0 + 45), *pages])
    assert (verdict.class_.value, verdict.progress.value) == ("performance_degradation", "slow")
    stacked = (
        f"[rank0]:[E{stamped(T0 + 24.5)} ProcessGroupNCCL.cpp:1628] [PG ID 0 PG GUID 0(default_pg) Rank 0] "
        "ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, only active collectives: 0"
    )
    anchored = ras_json(T0 + 20, [Comm(ALL, even(ALL, 600))])
    verdict = verdict_of([instance(last_look=T0 + 45), *pages, log("rank0.log", stacked), anchored])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "advancing"), "a stacked dump slowed it"


def test_fewer_tokens_for_fewer_requests_are_not_slow() -> None:
    pages = [vllm_page(T0 + i, 1000 + 320 * min(i, 30) + 25 * max(i - 30, 0), 16 if i <= 30 else 1) for i in range(45)]
    verdict = verdict_of([instance(last_look=T0 + 45), *pages])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "advancing")


def test_prompt_tokens_that_end_with_the_arrivals_are_not_slow() -> None:
    pages = []
    for i in range(45):
        page = vllm_page(T0 + i, 50 * i)
        pages.append(
            Blob(page.path, page.data + f'vllm:prompt_tokens_total{{engine="0"}} {2048 * min(i, 28)}\n'.encode())
        )
    assert verdict_of([instance(last_look=T0 + 45), *pages]).progress.value == "advancing"


def test_counters_that_missed_four_slow_scrapes_do_not_count_as_moving() -> None:
    pages = [vllm_page(T0 + i * 15, 1000 + 750 * min(i, 4)) for i in range(9)]
    assert verdict_of([instance(last_look=T0 + 121), *pages]).class_.value != "healthy"


def test_a_pause_behind_moving_counts_and_bytes_is_no_stop() -> None:
    moved = [ras_json(T0 + at, [Comm(ALL, even(ALL, 600 + 40 * at))]) for at in (3, 8, 15, 20)]
    pages = [*steady_pages(T0, 13), *flat_pages(T0 + 14, 6, 1650)]
    verdict = verdict_of([instance(), *pages, *moved, samples([(21, dict.fromkeys(ALL, MOVE))])])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "advancing")


def test_spinning_that_outlives_the_pages_is_a_stop() -> None:
    spin = samples([(25, dict.fromkeys(ALL, MOVE)), (35, {**dict.fromkeys(ALL, SPIN), 2: IDLE})])
    verdict = verdict_of([instance(last_look=T0 + 60), *steady_pages(T0, 20), spin])
    assert (verdict.progress.value, culprits(verdict)) == ("stopped", [2])


def test_a_watchdog_whose_time_nobody_knows_has_timed_out_all_the_same() -> None:
    undated = log("rank0.log", watchdog(0, T0 + 30))
    alone = verdict_of([undated])
    assert (alone.class_.value, alone.progress.value) == ("inconclusive", "stopped")
    beside = [vllm_page(T0 + i, 1000 + 50 * min(i, 5), 1, cache=0.1 + 0.01 * i) for i in range(30)]
    assert verdict_of([*beside, undated]).progress.value == "stopped", "a watchdog waits longer than any prefill"
