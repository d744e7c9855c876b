"""A file of nodes that get no new work: one a line, who, when and why behind a `#`, for whatever places work.

People write into it too. Their lines stay as they are, byte for byte; only a line of ours that nobody has edited is
taken away again. The file is replaced as a whole, so that who reads it never sees half of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from rankmuster.adapters.own_words import OURS, fit_reason, incident_objection, mark, node_objection, unmark
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, Fenced, NodeLook

MOST_BYTES = 4 << 20
"""A line has 100 bytes: forty thousand nodes."""

POLL_SECONDS = 0.02
"""Between two attempts at the lock, which others hold for the time of one write."""


class _Trouble(Exception):
    """The file cannot be read or written; the message says why."""


@dataclass(frozen=True, slots=True)
class _Line:
    """`node`: whom it names, empty for none. `incident`: where it is ours and as we wrote it."""

    raw: bytes
    node: str
    incident: str | None
    comment: str


class DenyFile:
    """A `Node` of `incident.actuators`. `unix_now`: for the time in our lines."""

    def __init__(self, path: Path, *, name: str = "deny_file", unix_now: Callable[[], float] = time.time) -> None:
        self.name = name
        self._path = path
        self._unix_now = unix_now

    def look(self, node: str, deadline: Deadline) -> NodeLook:  # noqa: ARG002  # one read
        objection = node_objection(node)
        if objection:
            return NodeLook(fenced=Fenced.UNKNOWN, note=objection)
        try:
            found = _named(self._read(), node)
        except _Trouble as error:
            return NodeLook(fenced=Fenced.UNKNOWN, note=str(error))
        if not found:
            return NodeLook(fenced=Fenced.NO, note=f"{self._path} does not name {node}")
        ours = next((one for one in found if one.incident is not None), None)
        line = ours or found[0]
        return NodeLook(
            fenced=Fenced.OTHERS if ours is None else Fenced.OURS,
            incident=line.incident,
            reason=line.comment,
            note=f"{self._path} names {node}{f' in {len(found)} lines' if len(found) > 1 else ''}",
        )

    def fence(self, node: str, incident: str, reason: str, deadline: Deadline) -> Answer:
        """Adds a line, unless the node is named already."""
        objection = node_objection(node) or incident_objection(incident)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was written: {objection}")
        try:
            with self._locked(deadline, create=True):
                lines = self._read()
                found = _named(lines, node)
                if any(one.incident == incident for one in found):
                    return Answer(ending=Ending.DONE, note=f"{self._path} names {node} for this incident already")
                if found:
                    note = f"{self._path} names {node} already ({found[0].comment or 'no reason given'}); that stays"
                    return Answer(ending=Ending.DONE, note=note, data={"others": True})
                data = b"".join(one.raw for one in lines)
                end = b"" if not data or data.endswith(b"\n") else b"\n"
                self._replace(data + end + self._line(node, incident, reason))
        except _Trouble as error:
            return Answer(ending=Ending.FAILED, note=str(error))
        return Answer(ending=Ending.DONE, note=f"{self._path} names {node} now")

    def lift(self, node: str, incident: str, deadline: Deadline) -> Answer:
        """Takes our own line of this incident away."""
        objection = node_objection(node) or incident_objection(incident)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was written: {objection}")
        try:
            with self._locked(deadline, create=False):
                lines = self._read()
                found = _named(lines, node)
                ours = [one for one in found if one.incident == incident]
                if not found:
                    return Answer(ending=Ending.DONE, note=f"{self._path} does not name {node}; nothing to lift")
                if not ours:
                    note = f"the line of {node} in {self._path} is of others ({found[0].comment}) and stays"
                    return Answer(ending=Ending.REFUSED, note=note, data={"others": True})
                self._replace(b"".join(one.raw for one in lines if one not in ours))
        except _Trouble as error:
            return Answer(ending=Ending.FAILED, note=str(error))
        return Answer(ending=Ending.DONE, note=f"our line of {node} is gone from {self._path}")

    def would(self, verb: str, node: str, incident: str, reason: str = "") -> tuple[str, ...]:
        if verb == "lift":
            return (f"remove from {self._path} the line of {node} that incident {incident} wrote",)
        line = self._line(node, incident, reason).decode().rstrip()
        return (f"add to {self._path} the line: {line}",)

    # -- the file ------------------------------------------------------------------------------------------------------

    def _line(self, node: str, incident: str, reason: str) -> bytes:
        at = datetime.fromtimestamp(self._unix_now(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{node}  # {mark(f'{OURS} {incident} {at} {fit_reason(reason)}')}\n".encode()

    def _read(self) -> list[_Line]:
        """Raises _Trouble; no file has no lines."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            if not self._path.parent.is_dir():
                raise _Trouble(f"{self._path}: there is no folder {self._path.parent}") from None
            return []
        except OSError as error:
            raise self._trouble("read", error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _Trouble(f"{self._path} is no regular file")
            data = b""
            while len(data) <= MOST_BYTES and (more := os.read(descriptor, MOST_BYTES)):
                data += more
        except OSError as error:
            raise self._trouble("read", error) from error
        finally:
            os.close(descriptor)
        if len(data) > MOST_BYTES:
            raise _Trouble(f"{self._path} has more than {MOST_BYTES >> 20} MiB, which no list of nodes has")
        return [_parsed(raw) for raw in data.splitlines(keepends=True)]

    @contextmanager
    def _locked(self, deadline: Deadline, *, create: bool) -> Iterator[None]:
        """Holds the lock of the file that stands there now: one that was replaced meanwhile is nobody's any more."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
        while True:
            try:
                descriptor = os.open(self._path, flags, 0o644)
            except FileNotFoundError:
                if create or not self._path.parent.is_dir():
                    raise _Trouble(f"{self._path}: there is no folder {self._path.parent}") from None
                yield
                return
            except OSError as error:
                raise self._trouble("opened", error) from error
            try:
                if _try_lock(descriptor) and self._is(descriptor):
                    yield
                    return
            finally:
                os.close(descriptor)
            if deadline.remaining() <= POLL_SECONDS:
                raise _Trouble(f"somebody else holds the lock of {self._path}, and no time is left")
            time.sleep(POLL_SECONDS)

    def _is(self, descriptor: int) -> bool:
        try:
            there, ours = os.lstat(self._path), os.fstat(descriptor)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _replace(self, data: bytes) -> None:
        """On the disk before it returns. Raises _Trouble; then the file is as it was."""
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        try:
            if not os.access(self._path, os.W_OK):
                raise PermissionError(13, "Permission denied")
            before = os.lstat(self._path)
            beside.unlink(missing_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                with contextlib.suppress(OSError):  # somebody else's file stays theirs where we may give it away
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(beside, self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise self._trouble("written", error) from error

    def _trouble(self, what: str, error: OSError) -> _Trouble:
        if self._path.is_symlink():
            return _Trouble(f"{self._path} is a symbolic link, which would be replaced; give the file itself")
        return _Trouble(f"{self._path} cannot be {what} ({error.strerror or error})")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _Trouble(f"the file cannot be locked ({error.strerror or error})") from error
    return True


def _parsed(raw: bytes) -> _Line:
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    before, _, comment = text.partition("#")
    words = before.replace(",", " ").split()
    said = (unmark(comment.strip()) or "").split(" ", 3)
    ours = len(words) == 1 and len(said) == 4 and said[0] == OURS
    return _Line(raw, " ".join(words), said[1] if ours else None, comment.strip())


def _named(lines: list[_Line], node: str) -> list[_Line]:
    return [one for one in lines if node in one.node.split()]
