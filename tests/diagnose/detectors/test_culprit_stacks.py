"""Stacks explain the rank that is named, and name nobody by themselves."""

from __future__ import annotations

from build_evidence import culprits, instance, pid, said, verdict_of
from build_flight import blobs, dumps, one_group, without

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import FaultClass

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
