from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankmuster.drill.__main__ import catalogue
from rankmuster.drill.fault_needs import OTHER_NCCL, Machine, lacking, obstacle
from rankmuster.drill.fault_surroundings import ABSENT_INTERFACE, merged, rank_variables, variables
from rankmuster.drill.faults import FAULTS, Deed, Need, Place, When, fault_named, register
from rankmuster.drill.launch import bound
from rankmuster.drill.own_place import MOUNTS_OF
from rankmuster.drill.plan import Backend, JobPlan
from rankmuster.drill.truth import Naming
from rankmuster.model.fault import CLASS_OF, FaultClass, Phase

ASKED_FOR = {
    *("none", "idle", "skip", "extra_call", "wrong_op", "wrong_size", "wrong_dtype", "order_swap", "no_send"),
    *("no_recv", "stop", "loop", "recorder_timeout", "graph_stop", "kill", "freeze", "exception", "gpu_busy"),
    *("link_cut", "init_absent", "wrong_interface", "small_shm", "memlock", "version_mismatch", "slow", "tail"),
}
NCCL_ALONE = {"recorder_timeout", "graph_stop", "gpu_busy", "small_shm", "memlock", "version_mismatch"}
BARE = Machine(
    privileged=False, missing_tools=("nsenter",), rdma=False, gpu=False, other_nccl="", other_nccl_there=False
)
FULL = Machine(
    privileged=True, missing_tools=(), rdma=True, gpu=True, other_nccl="/opt/libnccl.so", other_nccl_there=True
)


def test_all_faults_that_the_drill_is_for_are_there() -> None:
    assert set(FAULTS) >= ASKED_FOR
    assert {name for name in ASKED_FOR if Backend.GLOO not in FAULTS[name].truths} == NCCL_ALONE
    assert all(Backend.NCCL in FAULTS[name].truths for name in ASKED_FOR)


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_what_is_right_does_not_contradict_itself(name: str) -> None:
    for truth in fault_named(name).truths.values():
        assert truth.classes
        assert {CLASS_OF[kind] for kind in truth.subkinds} <= set(truth.classes)
        if truth.classes == (FaultClass.HEALTHY,):
            assert truth.naming is Naming.NOBODY
        if len(truth.classes) > 1 or truth.naming is Naming.MAY:
            assert truth.why, "several right answers need a reason"


def test_a_graph_cannot_be_stopped_where_there_is_none() -> None:
    with pytest.raises(ValueError, match=r"graph_stop cannot be made with gloo .* it can with nccl"):
        fault_named("graph_stop").truth(Backend.GLOO)


def test_a_fault_that_nobody_knows_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no fault named 'gremlin'; there are none, idle, skip"):
        fault_named("gremlin")


def test_a_new_fault_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankmuster.drill.faults.FAULTS", dict(FAULTS))
    added = register(replace(fault_named("stop"), name="stop-twice"))
    assert fault_named("stop-twice") is added
    with pytest.raises(ValueError, match="a fault named stop-twice already"):
        register(added)


