"""Every metric of the watch, as values: what docs/metrics.md, the alert rules and the dashboard are checked against.

Never a label by process or by message: what has a pid or a sentence stands in the state file and in the bundle.
"""

from __future__ import annotations

from rankmuster.collect.outcome import Ending
from rankmuster.diagnose.spin import Doing
from rankmuster.metrics.declared import INSTANCE, Kind, Label, Metric
from rankmuster.model.fault import FaultClass, Progress, Subkind
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.export.collectives import COLLECTIVES
from rankmuster.watch.progress.model import Event
from rankmuster.watch.progress.speed import SpeedKind
from rankmuster.watch.respond.outcome import StepEnding

NONE = "none"
"""Of a label that does not apply."""

SOURCES = ("flight", "inspector")
STEPS = ("collect", "diagnose", "hook")
UNENDED = (StepEnding.WAITING, StepEnding.RUNNING)
EVENTS = tuple(event.value.replace(" ", "_") for event in Event)

COLLECTIVE_BUCKETS = (0.00002, 0.0001, 0.0005, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0, 60.0, 600.0)
"""Seconds. An all-reduce of a decode step takes 20 us to 100 us over NVLink, one of a prefill some milliseconds; 600 s
is torch's time-out of a NCCL call."""

STEP_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0)
"""Seconds. A decode step of a large model takes 10 ms to 50 ms, one with a prefill in it tenths."""

COLLECT_BUCKETS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 60.0, 120.0, 600.0)
"""Seconds. A collection has 20 s by default and 600 s at most (`on_stop.deadline`)."""

_STATE = Label("state", "its progress", tuple(state.value for state in Progress))
_CLASS = Label("class", "of the verdict", tuple(one.value for one in FaultClass))
_SUBCLASS = Label("subclass", "of the verdict, `none` without one", (NONE, *(one.value for one in Subkind)))
_PLANE = Label("plane", "a source of evidence", tuple(plane.value for plane in Plane))
_SOURCE = Label(
    "source", "`flight`: Flight Recorder dumps taken at stops; `inspector`: NCCL Inspector's files", SOURCES
)
_COLLECTIVE = Label("collective", "its class, whatever the variant", COLLECTIVES)


def _gauge(name: str, text: str, *labels: Label) -> Metric:
    return Metric(f"rankmuster_{name}", Kind.GAUGE, text, labels)


def _counter(name: str, text: str, *labels: Label) -> Metric:
    return Metric(f"rankmuster_{name}", Kind.COUNTER, text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: Label) -> Metric:
    return Metric(f"rankmuster_{name}", Kind.HISTOGRAM, text, labels, buckets)


STATE = _gauge("instance_state", "1 for the state that the instance is in, 0 for the others.", INSTANCE, _STATE)
STATE_SINCE = _gauge(
    "instance_state_since_timestamp_seconds", "Unix time from which the instance has been in its state.", INSTANCE
)
ENDED = _gauge(
    "instance_ended",
    "1 where every process of the instance on this node has ended, and it is still looked for: its state is unknown.",
    INSTANCE,
)
FAULT = _gauge(
    "instance_fault",
    "1 while the instance is stopped or slow, with the class that the watch itself sees.",
    INSTANCE,
    _CLASS,
    _SUBCLASS,
)
RANKS = _gauge(
    "ranks",
    "Ranks of the instance on this node, by what their GPU does.",
    INSTANCE,
    Label("doing", "`spinning`: kernels run and no byte moves", tuple(one.value for one in Doing)),
)
UNRESPONSIVE = _gauge(
    "unresponsive_processes",
    "Ranks on this node whose process was stopped, traced, asleep in a driver or ended at the last two looks.",
    INSTANCE,
)
GROUPS = _gauge(
    "groups",
    "Parts of the instance whose progress can be told apart, by state.",
    INSTANCE,
    Label("kind", "a communicator, or an engine of a data-parallel replica", ("communicator", "engine")),
    _STATE,
)
TOKENS = _gauge("tokens_per_second", "Tokens that the instance's engines produce in a second.", INSTANCE)
RUNNING = _gauge("requests_running", "Requests that run, by the engine's own page.", INSTANCE)
WAITING = _gauge("requests_waiting", "Requests that wait, by the engine's own page.", INSTANCE)
SPEED_KIND = _gauge(
    "speed_kind",
    "1 for how the speed compares with the instance's own past under such a load.",
    INSTANCE,
    Label(
        "kind", "`tail`: now and then; `unknown`: too little to compare with", tuple(kind.value for kind in SpeedKind)
    ),
)
SPEED_NOW = _gauge("speed_now_tokens_per_second", "Tokens in a second per request, over the last minutes.", INSTANCE)
SPEED_USUAL = _gauge(
    "speed_usual_tokens_per_second", "Tokens in a second per request, usually under such a load.", INSTANCE
)
SPEED_RATIO = _gauge("speed_ratio", "The speed now by the usual one: 1 is as ever.", INSTANCE)
PLANE_STATE = _gauge(
    "plane_state",
    "1 for whether a source of evidence speaks, is silent or cannot see a stop.",
    INSTANCE,
    _PLANE,
    Label(
        "state",
        "`silent`: should have spoken and did not; `blind`: not asked, or cannot see",
        tuple(state.value for state in PlaneState),
    ),
)
PLANE_AGE = _gauge(
    "plane_age_seconds", "Since a source of evidence spoke last; absent where it never did.", INSTANCE, _PLANE
)
LAST_STOP = _gauge("last_stop_timestamp_seconds", "Unix time of the instance's last stop, 0 for none.", INSTANCE)

