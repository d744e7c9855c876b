"""Which runs of a history are the baseline of a group: change points are marked, only an accepted one moves it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankmuster.baseline.regimes import Group, group_of
from rankmuster.baseline.window import window
from rankmuster.model.history import ChangePoint, ClassHistory


def applicable(history: ClassHistory, group: Group) -> NDArray[np.bool_]:
    """Of shape (runs,): True where a run is of the baseline level of `group`, as `baseline/window.py` has it.

    A point of one cell counts for its whole group, whose sizes are judged together.
    """
    return window(point for point in history.change_points if _concerns(point, history, group)).holds(
        history.started_at
    )


def _concerns(point: ChangePoint, history: ClassHistory, group: Group) -> bool:
    if (point.class_hash, point.profile) != (history.class_hash, history.profile):
        return False
    return point.cell is None or group_of(point.cell) == group
