"""The history, as the rest of the program sees it: open it, put what was measured, ask for a class.

Needs the extra `history` (SQLAlchemy, alembic), for PostgreSQL the extra `postgres`. Every method raises HistoryError
with what was tried, on which history, what came back and what to do; nothing was stored then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TypeVar

from sqlalchemy import Connection, Engine

from rankmuster.model.admission import AdmissionRecord
from rankmuster.model.benchmark import HistoryRun, RunState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ChangePoint, ChangeState, ClassCount, ClassHistory, KinClass
from rankmuster.store import changes, documents, read_class, read_runs
from rankmuster.store.engine import reading, writing
from rankmuster.store.pick import RUNS_PER_NODE
from rankmuster.store.place import Place, place_of
from rankmuster.store.ready import filled, make_file, ready, upgrade
from rankmuster.store.stored import StoredAdmission, StoredFingerprint
from rankmuster.store.write_runs import put_runs

_T = TypeVar("_T")

DEFAULT_RUNS = read_class.DEFAULT_RUNS


class History:
    """An open history. A context manager; may be used by several threads, not across a fork."""

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine = engine
        self._place = place

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> History:
        """`url`: a file's path or `sqlite:///` URL, or `postgresql://user@host/database`. `create`: make it where
        there is none (Unreachable otherwise). An older SQLite file is brought up to date; a PostgreSQL database only
        where it is empty (OlderHistory otherwise)."""
        place = place_of(url)
        if create:
            make_file(place)
        return cls(ready(place, create=create), place)

    @classmethod
    def fill(cls, url: str, work: Callable[[History], _T]) -> _T:
        """`work` with the history. Where there is no file yet, the new one is there only when `work` ended well; `work`
        is done again where another process made it meanwhile."""

        def within(place: Place) -> _T:
            with cls(ready(place, create=True), place) as history:
                return work(history)

        return filled(place_of(url), within)

    @classmethod
    def upgrade(cls, url: str) -> tuple[str | None, str]:
        """Brings the tables of a history up to date, also of a PostgreSQL database that holds other things:
        (version before, None where there were no tables; version now). All of it or nothing."""
        return upgrade(place_of(url))

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self._place.name

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends its connections; may be called twice."""
        self._engine.dispose()

    def reading(self, doing: str) -> AbstractContextManager[Connection]:
        """A connection to read over, for the modules of this package."""
        return reading(self._engine, self._place, doing)

    def writing(self, doing: str) -> AbstractContextManager[Connection]:
        """A transaction to write in, for the modules of this package: whole, or nothing."""
        return writing(self._engine, self._place, doing)

    def put(self, run: HistoryRun) -> bool:
        """Stores one run, whole or not at all. False: its record is stored already."""
        return self.put_many([run]) == 1

    def put_many(self, runs: Iterable[HistoryRun]) -> int:
        """Stores runs in one transaction; how many were new. Raises Refused for an unsound one, Conflict where a class
        is stored with other settings."""
        with self.writing("storing runs") as connection:
            return put_runs(connection, runs)

    def put_measured(self, fingerprint: Fingerprint, document: bytes, runs: Iterable[HistoryRun]) -> int:
        """Stores runs with the fingerprint of their node in one transaction; how many runs were new."""
        with self.writing("storing runs") as connection:
            documents.put_fingerprint(connection, fingerprint, document)
            return put_runs(connection, runs)

    def class_history(
        self,
        class_hash: str,
        profile: str,
        *,
        limit: int = DEFAULT_RUNS,
        until: float | None = None,
        include_after_open: bool = False,
        runs_per_node: int = RUNS_PER_NODE,
    ) -> ClassHistory:
        """The baseline of a class: its COMPLETE runs since the last accepted change point, newest and spread over
        nodes; empty (`total` 0) where there are none.

        Runs after an OPEN change point, and those of a dismissed span, are left out (`baseline/window.py`);
        `include_after_open` takes the former in: to look for changes, never to judge. `until`: only runs started before
        it, unix seconds. `total`: the runs of that baseline in the store. `kept_out`: runs by state, and as
        `outside_baseline` those that change points keep out.
        """
        with self.reading("reading a class") as connection:
            points = changes.read_changes(connection, class_hash=class_hash, profile=profile)
            return read_class.read_class(
                connection,
                class_hash,
                profile,
                points,
                limit=limit,
                until=until,
                include_after_open=include_after_open,
                runs_per_node=runs_per_node,
            )

    def kin_classes(self, kin_hash: str, profile: str) -> tuple[KinClass, ...]:
        """Classes with COMPLETE runs of `profile` on the same hardware and software, most runs first."""
        with self.reading("reading classes") as connection:
            return read_class.read_kin(connection, kin_hash, profile)

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
        """Runs of every state, newest first, whole. `node`: a node hash or a host's name; times in unix seconds."""
        conditions = read_runs.asked(
            class_hash=class_hash, profile=profile, node=node, state=state, since=since, until=until
        )
        with self.reading("reading runs") as connection:
            return read_runs.runs_by_time(connection, conditions, limit)

    def forget(self, before: float, *, dry: bool = False) -> int:
        """Removes every run that started before `before` (unix seconds), with its results; how many. Fingerprints,
        admissions and change points stay. `dry`: only counts."""
        if dry:
            with self.reading("counting runs") as connection:
                return read_runs.count_before(connection, before)
        with self.writing("removing runs") as connection:
            return read_runs.remove_before(connection, before)

    def classes(self) -> tuple[ClassCount, ...]:
        """What the history holds, by class and profile."""
        with self.reading("reading classes") as connection:
            return read_runs.count_classes(connection)

    def put_fingerprint(self, fingerprint: Fingerprint, document: bytes) -> bool:
        """Stores a fingerprint for ever. False: stored already. Raises Conflict where the same node and time, or the
        same class hash, are stored with other content."""
        with self.writing("storing a fingerprint") as connection:
            return documents.put_fingerprint(connection, fingerprint, document)

    def fingerprint_of(self, node: str, *, at: float | None = None) -> StoredFingerprint | None:
        """The newest fingerprint of a node (its node hash or its host's name), or the newest not after `at`."""
        with self.reading("reading fingerprints") as connection:
            found = documents.read_fingerprints(connection, node=node, at=at, newest_only=True)
            return found[0] if found else None

    def fingerprints(self, *, node: str | None = None, class_hash: str | None = None) -> tuple[StoredFingerprint, ...]:
        """Stored fingerprints, oldest first."""
        with self.reading("reading fingerprints") as connection:
            return documents.read_fingerprints(connection, node=node, class_hash=class_hash)

    def topologies(self, gpu_model: str, gpu_count: int) -> dict[str, int]:
        """Topology hash -> how many nodes with this GPU model and count have, or had, it."""
        with self.reading("reading fingerprints") as connection:
            return documents.count_topologies(connection, gpu_model, gpu_count)

    def put_admission(self, record: AdmissionRecord, document: bytes) -> bool:
        """Stores a record with its JSON `document`, by its hash. False: stored already. Raises Conflict."""
        with self.writing("storing an admission") as connection:
            return documents.put_admission(connection, record, document)

    def admissions(self, *, node: str | None = None, limit: int | None = 100) -> tuple[StoredAdmission, ...]:
        """Admissions, newest first. `node`: as the record's `nodes` name it."""
        with self.reading("reading admissions") as connection:
            return documents.read_admissions(connection, node=node, limit=limit)

    def put_change(self, point: ChangePoint) -> ChangePoint:
        """Marks a change point; with its id. Where the same step is marked already (same class, profile, cell and
        direction, within a day) that one is returned, whatever its state."""
        with self.writing("marking a change point") as connection:
            return changes.put_change(connection, point)

    def set_change_state(
        self, number: int, state: ChangeState, *, note: str = "", until: float | None = None
    ) -> ChangePoint:
        """What a person decided about a change point. `until`: of a dismissed one, where the runs kept out end."""
        with self.writing("deciding about a change point") as connection:
            return changes.set_state(connection, number, state, note, until)

    def changes(
        self, *, class_hash: str | None = None, profile: str | None = None, states: Sequence[ChangeState] = ()
    ) -> tuple[ChangePoint, ...]:
        """Change points, oldest first."""
        with self.reading("reading change points") as connection:
            return changes.read_changes(connection, class_hash=class_hash, profile=profile, states=states)
