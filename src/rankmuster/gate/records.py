"""Where a release's records are kept: a Protocol, and a folder of files that are written once."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Protocol

from rankmuster.evidence.given_file import CannotRead, bytes_in
from rankmuster.gate.chain import Chain, fold
from rankmuster.gate.document import MOST_BYTES, NotARecord, Tampered, read, render
from rankmuster.model.release import ReleaseRecord

NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
"""Of a release: a name that Kubernetes takes for an object, and that is a folder's everywhere."""
MOST_RECORDS = 10_000
"""Of one release: ten a day for three years."""
_FILE = re.compile(r"(\d{4,6})\.json")


class RecordsUnusable(Exception):
    """The records cannot be read or written; the message says what was tried, what came back and what to do."""


class Records(Protocol):
    """Records of releases. Implementations: `FolderRecords`, on a cluster `adapters.kube.approved_releases`."""

    def chain(self, release: str) -> Chain:
        """All of a release, each held against its hash and its place. An empty chain where there are none.

        Raises document.NotARecord, document.Tampered, RecordsUnusable.
        """

    def add(self, record: ReleaseRecord) -> str:
        """Writes a sealed record that is the next of its chain; where it is now, for people.

        Raises RecordsUnusable, also where another one has taken its place meanwhile: nothing is overwritten.
        """

    def releases(self) -> tuple[str, ...]:
        """Names of releases that have records, sorted. Raises RecordsUnusable."""


def checked_name(release: str) -> str:
    """The name. Raises RecordsUnusable for one that is none."""
    if NAME.fullmatch(release) is None:
        raise RecordsUnusable(
            f"{release[:80]!r} is no name of a release: small letters, digits, dots and dashes, at most 63"
        )
    return release


class FolderRecords:
    """`FOLDER/RELEASE/0001.json`, a file a record: fit for a repository that people review.

    A file is made whole under a name that was free, and never opened for writing again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def chain(self, release: str) -> Chain:
        """See Records."""
        place = self.folder / checked_name(release)
        found = []
        try:
            names = sorted(one.name for one in place.iterdir()) if os.path.lexists(place) else []
        except OSError as error:
            raise RecordsUnusable(f"{place} cannot be read ({error.strerror or error})") from error
        if len(names) > MOST_RECORDS:
            raise RecordsUnusable(f"{place} holds {len(names)} files; a release has at most {MOST_RECORDS} records")
        for name in names:
            named = _FILE.fullmatch(name)
            if named is None:
                if name.endswith(".json"):
                    raise Tampered(f"{place / name}: no record is called so")
                continue  # a README, a hidden file of a version control
            record = self._record(place / name)
            if int(named.group(1)) != record.number:
                raise Tampered(f"{place / name} holds record {record.number}: it was renamed")
            found.append(record)
        try:
            return fold(release, found)
        except Tampered as error:
            raise Tampered(f"{place}: {error}") from None

    @staticmethod
    def _record(path: Path) -> ReleaseRecord:
        try:
            data = bytes_in(path, MOST_BYTES, "record")
        except CannotRead as error:
            raise RecordsUnusable(str(error)) from error
        try:
            return read(data)
        except Tampered as error:
            raise Tampered(f"{path}: {error}") from None
        except NotARecord as error:
            raise NotARecord(f"{path}: {error}") from None

    def add(self, record: ReleaseRecord) -> str:
        """See Records."""
        place = self.folder / checked_name(record.release)
        path = place / f"{record.number:04d}.json"
        beside = place / f".{path.name}.{uuid.uuid4().hex[:12]}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            try:
                with beside.open("xb") as file:
                    file.write(render(record).encode("ascii"))
                    file.flush()
                    os.fsync(file.fileno())
                beside.chmod(0o444)
                os.link(beside, path)  # of two at once, one finds the name taken
            finally:
                beside.unlink(missing_ok=True)
            _sync(place)
        except FileExistsError as error:
            if not path.exists():
                raise RecordsUnusable(f"{place} is no folder ({error.strerror}): nothing is recorded") from error
            raise RecordsUnusable(
                f"{path} is there already: somebody else was first; look at what was approved, and approve again"
            ) from None
        except OSError as error:
            reason = error.strerror or error
            raise RecordsUnusable(f"{path} cannot be written ({reason}): nothing is recorded") from error
        return str(path)

    def releases(self) -> tuple[str, ...]:
        """See Records."""
        try:
            found = [one.name for one in self.folder.iterdir() if one.is_dir() and NAME.fullmatch(one.name)]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RecordsUnusable(f"{self.folder} cannot be read ({error.strerror or error})") from error
        return tuple(sorted(found))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
