"""Calls that torch compared: two that differ convict nobody, a majority shows who is odd."""

from __future__ import annotations

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Role, Subkind
from rankmuster.model.verdict import Verdict


def message(one: int, other: int, shapes: dict[int, str], seq: int = 7) -> str:
    sides = [
        f"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, "
        f"TensorShape=[{shapes[rank]}], TensorDtypes=Float, TensorDeviceTypes=x)"
        for rank in (one, other)
    ]
    told = f"[rank{one}]: RuntimeError: Detected mismatch between collectives on ranks. {sides[0]}), but {sides[1]}).\n"
    return f'[rank{one}]: Traceback (most recent call last):\n[rank{one}]:   File "a.py", line 1, in <module>\n{told}'


def verdict(text: str) -> Verdict:
    return diagnose(gather([Blob("all.log", text.encode())])).verdict


def culprits(found: Verdict) -> list[int | None]:
    return [suspect.rank for suspect in found.suspects if suspect.role is Role.CULPRIT]


def test_two_ranks_that_differ_are_both_under_suspicion() -> None:
    found = verdict(message(0, 1, {0: "8", 1: "9"}))
    assert (found.class_, found.subclass) == (FaultClass.COLLECTIVE_DESYNC, Subkind.SIZE_MISMATCH)
    assert culprits(found) == []
    assert {suspect.rank for suspect in found.suspects} == {0, 1}


def test_the_one_that_differs_from_all_others_is_the_culprit() -> None:
    shapes = {0: "8", 1: "8", 2: "9", 3: "8"}
    found = verdict("".join(message(rank, 2, shapes) for rank in (0, 1, 3)))
    assert culprits(found) == [2]
    assert found.first_divergence is not None
    assert (found.first_divergence.sequence, found.first_divergence.op) == (7, "all_reduce")
