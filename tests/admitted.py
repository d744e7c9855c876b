"""A real node of four H200s as it was captured, its recorded benchmarks, and histories of them in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from rankmuster.admission.facts import NodeFacts
from rankmuster.admission.past import NoPast, Past
from rankmuster.admission.plan import Outcome, Plan, Sources, Taken
from rankmuster.admission.run import admit
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.bench.record import history_run
from rankmuster.evidence import bundle
from rankmuster.evidence.nccl_tests import read_runs
from rankmuster.evidence.node_path import from_evidence
from rankmuster.evidence.node_path_readers import for_node_paths
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, Operation, Profile, Step
from rankmuster.model.fingerprint import NONE, Fingerprint
from rankmuster.model.node_path import NicPath, NicPort, NodePath
from rankmuster.store.history import History

SAMPLES = Path(__file__).parent / "admission" / "h200-x4"
HEALTHY = tuple(f"ar_{number}.txt" for number in range(1, 9))
START = 1_796_000_000.0

PROFILE = Profile(
    "all-reduce",
    "what the samples measured",
    (
        Step(
            Operation.ALL_REDUCE,
            tuple(8192 * 2**step for step in range(16)),
            dtype="float",
            iterations=20,
            warmup=5,
        ),
    ),
)

_TEXTS = ("smi_", "nvlink", "topo", "shm", "sysnet", "syspci", "lscpu", "numactl")
_NCCL = {"NCCL_NVLS_ENABLE": "0"}


@cache
def captured() -> NodePath:
    """The node from its captured text alone: software, environment and the NIC's model are not in it."""
    found: list[object] = []
    for path in sorted(SAMPLES.iterdir()):
        if path.name.startswith(_TEXTS):
            evidence = bundle.load(path, readers=for_node_paths())
            found += [each for kind in evidence.by_type.values() for each in kind]
    return from_evidence(found, taken_at=START)


def node_path(settings: Mapping[str, str] | None = None, *, host: str = "node7") -> NodePath:
    """The same as taken live: what no text tells is known. `settings`: NCCL_* values beside the class's own."""
    path = captured()
    software = replace(
        path.software,
        image_digest=NONE,
        cuda_runtime="13.0",
        nccl="2.28.9",
        pytorch="2.11.0",
        engine=NONE,
        engine_version=NONE,
    )
    container = replace(
        path.container,
        container=NONE,
        memlock_bytes=float("inf"),
        cgroup="/",
        devices=("nvidia",),
        iommu="off",
        gpudirect="none",
    )
    return replace(
        path,
        host=host,
        software=software,
        container=container,
        nics=(),
        nccl_settings={**_NCCL, **(settings or {})},
    )


def taken(settings: Mapping[str, str] | None = None, *, host: str = "node7") -> Taken:
    """A look at the node."""
    path = node_path(settings, host=host)
    return Taken(path, fingerprint_of(path, profile_key=PROFILE.key))


def run_of(name: str, **changes: object) -> BenchmarkRun:
    """A recorded run; `changes`: fields of it, as a log beside it would say."""
    (run,) = read_runs((SAMPLES / name).read_bytes(), name)
    return replace(run, **changes)  # type: ignore[arg-type]


def kept(run: BenchmarkRun, fingerprint: Fingerprint, number: int) -> HistoryRun:
    """The run as the history keeps it, `number` hours after the start."""
    return history_run(run, fingerprint, PROFILE, started_at=START + 3600 * number)


def fill(url: Path, names: Sequence[str] = HEALTHY, **changes: object) -> None:
    """A history of the class with these runs, in SQLite."""
    with History.open(str(url)) as history:
        look = taken()
        history.put_many([kept(run_of(name, **changes), look.fingerprint, n) for n, name in enumerate(names)])


QUIET = NodeFacts(kernel=(), services=(), ports=())
"""A node whose kernel log, services and ports could be read and say nothing."""


def admission(
    runs: Sequence[BenchmarkRun],
    past: Past | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    facts: NodeFacts = QUIET,
    plan: Plan | None = None,
    look: Callable[[], Taken] | None = None,
) -> Outcome:
    """One admission over recorded runs: the first, then those after it as re-tests."""
    waiting = list(runs)
    clock = iter(range(100_000))
    return admit(
        plan or Plan(PROFILE, retests=len(runs) - 1),
        Sources(
            take=look or (lambda: taken(settings)),
            facts=lambda: facts,
            measure=lambda _profile, _attempt: waiting.pop(0),
            now=lambda: START + 90_000 + next(clock),
            past=past or NoPast(),
        ),
    )


def check(name: str, state: CheckState, group: CheckGroup = CheckGroup.HARDWARE, **more: object) -> Check:
    """A check made by hand."""
    words = {"subject": "the node", "statement": f"{name} says so", **more}
    return Check(name, group, state, **words)  # type: ignore[arg-type]


def state_of(checks: list[Check], name: str) -> CheckState:
    """The worst of the checks of that name."""
    states = [check.state for check in checks if check.name == name]
    assert states, f"no check {name} among {[check.name for check in checks]}"
    return next((state for state in states if state is not CheckState.PASS), CheckState.PASS)


def with_nic(path: NodePath, **container: object) -> NodePath:
    """With one RDMA NIC; `container`: what of the container is another."""
    port = NicPort(1, "PORT_ACTIVE", "InfiniBand", 400.0, 4096, ())
    nic = NicPath("mlx5_0", True, "0000:18:00.0", "MT4129", "28.39", "a088", 0, "ib0", (port,))
    devices: dict[str, object] = {"devices": ("uverbs",), "gpudirect": "dmabuf", **container}
    return replace(path, nics=(nic,), container=replace(path.container, **devices))


def statement(checks: list[Check], name: str) -> str:
    """Of the first check of that name that did not pass."""
    return next(check.statement for check in checks if check.name == name and check.state is not CheckState.PASS)
