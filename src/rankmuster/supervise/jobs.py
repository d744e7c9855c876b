"""What callers have asked for, in order, and who waits for which answer: callers' threads on one side, the main thread
on the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending

LAST_SECONDS = 0.4
"""After its deadline, for an answer that is on its way: the caller keeps half a second for that."""


@dataclass
class Job:
    """`work`: in the main thread. `what`: for messages ("terminate of X")."""

    what: str
    work: Callable[[], Answer]
    deadline: Deadline
    answer: Answer | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Jobs:
    """`wake`: rouses the main thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        self._closed = ""

    def ask(self, job: Job) -> Answer:
        """Waits for the answer. What was not begun by its deadline is never done."""
        with self._lock:
            if self._closed:
                return Answer(ending=Ending.REFUSED, note=self._closed)
            self._waiting.append(job)
        self._wake()
        job.done.wait(job.deadline.remaining() + LAST_SECONDS)
        with self._lock:
            if job.answer is not None:
                return job.answer
            if job in self._waiting:
                self._waiting.remove(job)
                busy = f", busy with the {self._current.what}" if self._current is not None else ""
                return Answer(
                    ending=Ending.TIMED_OUT, note=f"the {job.what} was not begun in time: the supervisor was slow{busy}"
                )
        return Answer(ending=Ending.TIMED_OUT, note=f"the {job.what} still goes on; ask again with the same operation")

    def run_next(self) -> bool:
        """Does one; whether there was one."""
        with self._lock:
            if not self._waiting:
                return False
            job = self._current = self._waiting.popleft()
        try:
            answer = job.work()
        except Exception as error:  # said to the caller; the supervisor and its group live on
            answer = Answer(ending=Ending.FAILED, note=f"internal error: {type(error).__name__}: {error}"[:500])
        self._finish(job, answer)
        return True

    def close(self, why: str) -> None:
        """Everybody who waits, or comes later, is told so."""
        with self._lock:
            self._closed = why
            waiting, self._waiting = list(self._waiting), deque()
        for job in waiting:
            self._finish(job, Answer(ending=Ending.REFUSED, note=why))

    def _finish(self, job: Job, answer: Answer) -> None:
        with self._lock:
            job.answer = answer
            if self._current is job:
                self._current = None
        job.done.set()
