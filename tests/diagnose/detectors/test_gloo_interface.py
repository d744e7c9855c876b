"""gloo is told to use an interface that is not there: the init is stuck by it, and the rank that has it is named."""

from __future__ import annotations

from build_evidence import T0, culprits, instance, log, said, traceback, verdict_of

from rankmuster.model.fault import Confidence, FaultClass, Phase, Subkind

SAYS = (
    "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. "
    "Unable to find address for: eth7"
)


def test_the_rank_that_has_no_such_interface_is_named_and_not_its_exit() -> None:
    blobs = [instance(exits={2: (1, T0 + 3)}), log("rank2.log", *traceback(2, SAYS, T0 + 2.9))]
    verdict = verdict_of(blobs)
    assert (verdict.class_, verdict.subclass) == (FaultClass.INIT_STUCK, Subkind.NO_INTERFACE)
    assert (verdict.phase, verdict.confidence) == (Phase.INIT, Confidence.CONFIRMED)
    assert culprits(verdict) == [2]
    assert "Unable to find address for: eth7" in said(verdict)
    assert "set GLOO_SOCKET_IFNAME" in said(verdict)


def test_where_most_of_the_ranks_have_none_nobody_is_odd() -> None:
    logs = [log(f"rank{rank}.log", *traceback(rank, SAYS, T0 + 2.9)) for rank in (0, 1, 2)]
    verdict = verdict_of([instance(exits=dict.fromkeys((0, 1, 2), (1, T0 + 3))), *logs])
    assert verdict.subclass is Subkind.NO_INTERFACE
    assert culprits(verdict) == []


def test_of_two_ranks_nobody_is_odd() -> None:
    verdict = verdict_of([instance(world=2, exits={1: (1, T0 + 3)}), log("rank1.log", *traceback(1, SAYS))])
    assert verdict.subclass is Subkind.NO_INTERFACE
    assert culprits(verdict) == []
