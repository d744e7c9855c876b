"""The trace opens in Perfetto: sorted, nesting, named, and honest about what the slices are."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

from rankmuster.model.job import Job
from rankmuster.model.verdict import Verdict
from rankmuster.report.perfetto import render


def trace(verdict: Verdict, job: Job) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    read = json.loads(render(verdict, job))
    return read["traceEvents"], read["otherData"]


def test_times_are_sorted_and_never_negative(verdict: Verdict, job: Job) -> None:
    events, about = trace(verdict, job)
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    assert min(event["ts"] for event in timed) >= 0
    assert min(event["dur"] for event in timed if event["ph"] == "X") >= 0
    assert about["start_unix_s"] == verdict.window.start


def test_slices_on_one_track_only_nest_or_perfetto_drops_them(verdict: Verdict, job: Job) -> None:
    events, about = trace(verdict, job)
    tracks: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        open_ends: list[float] = []
        for start, end in spans:
            while open_ends and open_ends[-1] <= start + 1e-6:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-6
            open_ends.append(end)
    assert sum(len(spans) for spans in tracks.values()) == sum(len(dump.columns) for dump in job.dumps.values())
    assert about["operations_left_out"] == 0


def test_every_rank_is_a_named_process_and_the_culprit_says_so(verdict: Verdict, job: Job) -> None:
    events, _ = trace(verdict, job)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [names[rank + 1].split(" host")[0] for rank in range(4)] == [
        "rank 0 (victim)",
        "rank 1 (victim)",
        "rank 2 (culprit)",
        "rank 3 (victim)",
    ]
    threads = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in events if event["ph"] == "X"} <= threads
    owners = {(event["tid"], event["pid"]) for event in events if event["ph"] == "X"}
    assert len(owners) == len({tid for tid, _ in owners})


def test_outstanding_operations_run_to_the_look_and_are_marked(verdict: Verdict, job: Job) -> None:
    events, about = trace(verdict, job)
    waiting = [event for event in events if event.get("cat") == "outstanding"]
    assert {event["pid"] for event in waiting} == {1, 2, 4}
    assert len(waiting) == 15
    for event in waiting:
        look = job.dump_facts[event["pid"] - 1].look
        assert look is not None
        assert abs(event["ts"] + event["dur"] - (look - about["start_unix_s"]) * 1e6) < 1
        assert event["name"].startswith("OUTSTANDING all_reduce #")
    assert "not kernel time" in about["slices"]


def test_findings_stand_where_their_evidence_is(verdict: Verdict, job: Job) -> None:
    events, about = trace(verdict, job)
    instants = {event["name"]: event for event in events if event["ph"] == "i"}
    fault = instants["fault: collective_desync/missing_enter"]
    assert verdict.window.fault_at is not None
    at = (verdict.window.fault_at - about["start_unix_s"]) * 1e6
    assert abs(fault["ts"] - at) < 1
    assert abs(instants["finding 2: missing_enter"]["ts"] - at) < 1  # rank 0 enqueued #751 then
    assert "no time" in instants["finding 1: gpu_idle"]["args"]["time_from"]


def test_counters_of_gpus_and_engine_are_there(verdict: Verdict, job: Job) -> None:
    events, _ = trace(verdict, job)
    counters = {(event["pid"], event["name"]) for event in events if event["ph"] == "C"}
    assert {
        (3, "GPU utilisation"),
        (3, "link rate"),
        (1_000_000, "tokens"),
        (1_000_000, "requests running"),
    } <= counters


def test_nothing_known_is_still_a_trace(blind_verdict: Verdict, empty_job: Job) -> None:
    events, about = trace(blind_verdict, empty_job)
    assert events == []
    assert about["verdict"] == "blind"


def test_operations_before_the_window_do_not_get_negative_times(verdict: Verdict, job: Job) -> None:
    assert verdict.window.end is not None
    late = replace(verdict.window, start=verdict.window.end, fault_at=None)
    events, _ = trace(replace(verdict, window=late), replace(job, window=(None, None)))
    assert min(event["ts"] for event in events) >= 0
    assert sum(event["ph"] == "X" and event["ts"] == 0 for event in events) <= 4
