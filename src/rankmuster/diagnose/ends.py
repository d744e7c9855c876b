"""How each process ended, as the supervisor, launchers, engines and the kernel say it, and when at the latest."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from rankmuster.diagnose import departed, engine_state, life
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_state import Moves
from rankmuster.diagnose.memo import once
from rankmuster.diagnose.ras_view import Absence, absences
from rankmuster.diagnose.spin import picture, spinning_since
from rankmuster.evidence.exit_codes import of_status
from rankmuster.model.frameworklog import EngineWatchdog, SignalDeath, WorkerDeath
from rankmuster.model.kernel import KernelEvent, KernelEventKind, OomKill
from rankmuster.model.plane import Plane
from rankmuster.model.stamp import Stamp

AFTER_SHOCK_SIGNALS = frozenset({signal.SIGABRT, signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGHUP})
"""Signals by which watchdogs, launchers and operators take victims down."""

CRASH_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
"""Signals that a process brings upon itself; nobody sends them to a victim."""


@dataclass(frozen=True, slots=True)
class End:
    """One process's end.

    `code` None: it ended and nobody said how. `order`: unix seconds, None unknown. `text`: the line that says so, empty
    where no line does. `missed`: where the time is unknown, the first look at which RAS missed this process and no
    other, or a collector saw it gone and no other. `oom`: the kernel's out-of-memory killer did it. `stamp`: the time
    as written, which orders ends of one source where no unix time is known.
    """

    rank: int
    code: int | None
    order: float | None
    source: str
    plane: Plane
    text: str
    missed: float | None = None
    oom: bool = False
    after_alarm: bool = False  # the log that reports it had an alarm before
    stamp: Stamp | None = None

    @property
    def killed(self) -> bool:
        """Whether a signal ended it."""
        return self.code is not None and self.code < 0

    @property
    def crashed(self) -> bool:
        """Whether it ended by a signal of its own making."""
        return self.code is not None and self.code < 0 and -self.code in CRASH_SIGNALS

    @property
    def how(self) -> str:
        """`exit code 1`, `SIGKILL (out of memory)`."""
        return code_text(self.code) + (" (out of memory)" if self.oom else "")

    @property
    def latest(self) -> float | None:
        """The time by which it had ended."""
        return self.order if self.order is not None else self.missed


def code_text(code: int | None) -> str:
    """`exit code 1`, `SIGKILL`."""
    if code is None:
        return "exit code unknown"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


@once
def ends(context: Context) -> list[End]:
    """One end per rank: the supervisor's word, else a launcher's or an engine's; the kernel's above both."""
    found: dict[int, End] = {}
    missed = _missed_alone(context)
    first = departed.first_gone(context)
    if first is not None and first.seen is not None:
        missed.setdefault(first.rank, first.seen)
    oom_flags = {process.rank for process in context.facts.processes if process.oom_killed} if context.facts else set()
    for rank in context.roster.ranks:
        if rank.exit_code is not None and context.facts is not None:
            found[rank.rank] = End(
                rank.rank,
                rank.exit_code,
                rank.exited_at,
                context.facts.source,
                Plane.PLATFORM,
                "",
                missed.get(rank.rank),
                rank.rank in oom_flags and rank.exit_code == -signal.SIGKILL,
            )
    for gone in departed.departed(context).values():
        if gone.rank not in found:
            alone = None if departed.unplaced_alarm(context) else missed.get(gone.rank)
            found[gone.rank] = End(gone.rank, gone.code, None, gone.source, Plane.PLATFORM, "", alone)
    for crash in context.evidence.of(KernelEvent):
        _take_crash(context, crash, found, missed)
    deaths: list[WorkerDeath | SignalDeath] = [*context.evidence.of(WorkerDeath), *context.evidence.of(SignalDeath)]
    alarms = _first_alarm_lines(context) if deaths else {}
    for death in deaths:
        _take_death(context, death, found, missed, alarms)
    for kill in context.evidence.of(OomKill):
        _take_kill(context, kill, found, missed)
    return sorted(found.values(), key=lambda end: (end.order is None, end.order or 0.0, end.rank))


def _take_death(
    context: Context,
    death: WorkerDeath | SignalDeath,
    found: dict[int, End],
    missed: dict[int, float],
    alarms: dict[str, int],
) -> None:
    number = _victim(context, death)
    if number is None:
        return
    code = death.exit_code
    if code is None and isinstance(death, SignalDeath):
        code = -death.signal
    code = of_status(code) if code is not None else None
    time = context.time(death.origin.stamp)
    known = found.get(number)
    better = known is not None and known.order is None and time is not None and known.code == code
    if known is None or better or (known.code is None and code is not None):
        found[number] = End(
            number,
            code,
            time,
            death.origin.reference,
            Plane.FRAMEWORK_LOG,
            death.text,
            missed.get(number),
            after_alarm=alarms.get(death.origin.source, death.origin.line) < death.origin.line,
            stamp=death.origin.stamp,
        )


def _take_crash(context: Context, crash: KernelEvent, found: dict[int, End], missed: dict[int, float]) -> None:
    """A segmentation fault of a rank that has ended and of which nobody says how."""
    rank = context.roster.of_process(crash.origin.host, crash.pid)
    known = found.get(rank) if rank is not None else None
    if crash.kind is not KernelEventKind.SEGFAULT or known is None or known.code is not None:
        return
    time = context.time(crash.origin.stamp)
    source = crash.origin.reference
    found[known.rank] = End(known.rank, -signal.SIGSEGV, time, source, Plane.KERNEL, crash.text, missed.get(known.rank))


def _first_alarm_lines(context: Context) -> dict[str, int]:
    """Per log the line of its first alarm."""
    alarms = [line.origin for line in context.timeouts]
    alarms += [line.origin for line in context.evidence.of(EngineWatchdog) if not line.weak]
    found: dict[str, int] = {}
    for alarm in alarms:
        found[alarm.source] = min(alarm.line, found.get(alarm.source, alarm.line))
    return found


def _victim(context: Context, death: WorkerDeath | SignalDeath) -> int | None:
    number = death.rank if isinstance(death, WorkerDeath) else death.victim_rank
    if number is not None and (not context.world or number in context.world):
        return number
    pid = death.pid if isinstance(death, WorkerDeath) else death.victim_pid
    found = context.roster.of_process(death.origin.host or context.host_of(death.origin.source), pid)
    if found is None and isinstance(death, SignalDeath) and death.victim_pid is None and death.victim_rank is None:
        found = death.origin.rank
    return found


def _take_kill(context: Context, kill: OomKill, found: dict[int, End], missed: dict[int, float]) -> None:
    rank = killed_rank(context, kill)
    if rank is None:
        return
    looks = absences(context)
    if rank not in found and looks and rank in looks[-1].answered:
        return  # RAS hears it to the end: the number is an older process's
    known = found.get(rank)
    found[rank] = End(
        rank,
        -signal.SIGKILL,
        context.time(kill.origin.stamp) or (known.order if known is not None else None),
        kill.origin.reference,
        Plane.KERNEL,
        kill.text,
        missed.get(rank),
        oom=True,
        stamp=known.stamp if known is not None else None,
    )


def killed_rank(context: Context, kill: OomKill) -> int | None:
    """The rank that the kernel killed: by its number, else by the GPU on which the driver saw that number.

    The kernel and the driver count in the host's namespace, a container in its own.
    """
    rank = context.roster.of_process(kill.origin.host, kill.pid)
    if rank is not None:
        return rank
    reported = {
        death.rank for death in context.evidence.of(WorkerDeath) if death.pid == kill.pid and death.rank is not None
    }
    if len(reported) == 1:
        return reported.pop()
    seen = {rank for rank, track in context.tracks.items() if any(pids and kill.pid in pids for pids in track.pids)}
    return seen.pop() if len(seen) == 1 else None


def _missed_alone(context: Context) -> dict[int, float]:
    """Per rank the first look at which RAS missed it and nobody else."""
    found: dict[int, float] = {}
    for look in absences(context):
        if look.time is not None and len(look.unresponsive) == 1:
            found.setdefault(next(iter(look.unresponsive)), look.time)
    return found


def lived_at(context: Context, looks: list[Absence], rank: int, time: float) -> bool:
    """Whether anything shows that `rank` lived after `time`; `looks`: all answered RAS polls."""
    slack = context.limits.aftershock_seconds
    seen = life.of_rank(context, rank)
    if seen.spoke_of_trouble or (seen.last_word or 0.0) > time + slack:
        return True
    facts = context.dump_facts.get(rank)
    if facts is not None and facts.look is not None and facts.look > time + slack:
        return True
    if any(rank in look.answered and (look.time or 0.0) > time + slack for look in looks):
        return True
    track = context.tracks.get(rank)
    return track is not None and any(
        pids and moment > time + slack for moment, pids in zip(track.time, track.pids, strict=False)
    )


def shut_down(context: Context, found: list[End]) -> bool:
    """Whether all processes ended with exit code 0, and nobody was left waiting for those that went first."""
    if not found or len(found) != len(context.world) or any(end.code != 0 for end in found):
        return False
    if context.first_alarm is not None:
        return False
    engine = engine_state.assess(context)
    return engine is None or engine.moves is not Moves.STALLED


def stopped_since(context: Context) -> float | None:
    """When work stopped, as frozen counters and spinning GPUs show it; None where they do not show a stop.

    GPU samples without spinning contradict frozen counters: a long prefill is no stop.
    """
    engine = engine_state.assess(context)
    times = []
    if engine is not None and engine.moves is Moves.STALLED and engine.last_advance is not None:
        times.append(engine.last_advance)
    states = picture(context).states
    if states:
        spin = spinning_since(states)
        if spin is None:
            return None
        times.append(spin)
    return max(times, default=None)
