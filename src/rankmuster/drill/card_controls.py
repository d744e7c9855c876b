"""The negative controls of a drill, as data: what happens to an engine that is well, and must move nobody."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.drill.control_load import Clients
from rankmuster.model.drill_score import CONTROLS
from rankmuster.model.fault import Progress


class Beside(str, Enum):
    """What is done besides. FOREIGN: another program works on the ranks' GPU, or on the processors where there is none.
    RESTART: the whole group is ended and started again by its operator. PAUSED_FRONT: the front end answers nobody."""

    NOTHING = "nothing"
    FOREIGN = "foreign"
    RESTART = "restart"
    PAUSED_FRONT = "paused front end"


@dataclass(frozen=True, slots=True)
class DrillControl:
    """`seconds`: that it lasts; `quick_seconds`: of a quick drill. `states`: one of them the watch must say in the end.
    `load_seconds`: of the engine's weights, where it needs an engine of its own."""

    name: str
    summary: str
    clients: Clients
    seconds: float
    quick_seconds: float
    states: tuple[Progress, ...]
    beside: Beside = Beside.NOTHING
    load_seconds: float = 0.0


_WORKS, _RESTS, _EITHER = (Progress.ADVANCING,), (Progress.IDLE,), (Progress.ADVANCING, Progress.IDLE)
_HEALTHY, _IDLE, _LONG, _CONTENDED, _RESTART = CONTROLS

DRILL_CONTROLS = {
    control.name: control
    for control in (
        DrillControl(_HEALTHY, "clients ask without a pause", Clients.BUSY, 30.0, 15.0, _WORKS),
        DrillControl(_IDLE, "a few requests, then none", Clients.FEW, 35.0, 18.0, _RESTS),
        DrillControl(
            _LONG, "prompts that take longer than a stop may take to be told", Clients.LONG, 55.0, 28.0, _EITHER
        ),
        DrillControl(
            _CONTENDED,
            "another program works on a rank's GPU, or on the processors where there is none",
            Clients.BUSY,
            30.0,
            15.0,
            _WORKS,
            Beside.FOREIGN,
        ),
        DrillControl(
            _RESTART,
            "the whole group is ended and started again by its operator",
            Clients.BUSY,
            45.0,
            25.0,
            _WORKS,
            Beside.RESTART,
        ),
        DrillControl("bursty", "many requests at once, then none", Clients.BURSTS, 60.0, 30.0, _EITHER),
        DrillControl("rare", "one request in 20 s", Clients.RARE, 65.0, 45.0, _EITHER),
        DrillControl(
            "scrape-failure",
            "the front end answers nobody for 8 s",
            Clients.BUSY,
            40.0,
            30.0,
            _WORKS,
            Beside.PAUSED_FRONT,
        ),
        DrillControl("start-up", "weights take 40 s to load", Clients.BUSY, 70.0, 60.0, _WORKS, load_seconds=40.0),
    )
}
"""All by name; the first ones belong to every drill."""


def chosen(word: str) -> tuple[DrillControl, ...]:
    """Those of `default`, `all` or `none`, or of names with commas between them. Raises ValueError."""
    if word == "none":
        return ()
    if word in ("default", "all"):
        return tuple(one for one in DRILL_CONTROLS.values() if word == "all" or one.name in CONTROLS)
    names = list(dict.fromkeys(name for name in word.split(",") if name))
    strange = [name for name in names if name not in DRILL_CONTROLS]
    if strange or not names:
        there = ", ".join(DRILL_CONTROLS)
        raise ValueError(f"there is no control named {(strange or [word])[0]!r}; there are default, all, none, {there}")
    return tuple(DRILL_CONTROLS[name] for name in names)
