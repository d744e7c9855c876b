"""Where the watch's lines go: a standard output that nobody reads, or whose disk is full, must not end its looking.

`tell` puts a line down and returns; a thread writes. What does not fit is counted and said once there is room again.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque

from rankmuster.cli.output import say
from rankmuster.report.inert import plain
from rankmuster.watch.events import Form, Severity, Told, line

MOST_BYTES = 4 << 20
"""Of lines that wait: some ten thousand, or a dozen with verdicts of hundreds of ranks. Older ones are dropped."""

CHUNK = select.PIPE_BUF
"""Written at once: where poll(2) says that a pipe has room, so many bytes do not block (pipe(7))."""

MOST_TEXT = 1000
"""Characters of a line for people."""

POLL_SECONDS = 0.5
"""Between two looks whether somebody reads, and whether the watch ends."""


class EventOutput:
    """Writes events to `descriptor`, each as one line in `form`. For any thread."""

    def __init__(self, form: Form, descriptor: int = 1) -> None:
        self._form = form
        self._descriptor = descriptor
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._held = 0
        self._writing = False
        self._lost = 0
        self._why = "nobody read standard output"
        self._torn = False
        self._left = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def tell(self, told: Told) -> None:
        """Puts it down to be written; returns at once, whatever becomes of it."""
        data = self._encoded(told)
        with self._changed:
            if self._left:
                return
            self._lines.append(data)
            self._held += len(data)
            while self._held > MOST_BYTES and len(self._lines) > 1:
                self._held -= len(self._lines.popleft())
                self._lost += 1
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Waits until all is written, at most so many seconds; what nobody takes until then is lost."""
        end = time.monotonic() + seconds
        with self._changed:
            while (self._lines or self._writing) and not self._left:
                remaining = end - time.monotonic()
                if remaining <= 0:
                    return
                self._changed.wait(remaining)

    def _encoded(self, told: Told) -> bytes:
        text = line(told, self._form)
        shown = text if self._form is Form.JSON else plain(text, limit=MOST_TEXT)
        return shown.encode("utf-8", "backslashreplace") + b"\n"

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                data = self._lines.popleft()
                self._held -= len(data)
                self._writing = True
            try:
                self._after_loss()
                self._write(data)
            except BrokenPipeError:
                self._reader_left()
                return
            except OSError as error:
                self._failed(error)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write(self, data: bytes) -> None:
        data = b"\n" + data if self._torn else data
        self._torn = False
        with memoryview(data) as view:
            done = 0
            try:
                while done < len(view):
                    self._wait_for_room()
                    with contextlib.suppress(BlockingIOError):  # somebody else has made it non-blocking
                        done += os.write(self._descriptor, view[done : done + CHUNK])
            except OSError:
                self._torn = done > 0
                raise

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while not poll.poll(POLL_SECONDS * 1000):
            pass

    def _after_loss(self) -> None:
        with self._changed:
            lost, why = self._lost, self._why
        if not lost:
            return
        text = f"{lost} earlier event(s) are lost: {why}"
        self._write(self._encoded(Told(time.time(), Severity.NOTE, "", "note", text, (("lost", lost),))))
        with self._changed:
            self._lost -= lost
            self._why = "nobody read standard output"

    def _failed(self, error: OSError) -> None:
        with self._changed:
            first, self._lost = not self._lost, self._lost + 1
            self._why = f"they could not be written ({error.strerror or error})"
        if first:
            say(f"rankmuster: cannot write to standard output: {error.strerror or error}; the watch goes on without it")

    def _reader_left(self) -> None:
        """As for every command: no fault, and nothing is written any more."""
        with self._changed:
            self._left = True
            self._lines.clear()
            self._held, self._writing = 0, False
            self._changed.notify_all()
