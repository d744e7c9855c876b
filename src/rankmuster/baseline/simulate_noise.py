"""How results of a healthy fleet scatter, for simulations: measured where it could be, assumed and said where not.

Fitted to eight healthy runs of `all_reduce_perf` on four H200s of one machine (16 sizes, in and out of place, one
process each, 20 iterations) and the iterations of three more; `tests/baseline/test_simulate_noise.py` holds the
numbers against these runs. One machine on one day shows no spread between nodes, days and sessions: these are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankmuster.model.hardware import Floats

SIZES = tuple(1 << power for power in range(13, 29))
"""Bytes: 8 KiB to 256 MiB, as measured."""

FAST_US = (27.3, 29.3, 29.1, 30.9, 31.6, 33.4, 34.5, 35.9, 35.3, 43.2, 62.5, 101.5, 176.0, 325.5, 615.7, 1191.0)
"""Microseconds per size of an all-reduce over four ranks, in the fast mode where there are two. Measured: medians."""

MODE_GAP = (0.36, 0.28, 0.30, 0.28, 0.29, 0.29, 0.31, 0.27, 0.30, 0.14, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""ln(slow mode / fast mode) per size. Measured."""

LINK_BOUND_FROM = 8 << 20
"""Bytes. Measured: from here on the scatter is that of the links, although 8 MiB is judged as transition."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of logarithms; `small_*` where latency rules, the others where the links do.

    Measured: `run_sd` (all sizes of a process together), `size_sd` (each by itself), `small_size_sd`, `slow_share`
    (processes of the slow mode), `mixed_share` (processes whose sizes are of either mode), `flip_share` (single sizes
    of the other mode). Assumed: spreads of nodes, days and sessions; `contended_share` and `errored_share` of runs,
    and `unnoticed_share` of the contended ones that nobody notices. `tail_dof`: Student's t, scaled to the given
    standard deviation, for runs and sizes: longer tails than a normal distribution.
    """

    node_sd: float = 0.007
    operation_sd: float = 0.003
    day_sd: float = 0.002
    session_sd: float = 0.004
    run_sd: float = 0.0037
    size_sd: float = 0.0045
    small_node_sd: float = 0.03
    small_session_sd: float = 0.02
    small_size_sd: float = 0.045
    slow_share: float = 0.65
    mixed_share: float = 0.12
    flip_share: float = 0.06
    tail_dof: float = 5.0
    contended_share: float = 0.01
    unnoticed_share: float = 0.05
    errored_share: float = 0.005
    contended_loss: float = 0.55

    def scaled(self, factor: float) -> Noise:
        """A fleet whose link-bound results scatter by `factor` more: several nodes over a shared fabric."""
        return replace(
            self,
            node_sd=self.node_sd * factor,
            operation_sd=self.operation_sd * factor,
            day_sd=self.day_sd * factor,
            session_sd=self.session_sd * factor,
            run_sd=self.run_sd * factor,
            size_sd=self.size_sd * factor,
        )


CALIBRATED = Noise()


def student(rng: np.random.Generator, dof: float, shape: tuple[int, ...]) -> Floats:
    """Student's t with a standard deviation of one."""
    return np.asarray(rng.standard_t(dof, shape) / np.sqrt(dof / (dof - 2)))


def slow_modes(rng: np.random.Generator, noise: Noise, shape: tuple[int, int]) -> Floats:
    """1.0 where a process has a size in its slow mode; shape (processes, sizes). Modes stick to a process."""
    processes, sizes = shape
    prefers = rng.random((processes, 1)) < noise.slow_share
    mixed = rng.random((processes, 1)) < noise.mixed_share
    flips = rng.random((processes, sizes)) < np.where(mixed, 0.5, noise.flip_share)
    return np.asarray(prefers ^ flips, dtype=np.float64)
