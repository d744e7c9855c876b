"""Who of the known processes lives still, and whether one has come that may be a new instance's: by `stat` alone."""

from __future__ import annotations

import re
from collections.abc import Set

from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Role
from rankmuster.watch.finding_known import GONE

MAX_NEW = 256
"""New processes of one look that are looked at; a node that starts more at once is searched."""

_MAY_BE = re.compile(
    r"python|pypy|pt_main|vllm|sglang|trtllm|triton|lmdeploy|turbomind|tgi|text-gen|launcher|ray::|torchrun|mpi|orted"
    r"|prted|hydra|slurmstepd",
    re.IGNORECASE,
)
"""Names (comm) of processes that may belong to an instance, or start one."""


def state_of(proc: Proc, process: ProcessOfInstance, pids: Set[int]) -> tuple[str, int | None] | None:
    """(state, exit code) now, None where it cannot be read. `pids`: those that /proc lists.

    Of helpers only whether their number is still in use.
    """
    if process.pid not in pids:
        return GONE, None
    if process.role is Role.HELPER and process.rank is None:
        return None
    try:
        stat = proc.stat(process.pid)
    except (NotAllowed, OSError):
        return None
    if stat is None or stat.start_ticks != process.start_ticks:
        return GONE, None
    if stat.ended and stat.threads <= 1:
        return stat.state.upper(), stat.exit_code
    return ("S" if stat.ended else stat.state), None


def may_be_instance(proc: Proc, new: Set[int], ours: Set[int]) -> bool:
    """Whether one of the `new` processes may be a new instance's. `ours`: processes of the known ones, whose children
    are that instance's own, and helpers mostly."""
    if len(new) > MAX_NEW:
        return True
    for pid in sorted(new):
        try:
            stat = proc.stat(pid)
        except (NotAllowed, OSError):
            continue
        if stat is None or stat.kernel_thread or stat.parent in ours:
            continue
        if _MAY_BE.search(stat.comm):
            return True
    return False
