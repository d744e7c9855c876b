"""What the operator asked for. Light: the command line reads it before anything else is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

UNKNOWN = "unknown"
"""For an instance's incarnation: somebody else knows it, and a guess would contradict him."""


class RasRisk(str, Enum):
    """When RAS is asked on versions whose STATUS can hurt the job."""

    NEVER = "never"
    AFTER_STOP_CONFIRMED = "after_stop_confirmed"
    ALWAYS = "always"


class DumpWish(str, Enum):
    """When the ranks are asked to write Flight Recorder dumps. WHEN_NOT_HEALTHY: not while work is seen to advance, or
    there is none to do."""

    NEVER = "never"
    WHEN_NOT_HEALTHY = "when_not_healthy"
    ALWAYS = "always"


class AddressMode(str, Enum):
    """KEEP: all stay. FOREIGN: public ones that are not the instance's get a pseudonym. ALL: every one that tells
    where a machine is (loopback, link-local, multicast and masks tell nothing and stay)."""

    KEEP = "keep"
    FOREIGN = "foreign"
    ALL = "all"


class Part(str, Enum):
    """What one collection takes, where two share the work. POD: what the ranks say and leave (RAS, dumps, logs, pages,
    states of processes). NODE: what the node says of them (GPUs, network, kernel, topology), and nobody is asked."""

    ALL = "all"
    POD = "pod"
    NODE = "node"


LOOK_SECONDS = 3.0
"""Between two looks: GPU utilisation is itself a mean over up to a second, and three of them fit into a deadline."""

RAS_GAP_SECONDS = 2.0
"""Between two RAS polls: above the 1.5 s below which `diagnose` counts two as one look, since one look at a busy job
often shows a mismatch; and short, since each poll may take 10 s of the deadline when a member does not answer. Watchers
that poll again and again should leave 10 s and more between."""

RAS_POLLS = 2
"""The fewest that tell standing still from passing by."""

LOG_BYTES = 8 << 20
"""Of each log: a stop writes kilobytes, and NCCL's INFO lines of an init some megabytes."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator asked for. Times in seconds.

    `look_seconds`: time between two looks at counters and pages. `ras_gap_seconds`: time between two RAS polls.
    `stop_confirmed`: the caller knows already that the instance has stopped (the watcher, a person).
    `max_log_bytes`: of each log, at most its last so many bytes. `left`: logs of processes that have ended, files or
    folders on this host. `part`: what is taken.
    """

    ras_risk: RasRisk = RasRisk.AFTER_STOP_CONFIRMED
    dumps: DumpWish = DumpWish.WHEN_NOT_HEALTHY
    stacks: bool = True
    stop_confirmed: bool = False
    look_seconds: float = LOOK_SECONDS
    ras_gap_seconds: float = RAS_GAP_SECONDS
    ras_polls: int = RAS_POLLS
    max_log_bytes: int = LOG_BYTES
    metrics_url: str | None = None
    addresses: AddressMode = AddressMode.FOREIGN
    left: tuple[str, ...] = ()
    part: Part = Part.ALL
