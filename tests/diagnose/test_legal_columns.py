"""What is told over whole tables is what `legal.differs` says of each number."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rankmuster.diagnose.legal import differs
from rankmuster.diagnose.legal_columns import surely_legal
from rankmuster.diagnose.signatures import Signature

OPS = ("all_reduce", "_allgather_base", "all_gather", "all_to_all", "reduce_scatter", "scatter", "gather", "reduce")


def _signature(chance: random.Random, members: int) -> Signature:
    op = chance.choice(OPS)
    lists = chance.random() < 0.5
    count = members if lists else 1
    ins = tuple((chance.choice((1, 2)),) for _ in range(count))
    outs = tuple((chance.choice((1, 2)),) for _ in range(count))
    return Signature(op, ins, outs, ("Float",) * chance.choice((0, 1, 1)), ("Float",))


@pytest.mark.parametrize("seed", range(30))
def test_surely_legal_is_never_said_of_what_differs(seed: int) -> None:
    chance = random.Random(seed)
    members = chance.choice((2, 3, 4))
    signatures = [_signature(chance, members) for _ in range(6)]
    calls = np.array([[chance.randrange(-1, 6) for _ in range(200)] for _ in range(members)], dtype=np.int32)
    legal = surely_legal(calls, signatures, members)
    for column in np.flatnonzero(legal).tolist():
        entered = {rank: signatures[calls[rank, column]] for rank in range(members) if calls[rank, column] >= 0}
        assert differs(entered, tuple(range(members))) is None


def _exchange(sizes: list[list[int]], rank: int) -> Signature:
    return Signature(
        "all_to_all",
        tuple((size,) for size in sizes[rank]),
        tuple((row[rank],) for row in sizes),
        ("Float",),
        ("Float",),
    )


def test_an_uneven_exchange_that_agrees_per_peer_is_legal_and_one_that_does_not_is_left() -> None:
    sizes = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    wrong = [[1, 3, 2], [4, 5, 6], [7, 8, 9]]  # the totals are the same
    signatures = [*(_exchange(sizes, rank) for rank in range(3)), _exchange(wrong, 0)]
    calls = np.array([[0, 3], [1, 1], [2, 2]], dtype=np.int32)
    assert surely_legal(calls, signatures, 3).tolist() == [True, False]
    assert differs({0: signatures[3], 1: signatures[1], 2: signatures[2]}, (0, 1, 2)) is not None


def test_an_uneven_gathering_is_legal_when_each_output_holds_what_its_member_gave() -> None:
    outs = ((1,), (2,), (3,))
    signatures = [Signature("all_gather", ((give,),), outs, ("Float",), ("Float",)) for give in (1, 2, 3, 4)]
    calls = np.array([[0, 0], [1, 1], [2, 3]], dtype=np.int32)
    assert surely_legal(calls, signatures, 3).tolist() == [True, False]


def test_a_split_that_is_not_recorded_is_legal_by_its_totals_when_all_are_there() -> None:
    def single(sent: int, received: int) -> Signature:
        return Signature("all_to_all", ((sent, 8),), ((received, 8),), ("Float",), ("Float",))

    signatures = [single(3, 1), single(2, 4), single(2, 3)]
    calls = np.array([[0, 0, 0], [1, 2, -1]], dtype=np.int32)
    assert surely_legal(calls, signatures, 2).tolist() == [True, False, False]


def test_sums_that_do_not_fit_are_left_to_the_exact_rule() -> None:
    vast = Signature("all_to_all", ((1 << 60, 1 << 60),), ((1 << 60, 1 << 60),), ("Float",), ("Float",))
    other = Signature("all_to_all", ((1 << 61, 1 << 60),), ((1 << 61, 1 << 60),), ("Float",), ("Float",))
    assert not surely_legal(np.array([[0], [1]], dtype=np.int32), [vast, other], 2).any()
