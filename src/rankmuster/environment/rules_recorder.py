"""Contradictions among the Flight Recorder's variables."""

from __future__ import annotations

from collections.abc import Iterator

from rankmuster.environment import costs
from rankmuster.environment.contradiction import Contradiction, Severity, Subject
from rankmuster.environment.table import TABLE
from rankmuster.environment.values import read_flag
from rankmuster.environment.version import at_least, written

_FR, _TRACE, _DUMP = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT"
_WAIT, _HEARTBEAT = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
_PIPE, _MONITOR = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_ENABLE_MONITORING"


def empty_ring(subject: Subject) -> Iterator[Contradiction]:
    """Dumps that hold nothing, or are not written, since a buffer is 0 - by setting or by default."""
    now = subject.effective
    names = (_FR, _TRACE) if at_least(subject.torch, (2, 8)) else (_TRACE,)
    fix = " and ".join(f"{name}=2000" for name in names)
    if now.dump_on_timeout and now.recorder_buffer == 0:
        how = "set to 0" if subject.given.has(_FR) or subject.given.has(_TRACE) else "not set, and 0 is the default"
        yield Contradiction(
            Severity.ERROR,
            "dump_without_buffer",
            (_DUMP, *names),
            f"dump on time-out is on and the ring is {how} in torch {written(subject.torch)}: dumps hold no entry",
            f"set {fix}",
        )
    elif now.group_buffer == 0 and now.recorder_buffer != 0:
        ring = "is not known here" if now.recorder_buffer is None else f"holds {now.recorder_buffer} entries"
        yield Contradiction(
            Severity.ERROR,
            "records_without_dump",
            names,
            f"the ring {ring}, and ProcessGroupNCCL's own copy of its size is 0: no dump is ever written",
            f"set {fix}",
        )
    elif now.recorder_buffer == 0:
        yield Contradiction(
            Severity.WARNING, "recorder_off", names, "the ring is 0: the Flight Recorder records nothing", f"set {fix}"
        )
    if now.recorder_buffer is not None and now.recorder_buffer < 0:
        yield Contradiction(Severity.ERROR, "negative_buffer", names, "a ring of less than 0 entries", f"set {fix}")


def ring_by_version(subject: Subject) -> Iterator[Contradiction]:
    """Nobody set a ring and nobody said which torch runs: the defaults that are shown may be another version's."""
    if subject.given.torch is None and not (subject.given.has(_FR) or subject.given.has(_TRACE)):
        yield Contradiction(
            Severity.NOTE,
            "ring_by_version",
            (_FR, _TRACE),
            f"torch {written(subject.torch)} is only assumed: 2.10 and older record nothing unless a ring is set, and "
            "dump files without entries or none",
            f"set {_FR}=2000 and {_TRACE}=2000, which every version reads one of; or give --torch",
        )


def dump_off(subject: Subject) -> Iterator[Contradiction]:
    """Something records and nobody writes it down."""
    now = subject.effective
    if now.dump_on_timeout is False and now.recorder_buffer:
        how = "off" if subject.given.has(_DUMP) else f"off by default in torch {written(subject.torch)}"
        yield Contradiction(
            Severity.WARNING,
            "no_dump_on_timeout",
            (_DUMP,),
            f"the ring records, and dump on time-out is {how}: a time-out leaves no file",
            f"set {_DUMP}=1",
        )
    if now.dump_on_timeout and now.monitoring is False:
        yield Contradiction(
            Severity.WARNING,
            "dump_without_monitoring",
            (_DUMP, _MONITOR),
            "torch documents that dump on time-out wants monitoring on; where it dumps all the same, a process whose "
            "watchdog is stuck is only logged, and stays for ever",
            f"set {_MONITOR}=1",
        )
    elif now.monitoring is False:
        yield Contradiction(
            Severity.WARNING,
            "monitoring_off",
            (_MONITOR,),
            "monitoring is off: a process whose watchdog is stuck is only logged, and stays for ever",
            f"set {_MONITOR}=1",
        )


def blocking(subject: Subject) -> Iterator[Contradiction]:
    """No watchdog, or one that does nothing."""
    now = subject.effective
    if now.blocking_wait:
        yield Contradiction(
            Severity.ERROR,
            "blocking_wait",
            ("TORCH_NCCL_BLOCKING_WAIT",),
            "there is no watchdog with blocking wait: nothing is marked finished, nothing times out by itself, nothing "
            "is dumped",
            "unset TORCH_NCCL_BLOCKING_WAIT",
        )
    if now.error_handling == 0 and not now.desync:
        yield Contradiction(
            Severity.WARNING,
            "errors_ignored",
            ("TORCH_NCCL_ASYNC_ERROR_HANDLING",),
            "0: the watchdog sees errors and time-outs and does nothing, so a stuck instance stays stuck",
            "unset TORCH_NCCL_ASYNC_ERROR_HANDLING (3 is the default)",
        )


def pipe(subject: Subject) -> Iterator[Contradiction]:
    """A pipe that is not made, or is polled so rarely that nobody waits for it."""
    now = subject.effective
    if now.pipe is None:
        return
    if now.pipe_buffer == 0:
        unset = "" if subject.given.has(_TRACE) else f"; it does not look at {_FR}, and its default is 0"
        yield Contradiction(
            Severity.ERROR,
            "pipe_without_buffer",
            (_PIPE, _TRACE),
            f"the pipe is made only where {_TRACE} is above 0{unset}",
            f"set {_TRACE}={now.recorder_buffer or 2000}",
        )
    if now.dump_on_timeout is False:
        yield Contradiction(
            Severity.WARNING,
            "pipe_polled_rarely",
            (_PIPE, _DUMP),
            f"the pipe is looked into every {now.heartbeat_s or '?'} s (the heartbeat) while dump on time-out is off",
            f"set {_DUMP}=1: it is then looked into every second",
        )
    if now.monitoring is False:
        yield Contradiction(
            Severity.WARNING,
            "pipe_without_monitoring",
            (_PIPE, _MONITOR),
            "the monitor thread reads the pipe; with monitoring off torch starts it without promising to",
            f"set {_MONITOR}=1",
        )


