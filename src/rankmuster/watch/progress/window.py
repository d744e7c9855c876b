"""What was seen lately, bounded in seconds and in number, in the form that `diagnose` reads.

Fed with observations and both clocks as they stood when each was made. Ages go by the monotonic clock; what is handed
out carries the wall clock as it is now, so that a clock set by hours neither ages evidence nor makes it young.

Memory: at most `most_servers * most_pages` pages (0.7 KB each), `most_gpus` tracks (12 KB each), and `most_lines` of
every other kind. An instance of eight GPUs and one server holds 25 pages and 8 tracks at the defaults: 0.3 MB with the
model (docs/measured/watch-replay.json).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from rankmuster.diagnose.spin import sample_gap
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.engine import EnginePage
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ManifestFacts
from rankmuster.model.nccllog import NcclLogFile
from rankmuster.model.node import NodeState
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import unix
from rankmuster.watch.progress.clocks import Clocks, stamped
from rankmuster.watch.progress.processes import merged
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.progress.tracks import Tracks

SAME_SECONDS = 1e-3
"""Pages of one server that are closer are one page that came twice."""

REPLY_SECONDS = 60.0
"""Longest time from a question to RAS to its reply that is believed; more is a clock that was set."""

NOT_KEPT = (LogSpan, NcclLogFile, ManifestFacts)
"""What tells of whole files: a part of a log that is followed has no span to speak of."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One page with its monotonic time."""

    at: float
    page: EnginePage


