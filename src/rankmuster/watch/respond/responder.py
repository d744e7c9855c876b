"""The stops of all instances: each in a thread of its own, a few at once, none that the watch waits for."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.watch.config import WatchConfig
from rankmuster.watch.respond.hooks import name_of
from rankmuster.watch.respond.journal import Journal, NotRecorded
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import OFF, Ended, HookEnded, StepEnding, StopOutcome
from rankmuster.watch.respond.past import Key
from rankmuster.watch.respond.response import Response
from rankmuster.watch.respond.steps import COLLECT_GRACE, Means
from rankmuster.watch.respond.views import from_json, view_of
from rankmuster.watch.snapshot import StopView

MOST_AT_ONCE = 4
"""Stops that are answered at the same time: a node's instances stop together when its fabric does, and each collection
takes a processor for a second or two."""

MOST_WAITING = 64
"""Stops that wait for that. More instances do not fit on a node."""

MOST_FINISHED = 256
"""Outcomes kept until somebody asks for them."""


@dataclass(frozen=True, slots=True)
class _Work:
    notice: StopNotice
    thread: threading.Thread


class Responder:
    """`folder`: of bundles and of the record. `clock`: monotonic seconds; `unix_now`: the wall clock.

    `start`, `view`, `resumed`, `finished` return at once. Nothing here raises for expected trouble.
    """

    def __init__(self, config: WatchConfig, folder: Path, clock: Clock, unix_now: Callable[[], float]) -> None:
        self._closing = threading.Event()
        self._means = Means(config, clock, unix_now, self._closing.is_set)
        self._journal = Journal(folder)
        self._lock = threading.Lock()
        self._views: dict[str, StopView] = {}
        self._working: dict[str, _Work] = {}
        self._waiting: deque[StopNotice] = deque()
        self._finished: deque[StopOutcome] = deque(maxlen=MOST_FINISHED)
        self._unwritten: set[tuple[Key, str]] = set()

    def remember(self, host: str) -> str | None:
        """Takes the last stop of each instance of this host from the record, for `view`, after a restart of the watch.

        Returns why that was not possible, or None. Reads at most 8 MiB.
        """
        try:
            entries = self._journal.entries()
        except NotRecorded as error:
            return str(error)
        with self._lock:
            for entry in entries:
                if entry.key.host == host and entry.view is not None:
                    view = from_json(entry.view, entry.key.incarnation)
                    if view is not None:
                        self._views[entry.key.instance] = view
        return None

    def start(self, notice: StopNotice) -> None:
        """Answers a stop, as far as that was not done before for this incarnation.

        One instance's are answered one after the other; what is refused comes back by `finished`.
        """
        with self._lock:
            if self._closing.is_set():
                return
            running = self._working.get(notice.instance)
            waiting = [one for one in self._waiting if one.instance == notice.instance]
            under_way = {one.incarnation for one in (*waiting, *([running.notice] if running is not None else []))}
            if notice.incarnation in under_way:
                self._refuse(notice, "an earlier stop of it is still being answered")
                return
            for older in waiting:
                self._waiting.remove(older)
                self._refuse(older, "it was started again before its turn came, and has stopped again")
            if len(self._waiting) >= MOST_WAITING:
                self._refuse(notice, f"{MOST_WAITING} other stops wait to be answered")
                return
            self._views[notice.instance] = view_of(_not_begun(notice, self._means.config, "its turn has not come"))
            self._waiting.append(notice)
            self._next()

    def _refuse(self, notice: StopNotice, why: str) -> None:
        self._finished.append(_not_begun(notice, self._means.config, why))

    def _next(self) -> None:
        """Begins what waits, as long as there is room. The lock is held."""
        for notice in list(self._waiting):
            if len(self._working) >= MOST_AT_ONCE or self._closing.is_set():
                return
            if notice.instance in self._working:
                continue  # of an earlier incarnation
            self._waiting.remove(notice)
            thread = threading.Thread(target=self._answer, args=(notice,), name="stop", daemon=True)
            self._working[notice.instance] = _Work(notice, thread)
            try:
                thread.start()
            except RuntimeError:  # no more threads can be started
                del self._working[notice.instance]
                outcome = _not_begun(notice, self._means.config, "no thread could be started for it")
                self._views[notice.instance] = view_of(outcome)
                self._finished.append(outcome)

    def _answer(self, notice: StopNotice) -> None:
        try:
            outcome = Response(self._means, self._journal, notice, self._tell, self._unwritten).run()
        except (
            Exception
        ) as error:  # a fault of our own must be seen, and must not keep the next stop from being answered
            place = traceback.extract_tb(error.__traceback__)[-1]
            why = f"internal error: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            outcome = _failed(notice, self._means.config, why)
            self._tell(outcome)
        with self._lock:
            self._finished.append(outcome)
            self._working.pop(notice.instance, None)
            self._next()

    def _tell(self, outcome: StopOutcome) -> None:
        with self._lock:
            earlier = self._views.get(outcome.notice.instance)
            same = earlier is not None and earlier.at == outcome.notice.detected_at
            resumed = earlier.resumed_at if same and earlier is not None else None
            self._views[outcome.notice.instance] = view_of(outcome, resumed)

    def resumed(self, instance: str, at: float) -> None:
        """The instance goes on, since `at` (unix seconds)."""
        with self._lock:
            view = self._views.get(instance)
            if view is not None and view.resumed_at is None:
                self._views[instance] = replace(view, resumed_at=at)

    def view(self, instance: str) -> StopView | None:
        """Its last stop, and how far the answer to it has come; None where there was none."""
        with self._lock:
            return self._views.get(instance)

    def finished(self) -> list[StopOutcome]:
        """What has ended since this was asked last, in the order of its end."""
        with self._lock:
            found = list(self._finished)
            self._finished.clear()
        return found

    def close(self, seconds: float) -> None:
        """Ends within about `seconds`: what runs may finish until shortly before, and is then told to.

        A collection that is told to closes its bundle with what it has. What was not begun is left to the next watch.
        """
        deadline = Deadline.after(seconds, self._means.clock)
        with self._lock:
            self._waiting.clear()
            threads = [one.thread for one in self._working.values()]
        for last in (False, True):
            until = deadline if last else deadline.before(min(COLLECT_GRACE + 2.0, seconds / 2))
            if last:
                self._closing.set()
            for thread in threads:
                with contextlib.suppress(RuntimeError):
                    thread.join(until.remaining())


def _not_begun(notice: StopNotice, config: WatchConfig, why: str) -> StopOutcome:
    return _all(notice, config, Ended(StepEnding.NOT_DONE, why), repeated=True)


def _failed(notice: StopNotice, config: WatchConfig, why: str) -> StopOutcome:
    return _all(notice, config, Ended(StepEnding.FAILED, why), repeated=False)


def _all(notice: StopNotice, config: WatchConfig, ended: Ended, *, repeated: bool) -> StopOutcome:
    stop = config.on_stop
    return StopOutcome(
        notice,
        number=1,
        folder=None,
        collect=ended if stop.collect else OFF,
        diagnose=ended if stop.collect and stop.diagnose else OFF,
        hooks=tuple(HookEnded(one.kind, name_of(one), ended) for one in stop.hooks),
        repeated=repeated,
    )
