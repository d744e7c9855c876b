"""Tells people: the hooks of the settings are called when an incident is opened, waits for an operator, and is closed.

Each in a thread of its own: a hook is somebody else's program, and nothing waits for it. After a crash a hook may be
told of the same thing twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.collect.deadline import Clock
from rankmuster.model.incident import Event, EventKind, Step
from rankmuster.report.inert import plain
from rankmuster.watch.config import Hook
from rankmuster.watch.respond.hooks import hook_ended, run_hook
from rankmuster.watch.respond.outcome import StepEnding

SCHEMA = "rankmuster.incident-notice/1"

MOST_TEXT = 2_000
"""Characters of one text: what is told goes to a pager."""

MOST_AT_ONCE = 8
"""Calls under way: an incident tells three things, and hooks that hang must not fill the process with threads."""


class Notices:
    """`hooks`: called in their order, at once. `failed`: gets one sentence for each that was not taken."""

    def __init__(
        self,
        hooks: tuple[Hook, ...],
        clock: Clock,
        failed: Callable[[str], None],
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._hooks, self._clock, self._failed, self._hurry = hooks, clock, failed, hurry
        self._room = threading.Semaphore(MOST_AT_ONCE)
        self._threads: list[threading.Thread] = []

    def of(self, instance: str, current: Mapping[str, str]) -> Callable[[Event], None]:
        """What a runner calls with every event that it has written; it returns at once. `current`: the incident that
        each instance's runner works on."""
        decided: dict[str, Any] = {}
        of: list[str] = []

        def told(event: Event) -> None:
            incident = current.get(instance, "")
            if of != [incident]:
                of[:] = [incident]
                decided.clear()
            if event.kind is EventKind.DECIDED:
                decided.clear()
                decided.update(event.data)
            what = happened(event)
            if what is not None:
                self._tell(notice(what, incident, instance, event, decided))

        return told

    def opened(self, incident: str, instance: str, reason: str, at: float) -> None:
        """A new incident, which its first event was written of before any runner had it."""
        self._tell(notice("opened", incident, instance, Event(kind=EventKind.OPENED, at=at, note=reason), {}))

    def close(self, seconds: float) -> None:
        """Waits for what is under way, so long at most together."""
        end = self._clock() + seconds
        for thread in self._threads:
            thread.join(max(end - self._clock(), 0.0))

    def _tell(self, document: Mapping[str, Any]) -> None:
        self._threads = [one for one in self._threads if one.is_alive()]
        for hook in self._hooks:
            if not self._room.acquire(blocking=False):
                self._failed(f"{MOST_AT_ONCE} calls of hooks are under way: {document['event']} was not told")
                continue
            thread = threading.Thread(target=self._call, args=(hook, document), name="notice", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._room.release()
                self._failed(f"no thread could be started to tell {document['event']}")
                continue
            self._threads.append(thread)

    def _call(self, hook: Hook, document: Mapping[str, Any]) -> None:
        try:
            told = json.dumps(document, allow_nan=False).encode("ascii")
            ran, allowed = run_hook(hook, told, variables(document), self._clock, self._hurry)
            ended = hook_ended(ran, hook, allowed)
            if ended.ending is not StepEnding.DONE:
                self._failed(f"{document['event']} of {document['incident']} was not told: {ended.note}")
        except Exception as error:  # a thread's own end would be seen by nobody
            self._failed(f"{document['event']} of {document['incident']} was not told: {type(error).__name__}: {error}")
        finally:
            self._room.release()


def happened(event: Event) -> str | None:
    """What an event is to people; None for what they are not called for."""
    if event.kind is EventKind.STEP_BEGUN and event.step is Step.APPROVE:
        return "waiting"
    return "closed" if event.kind is EventKind.CLOSED else None


def notice(what: str, incident: str, instance: str, event: Event, decided: Mapping[str, Any]) -> dict[str, Any]:
    """Schema `rankmuster.incident-notice/1`: fields may be added, never renamed."""
    held = decided.get("held")
    return {
        "schema": SCHEMA,
        "event": what,
        "incident": incident,
        "instance": plain(instance, 200),
        "at": event.at,
        "class": decided.get("class"),
        "subclass": decided.get("subclass"),
        "boundary": decided.get("boundary"),
        "held": None if held is None else plain(str(held), MOST_TEXT),
        "outcome": event.data.get("outcome"),
        "note": plain(event.note, MOST_TEXT),
        "show": f"rankmuster incident show {incident}",
    }


def variables(document: Mapping[str, Any]) -> dict[str, str]:
    """For a command's environment."""
    names = ("event", "incident", "instance", "class", "boundary", "outcome")
    return {f"RANKMUSTER_NOTICE_{name.upper()}": str(document.get(name) or "") for name in names}
