"""One look at several logs together, within one deadline: what their new lines say, and which could not be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.watch.signals.follow import MOST_BYTES, Follower, News
from rankmuster.watch.signals.log_patience import SECONDS, Patience
from rankmuster.watch.signals.log_text import LogText
from rankmuster.watch.signals.log_wrapped import Unwrapper
from rankmuster.watch.signals.signal import Heard

MOST_TOTAL = 2 << 20
"""Bytes of all files at one look, 70 ms of reading where no line matters; more is passed over, and said."""
LEAST_EACH = 64 << 10
"""Bytes of one file at one look however many there are: some 500 lines."""
CONFIGURED = Path("/")
"""The root of files that the configuration names: they are asked for, and others are only guessed at."""


@dataclass(eq=False)
class Followed:
    """One log, and what reads its lines."""

    follower: Follower
    text: LogText
    unwrap: Unwrapper

    @property
    def place(self) -> tuple[str, str]:
        """(root, path) of the file."""
        return str(self.follower.source.root), self.follower.source.path

    @property
    def said(self) -> str:
        """Its name for people."""
        return self.follower.source.said


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look brought, at `at` (monotonic seconds).

    `read`: the logs that let themselves be read. `lines`: how many whole ones were new. `heard`: whether one of them is
    there and has no trouble. `absent`: whether one of them is not there. `missing`: of the configuration's, which are
    not, a phrase each. `trouble`: why logs were not read, a phrase each. `passed`: how much of which was passed over
    for its size. `stuck`: given up, since they do not come back.
    """

    at: float
    said: tuple[Heard, ...]
    read: tuple[Followed, ...]
    lines: int
    heard: bool
    absent: bool
    missing: tuple[str, ...]
    trouble: tuple[str, ...]
    passed: tuple[str, ...]
    stuck: tuple[Followed, ...]


def read_together(
    which: Sequence[Followed],
    patience: Patience,
    deadline: Deadline,
    *,
    clock: Callable[[], float],
    wall: Callable[[], float],
    last: bool = False,
) -> Reading:
    """Reads what is new in at least one log. `last`: also lines without end, and closes them.

    `clock`, `wall`: monotonic and unix seconds.
    """
    most = min(MOST_BYTES, max(MOST_TOTAL // len(which), LEAST_EACH))

    def look(one: Followed) -> News:
        return one.follower.last(most) if last else one.follower.poll(most)

    done = patience.each(list(which), look, deadline)
    now, unix = clock(), wall()
    said: list[Heard] = []
    trouble = [news.trouble for _, news in done.results if news.trouble is not None]
    passed: list[str] = []
    lines = 0
    for one, news in done.results:
        skipped = news.skipped
        data = one.unwrap.take(news.data) if news.data else b""
        if deadline.passed:
            skipped, data = skipped + len(data), b""
        if last:
            one.follower.close()
        if skipped:
            passed.append(f"{_size(skipped)} of {one.said}")
        lines += data.count(b"\n")
        for at, plane, observation in one.text.take(data, now, final=last):
            said.append(Heard(at, unix - (now - at), observation, plane))
    for one in done.stuck:
        one.follower.abandon()
        trouble.append(f"{one.said} did not let itself be read within {SECONDS:g} s")
    for one in done.skipped if last else ():
        one.follower.close()
    missing = (one for one, news in done.results if not news.present and news.trouble is None)
    return Reading(
        at=now,
        said=tuple(said),
        read=tuple(one for one, _ in done.results),
        lines=lines,
        heard=any(news.present and news.trouble is None for _, news in done.results),
        absent=not all(news.present for _, news in done.results),
        missing=tuple(f"{one.said} is not there" for one in missing if one.follower.source.root == CONFIGURED),
        trouble=tuple(trouble),
        passed=tuple(passed),
        stuck=done.stuck,
    )


def _size(count: int) -> str:
    return (
        f"{count >> 20:,} MiB" if count >= 10 << 20 else f"{count >> 10:,} KiB" if count >= 10 << 10 else f"{count} B"
    )
