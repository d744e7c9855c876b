"""Stacks explain the rank that is named, and name nobody by themselves."""

from __future__ import annotations

from build_evidence import culprits, instance, pid, said, verdict_of
from build_flight import blobs, dumps, one_group, without

from rankmuster.diagnose.context import build
from rankmuster.diagnose.detectors.culprit_stacks import explain
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.fault import FaultClass
from rankmuster.model.frameworklog import LineOrigin, ThreadStack

PY_SPY = """Process {pid}: python3 serve.py
Python v3.12.3 (/usr/bin/python3.12)

Thread {pid} (active): "MainThread"
    read (ssl.py:1106)
    fetch_prompt (frontend.py:88)
    step (serve.py:41)
"""


def stack(rank: int) -> Blob:
    return Blob(f"logs/stacks-rank{rank}.txt", PY_SPY.format(pid=pid(rank)).encode())


def test_the_verdict_says_where_the_culprit_was() -> None:
    world = without(one_group(4), 2, 30)
    verdict = verdict_of([instance(), *blobs(dumps(world)), stack(2), stack(0)])
    if culprits(verdict) == [2]:
        assert "Rank 2's stack (py-spy): it is in no collective: read (ssl.py:1106) < fetch_prompt" in said(verdict)
        assert "Rank 0's stack" not in said(verdict)
    else:
        raise AssertionError(f"rank 2 is not named: {verdict.summary}")


def test_a_stack_alone_accuses_nobody() -> None:
    verdict = verdict_of([instance(), stack(2)])
    assert verdict.class_ in (FaultClass.INCONCLUSIVE, FaultClass.BLIND)
    assert verdict.suspects == ()


def test_a_rank_within_a_collective_is_said_to_wait() -> None:
    text = PY_SPY.format(pid=pid(2)).replace("read (ssl.py:1106)", "all_reduce (distributed_c10d.py:3068)")
    world = without(one_group(4), 2, 30)
    told = said(verdict_of([instance(), *blobs(dumps(world)), Blob("logs/stacks-rank2.txt", text.encode())]))
    assert "it waits for other ranks or for its GPU: all_reduce" in told
    assert "of its own" not in told


def test_torchs_stack_tells_where_the_operation_was_called_and_not_where_the_rank_is() -> None:
    torch = ("all_reduce (/x/torch/distributed/distributed_c10d.py:3068)", "wrapper (/x/torch/distributed/log.py:83)")
    frames = (*torch, "layers (/opt/engine/worker.py:55)", "step (/opt/engine/worker.py:92)")
    origin = LineOrigin("logs/rank2.log", 7, 2, None, None, None)
    evidence = Evidence({ThreadStack: (ThreadStack(origin, "collective", frames, "torch"),)})
    (finding,) = explain(build(evidence, DEFAULTS), (2,))
    assert "the all_reduce that timed out was called in layers (/opt/engine/worker.py:55) < step" in finding.statement


def test_where_no_stack_could_be_taken_the_kernels_view_is_shown() -> None:
    text = (
        f"# the kernel's view of pid {pid(2)} (python), 2 tasks\n# no Python stacks: py-spy is not installed\n"
        f"task {pid(2)} 'python' state=D wchan=nvidia_ioctl syscall=16\ntask 9 'x' state=S wchan=futex syscall=202\n"
    )
    world = without(one_group(4), 2, 30)
    verdict = verdict_of([instance(), *blobs(dumps(world)), Blob(f"logs/stacks-{pid(2)}.txt", text.encode())])
    assert culprits(verdict) == [2]
    assert "Rank 2 as the kernel sees it: its main thread (state D) waits in nvidia_ioctl" in said(verdict)
    assert verdict.unread == ()