class Window:
    """One instance's; several instances have one each. Not for several threads at once."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self.clocks = Clocks(settings.jump_seconds)
        self._pages: dict[str, list[Loaded]] = {}
        self._tracks = Tracks(settings.most_gpus, settings.most_samples)
        self._polls: deque[tuple[float, RasPoll]] = deque(maxlen=settings.most_polls)
        self._nodes: dict[str | None, tuple[float, NodeState]] = {}
        self._lines: dict[type, deque[tuple[float, object]]] = {}
        self._facts: tuple[float, InstanceFacts] | None = None
        self._spoke: dict[Plane, float] = {}
        self._failures: dict[Plane, tuple[float, str]] = {}
        self.incarnations = 0

    def feed(self, now: float, unix_now: float, observation: object, plane: Plane | None = None) -> None:
        """Takes one observation made at `now` (monotonic seconds) and `unix_now` (the wall clock read with it).

        Times inside it are by the wall clock as it stood then. `plane`: whose word it is, where its type does not tell
        (a line of a log). A description of another incarnation empties the window: what was seen is of the one before.
        """
        self.clocks.tell(now, unix_now)
        if isinstance(observation, EnginePage):
            self._take_page(now, observation)
        elif isinstance(observation, GpuTrack):
            self._tracks.add(observation, self._shift(now, unix_now, observation))
            plane = Plane.HARDWARE
        elif isinstance(observation, RasPoll):
            self._polls.append((_asked(now, unix_now, observation), observation))
            plane = Plane.RAS if observation.answered else None
        elif isinstance(observation, NodeState):
            self._take_node(now, unix_now, observation)
            plane = Plane.PLATFORM
        elif isinstance(observation, InstanceFacts):
            self._take_facts(now, observation)
        elif not isinstance(observation, NOT_KEPT):
            kept = self._lines.setdefault(type(observation), deque(maxlen=self._settings.most_lines))
            kept.append((now, observation))
        if isinstance(observation, EnginePage):
            plane = Plane.ENGINE
        if plane is not None:
            self._spoke[plane] = max(now, self._spoke.get(plane, now))

    def _shift(self, now: float, unix_now: float, track: GpuTrack) -> float:
        """What to add to a sample's times. None was taken after it was heard of: the clock was set in between."""
        shift = now - unix_now
        ahead = float(track.time[-1]) + shift - now if len(track.time) else 0.0
        return shift - ahead if ahead > self._settings.jump_seconds else shift

    def fail(self, now: float, plane: Plane, reason: str) -> None:
        """Notes that a plane was asked in vain at `now` (monotonic seconds): it is silent, and nothing has stopped."""
        self._failures[plane] = (now, reason)

    def failure(self, plane: Plane) -> str | None:
        """Why the plane did not speak when it was asked last, None where it did, or was not asked."""
        noted = self._failures.get(plane)
        return noted[1] if noted is not None and noted[0] > self._spoke.get(plane, float("-inf")) else None

    def _take_page(self, now: float, page: EnginePage) -> None:
        kept = self._pages.get(page.source)
        if kept is None:
            if len(self._pages) >= self._settings.most_servers:
                return
            kept = self._pages[page.source] = []
        if any(abs(one.at - now) < SAME_SECONDS and one.page.engine == page.engine for one in kept[-4:]):
            return
        insort(kept, Loaded(now, page), key=lambda one: one.at)
        del kept[: -self._settings.most_pages]

    def _take_node(self, now: float, unix_now: float, state: NodeState) -> None:
        """Times inside are kept as monotonic ones."""
        before = self._nodes.get(state.host)
        if before is None and len(self._nodes) >= self._settings.most_gpus:
            return
        self._nodes[state.host] = (
            now,
            merged(before[1] if before else None, state, now - unix_now, self._settings.task_looks),
        )

    def _take_facts(self, now: float, facts: InstanceFacts) -> None:
        if self._facts is not None and identity(self._facts[1]) != identity(facts):
            self.clear()
        if self._facts is None:
            self.incarnations += 1
        self._facts = (now, facts)

    def clear(self) -> None:
        """Forgets everything but the clocks."""
        self._pages.clear()
        self._tracks.clear()
        self._polls.clear()
        self._nodes.clear()
        self._lines.clear()
        self._spoke.clear()
        self._failures.clear()
        self._facts = None

    def advance(self, now: float, unix_now: float) -> None:
        """Tells the time before a look: drops what is too old."""
        self.clocks.tell(now, unix_now)
        oldest = now - self._settings.window_seconds
        for source, pages in list(self._pages.items()):
            while pages and pages[0].at < oldest:
                del pages[0]
            if not pages:
                del self._pages[source]
        self._tracks.drop_before(oldest)
        _drop(self._polls, now - self._settings.poll_seconds)
        for kind, lines in list(self._lines.items()):
            _drop(lines, now - self._settings.line_seconds)
            if not lines:
                del self._lines[kind]
        self._nodes = {host: kept for host, kept in self._nodes.items() if kept[0] >= oldest}

    @property
    def facts(self) -> InstanceFacts | None:
        """The newest description of the instance."""
        return self._facts[1] if self._facts else None

    @property
    def pages(self) -> Mapping[str, list[Loaded]]:
        """The pages of each server in order of time, its newest last."""
        return self._pages

    @property
    def spoke(self) -> Mapping[Plane, float]:
        """When each plane spoke last, monotonic seconds; planes that never did in this incarnation are not in it."""
        return self._spoke

    def nodes(self) -> tuple[NodeState, ...]:
        """The newest of what each node said of its processes; times are monotonic."""
        return tuple(state for _, state in self._nodes.values())

    @property
    def gpus(self) -> int:
        """How many GPUs have been seen lately."""
        return len(self._tracks)

    def _present(self, track: GpuTrack, at: float) -> bool:
        """Whether its last sample is no older than what is sampled so often may be. `at`: unix seconds."""
        often = max(self._settings.period, sample_gap(track))
        return bool(at - track.time[-1] <= self._settings.stale_looks * often)

    def evidence(self, now: float) -> Evidence:
        """The window as `diagnose` reads it."""
        offset = self.clocks.offset or 0.0
        kinds: dict[type, tuple[object, ...]] = {}
        kinds[EnginePage] = tuple(_dated(one.page, one.at + offset) for every in self._pages.values() for one in every)
        # What a GPU did until its samples ended says nothing of now, and must neither excuse a stop nor hide one.
        kinds[GpuTrack] = tuple(one for one in self._tracks.tracks(offset) if self._present(one, now + offset))
        kinds[RasPoll] = tuple(replace(poll, time=unix(at + offset), stamp=None) for at, poll in self._polls)
        kinds[NodeState] = tuple(merged(None, state, offset, self._settings.task_looks) for state in self.nodes())
        if self._facts is not None:
            kinds[InstanceFacts] = (replace(self._facts[1], last_look=now + offset),)
        for kind, lines in self._lines.items():
            kinds[kind] = tuple(stamped(line, at + offset) for at, line in lines)
        return Evidence({kind: found for kind, found in kinds.items() if found})


def identity(facts: InstanceFacts) -> Hashable:
    """What tells one incarnation from the next: what the platform says, else its processes."""
    processes = frozenset((process.rank, process.host, process.pid) for process in facts.processes)
    return facts.instance, facts.incarnation, facts.incarnation is not None or processes


def _asked(now: float, unix_now: float, poll: RasPoll) -> float:
    """When the poll was asked, monotonic seconds: a reply takes seconds where a member does not answer."""
    asked = poll.time.unix_seconds if poll.time is not None else None
    return now if asked is None or not 0 <= unix_now - asked <= REPLY_SECONDS else now - (unix_now - asked)


def _dated(page: EnginePage, at: float) -> EnginePage:
    """A page named by its server and when it was asked, which leaves nothing to guess (`engine_series.ASKED`)."""
    return EnginePage(f"{page.source}@{at:.3f}", unix(at), page.engine, page.streams)


def _drop(kept: deque[tuple[float, RasPoll]] | deque[tuple[float, object]], oldest: float) -> None:
    while kept and kept[0][0] < oldest:
        kept.popleft()
