"""The logs of one instance, followed together: which files, what is new in them, what it says.

A file that does not let itself be read in time (a dead file server) is given up until the next search, and the others
go on. Where a look brings nothing, a `LogSpan` without lines says that the plane was there to be heard.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import bundle_path
from rankmuster.collect.machine import Machine
from rankmuster.collect.target import Target
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.follow import Begin, Follower
from rankmuster.watch.signals.follow_open import Place
from rankmuster.watch.signals.log_choice import MOST_FILES, distinct
from rankmuster.watch.signals.log_patience import Patience
from rankmuster.watch.signals.log_places import Finder, Wanted
from rankmuster.watch.signals.log_reading import Followed, Reading, read_together
from rankmuster.watch.signals.log_text import LogText
from rankmuster.watch.signals.log_wrapped import Unwrapper
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Said
from rankmuster.watch.signals.turn import Turn

SEARCH_SECONDS = 120.0
"""Between two searches: a process that opens another log is rare, and a search of 16 processes takes 10 ms."""
AGAIN_SECONDS = 15.0
"""The same while there is nothing to follow: logs are made some seconds into a start."""
MOST_SEARCH_SECONDS = 6 * 3600.0
"""Between two searches in which files did not let themselves be looked at: each leaves threads behind."""

MOST_NOTES = 8


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
        self._followed: list[Followed] = []
        self._due = float("-inf")
        self._first = True
        self._declined: str | None = None
        self._grumbled: set[str] = set()
        self._notes: tuple[str, ...] = ()
        self._patience = Patience()
        self._stuck_searches = 0  # in a row
        self._anew = threading.Event()
        self._read_to: dict[tuple[int, int], Place] = {}  # how far files were read, also those that are left
        self._turn = Turn(self._shut)

    @property
    def files(self) -> tuple[str, ...]:
        """What is followed now, for people."""
        return tuple(one.said for one in self._followed)

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
        with self._turn as still_open:
            if not still_open:
                return []
            said: list[Said] = []
            now = self._clock()
            if now >= self._due or self._anew.is_set():
                self._anew.clear()
                self._search(deadline.within(deadline.remaining() / 2), said)
            self._read(self._followed, deadline, said)
            return said

    def close(self) -> None:
        """Closes the files; where a poll runs, at its end."""
        self._turn.close()

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
        chosen, complete = distinct(places.wanted, self._patience, deadline)
        kept = {id(wanted): self._of(wanted) for wanted in chosen}
        rest = [one for one in self._followed if one not in kept.values()]
        keep: list[Followed] = []
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

    def _of(self, wanted: Wanted) -> Followed | None:
        place = (str(wanted.source.root), wanted.source.path)
        rank = wanted.source.rank
        return next((one for one in self._followed if one.place == place and one.follower.source.rank == rank), None)

    def _begun(self, wanted: Wanted, taken: set[str]) -> Followed:
        begin = Begin.START if wanted.own and not self._first else Begin.END
        taken = taken | {one.text.path for one in self._followed}
        follower = Follower(wanted.source, begin, resume=self._read_to, still=wanted.still)
        return Followed(follower, LogText(self._path(wanted, taken), self._readers), Unwrapper())

    def _path(self, wanted: Wanted, taken: set[str]) -> str:
        source = wanted.source
        path = bundle_path(self._folder, source.rank, source.named)
        number = 2
        while path in taken:
            path = bundle_path(f"{self._folder}/{number}", source.rank, source.named)
            number += 1
        return path

    def _leave(self, leaving: Sequence[Followed], deadline: Deadline, said: list[Said]) -> None:
        """Their last lines, and then no more of them."""
        self._read(leaving, deadline, said, last=True)
        self._followed = [one for one in self._followed if one not in leaving]

    def _read(self, which: Sequence[Followed], deadline: Deadline, said: list[Said], *, last: bool = False) -> None:
        if not which:
            return
        new = read_together(which, self._patience, deadline, clock=self._clock, wall=self._wall, last=last)
        said += new.said
        for old in list(self._read_to)[: -4 * MOST_FILES]:
            del self._read_to[old]
        for one in new.read:
            self._read_to.update(one.follower.read_to)
        if new.stuck or new.absent:  # others may have the same file open
            self._due = min(self._due, new.at + AGAIN_SECONDS)
        if new.stuck:
            self._followed = [one for one in self._followed if one not in new.stuck]
        if not last:
            self._notes = tuple(dict.fromkeys((*new.trouble, *new.missing)))[:MOST_NOTES]
            self._tell(new, which, said)
        if new.passed:
            more = f" and {len(new.passed) - 3} more" if len(new.passed) > 3 else ""
            reason = f"{', '.join(new.passed[:3])}{more} were passed over: more was written than one look reads"
            said.append(Failed(new.at, self.plane, reason))

    def _tell(self, reading: Reading, which: Sequence[Followed], said: list[Said]) -> None:
        """That the plane was there to be heard, or why not; of single files among others once."""
        heard, trouble = reading.heard, reading.trouble
        now, unix = self._clock(), self._wall()
        new = [one for one in dict.fromkeys(trouble) if not heard or one not in self._grumbled]
        self._grumbled = {*trouble, *self._grumbled} if len(self._grumbled) < MOST_FILES else set(trouble)
        if new:
            what = "a log cannot be read" if heard else "no log can be read"
            said.append(Failed(now, self.plane, f"{what}: {'; '.join(new[:4])}"))
        elif not heard and reading.read:
            names = ", ".join(dict.fromkeys(one.said for one in which[:3]))
            said.append(Failed(now, self.plane, f"none of the logs is there (yet, or any more): {names}"))
        elif not heard:
            said.append(Failed(now, self.plane, "no time was left to look at the logs"))
        if heard:
            said.append(Heard(now, unix, LogSpan(self._folder, None, reading.lines, None, None, None), self.plane))

    def _decline(self, reason: str, said: list[Said]) -> None:
        if reason != self._declined:
            self._declined = reason
            said.append(Declined(self._clock(), self.plane, reason))
