"""Planes that agree, planes that contradict each other, and what positive evidence sets aside."""

from __future__ import annotations

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
    kernel,
    log,
    pid,
    ras_json,
    said,
    samples,
    steady_pages,
    traceback,
    verdict_of,
)

from rankmuster.diagnose.context import build
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.diagnose.weigh import Outcome, weigh
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import Confidence, Progress, Subkind
from rankmuster.model.plane import Plane

ALL = (0, 1, 2, 3)
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]
GPU_2_IDLE = samples([(10, dict.fromkeys(ALL, MOVE)), (40, {**dict.fromkeys(ALL, SPIN), 2: IDLE})])


def lag(rank: int) -> list[Blob]:
    return [ras_json(T0 + t, [Comm(ALL, even(ALL, 1004, **{f"r{rank}": 1000}))]) for t in (15, 25, 35)]


def test_two_planes_that_name_the_same_rank_confirm_it() -> None:
    verdict = verdict_of([instance(), *STALLED, GPU_2_IDLE, *lag(2)])
    assert culprits(verdict) == [2]
    assert verdict.confidence is not None
    assert verdict.confidence.value == "confirmed"


@pytest.mark.parametrize("plane", ["ras", "hardware"])
def test_one_plane_alone_is_likely(plane: str) -> None:
    verdict = verdict_of([instance(), *STALLED, *(lag(2) if plane == "ras" else [GPU_2_IDLE])])
    assert culprits(verdict) == [2]
    assert verdict.confidence is not None
    assert verdict.confidence.value == "likely"


def test_two_planes_that_name_different_ranks_convict_nobody() -> None:
    verdict = verdict_of([instance(), *STALLED, GPU_2_IDLE, *lag(1)])
    assert culprits(verdict) == []
    assert sorted(s.rank for s in verdict.suspects if s.rank is not None and s.role.value == "suspect") == [1, 2]


def test_work_that_advances_sets_waiting_aside_and_says_so() -> None:
    verdict = verdict_of([instance(last_look=T0 + 50), *steady_pages(T0, 50), *lag(1)])
    assert (verdict.class_.value, culprits(verdict)) == ("healthy", [])
    assert "set aside" in said(verdict)


def test_a_process_that_was_killed_is_told_although_the_last_page_still_moved() -> None:
    verdict = verdict_of([instance(4, {3: (-9, T0 + 19.7)}), *steady_pages(T0, 20)])
    assert culprits(verdict) == [3]


def test_a_lead_does_not_outweigh_work_that_advances() -> None:
    old = kernel(f"[ 1.5] Out of memory: Killed process {pid(1) + 9000} (python3) total-vm:1kB, anon-rss:1kB")
    assert verdict_of([instance(), *steady_pages(T0, 20), old]).class_.value == "healthy"


def test_a_path_lost_on_both_sides_is_told_before_the_counters_are_overdue() -> None:
    """The last advance is 4 s old: too young for a stop by itself, too old for one that moves every second."""
    hosts = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]
    polls = []
    for at in (18, 20):
        for node, gone in (("a", (2, 3)), ("b", (0, 1))):
            polls.append(ras_json(T0 + at, [Comm(ALL, even(ALL, 1000), missing=gone)], node=node, hosts=hosts))
    pages = [*steady_pages(T0, 17), *flat_pages(T0 + 18, 3, 1850)]
    verdict = verdict_of([instance(4, None, hosts, last_look=T0 + 21), *pages, *polls])
    assert (verdict.class_.value, verdict.progress.value) == ("transport_stall", "stopped")
    moving = verdict_of([instance(4, None, hosts, last_look=T0 + 21), *steady_pages(T0, 21), *polls])
    assert moving.class_.value == "healthy", "only RAS's own connections are cut"


def test_one_witness_of_health_is_likely_and_two_confirm_it() -> None:
    pages = [instance(), *steady_pages(T0, 20)]
    alone = verdict_of(pages)
    beside = verdict_of([*pages, samples([(20, dict.fromkeys(ALL, MOVE))])])
    assert alone.confidence is not None
    assert beside.confidence is not None
    assert (alone.confidence.value, beside.confidence.value) == ("likely", "confirmed")
    disagreeing = verdict_of(
        [instance(), *steady_pages(T0, 10), *flat_pages(T0 + 11, 20, 1500), samples([(31, dict.fromkeys(ALL, MOVE))])]
    )
    assert disagreeing.class_.value == "healthy"
    assert disagreeing.confidence is not None
    assert disagreeing.confidence.value == "likely", "the engine's own counters stand still"


def accusing(
    plane: Plane, confidence: Confidence, subkind: Subkind = Subkind.MISSING_ENTER, **fields: object
) -> Finding:
    return Finding(plane.value, plane, f"{plane.value} says so", (), accuse(subkind, confidence, **fields))


def weighed(*findings: Finding) -> Outcome:
    context = build(gather([instance()]), DEFAULTS)
    return weigh(context, list(findings), ProgressView(Progress.STOPPED, True, (), "", ()))


def test_suspicions_of_different_ranks_do_not_confirm_each_other() -> None:
    one = accusing(Plane.RAS, Confidence.LIKELY, suspects=(0, 1))
    assert weighed(one, accusing(Plane.FLIGHT, Confidence.LIKELY, suspects=(2, 3))).confidence is Confidence.LIKELY
    assert weighed(one, accusing(Plane.FLIGHT, Confidence.LIKELY, suspects=(1, 2))).confidence is Confidence.CONFIRMED
    link = accusing(Plane.KERNEL, Confidence.LIKELY, Subkind.LINK_ERROR, hosts=("a",))
    other = accusing(Plane.NCCL_LOG, Confidence.LIKELY, Subkind.PATH_LOST, hosts=("b", "c"))
    assert weighed(link, other).confidence is Confidence.LIKELY


def test_a_lead_confirms_nothing() -> None:
    sure = accusing(Plane.RAS, Confidence.LIKELY, culprits=(2,))
    lead = accusing(Plane.HARDWARE, Confidence.POSSIBLE, culprits=(2,))
    assert weighed(sure, lead).confidence is Confidence.LIKELY
    assert weighed(sure, accusing(Plane.HARDWARE, Confidence.LIKELY, culprits=(2,))).confidence is Confidence.CONFIRMED


def test_the_exit_and_its_exception_head_the_verdict_before_what_follows_from_them() -> None:
    """The rank's process leaves its GPU a second before its exit is noted: the exit still says more."""
    left = samples([(10, dict.fromkeys(ALL, MOVE)), (40, {0: SPIN, 1: SPIN, 2: SPIN})])
    gpu3 = samples([(10, {3: MOVE}), (2, {3: IDLE})])
    log3 = log("rank3.log", *traceback(3, "ValueError: a negative temperature", T0 + 11.2))
    blobs = [instance(4, {3: (1, T0 + 12.5)}, last_look=T0 + 60), *STALLED]
    verdict = verdict_of([*blobs, Blob(left.path, left.data + gpu3.data), log3, ras_json(T0 + 9, [])])
    assert culprits(verdict) == [3]
    assert "exit code 1 (ValueError: a negative temperature)" in verdict.summary
    assert "exit code 1" in verdict.suspects[0].why
    assert verdict.window.fault_at == T0 + 12.5


def test_what_made_it_slow_is_set_aside_for_that_reason_once_it_is_stopped() -> None:
    slow = accusing(Plane.FLIGHT, Confidence.LIKELY, Subkind.PERSISTENT, culprits=(1,), stop=False)
    ((finding, reason),) = weighed(slow).set_aside
    assert finding is slow
    assert "is stopped" in reason