def heartbeat(subject: Subject) -> Iterator[Contradiction]:
    """Processes that are ended while they write their dump."""
    now = subject.effective
    if not now.dump_on_timeout or now.heartbeat_s is None or now.wait_ms is None:
        return
    if now.monitoring is False:  # then a heartbeat that is missed is logged, and ends nothing
        return
    two = costs.DUMP_ATTEMPTS * now.wait_ms / 1000
    four = costs.WATCHDOG_WAITS * now.wait_ms / 1000
    fix = f"set {_HEARTBEAT}={int(four) + 15}, or lower {_WAIT}"
    if now.heartbeat_s < two:
        yield Contradiction(
            Severity.ERROR,
            "heartbeat_ends_dump",
            (_HEARTBEAT, _WAIT),
            f"the heartbeat of {now.heartbeat_s} s is shorter than the two attempts at a dump ({two:g} s): the process "
            "is ended while it writes",
            fix,
        )
    elif now.heartbeat_s < four:
        yield Contradiction(
            Severity.WARNING,
            "heartbeat_near_dump",
            (_HEARTBEAT, _WAIT),
            f"the heartbeat of {now.heartbeat_s} s is shorter than the watchdog's wait for a dump ({four:g} s)",
            fix,
        )
    entries = now.recorder_buffer or 0
    needed = costs.dump_seconds(entries, stacks=now.stacks is not False)
    if needed * 1000 > now.wait_ms:
        yield Contradiction(
            Severity.WARNING,
            "wait_too_short",
            (_WAIT, _FR),
            f"a dump of {entries} entries takes about {costs.seconds_text(needed)}, and one attempt may take "
            f"{costs.seconds_text(now.wait_ms / 1000)}",
            f"set {_WAIT}={int(needed / costs.DUMP_SHARE) * 1000}, or TORCH_INCLUDE_STACK_TRACE=0",
        )


def desync_without_timing(subject: Subject) -> Iterator[Contradiction]:
    """Desync debug forces timing; who set timing to 0 gets it all the same."""
    given = subject.given
    named = next((n for n in ("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING") if given.has(n)), None)
    detail = (given.of("TORCH_DISTRIBUTED_DEBUG") or "").upper() == "DETAIL"
    if not subject.effective.desync:
        return
    cause = "TORCH_DISTRIBUTED_DEBUG" if detail else "TORCH_NCCL_DESYNC_DEBUG"
    if named and read_flag(given.of(named)) is False:
        yield Contradiction(
            Severity.WARNING,
            "desync_without_timing",
            (cause, named),
            f"timing is set to off, and {cause} forces it on: its cost is there all the same",
            f"set {named}=1, or turn {cause} off",
        )
    elif named is None:
        yield Contradiction(
            Severity.NOTE,
            "desync_forces_timing",
            (cause,),
            f"{cause} forces timing (start events) on, with its cost",
            "set TORCH_NCCL_ENABLE_TIMING=1 as well, so that it can be seen",
        )
    if detail:
        yield Contradiction(
            Severity.WARNING,
            "debug_detail",
            ("TORCH_DISTRIBUTED_DEBUG",),
            "DETAIL checks every collective with all ranks before it runs: slow, and a fault may go away with it",
            "set TORCH_DISTRIBUTED_DEBUG=OFF outside of tests",
        )


def newer_backend(subject: Subject) -> Iterator[Contradiction]:
    """The nccl2 backend does not do what these variables are set for."""
    if not subject.effective.nccl2 or not TABLE["TORCH_DIST_USE_NCCL2"].read_by(subject.torch):
        return
    names = [n for n in (_DUMP, _PIPE, "TORCH_NCCL_ENABLE_TIMING", "TORCH_NCCL_DESYNC_DEBUG") if subject.given.has(n)]
    by = "is set" if subject.given.has("TORCH_DIST_USE_NCCL2") else f"is the default of torch {written(subject.torch)}"
    yield Contradiction(
        Severity.WARNING if names else Severity.NOTE,
        "nccl2_backend",
        ("TORCH_DIST_USE_NCCL2", *names),
        f"the nccl2 backend {by}: no coordinated dump, no events; a rank that merely waits leaves no file",
        "set TORCH_DIST_USE_NCCL2=0 where dumps of all ranks are wanted",
    )


def thin_dumps(subject: Subject) -> Iterator[Contradiction]:
    """Dumps without what a comparison of ranks needs."""
    if subject.effective.only_active:
        yield Contradiction(
            Severity.WARNING,
            "only_active",
            ("TORCH_INCLUDE_ONLY_ACTIVE",),
            "finished collectives are left out of dumps: the order of calls cannot be compared between ranks",
            "unset TORCH_INCLUDE_ONLY_ACTIVE",
        )
    if subject.effective.cpp_stacks:
        yield Contradiction(
            Severity.NOTE,
            "cpp_stacks",
            ("TORCH_FR_CPP_STACK",),
            "C++ frames make dumps slow; one that is not ready in time is missing",
            "set it to 0 unless a stack must be followed into a library",
        )


RULES = (
    empty_ring,
    ring_by_version,
    dump_off,
    blocking,
    pipe,
    heartbeat,
    desync_without_timing,
    newer_backend,
    thin_dumps,
)
