"""Where in a step a fault can be planted, and what the faulty rank calls there instead."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.flight.calls import Call, Pg, Slot, Way, with_first
from benchmarks.flight.settings import FaultKind, Settings, Where

_SLOTS = {
    Where.ANY: tuple(Slot),
    Where.WORLD: (Slot.WORLD,),
    Where.TP: (Slot.TP,),
    Where.DP: (Slot.DP,),
    Where.EP: (Slot.EP,),
    Where.PP: (Slot.PP_PREV, Slot.PP_NEXT),
}


@dataclass(frozen=True, slots=True)
class Edit:
    """At `place` of the step, `taken` calls give way to `instead`. `group`: of the call in question."""

    place: int
    group: Pg
    taken: int = 0
    instead: tuple[Call, ...] = ()


def edits_for(job: Settings, step: list[Call]) -> list[Edit]:
    """All edits of a step that make the job's fault, in the kind of group that it asks for."""
    slots = _SLOTS[job.fault.where]
    return [
        edit
        for place, call in enumerate(step)
        if call.slot in slots
        for edit in [_edit(job.fault.kind, place, call, step[place + 1] if place + 1 < len(step) else None)]
        if edit is not None
    ]


def _edit(kind: FaultKind, place: int, call: Call, following: Call | None) -> Edit | None:
    message = call.way is not Way.NONE
    if kind in (FaultKind.HOST_STOP, FaultKind.DEAD, FaultKind.GPU_STALL):
        return Edit(place, call.pg)
    if kind is FaultKind.MISSING_SEND:
        return Edit(place, call.pg, 1) if call.way is Way.SEND else None
    if kind is FaultKind.MISSING_RECV:
        return Edit(place, call.pg, 1) if call.way is Way.RECV else None
    if kind is FaultKind.SWAP:
        return _swapped(place, call, following)
    if message:
        return Edit(place, call.pg) if kind is FaultKind.TRANSPORT else None
    if kind is FaultKind.TRANSPORT or (kind is FaultKind.NO_FINISH and not call.rooted):
        return Edit(place, call.pg)
    if kind is FaultKind.SKIP:
        return Edit(place, call.pg, 1)
    changed = _changed(kind, call)
    return Edit(place, call.pg, 1, (changed,)) if changed is not None else None


def _swapped(place: int, call: Call, following: Call | None) -> Edit | None:
    """Two collectives of different groups; swapped messages are another fault, and nobody's alone."""
    if following is None or following.pg == call.pg:
        return None
    if call.way is not Way.NONE or following.way is not Way.NONE or call.rooted or following.rooted:
        return None
    return Edit(place, call.pg, 2, (following, call))


def _changed(kind: FaultKind, call: Call) -> Call | None:
    first = call.parts[0]
    if kind in (FaultKind.UNEVEN, FaultKind.UNEVEN_PAIR):
        return None if call.pattern is None else replace(call, stray=1 if kind is FaultKind.UNEVEN else 2)
    if call.pattern is not None or call.rooted or len(call.parts) > 1:
        return None
    if kind is FaultKind.WRONG_OP:
        other = "all_gather" if first.op != "all_gather" else "all_reduce"
        return with_first(call, op=other)
    if kind is FaultKind.WRONG_DTYPE:
        return with_first(call, dtype="Half" if first.dtype != "Half" else "Float")
    if kind is FaultKind.WRONG_SIZE:
        # A last batch that is one row short.
        return with_first(call, ins=_shorter(first.ins), outs=_shorter(first.outs))
    return None


def _shorter(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    return tuple((shape[0] - 1 if shape[0] > 1 else shape[0] + 1, *shape[1:]) for shape in shapes)
