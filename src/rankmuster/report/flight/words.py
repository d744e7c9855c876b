"""How the flight report says things: states of groups, places of members, numbers."""

from __future__ import annotations

from collections.abc import Collection

from rankmuster.model.dump_sets import Since
from rankmuster.model.fault import Subkind
from rankmuster.model.flight_report import GapKind, GroupReport, GroupState, Known, RankPlace, Shift, Stand
from rankmuster.model.ranks_text import rank_ranges, ranks_text
from rankmuster.report.inert import plain
from rankmuster.report.words import clock

MAX_NAME = 60
"""Characters of a group's name; a sha1 has 40."""

MAX_RANKS_TEXT = 72
"""Characters of a list of ranks before it is cut and counted."""

STATES: dict[GroupState, str] = {
    GroupState.DIFFERENCE: "members did not call the same",
    GroupState.NOT_COME: "members wait for others who have not come",
    GroupState.UNPLACED: "members wait, and nothing places the others",
    GroupState.NOT_LEFT: "all have come, not all have left",
    GroupState.MESSAGES: "members stand at sends or receives",
    GroupState.HELD: "held up by what stands in other groups",
    GroupState.QUEUED: "calls enqueued behind other groups'",
    GroupState.TAIL: "moving: an ordinary tail",
    GroupState.LEVEL: "nothing outstanding",
}

AT_THIS_LOOK = "members stand here at this look; whether they wait or pass, these dumps do not tell"
"""For what stands in a job that nothing shows to have stopped."""

DIFFERENCES: dict[Subkind, str] = {
    Subkind.OP_MISMATCH: "other operations",
    Subkind.SIZE_MISMATCH: "other sizes",
    Subkind.DTYPE_MISMATCH: "other data types",
}

SHIFTS: dict[Shift, str] = {
    Shift.OTHER_ORDER: "the same calls follow in another order",
    Shift.LEFT_OUT: "what follows is the others' sequence less one call: as if one was left out",
    Shift.ONE_MORE: "the others' sequence follows one call later: as if one more was made",
}

KNOWN: dict[Known, str] = {
    Known.LOG: "no dump; placed by its watchdog's lines",
    Known.NEVER: "entered nothing here (its dump goes back to its first record)",
    Known.OVERWRITTEN: "unknown: overwritten, cut off or not listed in its dump",
    Known.OLDER: "its dump is older than its peers': what it did since is unknown",
    Known.EMPTY: "unknown: its dump is empty",
    Known.OTHER_RUN: "unknown: its dump is of another time",
    Known.DAMAGED: "unknown: nothing of its dump could be used",
    Known.NO_DUMP: "unknown: it left no dump",
}

GAPS: dict[GapKind, str] = {
    GapKind.COMMON: "no member recorded these: captured in a CUDA graph, or a call that torch counts without a record; "
    "not lost",
    GapKind.PARTIAL: "not recorded there, though later ones are: captured, or a call without a record, on these alone",
}

SINCE: dict[Since, str] = {
    Since.WENT_ON: "the job moved between the two sets: what is outstanding is a tail",
    Since.STOPPED_SINCE: "the job moved after the earlier set and has stopped since",
    Since.STANDS: "nothing moved between the two sets",
    Since.TOO_CLOSE: "the two sets are too close to tell",
    Since.UNTOLD: "the job moved after the earlier set; whether it still does is not told",
    Since.MIXED: "some ranks went on between the two sets, others did not",
    Since.NOT_EARLIER: "the earlier set is not earlier",
    Since.OTHER_RUN: "the earlier set is of another run",
    Since.NO_DUMPS: "the earlier set cannot be compared",
}


def short_ranks(ranks: Collection[int]) -> str:
    """`ranks 0-7, 9`; a long list is cut at whole ranges, and counted."""
    text = ranks_text(ranks)
    if len(text) <= MAX_RANKS_TEXT:
        return text
    return f"{text[:MAX_RANKS_TEXT].rsplit(',', 1)[0]}, .. ({len(set(ranks))} ranks)"


def number(sequence: int) -> str:
    """`#750`; `none` where there is no number."""
    return f"#{sequence}" if sequence >= 0 else "none"


def group_name(report: GroupReport) -> str:
    """`default_pg (name 0), 4 members: ranks 0-3`."""
    label, name = plain(report.label, MAX_NAME), plain(report.name, MAX_NAME)
    text = label if label == name or not name else f"{label} (name {name})"
    return f"{text}, {counted(len(report.members), 'member')}: {short_ranks(report.members)}"


def counted(count: int, what: str, many: str | None = None) -> str:
    """`1 group`, `1,024 groups`."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def standing(stand: Stand | None, own: int, labels: dict[int, str], several: bool) -> str:
    """What a member, or `several`, stand at; `own`: the group that is told. `labels`: of all groups, by key."""
    if stand is None:
        return "nothing outstanding"
    where = "" if stand.group == own else f"{plain(labels.get(stand.group, 'another group'), MAX_NAME)} "
    if stand.sequence is None:
        peer = "an unknown rank" if stand.peer is None else f"rank {stand.peer}"
        what = f"{'a send to' if stand.op == 'send' else 'a receive from'} {peer}"
        where = where and f"{where.rstrip()}: "
    else:
        what = f"#{stand.sequence} {plain(stand.op, MAX_NAME)}"
    since = f" since {clock(stand.since)}" if stand.since is not None else ""
    return f"{'stand' if several else 'stands'} at {where}{what}{' (started)' if stand.started else ''}{since}"


def place(there: RankPlace, own: int, labels: dict[int, str], messages_only: bool = False) -> str:
    """`entered #755, finished #750, stands at #751 all_reduce (started) since 12:00:01.250Z`.

    `messages_only`: the group has no collectives, and so no numbers.
    """
    stands = standing(there.stands, own, labels, len(there.ranks) > 1)
    if messages_only and there.known in (Known.DUMP, Known.NEVER, Known.OVERWRITTEN):
        return stands
    if there.known in (Known.DUMP, Known.LOG, Known.OLDER):
        text = f"entered {number(there.entered)}, finished {number(there.finished)}, {stands}"
        return text if there.known is Known.DUMP else f"{text}; {KNOWN[there.known]}"
    text = KNOWN[there.known]
    return f"{text}; {stands}" if there.stands is not None else text


def range_text(first: int, last: int) -> str:
    """`#7`, `#7-9`."""
    return f"#{first}" if first == last else f"#{first}-{last}"


def cell(ranks: Collection[int]) -> str:
    """Ranks for a table: `0-3,8`."""
    text = rank_ranges(ranks).replace(", ", ",")
    return text if len(text) <= 24 else f"{text[:24].rsplit(',', 1)[0]},.. ({len(ranks)})"
