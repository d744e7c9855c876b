"""Progress of each part of an instance that can be told apart: its data-parallel engines, its communicators.

The instance is stopped when one of its engines is: requests that were given to it wait for ever. Which one, is here.
Blind to parts that no plane tells apart: GPUs alone do not say which engine they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.diagnose.engine_state import EngineState, Moves
from rankmuster.model.fault import Progress
from rankmuster.watch.progress.communicators import CommunicatorSeen, Counts
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.snapshot import GroupView

ENGINE, COMMUNICATOR = "engine", "communicator"

MOVES: dict[Moves, Progress] = {
    Moves.ADVANCING: Progress.ADVANCING,
    Moves.SLOW: Progress.ADVANCING,  # against an hour of its own past: the instance's `speed`
    Moves.IDLE: Progress.IDLE,
    Moves.UNCLEAR: Progress.UNKNOWN,
}

AT_WORK = (Progress.ADVANCING, Progress.IDLE)


@dataclass(slots=True)
class _Held:
    """`told`: monotonic seconds of the last look that told its state; `seen`: of the last one that had it at all."""

    name: str
    state: Progress
    reason: str
    told: float
    seen: float
    at_work: int = 0


class Groups:
    """One instance's; bounded by `most_servers` groups of each kind."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._engines: dict[tuple[str, str, str], _Held] = {}

    def clear(self) -> None:
        """Forgets everything: another incarnation."""
        self._engines.clear()

    def hidden(self, engines: Iterable[EngineState]) -> bool:
        """Whether an engine that had stopped is not seen at this look, so that nobody knows whether it goes on."""
        seen = {one.identity for one in engines}
        return any(held.state is Progress.STOPPED and identity not in seen for identity, held in self._engines.items())

    def step(
        self,
        now: float,
        engines: Iterable[EngineState],
        communicators: Iterable[CommunicatorSeen],
        said: tuple[Progress, str],
        instance: tuple[Progress, str, float],
    ) -> tuple[GroupView, ...]:
        """All groups after one look at `now` (monotonic seconds).

        `said`: progress and reason of the look. `instance`: state of the instance after it, with reason and the unix
        seconds from which it has been so.
        """
        state, reason, since = instance
        for one in list(engines)[: self._settings.most_servers]:
            self._take(now, one, said, state)
        for identity, held in list(self._engines.items()):
            if now - held.seen > self._settings.window_seconds:
                del self._engines[identity]
            elif now - held.told >= self._settings.hold_seconds and held.state is not Progress.STOPPED:
                held.state, held.reason = Progress.UNKNOWN, f"nothing has told of it for {now - held.told:.0f} s"
        parts = list(self._engines.values())
        found = [GroupView(ENGINE, held.name, held.state, held.reason) for held in parts]
        if len(parts) == 1:
            # There is nothing to tell apart.
            found = [GroupView(ENGINE, parts[0].name, state, reason)]
        seen = list(communicators)[: self._settings.most_servers]
        return (*sorted(found, key=lambda group: group.name), *(_communicator(one, state, since) for one in seen))

    def _take(self, now: float, one: EngineState, said: tuple[Progress, str], instance: Progress) -> None:
        wanted, reason = _engine(one, said, instance)
        held = self._engines.get(one.identity)
        if held is None:
            if len(self._engines) < self._settings.most_servers:
                self._engines[one.identity] = _Held(one.name, wanted, reason, now, now)
            return
        held.seen, held.name = now, one.name
        if wanted is Progress.UNKNOWN:
            return
        held.told = now
        held.at_work = held.at_work + 1 if wanted in AT_WORK else 0
        if held.state is Progress.STOPPED and wanted in AT_WORK and held.at_work < self._settings.resume_looks:
            return
        held.state, held.reason = wanted, reason


def _engine(one: EngineState, said: tuple[Progress, str], instance: Progress) -> tuple[Progress, str]:
    """What this look says of one engine. Counters that stand are a stop where the whole look did not find an excuse."""
    if one.moves is not Moves.STALLED:
        return MOVES[one.moves], one.text
    if instance is Progress.STARTING:
        return Progress.STARTING, one.text
    if instance is Progress.STOPPED or said[0] is Progress.STOPPED:
        return Progress.STOPPED, one.text
    if said[0] is Progress.ADVANCING:
        return Progress.ADVANCING, said[1]
    return Progress.UNKNOWN, one.text


def _communicator(one: CommunicatorSeen, instance: Progress, since: float) -> GroupView:
    """Counts that stand are one of the instance's stop only where they stood after it began."""
    state = Progress.UNKNOWN
    stopped = instance is Progress.STOPPED
    if one.counts is Counts.MOVED and not (stopped and one.at < since):
        state = Progress.ADVANCING
    if one.counts is Counts.STOOD_APART and stopped:
        state = Progress.STOPPED
    return GroupView(COMMUNICATOR, one.name, state, one.text, one.ranks)
