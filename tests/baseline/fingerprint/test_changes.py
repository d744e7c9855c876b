"""A difference is told in words: what changed, what that does to NCCL's choices, and what to measure anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from baseline.fingerprint.build_path import h200_vm, hgx, pcie_box
from baseline.fingerprint.mutations import MUTATIONS, gpu, port, software
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.baseline.fingerprint.changes import RULES, applies, changes, regenerate, undecided
from rankmuster.baseline.fingerprint.effects import ADMISSION, BASELINE, DUMPS, KNOWN, PROFILE
from rankmuster.baseline.fingerprint.setting_names import changes_choices
from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.fingerprint import Change
from rankmuster.model.node_path import Matrix, NcclView, NicPort
from rankmuster.model.unknown import Unknown

BASE = fingerprint_of(hgx())


def after(*names: str) -> tuple[Change, ...]:
    path = hgx()
    for name in names:
        path = MUTATIONS[name](path)
    return changes(BASE, fingerprint_of(path))


def only(name: str) -> Change:
    found = after(name)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("name", ["nothing", "idle", "shm a little less"])
def test_what_is_the_same_has_no_changes(name: str) -> None:
    assert after(name) == ()


EFFECTS = {
    "no sys": ("settings/sys.complete", "/sys not mounted: NCCL cannot see which NIC is near which GPU"),
    "sys incomplete": ("settings/sys.complete", "/sys not mounted: NCCL cannot see which NIC is near which GPU"),
    "links lost": ("gpus/3/nvlinks/up", "fewer channels"),
    "half width": ("gpus/3/pcie/width", "is half as wide"),
    "acs": ("settings/acs", "up to the root complex"),
    "iommu": ("settings/iommu", "the IOMMU translates"),
    "peermem": ("settings/gpudirect", "bounces through host memory"),
    "p2p": ("settings/p2p.read", "GPU0-GPU3 NS"),
    "shm": ("settings/shm", "No space left on device"),
    "memlock": ("container/memlock_bytes", "ulimit memlock=-1"),
    "uverbs": ("container/devices", "No device found"),
    "nic order": ("nicOrder", "PXN"),
    "nic lost": ("nics/mlx5_7", "a rail less"),
    "nic swapped": ("nics/mlx5_4/guid", "re-admit the node"),
    "rate": ("nics/mlx5_7/ports/1/rate_gbps", "fell to a lower rate"),
    "port down": ("nics/mlx5_7/ports/1/state", "passes it over"),
    "firmware": ("nics/mlx5_7/firmware", "a mix in one job"),
    "driver": ("driver", "another driver"),
    "nccl": ("ncclVersion", "another NCCL"),
    "cuda": ("cudaVersion", "another CUDA runtime"),
    "torch": ("pytorchVersion", "another PyTorch"),
    "image": ("imageDigest", "another image"),
    "engine": ("engineVersion", "another engine"),
    "gpu swapped": ("gpus/2/uuid", "the class is the same, this part of the node is not; re-admit the node"),
    "gpu lost": ("gpus/7", "the GPU is gone"),
    "vbios": ("gpus/2/vbios", "another VBIOS"),
    "mig": ("settings/mig", "no P2P"),
    "ecc": ("settings/ecc", "ECC was switched"),
    "cpu": ("cpu/model", "another CPU"),
    "proto": ("settings/NCCL_PROTO", "pins the protocol"),
    "algo": ("settings/NCCL_ALGO", "pins the algorithm"),
    "nvls": ("settings/NCCL_NVLS_ENABLE", "NVLink SHARP"),
    "p2p disabled": ("settings/NCCL_P2P_DISABLE", "host memory (SHM)"),
    "hca": ("settings/NCCL_IB_HCA", "a rail less"),
    "unheard of": ("settings/NCCL_SOMETHING_NEW", "may change what it chooses"),
    "logging": ("nccl_settings/NCCL_DEBUG", "NCCL chooses as before"),
    "another machine": ("machine", "another machine"),
    "driver unknown": ("driver", "not known after: it cannot be told whether it changed"),
    "image unknown": ("imageDigest", "not known after"),
    "acs unknown": ("settings/acs", "not known after"),
}


@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in ("nothing", "idle", "shm a little less")])
def test_what_happened_is_told_with_its_effect(name: str) -> None:
    part, words = EFFECTS[name]
    found = {change.part: change for change in after(name)}
    assert words in found[part].effect


TAKEN = {name: fingerprint_of(mutation(hgx())) for name, mutation in MUTATIONS.items()}


@pytest.mark.parametrize("one", list(MUTATIONS))
def test_the_baseline_applies_exactly_where_the_class_is_the_same(one: str) -> None:
    before = TAKEN[one]
    for other, later in TAKEN.items():
        found = changes(before, later)
        assert applies(found) is (before.class_hash == later.class_hash), other
        if not applies(found):
            assert {BASELINE, KNOWN} & set(regenerate(found))
        for change in found:
            assert change.applies or change.regenerate


@pytest.mark.parametrize(
    "name", ["links lost", "half width", "rate", "port down", "gpu swapped", "nic swapped", "vbios"]
)
def test_a_degraded_node_is_admitted_anew_against_the_old_baseline(name: str) -> None:
    found = only(name)
    assert found.applies
    assert found.regenerate == (ADMISSION,)


@pytest.mark.parametrize("name", ["driver", "nccl", "cuda", "torch", "image", "engine", "nic order", "proto"])
def test_other_versions_need_another_baseline(name: str) -> None:
    found = only(name)
    assert not found.applies
    assert BASELINE in found.regenerate
    assert (DUMPS in found.regenerate) is (name in ("nccl", "nic order", "proto"))


def test_the_most_consequential_stands_first() -> None:
    found = [change.part for change in after("logging", "gpu swapped", "driver", "half width", "peermem", "shm")]
    assert found == [
        "settings/shm",
        "settings/gpudirect",
        "gpus/3/pcie/width",
        "driver",
        "gpus/2/uuid",
        "nccl_settings/NCCL_DEBUG",
        "nccl_settings/NCCL_DEBUG_SUBSYS",
    ]


def test_what_changed_alike_is_one_change() -> None:
    path = hgx()
    for index in (0, 1, 2, 5):
        path = gpu(path, index, vbios="96.00.B0.00.01")
    (found,) = changes(BASE, fingerprint_of(path))
    assert found.part == "gpus/0-2, 5/vbios"
    for name in ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"):
        path = port(path, name, state="DOWN")
    parts = [change.part for change in changes(BASE, fingerprint_of(path))]
    assert "nics/mlx5_0, mlx5_1, mlx5_2, mlx5_3, and 1 more/ports/1/state" in parts


def test_another_machine_is_one_change_and_not_one_of_every_part() -> None:
    found = only("another machine")
    assert found.before.startswith("GPU-00000000")
    assert found.applies


def test_the_way_back_is_told_as_well() -> None:
    sick = MUTATIONS["peermem"](MUTATIONS["links lost"](hgx()))
    found = {change.part: change.effect for change in changes(fingerprint_of(sick), BASE)}
    assert "came back" in found["gpus/3/nvlinks/up"]
    assert "DMA-BUF first" in found["settings/gpudirect"]


def test_what_is_unknown_on_both_sides_is_told_where_the_class_depends_on_it() -> None:
    path = software(hgx(), nccl=Unknown("no libnccl"))
    one = fingerprint_of(path)
    (found,) = changes(one, one)
    assert undecided(found)
    assert found.part == "ncclVersion"
    assert "equals nothing" in found.effect
    assert found.regenerate == (KNOWN,)
    harmless = fingerprint_of(gpu(hgx(), 0, vbios=Unknown("not told")))
    assert changes(harmless, harmless) == ()


def test_a_tree_that_could_not_be_read_is_undecided_where_it_is_not_known_to_be_hidden() -> None:
    path = replace(hgx(), pci=Unknown("it took too long"), matrices={})
    found = {change.part: change for change in changes(BASE, fingerprint_of(path))}
    assert "/sys not mounted" in found["pci"].effect
    assert "topologyHash" not in found
    assert not applies(tuple(found.values()))


def test_what_is_known_on_one_side_alone_is_undecided() -> None:
    found = only("driver unknown")
    assert undecided(found)
    assert found.after == "unknown (NVML does not answer)"
    assert not undecided(only("driver"))


def test_where_no_variable_could_be_read_none_is_called_unset() -> None:
    found = changes(BASE, fingerprint_of(replace(hgx(), nccl_settings=Unknown("permission denied"))))
    assert [change.part for change in found] == ["settings/NCCL_*"]
    assert (found[0].before, found[0].after) == ("read", "unknown (permission denied)")


def test_what_the_class_is_not_of_stands_last_where_it_is_unknown() -> None:
    path = MUTATIONS["driver unknown"](gpu(MUTATIONS["gpu swapped"](hgx()), 0, vbios=Unknown("not told")))
    found = [change.part for change in changes(BASE, fingerprint_of(path))]
    assert found == ["driver", "gpus/2/uuid", "gpus/0/vbios"]


def test_a_roce_address_at_another_index_is_told() -> None:
    path = pcie_box()
    moved = port(path, "mlx5_0", gids=((1, "fe80::1", "RoCE v2"), (5, "::ffff:10.0.0.1", "RoCE v2")))
    (found,) = changes(fingerprint_of(path), fingerprint_of(moved))
    assert (found.before, found.after) == ("3", "5")
    assert "NCCL_IB_GID_INDEX" in found.effect
    renumbered = port(path, "mlx5_0", gids=((3, "::ffff:10.0.0.99", "RoCE v2"),))
    assert changes(fingerprint_of(path), fingerprint_of(renumbered)) == ()


def test_a_pair_that_is_connected_otherwise_is_told() -> None:
    cells = {**hgx().matrices["m"].cells, ("GPU0", "GPU1"): "NV17", ("GPU1", "GPU0"): "NV17"}
    path = replace(hgx(), matrices={**hgx().matrices, "m": Matrix("m", cells)})
    (found,) = changes(BASE, fingerprint_of(path))
    assert (found.part, found.before, found.after) == ("matrices/m/GPU0-GPU1", "NV18", "NV17")


def test_ncclss_other_choices_are_told_where_it_ran_on_both_sides() -> None:
    def ran(protocol: str) -> NcclView:
        return NcclView((), (), (), (AlgorithmChoice("all_reduce", 1 << 20, "Ring", protocol, 16),), ("P2P/CUMEM",))

    one = fingerprint_of(replace(hgx(), nccl_view=ran("LL128")))
    other = fingerprint_of(replace(hgx(), nccl_view=ran("LL")))
    (found,) = changes(one, other)
    assert (found.before, found.after) == ("Ring/LL128 on 16 channels", "Ring/LL on 16 channels")
    assert changes(BASE, other) == ()


def test_another_profile_is_not_compared_with() -> None:
    decode, prefill = (fingerprint_of(hgx(), profile_key=f"tp8-{name}@0123456789ab") for name in ("decode", "prefill"))
    (found,) = changes(decode, prefill)
    assert not found.applies
    assert found.regenerate == (PROFILE,)
    (found,) = changes(BASE, decode)
    assert found.applies
    assert found.regenerate == ()


def test_facts_that_one_side_alone_tells_are_no_change() -> None:
    more = gpu(hgx(), 0, facts={"Persistence Mode": "Enabled", "ECC Errors / Volatile": "3"})
    assert changes(BASE, fingerprint_of(more)) == ()
    other = gpu(hgx(), 0, facts={"Persistence Mode": "Disabled", "ECC Errors / Volatile": "7"})
    (found,) = changes(fingerprint_of(more), fingerprint_of(other))
    assert found.part == "gpus/0/facts/Persistence Mode"


def test_a_vm_and_a_whole_machine_differ_without_nonsense() -> None:
    found = {change.part: change for change in changes(fingerprint_of(h200_vm()), BASE)}
    assert "matters on one side alone" in found["settings/acs"].effect
    assert found["settings/acs"].before == "absent"
    assert "gpuModel" in found
    assert not [part for part in found if part.startswith(("container/iommu", "matrices/"))]


def test_a_file_with_other_shapes_in_it_is_compared_all_the_same() -> None:
    odd = {
        "gpus": "many",
        "nics": [1, {"name": {"a": 1}, "ports": "no"}],
        "pci": [None],
        "matrices": {"m": {"rows": 3}},
    }
    found = changes(
        replace(BASE, made_from=odd), replace(BASE, made_from={**odd, "gpus": [{"index": []}, 7], "cpu": 5})
    )
    assert all(isinstance(change.effect, str) for change in found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern)
def test_every_rule_says_where_its_claim_is_from(rule: object) -> None:
    assert len(rule.source) > 8


def test_the_names_that_only_log_are_those() -> None:
    assert not any(
        map(changes_choices, ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_RAS_ENABLE", "NCCL_GRAPH_DUMP_FILE", "X"))
    )
    assert all(map(changes_choices, ("NCCL_ALGO", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_IB_HCA", "NCCL_NEW")))


def test_ports_are_compared_by_number() -> None:
    two = (NicPort(1, "ACTIVE", "InfiniBand", 400.0, 4096, ()), NicPort(2, "DOWN", "InfiniBand", 400.0, 4096, ()))
    one = replace(hgx(), nics=(replace(hgx().nics[0], ports=two), *hgx().nics[1:]))
    other = replace(hgx(), nics=(replace(hgx().nics[0], ports=two[::-1]), *hgx().nics[1:]))
    assert changes(fingerprint_of(one), fingerprint_of(other)) == ()
