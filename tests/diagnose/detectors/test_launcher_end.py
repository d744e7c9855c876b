"""How a group ended as its supervisor saw it: a lost launcher, a told end, one's own end; and gloo's word on sizes."""

from __future__ import annotations

import json
from typing import Any

from build_evidence import T0, instance, pid, said, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.verdict import Role, Verdict

UNDECIDED = (FaultClass.INCONCLUSIVE, FaultClass.BLIND)

GLOO = (
    "  what():  [enforce fail at /gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 500 vs 8. Received "
    "data size doesn't match expected size. Is there a distributed collective mismatch in your code?\n"
)


def ended(code: int | None, **more: Any) -> Blob:
    launcher = {"pid": 4999, "name": "torchrun", "exit_code": code, "exited_at": T0 + 5}
    document = {"schema": "rankmuster.supervisor/1", "ended": True, "ended_by": "", "launcher": launcher, "log": "/l"}
    return Blob("platform/supervisor.json", json.dumps({**document, **more}).encode())


def gone(world: int = 4) -> Blob:
    """Ranks of which nobody knows how they ended."""
    processes = [{"rank": rank, "pid": pid(rank), "host": "node7", "state": "X"} for rank in range(world)]
    return Blob(
        "instance.json", json.dumps({"instance": "llm-0", "world_size": world, "processes": processes}).encode()
    )


def torchrun(code: int, rank: int) -> str:
    return (
        f"E1130 10:00:00.000000 4999 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) "
        f"local_rank: {rank} (pid: {pid(rank)}) of binary: /usr/bin/python3\n"
    )


def accused(verdict: Verdict) -> list[int | None]:
    return [one.rank for one in verdict.suspects if one.role in (Role.CULPRIT, Role.SUSPECT)]


def test_a_killed_launcher_is_the_loss_and_no_rank_is() -> None:
    verdict = verdict_of([gone(), ended(-9, members=[{"pid": pid(0), "rank": 0, "signalled": 15}])])
    assert (verdict.class_, verdict.subclass) == (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED)
    assert accused(verdict) == []
    assert "ended by itself: SIGKILL; 1 process of it lived on" in said(verdict)


def test_a_rank_that_ended_before_its_launcher_was_killed_is_not_excused_by_it() -> None:
    verdict = verdict_of([instance(exits={2: (-9, T0 + 3)}), ended(-9)])
    assert accused(verdict) == [2]
    assert "Rank 2 had ended before" in said(verdict)


def test_sigterm_from_outside_is_nobodys_fault_inside() -> None:
    verdict = verdict_of([gone(), ended(-15)])
    assert verdict.class_ in UNDECIDED
    assert "was told to end by SIGTERM, and not by its supervisor: somebody outside did that" in said(verdict)
    words = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4999 got signal: 15\n"
    trace = f'Traceback (most recent call last):\n  File "/x.py", line 1, in <module>\n    main()\n{words}'
    verdict = verdict_of([gone(), ended(1), Blob("logs/run.log", trace.encode())])
    assert verdict.class_ in UNDECIDED
    assert "was told to end by SIGTERM" in said(verdict)


def test_who_asked_for_the_end_is_told() -> None:
    verdict = verdict_of([gone(), ended(-15, ended_by="whoever asked for i1/terminate/group")])
    assert verdict.class_ in UNDECIDED
    assert accused(verdict) == []
    assert "The group was ended by whoever asked for i1/terminate/group" in said(verdict)


def test_an_end_with_a_status_needs_the_launchers_words() -> None:
    assert "what it wrote is in no file" in said(verdict_of([gone(), ended(1, log=None)]))
    verdict = verdict_of([gone(), ended(1), Blob("logs/run.log", torchrun(-9, 2).encode())])
    assert (verdict.class_, verdict.subclass) == (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED)
    assert accused(verdict) == [2]


def test_an_incarnation_that_is_not_over_says_nothing() -> None:
    assert "launcher" not in said(verdict_of([gone(), ended(-9, ended=False)])).lower()


def test_a_message_that_does_not_fit_is_a_mismatch_and_its_receiver_only_suspect() -> None:
    log = Blob("logs/run.log", (GLOO + torchrun(-6, 2)).encode())
    verdict = verdict_of([gone(), ended(1), log])
    assert (verdict.class_, verdict.subclass) == (FaultClass.COLLECTIVE_DESYNC, Subkind.SIZE_MISMATCH)
    assert [(one.rank, one.role) for one in verdict.suspects if one.role is not Role.VICTIM] == [(2, Role.SUSPECT)]
    assert "received 500 bytes where the call that waited had room for 8" in said(verdict)


def test_an_abort_alone_accuses_nobody() -> None:
    verdict = verdict_of([gone(), ended(1), Blob("logs/run.log", torchrun(-6, 2).encode())])
    assert verdict.class_ in UNDECIDED
