"""Environment, peers, network, topology, values, choices: each check over facts of a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admitted import QUIET, node_path, run_of, taken
from rankmuster.admission.contention import contended
from rankmuster.admission.correctness import correctness_checks
from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.floor_input import floor_input
from rankmuster.admission.nccl_choices import choice_checks, differences, transport_checks
from rankmuster.admission.nccl_log_checks import log_checks
from rankmuster.admission.network_ports import port_checks, used
from rankmuster.admission.peer_to_peer import peer_checks
from rankmuster.admission.settings_checks import environment_checks
from rankmuster.admission.slow_rank import slow_rank
from rankmuster.admission.topology import topology_checks
from rankmuster.admission.unchanged import same_settings_check, unchanged_check
from rankmuster.evidence import nccl_log
from rankmuster.evidence.blob import Blob
from rankmuster.model.admission import Check, CheckState
from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRun, RunState
from rankmuster.model.node_path import Matrix, NicPath, NicPort, NodePath, PciNode
from rankmuster.model.topology import RdmaPort
from rankmuster.model.unknown import Unknown

WHY = Unknown("not asked")


def state_of(checks: list[Check], name: str) -> CheckState:
    states = [check.state for check in checks if check.name == name]
    assert states, f"no check {name} among {[check.name for check in checks]}"
    return next((state for state in states if state is not CheckState.PASS), CheckState.PASS)


def statement(checks: list[Check], name: str) -> str:
    return next(check.statement for check in checks if check.name == name and check.state is not CheckState.PASS)


def with_nic(path: NodePath, **container: object) -> NodePath:
    port = NicPort(1, "PORT_ACTIVE", "InfiniBand", 400.0, 4096, ())
    nic = NicPath("mlx5_0", True, "0000:18:00.0", "MT4129", "28.39", "a088", 0, "ib0", (port,))
    devices: dict[str, object] = {"devices": ("uverbs",), "gpudirect": "dmabuf", **container}
    return replace(path, nics=(nic,), container=replace(path.container, **devices))


def environment(path: NodePath, **settings: str) -> list[Check]:
    return environment_checks(path, settings)


def test_a_healthy_environment_passes() -> None:
    checks = [*environment(node_path()), *environment(with_nic(node_path()))]
    assert {check.state for check in checks} == {CheckState.PASS}


@pytest.mark.parametrize(
    ("size", "state"), [(64 << 20, CheckState.FAIL), (512 << 20, CheckState.WARN), (16 << 30, CheckState.PASS)]
)
def test_shared_memory(size: int, state: CheckState) -> None:
    path = node_path()
    checks = environment(replace(path, container=replace(path.container, shm_bytes=size)))
    assert state_of(checks, "shm") is state


def test_what_rdma_needs_is_asked_only_where_there_is_rdma() -> None:
    bare = node_path()
    locked = replace(bare, container=replace(bare.container, memlock_bytes=65536.0, devices=(), gpudirect="none"))
    assert not {"memlock", "uverbs", "gpudirect"} & {check.name for check in environment(locked)}
    checks = environment(with_nic(bare, memlock_bytes=65536.0, devices=(), gpudirect="none"))
    for name in ("memlock", "uverbs", "gpudirect"):
        assert state_of(checks, name) is CheckState.FAIL, name


def test_a_masked_sys_refuses_where_rails_depend_on_it() -> None:
    path = node_path()
    masked = replace(path, container=replace(path.container, sys_complete=False))
    assert state_of(environment(masked), "sys") is CheckState.WARN
    assert state_of(environment(with_nic(masked)), "sys") is CheckState.FAIL


def test_a_pinned_value_alone_refuses_nobody_and_one_that_hides_faults_is_said() -> None:
    checks = environment(node_path(), NCCL_PROTO="LL")
    assert state_of(checks, "nccl-settings") is CheckState.PASS
    assert "NCCL_PROTO=LL" in next(check.statement for check in checks if check.name == "nccl-settings")
    hiding = environment(node_path(), NCCL_IGNORE_DISABLED_P2P="1")
    assert state_of(hiding, "nccl-settings") is CheckState.WARN


def test_values_that_could_not_be_read_are_unknown() -> None:
    checks = environment_checks(node_path(), {"NCCL_*": Unknown("no environment")})
    assert [check.state for check in checks if check.name == "nccl-settings"] == [CheckState.UNKNOWN]


def test_iommu_acs_and_mig() -> None:
    path = node_path()
    translated = replace(path, container=replace(path.container, iommu="translated"))
    assert state_of(environment(translated), "iommu") is CheckState.WARN
    link = path.gpus[0].pcie if isinstance(path.gpus, tuple) else None
    assert link is not None
    bridge = PciNode("0000:00:01.0", "pci0000:00", None, "0x060400", "0x1000", "0xc030", 0, link, True)
    assert state_of(environment(replace(path, pci=(bridge,))), "acs") is CheckState.WARN
    hidden = replace(bridge, acs_redirects=Unknown("access denied"))
    assert state_of(environment(replace(path, pci=(hidden,))), "acs") is CheckState.UNKNOWN
    assert isinstance(path.gpus, tuple)
    sliced = replace(path, gpus=(replace(path.gpus[0], mig="Enabled"), *path.gpus[1:]))
    assert state_of(environment(sliced), "mig") is CheckState.WARN


def with_cell(kind: str, pair: tuple[str, str], word: str) -> NodePath:
    path = node_path()
    matrix = path.matrices[kind]
    changed = Matrix(kind, {**matrix.cells, pair: word}, matrix.nics)
    return replace(path, matrices={**path.matrices, kind: changed})


def test_nvlink_gpus_must_reach_each_other() -> None:
    assert {check.state for check in peer_checks(node_path())} == {CheckState.PASS}
    checks = peer_checks(with_cell("r", ("GPU1", "GPU2"), "NS"))
    assert state_of(checks, "p2p-read") is CheckState.FAIL
    statements = [check.statement for check in checks if check.state is CheckState.FAIL]
    assert any("differs by direction" in words for words in statements)
    assert any(
        "connected by NVLink, and peer-to-peer read is not OK: not supported (NS)" in words for words in statements
    )


@pytest.mark.parametrize(
    ("kind", "name", "state"),
    [
        ("w", "p2p-write", CheckState.FAIL),
        ("n", "p2p-nvlink", CheckState.FAIL),
        ("a", "p2p-atomics", CheckState.WARN),
    ],
)
def test_the_other_matrices(kind: str, name: str, state: CheckState) -> None:
    path = node_path()
    cells = {pair: "X" if word == "X" else "DR" for pair, word in path.matrices[kind].cells.items()}
    checks = peer_checks(replace(path, matrices={**path.matrices, kind: Matrix(kind, cells)}))
    assert state_of(checks, name) is state
    assert next(check for check in checks if check.name == name).subject == "all 6 pairs"


def test_pairs_over_pcie_are_the_classes_own_way() -> None:
    path = node_path()
    pcie = Matrix("m", {pair: word if word == "X" else "SYS" for pair, word in path.matrices["m"].cells.items()})
    broken = Matrix("r", {pair: word if word == "X" else "CNS" for pair, word in path.matrices["r"].cells.items()})
    checks = peer_checks(replace(path, matrices={**path.matrices, "m": pcie, "r": broken}))
    assert state_of(checks, "p2p-read") is CheckState.WARN


def test_a_matrix_that_was_not_read_is_no_pass() -> None:
    checks = peer_checks(replace(node_path(), matrices={}))
    found = [check for check in checks if check.name == "p2p-read"]
    assert [(check.state, check.required) for check in found] == [(CheckState.UNKNOWN, True)]


def test_one_gpu_has_no_peers() -> None:
    path = node_path()
    assert isinstance(path.gpus, tuple)
    assert peer_checks(replace(path, gpus=path.gpus[:1])) == []


def port(device: str = "mlx5_0", **changes: object) -> RdmaPort:
    values: dict[str, object] = {
        "source": "sys",
        "host": None,
        "device": device,
        "port": 1,
        "state": "PORT_ACTIVE",
        "physical_state": "LinkUp",
        "link_layer": "InfiniBand",
        "rate_gbps": 400.0,
        "mtu": 4096,
        "max_mtu": 4096,
        "firmware": "28.39",
        "gids": (),
        "counters": {"link_downed": 0, "symbol_error": 0},
        **changes,
    }
    return RdmaPort(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({}, CheckState.PASS, ""),
        ({"state": "PORT_DOWN", "physical_state": "Polling"}, CheckState.FAIL, "the port is down (DOWN, Polling)"),
        ({"state": "PORT_INIT"}, CheckState.FAIL, "no subnet manager"),
        ({"state": "PORT_DOWN", "physical_state": "Disabled"}, CheckState.WARN, "switched off"),
        ({"rate_gbps": 200.0}, CheckState.FAIL, "200 Gb/s where its siblings have 400"),
        ({"state": None}, CheckState.UNKNOWN, "could not be read"),
    ],
)
def test_ports(changes: dict[str, object], state: CheckState, words: str) -> None:
    checks = port_checks(replace(QUIET, ports=(port(), port("mlx5_1", **changes))))
    assert state_of(checks, "ports") is state
    if words:
        assert words in statement(checks, "ports")


def test_errors_that_come_with_the_benchmark_refuse_and_old_ones_warn() -> None:
    worn = port(counters={"link_downed": 2})
    assert state_of(port_checks(replace(QUIET, ports=(worn,)), (worn,)), "port-errors") is CheckState.WARN
    worse = port(counters={"link_downed": 3})
    found = port_checks(replace(QUIET, ports=(worse,)), (worn,))
    assert state_of(found, "port-errors") is CheckState.FAIL
    assert "link_downed +1" in statement(found, "port-errors")


def test_single_damaged_packets_during_the_benchmark_only_warn() -> None:
    before, after = port(counters={"symbol_error": 1}), port(counters={"symbol_error": 4})
    assert state_of(port_checks(replace(QUIET, ports=(after,)), (before,)), "port-errors") is CheckState.WARN


def test_a_port_that_nccl_leaves_out_is_not_asked() -> None:
    down = port("mlx5_9", state="PORT_DOWN")
    facts = replace(QUIET, ports=(port(), down))
    assert state_of(port_checks(facts), "ports") is CheckState.FAIL
    assert state_of(port_checks(facts, (), {"NCCL_IB_HCA": "^mlx5_9"}), "ports") is CheckState.PASS
    assert state_of(port_checks(facts, (), {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}), "ports") is CheckState.PASS


@pytest.mark.parametrize(
    ("wanted", "device", "answer"),
    [
        ("", "mlx5_0", True),
        ("mlx5", "mlx5_10", True),
        ("mlx5_1", "mlx5_10", True),
        ("=mlx5_1", "mlx5_10", False),
        ("^mlx5_1", "mlx5_10", False),
        ("^=mlx5_1", "mlx5_10", True),
        ("mlx5_0:2", "mlx5_0", False),
        ("mlx5_0:1", "mlx5_0", True),
    ],
)
def test_names_as_nccl_reads_them(wanted: str, device: str, answer: bool) -> None:
    assert used(port(device), wanted) is answer


def test_ports_that_could_not_be_read_and_carriers_that_flap() -> None:
    assert state_of(port_checks(replace(QUIET, ports=Unknown("firmware hangs"))), "ports") is CheckState.UNKNOWN
    flapping = replace(QUIET, ports=(port(),), carrier_changes={"eth0": 3, "eth1": 44})
    (found,) = [check for check in port_checks(flapping) if check.name == "carrier-changes"]
    assert (found.subject, found.state) == ("eth1", CheckState.WARN)


def test_a_topology_that_the_fleet_does_not_have_is_said() -> None:
    own = taken().fingerprint
    assert isinstance(own.topology_hash, str)
    assert topology_checks(own, {})[0].state is CheckState.PASS
    assert topology_checks(own, {own.topology_hash: 40, "sha256:other": 1})[0].state is CheckState.PASS
    (odd,) = topology_checks(own, {"sha256:" + "5" * 64: 37, own.topology_hash: 1})
    assert odd.state is CheckState.WARN
    assert "37 node(s)" in odd.statement
    (unknown,) = topology_checks(replace(own, topology_hash=WHY), {})
    assert (unknown.state, unknown.required) == (CheckState.UNKNOWN, True)


def with_wrong(count: int | None) -> BenchmarkRun:
    run = run_of("ar_1.txt")
    first, *rest = run.measurements
    return replace(run, measurements=(replace(first, wrong=count), *rest))


def test_values() -> None:
    assert correctness_checks([with_wrong(0)])[0].state is CheckState.PASS
    (wrong,) = correctness_checks([with_wrong(0), with_wrong(7)])
    assert (wrong.state, wrong.statement) == (CheckState.FAIL, "7 wrong values of all_reduce at 8 KiB")
    (unchecked,) = correctness_checks([with_wrong(None)])
    assert (unchecked.state, unchecked.required) == (CheckState.UNKNOWN, True)
    (said,) = correctness_checks([replace(with_wrong(0), measurements=(), state=RunState.WRONG, reason="bad")])
    assert said.state is CheckState.FAIL


def choice(size: int, algorithm: str = "RING", protocol: str = "SIMPLE", channels: int | None = 24) -> AlgorithmChoice:
    return AlgorithmChoice("all_reduce", size, algorithm, protocol, channels)


def test_choices_beside_the_class() -> None:
    usual = [[choice(1 << 20), choice(1 << 24)]] * 5
    run = replace(run_of("ar_1.txt"), choices=(choice(1 << 20, protocol="LL"), choice(1 << 24)))
    (found,) = choice_checks(run, usual)
    assert found.state is CheckState.WARN
    assert found.statement == "all_reduce at 1 MiB: protocol LL, SIMPLE in the class"
    assert choice_checks(replace(run, choices=tuple(usual[0])), usual)[0].state is CheckState.PASS
    assert choice_checks(replace(run, choices=()), usual)[0].state is CheckState.UNKNOWN
    assert choice_checks(run, usual[:2])[0].state is CheckState.UNKNOWN, "two runs may both be the odd ones"


def test_a_class_that_is_of_two_minds_has_no_usual_choice() -> None:
    torn = [[choice(1 << 20)]] * 3 + [[choice(1 << 20, algorithm="TREE")]] * 3
    assert differences([choice(1 << 20, algorithm="NVLS")], torn) == []


@pytest.mark.parametrize(
    ("transports", "rdma", "state"),
    [
        (("P2P/CUMEM",), False, CheckState.PASS),
        (("P2P/CUMEM", "SHM/direct/direct"), False, CheckState.FAIL),
        (("NET/Socket/0",), False, CheckState.FAIL),  # between ranks of one node
        (("NET/IB/0/GDRDMA",), True, CheckState.FAIL),
        ((), False, CheckState.UNKNOWN),
    ],
)
def test_transports_of_one_node(transports: tuple[str, ...], rdma: bool, state: CheckState) -> None:
    path = with_nic(node_path()) if rdma else node_path()
    run = replace(run_of("ar_1.txt"), transports=transports)
    assert transport_checks(run, path)[0].state is state


@pytest.mark.parametrize(
    ("transports", "state"),
    [
        (("P2P/CUMEM", "NET/IB/0/GDRDMA"), CheckState.PASS),
        (("P2P/CUMEM", "NET/IB/0"), CheckState.WARN),
        (("P2P/CUMEM", "NET/Socket/0"), CheckState.FAIL),
    ],
)
def test_transports_between_nodes(transports: tuple[str, ...], state: CheckState) -> None:
    run = run_of("ar_1.txt")
    ranks = tuple(replace(rank, host=f"node{rank.rank // 2}") for rank in run.ranks)
    found = transport_checks(replace(run, transports=transports, ranks=ranks), with_nic(node_path()))
    assert found[0].state is state


HEAD = "node7:100:200 [0] NCCL INFO "
NCCL_LOG = (
    f"{HEAD}ncclCommInitRankConfig comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START\n"
    f"{HEAD}Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
)
RETRY = (
    f"{HEAD}socketPollConnect: connect to 10.0.0.9<4791> returned Connection timed out, retrying (2/34) after sleep "
    "for 100 msec\n"
)
COMPLETION = (
    "node7:100:202 [0] transport/net_ib.cc:1298 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<4791> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send)\n"
)


def log(text: str) -> tuple[object, ...]:
    return nccl_log.READER.read(Blob("nccl.log", text.encode())).observations


def test_links_must_come_up_at_the_first_attempt() -> None:
    assert log_checks(()) == []
    assert [check.state for check in log_checks(log(NCCL_LOG))] == [CheckState.PASS]
    (retried,) = log_checks(log(NCCL_LOG + RETRY))
    assert retried.state is CheckState.FAIL
    assert "only after retries" in retried.statement
    assert "10.0.0.9" in retried.subject
    early = log_checks(log(NCCL_LOG + RETRY.replace("timed out", "refused")))
    assert [check.state for check in early] == [CheckState.PASS, CheckState.WARN]
    assert any("RDMA operations ended in errors" in each.statement for each in log_checks(log(NCCL_LOG + COMPLETION)))


def test_the_mark_of_turns_needs_an_ever_fast_iteration() -> None:
    assert contended([run_of("nt_ar_1.txt")], {}, None) is None
    assert contended([run_of("nt_ar_nop2p.txt")], {}, None) is None, "slow in every iteration is no contention"
    found = contended([run_of("ar_contended.txt")], {}, None)
    assert found is not None
    assert not found.certain
    seen = contended([run_of("nt_ar_1.txt")], {1: UnderLoad(foreign_pids=(7, 8))}, None)
    assert seen is not None
    assert (seen.certain, "process 7, 8 on GPU 1" in seen.words) == (True, True)


def ranked(*times: float) -> BenchmarkRun:
    run = run_of("ar_1.txt")
    return replace(run, measurements=tuple(replace(row, ranks_us=times) for row in run.measurements))


def test_the_odd_rank_among_several() -> None:
    found = slow_rank([ranked(100, 101, 140, 99)])
    assert found is not None
    assert (found.rank, round(found.percent)) == (2, 40)
    assert slow_rank([ranked(100, 101, 102, 99)]) is None
    assert slow_rank([ranked(100, 140)]) is None, "of two nobody can say which"
    assert slow_rank([ranked(100, 140, 60, 120)]) is None, "where all scatter nobody is named"
    assert slow_rank([ranked()]) is None


def test_a_node_that_changed_in_between_is_named_by_what_changed() -> None:
    before = taken().fingerprint
    assert unchanged_check(before, before).state is CheckState.PASS
    after = replace(taken({"NCCL_PROTO": "LL"}).fingerprint, driver="580.200.01")
    found = unchanged_check(before, after)
    assert found.state is CheckState.ERROR
    assert "580.159.04 -> 580.200.01" in found.statement
    assert "NCCL_PROTO" in found.statement
    lost = replace(before, driver=Unknown("NVML hung"))
    assert unchanged_check(before, lost).state is CheckState.PASS, "what one look could not read is no change"


def test_a_benchmark_that_ran_with_other_settings_than_the_fingerprints() -> None:
    fingerprint = taken().fingerprint
    ran = run_of("ar_1.txt", environment=(("NCCL_NVLS_ENABLE", "0"), ("NCCL_DEBUG", "INFO")))
    assert same_settings_check(ran, fingerprint) is None
    other = run_of("ar_1.txt", environment=(("NCCL_NVLS_ENABLE", "0"), ("NCCL_ALGO", "Tree")))
    found = same_settings_check(other, fingerprint)
    assert found is not None
    assert (found.state, "NCCL_ALGO=Tree, unset in the fingerprint" in found.statement) == (CheckState.ERROR, True)


def test_what_floors_are_computed_from() -> None:
    found = floor_input(node_path(), [run_of("ar_1.txt")])
    assert found is not None
    assert (found.gpu_model, found.gpu_count, found.nodes) == ("NVIDIA H200", 4, 1)
    assert found.nvlink_gbs == pytest.approx(18 * 26.562)
    assert found.nvlink_to_all is True
    assert found.pcie_gbs == pytest.approx(63, abs=0.1)
    assert floor_input(None, []) is None
