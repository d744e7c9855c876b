"""What one call is: its group, its tensors, who calls it from where, and the entries that the recorder makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

Shapes = tuple[tuple[int, ...], ...]


class Slot(IntEnum):
    """A rank's channels: the groups that it is in, and the pair with the stage before and after it."""

    WORLD = 0
    TP = 1
    DP = 2
    EP = 3
    PP_PREV = 4
    PP_NEXT = 5


class Pg(IntEnum):
    """The process groups behind the channels; both pairs share the pipeline's."""

    WORLD = 0
    TP = 1
    DP = 2
    EP = 3
    PP = 4


PG_OF_SLOT = (Pg.WORLD, Pg.TP, Pg.DP, Pg.EP, Pg.PP, Pg.PP)


class Way(IntEnum):
    """Of a send or receive; NONE for what is no message between two."""

    NONE = 0
    SEND = 1
    RECV = 2


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor list of a call: an entry of its own where the call is coalesced or a batch."""

    op: str
    ins: Shapes
    outs: Shapes
    dtype: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call site. `parts`: one, or the children of a batch; then `closing` is the terminator's operation.

    `pattern`: an uneven all-to-all, the sizes of which depend on who passes to whom. `gap`: numbers that a captured
    graph took just before. `rooted`: the group's first member leaves early. `stray`: extra rows that this rank expects
    of its peers, for a fault (1: of every peer, 2: of one). `in_world`: a message that goes through default_pg.
    """

    slot: Slot
    parts: tuple[Part, ...]
    site: str
    way: Way = Way.NONE
    closing: str | None = None
    host_us: int = 120
    gpu_us: int = 60
    gap: int = 0
    rooted: bool = False
    pattern: int | None = None
    stray: int = 0
    in_world: bool = False

    @property
    def pg(self) -> Pg:
        return Pg.WORLD if self.in_world else PG_OF_SLOT[self.slot]

    @property
    def entries(self) -> int:
        """Entries that the recorder makes of it."""
        return len(self.parts) + (self.closing is not None)

    @property
    def matches(self) -> tuple[object, ...]:
        """What must be equal on every member for the call to finish."""
        own = tuple((part.op if self.way is Way.NONE else "", part.ins or part.outs, part.dtype) for part in self.parts)
        return (self.slot if self.way is Way.NONE else "message", own, self.pattern, self.stray)


def collective(slot: Slot, op: str, ins: Shapes, outs: Shapes, dtype: str, site: str) -> Call:
    """A collective of one entry."""
    return Call(slot, (Part(op, ins, outs, dtype),), site)


def message(slot: Slot, way: Way, shapes: Shapes, dtype: str, site: str, *, batched: bool) -> list[Call]:
    """Sends or receives of all shapes: one batch with a terminator, or a call each."""
    op = "send" if way is Way.SEND else "recv"
    parts = tuple(Part(op, (shape,), (shape,), dtype) for shape in shapes)
    if batched:
        return [Call(slot, parts, site, way, closing="coalesced")]
    return [Call(slot, (part,), f"{site}.{number}", way) for number, part in enumerate(parts)]


def with_first(call: Call, **changes: object) -> Call:
    """The same call with its first part changed."""
    first = replace(call.parts[0], **changes)  # type: ignore[arg-type]
    return replace(call, parts=(first, *call.parts[1:]))
