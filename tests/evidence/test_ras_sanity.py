"""A reply is disbelieved for what cannot be, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankmuster.evidence.ras_sanity import MAX_REASONS, corruption, is_bogus_zero
from rankmuster.model.ras import RasCommunicator, RasGroup, RasMajority, RasMissingRank, RasPoll, RasProcess, RasRank

SOUND = RasPoll(
    source="r.txt",
    time=None,
    node=None,
    form="text",
    processes_total=4,
    gpus_total=4,
    groups=(RasGroup(0, 1, 4, 3, "RUNNING", ("INCOMPLETE",)),),
    communicators=(
        RasCommunicator(
            hash=0x55AF3AE9081D7FB3,
            size=4,
            ranks=(RasRank(1, "10.0.0.1", 11, counts={"AllReduce": 603}),),
            missing=(RasMissingRank(3, None, None),),
            missing_count=1,
            majorities={"AllReduce": (RasMajority(604, 2),)},
        ),
    ),
    missing_process_count=1,
)


def with_communicator(**changes: object) -> RasPoll:
    return replace(SOUND, communicators=(replace(SOUND.communicators[0], **changes),))  # type: ignore[arg-type]


def test_a_sound_reply_is_believed() -> None:
    assert corruption(SOUND) == ()


def test_a_job_of_which_everything_is_dead_or_missing_is_believed() -> None:
    lost = with_communicator(ranks=(), majorities={}, missing=(), missing_count=4)
    assert corruption(replace(lost, missing_process_count=1, dead_process_count=3)) == ()


def test_a_process_may_drive_several_gpus() -> None:
    big = with_communicator(size=None, missing=(), missing_count=16)
    assert corruption(replace(big, processes_total=2, gpus_total=16)) == ()
    assert corruption(replace(big, processes_total=2, gpus_total=None)) == ()


@pytest.mark.parametrize(
    "poll",
    [
        with_communicator(missing_count=771),
        with_communicator(size=None, missing_count=511),
        with_communicator(missing=(RasMissingRank(-1, None, None),)),
        with_communicator(missing=(RasMissingRank(4, None, None),)),
        with_communicator(size=None, missing=(RasMissingRank(1900544012, None, None),)),
        with_communicator(missing=(RasMissingRank(3, "0.0.0.0", 0),)),
        with_communicator(hash=0xB3D5000200000001),
        with_communicator(hash=0x0000000A00000003),
        with_communicator(size=-3),
        with_communicator(majorities={"AllReduce": (RasMajority(604, 9),)}),
        with_communicator(majorities={"AllReduce": (RasMajority(-5, 2),)}),
        with_communicator(ranks=(RasRank(1, None, None, counts={"AllReduce": 1 << 60}),)),
        replace(SOUND, missing_process_count=5),
        replace(SOUND, missing_processes=(RasProcess("0.0.0.0", 0),)),
        replace(SOUND, groups=(RasGroup(1, 3, 0, 0, "NOCOMM", ("INCOMPLETE", "MISMATCH")),)),
        replace(SOUND, groups=(RasGroup(0, 1, 4, 5, "RUNNING", ()),)),
    ],
)
def test_what_cannot_be_is_named(poll: RasPoll) -> None:
    assert corruption(poll)


def test_an_empty_summary_bounds_nothing() -> None:
    # A job in init says 0 processes, and a communicator may appear while the reply is put together.
    assert corruption(replace(SOUND, processes_total=0, gpus_total=0)) == ()


def test_the_reasons_stay_readable() -> None:
    many = tuple(RasMissingRank(-i, None, None) for i in range(1, 1000))
    assert len(corruption(with_communicator(missing=many))) == MAX_REASONS + 1


def test_only_an_entry_without_hash_and_size_is_a_bogus_one() -> None:
    assert is_bogus_zero(0, 0)
    assert not is_bogus_zero(0, 4)
    assert not is_bogus_zero(5, 0)
