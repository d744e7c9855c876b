"""The kernel log is the node's: an Xid of another instance's GPU is not ours, and one of ours has a rank."""

from __future__ import annotations

from dataclasses import replace

from build_looks import Watched, sample

from rankmuster.evidence import kernel_log
from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.model import Judgement

HARDWARE = frozenset({Plane.HARDWARE})


def after_an_xid(bus: str) -> tuple[Watched, Judgement]:
    """GPUs that rest, known by UUID as a watch knows them, and what the kernel says of one."""
    watched = Watched(HARDWARE)
    moved = 0.0
    for number in range(20):
        moved += 5e6 if number < 6 else 0.0
        if number == 10:
            line = f"[ 1000.0] NVRM: Xid (PCI:{bus}): 79, pid=9999, name=python3, GPU has fallen off the bus.\n"
            for xid in kernel_log.READER.read(Blob("kernel/dmesg.txt", line.encode())).observations:
                watched.window.feed(watched.now, watched.wall, xid, Plane.KERNEL)
        load = 90.0 if number < 6 else 0.0
        told = watched(*(replace(sample(watched.wall, gpu, load, moved), bus_id=f"0000:1{gpu}:00") for gpu in range(4)))
    return watched, told


def test_a_gpu_that_no_rank_uses_stops_nobody() -> None:
    watched, _ = after_an_xid("0000:aa:00")
    assert "stopped" not in watched.events


def test_the_rank_whose_gpu_it_was_is_named() -> None:
    _, told = after_an_xid("0000:12:00")
    assert told.state is Progress.STOPPED
    assert 2 in [one.rank for one in told.suspects if one.role.value == "culprit"]
