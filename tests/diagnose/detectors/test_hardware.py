"""GPUs that spin without traffic, and the one among them that does not."""

from __future__ import annotations

import json

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    culprits,
    flat_pages,
    instance,
    pid,
    said,
    samples,
    steady_pages,
    verdict_of,
)

from rankmuster.evidence.blob import Blob
from rankmuster.model.verdict import Verdict

ALL = (0, 1, 2, 3)
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]
MOVING = dict.fromkeys(ALL, MOVE)
SPINNING = dict.fromkeys(ALL, SPIN)
ONE_IDLE = {**SPINNING, 2: IDLE}


def stalled(gpus: Blob, exits: dict[int, tuple[int, float | None]] | None = None) -> Verdict:
    return verdict_of([instance(4, exits, last_look=T0 + 60), *STALLED, gpus])


def edited(blob: Blob, after: float, gpus: tuple[int, ...], **change: object) -> Blob:
    """The samples with some fields changed (None: taken out) from a time on."""
    rows = [json.loads(line) for line in blob.data.splitlines()]
    for row in rows:
        if row["time"] >= after and row["gpu"] in gpus:
            row |= change
            for key in [key for key, value in change.items() if value is None]:
                del row[key]
    return Blob(blob.path, "\n".join(json.dumps(row) for row in rows).encode())


@pytest.mark.parametrize("kind", ["nvlink", "pcie"])
@pytest.mark.parametrize("list_pids", [True, False])
def test_the_idle_gpu_among_spinning_ones(kind: str, list_pids: bool) -> None:
    verdict = stalled(samples([(10, MOVING), (40, ONE_IDLE)], kind=kind, list_pids=list_pids))
    assert (verdict.class_.value, verdict.progress.value, culprits(verdict)) == ("collective_desync", "stopped", [2])


def test_numbers_of_another_namespace_are_taken_as_the_ranks_own() -> None:
    gpus = samples([(10, MOVING), (40, ONE_IDLE)], pids={rank: [90_000 + rank] for rank in ALL})
    assert culprits(stalled(gpus)) == [2]


def test_a_foreign_process_silences_its_gpu_and_no_other() -> None:
    on_the_idle_one = samples([(10, MOVING), (40, ONE_IDLE)], pids={2: [pid(2), 99]})
    assert culprits(stalled(on_the_idle_one)) == []
    on_a_victim = samples([(10, MOVING), (40, ONE_IDLE)], pids={1: [pid(1), 99]})
    assert culprits(stalled(on_a_victim)) == [2]


@pytest.mark.parametrize(
    "picture",
    [SPINNING, {**SPINNING, 1: IDLE, 2: IDLE}, {**dict.fromkeys(ALL, IDLE), 2: SPIN}],
    ids=["all spin", "two of four idle", "one spins"],
)
def test_no_minority_no_culprit(picture: dict[int, tuple[float, float]]) -> None:
    verdict = stalled(samples([(10, MOVING), (40, picture)]))
    assert (culprits(verdict), verdict.progress.value) == ([], "stopped")


def test_without_counters_or_with_one_sample_the_plane_accuses_nobody() -> None:
    assert culprits(stalled(samples([(10, MOVING), (40, ONE_IDLE)], counters=False))) == []
    assert culprits(verdict_of([instance(), samples([(1, ONE_IDLE)])])) == []


def test_a_gap_in_the_samples_does_not_hide_the_stop() -> None:
    whole = samples([(10, MOVING), (40, ONE_IDLE)])
    kept = [line for line in whole.data.splitlines() if not T0 + 15 < json.loads(line)["time"] < T0 + 40]
    assert culprits(stalled(Blob(whole.path, b"\n".join(kept)))) == [2]


@pytest.mark.parametrize("listed", [True, False])
def test_samples_that_go_on_after_all_was_taken_down(listed: bool) -> None:
    """The picture is that of the stop, not of the empty machine afterwards."""
    gpus = samples([(10, MOVING), (30, ONE_IDLE), (40, dict.fromkeys(ALL, IDLE))])
    if listed:
        gpus = edited(gpus, T0 + 40, ALL, pids=[])
        exits: dict[int, tuple[int, float | None]] = dict.fromkeys(ALL, (-15, None))
    else:
        gpus = edited(gpus, T0, ALL, pids=None)
        exits = dict.fromkeys(ALL, (-15, T0 + 40))
    assert culprits(stalled(gpus, exits)) == [2]


def test_a_process_that_left_its_gpu_before_the_others_spun_is_lost() -> None:
    gpus = edited(samples([(10, MOVING), (40, ONE_IDLE)]), T0 + 10.5, (2,), pids=[])
    verdict = stalled(gpus)
    assert (verdict.class_.value, culprits(verdict)) == ("process_or_device_lost", [2])
    both = stalled(gpus, {2: (-9, T0 + 10.4)})
    assert both.subclass is not None
    assert (both.subclass.value, both.confidence and both.confidence.value, culprits(both)) == (
        "killed",
        "confirmed",
        [2],
    )


def test_victims_that_leave_later_are_not_lost() -> None:
    """The frozen rank's process outlives those that their watchdogs took down."""
    gpus = edited(samples([(10, MOVING), (40, ONE_IDLE)]), T0 + 35, (0, 1, 3), pids=[])
    assert culprits(stalled(gpus)) == [2]


def test_load_without_any_traffic_may_wait_for_nobody() -> None:
    """Replicas of one GPU each compute without links; the idle one has no request."""
    assert culprits(verdict_of([instance(), samples([(40, ONE_IDLE)])])) == []
    busy = verdict_of([instance(), *steady_pages(T0, 40), samples([(40, ONE_IDLE)])])
    assert busy.class_.value == "healthy"
    collected_late = verdict_of([instance(), *flat_pages(T0, 40, 1000), samples([(40, ONE_IDLE)])])
    assert culprits(collected_late) == [2], "the engine shows the stop that the samples are too young for"


def test_the_words_hold_for_what_was_measured() -> None:
    busy = stalled(samples([(10, MOVING), (40, dict.fromkeys(ALL, (96.0, 0.0)))]))
    assert "GPU at 96 %" in said(busy)
    assert "all GPUs with samples spin" in said(busy)
    one_foreign = stalled(samples([(10, MOVING), (40, SPINNING)], pids={1: [pid(1), 99]}))
    assert "all GPUs with samples spin" not in said(one_foreign)
    assert "all GPUs whose samples tell spin" in said(one_foreign)
