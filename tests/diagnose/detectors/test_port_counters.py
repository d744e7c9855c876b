"""Ports in trouble are said, and named where the transport is accused; by themselves they accuse nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping

import build_flight as fr
import pytest
from build_evidence import HOST, T0, flat_pages, instance, said, steady_pages, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.verdict import SuspectKind, Verdict

OTHER = "192.0.2.3"
HOSTS = [HOST, HOST, OTHER, OTHER]


def counters(
    before: Mapping[str, float],
    after: Mapping[str, float],
    states: tuple[str, str] = ("4: ACTIVE", "4: ACTIVE"),
    device: str = "mlx5_0",
    kind: str = "rdma",
) -> Blob:
    """Two looks at one port, 3 s apart."""
    looks = [
        {
            "time": T0 + 15 + 3 * i,
            "host": OTHER,
            "kind": kind,
            "device": device,
            "state": state,
            "counters": dict(values),
        }
        for i, (values, state) in enumerate(zip((before, after), states, strict=True))
    ]
    port = {"port": 1 if kind == "rdma" else None}
    return Blob("network-counters.jsonl", "\n".join(json.dumps(look | port) for look in looks).encode())


def stalled() -> list[Blob]:
    """All have entered and nobody leaves."""
    world = fr.one_group(4, breaks=dict.fromkeys(range(4), 30), timing=True)
    return [*fr.blobs(fr.dumps(world)), instance(hosts=HOSTS)]


def links(verdict: Verdict) -> list[str]:
    return [suspect.link or "" for suspect in verdict.suspects if suspect.kind is SuspectKind.LINK]


@pytest.mark.parametrize(
    "name", ["link_downed", "symbol_error", "local_ack_timeout_err", "req_transport_retries_exceeded"]
)
def test_errors_that_rise_name_the_link_of_a_transport_stall(name: str) -> None:
    verdict = verdict_of([*stalled(), counters({name: 3}, {name: 5})])
    assert verdict.class_ is FaultClass.TRANSPORT_STALL
    assert links(verdict) == [f"mlx5_0 port 1 of {OTHER}"]
    assert f"{name} rose by 2" in said(verdict)


def test_a_port_that_went_down_is_named_too() -> None:
    verdict = verdict_of([*stalled(), counters({}, {"x": 1}, states=("4: ACTIVE", "1: DOWN"))])
    assert links(verdict) == [f"mlx5_0 port 1 of {OTHER}"]
    assert "it is 1: DOWN" in said(verdict)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"symbol_error": 4}, {"symbol_error": 4}),
        ({"local_ack_timeout_err": 900}, {"local_ack_timeout_err": 2}),  # the driver was loaded anew
        ({"out_of_sequence": 4}, {"out_of_sequence": 400}),  # adaptive routing
        ({"port_rcv_errors": 4}, {}),
    ],
)
def test_what_does_not_rise_says_nothing(before: Mapping[str, float], after: Mapping[str, float]) -> None:
    verdict = verdict_of([*stalled(), counters(before, after)])
    assert links(verdict) == []
    assert "Between two looks" not in said(verdict)


def test_a_word_that_wraps_has_risen() -> None:
    name = "local_ack_timeout_err"
    assert f"{name} rose by 12" in said(verdict_of([*stalled(), counters({name: 2**32 - 10}, {name: 2})]))


def test_a_port_that_was_down_all_the_time_is_nobodys() -> None:
    verdict = verdict_of([*stalled(), counters({}, {}, states=("1: DOWN", "1: DOWN"))])
    assert links(verdict) == []


def test_a_healthy_instance_stays_healthy() -> None:
    blobs = [instance(hosts=HOSTS), *steady_pages(T0, 20), counters({"symbol_error": 3}, {"symbol_error": 9})]
    verdict = verdict_of(blobs)
    assert verdict.class_ is FaultClass.HEALTHY
    assert verdict.suspects == ()
    assert "Whether the instance uses them is not known" in said(verdict)


def test_errors_alone_decide_no_stop() -> None:
    blobs = [instance(hosts=HOSTS), *flat_pages(T0, 20, 500.0), counters({"link_downed": 3}, {"link_downed": 9})]
    verdict = verdict_of(blobs)
    assert (verdict.class_, verdict.progress, verdict.suspects) == (FaultClass.INCONCLUSIVE, Progress.STOPPED, ())


def test_an_instance_on_one_host_uses_no_port() -> None:
    blobs = [instance(), *flat_pages(T0, 20, 500.0), counters({"link_downed": 3}, {"link_downed": 9})]
    assert "link_downed" not in said(verdict_of(blobs))


def test_a_port_that_nccl_does_not_use_is_left_out() -> None:
    line = f"a7:{5000}:5000 [0] NCCL INFO NET/IB : Using [0]mlx5_4:1/IB [RO]; OOB eth0:{HOST}<0>\n"
    log = Blob("nccl/a7.5000.log", line.encode())
    assert "symbol_error" not in said(verdict_of([*stalled(), log, counters({"symbol_error": 3}, {"symbol_error": 9})]))
    used = counters({"symbol_error": 3}, {"symbol_error": 9}, device="mlx5_4")
    assert "symbol_error rose by 6" in said(verdict_of([*stalled(), log, used]))


@pytest.mark.parametrize(("moved", "words"), [(1000.0, "No bytes moved on any of 1 RDMA port"), (3e9, "2000 MB/s")])
def test_bytes_of_a_stopped_instance(moved: float, words: str) -> None:
    after = {"port_xmit_data": 7 + moved / 4, "port_rcv_data": 7 + moved / 4}
    blobs = [*stalled(), *flat_pages(T0, 20, 500.0), counters({"port_xmit_data": 7, "port_rcv_data": 7}, after)]
    assert words in said(verdict_of(blobs))


def test_congestion_is_said_of_what_is_slow() -> None:
    pages = steady_pages(T0, 20, per_second=200.0) + steady_pages(T0 + 21, 20, per_second=40.0, first=5200.0)
    congested = counters({"rp_cnp_handled": 3}, {"rp_cnp_handled": 900})
    verdict = verdict_of([instance(hosts=HOSTS, last_look=T0 + 41), *pages, congested])
    assert verdict.progress is Progress.SLOW
    assert "rp_cnp_handled +897" in said(verdict)


def test_a_port_is_not_taken_for_one_whose_name_begins_alike() -> None:
    line = (
        f"a7:{5000}:5000 [0] NCCL WARN NET/IB: Got completion from peer {OTHER}<41234> with status=12 opcode=0 len=0 "
        "vendor err 129 (Recv) hca mlx5_10\n"
    )
    log = Blob("nccl/a7.5000.log", line.encode())
    verdict = verdict_of([*stalled(), log, counters({"symbol_error": 3}, {"symbol_error": 9}, device="mlx5_1")])
    assert links(verdict) == ["mlx5_10", f"mlx5_1 port 1 of {OTHER}"]
