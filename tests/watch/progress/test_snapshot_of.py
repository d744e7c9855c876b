"""The view of an instance: what the newest pages, samples and processes say, and nothing that is older than that."""

from __future__ import annotations

import pytest
from build_looks import WALL, facts, page, sample

from rankmuster.model.fault import Progress
from rankmuster.model.node import NodeState, NodeTask, TaskLook, TaskState
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.progress.look import look
from rankmuster.watch.progress.model import ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.snapshot_of import instance_view
from rankmuster.watch.progress.window import Window
from rankmuster.watch.snapshot import InstanceView


class Watched:
    """A window and a model, a look in 5 s."""

    def __init__(self) -> None:
        self.window, self.model = Window(DEFAULTS), ProgressModel()
        self.now = 0.0
        self.window.feed(0.0, WALL, facts())

    def __call__(self, *observations: object, failing: Plane | None = None, **more: object) -> InstanceView:
        for one in observations:
            self.window.feed(self.now, WALL + self.now, one)
        if failing is not None:
            self.window.fail(self.now, failing, "connection refused")
        self.window.advance(self.now, WALL + self.now)
        view = look(self.window, DEFAULTS, self.now)
        judged = self.model.step(self.now, view)
        made = instance_view(judged, view, self.window, self.now, name="llm-0", **more)  # type: ignore[arg-type]
        self.now += 5.0
        return made

    def at_work(self, number: int) -> InstanceView:
        at = WALL + self.now
        return self(page(at, 500.0 * number, running=3), *(sample(at, gpu, 90.0, 1e6 * number) for gpu in (0, 1)))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_rates_are_of_the_two_newest_samples_and_pages(watched: Watched) -> None:
    made = [watched.at_work(number) for number in range(6)][-1]
    assert (made.name, made.state, made.engine, made.world_size) == ("llm-0", Progress.ADVANCING, "vllm", 2)
    assert (made.running, made.waiting, made.tokens_per_s) == (3.0, 0.0, 100.0)
    rank = made.ranks[1]
    assert (rank.rank, rank.pid, rank.gpu, rank.doing, rank.sm_percent) == (1, 101, 1, "moving", 90.0)
    assert rank.nvlink_kib_per_s == pytest.approx(2e6 / 5)
    assert rank.power_w is None  # NaN in the samples: not said
    assert {one.plane: (one.state, one.age) for one in made.planes} == {
        Plane.HARDWARE: (PlaneState.SPOKE, 0.0),
        Plane.ENGINE: (PlaneState.SPOKE, 0.0),
    }


def test_what_is_old_is_not_shown_as_if_it_were_of_now(watched: Watched) -> None:
    for number in range(6):
        watched.at_work(number)
    made = [watched(failing=Plane.ENGINE) for _ in range(4)][-1]
    assert (made.running, made.tokens_per_s, made.ranks[0].sm_percent, made.ranks[0].doing) == (None,) * 4
    engine = next(one for one in made.planes if one.plane is Plane.ENGINE)
    assert (engine.state, engine.age) == (PlaneState.SILENT, 20.0)
    assert "connection refused" in engine.note


def test_one_failed_scrape_is_a_note_and_a_plane_that_is_not_asked_is_blind(watched: Watched) -> None:
    watched.at_work(0)
    made = watched(failing=Plane.ENGINE, declined={Plane.RAS: "NCCL 2.28.3 may crash when asked"})
    states = {one.plane: one for one in made.planes}
    assert states[Plane.ENGINE].state is PlaneState.SPOKE
    assert "connection refused" in states[Plane.ENGINE].note
    assert (states[Plane.RAS].state, states[Plane.RAS].age) == (PlaneState.BLIND, None)
    assert "2.28.3" in states[Plane.RAS].note


def test_a_stop_has_its_class_its_suspects_and_their_roles(watched: Watched) -> None:
    for number in range(6):
        watched.at_work(number)
    for _ in range(4):
        at = WALL + watched.now
        made = watched(page(at, 2500.0, running=3), sample(at, 0, 100.0, 5e6), sample(at, 1, 0.0, 5e6))
    assert made.state is Progress.STOPPED
    assert made.since == pytest.approx(WALL + 35.0)
    assert [rank.role for rank in made.ranks] == ["victim", "culprit"]
    assert [rank.doing for rank in made.ranks] == ["spinning", "idle"]
    assert made.class_ is not None
    assert any(text.startswith("culprit: rank 1") for text in made.suspects)


def test_a_process_has_the_kernels_letter_and_its_number_on_this_node(watched: Watched) -> None:
    task = NodeTask(101, 1, "worker", "python", (TaskLook(WALL, TaskState.STOPPED),))
    made = watched(NodeState("node", "h", (WALL,), (task,)), pids={1: 4711})
    assert [(rank.rank, rank.pid, rank.state) for rank in made.ranks] == [(1, 4711, "T")]


def test_nothing_seen_is_a_view_too() -> None:
    window = Window(DEFAULTS)
    window.advance(0.0, WALL)
    view = look(window, DEFAULTS, 0.0)
    made = instance_view(ProgressModel().step(0.0, view), view, window, 0.0, name="x")
    assert (made.state, made.ranks, made.tokens_per_s, made.engine) == (Progress.STARTING, (), None, None)
    assert {one.state for one in made.planes} == {PlaneState.SILENT}


def test_one_gpu_alone_is_shown_though_nothing_is_judged_by_it() -> None:
    window = Window(DEFAULTS)
    window.feed(0.0, WALL, facts(ranks=1))
    for now in (0.0, 5.0):
        window.feed(now, WALL + now, sample(WALL + now, 0, 97.0, now))
        window.advance(now, WALL + now)
    view = look(window, DEFAULTS, 5.0)
    (rank,) = instance_view(ProgressModel().step(5.0, view), view, window, 5.0, name="x").ranks
    assert (rank.sm_percent, rank.doing) == (97.0, None)
