"""Keeps the CommunicationIncidents as the journal says, and brings people's words from them into the journal.

Best effort: what cannot be written now is written later, and no runbook waits for it. One write an incident in
`PAUSE_SECONDS` at most, however fast it goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from rankmuster.adapters.kube.api import INCIDENTS, Api, Conflict, KubeError, NotThere, Object
from rankmuster.adapters.kube.fields import condition
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.journal import Journal
from rankmuster.kube.controller.operator_words import words_of
from rankmuster.kube.controller.project import fit, name_of, resource, status_of
from rankmuster.kube.controller.work_queue import WorkQueue
from rankmuster.model.incident import Event
from rankmuster.model.kube import DOMAIN, INSTANCE_LABEL
from rankmuster.report.incident_account import Account, account
from rankmuster.report.inert import plain
from rankmuster.store.errors import HistoryError

CALL_SECONDS = 10.0
PAUSE_SECONDS = 2.0
"""Between two writes of one incident: a rebuild makes 60 events in a minute, of which people want to see the newest."""

OPEN_SECONDS = 10.0
"""After which an open incident is looked at anyway: people's words may have been missed, others' events are in it."""

POLICY_LABEL = f"{DOMAIN}/policy"


class Projector:
    """`place(instance)`: (namespace, workload, policy's name, pods as they were), None where it is not known any more.

    `uploaded(incident)`: where a copy of its evidence went. `turn` is for one thread; the rest for any.
    """

    def __init__(
        self,
        api: Api,
        journal: Journal,
        place: Callable[[str], tuple[str, str, str, list[dict[str, Any]]] | None],
        *,
        clock: Clock,
        unix_now: Callable[[], float],
        say: Callable[[str], None],
        uploaded: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._api, self._journal, self._place = api, journal, place
        self._clock, self._unix_now, self._say, self._uploaded = clock, unix_now, say, uploaded
        self._lock = threading.Lock()
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._seen: dict[tuple[str, str], tuple[float, Object]] = {}
        self._written: dict[str, tuple[float, int, bool]] = {}
        self._places: dict[str, tuple[str, str, str, list[dict[str, Any]]]] = {}
        self._told: dict[str, str] = {}

    def changed(self, incident: str) -> None:
        """Something has happened in it."""
        with self._lock:
            last = self._written.get(incident, (float("-inf"), 0, False))[0]
        self._queue.add(incident, max(last + PAUSE_SECONDS - self._clock(), 0.0))

    def object(self, raw: Object, *, gone: bool = False) -> None:
        """A CommunicationIncident as the watch told of it: somebody may have written into its spec.

        One with the name of another incident, or in another namespace, is a copy: what is written there is nobody's
        word, since who may write there may not write here.
        """
        spec, metadata = raw.get("spec"), raw.get("metadata")
        incident = spec.get("incident") if isinstance(spec, dict) else None
        if not isinstance(incident, str) or not isinstance(metadata, dict):
            return
        if metadata.get("name") != name_of(incident):
            return
        key = (str(metadata.get("namespace")), incident)
        with self._lock:
            _, before = self._seen.get(key, (0.0, None))
            if gone:
                self._seen.pop(key, None)
                self._written.pop(incident, None)
                return
            self._seen[key] = (self._clock(), raw)
        if before is None or _generation(before) != _generation(raw):
            self._queue.add(incident)

    @property
    def depth(self) -> int:
        """Of incidents that are to be written."""
        return len(self._queue)

    @property
    def deepest(self) -> int:
        return self._queue.deepest

    def opened(self, incidents: Iterable[str]) -> None:
        """All that are open, after a start."""
        for one in incidents:
            self._queue.add(one)

    def turn(self, wait: float = 0.0) -> bool:
        """Does one that is due. Whether there was one."""
        incident = self._queue.take(wait)
        if incident is None:
            return False
        try:
            done = self._bring(incident)
        except (KubeError, HistoryError) as error:
            pause = self._queue.failed(incident)
            self._tell(incident, f"{plain(error, 300)}; again in {pause:.0f} s")
            return True
        self._tell(incident, "")
        self._queue.done(incident, None if done else OPEN_SECONDS)
        return True

    def _bring(self, incident: str) -> bool:
        """Whether it is closed, and all of it is written."""
        try:
            found = account(incident, self._journal.events(incident))
        except KeyError:
            return True  # forgotten by an operator
        place = self._place_of(incident, found)
        namespace = place[0] if place is not None else _namespace_of(found)
        deadline = Deadline.after(CALL_SECONDS, self._clock)
        raw = self._there(incident, found, namespace, place, deadline)
        if raw is None:
            return True  # nobody's resource
        problem = self._words(incident, raw, found)
        found = account(incident, self._journal.events(incident))
        sequence = found.events[-1].sequence if found.events else 0
        uploaded = self._uploaded(incident)
        with self._lock:
            _, before, copied = self._written.get(incident, (0.0, -1, False))
        closed = found.closed is not None
        if sequence != before or (uploaded is not None) != copied or problem:
            status = raw.get("status")
            made = status_of(
                found,
                now=self._unix_now(),
                before=status if isinstance(status, dict) else {},
                generation=_generation(raw),
                uploaded=uploaded,
            )
            if problem:
                made["conditions"].append(_refused(problem, self._unix_now()))
            body = {
                "apiVersion": INCIDENTS.api_version,
                "kind": INCIDENTS.kind,
                "metadata": {"name": name_of(incident), "namespace": namespace},
                "status": made,
            }
            try:
                written = self._api.apply(INCIDENTS, body, deadline, force=True, subresource="status")
            except NotThere:  # gone without the watch having told: the next time it is read, and made anew
                with self._lock:
                    self._seen.pop((namespace, incident), None)
                raise
            with self._lock:
                self._seen[namespace, incident] = (self._clock(), written)
                self._written[incident] = (self._clock(), sequence, uploaded is not None)
        if closed:
            with self._lock:
                self._places.pop(incident, None)
        return closed

    def _place_of(self, incident: str, found: Account) -> tuple[str, str, str, list[dict[str, Any]]] | None:
        """Kept from the first look: by the second one the pods are others."""
        with self._lock:
            place = self._places.get(incident)
        if place is not None:
            return place
        instance = found.opening.instance if found.opening is not None else ""
        place = self._place(instance)
        if place is not None:
            with self._lock:
                self._places[incident] = place
        return place

    def _there(
        self,
        incident: str,
        found: Account,
        namespace: str,
        place: tuple[str, str, str, list[dict[str, Any]]] | None,
        deadline: Deadline,
    ) -> Object | None:
        """As it was seen a moment ago, else read anew: a watch may miss people's words. None where there is none, and
        none can be made: `place` is not known any more, or its namespace is gone and the incident closed."""
        with self._lock:
            at, raw = self._seen.get((namespace, incident), (float("-inf"), None))
        if raw is not None and (found.closed is not None or self._clock() - at < OPEN_SECONDS):
            return raw
        try:
            raw = self._api.get(INCIDENTS, name_of(incident), namespace, deadline)
        except NotThere:
            if place is None:
                return None
            raw = self._made(incident, found, place, deadline)
        if raw is not None:
            with self._lock:
                self._seen[namespace, incident] = (self._clock(), raw)
        return raw

    def _made(
        self, incident: str, found: Account, place: tuple[str, str, str, list[dict[str, Any]]], deadline: Deadline
    ) -> Object | None:
        namespace, workload, policy, pods = place
        spec: dict[str, Any] = {"incident": incident, "policy": policy, "workload": workload, "pods": pods[:64]}
        if found.opening is not None:
            spec["instance"] = fit(found.opening.instance, 253)
            if found.opening.incarnation:
                spec["incarnation"] = fit(found.opening.incarnation, 128)
        labels = {POLICY_LABEL: policy[:63].rstrip("-._"), INSTANCE_LABEL: _label(spec.get("instance", ""))}
        try:
            return self._api.create(INCIDENTS, resource(incident, namespace, spec, labels), namespace, deadline)
        except Conflict:
            return self._api.get(INCIDENTS, name_of(incident), namespace, deadline)
        except NotThere:
            if found.closed is None:
                raise
            return None

    def _words(self, incident: str, raw: Object, found: Account) -> str:
        events, problem = words_of(raw.get("spec"), _generation(raw) or 0, found, self._unix_now(), _asked(raw))
        for event in events:
            problem = self._tell_journal(incident, event) or problem
        return problem

    def _tell_journal(self, incident: str, event: Event) -> str:
        try:
            self._journal.tell(incident, event)
        except ValueError as error:
            return plain(error, 300)
        self._say(f"incident {incident}: {event.kind.value} by {plain(event.by, 100)}, as its resource says")
        return ""

    def _tell(self, incident: str, said: str) -> None:
        """Once, until it is another one or none."""
        kind = said.partition(";")[0]
        if said and self._told.get(incident) != kind:
            self._say(f"the resource of incident {incident} could not be written: {said}")
        if said:
            self._told[incident] = kind
        else:
            self._told.pop(incident, None)


def _generation(raw: Object) -> int | None:
    metadata = raw.get("metadata")
    found = metadata.get("generation") if isinstance(metadata, dict) else None
    return found if isinstance(found, int) else None


def _namespace_of(found: Account) -> str:
    """With which an instance's name begins; for an incident whose place was forgotten with its controller."""
    return found.opening.instance.partition(".")[0] if found.opening is not None else ""


def _asked(raw: Object) -> int | None:
    """The generation of the spec in which people are asked for an approval by its status; None where they are not."""
    waits = condition(raw, "WaitsForApproval")
    generation = waits.get("observedGeneration")
    return generation if waits.get("status") == "True" and isinstance(generation, int) else None


def _refused(problem: str, now: float) -> dict[str, Any]:
    from rankmuster.kube.controller.conditions import Wanted, conditions

    return conditions([Wanted("WordTaken", False, "Refused", problem)], None, now)[0]


def _label(name: str) -> str:
    return name if len(name) <= 63 else name[-63:].lstrip("-._")
