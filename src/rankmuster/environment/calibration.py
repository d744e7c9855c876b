"""Numbers for one instance from its recorded load: what to set, on what grounds, and what it costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.environment import log_volume, overhead, ring_size, timeouts
from rankmuster.environment.calibrated import Value
from rankmuster.environment.recorded import Recorded
from rankmuster.environment.version import Version


@dataclass(frozen=True, slots=True)
class Calibration:
    """All values, in a fixed order. `notes`: what must be known to trust them. `bundles`: what was read."""

    bundles: tuple[str, ...]
    window: float
    values: tuple[Value, ...]
    notes: tuple[str, ...]

    @property
    def decided(self) -> bool:
        """Whether everything that is to be set is."""
        return all(value.number is not None for value in self.values if value.to_set)


class NothingRecorded(Exception):
    """No bundle holds anything that a number can be made of."""


DEFAULT_WINDOW = 10.0
"""Seconds. Ranks dump at different moments: the pipe is looked into every second and a dump with stacks takes another
1.5 s, so two ranks' rings may be 3 s apart; three times that, and they still have enough in common to compare."""


def calibrate(bundles: Sequence[Recorded], *, window: float = DEFAULT_WINDOW, torch: Version) -> Calibration:
    """Combines all bundles. Raises NothingRecorded."""
    rings = [ring for bundle in bundles for ring in bundle.rings if ring.entries]
    logs = [log for bundle in bundles for log in bundle.logs]
    if not rings and not logs and all(bundle.step_rate is None for bundle in bundles):
        raise NothingRecorded(
            "no Flight Recorder dump with entries, no stamped log and no moving metrics page is in it; record one with "
            "`rankmuster collect --dumps always` while the instance is under its ordinary load"
        )
    size, stacks = ring_size.ring(bundles, window, torch)
    values = (
        size,
        *ring_size.dump(rings, size, stacks=stacks),
        ring_size.cpp_stacks(bundles),
        *log_volume.volumes(bundles),
        timeouts.collective(rings),
        timeouts.dump_wait(size, stacks=stacks),
        timeouts.heartbeat(rings, size, stacks=stacks),
        overhead.timing(bundles),
    )
    return Calibration(tuple(bundle.bundle for bundle in bundles), window, values, _notes(bundles))


def _notes(bundles: Sequence[Recorded]) -> tuple[str, ...]:
    notes = []
    still = [b.bundle for b in bundles if b.rings and not any(ring.moving for ring in b.rings)]
    if still:
        notes.append(
            f"{len(still)} of {len(bundles)} bundles hold dumps of a job that did not move: its rate is that of before "
            "the stop, and waits of the fault may be among the durations"
        )
    names = {bundle.instance[0] for bundle in bundles if bundle.instance[0]}
    if len(names) > 1:
        notes.append(f"{len(names)} different instances were given; the largest need of any of them is what counts")
    notes.append(
        "only collectives that torch issues itself are counted: none of PyNccl, and none of CUDA-graph replays"
    )
    return tuple(notes)
