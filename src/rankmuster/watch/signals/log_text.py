"""New lines of one log -> observations, by the readers that read a bundle's logs.

What is told in several lines (a traceback, a time-out and what the watchdog says after it) may be cut by the end of a
look: from its first line on it waits for the next look. What tells of a whole file is dropped, and so are NCCL's calls:
compared by position, they say something only of logs that are whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rankmuster.collect.strip.prompts import scrub_prompts
from rankmuster.collect.strip.secrets import scrub_secrets
from rankmuster.evidence.blob import Blob, Reader, ReaderKind
from rankmuster.evidence.bundle import gather
from rankmuster.evidence.readers import all_readers
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.nccllog import NcclCall, NcclLogFile, NcclTransport, NcclTuning
from rankmuster.model.plane import Plane

OPENINGS = (
    *(b"Traceback (most recent call last)", b"hit an exception", b"Watchdog caught", b"detected by watchdog"),
    *(b"(most recent call first)", b"Stack trace of the failed collective", b"desync", b"terminate called"),
    *(b"invoked oom-killer", b"oom-kill:", b"exitcode  :", b"actor died"),
)
"""With what a message of several lines begins."""
MOST_HOLDS = 2
"""Looks for which lines wait at most: a log that fails each request would wait for ever."""
MOST_HELD = 512 << 10
"""Bytes that wait at most: the stacks of a hundred threads take half of it."""
MOST_OF_A_KIND = 64
"""Observations of one kind of one file that one look gives, the newest: a log that repeats itself says nothing new."""
LONG = 24
"""Characters from which a text may hold a secret or somebody's words: names of operations and groups are shorter."""

NOT_SAID = (LogSpan, NcclLogFile, NcclCall, NcclTransport, NcclTuning)
_BULK = (b" opCount ", b" via ")
"""In NCCL's lines of calls and channels, which come by the thousand and are not said."""


@cache
def readers(*planes: Plane) -> Mapping[Plane, tuple[Reader, ...]]:
    """The readers of lines of these planes; importing them takes a tenth of a second, once."""
    lines = [one for one in all_readers() if one.kind is ReaderKind.LINES and one.name not in _WHOLE_FILE]
    return {plane: tuple(one for one in lines if one.plane is plane) for plane in planes}


_WHOLE_FILE = ("log span",)


class LogText:
    """One file's. `path`: as a bundle would name it, which may name the rank. `planes`: whose readers are asked."""

    def __init__(self, path: str, planes: Sequence[Plane]) -> None:
        self.path = path
        self._planes = tuple(planes)
        self._held = b""
        self._held_at = 0.0
        self._holds = 0
        self._lines = 0  # that were read before, so that references count from where following began

    def take(self, data: bytes, at: float, *, final: bool = False) -> list[tuple[float, Plane, Any]]:
        """(when it was written, whose word, observation) of whole lines that came at `at` (monotonic seconds).

        To be called at every look, without data too. `final`: nothing more will come.
        """
        whole = self._held + data
        if not whole:
            return []
        written = self._held_at if self._held else at
        cut = len(whole)
        if not final and self._holds < MOST_HOLDS and len(whole) <= MOST_HELD:
            opening = _opening(data)
            if opening is not None:
                cut = 0 if self._held else opening
        self._held, self._held_at = whole[cut:], written
        self._holds = self._holds + 1 if self._held else 0
        return self._read(whole[:cut], written) if cut else []

    def _read(self, data: bytes, written: float) -> list[tuple[float, Plane, Any]]:
        before, self._lines = self._lines, self._lines + _count(data)
        data = _without_bulk(data)
        found: list[tuple[float, Plane, Any]] = []
        for plane, known in readers(*self._planes).items():
            evidence = gather([Blob(self.path, data)], known)
            for kind, observations in evidence.by_type.items():
                if kind in NOT_SAID:
                    continue
                found.extend((written, plane, _moved(one, before)) for one in observations[-MOST_OF_A_KIND:])
        return found


def _opening(data: bytes) -> int | None:
    """Where the line begins in which the first message of several lines does."""
    places = [at for at in (data.find(mark) for mark in OPENINGS) if at >= 0]
    if not places:
        return None
    first = min(places)
    return max(data.rfind(b"\n", 0, first), data.rfind(b"\r", 0, first)) + 1


def _count(data: bytes) -> int:
    """Lines, as the readers count them."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _without_bulk(data: bytes) -> bytes:
    """Lines of NCCL's that are not said, emptied: reading one takes 20 us, and their number is what must not change."""
    if not any(mark in data for mark in _BULK):
        return data
    return b"\n".join(
        b"" if b"NCCL INFO " in line and any(mark in line for mark in _BULK) else line for line in data.split(b"\n")
    )


def _moved(observation: Any, before: int) -> Any:
    """With the number of its line in all that was read, and without what nobody should read elsewhere."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(observation):
        value = getattr(observation, field.name)
        if field.name == "origin":
            changes["origin"] = dataclasses.replace(value, line=value.line + before)
        elif field.name == "line" and isinstance(value, int):
            changes["line"] = value + before
        elif isinstance(value, str) and len(value) >= LONG:
            text = value.encode("utf-8", "replace")
            scrubbed = scrub_prompts(scrub_secrets(text))
            if scrubbed != text:
                changes[field.name] = scrubbed.decode("utf-8", "replace")
    return dataclasses.replace(observation, **changes) if changes else observation