EVENTS_SEEN = _counter(
    "events_total", "What was new at looks.", INSTANCE, Label("event", "as the watch tells it", EVENTS)
)
STATE_SECONDS = _counter("state_seconds_total", "Time that the instance was seen in each state.", INSTANCE, _STATE)
STOPS = _counter("stops_total", "Stops, by the class that the watch itself saw.", INSTANCE, _CLASS, _SUBCLASS)
LOOKS = _counter("looks_total", "Looks at the instance.", INSTANCE)
LOOK_CPU = _counter("look_cpu_seconds_total", "Processor time of judging, without reading the sources.", INSTANCE)

TIMEOUTS = _counter(
    "watchdog_timeouts_total",
    "Time-outs that watchdogs wrote into logs: one for each rank that says so.",
    INSTANCE,
    Label("source", "`torch`: of a collective; `engine`: the serving engine's own alarms", ("torch", "engine")),
    Label("collective", "of the call, `none` where an engine does not say", (NONE, *COLLECTIVES)),
)
DUMPS = _counter(
    "flight_dumps_total",
    "Flight Recorder dumps.",
    INSTANCE,
    Label(
        "event",
        "`announced`: a rank's log says that it writes one; `asked`: by a collection; `taken`: into a bundle",
        ("announced", "asked", "taken"),
    ),
)
CALLS = _counter("collective_calls_total", "Calls of collectives, of all ranks.", INSTANCE, _SOURCE, _COLLECTIVE)
CALL_SECONDS = _histogram(
    "collective_seconds",
    "How long calls of collectives took, of all ranks, where that was measured.",
    COLLECTIVE_BUCKETS,
    INSTANCE,
    _SOURCE,
    _COLLECTIVE,
)
STEP_SECONDS = _histogram(
    "engine_step_seconds", "How long steps of the engine took, by its own histogram.", STEP_BUCKETS, INSTANCE
)

RESPONSES = _counter(
    "responses_total",
    "What was done on stops, and how it ended.",
    INSTANCE,
    Label("step", "hooks count one each", STEPS),
    Label("outcome", "how it ended", tuple(one.value for one in StepEnding if one not in UNENDED)),
)
COLLECTORS = _counter(
    "collector_endings_total",
    "How collectors ended on stops.",
    Label("collector", "its name in the bundle's manifest"),
    Label("ending", "`nothing`: asked, and there is none of it", tuple(one.value for one in Ending)),
)
COLLECT_SECONDS = _histogram("collect_seconds", "How long collections on stops took.", COLLECT_BUCKETS)
VERDICTS = _counter("verdicts_total", "Verdicts on bundles of stops.", INSTANCE, _CLASS, _SUBCLASS)
FIRST_ODD = _gauge(
    "first_odd_rank",
    "The rank that the last bundle's verdict names first (missing, or to blame); -1 where it names none.",
    INSTANCE,
)

BUILD = _gauge("build_info", "1, with the version of the watch.", Label("version", "of rankmuster", most=4))
STARTED = _gauge("watch_start_timestamp_seconds", "Unix time at which the watch was started.")
PERIOD = _gauge("watch_period_seconds", "Time between two looks.")
LAST_LOOK = _gauge(
    "last_look_timestamp_seconds", "Unix time of the last look: one that does not rise is a stuck watch."
)
INSTANCES = _gauge("instances", "Instances that are watched on this node.")
WATCH_CPU = _counter("watch_cpu_seconds_total", "Processor time of the watch and its children.")
WATCH_MEMORY = _gauge("watch_resident_memory_bytes", "Memory of the watch and its children.")

OF_LOOKS = (
    STATE,
    STATE_SINCE,
    ENDED,
    FAULT,
    RANKS,
    UNRESPONSIVE,
    GROUPS,
    TOKENS,
    RUNNING,
    WAITING,
    SPEED_KIND,
    SPEED_NOW,
    SPEED_USUAL,
    SPEED_RATIO,
    PLANE_STATE,
    PLANE_AGE,
    LAST_STOP,
)
"""Gauges that each look writes anew, so that nothing of an instance stays that has gone."""

OF_INSTANCES = (EVENTS_SEEN, STATE_SECONDS, STOPS, LOOKS, LOOK_CPU)
OF_SIGNALS = (TIMEOUTS, DUMPS, CALLS, CALL_SECONDS, STEP_SECONDS)
OF_RESPONSES = (RESPONSES, COLLECTORS, COLLECT_SECONDS, VERDICTS, FIRST_ODD)
OF_THE_WATCH = (BUILD, STARTED, PERIOD, LAST_LOOK, INSTANCES, WATCH_CPU, WATCH_MEMORY)

PARTS: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    ("What an instance does", OF_LOOKS),
    ("What happened to it", OF_INSTANCES),
    ("What its logs, dumps and engines told", OF_SIGNALS),
    ("What was done on stops", OF_RESPONSES),
    ("The watch itself", OF_THE_WATCH),
)
"""All of them, in the order of docs/metrics.md."""

ALL: tuple[Metric, ...] = tuple(metric for _, metrics in PARTS for metric in metrics)
