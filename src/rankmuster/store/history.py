"""The history, as the rest of the program sees it: open it, put what was measured, ask for a class.

Needs the extra `history` (SQLAlchemy, alembic), for PostgreSQL the extra `postgres`. Every method raises HistoryError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

from rankmuster.model.admission import AdmissionRecord
from rankmuster.model.benchmark import HistoryRun, RunState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ChangePoint, ChangeState, ClassHistory
from rankmuster.store.stored import ClassCount, KinClass, StoredAdmission, StoredFingerprint

DEFAULT_RUNS = 500


class History:
    """An open history. A context manager; may be used by several threads, not across a fork."""

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> History:
        """`url`: a file's path or `sqlite:///` URL, or `postgresql://user@host/database`. `create`: make the file where
        there is none (Unreachable otherwise); an older SQLite file is brought up to date."""
        raise NotImplementedError

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    def put(self, run: HistoryRun) -> bool:
        """Stores one run, whole or not at all. False: its record is stored already."""
        raise NotImplementedError

    def put_many(self, runs: Iterable[HistoryRun]) -> int:
        """Stores runs in one transaction; how many were new."""
        raise NotImplementedError

    def class_history(
        self,
        class_hash: str,
        profile: str,
        *,
        limit: int = DEFAULT_RUNS,
        until: float | None = None,
        include_after_open: bool = False,
    ) -> ClassHistory:
        """The baseline of a class: its COMPLETE runs since the last accepted change point, newest and spread over
        nodes; empty (`total` 0) where there are none. `until`: only runs started before it, unix seconds.
        `include_after_open`: also what follows an OPEN change point (to look for changes, never to judge)."""
        raise NotImplementedError

    def kin_classes(self, kin_hash: str, profile: str) -> tuple[KinClass, ...]:
        """Classes with COMPLETE runs of `profile` on the same hardware and software, most runs first."""
        raise NotImplementedError

    def runs(
        self,
        *,
        class_hash: str | None = None,
        profile: str | None = None,
        node: str | None = None,
        state: RunState | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = 100,
    ) -> tuple[HistoryRun, ...]:
        """Runs of every state, newest first, whole. `node`: a node hash or a host's name."""
        raise NotImplementedError

    def node_runs(self, node_hash: str, profile: str | None = None, *, limit: int | None = 1000) -> tuple[HistoryRun, ...]:
        """Runs of one node in every class and state, oldest first (the newest `limit` of them)."""
        raise NotImplementedError

    def classes(self) -> tuple[ClassCount, ...]:
        """What the history holds, by class and profile."""
        raise NotImplementedError

    def put_fingerprint(self, fingerprint: Fingerprint, document: bytes) -> bool:
        """Stores a fingerprint for ever. False: stored already. Raises Conflict where the same node and time, or the
        same class hash, are stored with other content."""
        raise NotImplementedError

    def fingerprint_of(self, node: str, *, at: float | None = None) -> StoredFingerprint | None:
        """The newest fingerprint of a node (its node hash or its host's name), or the newest not after `at`."""
        raise NotImplementedError

    def fingerprints(self, *, node: str | None = None, class_hash: str | None = None) -> Iterator[StoredFingerprint]:
        """Stored fingerprints, oldest first."""
        raise NotImplementedError

    def put_admission(self, record: AdmissionRecord, document: bytes) -> bool:
        """Stores a record with its JSON `document`, by its hash. False: stored already."""
        raise NotImplementedError

    def admissions(self, *, node: str | None = None, limit: int | None = 100) -> tuple[StoredAdmission, ...]:
        """Admissions, newest first. `node`: as the record's `nodes` name it."""
        raise NotImplementedError

    def put_change(self, point: ChangePoint) -> ChangePoint:
        """Marks a change point; with its id. Where the same step is marked already (same class, profile, cell and
        direction, within a day) that one is returned, whatever its state."""
        raise NotImplementedError

    def set_change_state(self, id: int, state: ChangeState, *, note: str = "", until: float | None = None) -> ChangePoint:
        """What a person decided about a change point. `until`: of a dismissed one, where the runs kept out end."""
        raise NotImplementedError

    def changes(
        self, *, class_hash: str | None = None, profile: str | None = None, states: Sequence[ChangeState] = ()
    ) -> tuple[ChangePoint, ...]:
        """Change points, oldest first."""
        raise NotImplementedError
