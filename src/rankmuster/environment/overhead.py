"""What start events cost: only two recordings of one load, with and without them, tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankmuster.environment.calibrated import Grounds, Value

if TYPE_CHECKING:
    from rankmuster.environment.recorded import Recorded

ENOUGH = 3
"""Bundles of each kind from which the spread between them can be told from the difference."""


def timing(bundles: Sequence[Recorded]) -> Value:
    """Share of the engine's steps that timing costs; below 0: faster with it, which is noise."""
    rates = {on: [b.step_rate for b in bundles if b.timing is on and b.step_rate] for on in (True, False)}
    with_, without = rates[True], rates[False]
    shapes = {(b.instance[0], b.world_size) for b in bundles if b.timing is not None and b.step_rate}
    if not with_ or not without or len(shapes) > 1:
        why = (
            "the bundles are of different instances or sizes"
            if with_ and without
            else f"of {len(bundles)}, {len(with_)} with timing and {len(without)} without have a steady rate of steps"
        )
        return Value(
            "timing_overhead", None, "share of steps", Grounds.UNDECIDED, why,
            len(with_) + len(without),
            missing="bundles of one instance under the same load with TORCH_NCCL_ENABLE_TIMING=1 and with 0, taken in "
            "turns, three of each",
            to_set=False,
        )  # fmt: skip
    share = 1 - float(np.mean(with_)) / float(np.mean(without))
    spread = _spread(with_, without)
    few = len(with_) < ENOUGH or len(without) < ENOUGH
    doubt = (
        f"; fewer than {ENOUGH} of each: an indication only"
        if few
        else f"; the bundles of one kind differ by {spread:.1%} among themselves"
    )
    return Value(
        "timing_overhead", round(share, 4), "share of steps", Grounds.MEASURED,
        f"{np.mean(with_):.4g} steps a second with timing ({len(with_)} bundles), {np.mean(without):.4g} without "
        f"({len(without)}){doubt}",
        len(with_) + len(without),
        f"{max(share, 0):.2%} of the instance's steps",
        to_set=False,
    )  # fmt: skip


def _spread(*groups: Sequence[float]) -> float:
    return max(float(np.ptp(group)) / float(np.mean(group)) for group in groups)
