"""Flight Recorder: the first number of a group under which its members did not do the same.

Completed operations are compared too: a mismatch need not hang at once. Blind to: the reduce operation and the root,
which no dump records; graph replays; what the ring buffers overwrote; groups of which only one member left a dump.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from rankmuster.diagnose.call_matrix import CallMatrix, call_matrix
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.habit import breaks_habit
from rankmuster.diagnose.legal import differs, is_uneven_list, odd_pairwise
from rankmuster.diagnose.legal_columns import surely_legal
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.signatures import Signature
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.job import Group
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "collective-mismatch"

REACH = 64
"""Operations after a differing call within which the group stops for it; three in captures with a wrong size."""

HABITS = {
    Subkind.OP_MISMATCH: "left the order of operations it had always kept",
    Subkind.SIZE_MISMATCH: "passed another size than it always had at this place",
    Subkind.DTYPE_MISMATCH: "passed another data type than it always had at this place",
}
"""What a rank that breaks its habit does otherwise than before."""

MAX_COLUMNS = 4000
"""Numbers of one group in which members differ that are looked at before giving up on finding an illegal one."""


def detect(context: Context) -> list[Finding]:
    """One finding per group whose members' calls differ, the earliest illegal difference of each."""
    found = []
    for group in context.table.groups:
        finding = _first_of(context, group)
        if finding is not None:
            found.append(finding)
    return found


def _first_of(context: Context, group: Group) -> Finding | None:
    table = context.table
    ranks = [rank for rank in group.members if (group.key, rank) in table.rolls]
    if len(ranks) < 2:
        return None
    matrix = call_matrix(table, (table.rolls[(group.key, rank)] for rank in ranks))
    for column in doubtful(matrix, table, group)[:MAX_COLUMNS]:
        entered = {rank: table.signatures[call] for rank, call in matrix.entered(column, ranks).items()}
        subkind = differs(entered, group.members, inferred=group.inferred)
        if subkind is not None:
            agreed = matrix.agreed_before(column)
            return _finding(context, group, int(matrix.numbers[column]), entered, subkind, agreed)
    return None


def doubtful(matrix: CallMatrix, table: RollTable, group: Group, most: int | None = None) -> list[int]:
    """Columns in which members differ and which are not surely legal, of the first `most` in which they differ."""
    differing = matrix.differing()[:most]
    if not differing:
        return []
    legal = surely_legal(matrix.calls[:, differing], table.signatures, len(group.members))
    return [column for column, fine in zip(differing, legal.tolist(), strict=True) if not fine]


def differs_before(table: RollTable, group: Group, seq: int) -> bool:
    """Whether members' calls differ at `seq`, or so shortly before it that they explain why nobody leaves it."""
    rolls = {rank: roll for rank in group.members if (roll := table.rolls.get((group.key, rank))) is not None}
    matrix = call_matrix(table, rolls.values(), seq - REACH, seq)
    ranks = tuple(rolls)
    for column in doubtful(matrix, table, group):
        entered = {rank: table.signatures[call] for rank, call in matrix.entered(column, ranks).items()}
        if differs(entered, group.members, inferred=group.inferred) is not None:
            return True
    return False


def _key(subkind: Subkind) -> Callable[[Signature], object]:
    if subkind is Subkind.OP_MISMATCH:
        return lambda signature: signature.op
    if subkind is Subkind.DTYPE_MISMATCH:
        return lambda signature: signature.in_dtypes
    return lambda signature: (signature.in_sizes, signature.out_sizes)


