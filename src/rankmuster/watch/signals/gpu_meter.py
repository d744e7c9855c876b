"""What links count, made into one kind of counter: KiB that only rise, with what is no traffic left out.

Devices count in bytes, words or KiB, in registers that wrap, and some say rates. What is left out: bytes that looking
at a device moves, and datagrams of the network's own upkeep; a counter that moved for their sake would say that a
stopped instance works.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_KIB = 1024.0
MOST_SECONDS = 120.0
"""Between two readings of one register; after a longer silence nobody knows how often it wrapped."""

_WRAPS = 2.0**32
_WIDE = 2.0**33
"""A reading above this is none of a register of 32 bits."""


@dataclass
class Meter:
    """One counter. `unit`: bytes of one count. `floor`: bytes per second that are no traffic (`0.0`: all are).

    `wraps`: the register may be 32 bits wide; then what it rose by is known but for whole turns, and that it moved is
    all that is meant. A reading that fell otherwise is a reset: it adds nothing.
    """

    unit: float = 1.0
    floor: float = 0.0
    wraps: bool = False
    _at: float | None = None
    _raw: float = math.nan
    _kib: float = 0.0
    _wide: bool = False

    def read(self, at: float, raw: float | None) -> float:
        """KiB since the first reading, at `at` (seconds of any one clock); NaN where there is no reading."""
        if raw is None or not math.isfinite(raw) or raw < 0:
            self._at = None
            return math.nan
        self._wide = self._wide or raw > _WIDE
        before, was = self._at, self._raw
        self._at, self._raw = at, raw
        if before is None or at <= before or at - before > MOST_SECONDS:
            return self._kib
        rose = raw - was
        if rose < 0 and self.wraps and not self._wide:
            rose += _WRAPS
        return self._add(rose * self.unit, at - before)

    def run(self, at: float, rate: float | None) -> float:
        """The same from a rate in units per second that stands for the time since the last reading."""
        if rate is None or not math.isfinite(rate) or rate < 0:
            self._at = None
            return math.nan
        before, self._at = self._at, at
        if before is None or at <= before or at - before > MOST_SECONDS:
            return self._kib
        return self._add(rate * self.unit * (at - before), at - before)

    def _add(self, moved: float, seconds: float) -> float:
        if moved > self.floor * seconds:
            self._kib += moved / _KIB
        return self._kib
