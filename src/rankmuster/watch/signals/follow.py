"""One growing file, followed from its end: what was written since the last look, whole lines of it, bounded.

By `stat` at each look: logs are looked at every few seconds, and inotify does not see what another node writes to a
shared file system. What rotation does to a file is told by its inode, its size and the bytes before the place read to:

- renamed and created anew: the old one is read to its end through the descriptor that is still open, then the new one
  from its start, and files that were whole between two looks in between, where they still lie beside it;
- copied and truncated (also where the writer goes on behind the hole, or has written more than before): from the start;
- gone: its last lines, and what comes in its place from the start.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.logs.sources import Source, opened
from rankmuster.watch.signals.follow_names import ABSENT, leads_to, pieces_between, said
from rankmuster.watch.signals.follow_open import OpenFile, Place

MOST_BYTES = 1 << 20
"""Read of one file at one look: some 8,000 lines, which take the readers 0.1 s. Of a longer burst the end is read."""
LINGER_LOOKS = 2
"""Looks in a row without news after which a file that was renamed or removed is closed: a server may write on for
seconds until it is told to open its log anew. An open descriptor of a removed file keeps its disk space."""
MOST_FADING = 4
"""Files of one name that are open at once."""


class Begin(str, Enum):
    """Where reading begins. END: only what is written from now on counts; it may be a log of months."""

    END = "end"
    START = "start"


@dataclass(frozen=True, slots=True)
class News:
    """`data`: whole lines, the last with its end. `skipped`: bytes passed over for their number.

    `present`: whether there is a file now. `trouble`: why it is not read, one phrase, None where it is (or is absent).
    """

    data: bytes = b""
    skipped: int = 0
    present: bool = True
    trouble: str | None = None


class Follower:
    """One file, or what a process has open under a number. Not for several threads at once.

    `begin`: where, of a file that is there at the first look; one that comes later is read from its start. `context`:
    with END, so many bytes before it. `resume`: `read_to` of somebody who has followed the same files.
    `still`: of a descriptor, whether its process is the one that was meant: numbers are given anew.
    """

    def __init__(
        self,
        source: Source,
        begin: Begin = Begin.END,
        *,
        context: int = 0,
        resume: Mapping[tuple[int, int], Place] | None = None,
        still: Callable[[], bool] = lambda: True,
    ) -> None:
        self.source = source
        self._begin = begin
        self._context = context
        self._resume = resume or {}
        self.read_to: dict[tuple[int, int], Place] = {}  # by (device, inode), of the last few files
        self._still = still
        self._lock = threading.Lock()
        self._abandoned = False
        self._surplus = 0
        self._now: OpenFile | None = None
        self._fading: list[OpenFile] = []
        self._seen: tuple[int, int] | None = None  # what the plain name led to at the last look

    @property
    def key(self) -> tuple[int, int] | None:
        """(device, inode) of the file that is open, None for none."""
        return self._now.key if self._now is not None else None

    def poll(self, most: int = MOST_BYTES) -> News:
        """What is new, at most about `most` bytes of each file. Raises nothing for what files do."""
        with self._lock:
            try:
                return self._poll(most)
            finally:
                if self._abandoned:
                    self._shut()

    def _poll(self, most: int) -> News:
        parts: list[bytes] = []
        trouble: str | None = None
        self._surplus = 0  # bytes of pieces that are too many to be read
        try:
            between = self._look()
        except OSError as error:
            between = []
            trouble = said(error)
        skipped = self._surplus
        for one in [*self._fading, *between, *([self._now] if self._now is not None else [])]:
            try:
                data, missed = one.take(most)
            except OSError as error:  # a stale handle of a file server, a disk that is gone
                trouble = f"{self.source.said}: {error.strerror or error}"
                self._drop(one)
                continue
            self.read_to[one.key] = one.place
            parts.append(data)
            skipped += missed
            if one in between:
                parts.append(one.rest())
                one.close()
        for one in list(self._fading):
            if one.quiet >= LINGER_LOOKS or len(self._fading) > MOST_FADING:
                parts.append(one.rest())
                self._drop(one)
        for key in list(self.read_to)[: -4 * MOST_FADING]:
            del self.read_to[key]
        return News(b"".join(parts), skipped, self._now is not None, trouble)

    def last(self, most: int = MOST_BYTES) -> News:
        """What is new, and the line without end."""
        news = self.poll(most)
        rest = b"".join(one.rest() for one in (*self._fading, *([self._now] if self._now is not None else [])))
        return News(news.data + rest, news.skipped, news.present, news.trouble)

    def abandon(self) -> None:
        """Gives it up while a poll hangs in another thread, which closes the files when it comes back."""
        self._abandoned = True
        if self._lock.acquire(blocking=False):
            try:
                self._shut()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Closes its files; it may be polled again, and then begins at their ends."""
        self._shut()

    def _shut(self) -> None:
        for one in (*self._fading, *([self._now] if self._now is not None else [])):
            one.close()
        self._fading, self._now, self._seen = [], None, None
        self._begin = Begin.END

    def _drop(self, one: OpenFile) -> None:
        one.close()
        if one is self._now:
            self._now, self._seen = None, None
        elif one in self._fading:
            self._fading.remove(one)

    def _look(self) -> list[OpenFile]:
        """Opens what has taken the name since; files that had it in between, oldest first. Raises OSError."""
        seen = leads_to(self.source)
        if self._now is not None and seen is not None and seen in (self._now.key, self._seen):
            return []
        if seen is None or (self.source.descriptor and not self._still()):
            self._part()
            self._begin = Begin.START
            return []
        try:
            found = self._opened()
        except OSError as error:
            if self._now is not None:
                self._part()
            # It was there and could not be read: what it held before it can be is of unknown age.
            self._begin = Begin.START if error.errno in ABSENT else Begin.END
            if error.errno in ABSENT:
                return []
            raise
        self._seen = seen
        before = self._now
        if before is not None and found.key == before.key:  # a link that leads elsewhere within the process's root
            found.close()
            return []
        if before is not None:
            self._part()
        back = next((one for one in self._fading if one.key == found.key), None)
        if back is not None:  # renamed away and back: what it holds was read
            found.close()
            self._fading.remove(back)
            found = back
        self._now, self._begin = found, Begin.START
        return self._between(before, found) if before is not None else []

    def _opened(self) -> OpenFile:
        with opened(self.source) as reading:
            kept = os.dup(reading)
        try:
            return self._begun(kept, os.fstat(kept))
        except OSError:
            os.close(kept)
            raise

    def _begun(self, kept: int, status: os.stat_result) -> OpenFile:
        """At the end for what was there before anybody looked, where somebody has read to, or at the start."""
        resume, self._resume = self._resume, {}
        if self._now is None:
            place = resume.get((status.st_dev, status.st_ino))
            if place is not None:
                return OpenFile(kept, 0, place)
            if self._begin is Begin.END:
                return OpenFile(kept, max(status.st_size - self._context, 0))
        return OpenFile(kept, 0)

    def _part(self) -> None:
        if self._now is not None:
            self._now.quiet = 0
            self._fading.append(self._now)
            self._now, self._seen = None, None

    def _between(self, before: OpenFile, after: OpenFile) -> list[OpenFile]:
        """Pieces that had the name between two looks, the newest few."""
        known = {before.key, after.key, *(one.key for one in self._fading)}
        found = pieces_between(self.source, before, known, self.read_to)
        for surplus in found[:-MOST_FADING]:
            self._surplus += surplus.size()
            surplus.close()
        return found[-MOST_FADING:]


def following(path: Path, begin: Begin = Begin.END) -> Follower:
    """A file that an operator has named, as seen from here."""
    return Follower(Source(Path("/"), str(path), path.name), begin)
