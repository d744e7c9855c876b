"""A rank's own program order as a witness: serving loops repeat, and who breaks the repetition stands out."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.diagnose.roll import RollTable

CONTEXT_LENGTHS = (12, 8, 6, 4)
"""Numbers of preceding operations that a prediction rests on, the longest first."""

MIN_REPEATS = 20
"""How often the context must have been followed by one and the same operation, without exception."""


def expected(tokens: Sequence[int], position: int) -> int | None:
    """What always followed the operations before `position`, None where the past does not say."""
    for length in CONTEXT_LENGTHS:
        if position < length + MIN_REPEATS:
            continue
        context = tokens[position - length : position]
        followers = [
            tokens[start + length]
            for start in range(position - length)
            if tokens[start] == context[0] and tokens[start : start + length] == context
        ]
        if len(followers) >= MIN_REPEATS:
            return followers[0] if len(set(followers)) == 1 else None
    return None


def breaks_habit(table: RollTable, group: int, seq: int, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Ranks whose operation `seq` is not what their own past predicts, if the others' is; otherwise nobody."""
    broke = []
    kept = 0
    for rank in ranks:
        roll = table.rolls[(group, rank)]
        position = roll.at(seq)
        prediction = expected(roll.signature.tolist(), position) if position is not None else None
        if prediction is None or position is None:
            return ()
        if int(roll.signature[position]) == prediction:
            kept += 1
        else:
            broke.append(rank)
    return tuple(broke) if kept else ()
