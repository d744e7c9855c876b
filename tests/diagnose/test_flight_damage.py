"""A damaged dump among sound ones ends in a verdict, never in an error, and in nobody's false conviction."""

from __future__ import annotations

from build_flight import blobs, culprits, dumps, one_group, parallel
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather

PARTS = blobs(dumps(parallel(2, 2, 1, stops={2: 16}, timing=True)), json_ranks=(1,))
FLIPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6)


@given(st.integers(0, 3), FLIPS, st.floats(0.05, 1))
@settings(max_examples=120, deadline=None)
def test_flipped_and_cut_dumps_still_end_in_a_verdict(rank: int, flips: list[tuple[float, int]], share: float) -> None:
    data = bytearray(PARTS[rank].data)
    for place, byte in flips:
        data[int(place * len(data))] = byte
    broken = Blob(PARTS[rank].path, bytes(data[: int(share * len(data))]))
    diagnose(gather([*PARTS[:rank], broken, *PARTS[rank + 1 :]]))


def test_a_dump_cut_in_half_is_no_rank_that_fell_behind() -> None:
    """What is missing at the end of a cut file was written and lost."""
    parts = blobs(dumps(one_group(4, 40, breaks=dict.fromkeys(range(4), 30))))
    cut = Blob(parts[1].path, parts[1].data[: len(parts[1].data) // 2])
    assert culprits(diagnose(gather([parts[0], cut, *parts[2:]]))) == []


def test_a_cut_dump_hides_neither_another_culprit_nor_its_own_outstanding_operation() -> None:
    parts = blobs(dumps(one_group(4, 40, stops={2: 30})))
    cut = Blob(parts[1].path, parts[1].data[: len(parts[1].data) // 2])
    assert culprits(diagnose(gather([parts[0], cut, *parts[2:]]))) == [2]


def test_a_dump_of_which_nothing_can_be_read_is_not_an_absent_one() -> None:
    """The process wrote it: whatever ails the rank, it was there to dump."""
    parts = blobs(dumps(one_group(4, 40, breaks=dict.fromkeys(range(4), 30))))
    for left in (b"", parts[1].data[:30]):
        found = diagnose(gather([parts[0], Blob(parts[1].path, left), *parts[2:]]))
        assert culprits(found) == []
