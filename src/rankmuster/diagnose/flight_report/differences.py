"""Where members of a group passed different calls, as the mismatch detector found it: nothing is judged twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from rankmuster.diagnose.call_matrix import call_matrix
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import mismatch
from rankmuster.diagnose.finding import Finding
from rankmuster.diagnose.flight_report.calls import camps
from rankmuster.diagnose.flight_report.shifts import shift_of
from rankmuster.diagnose.legal import differs
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.signatures import Signature
from rankmuster.model.fault import Subkind
from rankmuster.model.flight_report import Difference
from rankmuster.model.job import Group


def differences(context: Context, findings: Iterable[Finding], examples: int) -> dict[int, Difference]:
    """The difference of each group that has one, by group key. `examples`: how many later ones are told with camps."""
    table = context.table
    found: dict[int, Difference] = {}
    for finding in findings:
        accusation = finding.accusation
        if finding.detector != mismatch.NAME or accusation is None or accusation.divergence is None:
            continue
        told, kind = accusation.divergence, accusation.subkind
        if told.sequence is None or kind is None:
            continue
        for group in table.groups:
            if group.key in found or group.label != told.group or group.members != told.members:
                continue
            entered = entered_at(table, group, told.sequence)
            if _clashes(group, entered):
                found[group.key] = _difference(
                    table, group, told.sequence, entered, kind, accusation.culprits, examples
                )
                break
    return found


def entered_at(table: RollTable, group: Group, seq: int) -> dict[int, Signature]:
    """What each member passed under a number, of those whose dumps hold all of it."""
    entered = {}
    for rank in group.members:
        roll = table.rolls.get((group.key, rank))
        position = roll.at(seq) if roll is not None else None
        if roll is not None and position is not None:
            signature = table.signatures[int(roll.signature[position])]
            if not signature.cut:
                entered[rank] = signature
    return entered


def _difference(
    table: RollTable,
    group: Group,
    seq: int,
    entered: dict[int, Signature],
    kind: Subkind,
    odd: tuple[int, ...],
    examples: int,
) -> Difference:
    later = _differing(table, group, seq)
    passed = ((number, entered_at(table, group, number)) for number in later)
    told = islice(((number, camps(own)) for number, own in passed if _clashes(group, own)), examples)
    return Difference(
        sequence=seq,
        kind=kind,
        camps=camps(entered),
        odd=odd,
        left=tuple(rank for rank in sorted(entered) if _left(table, group.key, rank, seq)),
        later=len(later),
        shift=shift_of(table, group, seq, odd),
        examples=tuple(told),
    )


def _differing(table: RollTable, group: Group, after: int) -> list[int]:
    """Numbers above `after` under which members passed different calls, those aside that are surely legal.

    Of so many as the detector looks at.
    """
    rolls = [roll for rank in group.members if (roll := table.rolls.get((group.key, rank))) is not None]
    matrix = call_matrix(table, rolls, low=after + 1)
    found: list[int] = matrix.numbers[mismatch.doubtful(matrix, table, group, mismatch.MAX_COLUMNS)].tolist()
    return found


def _clashes(group: Group, entered: Mapping[int, Signature]) -> bool:
    return len(entered) > 1 and differs(entered, group.members, inferred=group.inferred) is not None


def _left(table: RollTable, key: int, rank: int, seq: int) -> bool:
    roll = table.rolls[(key, rank)]
    position = roll.at(seq)
    return position is not None and bool(roll.finished[position])
