"""A stop as the watch saw it: what everything that is done about it is given."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.verdict import Suspect
from rankmuster.watch.snapshot import PlaneView


@dataclass(frozen=True, slots=True)
class StopNotice:
    """Times are unix seconds. `detected_at`: of the look that said so; `since`: from which it has stood still.

    `incarnation`: as `collect` names it, or whatever else is never the same for two starts. `pids`: of the instance on
    this node, as this program's /proc numbers them. `state` and what follows: the watch's own judgement at that look.
    """

    instance: str
    incarnation: str
    host: str
    detected_at: float
    since: float
    reason: str
    pids: tuple[int, ...] = ()
    deployment: str | None = None
    metrics_url: str | None = None
    state: Progress = Progress.STOPPED
    class_: str | None = None
    subclass: str | None = None
    confidence: Confidence | None = None
    planes: tuple[PlaneView, ...] = ()
    suspects: tuple[Suspect, ...] = ()
