"""Environment, peers, topology, values, other work, slow ranks: each check over facts of a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admitted import node_path, run_of, state_of, taken, with_nic
from rankmuster.admission.contention import contended
from rankmuster.admission.correctness import correctness_checks
from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.floor_input import floor_input
from rankmuster.admission.peer_to_peer import peer_checks
from rankmuster.admission.settings_checks import environment_checks
from rankmuster.admission.slow_rank import slow_rank
from rankmuster.admission.topology import topology_checks
from rankmuster.admission.unchanged import same_settings_checks, unchanged_check
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.model.admission import Check, CheckState
from rankmuster.model.benchmark import BenchmarkRun, RunState
from rankmuster.model.node_path import Matrix, NodePath, PciNode
from rankmuster.model.unknown import Unknown

WHY = Unknown("not asked")


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
    assert same_settings_checks([ran], fingerprint) == []
    other = run_of("ar_1.txt", environment=(("NCCL_NVLS_ENABLE", "0"), ("NCCL_ALGO", "Tree")))
    (found,) = same_settings_checks([ran, other], fingerprint)
    assert (found.state, "NCCL_ALGO=Tree, unset in the fingerprint" in found.statement) == (CheckState.ERROR, True)


def test_a_variable_that_the_benchmark_lacked_is_a_difference_too() -> None:
    fingerprint = taken({"NCCL_ALGO": "Ring"}).fingerprint
    without = run_of("ar_1.txt", environment=(("NCCL_NVLS_ENABLE", "0"),), environment_whole=True)
    (found,) = same_settings_checks([without], fingerprint)
    assert "NCCL_ALGO was not set, Ring in the fingerprint" in found.statement
    assert same_settings_checks([replace(without, environment_whole=False)], fingerprint) == [], "a log names some"
    empty = replace(without, environment=())
    assert "NCCL_NVLS_ENABLE was not set" in same_settings_checks([empty], fingerprint)[0].statement


def test_what_nccl_conf_sets_is_in_no_benchmarks_environment() -> None:
    fingerprint = fingerprint_of(replace(node_path({"NCCL_ALGO": "Ring"}), nccl_conf=("NCCL_ALGO",)))
    ran = run_of("ar_1.txt", environment=(("NCCL_NVLS_ENABLE", "0"),), environment_whole=True)
    assert same_settings_checks([ran], fingerprint) == []


def test_runs_of_several_settings_are_not_one_node_measured_several_times() -> None:
    unread = fingerprint_of(replace(node_path(), nccl_settings=Unknown("no right to read")))
    runs = [
        run_of("ar_1.txt", environment=(("NCCL_PROTO", proto),), environment_whole=True) for proto in ("LL", "Simple")
    ]
    (found,) = same_settings_checks(runs, unread)
    assert (found.state, "NCCL_PROTO: LL and Simple" in found.statement) == (CheckState.ERROR, True)
    assert same_settings_checks(runs[:1] * 2, unread) == []
    (found,) = same_settings_checks(runs, taken({"NCCL_PROTO": "LL"}).fingerprint)
    assert "NCCL_PROTO: LL and Simple" in found.statement, "of the runs, not of the fingerprint that the first one made"


def test_what_floors_are_computed_from() -> None:
    found = floor_input(node_path(), [run_of("ar_1.txt")])
    assert found is not None
    assert (found.gpu_model, found.gpu_count, found.nodes) == ("NVIDIA H200", 4, 1)
    assert found.nvlink_gbs == pytest.approx(18 * 26.562)
    assert found.nvlink_to_all is True
    assert found.pcie_gbs == pytest.approx(63, abs=0.1)
    assert floor_input(None, []) is None
