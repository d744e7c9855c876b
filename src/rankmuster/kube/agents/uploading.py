"""Copies of the bundles to a store beyond the node, one after the other, each with a deadline, until all are there."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rankmuster.collect.bundle.upload import UploadFailed, redact, upload
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.agents.shelf import Card, Shelf

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0


class Uploading:
    """One thread, from `start` until `close`. `url`: of a folder of the store. `seconds`: for one bundle."""

    def __init__(
        self,
        shelf: Shelf,
        url: str,
        seconds: float,
        say: Callable[[str], None],
        *,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._shelf = shelf
        self._url = url if url.endswith("/") else f"{url}/"
        self._seconds = seconds
        self._say = say
        self._first = first_pause
        self._wake = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """There is a new one."""
        self._wake.set()

    def close(self) -> None:
        """Ends after what is under way; a daemon thread that is held up there ends with the process."""
        self._end.set()
        self._wake.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        pause = self._first
        while not self._end.is_set():
            self._wake.clear()
            waiting = [card for card in self._shelf.cards() if not card.uploaded]
            failed = False
            for card in reversed(waiting):  # the newest is the one that somebody waits for
                if self._end.is_set():
                    return
                failed = not self._one(card) or failed
            if failed:
                self._end.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                pause = self._first
                if not waiting:
                    self._wake.wait()

    def _one(self, card: Card) -> bool:
        try:
            done = upload(self._shelf.folder / card.name, self._url, Deadline.after(self._seconds))
        except UploadFailed as error:
            if error.there:  # names hold time and pod: it is an earlier attempt's copy
                self._shelf.uploaded(card.name, f"{redact(self._url)}{card.name}")
                return True
            if self._shelf.card(card.name) is None:
                return True  # it has had to make room
            self._say(str(error))
            return False
        self._shelf.uploaded(card.name, redact(done.url))
        self._say(f"uploaded {card.name} to {redact(done.url)} ({done.size} bytes, {done.checked} checked)")
        return True
