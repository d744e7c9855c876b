"""One rank's whole program as tokens: collectives of all groups, sends, receives and batches, as enqueued."""

from __future__ import annotations

import re

import numpy as np

from rankmuster.diagnose.habit import CONTEXT_LENGTHS, MIN_REPEATS
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


def roles_of(table: RollTable, rank: int) -> list[tuple[int, str]]:
    """(row, `all_reduce in DATA_PARALLEL_GROUP of 4` or `send in ...`) in program order: comparable between ranks."""
    flight = table.rows[rank]
    columns = flight.dump.columns
    roles = {index: role_of(table, rank, index) for index in range(len(columns.groups))}
    texts: dict[tuple[int, int], str] = {}
    placed = []
    for row, op, group in zip(flight.row.tolist(), flight.op.tolist(), flight.group.tolist(), strict=True):
        if (op, group) not in texts:
            texts[(op, group)] = f"{columns.ops[op].split(':', 1)[-1]} in {roles[group]}"
        placed.append((row, texts[(op, group)]))
    placed += [(entry.row, f"{entry.kind} in {roles[entry.group]}") for entry in flight.p2p]
    return sorted(placed)


def tokens_of(table: RollTable, rank: int) -> tuple[list[int], list[int], list[str]]:
    """(row, token) of every operation in program order, and what the tokens stand for."""
    flight = table.rows[rank]
    columns = flight.dump.columns
    names: dict[str, int] = {}
    roles = {index: role_of(table, rank, index) for index in range(len(columns.groups))}
    placed = [
        (row, f"{columns.ops[op].split(':', 1)[-1]} in {roles[group]}/{group}")
        for row, op, group in zip(flight.row.tolist(), flight.op.tolist(), flight.group.tolist(), strict=True)
    ]
    placed += [(entry.row, f"{entry.kind} in {roles[entry.group]}/{entry.group}/{entry.peer}") for entry in flight.p2p]
    placed.sort()
    return [row for row, _ in placed], [names.setdefault(name, len(names)) for _, name in placed], list(names)


def first_break(tokens: list[int], start: int) -> tuple[bool, int | None]:
    """(whether the past predicts anything from `start` on, position of the first operation that breaks it or None)."""
    predicted = False
    for position in range(start, min(len(tokens), start + 2 * BREAK_WINDOW)):
        expected = _expected(tokens, position)
        if expected is None:
            continue
        predicted = True
        if expected != tokens[position]:
            return True, position
    return predicted, None


def _expected(tokens: list[int], position: int) -> int | None:
    for length in CONTEXT_LENGTHS:
        if position < length + MIN_REPEATS:
            continue
        context = tokens[position - length : position]
        followers = [
            tokens[place + length]
            for place in range(position - length)
            if tokens[place] == context[0] and tokens[place : place + length] == context
        ]
        if len(followers) >= MIN_REPEATS:
            return followers[0] if len(set(followers)) == 1 else None
    return None


def broke_order(table: RollTable, ranks: tuple[int, ...]) -> dict[int, str]:
    """Ranks that left the order they had always kept, if another one kept its own; what they did instead."""
    broke: dict[int, str] = {}
    kept = 0
    for rank in ranks:
        head = table.heads.get(rank)
        if rank not in table.rows or head is None:
            return {}
        rows, tokens, names = tokens_of(table, rank)
        batch = (entry.row for entry in table.rows[rank].p2p if entry.batch == head.batch)
        row = head.row if head.batch is None else next(batch, head.row)
        start = max(0, int(np.searchsorted(rows, row)) - BREAK_WINDOW)
        predicted, place = first_break(tokens, start)
        if not predicted:
            return {}
        if place is None:
            kept += 1
        else:
            broke[rank] = f"{names[tokens[place]].split('/')[0]}, which its own past does not lead to"
    return broke if kept else {}
