"""`serving` and `init` are said only where something shows them."""

from __future__ import annotations

from build_evidence import T0, instance, kernel, log, steady_pages, verdict_of, watchdog

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Phase


def starting(rank: int) -> Blob:
    text = (
        f"h0:10{rank}:20{rank} [0] NCCL INFO ncclCommInitRank comm 0x{rank + 1}00 rank {rank} nranks 4 cudaDev 0 "
        "nvmlDev 0 busId 1b000 commId 0x21ec978f9c50f662 - Init START\n"
    )
    return Blob(f"nccl/rank{rank}.log", text.encode())


def test_without_any_sign_of_either_the_phase_is_unknown() -> None:
    assert verdict_of([instance()]).phase is None
    assert (
        verdict_of([kernel("[1.5] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.")]).phase is None
    )


def test_work_that_was_seen_is_serving() -> None:
    assert verdict_of([instance(), *steady_pages(T0, 20)]).phase is Phase.SERVING
    assert verdict_of([log("rank0.log", watchdog(0, T0))]).phase is Phase.SERVING


def test_an_init_that_some_wait_in_is_init() -> None:
    assert verdict_of([instance(), *[starting(rank) for rank in range(4)]]).phase is Phase.INIT
