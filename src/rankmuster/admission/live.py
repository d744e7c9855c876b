"""This node as the source of an admission: fingerprint, facts and benchmark, each with a time limit of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.admission.kernel_source import KernelRead
from rankmuster.admission.load_watch import LoadWatch
from rankmuster.admission.measuring import measure
from rankmuster.admission.node_facts import node_facts, ports
from rankmuster.admission.past import Past
from rankmuster.admission.plan import Sources, Taken
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.baseline.fingerprint.setting_names import PREFIX
from rankmuster.bench.builtin.environment import safeguards
from rankmuster.bench.tool import How
from rankmuster.collect.fingerprint import take
from rankmuster.collect.machine import Machine

TAKE_SECONDS = 30.0
"""For a fingerprint; what takes longer is unknown. NVML needs 1 to 3 s, a hung one is left behind."""


@dataclass(frozen=True, slots=True)
class Live:
    """`profile_key`: of the benchmark that belongs to the fingerprint. `kernel_log`: one that was given, instead of
    the machine's.

    `dcgm_level`: 0 for none. `image`, `python`: what is known of the instance that the node is admitted for.
    """

    how: How
    profile_key: str
    kernel_log: KernelRead | None = None
    dcgm_level: int = 0
    image: str | None = None
    python: Path | None = None
    machine: Machine | None = None
    take_seconds: float = TAKE_SECONDS


def environment_of(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What the benchmark runs with, for the fingerprint: of a shell's NCCL_* values the safeguards alone reach a
    benchmark (`bench.builtin.environment`), and `given` do."""
    others = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    return {**others, **safeguards(environ), **given}


def live_sources(live: Live, past: Past) -> Sources:
    """The sources; ports are read now, to tell errors that come with the benchmark from earlier ones."""
    machine = live.machine or Machine()
    watch = LoadWatch()
    before = ports(machine)
    boot = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    environ = environment_of(live.how.environ, live.how.given)

    def look() -> Taken:
        path = take(
            machine,
            deadline_s=live.take_seconds,
            environ=environ,
            now=time.time,
            python=live.python,
            image=live.image,
        )
        return Taken(path, fingerprint_of(path, profile_key=live.profile_key))

    return Sources(
        take=look,
        facts=lambda: node_facts(
            machine,
            boot=boot,
            log=live.kernel_log,
            before=before,
            load=watch.seen(),
            dcgm_level=live.dcgm_level,
        ),
        measure=partial(measure, how=live.how, watch=watch),
        now=time.time,
        past=past,
    )
