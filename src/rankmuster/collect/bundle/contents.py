"""The files of a bundle, folder or archive, pushed piece by piece to whoever wants them: never whole in memory, never
unpacked to disk here, and never more than a limit."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from rankmuster.evidence.packed_stream import ZSTD
from rankmuster.evidence.tar_members import BLOCK, MemberKind, TarDamage, looks_like_tar, members

MAX_BYTES = 8 << 30
"""Of one bundle, unpacked: four times what a collection keeps by default."""
MAX_ENTRIES = 200_000
"""Files, links and devices of one bundle: twice what a manifest may list."""

_PIECE = 1 << 20
_ZSTD_INPUT = 1024
"""Read of a zstd stream at a time: a block needs 4 bytes and makes 128 KiB."""
_ZSTD_WINDOW = 128 << 20


class BundleUnreadable(Exception):
    """The bundle cannot be looked at; the message says what was tried and what to do."""


class TooMuch(Exception):
    """The bundle holds more than any bundle may: it was not read further."""


class Taker(Protocol):
    """Where contents go. `begin` is told of each file and returns what takes its bytes (None: nobody wants them);
    `end` says that it is complete. `refuse` is told of what is no file, or what is wrong with the whole."""

    def begin(self, name: str, size: int) -> Callable[[bytes], object] | None: ...

    def end(self, name: str, size: int) -> None: ...

    def refuse(self, name: str, reason: str) -> None: ...


def scan(path: Path, taker: Taker) -> None:
    """Pushes every file of the bundle to `taker`.

    Raises BundleUnreadable where nothing can be read, TooMuch at the limits (also when the taker raises it).
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BundleUnreadable(f"{path}: no such file or folder; give the bundle that `collect` wrote") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BundleUnreadable(f"{path}: cannot be looked at ({reason}); run as a user who may read it") from error
    if stat.S_ISDIR(mode):
        _folder(path, taker)
    elif stat.S_ISREG(mode):
        _archive(path, taker)
    else:
        raise BundleUnreadable(f"{path}: neither a folder nor a file; give the bundle that `collect` wrote")


def _folder(root: Path, taker: Taker) -> None:
    entries = 0
    total = 0
    failed: list[OSError] = []
    for base, folders, names in os.walk(root, onerror=failed.append, followlinks=False):
        folders.sort()
        for name in sorted((*names, *(folder for folder in folders if os.path.islink(os.path.join(base, folder))))):
            entries += 1
            if entries > MAX_ENTRIES:
                raise TooMuch(f"more than {MAX_ENTRIES} files")
            file = Path(base, name)
            total += _file(file, file.relative_to(root).as_posix(), taker)
            if total > MAX_BYTES:
                raise TooMuch(f"more than {MAX_BYTES >> 30} GiB")
    if failed and not entries:
        raise BundleUnreadable(f"{root}: {failed[0].strerror}; run as a user who may read it")
    for error in failed:
        taker.refuse(
            os.path.relpath(error.filename, root) if error.filename else ".", f"cannot be entered: {error.strerror}"
        )


def _file(path: Path, name: str, taker: Taker) -> int:
    """Pushes one file; returns its bytes."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            taker.refuse(name, "it is no file but a link, a device, a pipe or a socket")
            return 0
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        taker.refuse(name, f"it cannot be opened: {error.strerror}")
        return 0
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            taker.refuse(name, "it is no file any more")
            return 0
        take = taker.begin(name, status.st_size)
        left = status.st_size
        try:
            while take is not None and left > 0 and (piece := file.read(min(_PIECE, left))):
                take(piece)
                left -= len(piece)
        except OSError as error:
            taker.refuse(name, f"reading it failed: {error.strerror}")
            return 0
        taker.end(name, status.st_size)
        return status.st_size


def _archive(path: Path, taker: Taker) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BundleUnreadable(f"{path}: cannot be opened ({error.strerror}); run as a user who may read it") from error
    with os.fdopen(descriptor, "rb") as file:
        stream = _Unpacked(file)
        try:
            if not looks_like_tar(stream.peek(BLOCK)):
                what = f"; it cannot be unpacked ({stream.damage})" if stream.damage else ""
                raise BundleUnreadable(f"{path}: no archive of a bundle (tar, packed with zstd){what}")
            _members(stream, taker)
        except OSError as error:
            raise BundleUnreadable(f"{path}: reading failed ({error.strerror}); copy it to a sound disk") from error


def _members(stream: _Unpacked, taker: Taker) -> None:
    pushing: tuple[str, int] | None = None
    entries = 0
    try:
        for member in members(stream.read, 0):
            if pushing is not None:
                taker.end(*pushing)
                pushing = None
            entries += 1
            if entries > MAX_ENTRIES:
                raise TooMuch(f"more than {MAX_ENTRIES} members")
            if member.kind is not MemberKind.FILE:
                taker.refuse(member.name, f"it is no file but a {member.kind.value}")
                continue
            stream.divert(taker.begin(member.name, member.size), member.size)
            pushing = (member.name, member.size)
        if pushing is not None:
            taker.end(*pushing)
        while rest := stream.read(_PIECE):
            if rest.strip(b"\0"):
                taker.refuse("", "something follows the end of the archive")
                break
    except TarDamage as error:
        taker.refuse("", f"the archive is damaged: {stream.damage or error}")
        return
    if stream.damage:
        taker.refuse("", f"the archive is damaged: {stream.damage}")


@dataclass
class _Unpacked:
    """Unpacked bytes of an archive, of which a diversion gets its share while the reader passes over them."""

    file: BinaryIO
    damage: str | None = None

    def __post_init__(self) -> None:
        self._buffer = bytearray()
        self._total = 0
        self._take: Callable[[bytes], object] | None = None
        self._left = 0
        head = self.file.peek(4)[:4] if hasattr(self.file, "peek") else b""
        self._pieces = _zstd(self.file) if head.startswith(ZSTD) else iter(lambda: self.file.read(_PIECE), b"")

    def divert(self, take: Callable[[bytes], object] | None, count: int) -> None:
        """The next `count` bytes that are read go to `take`, too."""
        self._take, self._left = take, count

    def read(self, count: int) -> bytes:
        """`count` bytes, fewer only at the end."""
        self._fill(count)
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._total += len(taken)
        if self._total > MAX_BYTES:
            raise TooMuch(f"it unpacks to more than {MAX_BYTES >> 30} GiB")
        if self._left and self._take is not None:
            self._take(taken[: self._left])
        self._left -= min(self._left, len(taken))
        return taken

    def peek(self, count: int) -> bytes:
        """As `read`, without taking them."""
        self._fill(count)
        return bytes(self._buffer[:count])

    def _fill(self, count: int) -> None:
        while len(self._buffer) < count and self.damage is None:
            try:
                piece = next(self._pieces, b"")
            except zstandard.ZstdError as error:
                self.damage = f"the packed data is broken ({error})"
                return
            except EOFError:
                self.damage = "the packed data ends early"
                return
            if not piece:
                return
            self._buffer += piece


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    """Every frame in turn; raises EOFError when the last one is cut."""
    pending = file.read(_ZSTD_INPUT)
    while pending:
        unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        while not unpacker.eof:
            if not pending:
                raise EOFError
            piece = unpacker.decompress(pending)
            pending = unpacker.unused_data if unpacker.eof else file.read(_ZSTD_INPUT)
            yield from (piece[at : at + _PIECE] for at in range(0, len(piece), _PIECE))
        pending = pending or file.read(_ZSTD_INPUT)
