"""Which numbers of a group are surely legal though its members passed different calls: told over whole tables.

Uneven exchanges differ at every number in health. What is left goes through `legal.differs`, one number at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankmuster.diagnose.legal import Sizes, elements, size_key, sizes_of, total
from rankmuster.diagnose.signatures import Shapes, Signature
from rankmuster.model.flight import Flags, Indexes, Ints

_MOST = 1 << 53
"""Elements above which sums over a group might not fit; no tensor of this world has as many."""

_AT_ONCE = 4_000_000
"""Pairs of members, over all numbers looked at together: 32 MB each for what is given and what is expected."""


def surely_legal(calls: Indexes, signatures: Sequence[Signature], members: int) -> Flags:
    """Per number, shape (numbers,). `calls`: indexes into `signatures`, -1 absent, shape (ranks, numbers)."""
    legal = np.zeros(calls.shape[1], dtype=bool)
    used = np.unique(calls[calls >= 0]).tolist()
    if not used:
        return legal
    own = np.searchsorted(used, np.where(calls < 0, used[0], calls)).astype(np.int32)
    absent = calls < 0
    facts = _Facts([signatures[index] for index in used])
    same_call = _same(facts.op, own, absent) & _same(facts.dtypes, own, absent)
    exchange = facts.exchange[own].any(axis=0)
    legal |= same_call & ~exchange & _same(facts.sizes, own, absent)
    if calls.shape[0] < members:
        return legal
    whole = same_call & ~absent.any(axis=0) & ~facts.huge[own].any(axis=0)
    lists = facts.lists(members)
    listed = lists.is_list[own].all(axis=0)
    totals = exchange & whole & ~listed
    legal |= totals & (facts.total_in[own].sum(axis=0) == facts.total_out[own].sum(axis=0))
    gathers = np.asarray(facts.gathers[own].all(axis=0))
    left = np.flatnonzero(whole & listed & (exchange | gathers) & ~legal)
    for start in range(0, len(left), max(1, _AT_ONCE // members**2)):
        columns = left[start : start + max(1, _AT_ONCE // members**2)]
        here = own[:, columns]  # shape (members, columns)
        # given[i, c, j]: what member i passes to member j
        given = np.where(gathers[columns][None, :, None], facts.total_in[here][:, :, None], lists.ins[here])
        legal[columns] = (given.transpose(2, 1, 0) == lists.outs[here]).all(axis=(0, 2))
    return legal


def _same(values: Ints, own: Indexes, absent: Flags) -> Flags:
    """Per number, whether all that are there have one value."""
    found = values[own]
    lowest = np.where(absent, np.iinfo(np.int64).max, found).min(axis=0)
    same: Flags = lowest == np.where(absent, -1, found).max(axis=0)
    return same


class _Lists:
    """`ins`, `outs`: elements per peer, shape (signatures, members). `is_list`: it has one tensor per member."""

    def __init__(self, signatures: Sequence[Signature], members: int) -> None:
        count = len(signatures)
        self.is_list = np.zeros(count, dtype=bool)
        self.ins = np.zeros((count, members), dtype=np.int64)
        self.outs = np.zeros((count, members), dtype=np.int64)
        for index, one in enumerate(signatures):
            gathers = sizes_of(one.op) is Sizes.GATHER_ALL
            if len(one.out_sizes) == members and members > 1 and (gathers or len(one.in_sizes) == members):
                self.is_list[index] = True
                self.outs[index] = [min(elements(shape), _MOST) for shape in one.out_sizes]
                if not gathers:
                    self.ins[index] = [min(elements(shape), _MOST) for shape in one.in_sizes]


class _Facts:
    """Per signature, shape (signatures,): numbers for what must be the same, and how many elements it has."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._signatures = signatures
        self.op = _numbered([one.op for one in signatures])
        self.dtypes = _numbered([frozenset(one.in_dtypes) for one in signatures])
        self.sizes = _numbered([size_key(one) for one in signatures])
        kinds = [sizes_of(one.op) for one in signatures]
        self.exchange = np.array([kind is Sizes.EXCHANGE for kind in kinds], dtype=bool)
        self.gathers = np.array([kind is Sizes.GATHER_ALL for kind in kinds], dtype=bool)
        self.total_in = _totals([one.in_sizes for one in signatures])
        self.total_out = _totals([one.out_sizes for one in signatures])
        self.huge = (self.total_in == _MOST) | (self.total_out == _MOST)

    def lists(self, members: int) -> _Lists:
        return _Lists(self._signatures, members)


def _numbered(values: Sequence[object]) -> Ints:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


def _totals(shapes: Sequence[Shapes]) -> Ints:
    return np.array([max(-_MOST, min(total(own), _MOST)) for own in shapes], dtype=np.int64)
