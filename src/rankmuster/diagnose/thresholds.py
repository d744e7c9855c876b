"""Every number a diagnosis turns on: a name, a unit, a reason and a source, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Defaults are what the captures on four H200s (docs/measured.md) and the public record support."""

    stall_seconds: float = 5.0
    """A load with frozen step counters for this long has stopped. Decode steps take 0.01 to 0.2 s; the captured stacked
    dumps, the slowest healthy pause seen, still let a step through every second."""

    stall_gaps: float = 5.0
    """... and for this many of the page's own ordinary gaps between two advances, so that slow scrapes do not alarm."""

    spin_percent: float = 95.0
    """SM utilisation from which a GPU counts as spinning; waiting NCCL kernels show 100 % in every capture."""

    idle_percent: float = 5.0
    """SM utilisation up to which a GPU counts as idle; a rank outside any kernel shows 0 %."""

    moving_kib_per_s: float = 64.0
    """Link traffic below this is none: a stopped group shows 0, the slowest healthy GPU in the captures 500 KiB/s."""

    hardware_seconds: float = 4.0
    """How long the picture of spinning and idle GPUs must stand; shorter than the 15 s bar for a confirmed stop."""

    uneven_busy_percent: float = 85.0
    """SM utilisation of ranks that wait in their kernels for a late one; healthy ones vary together."""

    uneven_quiet_percent: float = 20.0
    """... and of the late one itself, which computes little and never waits: 1 % in the capture."""

    hardware_samples: int = 4
    """... in at least so many samples of each GPU."""

    ras_gap_seconds: float = 1.5
    """Two polls closer than this count as one look: a healthy busy job shows MISMATCH in half of single polls."""

    tail_gaps: float = 5.0
    """Outstanding operations younger than so many of the dump's own longest ordinary gaps are a moving job's tail."""

    tail_seconds: float = 2.0
    """... and than this: the longest time a healthy step took in the captures, stacked dumps aside, is 0.2 s."""

    sweep_seconds: float = 0.1
    """How often torch's watchdog looks for finished work (kWatchdogThreadSleepMillis in ProcessGroupNCCL.hpp):
    operations that follow each other faster leave completed and unretired entries in any dump of a moving job."""

    dump_spread_seconds: float = 60.0
    """Dumps of one incident lie closer together; a dump that ends this much before its peers belongs to another run or
    another time (torch waits up to 60 s for a dump before it takes the process down)."""

    init_seconds: float = 15.0
    """An init that still waits for a rank after this long is stuck; bootstrap of a present rank takes milliseconds (the
    captures' `Bootstrap timings total` is 0.01 to 0.3 s, 3 s at 1,000 ranks)."""

    aftershock_seconds: float = 1.0
    """Exits within this of the first one may be simultaneous; later ones are consequences until proven otherwise."""

    late_share: float = 0.25
    """Share of wall time that waiting for one rank must take before it is called late; the captured slow rank takes
    0.95, and a share of a quarter is the rate of the whole instance lost by a quarter."""

    late_share_disturbed: float = 0.5
    """The same where dumps carry stacks and nothing says when they were asked for: the window may be the dump's own
    making. Healthy captures reach 0.34 in it."""

    late_span_seconds: float = 1.0
    """Shortest time that lateness is judged on; in the 50 ms after a start one hiccup takes a quarter of it."""

    late_dominance: float = 0.6
    """... and the share of all waiting that this one rank must account for."""

    tail_share: float = 0.1
    """Share of wall time from which single long waits count as a tail."""

    tail_wait_ms: float = 5.0
    """Shortest wait of a tail; scheduling hiccups of a host stay below."""

    late_rounds: int = 20
    """Fewest symmetric operations that late arrival is judged on."""

    slow_ratio: float = 0.5
    """Rate against the instance's own earlier rate below which progress is slow."""

    stack_dump_seconds: float = 30.0
    """After a dump with stacks the job is slowed by it: this window says nothing of its speed (5 to 10 s seen)."""

    prefix_calls: int = 3
    """Collective calls that must agree before a difference in a call log is taken as one of order, not of alignment."""


DEFAULTS = Thresholds()
