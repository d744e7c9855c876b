"""DRAIN: what runs may end, for a limited window; at once over when nothing can end any more."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.bounded_call import bounded
from rankmuster.incident.steps import traffic
from rankmuster.incident.steps.scene import END_MARGIN, Ended, Scene
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Ending, Step, TrafficLook

POLL_SECONDS = 0.5
"""Between two looks at the gateways."""

LOOK_SECONDS = 1.0
"""Of one look."""


def run(scene: Scene) -> Ended:
    """Data: `waited_seconds`, `requests_left` (null where a gateway does not say)."""
    if not scene.tools.traffic:
        return Ended(Ending.SKIPPED, traffic.NO_GATEWAY)
    if scene.past.ending(Step.STOP_TRAFFIC) is Ending.OBSERVED:
        return Ended(Ending.OBSERVED, "requests still come, since traffic was not stopped: nothing can drain")
    begun, until = scene.clock(), scene.deadline.before(END_MARGIN)
    while True:
        left = requests_left(scene)
        data = {"waited_seconds": round(scene.clock() - begun, 3), "requests_left": left}
        if left == 0:
            return Ended(Ending.DONE, "no request is left at the gateways", data)
        seen = scene.seen()
        if scene.opening.progress is Progress.STOPPED or (seen is not None and seen.progress is Progress.STOPPED):
            return Ended(Ending.PARTIAL, f"the instance has stopped, nothing can drain; {_words(left)}", data)
        if until.passed:
            return Ended(Ending.PARTIAL, f"the window is over; {_words(left)}", data)
        if scene.wait(min(POLL_SECONDS, max(until.remaining(), 0.01))):
            return Ended(Ending.PARTIAL, f"it was given up; {_words(left)}", data)


def requests_left(scene: Scene) -> int | None:
    """Of all gateways; None where one of them does not say."""
    total = 0
    for look in looks(scene, scene.deadline):
        if look is None or look.running is None:
            return None
        total += look.running + (look.queued or 0)
    return total


def looks(scene: Scene, deadline: Deadline) -> Sequence[TrafficLook | None]:
    """One look a gateway, None where none came in time."""
    found = []
    for gateway in scene.tools.traffic:
        called = bounded(gateway.look, deadline.within(LOOK_SECONDS), lambda: scene.acting.given_up)
        found.append(called.answer if isinstance(called.answer, TrafficLook) else None)
    return found


def _words(left: int | None) -> str:
    return "how many requests are left no gateway says" if left is None else f"requests left: {left}"
