"""NCCL Inspector's files, followed: how long each class of collective takes, for those who count.

Each process writes `HOST-pidPID.log`, a JSON line a completed operation. A busy job writes thousands in a second: of
more than `MOST_BYTES` a file the newest are read, and each value then counts for as many as were passed over with it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.target import ProcessOfInstance, Target
from rankmuster.model.collective_names import collective_name
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.follow import Begin, Follower, News
from rankmuster.watch.signals.log_patience import Patience
from rankmuster.watch.signals.signal import Counted, Said
from rankmuster.watch.signals.turn import Turn

MOST_BYTES = 128 << 10
"""Of one file at one look: some 250 lines of 500 bytes, read in 1 ms; a sample is enough for a distribution."""
MOST_FILES = 64
SEARCH_SECONDS = 30.0
"""Between two looks for files: the plugin makes one at a process's first communicator."""
MOST_SECONDS = 86_400.0
"""Of one operation that are believed."""
BLIND_TO = (
    "operations that do not complete; those of CUDA graphs where kernels are not timed; messages below the plugin's "
    "least size (8 KiB); processes that run without the plugin"
)

_NAME = re.compile(r".{1,255}-pid(\d{1,10})\.log", re.DOTALL)
_RECORD = re.compile(
    rb'"(?:coll|p2p)"\s*:\s*"([^"\\\n]{1,64})"[^\n]{0,400}?"(?:coll|p2p)_exec_time_us"\s*:\s*"?(\d{1,16}(?:\.\d{1,16})?)'
)
_OFF = ("", "0")

_Key = tuple[int, int, str]  # device and inode of the folder, name


class InspectorSignal:
    """Of one instance. `folders`: of the configuration, as seen from here; else the processes' own variables tell.

    Says `Counted("collective", (("source", "inspector"), ("collective", NAME)), seconds, counts)`; `counts` is empty
    where every line was read.
    """

    name = "inspector"
    plane = Plane.NCCL_LOG
    blind_to = BLIND_TO

    def __init__(
        self,
        target: Target | None,
        *,
        folders: Sequence[Path] = (),
        period: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.period = period
        self.sampled = 1.0  # part of the bytes that the last look with news has read
        self._target = target
        self._folders = tuple(folders)
        self._clock = clock
        self._followed: dict[_Key, Follower] = {}
        self._due = float("-inf")
        self._first = True
        self._patience = Patience()
        self.note = ""  # why nothing is counted, where that is so
        self._anew = threading.Event()
        self._turn = Turn(self._shut)

    @property
    def wanted(self) -> bool:
        """Whether the instance runs the plugin, or folders are configured: else there is nothing to follow."""
        target = self._target
        return bool(self._folders) or (target is not None and any(map(_folder, target.processes)))

    def retarget(self, target: Target | None) -> None:
        """The instance has other processes now."""
        self._target = target
        self._anew.set()

    def poll(self, deadline: Deadline) -> list[Said]:
        """How long the operations took that have completed since."""
        with self._turn as still_open:
            if not still_open:
                return []
            said: list[Said] = []
            if self._clock() >= self._due or self._anew.is_set():
                self._anew.clear()
                self._search(deadline.within(deadline.remaining() / 2))
            self._read(deadline, said)
            return said

    def close(self) -> None:
        """Closes the files; where a poll runs, at its end."""
        self._turn.close()

    def _shut(self) -> None:
        for follower in self._followed.values():
            follower.close()
        self._followed = {}

    def _search(self, deadline: Deadline) -> None:
        self._due = self._clock() + SEARCH_SECONDS
        target = self._target
        processes = target.processes if target is not None else ()
        places = list(_places(self._folders, processes))
        pids = {process.inner_pid for process in processes}

        def look(place: tuple[Path, str, int | None]) -> list[tuple[_Key, Source]]:
            root, folder, uid = place
            try:
                names, status = files_below.names_in(root, folder), files_below.status(root, folder)
            except OSError:
                return []
            matches = [(name, _NAME.fullmatch(name)) for name in names]
            ours = [name for name, match in matches if match and int(match[1]) in pids]
            return [
                ((status.st_dev, status.st_ino, name), Source(root, f"{folder.rstrip('/')}/{name}", name, uid=uid))
                for name in ours
            ]

        done = self._patience.each(places, look, deadline)
        # Processes of one container see one folder, each below a root of its own.
        found = {key: source for _, several in reversed(done.results) for key, source in several}
        for key in [key for key in self._followed if key not in found]:
            self._followed.pop(key).close()
        for key, source in list(found.items())[:MOST_FILES]:
            old = self._followed.get(key)
            if old is not None and old.key is not None:
                continue
            begin = Begin.END if self._first else Begin.START
            self._followed[key] = Follower(source, begin, resume=old.read_to if old is not None else None)
            if old is not None:
                old.close()
        self._first = False
        self.note = ""
        if self._patience.spent:
            self.note = "too many of its files do not answer (a dead file server?)"
        elif places and not self._followed:
            where = ", ".join(str(root / folder.lstrip("/")) for root, folder, _ in places[:3])
            self.note = f"no file of these processes in {where} (yet): the plugin writes at intervals, or at the end"

    def _read(self, deadline: Deadline, said: list[Said]) -> None:
        if not self._followed:
            return

        def look(key: _Key) -> News:
            return self._followed[key].poll(MOST_BYTES)

        done = self._patience.each(list(self._followed), look, deadline)
        for key in done.stuck:
            self._followed.pop(key).abandon()
        classes: dict[str, tuple[list[float], list[float]]] = {}
        read = skipped = 0
        for _, news in done.results:
            if not news.data:
                continue
            read, skipped = read + len(news.data), skipped + news.skipped
            weight = 1.0 + news.skipped / len(news.data)
            for op, microseconds in _RECORD.findall(news.data):
                seconds = float(microseconds) * 1e-6
                if seconds <= MOST_SECONDS:
                    values, weights = classes.setdefault(collective_name(op.decode("ascii", "replace")), ([], []))
                    values.append(seconds)
                    weights.append(weight)
        if read:
            self.sampled = read / (read + skipped)
        for name, (values, weights) in sorted(classes.items()):
            labels = (("source", "inspector"), ("collective", name))
            said.append(Counted("collective", labels, tuple(values), tuple(weights) if skipped else ()))


def _places(folders: Iterable[Path], processes: Iterable[ProcessOfInstance]) -> Iterable[tuple[Path, str, int | None]]:
    """(root, folder below it, whose files they must be), each once."""
    found: dict[tuple[Path, str, int | None], None] = {(Path("/"), str(folder), None): None for folder in folders}
    for process in processes:
        folder = _folder(process)
        if folder:
            found[(process.root, files_below.absolute(process.cwd, folder), process.uid)] = None
    return found


def _folder(process: ProcessOfInstance) -> str:
    """Where the plugin of this process writes, empty where it does not run: NCCL_INSPECTOR_DUMP_DIR, or by its job."""
    if process.environ.get("NCCL_INSPECTOR_ENABLE", "") in _OFF and not process.environ.get("NCCL_INSPECTOR_DUMP_DIR"):
        return ""
    job = process.environ.get("SLURM_JOBID") or process.environ.get("SLURM_JOB_ID") or "unknown-jobid"
    return process.environ.get("NCCL_INSPECTOR_DUMP_DIR") or f"nccl-inspector-{job.replace('/', '-')[:200]}"