@pytest.mark.parametrize(
    ("when", "made_by", "told"),
    [
        (When.NEVER, {"deed": Deed.STOP}, "odd: made never, by deed stop"),
        (When.OUTSIDE, {}, "odd: made outside, by nothing"),
        (When.OUTSIDE, {"deed": Deed.STOP, "signal": 9}, "odd: made outside, by deed stop and signal 9"),
        (When.OUTSIDE, {"place": Place.OWN_NETWORK, "signal": 9}, "by signal 9 and place own_network"),
        (When.ARMED, {"signal": 9}, "odd: made armed, by signal 9"),
        (When.ARMED, {"place": Place.SMALL_SHM}, "odd: made armed, by place small_shm"),
        (When.START, {}, "odd: made start, by nothing"),
        (When.START, {"signal": 9}, "odd: made start, by signal 9"),
    ],
)
def test_a_fault_that_nothing_or_two_things_would_make_is_refused(
    when: When, made_by: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        register(replace(fault_named("none"), name="odd", when=when, **made_by))


def test_a_fault_says_in_which_phase_it_is_made_and_whether_work_stops() -> None:
    starts = {name for name, fault in FAULTS.items() if fault.phase is Phase.INIT}
    assert starts >= {"init_absent", "wrong_interface", "small_shm", "memlock", "version_mismatch"}
    goes_on = {"none", "idle", "slow", "tail"}
    for name in ASKED_FOR:
        assert fault_named(name).stops == (name not in starts | goes_on), name
    assert {name for name in ASKED_FOR - starts if FAULTS[name].ends_process} == {"kill", "exception"}


def test_each_has_a_time_in_which_it_must_be_told() -> None:
    assert {FAULTS[name].most_seconds for name in ASKED_FOR if FAULTS[name].stops} - {15.0} == {32.0}
    for fault in (fault_named(name) for name in ASKED_FOR):
        assert fault.settle_seconds < 60
        if not fault.stops and fault.when is not When.NEVER and fault.deed is not Deed.REST:
            assert fault.most_seconds >= 60


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_what_a_fault_needs_is_there_or_named(name: str) -> None:
    fault = fault_named(name)
    assert lacking(fault, FULL) == ()
    assert obstacle(fault, FULL) == ""
    assert len(lacking(fault, BARE)) == len(fault.needs)


@pytest.mark.parametrize(
    ("name", "machine", "told"),
    [
        ("link_cut", BARE, "needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN), and nsenter on the path (Debian: iproute2"),
        ("link_cut", replace(FULL, missing_tools=("ip", "nsenter")), "it needs ip and nsenter on the path"),
        ("small_shm", BARE, "small_shm cannot be made here: it needs root"),
        ("memlock", BARE, "it needs an RDMA device (/sys/class/infiniband has none)"),
        ("graph_stop", BARE, "it needs a GPU whose CUDA graphs can be captured"),
        ("version_mismatch", BARE, "named by RANKMUSTER_DRILL_OTHER_NCCL, which is not set"),
        ("version_mismatch", replace(BARE, other_nccl="/none.so"), "RANKMUSTER_DRILL_OTHER_NCCL; /none.so is no file"),
    ],
)
def test_why_a_fault_cannot_be_made_is_said_in_words(name: str, machine: Machine, told: str) -> None:
    assert told in obstacle(fault_named(name), machine)


def test_this_machine_is_looked_at_as_it_is(tmp_path: Path) -> None:
    library = tmp_path / "libnccl.so.2"
    without = Machine.here({"RANKMUSTER_DRILL_OTHER_NCCL": str(library)})
    library.touch()
    with_it = Machine.here({"RANKMUSTER_DRILL_OTHER_NCCL": str(library)})
    assert (without.other_nccl_there, with_it.other_nccl_there) == (False, True)
    assert not Machine.here({}).other_nccl_there
    assert set(with_it.missing_tools) <= {"ip", "nsenter"}


def test_only_what_is_to_be_wrong_is_given_to_the_culprit_and_the_others_go_the_same_way() -> None:
    interface = fault_named("wrong_interface")
    assert variables(interface, Backend.GLOO, {}, culprit=True) == {"GLOO_SOCKET_IFNAME": ABSENT_INTERFACE}
    assert variables(interface, Backend.NCCL, {}, culprit=True) == {"NCCL_SOCKET_IFNAME": ABSENT_INTERFACE}
    assert variables(interface, Backend.NCCL, {}, culprit=False) == {}
    shared = variables(fault_named("small_shm"), Backend.NCCL, {}, culprit=False)
    assert shared == variables(fault_named("small_shm"), Backend.NCCL, {}, culprit=True)
    assert shared["NCCL_P2P_DISABLE"] == "1"
    assert shared["NCCL_SHM_DISABLE"] is None
    other = variables(fault_named("version_mismatch"), Backend.NCCL, {OTHER_NCCL: "/x/libnccl.so.2"}, culprit=True)
    assert other == {"LD_PRELOAD": "/x/libnccl.so.2"}
    assert "NCCL_P2P_DISABLE" not in variables(fault_named("link_cut"), Backend.GLOO, {}, culprit=True)
    assert all(variables(fault_named(name), Backend.GLOO, {}, culprit=True) == {} for name in ("none", "skip", "stop"))


def test_nobody_can_ask_for_the_dumps_that_the_watchdog_is_to_write() -> None:
    given = variables(fault_named("recorder_timeout"), Backend.NCCL, {}, culprit=False)
    environment = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/pipes/rank_", "NCCL_DEBUG": "INFO"}
    assert merged(environment, given) == {"NCCL_DEBUG": "INFO"}


def test_ranks_are_told_whose_mounts_they_share_in_that_fault_alone() -> None:
    with bound() as store:
        for fault, told in (("small_shm", {0: "7", 1: None}), ("none", {0: None, 1: None})):
            plan = JobPlan("llm-0", 2, Backend.NCCL, fault=fault, culprit=1)
            given = {rank: rank_variables(plan, rank, store, None, 7) for rank in range(2)}
            assert {rank: one.get(MOUNTS_OF) for rank, one in given.items()} == told
            assert given[1]["MASTER_ADDR"] == "127.0.0.1"
            assert given[1]["RANK"] == "1"


@pytest.mark.parametrize("need", list(Need))
def test_every_need_is_of_some_fault(need: Need) -> None:
    assert any(need in fault.needs for fault in FAULTS.values())


def test_the_catalogue_names_them_all() -> None:
    text = catalogue()
    assert all(f"{name}: " in text for name in FAULTS)


def test_a_plan_reads_back_as_it_was() -> None:
    plan = JobPlan("llm-0", 4, Backend.NCCL, fault="stop", culprit=2, graph=True, debug_server=True, seed=7)
    assert JobPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"ranks": 1}, "nobody to wait for"),
        ({"culprit": 3}, "rank 3 is not in a job of 3 ranks"),
        ({"culprit": -1}, "rank -1 is not"),
        ({"graph": True}, "CUDA graph"),
        ({"sync_every": 0}, "at least 1"),
    ],
)
def test_a_job_that_cannot_be_is_refused(wrong: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        JobPlan.small("llm-0", **{"ranks": 3, **wrong})
