"""What the first looks say of the instance: is it stopped, healthy, or is that not to be seen?

Asked of `diagnose` itself, over what is in the sink so far, so that collecting and diagnosing cannot disagree. What may
slow or hurt a job waits for the answer: dumps are not asked of a healthy instance, and RAS not before a stop is
confirmed where its version makes that risky.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.bundle.manifest import SCHEMA, listing
from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Piece, Sink, Store
from rankmuster.diagnose.run import MixedInstances, diagnose
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Progress

MAX_LOG_BYTES = 512 << 10
"""Of each log, its last so many bytes are enough to tell a stop; reading all of it would cost the time it is for."""

MARGIN_SECONDS = 0.6
"""After a look is due, the time its answer takes to arrive and be written."""

JUDGE_SECONDS = 0.5
"""What one answer takes, on a machine with little to spare: 0.2 s mostly. Who waits for it asks the job once a part of
the time is over, so the answer must be out before."""

LEAST_LOOK_SECONDS = 0.5
"""Two looks that are closer do not show a decode step between them (0.01 to 0.2 s each, and the scrapes' own time)."""

AGAIN_SECONDS = 1.0
"""Between two assessments that did not decide: samples come about once a second."""

SHARE = 0.5
"""Of the whole deadline, the part after which what is known has to do: dumps and RAS need the rest (a dump with stacks
takes 5 to 9 s, two RAS replies from a group with a frozen member 2 to 10 s; measured, docs/measured.md)."""

_SOURCES = frozenset(
    {
        "instance",
        "engine",
        "hardware",
        "platform",
        "network",
        "nccl-log",
        "framework-log",
        "flight",
        "flight-http",
        "ras",
    }
)


@dataclass(frozen=True, slots=True)
class Assess:
    """The collector that brings nothing but the answer, on the scene's board."""

    store: Store
    name: str = "assessment"
    budget_seconds: float = 60.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:  # noqa: ARG002  # takes no evidence
        """Asks until it is decided or there is no more time for it, and posts the answer in any case."""
        if scene.target is None:
            nobody = Assessment(Progress.UNKNOWN, None, False, False, "no instance was found")
            scene.board.post_assessment(nobody)
            return Outcome(Ending.NOTHING, "no instance was found, so there is nothing to judge")
        until = deadline.within(deadline.remaining() * SHARE - JUDGE_SECONDS)
        stall = max(DEFAULTS.stall_seconds, DEFAULTS.hardware_seconds)
        enough = deadline.within(scene.wishes.look_seconds + stall + 2 * AGAIN_SECONDS)
        last = min(until.at, enough.at)
        found = Assessment(Progress.UNKNOWN, None, scene.wishes.stop_confirmed, False, "nothing was seen of it yet")
        try:
            wait = 1.0 if scene.wishes.stop_confirmed else scene.wishes.look_seconds + MARGIN_SECONDS
            while True:
                if scene.board.ending(min(wait, max(last - scene.clock(), 0.0))):
                    break
                found = assess(self.store.folder, self.store.pieces(), confirmed=scene.wishes.stop_confirmed)
                if found.stop_confirmed or found.healthy or scene.clock() >= last:
                    break
                wait = AGAIN_SECONDS
        finally:
            scene.board.post_assessment(found)
        return Outcome(Ending.DONE, f"{found.progress.value}: {found.reason}")


def look_seconds(wished: float, working: float) -> float:
    """How far apart the looks are when the collectors have `working` seconds: a healthy instance has to be known for
    one before it would be asked for dumps and stacks, and that takes two looks."""
    return min(wished, max(working * SHARE - JUDGE_SECONDS - MARGIN_SECONDS, LEAST_LOOK_SECONDS))


def assess(folder: Path, pieces: tuple[Piece, ...], *, confirmed: bool = False) -> Assessment:
    """The answer from the pieces in `folder`. `confirmed`: somebody knows already that it has stopped."""
    try:
        verdict = diagnose(gather(_blobs(folder, pieces))).verdict
    except MixedInstances as error:
        return Assessment(Progress.UNKNOWN, None, confirmed, False, str(error))
    except Exception as error:  # a defect in diagnosing must not keep evidence from being taken
        return Assessment(Progress.UNKNOWN, None, confirmed, False, f"could not be judged ({type(error).__name__})")
    stopped = verdict.progress is Progress.STOPPED
    healthy = verdict.class_ is FaultClass.HEALTHY and verdict.progress in (Progress.ADVANCING, Progress.IDLE)
    phase = verdict.phase
    if confirmed and not stopped:
        return Assessment(Progress.STOPPED, phase, True, False, f"the caller says so; seen here: {verdict.summary}")
    return Assessment(verdict.progress, phase, stopped, healthy, verdict.summary or verdict.progress.value)


def _blobs(folder: Path, pieces: tuple[Piece, ...]) -> Iterator[Blob]:
    """What decides whether it moves, with the look times that files cannot say themselves."""
    used = [piece for piece in pieces if piece.collector in _SOURCES]
    manifest = {"schema": SCHEMA, "files": {piece.path: listing(piece) for piece in used}}
    yield Blob("manifest.json", json.dumps(manifest).encode())
    for piece in used:
        try:
            with (folder / piece.path).open("rb") as file:
                if piece.collector in ("nccl-log", "framework-log") and piece.size > MAX_LOG_BYTES:
                    file.seek(-MAX_LOG_BYTES, 2)
                yield Blob(piece.path, file.read())
        except OSError:  # replaced this moment; the next look has it
            continue
