"""Which differences between the members of one collective are errors, per operation (torch.distributed's contracts).

Lists may be uneven where the program gathers or exchanges uneven parts; roots pass more than others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.signatures import Shapes, Signature
from rankmuster.model.fault import Subkind

SYMMETRIC = (
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
    "all_to_all",
    "alltoall",
    "barrier",
)
"""Operations that nobody leaves before everybody has entered; roots of the others leave early in health."""


class Sizes(Enum):
    """What the sizes of one collective's members must agree in."""

    EXCHANGE = "exchange"  # per pair, or in all together: what one sends the other expects
    GATHER_ALL = "gather all"  # every output holds what every member gave
    INPUT = "input"  # the shapes of the inputs
    TOTAL_OUT = "total out"  # the root alone passes an input
    TOTAL_IN = "total in"  # the root alone takes an output
    ELEMENTS = "elements"  # the elements of each input tensor: [16, 4096] and [65536] are the same message


_SIZES = (
    (("all_to_all", "alltoall"), Sizes.EXCHANGE),
    (("all_gather", "allgather"), Sizes.GATHER_ALL),
    (("reduce_scatter",), Sizes.INPUT),
    (("scatter",), Sizes.TOTAL_OUT),
    (("gather", "reduce"), Sizes.TOTAL_IN),
)


def sizes_of(op: str) -> Sizes:
    """By the operation's name, `all_reduce` or `_allgather_base`."""
    name = op.lower().lstrip("_")
    return next((sizes for beginnings, sizes in _SIZES if name.startswith(beginnings)), Sizes.ELEMENTS)


def is_symmetric(op: str) -> bool:
    """Whether finishing `op` proves that every member entered it."""
    name = op.lower().lstrip("_")
    return any(name.startswith(known) for known in SYMMETRIC)


def symmetric_mask(table: RollTable) -> NDArray[np.bool_]:
    """Which of the table's signatures are of symmetric operations, shape (signatures,)."""
    return np.array([is_symmetric(signature.op) for signature in table.signatures], dtype=bool)


def differs(entered: Mapping[int, Signature], members: tuple[int, ...], *, inferred: bool = False) -> Subkind | None:
    """The sub-kind of the difference between the members' calls of one number, None for a legal one.

    `inferred`: there may be more members than `members`, so that who passes what to whom cannot be told.
    """
    signatures = list(entered.values())
    if len({signature.op for signature in signatures}) > 1:
        return Subkind.OP_MISMATCH
    if len({signature.in_dtypes for signature in signatures if signature.in_dtypes}) > 1 and _dtypes_clash(signatures):
        return Subkind.DTYPE_MISMATCH
    if inferred and sizes_of(signatures[0].op) in (Sizes.EXCHANGE, Sizes.GATHER_ALL):
        return None
    return Subkind.SIZE_MISMATCH if _sizes_clash(entered, members) else None


def _dtypes_clash(signatures: list[Signature]) -> bool:
    # Lists of different length are a matter of size; the same length with other kinds is one of dtype.
    kinds = [frozenset(signature.in_dtypes) for signature in signatures if signature.in_dtypes]
    return len(set(kinds)) > 1


def elements(shape: tuple[int, ...]) -> int:
    """Number of elements; a scalar has one."""
    return math.prod(shape)


def total(shapes: Shapes) -> int:
    """Elements of all tensors."""
    return sum(elements(shape) for shape in shapes)


def size_key(signature: Signature) -> Hashable:
    """What must be the same for all members; of exchanges and gatherings to all, what makes them legal when it is."""
    sizes = sizes_of(signature.op)
    if sizes is Sizes.INPUT:
        return signature.in_sizes
    if sizes is Sizes.TOTAL_OUT:
        return total(signature.out_sizes)
    if sizes is Sizes.TOTAL_IN:
        return total(signature.in_sizes)
    if sizes is Sizes.GATHER_ALL:
        return total(signature.in_sizes), total(signature.out_sizes)
    return tuple(map(elements, signature.in_sizes))


def _sizes_clash(entered: Mapping[int, Signature], members: tuple[int, ...]) -> bool:
    sizes = sizes_of(next(iter(entered.values())).op)
    if sizes is Sizes.EXCHANGE:
        return _all_to_all_clash(entered, members)
    if sizes is Sizes.GATHER_ALL:
        return _all_gather_clash(entered, members)
    return len({size_key(signature) for signature in entered.values()}) > 1


def odd_pairwise(entered: Mapping[int, Signature], members: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(odd rank, all ranks that disagree) of an exchange of uneven lists, where no majority of equal calls exists.

    One rank that takes part in every disagreement, and disagrees with more than one peer, is the odd one.
    """
    pairs = set(_disagreeing(entered, members))
    involved = tuple(sorted(set().union(*pairs))) if pairs else ()
    common = frozenset.intersection(*pairs) if len(pairs) > 1 else frozenset()
    return (tuple(common) if len(common) == 1 else (), involved)


def is_uneven_list(entered: Mapping[int, Signature], members: tuple[int, ...]) -> bool:
    """Whether every member passed a list with one tensor per peer, to an operation that allows uneven ones."""
    sizes = sizes_of(next(iter(entered.values())).op)
    if sizes not in (Sizes.EXCHANGE, Sizes.GATHER_ALL) or len(members) < 2:
        return False
    gathers = sizes is Sizes.GATHER_ALL
    size = len(members)
    return all(len(s.out_sizes) == size and (gathers or len(s.in_sizes) == size) for s in entered.values())


def _disagreeing(entered: Mapping[int, Signature], members: tuple[int, ...]) -> list[frozenset[int]]:
    """Pairs of ranks of which one does not pass what the other expects of it."""
    place = {member: index for index, member in enumerate(members)}
    gathers = sizes_of(next(iter(entered.values())).op) is Sizes.GATHER_ALL
    found = []
    for giver, own in entered.items():
        for taker, other in entered.items():
            passed = total(own.in_sizes) if gathers else elements(own.in_sizes[place[taker]])
            if giver != taker and passed != elements(other.out_sizes[place[giver]]):
                found.append(frozenset((giver, taker)))
    return found


def _all_gather_clash(entered: Mapping[int, Signature], members: tuple[int, ...]) -> bool:
    inputs = {rank: total(signature.in_sizes) for rank, signature in entered.items()}
    if len(set(inputs.values())) == 1:
        return len({total(signature.out_sizes) for signature in entered.values()}) > 1
    for signature in entered.values():
        if len(signature.out_sizes) != len(members):
            return True
        for index, member in enumerate(members):
            if member in inputs and elements(signature.out_sizes[index]) != inputs[member]:
                return True
    return False


def _all_to_all_clash(entered: Mapping[int, Signature], members: tuple[int, ...]) -> bool:
    """Per peer where lists say it; otherwise only the totals over all members, for the split is not recorded."""
    size = len(members)
    lists = all(len(s.in_sizes) == size and len(s.out_sizes) == size and size > 1 for s in entered.values())
    if lists:
        place = {member: index for index, member in enumerate(members)}
        return any(
            elements(entered[a].in_sizes[place[b]]) != elements(entered[b].out_sizes[place[a]])
            for a in entered
            for b in entered
            if a in place and b in place
        )
    if set(entered) >= set(members):
        sent = sum(total(signature.in_sizes) for signature in entered.values())
        received = sum(total(signature.out_sizes) for signature in entered.values())
        return sent != received
    return False
