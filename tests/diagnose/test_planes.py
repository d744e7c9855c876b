"""What each plane is said to have done: spoken, been silent (with the reason), or blind to what matters."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    even,
    instance,
    pid,
    ras_error,
    ras_json,
    ras_text,
    samples,
    sglang_old_page,
    steady_pages,
    verdict_of,
    vllm_page,
)

from rankmuster.evidence.blob import Blob

ALL = (0, 1, 2, 3)


def plane(blobs: Iterable[Blob], name: str) -> tuple[str, str]:
    row = next(row for row in verdict_of([instance(), *blobs]).planes if row.plane.value == name)
    return row.state.value, row.note


@pytest.mark.parametrize("name", ["ras", "flight", "nccl-log", "framework-log", "kernel", "hardware", "engine"])
def test_a_plane_without_evidence_is_silent(name: str) -> None:
    assert plane([], name)[0] == "silent"


def test_ras_that_was_asked_in_vain_is_silent_and_one_that_fell_silent_says_so() -> None:
    state, note = plane([ras_error(T0 + 5), ras_error(T0 + 15)], "ras")
    assert (state, "2 times" in note) == ("silent", True)
    state, note = plane([ras_text(T0, Comm(ALL, even(ALL, 600))), ras_error(T0 + 15)], "ras")
    assert (state, "1 more was not answered" in note) == ("spoke", True)


def test_ras_before_any_communicator_is_blind() -> None:
    assert plane([ras_json(T0 + t, []) for t in (5, 15)], "ras")[0] == "blind"


def test_hardware_without_counters_is_silent() -> None:
    assert plane([samples([(20, dict.fromkeys(ALL, SPIN))], counters=False)], "hardware")[0] == "silent"


def test_foreign_work_silences_the_gpus_it_runs_on() -> None:
    shared = {rank: [pid(rank), 99] for rank in ALL}
    assert plane([samples([(20, dict.fromkeys(ALL, IDLE))], pids=shared)], "hardware")[0] == "silent"
    one = plane([samples([(20, dict.fromkeys(ALL, MOVE))], pids={2: shared[2]})], "hardware")
    assert one[0] == "spoke"
    assert "silent for rank 2" in one[1]


def test_an_engine_whose_counters_move_at_the_end_of_requests_is_blind_to_a_stop() -> None:
    assert plane([sglang_old_page(T0 + i, 5000) for i in range(20)], "engine")[0] == "blind"
    assert plane(steady_pages(T0, 20), "engine")[0] == "spoke"


def test_pages_that_say_little_say_why() -> None:
    assert "no progress" in plane([vllm_page(T0, 1000)], "engine")[1]
    assert "before the end" in plane([*steady_pages(T0, 10), ras_json(T0 + 60, [Comm(ALL, even(ALL, 1))])], "engine")[1]
    assert plane([Blob("page.prom", vllm_page(T0, 1000).data)], "engine")[0] == "silent"


def test_a_plane_that_was_asked_in_vain_gives_its_collectors_reason() -> None:
    manifest = Blob(
        "manifest.json",
        b'{"schema": "rankmuster.bundle/1", "collectors": {"ras": "connection refused.", "engine": "answered"}}',
    )
    state, note = plane([manifest], "ras")
    assert (state, note) == (
        "silent",
        "asked in vain, its collector says: connection refused (no RAS reply in the evidence)",
    )
    assert "asked in vain" not in plane([manifest], "engine")[1]


def test_a_plane_that_its_collector_did_not_ask_says_why_not() -> None:
    document = {
        "schema": "rankmuster.bundle/1",
        "collectors": {
            "ras@n0": {"outcome": "declined", "note": "NCCL 2.28.9 can crash when asked, and no stop is confirmed."},
            "engine": {"outcome": "timed_out", "note": "http://127.0.0.1:8000/metrics did not answer within 3 s"},
            "flight": {"outcome": "partial", "note": "rank 3 left none"},
        },
    }
    manifest = Blob("manifest.json", json.dumps(document).encode())
    assert plane([manifest], "ras") == (
        "silent",
        "not asked: NCCL 2.28.9 can crash when asked, and no stop is confirmed (no RAS reply in the evidence)",
    )
    assert "did not answer within 3 s" in plane([manifest], "engine")[1]
    assert "rank 3" not in plane([manifest], "flight")[1]
