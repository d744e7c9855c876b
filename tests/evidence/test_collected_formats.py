"""What `collect` writes beside replies and logs is known to `diagnose`: nothing of it stays unread."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.node import KernelTask, TaskState
from rankmuster.model.problem import ProblemKind
from rankmuster.model.ras_asking import RasDiagnostic, RasQuery

PROBE = json.dumps(
    {
        "schema": "rankmuster.ras-query/1",
        "asked_at": "localhost:28028",
        "nccl": {"releases": ["2.28.9"], "found_in": []},
        "probe": {"releases": "2.28.7 to 2.28.9", "answers": [["SET FORMAT json", "OK"]]},
        "decisions": [
            {"at": 1.0, "action": "wait_for_stop", "reason": "not yet", "hazards": []},
            {"at": 2.0, "action": "ask", "reason": "a stop is confirmed", "hazards": ["job: STATUS can hang it"]},
        ],
        "attempts": [
            {"address": "127.0.0.1:28028", "met": "silent", "at": 1795986510.0, "seconds": 1.0, "detail": ""},
            {"address": "127.0.0.1:28028", "met": "ras", "at": 1795986511.0, "seconds": 0.1, "detail": ""},
        ],
        "polls": [],
        "replies_of_another_job": [{"at": 1.0, "reply": "NCCL version 2.28.9 compiled with CUDA 13.0"}],
        "outcome": "done: 2 reports",
    },
    indent=1,
).encode()

DIAGNOSTICS = b"""=== RAS Diagnostics ===
node7:71 NCCL DIAG [OK]   GPU inventory: 8x NVIDIA H200 per node consistent across 8 ranks in comm 0x1234
node7:71 NCCL DIAG [INFO] NCCL environment: mismatch across 8 ranks in comm 0x1234 for NCCL_ALGO
node7:71 NCCL DIAG [INFO] NCCL environment: NCCL_ALGO=Ring on rank(s) {0,1,...} (N=7)
RAS diagnostics completed in 12.1 ms across 8 RAS peers
"""

TASKS = b"""# the kernel's view of pid 77 (python), 3 tasks
# no Python stacks: py-spy is not installed
task 77 'python' state=D wchan=nvidia_ioctl syscall=16
    [<0>] nv_foo+0x1/0x2
    [<0>] do_syscall_64+0x5/0x9
task 78 "it's" state=S wchan=futex_wait_queue syscall=202
task 79 'pt_autograd_0' state=R wchan=0 syscall=running
"""


def test_the_record_of_asking_ras() -> None:
    evidence = gather([Blob("ras/probe.json", PROBE)])
    assert evidence.problems == ()
    (query,) = evidence.of(RasQuery)
    assert (query.decision, query.reason) == ("ask", "a stop is confirmed")
    assert query.releases == ("2.28.7 to 2.28.9",)
    assert [attempt.met for attempt in query.attempts] == ["silent", "ras"]
    assert query.attempts[0].at == 1795986510.0
    assert query.foreign_replies == 1


def test_a_query_that_found_nobody() -> None:
    document = {"schema": "rankmuster.ras-query/1", "asked_at": "", "nccl": {}, "probe": None, "outcome": "nothing"}
    (query,) = gather([Blob("ras/probe.json", json.dumps(document).encode())]).of(RasQuery)
    assert (query.address, query.decision, query.attempts, query.releases) == (None, None, (), ())


@pytest.mark.parametrize("bad", [{"decisions": 7}, {"attempts": [3, {"met": "silent"}, {"met": [], "address": "a"}]}])
def test_fields_of_the_wrong_kind_cost_themselves(bad: dict[str, object]) -> None:
    document = {"schema": "rankmuster.ras-query/1", "asked_at": "x", **bad}
    (query,) = gather([Blob("ras/probe.json", json.dumps(document).encode())]).of(RasQuery)
    assert (query.address, query.attempts) == ("x", ())


def test_diagnostics_line_by_line() -> None:
    evidence = gather([Blob("ras/diagnostics-1795986510.000.txt", DIAGNOSTICS)])
    assert evidence.problems == ()
    lines = evidence.of(RasDiagnostic)
    assert [line.well for line in lines] == [True, False, False]
    assert (lines[1].host, lines[1].pid, lines[1].line) == ("node7", 71, 3)
    assert lines[1].text.startswith("NCCL environment: mismatch across 8 ranks")


def test_diagnostics_without_an_end_are_cut() -> None:
    evidence = gather([Blob("d.txt", DIAGNOSTICS[: DIAGNOSTICS.index(b"RAS diagnostics completed")])])
    assert len(evidence.of(RasDiagnostic)) == 3
    assert [problem.kind for problem in evidence.problems] == [ProblemKind.DAMAGED]


def test_the_kernels_view_of_threads() -> None:
    evidence = gather([Blob("logs/stacks-77-rank_2.txt", TASKS)])
    assert evidence.problems == ()
    main, named, running = evidence.of(KernelTask)
    assert (main.rank, main.pid, main.tid, main.main) == (2, 77, 77, True)
    assert (main.state, main.wait_channel, main.system_call) == (TaskState.UNINTERRUPTIBLE, "nvidia_ioctl", 16)
    assert main.frames == ("nv_foo+0x1/0x2", "do_syscall_64+0x5/0x9")
    assert (named.name, named.main, named.frames) == ("it's", False, ())
    assert (running.wait_channel, running.system_call) == (None, None)


@pytest.mark.parametrize("data", [PROBE, DIAGNOSTICS, TASKS])
@pytest.mark.parametrize("spoil", [lambda cut: cut, lambda cut: cut + b"\0\xff{[", lambda cut: cut[::-1]])
def test_damage_is_survived(data: bytes, spoil: Callable[[bytes], bytes]) -> None:
    for end in range(1, len(data), 7):
        evidence = gather([Blob("ras/x", spoil(data[:end]))])
        assert not [problem for problem in evidence.problems if "failed on it" in problem.message]


def test_each_process_of_one_file_has_a_main_thread() -> None:
    evidence = gather(
        [Blob("logs/stacks.txt", TASKS + TASKS.replace(b"pid 77", b"pid 80").replace(b"task 7", b"task 8"))]
    )
    assert [(task.pid, task.tid) for task in evidence.of(KernelTask) if task.main] == [(77, 77), (80, 87)]
