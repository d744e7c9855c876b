"""The built-in benchmark with real ranks over gloo: whole runs, hangs, deaths, and who is named.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankmuster.bench.builtin.orders import Backend
from rankmuster.bench.builtin.run import run_builtin
from rankmuster.model.benchmark import BenchmarkRun, Operation, Profile, RunState, Step

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

PATIENCE = 60.0
"""Seconds for one run; importing torch three times on a small machine takes most of it."""

LONG = Profile("long", "", (Step(Operation.ALL_REDUCE, (1 << 20,), "float", iterations=1_000_000),))


def measured(profile: Profile, ranks: int = 3, limit: float = PATIENCE, **more: object) -> BenchmarkRun:
    return run_builtin(profile, gpus=ranks, environment={}, time_limit_s=limit, backend=Backend.GLOO, **more)  # type: ignore[arg-type]


def every(dtype: str, in_place: bool = False) -> Profile:
    steps = [
        Step(operation, (8192, 300_000), dtype, in_place=in_place, iterations=4, warmup=1) for operation in Operation
    ]
    return Profile("every", "", tuple(steps))


def test_every_operation_is_measured_and_right() -> None:
    run = measured(every("float"))
    assert run.state is RunState.COMPLETE, run.reason
    assert [(row.cell.operation, row.cell.size_bytes) for row in run.measurements] == [
        (operation, size) for operation in Operation for size in (8192, 300_000)
    ]
    for row in run.measurements:
        assert row.wrong == 0
        assert len(row.iterations_us) == 4
        assert len(row.ranks_us) == 3
        assert row.time_us > 0
        assert row.busbw == pytest.approx(row.algbw * row.cell.operation.bus_factor(3))
    assert [rank.rank for rank in run.ranks] == [0, 1, 2]
    assert run.tool == "built-in"
    assert "in place only" in run.reason  # torch has all_reduce so, and the cell says it
    assert run.measurements[0].cell.in_place


@pytest.mark.parametrize(("dtype", "in_place"), [("bfloat16", False), ("half", True), ("int32", False)])
def test_values_are_right_in_other_types_and_in_place(dtype: str, in_place: bool) -> None:
    run = measured(every(dtype, in_place), ranks=2)
    assert run.state is RunState.COMPLETE, run.reason
    assert all(row.wrong == 0 for row in run.measurements)
    assert ("all_to_all has no in-place form" in run.reason) is in_place


def test_wrong_elements_are_counted() -> None:
    """On the buffers of one rank: an element is changed, another lost, one comes from elsewhere."""
    import torch

    from rankmuster.bench.builtin.buffers import Arena, Slots
    from rankmuster.bench.builtin.layout import layout

    shape = layout(Operation.ALL_GATHER, 64_000, "bfloat16", 4)
    assert shape is not None
    slots, whole = [], None
    for rank in range(4):
        arena = Arena(shape.slot, "bfloat16", torch.device("cpu"))
        slots.append(Slots(arena, Operation.ALL_GATHER, shape, rank, 4, False))
        slots[-1].fill()
    whole = torch.cat([one.tensors(0)[0] for one in slots])
    recv = slots[2].tensors(0)[1]
    assert slots[2].wrong() == shape.recv  # nothing was received yet
    recv.copy_(whole)
    assert slots[2].wrong() == 0
    recv[5] += 1
    recv[6] = float("nan")
    assert slots[2].wrong() == 2
    recv.copy_(torch.cat([whole[shape.count :], whole[: shape.count]]))  # each part from the next rank
    assert slots[2].wrong() > 0.9 * shape.recv


def test_ranks_get_only_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("SOME_TOKEN", "s3cret")
    seen: dict[int, bytes] = {}

    def look(pids: dict[int, int]) -> None:
        for rank, pid in pids.items():
            seen[rank] = Path(f"/proc/{pid}/environ").read_bytes()
        os.kill(pids[0], signal.SIGKILL)

    with during(look, ranks=2):
        run = run_builtin(
            LONG,
            gpus=2,
            environment={"NCCL_PROTO": "LL"},
            time_limit_s=PATIENCE,
            backend=Backend.GLOO,
            keep=tmp_path / "kept",
        )
    assert len(seen) == 2
    for content in seen.values():
        assert b"NCCL_PROTO=LL" in content
        assert b"NCCL_ALGO" not in content
        assert b"s3cret" not in content
    assert run.environment == (("NCCL_PROTO", "LL"),)
    assert (tmp_path / "kept" / "output_1.txt").exists()


def test_a_rank_that_dies_is_named() -> None:
    with during(lambda pids: os.kill(pids[1], signal.SIGKILL)):
        run = measured(LONG)
    assert run.state is RunState.ERROR
    assert run.reason.startswith("rank 1 was killed by signal 9")
    assert all_gone()


def test_a_rank_that_stops_is_named_and_everything_ends_at_the_limit() -> None:
    began = time.monotonic()
    with during(lambda pids: os.kill(pids[2], signal.SIGSTOP)):
        run = measured(LONG, limit=15.0)
    assert time.monotonic() - began < 22.0
    assert run.state is RunState.HUNG
    assert "rank 2's process is stopped" in run.reason or "rank 2 (" in run.reason
    assert "all_reduce of 1048576 bytes" in run.reason
    assert all_gone()


def test_no_rank_outlives_a_parent_that_is_killed() -> None:
    program = (
        "from rankmuster.bench.builtin.orders import Backend; from rankmuster.bench.builtin.run import run_builtin; "
        "from rankmuster.model.benchmark import *; "
        "step = Step(Operation.ALL_REDUCE, (1 << 20,), 'float', iterations=1_000_000); "
        "run_builtin(Profile('long', '', (step,)), gpus=2, environment={}, time_limit_s=60, backend=Backend.GLOO)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    end = time.monotonic() + PATIENCE
    while len(pids := ranks_of(parent.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(pids) == 2
    time.sleep(3)
    parent.kill()
    parent.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in pids.values()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())


def test_an_interpreter_without_torch_is_an_error_that_says_so(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    wrapper.chmod(0o755)
    run = measured(every("float"), ranks=2, python=str(wrapper))
    assert run.state is RunState.ERROR
    assert "No module named 'torch'" in run.reason


def test_what_cannot_be_measured_is_said_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="two ranks"):
        measured(every("float"), ranks=1)
    with pytest.raises(ValueError, match="uint64"):
        measured(every("uint64"))


def ranks_here() -> dict[int, int]:
    return ranks_of(os.getpid())


def ranks_of(starter: int) -> dict[int, int]:
    """Rank -> pid of the benchmark's processes that another one has started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        orders = next((word for word in words if word.startswith(b"{") and b'"rank":' in word), None)
        if orders is not None and parent == starter:
            found[int(orders.partition(b'"rank":')[2].partition(b",")[0])] = int(folder.name)
    return found


def all_gone() -> bool:
    return not ranks_here()


class during:  # noqa: N801  # reads as a word
    """Calls `act` with rank -> pid once all ranks have worked for a moment, beside what the block does."""

    def __init__(self, act: Callable[[dict[int, int]], None], ranks: int = 3) -> None:
        self._act, self._ranks = act, ranks
        self._thread = threading.Thread(target=self._wait)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            pids = ranks_here()
            if len(pids) == self._ranks and all(working(pid) for pid in pids.values()):
                time.sleep(0.5)
                self._act(pids)
                return
            time.sleep(0.1)


def working(pid: int) -> bool:
    """Whether it has opened its connections to the others: gloo's sockets, besides the pipe and the store."""
    try:
        links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return sum(link.startswith("socket:") for link in links) >= 2


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert all_gone()
