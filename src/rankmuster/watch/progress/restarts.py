"""Counters that fall: a server that was started again, or several servers under one name."""

from __future__ import annotations

from collections.abc import Iterable

from rankmuster.diagnose.thresholds import DEFAULTS as DIAGNOSE
from rankmuster.watch.progress.loaded import Interval

FALLS = DIAGNOSE.most_resets + 1
"""Falls of counters within a window that are too many to be restarts."""


class Restarts:
    """Of one instance. `window_seconds`: how long a fall is remembered."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._falls: list[float] = []  # when counters fell, the last few

    def take(self, now: float, intervals: Iterable[Interval]) -> bool:
        """Whether the newest intervals tell a restart that was not told before. `now`: monotonic seconds."""
        fell = max((one.at for one in intervals if one.fell), default=None)
        if fell is None or self._falls[-1:] == [fell]:
            return False
        recent = [at for at in self._falls if now - at < self._window_seconds]
        self._falls = [*recent, fell][-FALLS:]
        # Counters that fall again and again are several servers' under one name, and no restart.
        return len(self._falls) < FALLS
