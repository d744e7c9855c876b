"""What a set of Flight Recorder dumps says, group by group: the values that `rankmuster flight` shows.

Ranks are global and ascending. Numbers are torch's `collective_seq_id`, -1 for none. Times are unix seconds of the
rank's own host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rankmuster.model.dump_sets import Between
from rankmuster.model.fault import Subkind


class Known(str, Enum):
    """What places a member in its group, or why nothing does."""

    DUMP = "dump"
    LOG = "log"  # no dump, but its watchdog's lines
    NEVER = "nothing entered"  # its dump holds everything from its first record on, and nothing of this group
    OVERWRITTEN = "overwritten or not listed"  # its dump may have held entries of this group
    OLDER = "older dump"  # a peer has finished what needs it beyond its dump's end
    EMPTY = "empty dump"
    OTHER_RUN = "dump of another run"
    DAMAGED = "damaged dump"  # a file of its name is there, and nothing of it could be used
    NO_DUMP = "no dump"


PLACED = frozenset({Known.DUMP, Known.LOG, Known.NEVER, Known.OLDER})
"""What says where a member is."""


class GroupState(str, Enum):
    """What a group's members show together, the most telling first."""

    DIFFERENCE = "difference"  # under one number they did not do the same
    NOT_COME = "not come"  # members stand at a number that others have not entered
    UNPLACED = "unplaced"  # members stand at a number, and nothing says where others are
    NOT_LEFT = "not left"  # all have entered what members stand at
    MESSAGES = "messages"  # members stand at sends or receives
    HELD = "held"  # members wait for others who stand in another group, and come after that
    QUEUED = "queued"  # calls are enqueued behind those of other groups; nobody stands here
    TAIL = "tail"  # the ordinary tail of a job that moves
    LEVEL = "level"  # nothing is outstanding


@dataclass(frozen=True, slots=True)
class Stand:
    """The first operation a rank has not finished. `sequence` None: a send or receive, with `peer`."""

    group: int  # key
    sequence: int | None
    op: str
    peer: int | None
    started: bool
    since: float | None


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Members alike: the last number entered and finished, and what they stand at (None: nothing outstanding)."""

    ranks: tuple[int, ...]
    known: Known
    entered: int
    finished: int
    stands: Stand | None
    suspected: bool = False  # the verdict names them


@dataclass(frozen=True, slots=True)
class Camp:
    """Ranks that passed the same call."""

    ranks: tuple[int, ...]
    call: str  # "all_reduce of [16, 4096] Float"


class Shift(str, Enum):
    """How the calls of the odd ranks lie to those of the others from the first difference on."""

    OTHER_ORDER = "other order"  # the same calls, not in the others' order
    LEFT_OUT = "left out"  # as if they had left out one call
    ONE_MORE = "one more"  # as if they had made one more


@dataclass(frozen=True, slots=True)
class Difference:
    """The first number under which members' calls differ illegally. `odd`: the minority, empty where there is none.

    `shift`: None where what follows does not tell.

    `left`: members that have finished the call all the same. `later`: more numbers at which calls differ; `examples`:
    those of them that were asked for, with the camps.
    """

    sequence: int
    kind: Subkind
    camps: tuple[Camp, ...]  # the largest first
    odd: tuple[int, ...]
    left: tuple[int, ...]
    later: int
    shift: Shift | None = None
    examples: tuple[tuple[int, tuple[Camp, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first number that not all placed members have entered; of a moving job an ordinary tail."""

    sequence: int
    call: str
    entered: tuple[int, ...]
    missing: tuple[int, ...]
    unknown: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Numbers that dumps still hold: by any member, and by all that recorded some (None: there is none).

    `overwritten`: members whose rings begin later than the earliest; what is before is unknown there, not missing.
    """

    first: int
    last: int
    common: tuple[int, int] | None
    holders: int
    overwritten: tuple[tuple[tuple[int, ...], int], ...] = ()  # (ranks, first number held), the latest first
    begins: int = 0  # different first numbers, where `overwritten` leaves some out


class GapKind(str, Enum):
    """Why numbers lie between a member's records without a record of their own. None of it is loss."""

    COMMON = "common"  # all members: captured in a CUDA graph, or a call that torch counts and does not record
    PARTIAL = "partial"  # some members only


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers `first` to `last` that `ranks` recorded nothing under, between records before and after."""

    first: int
    last: int
    kind: GapKind
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Clash:
    """The `number`-th message from source to destination held (1: the first): elements sent and expected."""

    source: int
    destination: int
    number: int
    sent: int
    expected: int


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Outstanding messages between two ranks that the other end has not issued. `side`: "send" or "receive".

    `stands`: the first of them is what its rank stands at; else it has enqueued them ahead.
    """

    source: int
    destination: int
    side: str
    count: int
    stands: bool


