"""A fleet of one class whose nodes are measured over weeks: its results, as the judge's own inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.simulate_noise import FAST_US, LINK_BOUND_FROM, MODE_GAP, SIZES, Noise, slow_modes, student
from rankmuster.model.benchmark import BenchmarkRun, Cell, Measurement, Operation, RunState
from rankmuster.model.hardware import Floats
from rankmuster.model.history import CellHistory, ClassHistory, Ints

DAY_S = 86400.0
START_S = 1_790_000_000.0
"""Unix seconds of the first day: any will do."""

OPERATIONS = (Operation.ALL_REDUCE, Operation.ALL_GATHER)
"""What each admission measures: with three regimes six groups, four of which may refuse."""

RANKS = 4


@dataclass(frozen=True, slots=True)
class Loss:
    """A fault: times longer by 1 / (1 - x) at sizes from `from_bytes` to `to_bytes`, of all operations or of one."""

    share: float
    from_bytes: int = 0
    to_bytes: int = 1 << 62
    operation: Operation | None = None


HEALTHY = Loss(0.0)


class Fleet:
    """`nodes` nodes over `days` days; all effects of nodes and days are drawn at once, those of runs on demand."""

    def __init__(self, noise: Noise, rng: np.random.Generator, *, nodes: int = 1000, days: int = 30) -> None:
        self.noise, self.rng, self.nodes, self.days = noise, rng, nodes, days
        count = len(OPERATIONS)
        self._node = rng.normal(0, noise.node_sd, (nodes, 1)) + rng.normal(0, noise.operation_sd, (nodes, count))
        self._small_node = rng.normal(0, noise.small_node_sd, (nodes, 1)) * np.ones((1, count))
        self._day = rng.normal(0, noise.day_sd, days)
        self.cells = tuple(Cell(operation, size, "bfloat16") for operation in OPERATIONS for size in SIZES)
        self._size = np.array([cell.size_bytes for cell in self.cells])
        self._of = np.array([OPERATIONS.index(cell.operation) for cell in self.cells])
        self._linked = self._size >= LINK_BOUND_FROM
        factor = np.array([cell.operation.bus_factor(RANKS) for cell in self.cells])
        self._base = np.log(np.tile(FAST_US, count))
        self._gap = np.tile(MODE_GAP, count)
        self._work = self._size * factor / 1e3

    def session(self, count: int) -> Floats:
        """Effects of `count` sessions (one visit of a node, several processes): shape (count, 2), links and latency."""
        sd = np.array([self.noise.session_sd, self.noise.small_session_sd])
        return np.asarray(self.rng.normal(0, 1, (count, 2)) * sd)

    def times(self, node: Ints, day: Ints, session: Floats, *, loss: Loss = HEALTHY, contended: bool = True) -> Floats:
        """Microseconds of one process each, shape (runs, cells). Unnoticed contention is in it where `contended`."""
        noise, rng, runs = self.noise, self.rng, len(node)
        links = self._node[node][:, self._of] + self._day[day][:, None] + session[:, :1]
        links = links + noise.run_sd * student(rng, noise.tail_dof, (runs, 1))
        links = links + noise.size_sd * student(rng, noise.tail_dof, (runs, len(self.cells)))
        small = self._small_node[node][:, self._of] + session[:, 1:]
        small = small + noise.small_size_sd * student(rng, noise.tail_dof, (runs, len(self.cells)))
        small = small + self._gap * slow_modes(rng, noise, (runs, len(self.cells)))
        log_time = self._base + np.where(self._linked, links, small) + self.slower(loss)
        if contended:
            hit = rng.random(runs) < noise.contended_share * noise.unnoticed_share
            log_time[hit] -= np.log1p(-noise.contended_loss)
        return np.asarray(np.exp(log_time))

    def slower(self, loss: Loss) -> Floats:
        """ln(time with the fault / without) per cell."""
        hit = (self._size >= loss.from_bytes) & (self._size <= loss.to_bytes)
        if loss.operation is not None:
            hit &= self._of == OPERATIONS.index(loss.operation)
        return np.where(hit, -np.log1p(-loss.share), 0.0)

    def history(self, times: Floats, node: Ints, at: Floats, kept_out: Mapping[str, int] | None = None) -> ClassHistory:
        """The class's history of these runs, oldest first, as the store gives it."""
        order = np.argsort(at, kind="stable")
        times, node, at = times[order], node[order], at[order]
        run = np.arange(len(at))
        nothing = np.full(len(at), np.nan)
        cells = {
            cell: CellHistory(cell, run, self._work[column] / times[:, column], times[:, column], nothing)
            for column, cell in enumerate(self.cells)
        }
        return ClassHistory(
            class_hash="class",
            profile="simulated@0",
            nodes=tuple(f"node-{one}" for one in node),
            started_at=at,
            records=tuple(f"run-{one}" for one in run),
            cells=cells,
            change_points=(),
            total=len(at),
            kept_out=kept_out or {},
        )

    def run(self, times: Floats) -> BenchmarkRun:
        """One process's results, times of shape (cells,), as a benchmark gives them."""
        measured = tuple(
            Measurement(cell, time, cell.size_bytes / time / 1e3, work / time, 0)
            for cell, time, work in zip(self.cells, times.tolist(), self._work.tolist(), strict=True)
        )
        return BenchmarkRun(
            source="simulated",
            tool="simulated",
            tool_version=None,
            nccl_version=None,
            started_at=None,
            state=RunState.COMPLETE,
            reason="",
            ranks=(),
            measurements=measured,
        )
