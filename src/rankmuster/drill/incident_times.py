"""When everything of one incident happened, read from what was written down: the journal, the engine's record of each
incarnation, and what the clients saw. Nothing here asks a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rankmuster.drill.engine_record import Recorded, What
from rankmuster.drill.incident_load import Attempt, How
from rankmuster.model.incident import Ending, Event, EventKind, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Unix seconds; None: it has not happened.

    `detected_at`: the incident was opened. `evidence_at`: the newest file of the bundle, on disk. `kill_at`: the word
    to end the group was about to be given. `engine_from`: the new launcher's process began; `ready_at`: its address
    opened. `first_token_at`: a client had a good token through the gateway, made by the new incarnation.
    """

    fault_at: float | None = None
    detected_at: float | None = None
    traffic_stopped_at: float | None = None
    drain_ended_at: float | None = None
    evidence_from: float | None = None
    evidence_at: float | None = None
    evidence_ended_at: float | None = None
    decided_at: float | None = None
    kill_at: float | None = None
    gone_at: float | None = None
    start_at: float | None = None
    engine_from: float | None = None
    ready_at: float | None = None
    verified_at: float | None = None
    restored_at: float | None = None
    first_token_at: float | None = None

    @property
    def detection(self) -> float | None:
        """Seconds from the fault to the open incident."""
        return _between(self.fault_at, self.detected_at)

    @property
    def evidence(self) -> float | None:
        """Seconds that the evidence took."""
        return _between(self.evidence_from, self.evidence_ended_at)

    @property
    def engine(self) -> float | None:
        """Seconds that the engine itself took to start."""
        return _between(self.engine_from, self.ready_at)

    @property
    def total(self) -> float | None:
        """Seconds from the fault to the first good token again."""
        return _between(self.fault_at, self.first_token_at)

    @property
    def overhead(self) -> float | None:
        """Seconds of `total` that are neither detection, nor evidence, nor the engine's own start."""
        parts = (self.detection, self.evidence, self.engine)
        if self.total is None or None in parts:
            return None
        return self.total - sum(part for part in parts if part is not None)

    @property
    def evidence_first(self) -> bool | None:
        """Whether all evidence was on disk before the group was ended; None where there is none, or no end."""
        if self.evidence_at is None or self.kill_at is None:
            return None
        return self.evidence_at <= self.kill_at

    @property
    def seconds(self) -> dict[str, float | None]:
        """How long the parts took, by name, in their order."""
        return {
            "detection": self.detection,
            "stop_traffic": _between(self.detected_at, self.traffic_stopped_at),
            "drain": _between(self.traffic_stopped_at, self.drain_ended_at),
            "evidence": self.evidence,
            "decide": _between(self.evidence_ended_at, self.decided_at),
            "until_kill": _between(self.decided_at, self.kill_at),
            "terminate": _between(self.kill_at, self.gone_at),
            "start": _between(self.gone_at, self.engine_from),
            "engine": self.engine,
            "verify": _between(self.ready_at, self.verified_at),
            "restore": _between(self.verified_at, self.restored_at),
            "first_token": _between(self.restored_at, self.first_token_at),
            "overhead": self.overhead,
            "total": self.total,
        }

    def plain(self) -> dict[str, float | None]:
        """All moments, by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Hit:
    """What the clients had of an incident. `by`: attempts that did not end well while it lasted, by `How` and reason.

    `lost`: of all attempts. `after_stop`: requests that were sent after new ones were stopped, and reached the sick
    incarnation all the same.
    """

    by: Mapping[str, int]
    lost: int
    after_stop: int


def timeline(
    events: Sequence[Event],
    *,
    fault_at: float | None,
    evidence_at: float | None,
    engine_from: float | None,
    renewed: Iterable[Recorded],
    attempts: Iterable[Attempt],
    incarnation: int,
) -> Timeline:
    """Of the incident with these events. `renewed`: the record of the new incarnation, its number `incarnation`."""
    ready = next((one.at for one in renewed if one.what is What.READY), None)
    firsts = [one.first_at for one in attempts if one.incarnation == incarnation and one.first_at is not None]
    return Timeline(
        fault_at=fault_at,
        detected_at=next((event.at for event in events if event.kind is EventKind.OPENED), None),
        traffic_stopped_at=_done(events, Step.STOP_TRAFFIC),
        drain_ended_at=_first(events, EventKind.STEP_ENDED, Step.DRAIN),
        evidence_from=_first(events, EventKind.STEP_BEGUN, Step.EVIDENCE),
        evidence_at=evidence_at,
        evidence_ended_at=_first(events, EventKind.STEP_ENDED, Step.EVIDENCE),
        decided_at=next((event.at for event in events if event.kind is EventKind.DECIDED), None),
        kill_at=_first(events, EventKind.INTENT, Step.TERMINATE),
        gone_at=_done(events, Step.TERMINATE),
        start_at=_first(events, EventKind.INTENT, Step.START),
        engine_from=engine_from,
        ready_at=ready,
        verified_at=_done(events, Step.VERIFY),
        restored_at=_done(events, Step.RESTORE),
        first_token_at=min(firsts, default=None),
    )


def hit(found: Timeline, attempts: Sequence[Attempt], sick: Iterable[Recorded]) -> Hit:
    """`sick`: the record of the incarnation that had the fault."""
    begun = found.fault_at if found.fault_at is not None else float("-inf")
    over = found.restored_at if found.restored_at is not None else float("inf")
    during = [one for one in attempts if one.sent_at < over and one.ended_at > begun]
    by = Counter(_ended(one) for one in during if one.how is not How.FULL)
    stopped = found.traffic_stopped_at
    sent = {one.name: one.sent_at for one in attempts}
    after = 0
    if stopped is not None:
        received = [one for one in sick if one.what is What.RECEIVED]
        after = sum(sent.get(str(one.more.get("name")), one.at) > stopped for one in received)
    return Hit(dict(sorted(by.items())), sum(one.how is How.LOST for one in attempts), after)


def _ended(attempt: Attempt) -> str:
    return f"{attempt.how.value} ({attempt.reason})" if attempt.reason else attempt.how.value


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start


def _first(events: Sequence[Event], kind: EventKind, step: Step) -> float | None:
    return next((event.at for event in events if event.kind is kind and event.step is step), None)


def _done(events: Sequence[Event], step: Step) -> float | None:
    """When the step ended well."""
    ends = (event for event in events if event.kind is EventKind.STEP_ENDED and event.step is step)
    return next((event.at for event in ends if event.ending is Ending.DONE), None)
