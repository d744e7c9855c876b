"""What is no stop and must raise no alarm: kinds of traffic, and what happens to a job that is well, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.drill.plan import Control, Serving
from rankmuster.drill.traffic import Traffic
from rankmuster.model.fault import Progress


class Disturbance(str, Enum):
    """What is done to the job halfway. RESTART: all of it ends and is started again. PAUSED_SERVER: its front end
    answers nobody for some seconds. COUNTERS: its front end is another one, which counts from zero."""

    NONE = "none"
    RESTART = "restart"
    PAUSED_SERVER = "paused-server"
    COUNTERS = "counters"


@dataclass(frozen=True, slots=True)
class Quiet:
    """`seconds`: from the start of the watch, at least. `states`: one of which it must be in at the end."""

    name: str
    summary: str
    serving: Serving
    seconds: float
    states: tuple[Progress, ...]
    disturbance: Disturbance = Disturbance.NONE


PAUSE_SECONDS = 8.0
"""Of a front end that does not answer: one or two scrapes fail, which is no reason to call anybody."""

_WORKS, _RESTS = (Progress.ADVANCING,), (Progress.IDLE,)
_EITHER = (Progress.ADVANCING, Progress.IDLE)

QUIET = {
    quiet.name: quiet
    for quiet in (
        Quiet("busy", "more requests than it can serve", Serving(), 45.0, _WORKS),
        Quiet("steady", "a request now and then", Serving(Traffic.STEADY), 45.0, _EITHER),
        Quiet("bursty", "many requests at once, then none", Serving(Traffic.BURSTY), 75.0, _EITHER),
        Quiet("idle", "a few requests, then none; ranks rest on the host", Serving(Traffic.IDLE), 60.0, _RESTS),
        Quiet(
            "idle-broadcast",
            "a few requests, then none; ranks wait in a broadcast",
            Serving(Traffic.IDLE, control=Control.BROADCAST),
            60.0,
            _RESTS,
        ),
        Quiet("hourly", "one request in 40 s: an hour in small", Serving(Traffic.HOURLY), 100.0, _EITHER),
        Quiet(
            "long-prefill",
            "prompts of 25 s, in which no token is counted",
            Serving(Traffic.LONG_PREFILL),
            80.0,
            _EITHER,
        ),
        Quiet("start-up", "weights take 40 s to load", Serving(load_seconds=40.0), 70.0, _WORKS),
        Quiet("restart", "the whole job ends and is started again", Serving(), 60.0, _WORKS, Disturbance.RESTART),
        Quiet(
            "scrape-failure",
            f"the front end answers nobody for {PAUSE_SECONDS:.0f} s",
            Serving(),
            50.0,
            _WORKS,
            Disturbance.PAUSED_SERVER,
        ),
        Quiet(
            "counter-reset",
            "the front end's counters begin again at zero",
            Serving(),
            50.0,
            _WORKS,
            Disturbance.COUNTERS,
        ),
    )
}
"""All controls by name."""


def quiet_named(name: str) -> Quiet:
    """Raises ValueError, with the names there are."""
    if name not in QUIET:
        raise ValueError(f"there is no control named {name!r}; there are {', '.join(QUIET)}")
    return QUIET[name]
