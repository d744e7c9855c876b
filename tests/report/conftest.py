"""Verdicts and jobs made by hand: four ranks of one group, of which rank 2 never entered #751."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Phase, Progress, Role, Scope, Subkind, SuspectKind
from rankmuster.model.flight import FlightColumns, FlightDump, FlightGroup, State
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.job import DumpFacts, Group, Job, Rank, RankGroupView
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.ras import RasCommunicator, RasPoll, RasRank
from rankmuster.model.stamp import unix
from rankmuster.model.verdict import (
    FindingRecord,
    FirstDivergence,
    PlaneRecord,
    Recovery,
    Suspect,
    Verdict,
    Window,
)

START = 1_795_986_475.0
FAULT = 1_795_986_477.9
LOOK = 1_795_986_503.0
HOST = "10.0.0.7"
MEMBERS = (0, 1, 2, 3)
MISSING = 2
SEQ = 751


def columns(last: int, finished: int, first: int = 740, ops: tuple[str, ...] = ("nccl:all_reduce",)) -> FlightColumns:
    """Collectives `first`..`last` of one group, a millisecond apart, of which those after `finished` had not ended."""
    seq = np.arange(first, last + 1, dtype=np.int64)
    count = len(seq)
    done = seq <= finished
    created = ((FAULT + (seq - SEQ) * 0.001) * 1e9).astype(np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    state = np.where(done, State.COMPLETED, np.where(seq == finished + 1, State.STARTED, State.SCHEDULED))
    return FlightColumns(
        record_id=seq,
        call=(seq % len(ops)).astype(np.int32),
        seq=seq,
        p2p_seq=zeros,
        op_id=seq,
        created_ns=created,
        started_ns=np.where(done, created + 200_000, 0),
        completed_ns=np.where(done, created + 2_500_000, 0),  # each overlaps the next two
        duration_ms=np.full(count, np.nan),
        state=state.astype(np.int8),
        retired=done,
        stack=np.full(count, -1, dtype=np.int32),
        calls=np.array([[0, 0, op, -1, -1, -1, -1, 0, -1] for op in range(len(ops))], dtype=np.int64),
        groups=(FlightGroup("0", "default_pg", MEMBERS, 0),),
        ops=ops,
        sizes=(),
        dtypes=(),
        stacks=(),
    )


def dump(rank: int, table: FlightColumns) -> FlightDump:
    return FlightDump(f"flight/nccl_trace_rank_{rank}", rank, None, "pickle", (2, 10), None, table, {})


def track(rank: int, util: float, moving: bool) -> GpuTrack:
    time = np.arange(START, LOOK, 0.7)
    blank = np.full(len(time), np.nan)
    grown = np.where(time < FAULT, time - START, FAULT - START) if not moving else time - START
    return GpuTrack(
        source="gpu-counters.jsonl",
        host=HOST,
        gpu=rank,
        uuid=None,
        bus_id=None,
        time=time,
        sm_percent=np.where(time < FAULT, 40.0, util),
        memory_percent=blank,
        power_w=np.full(len(time), 130.0),
        clock_mhz=blank,
        nvlink_tx_kib=grown * 1e6,
        nvlink_rx_kib=grown * 1e6,
        pcie_tx_kib=blank,
        pcie_rx_kib=blank,
        rdma_tx_kib=blank,
        rdma_rx_kib=blank,
        pids=tuple((1517 + rank,) for _ in time),
    )


def poll(time: float, counts: dict[int, int], host: str = HOST) -> RasPoll:
    ranks = tuple(
        RasRank(rank, host, 1517 + rank, status="RUNNING", counts={"AllReduce": n}) for rank, n in counts.items()
    )
    return RasPoll(f"ras/{time:.3f}-0.json", unix(time), "0", "json", communicators=(RasCommunicator(1, 4, ranks),))


def page(time: float, tokens: float) -> EnginePage:
    stream = EngineStream("0", 16.0, 0.0, {"generation_tokens": tokens}, {}, {})
    return EnginePage(f"engine/{time:.3f}.prom", unix(time), "vllm", (stream,))


def make_job(host: str = HOST, group: str = "default_pg") -> Job:
    ranks = tuple(Rank(rank, host, 1517 + rank, rank, exit_code=None, has_exit_facts=True) for rank in MEMBERS)
    dumps, facts, views = {}, {}, {}
    for rank in MEMBERS:
        issued = SEQ - 1 if rank == MISSING else SEQ + 4
        table = columns(issued, SEQ - 1)
        table = replace(table, groups=(FlightGroup("0", group, MEMBERS, 0),))
        dumps[rank] = dump(rank, table)
        facts[rank] = DumpFacts(rank, dumps[rank].source, LOOK, "manifest", False, False, len(table), True, True)
        views[0, rank] = RankGroupView(rank, issued, SEQ - 1)
    counts = {rank: SEQ - 1 if rank == MISSING else SEQ + 4 for rank in MEMBERS}
    return Job(
        facts=None,
        ranks=ranks,
        world_size=4,
        groups=(Group(0, "0", group, MEMBERS),),
        dumps=dumps,
        dump_facts=facts,
        views=views,
        polls=tuple(poll(FAULT + seconds, counts, host) for seconds in (2.0, 6.0, 10.0)),
        pages=tuple(page(START + seconds, min(seconds, 3.0) * 500) for seconds in range(28)),
        tracks={rank: track(rank, 0.0 if rank == MISSING else 100.0, False) for rank in MEMBERS},
        first_timeout=FAULT + 10,
        window=(START, LOOK),
    )


def make_verdict(host: str = HOST, group: str = "default_pg", word: str = "") -> Verdict:
    """`word`: foreign text put into every place that can hold some."""
    suspects = [
        Suspect(
            kind=SuspectKind.RANK,
            rank=rank,
            host=host,
            pid=1517 + rank,
            gpu=rank,
            role=Role.CULPRIT if rank == MISSING else Role.VICTIM,
            why=f"its newest operation is #750 {word}" if rank == MISSING else f"waits in #751 {word}",
        )
        for rank in MEMBERS
    ]
    return Verdict(
        instance=f"llm-0{word}",
        window=Window(start=START, end=LOOK, fault_at=FAULT),
        progress=Progress.STOPPED,
        class_=FaultClass.COLLECTIVE_DESYNC,
        subclass=Subkind.MISSING_ENTER,
        confidence=Confidence.CONFIRMED,
        scope=Scope.RANK,
        phase=Phase.SERVING,
        summary=f"Rank 2 never entered all_reduce #751 of default_pg. {word}",
        suspects=tuple(suspects),
        suspect_hosts=(host,),
        first_divergence=FirstDivergence(
            group=group, members=MEMBERS, sequence=SEQ, op="all_reduce", missing=(MISSING,), entered=(0, 1, 3)
        ),
        findings=(
            FindingRecord(
                detector="gpu_idle",
                statement=f"GPU 2 idles. {word}",
                evidence=(f"gpu-counters.jsonl#12{word}",),
                plane=Plane.HARDWARE,
            ),
            FindingRecord(
                detector="missing_enter",
                statement=f"Rank 2 has nothing outstanding. {word}",
                evidence=("flight/nccl_trace_rank_2#750", "flight/nccl_trace_rank_0#751"),
                plane=Plane.FLIGHT,
                led_to_verdict=True,
            ),
        ),
        planes=(
            PlaneRecord(plane=Plane.FLIGHT, state=PlaneState.SPOKE, note=f"4 dumps {word}"),
            PlaneRecord(plane=Plane.KERNEL, state=PlaneState.SILENT, note="no kernel log in the bundle"),
        ),
        recovery=Recovery(
            boundary=Boundary.PROCESS_GROUP,
            steps=(f"Save the dumps of every rank. {word}", "End every process of the group.", "Start it anew."),
            do_not=(f"Do not restart one rank. {word}",),
        ),
        would_decide=(f"the stack of rank 2 {word}",),
        unread=(f"notes.bin{word}",),
        problems=(f"nccl/a.log: a hole of 4 KiB {word}",),
    )


@pytest.fixture
def job() -> Job:
    return make_job()


@pytest.fixture
def verdict() -> Verdict:
    return make_verdict()


@pytest.fixture
def empty_job() -> Job:
    return Job(None, (), None, (), {}, {}, {}, (), (), {})


@pytest.fixture
def blind_verdict() -> Verdict:
    """A verdict of which everything that can be absent is."""
    return Verdict(class_=FaultClass.BLIND)


@pytest.fixture
def by_hand() -> SimpleNamespace:
    """The builders above, for tests that vary what they build."""
    return SimpleNamespace(
        job=make_job,
        verdict=make_verdict,
        columns=columns,
        dump=dump,
        track=track,
        poll=poll,
        page=page,
        start=START,
        fault=FAULT,
        look=LOOK,
        host=HOST,
    )
