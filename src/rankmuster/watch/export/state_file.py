"""The state file: what the watch knew at its last look, whole at any time, for `top` and for anybody's scripts.

It is written beside itself and renamed, without waiting for the disk: after a power failure there is no instance to
watch either.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.watch.export.folders import state_folders
from rankmuster.watch.export.snapshot_json import NotASnapshot, from_json, to_json
from rankmuster.watch.snapshot import Snapshot

NAME = "state.json"

MAX_BYTES = 4 << 20
"""Of the file: 8 ranks take 3 KiB, and 64 instances of 64 ranks 1 MiB."""

MODE = 0o644
"""Others may read it: it says how an instance does, and no more than its metrics page does."""

STALE_PERIODS = 3.0
"""Looks that may be missing before what stands there is no longer what is: one that comes late is common."""

STALE_LEAST = 10.0
"""... and seconds at least, however short the period: a busy node keeps a process waiting for some."""


class NotWritten(Exception):
    """The state could not be written; the message says why."""


class NoState(Exception):
    """There is no state file; the message says what to do."""


class StateRefused(Exception):
    """There is a state file, and it cannot be used; the message says why."""


class StateFile:
    """The one in `folder`, which is made where it is missing. One program writes it, from one thread."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._beside = folder / f".{NAME}.{os.getpid()}.part"

    def write(self, snapshot: Snapshot) -> None:
        """Takes 0.2 ms for 8 ranks. Raises NotWritten; the earlier file then stands."""
        data = encode(snapshot)
        try:
            self._put(data)
        except FileNotFoundError:
            try:
                self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._put(data)
            except OSError as error:
                raise self._failed(error) from error
        except OSError as error:
            raise self._failed(error) from error

    def _put(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._beside, flags, MODE)
        except FileExistsError:
            os.unlink(self._beside)  # of an earlier process with this number
            descriptor = os.open(self._beside, flags, MODE)
        try:
            try:
                os.fchmod(descriptor, MODE)  # whatever the umask
                written = os.write(descriptor, data)
                if written != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
            os.rename(self._beside, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(self._beside)
            raise

    def _failed(self, error: OSError) -> NotWritten:
        what = f"the state cannot be written to {self.path} ({error.strerror or error})"
        return NotWritten(f"{what}: `rankmuster top` shows nothing new; name another folder")

    def remove(self) -> None:
        """For the watch's own end: what nobody keeps up is better not there."""
        for path in (self._beside, self.path):
            with contextlib.suppress(OSError):
                os.unlink(path)


def encode(snapshot: Snapshot) -> bytes:
    """One line of JSON, ASCII, at most MAX_BYTES: ranks and groups are left out where they do not fit."""
    data = _dump(snapshot)
    if len(data) <= MAX_BYTES:
        return data
    bare = tuple(replace(one, ranks=(), groups=()) for one in snapshot.instances)
    note = f"ranks and groups are left out: with them the state has {len(data) >> 20} MiB"
    watcher = replace(snapshot.watcher, notes=(note, *snapshot.watcher.notes[:16]))
    return _dump(replace(snapshot, instances=bare, watcher=watcher))


def _dump(snapshot: Snapshot) -> bytes:
    return json.dumps(to_json(snapshot), allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def found_state_folder() -> Path:
    """For whoever reads and was not told where: the first of `state_folders` with a state file, else the first."""
    folders = state_folders()
    return next((one for one in folders if os.path.lexists(one / NAME)), folders[0])


def read_state(path: Path) -> Snapshot:
    """The state in this file, or in this folder's.

    Raises NoState, StateRefused. Whether it is of now, `freshness` says.
    """
    try:
        path = path / NAME if path.is_dir() else path
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StateRefused(f"{path} is no regular file, so it is no state of a watch")
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoState(
            f"there is no state file {path}: is `rankmuster watch` running on this node? If its state is elsewhere, "
            "name the folder with --state"
        ) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StateRefused(f"{path} cannot be read ({why})") from error
    if len(data) > MAX_BYTES:
        raise StateRefused(f"{path} has more than {MAX_BYTES >> 20} MiB: no watch writes so much")
    try:
        raw = json.loads(data, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        what = "is empty" if not data.strip() else f"is no JSON ({str(error)[:100]})"
        raise StateRefused(f"{path} {what}: something else has written it") from error
    try:
        return from_json(raw)
    except NotASnapshot as error:
        raise StateRefused(f"{path} is no state that this version can read: {error}") from error


@dataclass(frozen=True, slots=True)
class Freshness:
    """`age`: seconds since the look, below 0 where the clock was set back. `words`: why it is stale, empty if not."""

    age: float
    stale: bool
    words: str = ""


def freshness(snapshot: Snapshot, now: float) -> Freshness:
    """Whether what the state says still holds at `now` (unix seconds)."""
    age = now - snapshot.time
    allowed = max(STALE_PERIODS * min(max(snapshot.watcher.period, 0.0), 3600.0), STALE_LEAST)
    if age > allowed:
        look = f"the last look was {age:.0f} s ago, and one is due every {snapshot.watcher.period:g} s"
        return Freshness(age, True, f"{look}: the watch has ended or hangs, and what follows is old")
    if age < -allowed:
        look = f"the last look is said to have been {-age:.0f} s after now"
        return Freshness(age, True, f"{look}: a clock was set, and nobody can say how old what follows is")
    return Freshness(age, False)
