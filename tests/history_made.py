"""Runs, fingerprints and records for tests of the history, with only what the test is about said."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from rankmuster.model.admission import AdmissionRecord, Decision, Kinship
from rankmuster.model.benchmark import AlgorithmChoice, Cell, HistoryRun, HistoryValue, Operation, RunState
from rankmuster.model.fingerprint import Fingerprint, NetworkDevice
from rankmuster.model.history import ChangePoint, ChangeState

DAY = 86_400.0

START = 1_760_000_000.0

PROFILE = "tp8-decode@0123456789ab"

CELLS = tuple(Cell(Operation.ALL_REDUCE, 1 << power, "bfloat16") for power in (10, 20, 26))


def hash_of(word: str) -> str:
    """A hash as a fingerprint has them."""
    return "sha256:" + hashlib.sha256(word.encode()).hexdigest()


CLASS, KIN = hash_of("class"), hash_of("kin")


def run(
    number: int = 0,
    *,
    node: str = "node-a",
    at: float | None = None,
    state: RunState = RunState.COMPLETE,
    class_hash: str = CLASS,
    kin_hash: str = KIN,
    settings: Sequence[tuple[str, str]] = (("NCCL_PROTO", "Simple"),),
    busbw: float = 100.0,
    cells: Sequence[Cell] = CELLS,
    profile: str = PROFILE,
) -> HistoryRun:
    """A run of one start a day, with results that tell it from every other."""
    started_at = START + number * DAY if at is None else at
    values = tuple(
        HistoryValue(cell, 1000.0 / (busbw + number), busbw + number, 9.0, 9.5, None, 1.25, float(index))
        for index, cell in enumerate(cells)
    )
    return HistoryRun(
        record=hash_of(f"{class_hash} {profile} {node} {started_at} {number} {state.value} {busbw}"),
        class_hash=class_hash,
        kin_hash=kin_hash,
        node_hash=hash_of(node),
        host=node,
        profile=profile,
        tool="built-in",
        started_at=started_at,
        state=state,
        reason="" if state is RunState.COMPLETE else f"it was {state.value}",
        settings=tuple(settings),
        choices=(
            AlgorithmChoice("AllReduce", 1024, "RING", "LL", 24),
            AlgorithmChoice("AllReduce", 1, "TREE", "LL", None),
        ),
        values=values if state is not RunState.ERROR else (),
    )


def change(
    at: float, *, cell: Cell | None = None, state: ChangeState = ChangeState.OPEN, **others: object
) -> ChangePoint:
    """A step down by a tenth."""
    point = ChangePoint(CLASS, PROFILE, cell, at, 100.0, 90.0, 12, state, "a new switch")
    return replace(point, **others)  # type: ignore[arg-type]


def fingerprint(*, node: str = "node-a", taken_at: float = START, driver: str = "580.95.05") -> Fingerprint:
    """One with every hash known."""
    return Fingerprint(
        host=node,
        taken_at=taken_at,
        image_digest="none",
        cuda_version="13.0",
        nccl_version="2.28.9",
        pytorch_version="2.11.0",
        engine="none",
        engine_version="none",
        gpu_model="NVIDIA H200",
        gpu_count=8,
        driver=driver,
        topology_hash=hash_of("topology"),
        nccl_test_profile=PROFILE,
        network_device_set=(NetworkDevice("MT4129", "InfiniBand", 400.0, "28.39", 8),),
        nic_order=(0, 1, 2, 3, 4, 5, 6, 7),
        settings={"NCCL_PROTO": "Simple"},
        kin_hash=KIN,
        class_hash=CLASS,
        node_hash=hash_of(node),
    )


def admission(word: str = "one", *, nodes: Sequence[str] = ("node-a",), started_at: float = START) -> AdmissionRecord:
    """A pass of a node."""
    return AdmissionRecord(
        decision=Decision.PASS,
        reasons=("within the class",),
        nodes=tuple(nodes),
        started_at=started_at,
        ended_at=started_at + 60,
        fingerprint={"class_hash": CLASS},
        profile=PROFILE,
        compared_with=CLASS,
        kinship=Kinship.CLASS,
        history_runs=30,
        history_nodes=10,
        checks=(),
        judgements=(),
        hash=hash_of(word),
    )
