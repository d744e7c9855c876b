"""One instance behind an LLM router that knows only two states of a worker: in its registry, and not.

Taking it out is the stop: streams that run go on, new requests go elsewhere. There is no weight and no cut. What a
worker was besides its URL is lost when it is taken out, so one that could not be put back as it was is not taken out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.worker_registry import Refused, Registry, Worker
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficLook, TrafficState

POLL_SECONDS = 0.1
"""Between two looks whether the router has done what it has queued: its own work takes milliseconds."""

UNCOUNTED = "the router counts no requests"


class RegistryTraffic:
    """A Traffic. `add`: what a worker is put in with besides its URL."""

    def __init__(
        self,
        name: str,
        worker: str,
        registry: Registry,
        add: Mapping[str, Any] | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name, self._worker, self._registry = name, worker, registry
        self._add, self._pause = dict(add or {}), pause

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    def look(self, deadline: Deadline) -> TrafficLook:
        """ABSENT once it is taken out: what still runs then, no router says. `running` is None where the router says
        0: one that does not balance by load says so while requests run."""
        try:
            found = self._registry.find(deadline)
        except Refused as error:
            return TrafficLook(state=TrafficState.UNKNOWN, note=str(error))
        if not found:
            note = f"{self._worker} is not in the router's registry; what still runs there the router does not say"
            return TrafficLook(state=TrafficState.ABSENT, note=note)
        load = sum(one.load or 0 for one in found)
        sick = "" if all(one.healthy for one in found) else "the router holds it unhealthy"
        note = "; ".join(one for one in (sick, "" if load else UNCOUNTED) if one)
        return TrafficLook(state=TrafficState.READY, running=load or None, note=note)

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        """Takes it out, and looks until it is gone."""
        del reason  # routers have no place for it
        try:
            found = self._registry.find(deadline)
            if not found:
                note = f"{self._worker} is not in the router's registry: it was taken out already, or has another URL"
                return Answer(ending=Ending.DONE, note=note, data={"before": "absent"})
            lost = self._lost(found)
            if lost:
                what = ", ".join(f"{key} {value!r}" for key, value in lost.items())
                note = f"{self._worker} has {what} in the registry and would come back without it; set it in `add`"
                return Answer(ending=Ending.REFUSED, note=note)
            note = self._removed(found, deadline)
        except Refused as error:
            return _answer(error)
        return Answer(ending=Ending.DONE, note=note, data={"before": "ready"})

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        """It is taken out; what runs cannot be ended by the router: REFUSED."""
        stopped = self.stop_new(reason, deadline)
        if stopped.ending is not Ending.DONE:
            return stopped
        note = "this router cannot end what runs: its clients see their connections break when the group is ended"
        return Answer(ending=Ending.REFUSED, note=f"{stopped.note}; {note}", data=stopped.data)

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        """REFUSED: there are no weights."""
        del percent, deadline
        return Answer(
            ending=Ending.REFUSED, note="this router has no weights: a worker gets its whole share or nothing"
        )

    def restore(self, deadline: Deadline) -> Answer:
        """Puts it in, and looks until it is there and the router holds it healthy."""
        trouble = ""
        try:
            found = self._registry.find(deadline)
            if found and all(one.healthy for one in found):
                return Answer(ending=Ending.DONE, note=f"{self._worker} is in the router's registry already")
            if not found:
                try:
                    self._registry.add(deadline.before(min(1.0, deadline.remaining() / 4)))
                except Refused as error:
                    if not error.perhaps:
                        raise
                    trouble = f" ({error})"  # vllm-router answers once the worker is healthy: the list tells
            while not (found and all(one.healthy for one in found)):
                if deadline.remaining() <= POLL_SECONDS:
                    if found:
                        note = f"{self._worker} is in the registry, and the router holds it unhealthy"
                        return Answer(ending=Ending.PARTIAL, note=note)
                    note = f"{self._worker} was to be put in and is not in the registry{trouble}: routers ask it first"
                    return Answer(ending=Ending.TIMED_OUT, note=note)
                self._pause(POLL_SECONDS)
                found = self._registry.find(deadline)
        except Refused as error:
            return _answer(error)
        return Answer(ending=Ending.DONE, note=f"{self._worker} is in the router's registry again, and healthy")

    def would(self, verb: str, *, percent: float | None = None) -> tuple[str, ...]:
        """The requests of `verb` (a Verb)."""
        del percent
        word = str(getattr(verb, "value", verb))
        if word in ("stop_new", "cut"):
            return self._registry.lines("remove")
        return self._registry.lines("add") if word == "restore" else ()

    def _lost(self, found: tuple[Worker, ...]) -> dict[str, Any]:
        return {key: value for one in found for key, value in one.traits.items() if self._add.get(key) != value}

    def _removed(self, found: tuple[Worker, ...], deadline: Deadline) -> str:
        load = sum(one.load or 0 for one in found)
        for one in found:
            self._registry.remove(one, deadline)
        while self._registry.find(deadline):
            if deadline.remaining() <= POLL_SECONDS:
                raise Refused(f"the router took the removal of {self._worker} and still lists it", late=True)
            self._pause(POLL_SECONDS)
        running = f"; it counted {load} requests there, which go on" if load else ""
        return f"{self._worker} was taken out of the router's registry{running}"


def _answer(error: Refused) -> Answer:
    return Answer(ending=Ending.TIMED_OUT if error.late else Ending.FAILED, note=str(error))
