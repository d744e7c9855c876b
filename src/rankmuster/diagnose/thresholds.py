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

    stall_pages: int = 2
    """... on at least so many pages. Who asks often sets it higher: what two pages far apart show may be the pause of
    whoever was asked, or of the asker."""

    patient: bool = False
    """Whether further looks follow, so that what is not settled yet may wait for them: figures that an engine writes
    anew only every so often."""

    first_step_seconds: float = 0.0
    """How long the first request of an engine may take to its first token. A watch sees a start and sets it; evidence
    that was collected for want of progress comes later."""

    late_gaps: float = 2.5
    """Ordinary gaps between two advances after which a counter no longer counts as moving, and not yet as stopped."""

    most_resets: int = 2
    """Falls of its counters that one server's pages may show: a restart and one more. More are pages of several servers
    under one name, which show neither a stop nor progress."""

    rate_intervals: int = 6
    """Fewest intervals between pages on which a rate is compared with an earlier one."""

    ramp_intervals: int = 2
    """Intervals at the start of a series that a rate leaves out: an engine that just began fills its batch first."""

    steady_share: float = 0.8
    """Share of the intervals in which a counter must move for its rate to mean anything."""

    stale_page_seconds: float = 20.0
    """Time by which the rest of the evidence may outlast the last metrics page before it says nothing of the end; pages
    are scraped every 1 to 15 s."""

    stale_page_gaps: float = 2.5
    """... and this many of the pages' own ordinary gaps: who scrapes once a minute is not late after 20 s."""

    prefill_share: float = 0.05
    """Share of a GPU's ordinary link traffic that a prefill without output still moves: it moves more than decoding
    does, while retries over a cut path and keep-alives trickle."""

    spin_percent: float = 95.0
    """SM utilisation from which a GPU counts as spinning; waiting NCCL kernels show 100 % in every capture."""

    idle_percent: float = 5.0
    """SM utilisation up to which a GPU counts as idle; a rank outside any kernel shows 0 %."""

    moving_kib_per_s: float = 64.0
    """Link traffic below this is none: a stopped group shows 0, the slowest healthy GPU in the captures 500 KiB/s."""

    port_bytes_per_s: float = 1e6
    """Traffic of a network port below this is none: management datagrams and keep-alives go on while everybody waits,
    and a collective moves gigabytes."""

    hardware_seconds: float = 4.0
    """How long the picture of spinning and idle GPUs must stand; shorter than the 15 s bar for a confirmed stop."""

    hardware_samples: int = 4
    """... in at least so many samples of each GPU."""

    late_sample_gaps: float = 1.5
    """Of its ordinary intervals between samples, how many a GPU's last one may be old beside a page and still speak of
    the same time: one that is due comes with the next."""

    uneven_busy_percent: float = 85.0
    """SM utilisation of ranks that wait in their kernels for a late one; healthy ones vary together."""

    uneven_quiet_percent: float = 20.0
    """... and of the late one itself, which computes little and never waits: 1 % in the capture."""

    ras_gap_seconds: float = 1.5
    """Two polls closer than this count as one look: a healthy busy job shows MISMATCH in half of single polls."""

    two_sides_seconds: float = 60.0
    """Two RAS replies from the two sides of a lost path belong together within this; collectors ask all nodes at least
    once a minute."""

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

    late_dominance: float = 0.6
    """Share of all waiting that the one late rank must account for; the captured slow rank accounts for 1.0."""

    late_span_seconds: float = 1.0
    """Shortest time that lateness is judged on; in the 50 ms after a start one hiccup takes a quarter of it."""

    tail_share: float = 0.1
    """Share of wall time from which single long waits count as a tail."""

    tail_wait_ms: float = 5.0
    """Shortest wait of a tail; scheduling hiccups of a host stay below."""

    late_most: float = 0.6
    """Share of wall time in short waits from which they count too: launch-bound healthy captures reach 0.46."""

    late_alone: float = 0.9
    """... when this one rank accounts for nearly all of it."""

    late_long_ms: float = 1.0
    """Shortest single wait that is no matter of launch order: an ordinary launch takes 0.01 to 0.1 ms."""

    late_elsewhere: float = 0.5
    """Part of its lateness that a rank must not have spent waiting in other groups to be its origin."""

    late_buckets: int = 20
    """Equal parts of the window: waiting in nearly all of them is persistent, in a few it is a tail."""

    late_bucket_share: float = 0.25
    """Part of the even share of all waiting from which a bucket counts as one that holds waiting."""

    late_steady: float = 0.75
    """Share of the buckets that must hold waiting for it to be persistent."""

    late_tail_events: int = 3
    """Fewest single waits of a tail; one hiccup is none."""

    late_tail_factor: float = 10.0
    """A wait of the tail is at least this many ordinary durations of the same group's operations."""

    late_idler_percent: float = 30.0
    """SM utilisation by which the late rank's GPU lies below its peers', which spin while they wait for it."""

    late_rounds: int = 20
    """Fewest symmetric operations that late arrival is judged on."""

    slow_ratio: float = 0.5
    """Rate against the instance's own earlier rate below which progress is slow."""

    stack_dump_seconds: float = 30.0
    """After a dump with stacks the job is slowed by it: this window says nothing of its speed (5 to 10 s seen)."""

    stack_write_seconds: float = 10.0
    """From the request to the entries of a dump with stacks: 5 to 9 s for 2,000 entries in the captures."""

    stopped_seconds: float = 1.0
    """How far apart two looks that find a process stopped by a signal must be; profilers and checkpointers that stop a
    process by signal let it go within milliseconds, and collectors look twice, seconds apart."""

    shared_memory_bytes: int = 4 << 20
    """Free /dev/shm below this is none: NCCL takes a few MiB for each connection through it (4 MiB buffers)."""

    prefix_calls: int = 3
    """Collective calls that must agree before a difference in a call log is taken as one of order, not of alignment."""

    lost_dump_chance: float = 0.05
    """Chance that the one dump that got lost of a whole job is that of a member of the group that stands, up to which
    its rank is convicted for it: members over ranks. A lost file is as likely anybody's, so that above it an innocent's
    lost dump beside a lost path explains the same; 0.05 is the customary level of a test."""


DEFAULTS = Thresholds()
