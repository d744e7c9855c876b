"""The logs of one instance, followed together: which files, what is new in them, what it says.

A file that does not let itself be read in time (a dead file server) is given up until the next search, and the others
go on. Where a look brings nothing, a `LogSpan` without lines says that the plane was there to be heard.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import bundle_path, identity
from rankmuster.collect.machine import Machine
from rankmuster.collect.target import Target
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.follow import MOST_BYTES, Begin, Follower, News
from rankmuster.watch.signals.follow_open import Place
from rankmuster.watch.signals.log_patience import SECONDS, Patience
from rankmuster.watch.signals.log_places import Finder, Wanted
from rankmuster.watch.signals.log_text import LogText
from rankmuster.watch.signals.log_wrapped import Unwrapper
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Said

SEARCH_SECONDS = 120.0
"""Between two searches: a process that opens another log is rare, and a search of 16 processes takes 10 ms."""
AGAIN_SECONDS = 15.0
"""The same while there is nothing to follow: logs are made some seconds into a start."""
MOST_FILES = 64
"""Followed at once: two a rank of the largest node, and its launchers'."""
MOST_TOTAL = 2 << 20
"""Bytes of all files at one look, 70 ms of reading where no line matters; more is passed over, and said."""
LEAST_EACH = 64 << 10
"""Bytes of one file at one look however many there are: some 500 lines."""
MOST_SEARCH_SECONDS = 6 * 3600.0
"""Between two searches in which files did not let themselves be looked at: each leaves threads behind."""

MOST_NOTES = 8
CONFIGURED = Path("/")
"""The root of files that the configuration names: they are asked for, and others are only guessed at."""


@dataclass(eq=False)
class _Followed:
    follower: Follower
    text: LogText
    unwrap: Unwrapper

    @property
    def place(self) -> tuple[str, str]:
        return str(self.follower.source.root), self.follower.source.path


