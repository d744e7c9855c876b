"""Copies of the controller's bundles beyond its volume: to an object store or another volume, after the answer, never
in the way of a recovery.

One worker, one bundle after the other, each with a deadline of its own. What lies under the folder and has no mark that
it was uploaded is found again after a restart, so that nothing is lost with the process: the queue may be short, and
what it has no room for is found by the next look. A bundle travels as one archive whose name ends in a digest of its
manifest: the same name there means the same bundle.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.bundle_child import BUNDLE, sync
from rankmuster.collect.bundle.digest import digest
from rankmuster.collect.bundle.manifest import MAX_MANIFEST_BYTES, ManifestRefused, parse
from rankmuster.collect.bundle.pack import pack
from rankmuster.collect.bundle.paths import MANIFEST
from rankmuster.collect.bundle.upload import UploadFailed, redact, upload
from rankmuster.collect.deadline import Deadline
from rankmuster.report.inert import plain

UPLOAD_SECONDS = 300.0
"""For one bundle: a gigabyte at 4 MB/s."""

MOST_WAITING = 64
"""In the queue: bundles of a burst; more are found by the next look at the folder."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""After an attempt that failed, doubled each time: a store that is down for a night costs some 80 attempts."""

MOST_DEPTH = 5
"""Folders below the root in which bundles are looked for."""

MARK = ".uploaded.json"
"""Behind a bundle's name: says where its copy is."""

MOST_MARK = 64 << 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one attempt. `url`: where the copy is, without secrets; None where there is none. `note`: a sentence.
    `again`: seconds until the next attempt, None where there is none."""

    bundle: Path
    url: str | None
    note: str
    again: float | None = None


Told = Callable[[Outcome], object]


class Uploads:
    """`root`: the folder below which collections leave their bundles. `url`: a folder of a store
    (`s3://BUCKET/FOLDER/`, `file:///VOLUME/`). `told`: of each attempt, from the worker's thread. `start`, then `add`
    from any thread."""

    def __init__(
        self,
        root: Path,
        url: str,
        told: Told,
        *,
        seconds: float = UPLOAD_SECONDS,
        most_waiting: int = MOST_WAITING,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._root, self._url = root, url if url.endswith("/") else f"{url}/"
        self._told, self._seconds, self._first = told, seconds, first_pause
        self._waiting: queue.Queue[Path] = queue.Queue(most_waiting)
        self._known: set[Path] = set()
        self._lock = threading.Lock()
        self._look_again = threading.Event()
        self._look_again.set()
        self._wake = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bundle-uploads", daemon=True)

    def start(self) -> None:
        """Begins with what an earlier process has left undone."""
        self._thread.start()

    def add(self, bundle: Path) -> bool:
        """Never blocks. False where the queue is full: then it is found by the next look at the folder."""
        with self._lock:
            if bundle in self._known or marked(bundle):
                return True
            try:
                self._waiting.put_nowait(bundle)
            except queue.Full:
                self._look_again.set()
                return False
            self._known.add(bundle)
        self._wake.set()
        return True

    def close(self, seconds: float = 1.0) -> None:
        """Ends after what is under way, or leaves it behind: it is taken up by the next process."""
        self._end.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    # -- the worker ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = self._first
        while not self._end.is_set():
            self._wake.clear()
            if self._look_again.is_set():
                self._look_again.clear()
                for bundle in unmarked(self._root):
                    self.add(bundle)
            try:
                bundle = self._waiting.get_nowait()
            except queue.Empty:
                pause = self._first
                if not self._look_again.is_set():
                    self._wake.wait()
                continue
            outcome = self._one(bundle, pause)
            with contextlib.suppress(Exception):  # whoever listens does not end the worker
                self._told(outcome)
            with self._lock:
                self._known.discard(bundle)
            if outcome.url is not None:
                pause = self._first
            elif outcome.again is not None:
                self._look_again.set()
                self._end.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _one(self, bundle: Path, pause: float) -> Outcome:
        if not bundle.exists():
            return Outcome(bundle, None, f"{bundle} is gone: nothing was uploaded")
        packed: Path | None = None
        try:
            name, packed = self._archive(bundle)
            place = f"{self._url}{name}"
            try:
                done = upload(packed or bundle, place, Deadline.after(self._seconds))
                shown = redact(done.url)
                note = f"{done.size} bytes, {done.checked} checked, {done.seconds:.1f} s"
            except UploadFailed as error:
                if not error.there:
                    raise
                shown, note = redact(place), "it was there already, from an earlier attempt"
            _mark(bundle, shown)
            return Outcome(bundle, shown, f"uploaded to {shown}: {note}")
        except (UploadFailed, ManifestRefused, OSError) as error:
            return Outcome(bundle, None, plain(str(error), 600), pause)
        finally:
            if packed is not None:
                with contextlib.suppress(OSError):
                    packed.unlink()

    def _archive(self, bundle: Path) -> tuple[str, Path | None]:
        """(the copy's name, the archive that was made for it; None where the bundle is one)."""
        stem = _name(bundle, self._root)
        if bundle.is_file():
            _, sha256 = digest(bundle)
            return f"{stem}-{sha256[:16]}.tar.zst", None
        data = _manifest(bundle)
        beside = bundle.with_name(f".{bundle.name}.upload.tar.zst")
        beside.unlink(missing_ok=True)
        pack(bundle, parse(data).document, beside)
        return f"{stem}-{hashlib.sha256(data).hexdigest()[:16]}.tar.zst", beside


def marked(bundle: Path) -> bool:
    """Whether a copy of it is elsewhere."""
    return _beside(bundle).exists()


def unmarked(root: Path) -> Iterator[Path]:
    """Bundles of collections below `root` of which there is no copy yet, by name."""
    base = len(root.parts)
    for place, folders, files in os.walk(root):
        here = Path(place)
        folders.sort()
        if len(here.parts) - base >= MOST_DEPTH:
            folders.clear()
        for name in [one for one in folders if one == BUNDLE]:
            folders.remove(name)
            if (here / name / MANIFEST).is_file() and not marked(here / name):
                yield here / name
        for name in files:
            if name == f"{BUNDLE}.tar.zst" and not marked(here / name):
                yield here / name


def uploaded_below(folder: Path) -> str | None:
    """Where a copy of the newest bundle of an incident's folder is; None where there is none, or no mark can be
    read."""
    marks = sorted(folder.glob(f"*/{BUNDLE}*{MARK}"), key=lambda one: one.stat().st_mtime)
    for one in reversed(marks):
        try:
            found = json.loads(one.read_bytes()[:MOST_MARK])
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and isinstance(found.get("url"), str):
            return str(found["url"])
    return None


def _manifest(bundle: Path) -> bytes:
    with (bundle / MANIFEST).open("rb") as file:
        return file.read(MAX_MANIFEST_BYTES + 1)


def _beside(bundle: Path) -> Path:
    return bundle.with_name(f"{bundle.name}{MARK}")


def _mark(bundle: Path, url: str) -> None:
    part = bundle.with_name(f".{bundle.name}{MARK}.part")
    with part.open("w", encoding="utf-8") as file:
        json.dump({"url": url}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, _beside(bundle))
    sync(bundle.parent)


def _name(bundle: Path, root: Path) -> str:
    """Of the folders that lead to it: an incident's name is one of them."""
    try:
        parts = bundle.relative_to(root).parts[:-1]
    except ValueError:
        parts = (bundle.parent.name,)
    return re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(parts)).strip(".-")[:150] or "bundle"
