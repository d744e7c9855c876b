"""Whether the kernel's clock is kept right: the state that chronyd, ntpd or timesyncd leave in it (adjtimex(2))."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

UNSYNCHRONISED = 0x40
"""STA_UNSYNC: nobody has corrected the clock for a while."""
NANOSECONDS = 0x2000
"""STA_NANO: `offset` is in nanoseconds, else in microseconds."""


class _Timex(ctypes.Structure):
    """struct timex of linux/timex.h as C lays it out; only the head is read, the rest is room for the kernel."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    ]


def clock_state() -> dict[str, object]:
    """Errors in seconds, as the kernel estimates them; empty where it may not be asked."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        state = _Timex()  # modes 0: only asks
        if libc.adjtimex(ctypes.byref(state)) < 0:
            return {}
    except (OSError, AttributeError):
        return {}
    unit = 1e-9 if state.status & NANOSECONDS else 1e-6
    return {
        "synchronised": not state.status & UNSYNCHRONISED,
        "offset_seconds": round(state.offset * unit, 9),
        "estimated_error_seconds": round(state.esterror * 1e-6, 6),
        "maximum_error_seconds": round(state.maxerror * 1e-6, 6),
    }
