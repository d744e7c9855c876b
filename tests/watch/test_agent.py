"""The loop: who is watched, what of the node's is whose, and that a stop is answered once an incarnation."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Progress
from rankmuster.model.node import NodeState, NodeTask, TaskLook, TaskState
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.agent import Agent
from rankmuster.watch.events import Severity, Told
from rankmuster.watch.finding import Changes
from rankmuster.watch.parts import Parts
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import Ended, HookEnded, StepEnding, StopOutcome
from rankmuster.watch.roster import MOST_NOTES, MOST_TOLD_NOTES
from rankmuster.watch.signals.signal import Counted, Declined, Failed, Heard, Said, Signal
from rankmuster.watch.snapshot import Snapshot, StopView

WALL = 1_796_000_000.0


def target(name: str, ranks: int = 2, since: int = 100) -> Target:
    processes = tuple(
        ProcessOfInstance(1000 + rank, 1000 + rank, None, since, WALL - 900, Role.WORKER, "python", rank)
        for rank in range(ranks)
    )
    return Target(name, "node", processes, incarnation=f"run-{since}", world_size=ranks)


@dataclass
class World:
    """A node: which instances there are, whether their engines move, and what time it is."""

    now: float = 1000.0
    targets: dict[str, Target] = field(default_factory=dict)
    moves: dict[str, bool] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    changes: list[Changes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    retargeted: list[str] = field(default_factory=list)
    running: float = 2.0
    answers: bool = True

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL + self.now

    def look(self, deadline: Deadline) -> Changes:
        return self.changes.pop(0) if self.changes else Changes(tuple(self.targets.values()))

    # What an agent asks of a builder

    def node(self) -> Iterable[Signal]:
        return (NodeSignal(self),)

    def instance(self, target: Target) -> Iterable[Signal]:
        return (EngineOf(self, target.name),)

    def servers(self, target: Target) -> Hashable:
        return target.metrics_urls

    def given_url(self, name: str) -> str | None:
        return None

    def share(self, heard: Heard, targets: Iterable[Target]) -> Iterable[tuple[str, Heard]]:
        return [(one.name, heard) for one in targets]


@dataclass
class EngineOf:
    """The engine's page of one instance."""

    world: World
    instance: str
    name: str = "engine"
    plane: Plane = Plane.ENGINE
    period: float = 5.0
    blind_to: str = "nothing"
    declined: str | None = None
    notes: tuple[str, ...] = ()

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        world = self.world
        world.asked.append(self.instance)
        if not world.answers:
            return [Failed(world.now, Plane.ENGINE, "nobody listens there")]
        moved = world.moves.get(self.instance, True)
        world.tokens[self.instance] = world.tokens.get(self.instance, 1) + (100 if moved else 0)
        stream = EngineStream(
            "0", world.running, 0.0, {"vllm:generation_tokens_total": world.tokens[self.instance]}, {}, {}
        )
        return [Heard(world.now, world.wall(), EnginePage("page", None, "vllm", (stream,)))]

    def retarget(self, target: Target) -> None:
        self.world.retargeted.append(target.name)

    def close(self) -> None:
        self.world.closed.append(self.instance)


@dataclass
class NodeSignal:
    """A node without GPUs, that says so once."""

    world: World
    said: bool = False
    name: str = "nvml"
    plane: Plane = Plane.HARDWARE
    period: float = 5.0
    blind_to: str = "nothing"

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        if self.said:
            return []
        self.said = True
        return [Declined(self.world.now, Plane.HARDWARE, "no NVIDIA driver here")]

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Answers:
    """Takes stops."""

    notices: list[StopNotice] = field(default_factory=list)
    resumes: list[str] = field(default_factory=list)
    outcomes: list[StopOutcome] = field(default_factory=list)

    def start(self, notice: StopNotice) -> None:
        self.notices.append(notice)

    def resumed(self, instance: str, at: float) -> None:
        self.resumes.append(instance)

    def view(self, instance: str) -> StopView | None:
        return None

    def finished(self) -> list[StopOutcome]:
        found, self.outcomes = self.outcomes, []
        return found

    def close(self, seconds: float) -> None:
        """Nothing runs."""