def split(entered: Mapping[int, object]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(majority, minority) ranks by what they did; no majority: the second is empty."""
    camps: dict[object, list[int]] = defaultdict(list)
    for rank, what in entered.items():
        camps[what].append(rank)
    largest = max(camps.values(), key=len)
    if len(largest) * 2 <= len(entered):
        return tuple(sorted(entered)), ()
    return tuple(sorted(largest)), tuple(sorted(set(entered) - set(largest)))


def describe(signature: Signature) -> str:
    """`all_reduce of [16, 4096] Float`."""
    shapes = " + ".join(str(list(shape)) for shape in signature.in_sizes) or "no tensor"
    kinds = "/".join(dict.fromkeys(signature.in_dtypes))
    return f"{signature.op} of {shapes} {kinds}".strip()


def _finding(
    context: Context, group: Group, seq: int, entered: dict[int, Signature], subkind: Subkind, agreed: bool
) -> Finding:
    table = context.table
    key = _key(subkind)
    majority, odd = split({rank: key(signature) for rank, signature in entered.items()})
    unsure = tuple(sorted(entered))
    uneven = subkind is Subkind.SIZE_MISMATCH and is_uneven_list(entered, group.members)
    if uneven:
        # Uneven parts differ in health: what counts is who disagrees with whom.
        odd, unsure = odd_pairwise(entered, group.members)
        majority = tuple(rank for rank in sorted(entered) if rank not in odd)
    by_habit = False
    if not odd:
        odd = breaks_habit(table, group.key, seq, tuple(entered))
        by_habit = bool(odd)
    camps = _camps(entered)
    statement = f"{group.label} #{seq}: " + "; ".join(camps)
    if by_habit:
        statement += f". {ranks_text(odd).capitalize()} {HABITS[subkind]}"
    suspects = () if odd else unsure
    reference = majority if odd and not by_habit else tuple(rank for rank in entered if rank not in odd)
    # NCCL does not stop at the call that differs: the rest of its bytes is missing in one of the next ones.
    stopped = _somebody_stands(table, group, seq) or not _finished_by_all(table, group, seq, tuple(entered))
    certain = bool(odd) and agreed and not by_habit and not uneven
    confidence = Confidence.CONFIRMED if certain else Confidence.LIKELY
    reference_op = entered[reference[0]].op if reference else next(iter(entered.values())).op
    why = {
        rank: f"entered {describe(entered[rank])} as {group.label} #{seq} where others entered "
        f"{describe(entered[reference[0]])}"
        for rank in odd
        if reference
    }
    evidence = tuple(
        table.reference(rank, int(roll.row[position]))
        for rank, roll in ((rank, table.rolls[(group.key, rank)]) for rank in (*odd[:4], *reference[:2], *suspects[:4]))
        if (position := roll.at(seq)) is not None
    )
    return Finding(
        NAME,
        Plane.FLIGHT,
        statement,
        evidence,
        accuse(
            subkind,
            confidence,
            culprits=odd,
            suspects=suspects,
            victims=tuple(rank for rank in group.members if rank not in odd and rank not in suspects),
            why=why,
            scope=Scope.RANK if odd else Scope.GROUP,
            decisive=certain,
            stop=stopped,
            at=_time_of(table, group, seq, entered),
            divergence=FirstDivergence(
                group=group.label,
                members=group.members,
                sequence=seq,
                op=reference_op,
                missing=odd,
                entered=tuple(sorted(reference or suspects)),
            ),
        ),
    )


def _camps(entered: Mapping[int, Signature]) -> list[str]:
    camps: Counter[str] = Counter()
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, signature in entered.items():
        text = describe(signature)
        if signature.out_sizes != signature.in_sizes:
            text += " into " + " + ".join(str(list(shape)) for shape in signature.out_sizes)
        camps[text] += 1
        ranks[text].append(rank)
    return [f"{ranks_text(ranks[text])} entered {text}" for text, _ in reversed(camps.most_common(4))]


def _somebody_stands(table: RollTable, group: Group, seq: int) -> bool:
    """Whether a member waits in this group within the reach of what a differing call leaves undone."""
    heads = (table.heads.get(rank) for rank in group.members)
    return any(
        head is not None and head.group == group.key and head.seq is not None and seq <= head.seq <= seq + REACH
        for head in heads
    )


def _finished_by_all(table: RollTable, group: Group, seq: int, ranks: tuple[int, ...]) -> bool:
    for rank in ranks:
        roll = table.rolls[(group.key, rank)]
        position = roll.at(seq)
        if position is None or not roll.finished[position]:
            return False
    return True


def _time_of(table: RollTable, group: Group, seq: int, entered: Mapping[int, Signature]) -> float | None:
    times = []
    for rank in entered:
        roll = table.rolls[(group.key, rank)]
        position = roll.at(seq)
        if position is not None and roll.created[position] > 0:
            times.append(float(roll.created[position]))
    return max(times, default=None)
