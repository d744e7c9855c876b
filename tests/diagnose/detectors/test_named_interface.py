"""An interface that the instance's own settings name, and that is down: it explains what nothing else explains."""

from __future__ import annotations

import json
from typing import Any

import build_flight as fr
import pytest
from build_evidence import HOST, T0, flat_pages, instance, log, said, steady_pages, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, FaultClass, Progress, Subkind
from rankmuster.model.verdict import SuspectKind, Verdict

NET = "NET/Socket : Using [0]eth1:192.0.2.2<0>"


def told(environment: dict[str, str], world: int = 4) -> Blob:
    facts: dict[str, Any] = json.loads(instance(world).data)
    return Blob("instance.json", json.dumps({**facts, "environment": environment}).encode())


def port(state: str, device: str = "eth1", kind: str = "ethernet") -> Blob:
    look = {"host": HOST, "kind": kind, "device": device, "state": state, "port": None, "counters": {"tx_bytes": 7.0}}
    lines = (json.dumps({"time": T0 + 15 + 3 * number, **look}) for number in range(2))
    return Blob("network-counters.jsonl", "\n".join(lines).encode())


def standing(backend: str = "gloo") -> list[Blob]:
    """All have entered and nobody leaves."""
    return fr.blobs(fr.dumps(fr.one_group(4, breaks=dict.fromkeys(range(4), 30), backend=backend)))


def links(verdict: Verdict) -> list[str | None]:
    return [suspect.link for suspect in verdict.suspects if suspect.kind is SuspectKind.LINK]


def test_the_interface_of_gloo_is_named_when_it_is_down_and_all_stand() -> None:
    blobs = [*standing(), *flat_pages(T0, 20, 500.0), told({"GLOO_SOCKET_IFNAME": "eth1"}), port("down")]
    verdict = verdict_of(blobs)
    assert (verdict.class_, verdict.subclass) == (FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST)
    assert verdict.progress is Progress.STOPPED
    assert links(verdict) == [f"eth1 of {HOST}"]
    assert {suspect.role.value for suspect in verdict.suspects if suspect.rank is not None} == {"victim"}
    assert f"eth1 of {HOST} is down, and GLOO_SOCKET_IFNAME names it" in said(verdict)


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({"GLOO_SOCKET_IFNAME": "eth1"}, port("up")),
        ({"GLOO_SOCKET_IFNAME": "eth1"}, port("unknown")),
        ({"GLOO_SOCKET_IFNAME": "eth1"}, port("down", device="eth10")),
        ({"GLOO_SOCKET_IFNAME": "eth10"}, port("down")),
        ({"GLOO_SOCKET_IFNAME": "^eth1"}, port("down")),
        ({"NCCL_SOCKET_IFNAME": "eth1"}, port("down")),  # gloo does not go by it
        ({}, port("down")),
        ({"GLOO_SOCKET_IFNAME": "eth1"}, port("1: DOWN", kind="rdma")),
    ],
)
def test_no_other_interface_explains_the_stop(environment: dict[str, str], seen: Blob) -> None:
    verdict = verdict_of([*standing(), *flat_pages(T0, 20, 500.0), told(environment), seen])
    assert verdict.class_ is FaultClass.INCONCLUSIVE
    assert links(verdict) == []


def test_where_nobody_knows_whether_it_stopped_it_is_a_lead() -> None:
    verdict = verdict_of([*standing(), told({"GLOO_SOCKET_IFNAME": "eth1"}), port("down")])
    assert (verdict.class_, verdict.confidence) == (FaultClass.TRANSPORT_STALL, Confidence.POSSIBLE)
    assert links(verdict) == [f"eth1 of {HOST}"]


def test_where_nobody_stands_in_a_call_it_says_nothing() -> None:
    rest = fr.blobs(fr.dumps(fr.one_group(4, backend="gloo")))
    assert links(verdict_of([*rest, told({"GLOO_SOCKET_IFNAME": "eth1"}), port("down")])) == []


def test_an_instance_that_advances_has_lost_nothing() -> None:
    blobs = [*steady_pages(T0, 20), told({"GLOO_SOCKET_IFNAME": "eth1"}), port("down")]
    assert verdict_of(blobs).class_ is FaultClass.HEALTHY


def test_a_rank_that_is_missing_is_not_excused_by_a_link() -> None:
    world = fr.one_group(4, stops={2: 30}, backend="gloo")
    dumps = fr.blobs(fr.dumps(world))
    verdict = verdict_of([*dumps, *flat_pages(T0, 20, 500.0), told({"GLOO_SOCKET_IFNAME": "eth1"}), port("down")])
    assert verdict.subclass is Subkind.MISSING_ENTER
    assert links(verdict) == []


def test_it_is_why_all_have_entered_and_none_has_left() -> None:
    world = fr.one_group(4, breaks=dict.fromkeys(range(4), 30), timing=True)
    dumps, nccl = fr.blobs(fr.dumps(world)), log("rank0.log", f"a7:5000:5000 [0] NCCL INFO {NET}")
    settings = told({"NCCL_SOCKET_IFNAME": "eth1"})
    without = verdict_of([*dumps, *flat_pages(T0, 20, 500.0), nccl, settings, port("up")])
    assert (without.subclass, links(without)) == (Subkind.ALL_ENTERED_NONE_LEFT, [])
    verdict = verdict_of([*dumps, *flat_pages(T0, 20, 500.0), nccl, settings, port("down")])
    assert (verdict.subclass, verdict.confidence) == (Subkind.PATH_LOST, Confidence.CONFIRMED)
    assert links(verdict) == [f"eth1 of {HOST}"]


@pytest.mark.parametrize(("data", "found"), [(NET, True), ("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth1", False)])
def test_nccl_goes_by_its_interface_where_its_data_does(data: str, found: bool) -> None:
    nccl = log("rank0.log", f"a7:5000:5000 [0] NCCL INFO {data}")
    settings = told({"NCCL_SOCKET_IFNAME": "=eth1", "GLOO_SOCKET_IFNAME": "eth9"})
    verdict = verdict_of([*flat_pages(T0, 20, 500.0), nccl, settings, port("down")])
    assert links(verdict) == ([f"eth1 of {HOST}"] if found else [])
