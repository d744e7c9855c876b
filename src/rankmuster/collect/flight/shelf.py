"""What lies where dump files are written: taken as soon as it is whole, once for each version of a file.

A file is overwritten by the next dump and by the next job, so the older version is taken before a new one is asked for.
A file of an earlier run is named and left: under a rank's name in the bundle it would be taken for this run's.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.collect.bounded import all_within
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.files_below import names_in
from rankmuster.collect.flight.dump_file import MAX_CHECKED_BYTES, DumpFile, Shape, read_dump, version_of
from rankmuster.collect.flight.recorders import Recorder
from rankmuster.collect.left_behind import CLOCK_SLACK, began
from rankmuster.collect.sink import Sink

SIBLING_SLACK = 60.0
"""The same for ranks of other nodes, whose starts are only known to be about this node's."""

GROWING_SECONDS = 5.0
"""A file that ends early and was written to less than so long ago may still grow; torch writes in one go."""

FOLDER_SECONDS = 2.0
"""For listing a folder; one that does not answer is on a file server that is gone, and is left alone."""

MAX_SIBLINGS = 2048
"""Dumps of ranks that are not of this node (a shared file system holds those of all)."""
MAX_SIBLING_BYTES = 256 << 20
"""Of those together; 1024 ranks with 2,000 entries and stacks have 512 MB."""

_NOBODY = 65_534  # who owns root's files on an NFS server that squashes root


@dataclass(frozen=True, slots=True)
class Taken:
    """One dump that is in the bundle. `own`: of a process of this node. Times in unix seconds."""

    rank: int | None
    path: str
    written: float
    own: bool
    cut: bool


