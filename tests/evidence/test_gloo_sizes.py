"""gloo's assertion on the size of a message, as torch 2.13 prints it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rankmuster.evidence import gloo_sizes
from rankmuster.evidence.blob import Blob

LINE = (
    "  what():  [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:456] "
    "op.preamble.length <= op.nbytes. 500 vs 8. Received data size doesn't match expected size. Is there a distributed "
    "collective mismatch in your code?\n"
)
TEXT = f"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n{LINE}[rank3]: Traceback\n".encode()


def test_both_sizes_are_read_and_the_rank_of_a_log_of_its_own() -> None:
    [found] = gloo_sizes.read(Blob("logs/rank2.log", TEXT)).observations
    assert (found.sent, found.room, found.origin.rank, found.origin.line) == (500, 8, 2, 2)  # type: ignore[attr-defined]
    [found] = gloo_sizes.read(Blob("logs/run.log", TEXT)).observations
    assert found.origin.rank is None  # type: ignore[attr-defined]


def test_other_failures_of_gloo_are_not_taken_for_it() -> None:
    other = TEXT.replace(b"op.preamble.length <= op.nbytes", b"rank < size")
    assert gloo_sizes.read(Blob("logs/run.log", other)).observations == ()


@given(st.integers(0, len(TEXT)), st.binary(max_size=20))
def test_no_bytes_raise(cut: int, more: bytes) -> None:
    gloo_sizes.read(Blob("logs/run.log", TEXT[:cut] + more))
    gloo_sizes.read(Blob("logs/run.log", TEXT[:cut] + more + TEXT[cut:]))
