"""Which NCCL an instance runs, found without asking it anything: what it has mapped, and what lies beside that.

The file that is mapped speaks first: its text holds the release that NCCL prints at start. Beside it stands what the
package manager installed, which may have been replaced under the running process. Where the two differ, both are
possible and the policy assumes the worse. Variables of an image (`NCCL_VERSION`) say what somebody built once: a hint.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.ras.maps import Kind, Mapped, mapped_libraries
from rankmuster.collect.ras.release import Release, Span, release_in
from rankmuster.collect.target import ProcessOfInstance, Target

MAX_PROCESSES = 16
"""Whose maps are read; more ranks than that on one node run the same installation."""

LIBRARY_SECONDS = 2.0
"""For the text of one NCCL library: the release stands within its first megabytes (2 of 400 in 2.28.9)."""

TORCH_SECONDS = 3.0
"""For torch's library, of 1 to 2 GB, where NCCL is linked into it."""

MAX_ENTRIES = 20_000
"""Entries of a site-packages folder that are looked through."""

_PIECE = 4 << 20
_OVERLAP = 64
# The second follows `NCCL version ` in the RAS report's own format string.
_TEXT = re.compile(rb"NCCL version (\d{1,2}\.\d{1,3}\.\d{1,3})[^\0\n]{0,8}?(?:\+cuda| compiled with CUDA)")
_DIST_INFO = re.compile(r"nvidia_nccl_cu\d+-(\d[\w.]*)\.dist-info")
_FILE_NAME = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")


class SourceKind(str, Enum):
    """Where a release was read: in the mapped file, in its name, from the package beside it."""

    TEXT = "text of the mapped library"
    FILE_NAME = "name of the mapped library"
    PACKAGE = "package beside the mapped library"


@dataclass(frozen=True, slots=True)
class VersionSource:
    """`where`: the file, as the process sees it."""

    kind: SourceKind
    where: str
    release: Release


@dataclass(frozen=True, slots=True)
class NcclVersion:
    """`sources`: each place that names a release. `mapped`: whether NCCL's library is mapped; None: not to be seen.
    `hint`: what the environment says of the image, believed by nobody. `notes`: what could not be read, and why."""

    sources: tuple[VersionSource, ...] = ()
    mapped: bool | None = None
    hint: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases that were named, each once, the oldest first."""
        return tuple(sorted({source.release for source in self.sources}))

    @property
    def candidates(self) -> tuple[Span, ...]:
        """The same as the policy takes them; empty: unknown."""
        return tuple(map(Span.exactly, self.releases))

    @property
    def exact(self) -> Release | None:
        """The release, where all sources agree."""
        return self.releases[0] if len(self.releases) == 1 else None

    def __str__(self) -> str:
        if not self.sources:
            return "unknown"
        return ", ".join(f"{source.release} ({source.kind.value}, {source.where})" for source in self.sources)


def read_version(target: Target, machine: Machine, deadline: Deadline) -> NcclVersion:
    """Looks at the instance's workers (all its processes where it has none). Never raises."""
    sources: dict[VersionSource, None] = {}
    notes: list[str] = []
    looked = mapped = False
    seen: set[tuple[str, str, bool]] = set()
    for process in (target.workers or target.processes)[:MAX_PROCESSES]:
        if deadline.passed:
            notes.append("no time was left to look at every process")
            break
        try:
            libraries = mapped_libraries(machine.proc, process.pid, deadline)
        except OSError as error:
            notes.append(f"the maps of process {process.pid} cannot be read ({error.strerror})")
            continue
        looked = True
        # torch's library holds NCCL only where NCCL's own is not mapped.
        own = [library for library in libraries if library.kind is Kind.NCCL]
        for library in own or libraries:
            key = (library.file, library.path, library.deleted)
            if key not in seen:
                seen.add(key)
                found, trouble = _of_library(process, library, machine, deadline)
                sources.update(dict.fromkeys(found))
                notes += trouble
                mapped = mapped or bool(found)
            mapped = mapped or library.kind is Kind.NCCL
    hint = target.setting("NCCL_VERSION", "NV_LIBNCCL_PACKAGE_VERSION")
    known = True if mapped else (False if looked and not notes else None)
    return NcclVersion(tuple(sources), known, hint[:60] if hint else None, tuple(dict.fromkeys(notes)))


def _of_library(
    process: ProcessOfInstance, library: Mapped, machine: Machine, deadline: Deadline
) -> tuple[list[VersionSource], list[str]]:
    found: list[VersionSource] = []
    notes: list[str] = []
    if library.kind is Kind.NCCL:
        named = _FILE_NAME.search(library.path)
        release = release_in(named.group(1)) if named else None
        if release is not None:
            found.append(VersionSource(SourceKind.FILE_NAME, library.path, release))
        found += _packages(process, library)
    seconds = LIBRARY_SECONDS if library.kind is Kind.NCCL else TORCH_SECONDS
    # Of the mapping itself first: it is that file, whatever lies under its name by now. That needs privileges.
    files = [machine.proc / str(process.pid) / "map_files" / library.region]
    files += [] if library.deleted else [process.outside(library.path)]
    for number, path in enumerate(files):
        try:
            release = _release_in_file(path, deadline.within(seconds), follow=number == 0)
        except OSError as error:
            if path is files[-1]:
                notes.append(f"the text of {library.path} cannot be read ({error.strerror})")
            continue
        if release is not None:
            found.append(VersionSource(SourceKind.TEXT, library.path, release))
        elif library.kind is Kind.NCCL:
            notes.append(f"no release was found in the text of {library.path} by its deadline")
        break
    return found, notes


def _packages(process: ProcessOfInstance, library: Mapped) -> Iterator[VersionSource]:
    """`.../site-packages/nvidia/nccl/lib/libnccl.so.2` -> `.../site-packages/nvidia_nccl_cu12-2.28.9.dist-info`."""
    inner = Path(library.path)
    if inner.parts[-4:-1] != ("nvidia", "nccl", "lib"):
        return
    site = inner.parents[3]
    try:
        with os.scandir(process.outside(str(site))) as entries:
            for _, entry in zip(range(MAX_ENTRIES), entries, strict=False):
                match = _DIST_INFO.fullmatch(entry.name)
                release = release_in(match.group(1)) if match else None
                if release is not None:
                    yield VersionSource(SourceKind.PACKAGE, str(site / entry.name), release)
    except OSError:  # the text decides then
        return


def _release_in_file(path: Path, deadline: Deadline, *, follow: bool) -> Release | None:
    """The release that the file's text names first. Raises OSError when it cannot be read.

    Read in pieces rather than mapped: touching a mapping of a file that is cut meanwhile kills the program.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no regular file")
        tail = b""
        while not deadline.passed:
            piece = os.read(descriptor, _PIECE)
            if not piece:
                break
            match = _TEXT.search(tail + piece)
            if match is not None:
                return release_in(match.group(1).decode())
            tail = piece[-_OVERLAP:]
    finally:
        os.close(descriptor)
    return None