class Shelf:
    """Remembers which versions it has seen; for one thread."""

    def __init__(
        self,
        scene: Scene,
        sink: Sink,
        recorders: tuple[Recorder, ...],
        deadline: Deadline,
        heirs: tuple[Recorder, ...] = (),
    ) -> None:
        self._scene, self._sink, self._deadline = scene, sink, deadline
        self._recorders = recorders
        self._heirs = heirs
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}  # identity -> version
        self._passed: dict[tuple[Path, str, int], tuple[int, int]] = {}  # versions that need no second reading
        self._growing: dict[tuple[Path, str, int], DumpFile] = {}
        self._dead: set[tuple[Path, str]] = set()
        self._last: dict[int, tuple[float, tuple[int, int]]] = {}  # process -> its newest dump's time and version
        self.taken: list[Taken] = []
        self.stale: dict[str, float] = {}  # path -> unix seconds of the last writing
        self.troubles: dict[str, str] = {}  # path -> clause
        self.denied = False

    def probe(self) -> None:
        """Leaves out folders that do not answer: everything that touches them would wait for ever."""
        folders: dict[tuple[Path, str], None] = {}
        for recorder in self._known:
            for path in (*recorder.dumps, *recorder.prefixes, *([recorder.pipe] if recorder.pipe else [])):
                folders[(recorder.process.root, _folder(path))] = None
        keys = list(folders)
        answers = all_within(self._deadline.within(FOLDER_SECONDS), [partial(names_in, *key) for key in keys])
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, OSError):
                self._dead.add(key)
                self.troubles[key[1]] = f"the folder did not answer within {FOLDER_SECONDS:.0f} s"
            elif isinstance(answer, OSError) and answer.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.denied |= isinstance(answer, PermissionError)
                self.troubles[key[1]] = f"the folder cannot be listed ({answer.strerror})"

    @property
    def _known(self) -> tuple[Recorder, ...]:
        """Who knows where dumps are: this node's recorders, and who has their settings once they have ended."""
        return (*self._recorders, *self._heirs)

    def dead(self, root: Path, path: str) -> bool:
        """Whether the path lies in a folder that did not answer."""
        return (root, _folder(path)) in self._dead

    def version(self, recorder: Recorder) -> tuple[int, int] | None:
        """The version of the newest dump that was taken of this process."""
        found = self._last.get(recorder.process.pid)
        return found[1] if found else None

    def written(self, recorder: Recorder) -> float | None:
        """When that was written, unix seconds."""
        found = self._last.get(recorder.process.pid)
        return found[0] if found else None

    @property
    def growing(self) -> bool:
        """Whether a file is being written at this moment."""
        return bool(self._growing)

    def own(self, *, final: bool = False) -> None:
        """Takes what is new of this node's ranks. `final`: also what is not whole, since nobody will look again."""
        for recorder in self._recorders:
            root = self._root_of(recorder)
            for path in recorder.dumps:
                self._look(root, path, recorder, recorder.rank, final=final)

    def siblings(self, world_size: int | None) -> None:
        """Takes what other ranks have written beside this node's files, as far as time and bounds allow."""
        mine = {recorder.rank for recorder in self._recorders}
        users = {recorder.process.uid for recorder in self._known} | {_NOBODY}
        count = size = 0
        for root, prefix in self._shared():
            for rank, path in self._names(root, prefix):
                if rank in mine or (world_size is not None and rank >= world_size):
                    continue
                if self._deadline.passed or count >= MAX_SIBLINGS or size >= MAX_SIBLING_BYTES:
                    self.troubles[prefix] = f"only {count} dumps of ranks not living here were taken: no time or room"
                    return
                size += self._look(root, path, None, rank, users=users)
                count += 1

    def _root_of(self, recorder: Recorder) -> Path:
        """Its own root, or a peer's once the process has gone and its root with it: what it left is still there."""
        root = recorder.process.root
        if os.path.exists(root):
            return root
        peers = [each.process for each in self._recorders]
        others = self._scene.target.processes if self._scene.target is not None else ()
        return next((peer.root for peer in (*peers, *others) if os.path.exists(peer.root)), root)

    def _shared(self) -> Iterable[tuple[Path, str]]:
        """Each folder once, by whichever of the processes sees it."""
        found: dict[tuple[int, int, str], tuple[Path, str]] = {}
        for recorder in self._known:
            for prefix in recorder.prefixes:
                root = recorder.process.root
                if self.dead(root, prefix):
                    continue
                try:
                    place = os.stat(root)
                except OSError:
                    continue
                found.setdefault((place.st_dev, place.st_ino, prefix), (root, prefix))
        return found.values()

    def _names(self, root: Path, prefix: str) -> list[tuple[int, str]]:
        folder, base = _folder(prefix), prefix.rsplit("/", 1)[-1]
        pattern = re.compile(re.escape(base) + r"(\d{1,6})")
        try:
            names = names_in(root, folder)
        except OSError:
            return []
        found = ((int(match.group(1)), f"{folder}/{name}") for name in names if (match := pattern.fullmatch(name)))
        return sorted(found)

    def _look(
        self,
        root: Path,
        path: str,
        recorder: Recorder | None,
        rank: int | None,
        *,
        final: bool = False,
        users: set[int] | None = None,
    ) -> int:
        """Takes the file if there is a new version of it; how many bytes were taken."""
        key = (root, path, recorder.process.pid if recorder is not None else 0)
        if self.dead(root, path):
            return 0
        try:
            version = version_of(root, path)
            if version is None or version == self._passed.get(key):
                return 0
            file = read_dump(root, path, check=recorder is not None or bool(self._heirs))
        except FileNotFoundError:
            return 0
        except OSError as error:
            self.denied |= isinstance(error, PermissionError)
            self.troubles[path] = f"cannot be read ({error.strerror or error})"
            return 0
        self._growing.pop(key, None)
        if users is not None and file.uid not in users:
            self.troubles[path] = f"belongs to user {file.uid}, who runs no rank of this instance; left out"
        elif file.older_than(self._started(recorder)):
            self.stale[path] = file.written
        elif file.shape is Shape.FOREIGN:
            self.troubles[path] = f"is no dump: {file.why}"
        elif not file.settled and not final and (file.moving or self._scene.now() - file.written < GROWING_SECONDS):
            self._growing[key] = file
            return 0
        elif file.shape is Shape.CUT and file.entries is None and len(file.data) <= MAX_CHECKED_BYTES:
            self.troubles[path] = f"holds nothing of a dump that could be used ({file.why})"
        elif file.shape is Shape.EMPTY:
            self.troubles[path] = "is empty: the disk was full, or its process ended while it wrote"
        else:
            self._passed[key] = file.version
            return self._take(file, path, recorder, rank)
        self._passed[key] = file.version
        return 0

    def _started(self, recorder: Recorder | None) -> float:
        if recorder is not None:
            return recorder.process.started_at - CLOCK_SLACK
        if self._heirs and self._scene.target is not None:
            return began(self._scene.target)
        return min(each.process.started_at for each in self._recorders) - SIBLING_SLACK

    def _take(self, file: DumpFile, path: str, recorder: Recorder | None, rank: int | None) -> int:
        if recorder is not None:
            self._last[recorder.process.pid] = (file.written, file.version)
        if self._seen.get(file.identity) == file.version:
            if recorder is not None and not recorder.settings.dynamic:
                self.troubles.setdefault(path, "two processes write this file: each overwrites the other's dump")
            return 0
        self._seen[file.identity] = file.version
        self.troubles.pop(path, None)
        self.stale.pop(path, None)
        if file.content_rank is not None and rank is not None and file.content_rank != rank:
            self.troubles[path] = f"holds the collectives of rank {file.content_rank}, and is kept as that rank's"
            rank = file.content_rank
        cut = file.shape is not Shape.WHOLE or file.moving
        if cut:
            self.troubles[path] = f"is not whole ({file.why or 'it was still being written'}); kept as it is"
        pid = recorder.process.inner_pid if recorder is not None else 0
        name = f"flight/nccl_trace_rank_{rank}" if rank is not None else f"flight/nccl_trace-{pid}"
        host = self._scene.target.host if self._scene.target is not None and recorder is not None else None
        kept = self._sink.put(name, file.data, look_time=file.written, rank=rank, host=host)
        self.taken.append(Taken(rank, kept, file.written, recorder is not None, cut))
        return len(file.data)


def _folder(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"
