"""Which runs of a class's history are its baseline: change points are marked, and only an accepted one moves it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankmuster.baseline.regimes import Group, group_of
from rankmuster.model.history import ChangePoint, ChangeState, ClassHistory


def applicable(history: ClassHistory, group: Group) -> NDArray[np.bool_]:
    """Of shape (runs,): True where a run is of the baseline level of `group`.

    An accepted point begins the baseline anew. What comes after an open point is of a level that nobody has accepted,
    and stays out until a later point is accepted. What comes after a dismissed one is of a bad spell, and stays out to
    its end (`until`), or likewise where that is not known.
    """
    use = np.ones(len(history.nodes), dtype=np.bool_)
    for point in sorted((p for p in history.change_points if _concerns(p, history, group)), key=lambda p: p.at):
        after = history.started_at >= point.at
        if point.state is ChangeState.ACCEPTED:
            use = after
            continue
        if point.state is ChangeState.DISMISSED and point.until is not None:
            after = after & (history.started_at < point.until)
        use &= ~after
    return use


def _concerns(point: ChangePoint, history: ClassHistory, group: Group) -> bool:
    if (point.class_hash, point.profile) != (history.class_hash, history.profile):
        return False
    return point.cell is None or group_of(point.cell) == group
