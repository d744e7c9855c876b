"""Groups against their equals: same role, layout, operation, size and type, whose transfers should take the same.

Blind where a job has one group of a kind, and to what all of them share. Of two groups that differ none is odd.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rankmuster.diagnose.slow.keys import VARIOUS
from rankmuster.diagnose.slow.limits import SlowLimits
from rankmuster.model.slow import Operation, OperationKey, SlowGroup

_NORMAL = 1.4826
"""Standard deviations of a normal distribution in a median absolute deviation."""


def slower(
    operations: Iterable[Operation], whole: frozenset[int], seconds: float, limits: SlowLimits
) -> list[SlowGroup]:
    """The groups that are slower than their equals, by what that costs; all operations of one together decide.

    `whole`: keys of groups with all their members: where one is missing, what looks like transfer may be waiting for
    it. `seconds`: length of the window.
    """
    kinds: dict[OperationKey, list[Operation]] = defaultdict(list)
    for one in operations:
        enough = one.collectives >= limits.group_collectives
        if one.transfer is not None and enough and one.group in whole and one.key.size != VARIOUS:
            kinds[one.key].append(one)
    found: list[tuple[int, SlowGroup]] = []
    lost: dict[int, float] = defaultdict(float)
    for key, equals in kinds.items():
        if len(equals) < 2:
            continue
        medians = np.array([one.transfer.p50 for one in equals if one.transfer is not None])
        for index, one in enumerate(equals):
            others = np.delete(medians, index)
            middle = float(np.median(others))
            spread = float(np.median(np.abs(others - middle))) * _NORMAL
            median = float(medians[index])
            apart = median > limits.group_ratio * middle and median - middle > limits.change_ms
            if not apart or median - middle <= limits.group_spreads * spread or middle <= 0:
                continue
            share = (median - middle) / 1e3 * one.collectives / seconds if seconds > 0 else 0.0
            lost[one.group] += share
            odd = len(equals) >= limits.group_fewest
            found.append(
                (one.group, SlowGroup(one.index, one.label, one.members, key, median, middle, len(others), share, odd))
            )
    told = [replace(slow, odd=slow.odd and lost[group] >= limits.shared_share) for group, slow in found]
    told.sort(key=lambda one: (not one.odd, -one.share))
    return told