class LogSignal:
    """`readers`: the planes whose readers are asked. `folder`: of the paths in references, as a bundle has it.

    `clock`, `wall`: monotonic and unix seconds. `retarget` may be called from any thread.
    """

    def __init__(
        self,
        target: Target | None,
        finder: Finder,
        *,
        name: str,
        plane: Plane,
        readers: Sequence[Plane],
        folder: str,
        blind_to: str,
        machine: Machine | None = None,
        period: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.plane = plane
        self.period = period
        self.blind_to = blind_to
        self._target = target
        self._finder = finder
        self._readers = tuple(readers)
        self._folder = folder
        self._machine = machine if machine is not None else Machine()
        self._clock = clock
        self._wall = wall
        self._followed: list[_Followed] = []
        self._due = float("-inf")
        self._first = True
        self._declined: str | None = None
        self._grumbled: set[str] = set()
        self._notes: tuple[str, ...] = ()
        self._patience = Patience()
        self._stuck_searches = 0  # in a row
        self._closed = threading.Event()
        self._anew = threading.Event()
        self._read_to: dict[tuple[int, int], Place] = {}  # how far files were read, also those that are left
        self._lock = threading.Lock()

    @property
    def files(self) -> tuple[str, ...]:
        """What is followed now, for people."""
        return tuple(one.follower.source.said for one in self._followed)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which files could not be read at the last poll although others were, and which of the configuration's are
        not there."""
        return self._notes

    def retarget(self, target: Target | None) -> None:
        """The instance has other processes now: its files are looked for at the next poll."""
        self._target = target
        self._anew.set()

    def poll(self, deadline: Deadline) -> list[Said]:
        """What the new lines say."""
        with self._lock:
            if self._closed.is_set():
                return []
            said: list[Said] = []
            now = self._clock()
            if now >= self._due or self._anew.is_set():
                self._anew.clear()
                self._search(deadline.within(deadline.remaining() / 2), said)
            self._read(self._followed, deadline, said)
            if self._closed.is_set():
                self._shut()
            return said

    def close(self) -> None:
        """Closes the files; where a poll runs, at its end."""
        self._closed.set()
        if self._lock.acquire(blocking=False):
            try:
                self._shut()
            finally:
                self._lock.release()

    def _shut(self) -> None:
        for one in self._followed:
            one.follower.close()
        self._followed = []

    def _search(self, deadline: Deadline, said: list[Said]) -> None:
        target, now = self._target, self._clock()
        self._due = now + AGAIN_SECONDS
        if target is None or self._patience.spent:
            why = "no instance is known" if target is None else "too many of its files do not answer (a dead server?)"
            self._leave(self._followed, deadline, said)
            self._decline(f"{why}, so that no log of it is followed", said)
            return
        places = self._finder(target, self._machine, deadline)
        chosen, complete = self._distinct(places.wanted, deadline)
        kept = {id(wanted): self._of(wanted) for wanted in chosen}
        rest = [one for one in self._followed if one not in kept.values()]
        keep: list[_Followed] = []
        if complete and not places.stuck:
            # Those that are left are read to their ends before others go on with the same files.
            self._leave(rest, deadline, said)
        else:  # what was not seen in time may be there all the same
            keep.extend(rest)
        for wanted in chosen:
            old = kept[id(wanted)]
            keep.append(old if old is not None else self._begun(wanted, {one.text.path for one in keep}))
        self._followed = keep
        self._first = False
        if keep:
            self._due = now + (SEARCH_SECONDS if complete else AGAIN_SECONDS)
            self._declined = None
        elif places.blind is not None:
            self._decline(places.blind, said)
        self._stuck_searches = self._stuck_searches + 1 if places.stuck else 0
        if places.stuck:
            self._due = now + min(SEARCH_SECONDS * 4**self._stuck_searches, MOST_SEARCH_SECONDS)
            which = ", ".join(places.stuck[:4])
            said.append(Failed(now, self.plane, f"the files of {which} did not let themselves be looked at in time"))

    def _distinct(self, wanted: Sequence[Wanted], deadline: Deadline) -> tuple[list[Wanted], bool]:
        """One a file, whoever has it open, and whether all were looked at in time.

        A file that several ranks write to is no one rank's.
        """

        def look(one: Wanted) -> tuple[int, int] | None:
            try:
                return identity(one.source)
            except OSError:  # not there yet, or not to be read: following says which
                return None

        done = self._patience.each(list(wanted[: MOST_FILES * 4]), look, deadline)
        found: dict[object, Wanted] = {}
        for one, key in done.results:
            name: object = key if key is not None else (str(one.source.root), one.source.path)
            if name not in found:
                found[name] = one
            elif found[name].source.rank != one.source.rank:
                found[name] = _of_all(found[name])
        return list(found.values())[:MOST_FILES], not (done.stuck or done.skipped or deadline.passed)

    def _of(self, wanted: Wanted) -> _Followed | None:
        place = (str(wanted.source.root), wanted.source.path)
        rank = wanted.source.rank
        return next((one for one in self._followed if one.place == place and one.follower.source.rank == rank), None)

    def _begun(self, wanted: Wanted, taken: set[str]) -> _Followed:
        begin = Begin.START if wanted.own and not self._first else Begin.END
        taken = taken | {one.text.path for one in self._followed}
        follower = Follower(wanted.source, begin, resume=self._read_to, still=wanted.still)
        return _Followed(follower, LogText(self._path(wanted, taken), self._readers), Unwrapper())

    def _path(self, wanted: Wanted, taken: set[str]) -> str:
        source = wanted.source
        path = bundle_path(self._folder, source.rank, source.named)
        number = 2
        while path in taken:
            path = bundle_path(f"{self._folder}/{number}", source.rank, source.named)
            number += 1
        return path

    def _leave(self, leaving: Sequence[_Followed], deadline: Deadline, said: list[Said]) -> None:
        """Their last lines, and then no more of them."""
        self._read(leaving, deadline, said, last=True)
        self._followed = [one for one in self._followed if one not in leaving]

    def _read(self, which: Sequence[_Followed], deadline: Deadline, said: list[Said], *, last: bool = False) -> None:
        if not which:
            return
        most = min(MOST_BYTES, max(MOST_TOTAL // len(which), LEAST_EACH))

        def look(one: _Followed) -> News:
            return one.follower.last(most) if last else one.follower.poll(most)

        done = self._patience.each(list(which), look, deadline)
        for old in list(self._read_to)[: -4 * MOST_FILES]:
            del self._read_to[old]
        now, unix = self._clock(), self._wall()
        trouble = [news.trouble for _, news in done.results if news.trouble is not None]
        passed: list[str] = []
        lines = 0
        for one, news in done.results:
            skipped = news.skipped
            data = one.unwrap.take(news.data) if news.data else b""
            if deadline.passed:
                skipped, data = skipped + len(data), b""
            self._read_to.update(one.follower.read_to)
            if last:
                one.follower.close()
            if skipped:
                passed.append(f"{_size(skipped)} of {one.follower.source.said}")
            lines += data.count(b"\n")
            for at, plane, observation in one.text.take(data, now, final=last):
                said.append(Heard(at, unix - (now - at), observation, plane))
        for one in done.stuck:
            one.follower.abandon()
            self._due = min(self._due, now + AGAIN_SECONDS)
            trouble.append(f"{one.follower.source.said} did not let itself be read within {SECONDS:g} s")
        if done.stuck:
            self._followed = [one for one in self._followed if one not in done.stuck]
        for one in done.skipped if last else ():
            one.follower.close()
        if not all(news.present for _, news in done.results):
            self._due = min(self._due, now + AGAIN_SECONDS)  # others may have the same file open
        heard = any(news.present and news.trouble is None for _, news in done.results)
        if not last:
            missing = [
                f"{one.follower.source.said} is not there"
                for one, news in done.results
                if not news.present and news.trouble is None and one.follower.source.root == CONFIGURED
            ]
            self._notes = tuple(dict.fromkeys((*trouble, *missing)))[:MOST_NOTES]
            self._tell(heard, lines, trouble, which if done.results else (), said)
        if passed:
            more = f" and {len(passed) - 3} more" if len(passed) > 3 else ""
            reason = f"{', '.join(passed[:3])}{more} were passed over: more was written than one look reads"
            said.append(Failed(now, self.plane, reason))

    def _tell(self, heard: bool, lines: int, trouble: list[str], looked: Sequence[_Followed], said: list[Said]) -> None:
        """That the plane was there to be heard, or why not; of single files among others once."""
        now, unix = self._clock(), self._wall()
        new = [one for one in dict.fromkeys(trouble) if not heard or one not in self._grumbled]
        self._grumbled = {*trouble, *self._grumbled} if len(self._grumbled) < MOST_FILES else set(trouble)
        if new:
            what = "a log cannot be read" if heard else "no log can be read"
            said.append(Failed(now, self.plane, f"{what}: {'; '.join(new[:4])}"))
        elif not heard and looked:
            names = ", ".join(dict.fromkeys(one.follower.source.said for one in looked[:3]))
            said.append(Failed(now, self.plane, f"none of the logs is there (yet, or any more): {names}"))
        elif not heard:
            said.append(Failed(now, self.plane, "no time was left to look at the logs"))
        if heard:
            said.append(Heard(now, unix, LogSpan(self._folder, None, lines, None, None, None), self.plane))

    def _decline(self, reason: str, said: list[Said]) -> None:
        if reason != self._declined:
            self._declined = reason
            said.append(Declined(self._clock(), self.plane, reason))


def _of_all(wanted: Wanted) -> Wanted:
    return replace(wanted, source=replace(wanted.source, rank=None))


def _size(count: int) -> str:
    return (
        f"{count >> 20:,} MiB" if count >= 10 << 20 else f"{count >> 10:,} KiB" if count >= 10 << 10 else f"{count} B"
    )
