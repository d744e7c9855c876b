"""What looks like a stop and is none: through the real window, look and model, plane by plane."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from build_looks import WALL, Watched, facts, page, sample

from rankmuster.model.fault import Progress
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.plane import Plane, PlaneState

ENGINE, HARDWARE = frozenset({Plane.ENGINE}), frozenset({Plane.HARDWARE})
BOTH = ENGINE | HARDWARE
RANKS = 4


class Instance:
    """Counters of an instance at work, to be moved look by look."""

    def __init__(self, expected: frozenset[Plane] = BOTH, started: float = WALL - 86_400) -> None:
        self.watched = Watched(expected, RANKS, started)
        self.steps, self.moved, self.taken = 0.0, np.zeros(RANKS), np.zeros(RANKS)

    def __call__(
        self,
        steps: float | None = 0.0,
        running: float = 2.0,
        kv: float = 0.1,
        sm: float | tuple[float, ...] = 90.0,
        moved: float = 5e6,
        taken: float = 0.0,
        failing: Plane | None = None,
    ) -> None:
        """One look. `steps`: tokens since the last one, None where no server answers.

        `moved`, `taken`: KiB per GPU since then, over NVLink and from the host.
        """
        watched = self.watched
        self.moved += moved
        self.taken += taken
        seen: list[object] = []
        if steps is not None and Plane.ENGINE in watched.expected and failing is not Plane.ENGINE:
            self.steps += steps
            seen.append(page(watched.wall, self.steps, running=running, kv=kv))
        if Plane.HARDWARE in watched.expected and failing is not Plane.HARDWARE:
            loads = sm if isinstance(sm, tuple) else (sm,) * RANKS
            seen += [self._gpu(gpu, loads[gpu]) for gpu in range(RANKS)]
        watched(*seen, failing=failing or (Plane.ENGINE if steps is None else None))

    def _gpu(self, gpu: int, sm: float) -> GpuTrack:
        taken = np.array([self.taken[gpu]])
        return replace(sample(self.watched.wall, gpu, sm, self.moved[gpu]), pcie_rx_kib=taken, pcie_tx_kib=taken * 0.05)

    def work(self, looks: int = 30) -> None:
        for _ in range(looks):
            self(steps=400.0)

    def rest(self, looks: int) -> None:
        for _ in range(looks):
            self(running=0.0, sm=0.0, moved=0.0)


@pytest.fixture(params=[BOTH, ENGINE, HARDWARE], ids=["both", "engine", "hardware"])
def instance(request: pytest.FixtureRequest) -> Instance:
    return Instance(request.param)


def test_a_long_prefill(instance: Instance) -> None:
    """Ninety seconds without a token; where GPUs are not seen, its cache fills."""
    instance.work()
    for number in range(18):
        instance(kv=0.1 + number / 100, sm=100.0, moved=2e7)
    instance.work()
    assert instance.watched.events == []
    assert instance.watched.judged[-1].state is Progress.ADVANCING


def test_a_long_prefill_whose_gauges_do_not_show_it() -> None:
    instance = Instance(BOTH)
    instance.work()
    for _ in range(18):
        instance(sm=100.0, moved=2e7)
    instance.work()
    assert instance.watched.events == []


@pytest.mark.parametrize("expected", [BOTH, HARDWARE], ids=["both", "hardware"])
def test_a_start_with_weight_loading_a_barrier_and_graph_capture(expected: frozenset[Plane]) -> None:
    """200 s of weights, of which half of the ranks wait for the others; then graphs; and only then a server."""
    instance = Instance(expected, started=WALL)
    for _ in range(30):
        instance(None, sm=0.0, moved=0.0, taken=4e6)
    for _ in range(10):
        instance(None, sm=(100.0, 0.0, 100.0, 0.0), moved=0.0)
    assert instance.watched.states == {Progress.STARTING}
    for _ in range(12):
        instance(None, sm=60.0, moved=3e5)
    instance.rest(10)
    instance.work(10)
    assert "stopped" not in instance.watched.events
    assert instance.watched.judged[-1].state is Progress.ADVANCING


def test_the_first_request_that_kernels_are_compiled_for() -> None:
    instance = Instance(BOTH, started=WALL)
    instance.rest(5)
    for _ in range(12):
        instance(steps=0.0, running=1.0, sm=(100.0, 0.0, 100.0, 100.0), moved=0.0)
    instance.work(10)
    assert instance.watched.events == []


def test_idle_with_no_request_and_one_after_an_hour(instance: Instance) -> None:
    instance.work(5)
    instance.rest(130)
    instance.work(4)
    instance.rest(130)
    assert "stopped" not in instance.watched.events
    if Plane.ENGINE in instance.watched.expected:
        assert instance.watched.judged[-1].state is Progress.IDLE


@pytest.mark.parametrize("plane", [Plane.ENGINE, Plane.HARDWARE])
def test_scrapes_that_fail_one_by_one_and_for_minutes(plane: Plane) -> None:
    instance = Instance(BOTH)
    instance.work()
    for number in range(40):
        instance(steps=400.0, failing=plane if number % 2 else None)
    for _ in range(40):
        instance(steps=400.0, failing=plane)
    instance.work(5)
    assert instance.watched.events == []
    assert instance.watched.states <= {Progress.ADVANCING, Progress.UNKNOWN}


def test_what_is_lost_from_sight_is_told_with_the_reason() -> None:
    instance = Instance(ENGINE)
    instance.work(10)
    for _ in range(10):
        instance(None)
    told = instance.watched.judged[-1]
    assert (told.state, instance.watched.events) == (Progress.UNKNOWN, ["lost sight"])
    assert "no answer within 2 s" in told.reason
    assert "advanced" not in told.reason


def test_counters_that_begin_anew_while_requests_wait() -> None:
    instance = Instance(ENGINE)
    instance.work()
    instance.steps = 0.0
    for _ in range(3):
        instance(steps=0.0)
    instance.work(5)
    assert instance.watched.events == ["restarted"]


@pytest.mark.parametrize("jump", [-7200.0, -3.0, 3.0, 7200.0, 4e8])
def test_a_wall_clock_that_is_set(instance: Instance, jump: float) -> None:
    instance.work()
    instance.watched.set_by = jump
    instance.work(10)
    instance.rest(10)
    instance.watched.set_by = 0.0
    instance.work(10)
    assert "stopped" not in instance.watched.events


@pytest.mark.parametrize("seconds", [30.0, 600.0])
def test_a_machine_that_was_suspended_with_its_instance(instance: Instance, seconds: float) -> None:
    """The page after it is as the one before: nobody has worked, and nobody has looked."""
    instance.work()
    instance.watched.now += seconds
    instance(sm=100.0, moved=0.0)
    instance.work(10)
    assert instance.watched.events == []


def test_one_page_that_shows_nothing_new_after_failed_scrapes_is_no_stop() -> None:
    """A server whose event loop is blocked answers with what it knew before."""
    instance = Instance(ENGINE)
    instance.work()
    for _ in range(2):
        instance(None)
    instance()
    instance.work(10)
    assert instance.watched.events == []


def test_a_restart_under_load() -> None:
    instance = Instance(BOTH)
    instance.work()
    for _ in range(4):
        instance(None, sm=0.0, moved=0.0)
    instance.watched.window.feed(instance.watched.now, instance.watched.wall, facts("b", RANKS, instance.watched.wall))
    instance.steps = 0.0
    for _ in range(30):
        instance(None, sm=(100.0, 0.0, 100.0, 0.0), moved=0.0, taken=1e6)
    instance.work(10)
    assert "stopped" not in instance.watched.events


def test_a_drained_instance_is_draining_and_its_stop_is_still_a_stop() -> None:
    instance = Instance(ENGINE)
    instance.work(10)
    instance.watched.draining = True
    instance.work(5)
    instance.rest(10)
    told = instance.watched.judged[-1]
    assert (told.state, told.since) == (Progress.DRAINING, 50.0)
    assert "being drained" in told.reason
    assert instance.watched.events == []
    for _ in range(5):
        instance(steps=0.0)
    assert instance.watched.judged[-1].state is Progress.STOPPED
    assert instance.watched.events == ["stopped"]


def test_replicas_of_one_gpu_each_compute_at_full_load_and_exchange_nothing() -> None:
    """By GPUs alone nobody can tell it from a stop: the plane is blind, and nobody is called."""
    instance = Instance(HARDWARE)
    for _ in range(200):
        instance(sm=100.0, moved=0.0)
    assert instance.watched.events == []
    with_pages = Instance(BOTH)
    for number in range(60):
        with_pages(steps=400.0, sm=100.0, moved=0.0, failing=Plane.ENGINE if number % 3 == 0 else None)
    assert with_pages.watched.events == []
    (report,) = with_pages.watched.judged[-1].quiet_planes
    assert (report.plane, report.state) == (Plane.HARDWARE, PlaneState.BLIND)
