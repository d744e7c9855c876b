"""The one place of the evidence layer that opens files: a folder or a single file -> blobs.

No link is followed: what it points at inside the folder is read under its own name, what lies outside is not part of
the evidence. Nothing but regular files is opened (a FIFO would wait for ever), and large ones are read in part.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rankmuster.evidence import plain_bytes
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.packed_stream import packing_of
from rankmuster.evidence.tar_members import BLOCK, looks_like_tar
from rankmuster.evidence.unpack import printable
from rankmuster.model.problem import Problem, ProblemKind

MAX_FILE_BYTES = 128 * 1024 * 1024
"""Read of one file: all of a dump (0.3 KiB an entry, some KiB with stacks, 80 MiB for 2000 list all-to-alls of 1024
ranks). Of logs less is read, see plain_bytes.MAX_LOG_BYTES."""
MAX_FILES = 100_000
"""Files of one load: a few for each of ten thousand ranks; a whole disk given by mistake has more."""
MANIFEST = "manifest.json"
"""Read first, so that its checksums are known before the files that they belong to."""

_PIECE = 1024 * 1024
_HEAD = 65_536
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class EvidenceError(Exception):
    """There is nothing to diagnose; the message says what was tried and what to do."""


class EvidenceMissing(EvidenceError):
    """The path does not exist."""


class EvidenceEmpty(EvidenceError):
    """The path holds no file with content."""


class EvidenceUnreadable(EvidenceError):
    """The path is a single file, and no reader can make anything of it."""


class EvidenceForbidden(EvidenceError):
    """Nothing under the path may be read."""


def walk(root: Path) -> Iterator[Blob | Problem]:
    """Every regular file under `root` (or `root` itself), sorted by path, the manifest first; one in memory at a time.

    Raises EvidenceMissing, EvidenceEmpty or EvidenceForbidden before the first blob.
    """
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise EvidenceMissing(f"{root}: no such file or folder; give a bundle, or any folder of evidence") from error
    except PermissionError as error:
        raise EvidenceForbidden(f"{root}: permission denied; run as a user who may read it") from error
    except (OSError, ValueError) as error:
        raise EvidenceMissing(
            f"{root}: cannot be looked at ({error}); give a bundle or a folder of evidence"
        ) from error
    if stat.S_ISDIR(mode):
        return _folder(root)
    if not stat.S_ISREG(mode):
        raise EvidenceEmpty(f"{root}: {_kind(mode)}, neither a file nor a folder; save what it says to a file first")
    return _single(root)


def _single(path: Path) -> Iterator[Blob | Problem]:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        if path.stat().st_size == 0 and not _content(path, 1, follow=True)[0]:
            raise EvidenceEmpty(f"{path}: the file is empty; collect the evidence again")
    except PermissionError as error:
        raise EvidenceForbidden(f"{path}: permission denied; run as a user who may read it") from error
    except OSError as error:
        raise EvidenceForbidden(f"{path}: cannot be read ({error.strerror}); copy it to a sound disk first") from error
    return _read(path, printable(path.name), follow=True)


def _folder(root: Path) -> Iterator[Blob | Problem]:
    files, problems, denied = _listing(root)
    if not files:
        if denied:
            raise EvidenceForbidden(f"{root}: permission denied everywhere in it; run as a user who may read it")
        seen = f" (only {problems[0].source}: {problems[0].message})" if problems else ""
        raise EvidenceEmpty(f"{root}: there is no file in this folder{seen}; collect the evidence again")
    if all(_size(path) == 0 for path in files):
        raise EvidenceEmpty(f"{root}: each of the {len(files)} file(s) in it is empty; collect the evidence again")
    if not any(map(_readable, files)):
        raise EvidenceForbidden(f"{root}: none of the {len(files)} file(s) in it may be read; run as a user who may")
    return _blobs(root, files, problems)


def _readable(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW))
    except OSError:
        return False
    return True


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _blobs(root: Path, files: list[Path], problems: list[Problem]) -> Iterator[Blob | Problem]:
    yield from problems
    for path in files:
        yield from _read(path, _relative(path, root), follow=False)


def _relative(path: Path, root: Path) -> str:
    return printable(path.relative_to(root).as_posix())


def _listing(root: Path) -> tuple[list[Path], list[Problem], bool]:
    """Regular files in order, what was passed over and why, and whether a folder could not be entered."""
    files: list[Path] = []
    problems: list[Problem] = []
    denied: list[OSError] = []
    outside: list[str] = []
    for base, folders, names in os.walk(root, onerror=denied.append, followlinks=False):
        folders.sort()
        linked = [name for name in folders if os.path.islink(os.path.join(base, name))]
        for name in (*sorted(names), *linked):
            path = Path(base, name)
            try:
                mode = path.lstat().st_mode
            except OSError:
                continue  # gone since the listing: a live folder
            if stat.S_ISREG(mode):
                files.append(path)
            elif stat.S_ISLNK(mode):
                if not _inside(path, root):
                    outside.append(_relative(path, root))
            else:
                problems.append(
                    Problem(ProblemKind.REFUSED, _relative(path, root), f"{_kind(mode)}; it was not opened")
                )
        if len(files) > MAX_FILES:
            message = f"more than {MAX_FILES} files; only the first were read. Is this the folder of one incident?"
            problems.append(Problem(ProblemKind.REFUSED, ".", message))
            del files[MAX_FILES:]
            break
    for link in sorted(outside):
        message = "a link that leads out of the folder or nowhere; copy what it points at into the folder"
        problems.append(Problem(ProblemKind.REFUSED, link, message))
    for error in denied:
        place = _relative(Path(error.filename), root) if error.filename else "."
        problems.append(Problem(ProblemKind.REFUSED, place, f"the folder cannot be entered ({error.strerror})"))
    files.sort(key=lambda path: (path.name != MANIFEST, path.relative_to(root).as_posix()))
    return files, problems, bool(denied)


def _inside(link: Path, root: Path) -> bool:
    """Whether a link leads to something that the walk reads under its own name."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # dangling, or a loop (RuntimeError before Python 3.13)
        return False
    return target.is_relative_to(root.resolve())


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "a special file")


