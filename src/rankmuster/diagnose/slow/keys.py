"""What makes collectives comparable: the group's role and layout, the operation, its size and type."""

from __future__ import annotations

import re
from itertools import pairwise

from rankmuster.diagnose.signatures import Shapes, Signature
from rankmuster.model.job import Group
from rankmuster.model.slow import OperationKey

VARIOUS = "various"
"""Size of an operation that differs by rank, or is one of many rare ones."""

_MOST_TEXT = 80
_TENSORS = 3
_NUMBERS = re.compile(r"[\d\s]+|0x[0-9a-fA-F]+")


def role(group: Group) -> str:
    """What the group is for, without which one it is: `tp` for tp0 and tp1; `group` where torch was told nothing."""
    if not group.desc or group.desc == "undefined":
        return "group"
    return _NUMBERS.sub("", group.desc)[:_MOST_TEXT].strip("_-:. ") or "group"


def layout(group: Group) -> str:
    """`8 ranks, stride 1`: where members stand to each other."""
    members = group.members
    gaps = {after - before for before, after in pairwise(members)}
    text = f"{len(members)} ranks"
    if len(gaps) == 1:
        text += f", stride {gaps.pop()}"
    elif gaps:
        text += f", strides {min(gaps)} to {max(gaps)}"
    return text


def size_text(shapes: Shapes) -> str:
    """`16 x 4096`; several tensors with `+` between them."""
    shown = [" x ".join(map(str, shape)) or "scalar" for shape in shapes[:_TENSORS]]
    more = len(shapes) - _TENSORS
    return " + ".join(shown + ([f"{more} more"] if more > 0 else []))[:_MOST_TEXT] or "none"


def key(group: Group, hosts: int | None, signature: Signature, *, various: bool) -> OperationKey:
    """The key of one operation of a group. `hosts`: that hold its members, None unknown."""
    kinds = tuple(dict.fromkeys(signature.in_dtypes or signature.out_dtypes))
    return OperationKey(
        role=role(group),
        layout=layout(group),
        op=signature.op[:_MOST_TEXT],
        size=VARIOUS if various else size_text(signature.in_sizes or signature.out_sizes),
        dtype=" + ".join(kinds)[:_MOST_TEXT] or "unknown",
        hosts=hosts or 0,
    )
