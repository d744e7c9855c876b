"""One rank's whole program as tokens: collectives of all groups, sends, receives and batches, as enqueued."""

from __future__ import annotations

import re

import numpy as np

from rankmuster.diagnose.habit import expected
from rankmuster.diagnose.op_names import base_name
from rankmuster.diagnose.roll import RollTable

BREAK_WINDOW = 24
"""Operations around the first outstanding one that are held against the rank's past; launch-ahead is seldom deeper."""

_DIGITS = re.compile(r"\d+")


def role_of(table: RollTable, rank: int, index: int) -> str:
    """What a group is to this rank: `DATA_PARALLEL_GROUP of 4`; numbers in names differ between equal roles."""
    key = table.local_groups.get((rank, index))
    if key is None:
        return "group of 0"
    group = table.group(key)
    return f"{_DIGITS.sub('', group.label) or 'group'} of {len(group.members)}"


def _operations(table: RollTable, rank: int) -> list[tuple[int, str, str]]:
    """(row, `all_reduce in DATA_PARALLEL_GROUP of 4` or `send in ...`, which of the rank's groups and peers it was)."""
    flight = table.rows[rank]
    columns = flight.dump.columns
    roles = {index: role_of(table, rank, index) for index in range(len(columns.groups))}
    texts: dict[tuple[int, int], tuple[str, str]] = {}
    placed = []
    for row, op, group in zip(flight.row.tolist(), flight.op.tolist(), flight.group.tolist(), strict=True):
        if (op, group) not in texts:
            texts[(op, group)] = (f"{base_name(columns.ops[op])} in {roles[group]}", f"{group}")
        placed.append((row, *texts[(op, group)]))
    p2p = flight.p2p
    for row, sends, group, peer in zip(
        p2p.row.tolist(), p2p.sends.tolist(), p2p.group.tolist(), p2p.peer.tolist(), strict=True
    ):
        placed.append((row, f"{'send' if sends else 'recv'} in {roles[group]}", f"{group}/{peer}"))
    return sorted(placed)


def roles_of(table: RollTable, rank: int) -> list[tuple[int, str]]:
    """(row, what it is) in program order, without what differs between ranks in equal places: comparable."""
    return [(row, text) for row, text, _ in _operations(table, rank)]


def tokens_of(table: RollTable, rank: int) -> tuple[list[int], list[int], list[str]]:
    """(row, token) of every operation in program order, and what the tokens stand for; one rank's own past."""
    tokens: dict[tuple[str, str], int] = {}
    placed = _operations(table, rank)
    own = [tokens.setdefault((text, which), len(tokens)) for _, text, which in placed]
    return [row for row, _, _ in placed], own, [text for text, _ in tokens]


def first_break(tokens: list[int], start: int) -> tuple[bool, int | None]:
    """(whether the past predicts anything from `start` on, position of the first operation that breaks it or None)."""
    predicted = False
    for position in range(start, min(len(tokens), start + 2 * BREAK_WINDOW)):
        prediction = expected(tokens, position)
        if prediction is None:
            continue
        predicted = True
        if prediction != tokens[position]:
            return True, position
    return predicted, None


def broke_order(table: RollTable, ranks: tuple[int, ...]) -> dict[int, str]:
    """Ranks that left the order they had always kept, if another one kept its own; what they did instead."""
    broke: dict[int, str] = {}
    kept = 0
    for rank in ranks:
        head = table.heads.get(rank)
        if rank not in table.rows or head is None:
            return {}
        rows, tokens, names = tokens_of(table, rank)
        p2p = table.rows[rank].p2p
        batch = p2p.row[p2p.batch == head.batch].tolist() if head.batch is not None else []
        row = batch[0] if batch else head.row
        start = max(0, int(np.searchsorted(rows, row)) - BREAK_WINDOW)
        predicted, place = first_break(tokens, start)
        if not predicted:
            return {}
        if place is None:
            kept += 1
        else:
            broke[rank] = f"{names[tokens[place]]}, which its own past does not lead to"
    return broke if kept else {}
