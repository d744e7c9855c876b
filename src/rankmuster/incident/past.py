"""What has happened in one incident so far, as its steps ask for it: read from its events, kept nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankmuster.model.incident import Answer, Ending, Event, EventKind, Step

BOUND = "bound"
"""Key of the data of a NOTED event: the incarnation that actions are bound to, as the process group calls it."""

BOUND_NODES = "bound_nodes"
"""Key of the same event's data: the nodes that its hosts were on. A scheduler gives the next incarnation hosts of the
same names on other nodes."""


@dataclass(frozen=True, slots=True)
class Past:
    """Of `events`, in their order."""

    events: tuple[Event, ...]

    def ended(self, step: Step) -> Event | None:
        """The newest end of it."""
        return self._newest(EventKind.STEP_ENDED, step)

    def ending(self, step: Step) -> Ending | None:
        """None where it has not ended, or was never begun."""
        event = self.ended(step)
        return event.ending if event is not None else None

    def begun(self, step: Step) -> bool:
        return self._newest(EventKind.STEP_BEGUN, step) is not None

    def since_begun(self, step: Step) -> tuple[Event, ...]:
        """Events after its newest beginning."""
        for place in range(len(self.events) - 1, -1, -1):
            if self.events[place].kind is EventKind.STEP_BEGUN and self.events[place].step is step:
                return self.events[place + 1 :]
        return ()

    def intended(self, step: Step) -> bool:
        """Whether something of it was about to be done for real."""
        return any(
            one.kind is EventKind.INTENT and one.step is step and one.data.get("enabled", True) for one in self.events
        )

    def answers(self, step: Step) -> dict[str, Answer]:
        """By action, the newest result."""
        found = {}
        for one in self.events:
            if one.kind is EventKind.RESULT and one.step is step and one.action and one.ending is not None:
                found[one.action] = Answer(ending=one.ending, note=one.note, data=one.data)
        return found

    @property
    def bound(self) -> str | None:
        """The incarnation that is to be ended, as the process group calls it."""
        for one in reversed(self.events):
            if one.kind is EventKind.NOTED and BOUND in one.data:
                value = one.data[BOUND]
                return value if isinstance(value, str) else None
        return None

    @property
    def bound_nodes(self) -> dict[str, str]:
        """Host -> node of that incarnation, where they are called otherwise."""
        for one in reversed(self.events):
            if one.kind is EventKind.NOTED and BOUND in one.data:
                nodes = one.data.get(BOUND_NODES)
                return {str(host): str(node) for host, node in nodes.items()} if isinstance(nodes, Mapping) else {}
        return {}

    @property
    def is_bound(self) -> bool:
        """Whether anybody has looked which incarnation runs."""
        return any(one.kind is EventKind.NOTED and BOUND in one.data for one in self.events)

    def text(self, step: Step, key: str) -> str | None:
        """A text in the data of a step's end."""
        event = self.ended(step)
        value = event.data.get(key) if event is not None else None
        return value if isinstance(value, str) else None

    def at(self, step: Step) -> float | None:
        """When it was begun last, unix seconds."""
        event = self._newest(EventKind.STEP_BEGUN, step)
        return event.at if event is not None else None

    def _newest(self, kind: EventKind, step: Step) -> Event | None:
        return next((one for one in reversed(self.events) if one.kind is kind and one.step is step), None)


def together(answers: Sequence[Answer]) -> Ending:
    """How a step ended whose actions ended so. Of several gateways one that failed leaves it PARTIAL."""
    endings = {one.ending for one in answers}
    if not endings:
        return Ending.SKIPPED
    if len(endings) == 1:
        return endings.pop()
    for worst in (Ending.NODE, Ending.UNKNOWN):
        if worst in endings:
            return worst
    if Ending.DONE in endings or Ending.PARTIAL in endings:
        return Ending.PARTIAL
    return Ending.TIMED_OUT if Ending.TIMED_OUT in endings else Ending.FAILED
