"""torch's comparison of calls: both sides of the message, in the forms of several releases."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.torch_fingerprint import READER
from rankmuster.model.frameworklog import CollectiveFingerprint

FULL = (
    "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[20, 10], TensorDtypes=Float, TensorDeviceTypes="
    "TensorOptions(dtype=float (default), device=cuda)), but Rank 2 is running collective: CollectiveFingerPrint("
    "SequenceNumber=7, OpType=REDUCE, TensorShape=[20, 10], TensorDtypes=Half, TensorDeviceTypes=x)).\n"
)


def read(text: str) -> list[CollectiveFingerprint]:
    return [x for x in READER.read(Blob("a.log", text.encode())).observations if isinstance(x, CollectiveFingerprint)]


def test_both_sides_are_read() -> None:
    one, other = read(FULL)
    assert (one.rank, one.seq, one.op, one.shape, one.dtype) == (1, 7, "ALLREDUCE", "20, 10", "Float")
    assert (other.rank, other.seq, other.op, other.dtype) == (2, 7, "REDUCE", "Half")
    assert one.pair == other.pair
    assert one.origin.rank == 1


def test_the_short_second_side_of_torch_2_0_is_read() -> None:
    text = (
        FULL.partition(", but Rank 2")[0]
        + ", but Rank 7 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE).\n"
    )
    _, other = read(text)
    assert (other.rank, other.op, other.shape) == (7, "REDUCE", None)


def test_the_bare_second_side_of_torch_1_is_read() -> None:
    text = FULL.partition(", but Rank 2")[0] + ", but Rank 1 is running collective: REDUCE.\n"
    assert read(text)[1].op == "REDUCE"


def test_a_message_told_twice_is_one() -> None:
    assert len(read(FULL * 3)) == 2
