"""One entry's values that do not change from one call to the next: name, group, tensors, frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from benchmarks.flight.calls import Call, Pg, Shapes, Slot, Way
from benchmarks.flight.layout import Group, Layout
from benchmarks.flight.numbering import TERMINATOR
from benchmarks.flight.programs import HIDDEN
from benchmarks.flight.settings import Settings
from benchmarks.flight.stacks import Frame, stack_of
from numpy.typing import NDArray

STRAY_ROWS = 8


@dataclass(frozen=True, slots=True)
class EntryKind:
    """What entries of one call site have in common on one rank."""

    frames: tuple[Frame, ...]
    pg_id: int
    group: Group
    profiling_name: str
    ins: Shapes
    in_dtypes: tuple[str, ...]
    outs: Shapes
    out_dtypes: tuple[str, ...]
    is_p2p: bool
    timeout_ms: int
    thread: tuple[str, str] = ("python3", "139791424487744")


def kind_of(job: Settings, layout: Layout, call: Call, part: int, rank: int) -> EntryKind:
    """The entry of `call`'s part (or its terminator) on `rank`."""
    pg_id = layout.pg_id(rank, call.pg)
    group = layout.groups_of[rank][pg_id]
    if part == TERMINATOR:
        frames = stack_of(call.site, "_coalescing_manager", job.frames)
        return EntryKind(
            frames, pg_id, group, f"{job.backend.value}:{call.closing}", (), (), (), (), False, job.timeout_ms
        )
    own = call.parts[part]
    op, ins, outs = own.op, own.ins, own.outs
    if call.pattern is not None:
        ins, outs = uneven(call, group.members.index(rank), len(group.members))
    if call.way is not Way.NONE:
        op = _message_name(call, group, rank, job.tp * job.dp)
    return EntryKind(
        frames=stack_of(call.site, own.op, job.frames),
        pg_id=pg_id,
        group=group,
        profiling_name=f"{job.backend.value}:{op}",
        ins=ins,
        in_dtypes=(own.dtype,) * len(ins),
        outs=outs,
        out_dtypes=(own.dtype,) * len(outs),
        is_p2p=call.way is not Way.NONE,
        timeout_ms=job.timeout_ms,
    )


def _message_name(call: Call, group: Group, rank: int, stride: int) -> str:
    """Ranks of a message's name are the group's own. `stride`: from one stage to the next."""
    peer = rank + stride if call.slot is Slot.PP_NEXT else rank - stride
    here, there = group.members.index(rank), group.members.index(peer)
    return f"send {here}->{there}" if call.way is Way.SEND else f"recv {here}<-{there}"


def uneven(call: Call, here: int, size: int) -> tuple[Shapes, Shapes]:
    """What `here` passes to and expects from each member: rows differ by pair, and in[i -> j] is out[j <- i]."""
    everyone = np.arange(size)
    pattern = call.pattern or 0
    passed = _rows(np.full(size, here), everyone, pattern)
    expected = _rows(everyone, np.full(size, here), pattern)
    if call.stray == 1:
        expected = expected + STRAY_ROWS * (everyone != here)
    elif call.stray == 2:
        expected = expected + STRAY_ROWS * (everyone == (here + 1) % size)
    return (
        tuple((rows, HIDDEN) for rows in passed.tolist()),
        tuple((rows, HIDDEN) for rows in expected.tolist()),
    )


def _rows(giver: NDArray[np.int64], taker: NDArray[np.int64], pattern: int) -> NDArray[np.int64]:
    rows: NDArray[np.int64] = (giver * 131 + taker * 37 + pattern * 911) % 240 + 16
    return rows


def pg_config(job: Settings, layout: Layout, rank: int) -> dict[str, dict[str, str]]:
    """The dump's table of groups. gloo's is one broken row, for it is filled before the names are known."""
    if job.backend.value == "gloo":
        return {"": {"name": "", "desc": "", "ranks": "[]"}}
    return {
        group.name: {"name": group.name, "desc": group.desc, "ranks": ranks_text(group.members)}
        for group in layout.groups_of[rank]
    }


_TEXTS: dict[tuple[int, ...], str] = {}


def ranks_text(members: tuple[int, ...]) -> str:
    """Members as torch writes them, made once per group: sixteen thousand dumps share the text of theirs."""
    if members not in _TEXTS:
        _TEXTS[members] = "[" + ", ".join(map(str, members)) + "]"
    return _TEXTS[members]


def lib_version(job: Settings) -> tuple[str, str] | None:
    """Key and value of the communication library's version, None before schema 2.9."""
    if job.minor < 9:
        return None
    value = "2.28.9" if job.has_events else ""
    return ("comm_lib_version" if job.minor >= 10 else "nccl_version", value)


def statuses(layout: Layout, rank: int, status: dict[Pg, tuple[int, int, int]]) -> dict[str, tuple[int, int, int]]:
    """`pg_status` by local process group id."""
    return {str(index): status[group.kind] for index, group in enumerate(layout.groups_of[rank])}
