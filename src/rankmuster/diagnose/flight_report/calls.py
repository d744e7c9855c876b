"""Calls as text, and the ranks that passed the same one told together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rankmuster.diagnose.detectors.mismatch import describe
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.signatures import Shapes, Signature
from rankmuster.model.flight_report import Camp

MAX_SHAPES = 8
"""Tensors of one call that are written out; a list of a thousand parts is told by its length and its elements."""


def call_text(signature: Signature) -> str:
    """`_all_gather_base of [512] BFloat16 into [2048]`; the output where it differs from the input."""
    if max(len(signature.in_sizes), len(signature.out_sizes)) <= MAX_SHAPES:
        text = describe(signature)
        if signature.out_sizes and signature.out_sizes != signature.in_sizes:
            text += " into " + " + ".join(str(list(shape)) for shape in signature.out_sizes)
        return text
    kinds = "/".join(dict.fromkeys(signature.in_dtypes))
    return f"{signature.op} of {_parts(signature.in_sizes)} {kinds} into {_parts(signature.out_sizes)}"


def _parts(shapes: Shapes) -> str:
    if len(shapes) <= MAX_SHAPES:
        return " + ".join(str(list(shape)) for shape in shapes) or "no tensor"
    from rankmuster.diagnose.legal import elements

    return f"{len(shapes)} tensors, {sum(map(elements, shapes))} elements"


def call_at(table: RollTable, group: int, seq: int, ranks: Iterable[int]) -> str:
    """The call that the first of `ranks` with a record of it passed; empty where none has one."""
    for rank in ranks:
        roll = table.rolls.get((group, rank))
        position = roll.at(seq) if roll is not None else None
        if roll is not None and position is not None:
            return call_text(table.signatures[int(roll.signature[position])])
    return ""


def camps(entered: Mapping[int, Signature]) -> tuple[Camp, ...]:
    """Ranks by what they passed, the largest camp first."""
    ranks: dict[Signature, list[int]] = defaultdict(list)
    for rank, signature in entered.items():
        ranks[signature].append(rank)
    found = [Camp(tuple(sorted(members)), call_text(signature)) for signature, members in ranks.items()]
    return tuple(sorted(found, key=lambda camp: (-len(camp.ranks), camp.ranks)))