def _read(path: Path, name: str, *, follow: bool) -> Iterator[Blob | Problem]:
    try:
        data, size, error = _content(path, MAX_FILE_BYTES, follow=follow)
    except OSError as refusal:
        yield Problem(ProblemKind.REFUSED, name, f"cannot be opened ({refusal.strerror}); the other files were read")
        return
    if error is not None:
        yield Problem(ProblemKind.DAMAGED, name, f"reading failed after {len(data)} bytes ({error}); those were used")
    elif size > len(data):
        beginning = f"{size >> 20} MiB; only the first {len(data) >> 20} MiB were read"
        message = plain_bytes.left_out(size) if _two_ended(data, size) else beginning
        yield Problem(ProblemKind.DAMAGED, name, message)
    yield Blob(name, data)


def _two_ended(head: bytes, size: int) -> bool:
    """Whether of a file that begins so the two ends are read: of a large log the end is the part that matters."""
    packed = packing_of(head) is not None or looks_like_tar(head[:BLOCK])
    return size > plain_bytes.MAX_LOG_BYTES and not packed and plain_bytes.is_log(head)


def _content(path: Path, limit: int, *, follow: bool) -> tuple[bytes, int, str | None]:
    """(bytes, size behind a hole at its start, error of a read that failed half-way). Raises OSError when it cannot
    be opened."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
        descriptor = file.fileno()
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file any more")
        start = _first_data(descriptor) if status.st_size > limit or status.st_size > plain_bytes.MAX_LOG_BYTES else 0
        size = status.st_size - start
        half = plain_bytes.MAX_LOG_BYTES // 2
        if status.st_size <= plain_bytes.MAX_LOG_BYTES:
            data, error = _take(descriptor, limit)
            return data, max(size, len(data)), error
        head, error = _take(descriptor, min(limit, _HEAD, half))
        if error is not None:
            return head, size, error
        if not _two_ended(head, size):
            data, error = _take(descriptor, limit - len(head), head)
            return data, max(size, len(data)), error
        head, error = _take(descriptor, half - len(head), head)
        if error is not None:
            return head, size, error
        os.lseek(descriptor, -half, os.SEEK_END)
        tail, error = _take(descriptor, half)
    return plain_bytes.two_ends(head, tail), size, error


def _first_data(descriptor: int) -> int:
    """Where the bytes begin: a log that was truncated under its writer starts with a hole of gigabytes."""
    try:
        start = os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:  # nothing but a hole, or a file system that knows none
        start = 0
    return os.lseek(descriptor, start, os.SEEK_SET)


def _take(descriptor: int, count: int, begun: bytes = b"") -> tuple[bytes, str | None]:
    pieces = [begun] if begun else []  # one piece alone is not copied
    while count > 0:
        try:
            piece = os.read(descriptor, min(count, _PIECE))
        except OSError as error:
            return b"".join(pieces), error.strerror
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces), None