@dataclass(frozen=True, slots=True)
class Messages:
    """Sends and receives of a group, matched by source, destination and order.

    `clashes` and `unmatched` are cut at a bound; their totals are counted. `unknown`: pairs whose order the dumps do
    not tell, since a ring overwrote the beginning; `one_sided`: pairs of which one end left no dump.
    """

    pairs: int
    matched: int
    clashes: tuple[Clash, ...]
    clashing: int
    unmatched: tuple[Unmatched, ...]
    unmatched_total: int
    unknown: int
    one_sided: int


@dataclass(frozen=True, slots=True)
class PeerClash:
    """In an exchange of uneven parts: elements that `giver` passed to `taker`, and that `taker` expected of it."""

    sequence: int
    giver: int
    taker: int
    passed: int
    expected: int


@dataclass(frozen=True, slots=True)
class Exchanges:
    """All-to-alls and gathers of lists whose parts differ in size, which is legal: compared per peer."""

    compared: int
    clashes: tuple[PeerClash, ...]
    clashing: int  # numbers


@dataclass(frozen=True, slots=True)
class GroupReport:
    """`inferred`: no dump has the group's table (gloo's is broken), so that members without a dump are not known."""

    key: int
    name: str
    desc: str
    label: str
    members: tuple[int, ...]
    state: GroupState
    places: tuple[RankPlace, ...]
    divergence: Divergence | None
    difference: Difference | None
    window: Window | None
    gaps: tuple[Gap, ...]
    messages: Messages | None
    exchanges: Exchanges | None
    same_members: tuple[int, ...]  # keys of other groups
    accused: bool  # the verdict's first divergence is here
    since: float | None  # when the earliest operation that a member stands at was enqueued
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Rings that lost their beginning: so many records of each, at least and at most."""

    ranks: tuple[int, ...]
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class DumpsReport:
    """The set of dumps as a whole. Ranks of each kind; `entries` over all of them.

    `captured`: ranks with records of calls captured in a CUDA graph, which never retire. `damaged`: one line a file.
    """

    world: tuple[int, ...]
    ranks: tuple[int, ...]
    entries: int
    missing: tuple[int, ...]
    empty: tuple[int, ...]
    other_run: tuple[tuple[int, float], ...]  # (rank, seconds from its peers' window; negative: before)
    older_files: tuple[str, ...]  # of a rank that has a newer one, or of the other recorder
    cut: tuple[int, ...]
    only_active: tuple[int, ...]
    in_motion: tuple[int, ...]
    timed: tuple[int, ...]
    overwritten: Overwritten | None
    captured: tuple[int, ...]
    captured_records: int
    coalesced: int
    children: int
    batches: int
    damaged: tuple[str, ...]
    other_damaged: int  # problems with files that are no dumps
    versions: Mapping[str, tuple[int, ...]]  # schema -> ranks


@dataclass(frozen=True, slots=True)
class CallStack:
    """Ranks with one stack at one call. `frames`: the caller's own, innermost first; `folded`: torch's left out."""

    ranks: tuple[int, ...]
    group: str
    sequence: int | None
    op: str
    state: str
    frames: tuple[str, ...]
    folded: int


@dataclass(frozen=True, slots=True)
class StackReport:
    """`accused`: last recorded calls of ranks that the verdict names; `waiting`: what the others stand at.

    `seen`: what other evidence (py-spy, the kernel) says of where a named rank is now. `without`: ranks whose dump has
    no stack of it.
    """

    accused: tuple[CallStack, ...]
    waiting: tuple[CallStack, ...]
    seen: tuple[str, ...]
    without: tuple[int, ...]


class Step(str, Enum):
    """What one rank did with one number."""

    FINISHED = "finished"
    STARTED = "started"
    ENQUEUED = "enqueued"
    FAILED = "failed"  # retired and not completed, where completion shows
    NOT_ENTERED = "-"  # above the last it entered
    NOT_RECORDED = "no record"  # between its records: captured, or a call without one
    UNKNOWN = "?"  # below the first that its dump holds


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """One number. `call`: most members'; `cells`: per column its step, and its own call where that is another."""

    sequence: int
    call: str
    cells: tuple[tuple[Step, str | None], ...]


@dataclass(frozen=True, slots=True)
class Aligned:
    """The last numbers of a group side by side. `columns`: ranks that did the same at all of them, the fewest first."""

    group: int  # key
    label: str
    columns: tuple[tuple[int, ...], ...]
    rows: tuple[AlignedRow, ...]


@dataclass(frozen=True, slots=True)
class FlightReport:
    """Groups in order of interest."""

    groups: tuple[GroupReport, ...]
    dumps: DumpsReport
    between: Between | None
    stacks: StackReport | None