@dataclass
class Kept:
    """Keeps what it is told."""

    snapshots: list[Snapshot] = field(default_factory=list)
    closed: bool = False

    def update(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def heard(self, instance: str, said: Heard | Counted) -> None:
        """Not of interest here."""

    def stop_outcome(self, outcome: StopOutcome) -> None:
        """Not of interest here."""

    def close(self) -> None:
        self.closed = True


class Run:
    """An agent that is moved on by hand."""

    def __init__(self, world: World, draining: Path | None = None, unnamed: str | None = None) -> None:
        self.world, self.answers, self.kept = world, Answers(), Kept()
        self.told: list[Told] = []
        self.wake = threading.Event()
        parts = Parts(
            finder=world,  # type: ignore[arg-type]  # it looks for instances, too
            builder=world,
            responder=self.answers,
            sinks=(self.kept,),
            tell=self.told.append,
            host="node",
            version="0",
            draining_file=draining,
            given_unnamed=unnamed,
            clock=world.clock,
            unix_now=world.wall,
        )
        self.agent = Agent(parts, self.wake)
        self.agent.begin()

    def looks(self, number: int) -> Progress:
        state = Progress.UNKNOWN
        for _ in range(number):
            state = self.agent.tick()
            self.world.now += 5.0
        return state

    @property
    def events(self) -> list[str]:
        return [f"{one.instance} {one.event}".strip() for one in self.told]


@pytest.fixture
def world() -> World:
    return World()


def appears(world: World, *targets: Target) -> None:
    for one in targets:
        world.targets[one.name] = one
    world.changes.append(Changes(tuple(world.targets.values()), appeared=targets))


def test_an_instance_is_asked_in_the_look_that_finds_it(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(1)
    assert world.asked == ["a"]
    assert [view.name for view in run.kept.snapshots[0].instances] == ["a"]


def test_each_instance_stops_by_itself_and_its_stop_is_answered_once(world: World) -> None:
    appears(world, target("a"), target("b"))
    run = Run(world)
    assert run.looks(6) is Progress.ADVANCING
    world.moves["b"] = False
    assert run.looks(6) is Progress.STOPPED
    assert {view.name: view.state for view in run.kept.snapshots[-1].instances} == {
        "a": Progress.ADVANCING,
        "b": Progress.STOPPED,
    }
    (notice,) = run.answers.notices
    assert (notice.instance, notice.incarnation, notice.pids) == ("b", "run-100", (1000, 1001))
    assert "unchanged" in notice.reason
    world.moves["b"] = True
    run.looks(4)
    assert run.answers.resumes == ["b"]
    assert run.events.count("b stopped") == 1
    assert "b resumed" in run.events


def test_what_the_node_cannot_see_is_known_to_instances_that_come_later(world: World) -> None:
    run = Run(world)
    run.looks(2)
    appears(world, target("late"))
    run.looks(2)
    (view,) = run.kept.snapshots[-1].instances
    (plane,) = [one for one in view.planes if one.plane is Plane.HARDWARE]
    assert (plane.state, plane.note) == (PlaneState.BLIND, "no NVIDIA driver here")


def test_other_processes_of_an_instance_leave_its_signals_in_place(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(2)
    again = target("a", since=777)
    world.changes.append(Changes((again,), changed=(again,)))
    run.looks(1)
    assert world.retargeted == ["a"]
    assert not world.closed
    (plane,) = [one for one in run.kept.snapshots[-1].instances[0].planes if one.plane is Plane.HARDWARE]
    assert (plane.state, plane.note) == (PlaneState.BLIND, "no NVIDIA driver here")  # said once, and still so
    elsewhere = replace(again, metrics_urls=("http://127.0.0.1:9/metrics",))
    world.changes.append(Changes((elsewhere,), changed=(elsewhere,)))
    run.looks(1)
    assert world.closed == ["a"]  # another server is another signal


def test_an_instance_that_has_left_is_not_asked_any_more(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(2)
    world.changes.append(Changes((), ended=("a",)))
    run.looks(1)
    asked = len(world.asked)
    run.looks(3)
    assert len(world.asked) == asked
    assert world.closed == ["a"]
    assert run.kept.snapshots[-1].instances == ()
    assert "a left" in run.events


def test_while_the_platform_drains_it_nothing_that_works_is_called_anything_else(world: World, tmp_path: Path) -> None:
    appears(world, target("a"))
    run = Run(world, draining=tmp_path / "draining")
    run.looks(4)
    (tmp_path / "draining").touch()
    assert run.looks(2) is Progress.DRAINING
    world.moves["a"] = False
    assert run.looks(6) is Progress.STOPPED  # what stands still is not drained, it is stuck
    (tmp_path / "draining").unlink()


def test_an_instance_known_by_its_page_alone_gives_way_to_one_that_is_seen(world: World) -> None:
    world.changes.append(Changes())
    run = Run(world, unnamed="instance")
    run.looks(2)
    assert [view.name for view in run.kept.snapshots[-1].instances] == ["instance"]
    appears(world, target("a"))
    run.looks(2)
    assert [view.name for view in run.kept.snapshots[-1].instances] == ["a"]


def test_what_a_source_that_speaks_cannot_tell_stays_said(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(2)
    (signal,) = run.agent.signals("a")
    assert isinstance(signal, EngineOf)
    signal.declined, signal.notes = "the page tells no load", ("one of 2 servers does not answer",)
    run.looks(2)
    snapshot = run.kept.snapshots[-1]
    (plane,) = [one for one in snapshot.instances[0].planes if one.plane is Plane.ENGINE]
    assert (plane.state, plane.note) == (PlaneState.BLIND, "the page tells no load")
    assert "a: engine: one of 2 servers does not answer" in snapshot.watcher.notes


def test_a_start_that_no_plane_shows_is_no_answer(world: World) -> None:
    """A page that does not answer, of processes that nobody sees: it may load its weights, and it may have stopped."""
    world.changes.append(Changes())
    world.answers = False
    run = Run(world, unnamed="instance")
    assert run.looks(3) is Progress.UNKNOWN
    assert run.kept.snapshots[-1].instances[0].reason.startswith("first looked at 10 s ago")
    world.answers = True
    assert run.looks(4) is Progress.ADVANCING


def test_notes_of_the_search_are_told_once_and_the_newest_are_shown(world: World) -> None:
    run = Run(world)
    for number in range(MOST_TOLD_NOTES + MOST_NOTES):
        of = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        notes = (f"{number} of {of} (pids {number}, {number + 1}) cannot be seen", "no GPU", f"no process {number}")
        world.changes += [Changes(notes=notes)] * 2
        run.looks(2)
    assert run.kept.snapshots[-1].watcher.notes == notes
    told = [told.text for told in run.told if told.event == "note"]
    assert len(told) == MOST_TOLD_NOTES + MOST_NOTES + 2
    assert told.count("no GPU") == 1
    assert told.count("no process 0") == 1


def test_of_an_earlier_stops_evidence_it_is_said_that_it_is_old(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(6)
    world.moves["a"] = False
    run.looks(6)
    done = Ended(StepEnding.DONE)
    verdict = {"class": "inconclusive", "confidence": None, "summary": "inconclusive: nobody tells"}
    outcome = StopOutcome(
        run.answers.notices[0], 1, Path("/stops/a"), done, done, bundle=Path("/stops/a/bundle"), verdict=verdict
    )
    run.answers.outcomes += [outcome, replace(outcome, repeated=True)]
    run.looks(1)
    first, again = (told.text for told in run.told if told.event == "evidence")
    assert first == "inconclusive: nobody tells; collect done, diagnose done; /stops/a/bundle"
    assert again.startswith("of an earlier stop")


def test_by_its_pages_alone_each_life_of_an_instance_has_its_own_stop(world: World) -> None:
    """Nothing names its incarnation: a stop weeks later must not pass for the one that was answered."""

    def lives_and_stops(run: Run) -> str:
        world.moves["instance"] = True
        run.looks(8)
        world.moves["instance"] = False
        run.looks(8)
        return run.answers.notices[-1].incarnation

    world.changes.append(Changes())
    run = Run(world, unnamed="instance")
    first = lives_and_stops(run)
    assert lives_and_stops(run) == first
    world.tokens["instance"] = 0  # its counters begin anew
    assert lives_and_stops(run) != first
    # A watch that is started while it stands still does not take it for yet another.
    again = Run(world, unnamed="instance")
    again.looks(8)
    assert [one.incarnation for one in again.answers.notices] == ["unknown"]


def test_hooks_of_one_server_are_told_apart(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(6)
    world.moves["a"] = False
    run.looks(6)
    done, failed = Ended(StepEnding.DONE), Ended(StepEnding.FAILED, "the server answered with status 401")
    hooks = tuple(HookEnded("webhook", "https://hooks.example", ended) for ended in (failed, done, failed))
    run.answers.outcomes.append(StopOutcome(run.answers.notices[0], 1, Path("/stops/a"), done, done, hooks))
    run.looks(1)
    (told,) = (told for told in run.told if told.event == "evidence")
    assert dict(told.more)["hooks"] == {
        "webhook https://hooks.example": failed.text,
        "webhook https://hooks.example #2": "done",
        "webhook https://hooks.example #3": failed.text,
    }
    assert told.text.count("401") == 2


def test_of_two_sources_of_a_plane_one_may_be_missing(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(3)
    extra = Declined(world.now, Plane.ENGINE, "a second server has no page")
    run.agent.watched("a").take(extra)
    run.looks(1)
    (plane,) = [one for one in run.kept.snapshots[-1].instances[0].planes if one.plane is Plane.ENGINE]
    assert plane.state is PlaneState.SPOKE


@pytest.mark.parametrize(("running", "said"), [(3.0, "3 requests were on their way"), (0.0, "has ended: there is")])
def test_an_end_is_told_with_what_was_on_its_way_and_is_no_stop(world: World, running: float, said: str) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(3)
    world.running = running
    run.looks(1)
    for looks in (2, 1):
        task = NodeTask(1000, 0, "worker", "python", (TaskLook(world.wall(), TaskState.GONE),))
        run.agent.watched("a").take(Heard(world.now, world.wall(), NodeState("n", "node", (world.wall(),), (task,))))
        run.looks(looks)
    assert run.answers.notices == []
    (gone,) = [one for one in run.told if one.event == "gone"]
    assert gone.severity is Severity.NOTE
    assert said in gone.text
    assert ("on their way" in gone.text) == bool(running)


def test_what_is_known_more_of_the_same_processes_is_no_change_to_tell(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.looks(2)
    more = replace(target("a"), engine_version="0.31.0")
    world.changes.append(Changes((more,), changed=(more,)))
    run.looks(1)
    assert "a changed" not in run.events
    again = target("a", ranks=1, since=777)
    world.changes.append(Changes((again,), changed=(again,)))
    run.looks(1)
    assert "a changed" in run.events


def test_it_ends_when_it_is_told_to_and_gives_everything_back(world: World) -> None:
    appears(world, target("a"))
    run = Run(world)
    run.wake.set()
    run.agent.run()
    assert run.kept.closed
