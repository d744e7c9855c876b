"""Whether the GPUs are as they were before the group was started: nobody of it on them, and its memory given back.

Asked of NVML through the child that may hang for us (`collect.node`). Without NVML nothing is said of GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline

TOLERANCE_MIB = 64
"""On an H200 the memory in use came back to the very MiB after each of three endings, and the smallest process (a CUDA
context, 10 MB of its own) held 630 MiB: a tenth of that leaves room for what a driver itself keeps."""

BEFORE_SECONDS = 5.0
"""For the look before the first start: NVML takes seconds to begin where the driver keeps no state (persistence mode
off). A later start does not wait: what was before the first one counts."""

ASK_SECONDS = 3.0
PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class GpuUse:
    """`used_mib`: None where NVML does not say. `pids`: as NVML numbers them."""

    used_mib: int | None
    pids: frozenset[int]


Look = Callable[[float], Mapping[int, GpuUse] | None]
"""GPUs by index, asked within so many seconds; None where NVML cannot be used."""


@dataclass(frozen=True, slots=True)
class Freed:
    """`free`: None where it cannot be told, and `note` says why. `pids`: of the group, still on a GPU. `later`: a later
    look may tell more."""

    free: bool | None
    note: str
    pids: tuple[int, ...] = ()
    later: bool = False


def freed(
    before: Mapping[int, GpuUse] | None,
    look: Look,
    ours: frozenset[int],
    deadline: Deadline,
    pause: Callable[[float], None],
    *,
    host_pids: bool,
) -> Freed:
    """Asks until they are free, or the deadline. `ours`: pids that the group has had; `host_pids`: whether NVML numbers
    processes as our /proc does."""
    said = Freed(None, "NVML did not say anything of the GPUs")
    first = True
    while first or not deadline.passed:
        first = False
        now = look(max(min(ASK_SECONDS, deadline.remaining()), 0.5))
        if now is None:
            return Freed(None, "there is no NVML here, so whether GPU memory is free was not looked at")
        if now:
            said = judge(before, now, ours, host_pids=host_pids)
            if said.free or not said.later:
                return said
        pause(min(PAUSE_SECONDS, deadline.remaining()))
    return said


def judge(
    before: Mapping[int, GpuUse] | None, now: Mapping[int, GpuUse], ours: frozenset[int], *, host_pids: bool
) -> Freed:
    """One look against the one before the start. A GPU that others use by now can only be judged by its processes.

    In a container NVML's numbers are the machine's and ours are not: newcomers on a GPU may be the group's or others'.
    """
    on: dict[int, list[int]] = {}
    more: list[str] = []
    shared: list[int] = []
    compared = 0
    silent = [index for index in before or {} if index not in now]
    for index, use in sorted(now.items()):
        found = sorted(use.pids & ours) if host_pids else []
        if found:
            on[index] = found
        was = (before or {}).get(index)
        if was is None or was.used_mib is None or use.used_mib is None:
            continue
        compared += 1
        over = use.used_mib - was.used_mib
        if over <= TOLERANCE_MIB:
            continue
        if use.pids - was.pids - (ours if host_pids else frozenset()):
            shared.append(index)
        else:
            more.append(f"GPU {index} has {over} MiB more in use than before the start ({use.used_mib} MiB)")
    if on:
        listed = "; ".join(f"GPU {index}: {', '.join(map(str, pids))}" for index, pids in on.items())
        pids = tuple(sorted({pid for found in on.values() for pid in found}))
        return Freed(False, f"processes of the group are still on GPUs ({listed})", pids, later=True)
    if more:
        return Freed(False, "; ".join(more), later=True)
    if shared:
        which = ", ".join(map(str, shared))
        if host_pids:
            return Freed(None, f"other processes use GPU {which} by now: its memory says nothing")
        return Freed(None, f"processes that cannot be seen from this container use GPU {which}", later=True)
    if silent:
        return Freed(None, f"GPU {', '.join(map(str, silent))} does not answer NVML any more", later=True)
    if not compared:
        unknown = "how much GPU memory was in use before the start is not known"
        return Freed(True, f"no process of the group is on a GPU; {unknown}") if host_pids else Freed(None, unknown)
    return Freed(True, f"the memory of {compared} GPU(s) is as it was before the start")
