"""What opens an incident: a watch's state file as the watch writes it, and a group that ended by itself."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.follow import Followed, Follower
from rankmuster.model.fault import Progress
from rankmuster.model.incident import (
    Answer,
    Ending,
    GroupLook,
    GroupState,
    IncidentHead,
    OpenedBy,
    Outcome,
    StartWish,
)
from rankmuster.watch.export.state_file import StateFile
from rankmuster.watch.snapshot import InstanceView, RankView, Snapshot, WatcherView

NOW = 1_796_000_000.0


class Group:
    """A supervisor that says what it is told to."""

    name = "local"
    elsewhere = False

    def __init__(self, look: GroupLook) -> None:
        self.now = look

    def look(self, deadline: Deadline) -> GroupLook:
        return self.now

    def terminate(self, incarnation: str | None, operation: str, deadline: Deadline) -> Answer:
        return Answer(ending=Ending.FAILED)

    def start(self, after: str | None, operation: str, wish: StartWish, deadline: Deadline) -> Answer:
        return Answer(ending=Ending.FAILED)

    def would(self, verb: object, *, incarnation: str | None = None, wish: StartWish | None = None) -> tuple[str, ...]:
        return ()


class Scene:
    """A follower, the file it reads, and the newest incident that the journal knows."""

    def __init__(self, folder: Path, group: Group | None = None) -> None:
        self.time = NOW
        self.newest: IncidentHead | None = None
        self.file = StateFile(folder)
        self.group = group
        self.follower = Follower(
            folder,
            {"llm-0": Followed(group, "http://127.0.0.1:1/metrics")},
            lambda _: self.newest,
            clock=lambda: self.time,
            unix_now=lambda: self.time,
            host="node7",
        )

    def watch(self, state: Progress, since: float, incarnation: str = "i1", name: str = "llm-0") -> None:
        view = InstanceView(
            name=name, state=state, since=since, reason="8 requests running", incarnation=incarnation,
            ranks=(RankView(0, 11, 0), RankView(1, 12, 1)),
        )  # fmt: skip
        self.file.write(Snapshot("node7", self.time, WatcherView("0.1", NOW - 100, 5.0), (view,)))

    def handled(self, by: OpenedBy, at: float, closed: float | None = None, outcome: Outcome = Outcome.HELD) -> None:
        self.newest = IncidentHead(
            id="x", instance="llm-0", incarnation="i1", opened_at=at, by=by, closed_at=closed,
            outcome=None if closed is None else outcome,
        )  # fmt: skip


def test_a_stop_opens_an_incident_with_all_that_the_watch_knows(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch(Progress.STOPPED, NOW - 10)
    [opening] = scene.follower.poll()
    assert (opening.instance, opening.incarnation, opening.by) == ("llm-0", "i1", OpenedBy.STOPPED)
    assert (opening.at, opening.since, opening.pids) == (NOW, NOW - 10, (11, 12))
    assert opening.metrics_url == "http://127.0.0.1:1/metrics"
    assert opening.reason == "8 requests running"


def test_nothing_else_opens_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.follower.poll() == ()
    assert "no state file" in (scene.follower.problem or "") or scene.follower.problem
    for state in set(Progress) - {Progress.STOPPED, Progress.SLOW}:
        scene.watch(state, NOW - 10)
        assert scene.follower.poll() == ()
    scene.watch(Progress.STOPPED, NOW - 10, name="another")
    assert scene.follower.poll() == ()


def test_a_watch_that_no_longer_looks_says_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch(Progress.STOPPED, NOW - 10)
    scene.time += 300
    assert scene.follower.poll() == ()
    assert scene.follower.seen("llm-0") is None
    assert "300 s" in (scene.follower.problem or "")


def test_garbage_in_the_state_file_is_a_problem_and_no_stop(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "state.json").write_bytes(b"\xff{" * 1000)
    assert scene.follower.poll() == ()
    assert scene.follower.problem


def test_one_stop_is_handled_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch(Progress.STOPPED, NOW - 10)
    scene.handled(OpenedBy.STOPPED, NOW - 5)
    assert scene.follower.poll() == ()
    scene.handled(OpenedBy.STOPPED, NOW - 5, closed=NOW - 1)
    assert scene.follower.poll() == ()


def test_the_next_stop_of_the_same_incarnation_is_another_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch(Progress.STOPPED, NOW - 10)
    scene.handled(OpenedBy.STOPPED, NOW - 4000, closed=NOW - 3900)
    assert len(scene.follower.poll()) == 1


def test_what_serves_again_has_not_stopped_because_the_watch_has_not_looked_since(tmp_path: Path) -> None:
    group = Group(GroupLook(state=GroupState.RUNNING, incarnation="i2"))
    scene = Scene(tmp_path, group)
    scene.watch(Progress.STOPPED, NOW - 10)
    for by in (OpenedBy.SLOW, OpenedBy.STOPPED):
        scene.handled(by, NOW - 9, closed=NOW - 1, outcome=Outcome.RECOVERED)
        assert scene.follower.poll() == ()


def test_an_incarnation_that_stops_after_its_rebuild_is_another_incident(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.handled(OpenedBy.STOPPED, NOW - 60, closed=NOW - 40, outcome=Outcome.RECOVERED)
    scene.watch(Progress.STOPPED, NOW - 10, "i2")
    assert len(scene.follower.poll()) == 1


def test_a_slow_group_that_stops_is_a_new_incident(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch(Progress.STOPPED, NOW - 10)
    scene.handled(OpenedBy.SLOW, NOW - 5, closed=NOW - 1)
    [opening] = scene.follower.poll()
    assert opening.by is OpenedBy.STOPPED
    scene.watch(Progress.SLOW, NOW - 10)
    assert scene.follower.poll() == ()


def test_a_group_that_ended_by_itself_opens_one_without_any_watch(tmp_path: Path) -> None:
    group = Group(
        GroupLook(
            state=GroupState.ENDED, incarnation="i1", ended_by_itself=True, exit_status=1, at=NOW - 3, note="rank 2"
        )
    )
    scene = Scene(tmp_path, group)
    [opening] = scene.follower.poll()
    assert opening.by is OpenedBy.ENDED
    assert "exit status 1: rank 2" in opening.reason
    scene.handled(OpenedBy.ENDED, NOW, closed=NOW)
    assert scene.follower.poll() == ()


def test_what_was_rebuilt_and_ends_by_itself_is_another_incident_whenever_that_is(tmp_path: Path) -> None:
    """Also where it ended while the one before was being written down."""
    group = Group(GroupLook(state=GroupState.ENDED, incarnation="i2", ended_by_itself=True, at=NOW - 3))
    scene = Scene(tmp_path, group)
    scene.handled(OpenedBy.ENDED, NOW - 60, closed=NOW - 10, outcome=Outcome.RECOVERED)
    assert len(scene.follower.poll()) == 1
    scene.handled(OpenedBy.ENDED, NOW - 60, closed=NOW - 2, outcome=Outcome.RECOVERED)
    assert len(scene.follower.poll()) == 1
    scene.handled(OpenedBy.ENDED, NOW - 2, closed=NOW - 1, outcome=Outcome.RECOVERED)
    assert scene.follower.poll() == ()


def test_a_group_that_somebody_ended_opens_none(tmp_path: Path) -> None:
    group = Group(GroupLook(state=GroupState.ENDED, incarnation="i1", ended_by_itself=False, at=NOW))
    assert Scene(tmp_path, group).follower.poll() == ()


def test_a_group_that_was_started_since_the_watch_looked_is_not_the_one_that_stood_still(tmp_path: Path) -> None:
    group = Group(GroupLook(state=GroupState.RUNNING, incarnation="i2", at=NOW + 1))
    scene = Scene(tmp_path, group)
    scene.watch(Progress.STOPPED, NOW - 10)
    assert scene.follower.poll() == ()


def test_actions_are_bound_to_the_incarnation_that_the_supervisor_names(tmp_path: Path) -> None:
    group = Group(GroupLook(state=GroupState.RUNNING, incarnation="2026-11-30T10:00:00Z-17", at=NOW - 500))
    scene = Scene(tmp_path, group)
    scene.watch(Progress.STOPPED, NOW - 10)
    [opening] = scene.follower.poll()
    assert opening.incarnation == "2026-11-30T10:00:00Z-17"
    group.now = replace(group.now, state=GroupState.UNKNOWN, incarnation=None, note="its socket does not answer")
    [opening] = scene.follower.poll()
    assert opening.incarnation == "i1"


def test_groups_that_hang_hold_nobody_up_and_their_stops_are_opened_all_the_same(tmp_path: Path) -> None:
    """Ten supervisors whose answer never comes, beside one that answers at once."""
    release = threading.Event()

    class Hangs(Group):
        def look(self, deadline: Deadline) -> GroupLook:
            release.wait(max(deadline.remaining(), 0.0))
            return GroupLook(state=GroupState.UNKNOWN, note="no answer in time")

    unknown = GroupLook(state=GroupState.UNKNOWN)
    ended = GroupLook(state=GroupState.ENDED, ended_by_itself=True, at=NOW)
    instances = {f"a{number}": Followed(Hangs(unknown)) for number in range(10)} | {"z": Followed(Group(ended))}
    names = tuple(instances)
    view = InstanceView(name="a0", state=Progress.STOPPED, since=NOW - 10, reason="8 running", incarnation="i1")
    StateFile(tmp_path).write(Snapshot("node7", NOW, WatcherView("0.1", NOW - 100, 5.0), (view,)))
    newest: dict[str, IncidentHead] = {}
    follower = Follower(tmp_path, instances, newest.get, clock=time.monotonic, unix_now=lambda: NOW, host="node7")
    try:
        begun = time.monotonic()
        assert [one.instance for one in follower.poll()] == ["z"]
        assert time.monotonic() - begun < len(names) * 0.3
    finally:
        release.set()
    until = time.monotonic() + 20
    while "a0" not in {one.instance for one in follower.poll()}:
        assert time.monotonic() < until


def test_a_look_that_raises_is_one_that_says_nothing(tmp_path: Path) -> None:
    class Raises(Group):
        def look(self, deadline: Deadline) -> GroupLook:
            raise RuntimeError("a fault of ours")

    scene = Scene(tmp_path, Raises(GroupLook(state=GroupState.UNKNOWN)))
    assert scene.follower.poll() == ()
    scene.watch(Progress.STOPPED, NOW - 10)
    [opening] = scene.follower.poll()
    assert opening.incarnation == "i1"
