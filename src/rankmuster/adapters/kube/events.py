"""Kubernetes events on what was touched, for those who look with `kubectl describe`: best effort, and never in the way.

They are written by a thread of their own from a bounded queue. The same words on the same object are one event whose
count grows, as the recorders of Kubernetes' own controllers do it.
"""

from __future__ import annotations

import hashlib
import queue
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.adapters.kube.api import EVENTS, Api, Kind, KubeError, NotThere, Object
from rankmuster.adapters.kube.fields import stamp
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import FIELD_MANAGER

MOST_WAITING = 256
MOST_KNOWN = 1024
"""Events whose count may grow."""

MOST_WORDS = 1024
"""Bytes of a message: the API server refuses longer ones (core/v1 Event validation)."""

CALL_SECONDS = 5.0

SAME_SECONDS = 600.0
"""For how long the same words are the same event: client-go's aggregator has 10 minutes."""

COMPONENT = "rankmuster"
NODE_NAMESPACE = "default"
"""Of events on what has no namespace."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The object that an event is about."""

    kind: Kind
    name: str
    uid: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    on: Touched
    reason: str
    note: str
    warning: bool
    at: float


@dataclass(slots=True)
class _Known:
    name: str
    count: int
    first: float


class Events:
    """`reason`s are in upper camel case, as Kubernetes' are. `lost`: how many did not get there."""

    def __init__(self, api: Api, *, wall: Callable[[], float] = time.time, host: str | None = None) -> None:
        self._api, self._wall = api, wall
        self._host = host or socket.gethostname()
        self._waiting: queue.Queue[_Wanted | None] = queue.Queue(MOST_WAITING)
        self._known: OrderedDict[tuple[str, str, str], _Known] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.lost = 0

    def tell(self, on: Touched, reason: str, note: str, *, warning: bool = False) -> None:
        """Returns at once and raises nothing; where too many wait, it is lost."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kube events", daemon=True)
                self._thread.start()
        try:
            self._waiting.put_nowait(_Wanted(on, reason, _fit(note), warning, self._wall()))
        except queue.Full:
            self.lost += 1

    def close(self, deadline: Deadline) -> None:
        """What waits is written until then."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._waiting.put(None, timeout=max(deadline.remaining(), 0.001))
        except queue.Full:
            return
        thread.join(deadline.remaining())

    def _work(self) -> None:
        while (wanted := self._waiting.get()) is not None:
            try:
                self._write(wanted)
            except KubeError:
                self.lost += 1
            except Exception:  # an event is never worth more than a count
                self.lost += 1

    def _write(self, wanted: _Wanted) -> None:
        key = (wanted.on.uid, wanted.reason, wanted.note)
        known = self._known.get(key)
        namespace = wanted.on.namespace or NODE_NAMESPACE
        deadline = Deadline.after(CALL_SECONDS)
        if known is not None and wanted.at - known.first < SAME_SECONDS:
            known.count += 1
            again = {"count": known.count, "lastTimestamp": stamp(wanted.at)}
            try:
                self._api.patch(EVENTS, known.name, namespace, again, deadline)
                return
            except NotThere:
                pass  # events are forgotten after an hour
        made = _Known(_name(wanted), 1, wanted.at)
        self._api.create(EVENTS, self._body(wanted, made, namespace), namespace, deadline)
        self._known[key] = made
        self._known.move_to_end(key)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def _body(self, wanted: _Wanted, made: _Known, namespace: str) -> Object:
        at = stamp(wanted.at)
        on = {
            "apiVersion": wanted.on.kind.api_version,
            "kind": wanted.on.kind.kind,
            "name": wanted.on.name,
            "uid": wanted.on.uid,
            **({"namespace": wanted.on.namespace} if wanted.on.namespace else {}),
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": made.name, "namespace": namespace},
            "involvedObject": on,
            "reason": wanted.reason,
            "message": wanted.note,
            "type": "Warning" if wanted.warning else "Normal",
            "source": {"component": COMPONENT, "host": self._host},
            "reportingComponent": f"{FIELD_MANAGER}.dev/controller",
            "reportingInstance": self._host,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


def _name(wanted: _Wanted) -> str:
    """Unique among processes: two of us may tell the same."""
    said = f"{wanted.on.uid} {wanted.reason} {wanted.note} {wanted.at!r} {time.monotonic_ns()}"
    return f"{wanted.on.name[:200]}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _fit(note: str) -> str:
    line = " ".join("".join(one if one.isprintable() else " " for one in note).split())
    return line.encode("utf-8", "replace")[:MOST_WORDS].decode("utf-8", "ignore")
