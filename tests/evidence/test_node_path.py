"""Captured text gives the same node as the machine itself would: of one host, and of nothing that is not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import Evidence, gather, load
from rankmuster.evidence.node_path import UNNAMED, NotOneNode, from_evidence, hosts_in, node_paths
from rankmuster.evidence.node_path_readers import for_node_paths
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

CAPTURED = Path(__file__).parents[1] / "admission" / "h200-x4"
SHARED = Path(__file__).parents[2].parent / "shared" / "samples"
UUIDS = [f"GPU-aaaaaaaa-0000-0000-0000-00000000000{index}" for index in range(3)]

TOPO = (
    "{prompt}nvidia-smi topo -m\n"
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tPIX\tNODE\t0-31\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNODE\tPIX\t\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tSYS\tSYS\t32-63\t1\t\tN/A\n"
    "NIC0\tPIX\tNODE\tSYS\t X \tNODE\t\t\t\t\n"
    "NIC1\tNODE\tPIX\tSYS\tNODE\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n"
)
P2P = (
    "$ nvidia-smi topo -p2p {letter}\n \t\x1b[4mGPU0\tGPU1\tGPU2\t\x1b[0m\n"
    " GPU0\tX\t{word}\tOK\t\n GPU1\t{word}\tX\tOK\t\n"
    " GPU2\tOK\tOK\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
)
NVLINK = "".join(
    f"GPU {index}: NVIDIA H200 (UUID: {uuid})\n" + "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(18))
    for index, uuid in enumerate(UUIDS)
)
QUERY = "=====NVSMI LOG=====\n\nDriver Version   : 580.159.04\nCUDA Version     : 13.0\n\nAttached GPUs  : 3\n"
QUERY += "".join(
    f"GPU 00000000:{0x9A + index:02X}:00.0\n    Product Name                  : NVIDIA H200\n"
    f"    MIG Mode\n        Current                   : {'N/A' if index else 'Disabled'}\n"
    f"    Serial Number                 : 165000{index}\n    GPU UUID                      : {uuid}\n"
    "    VBIOS Version                 : 96.00.A5.00.1A\n    PCI\n        Bus Id                    : "
    f"00000000:{0x9A + index:02X}:00.0\n        GPU Link Info\n            PCIe Generation\n"
    "                Max               : 5\n                Current           : 1\n            Link Width\n"
    "                Max               : 16x\n                Current           : 8x\n"
    "    ECC Mode\n        Current                   : Enabled\n    Remapped Rows\n        Pending       : No\n"
    for index, uuid in enumerate(UUIDS)
)
SYSFS = "".join(
    f"/sys/bus/pci/devices/{address} class={code} vendor=0x10de dev=0x2335 numa={numa} speed=32.0 GT/s PCIe width=16 "
    f"max_speed=32.0 GT/s PCIe max_width=16 path=/sys/devices/{place}{address}\n"
    for address, code, numa, place in (
        ("0000:97:01.0", "0x060400", 0, "pci0000:97/"),
        ("0000:9a:00.0", "0x030200", 0, "pci0000:97/0000:97:01.0/"),
        ("0000:9b:00.0", "0x030200", 0, "pci0000:97/"),
        ("0000:9c:00.0", "0x030200", 1, "pci0000:a7/"),
    )
)
DEVINFO = (
    "hca_id:\tmlx5_0\n\tfw_ver:\t\t\t28.43.2566\n\tnode_guid:\t\t0200:5e00:0000:0001\n\tvendor_id:\t\t0x02c9\n"
    "\tvendor_part_id:\t\t4129\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
    "\t\t\tlink_layer:\t\tInfiniBand\n"
)


def gathered(**texts: str) -> Evidence:
    blobs = [Blob(f"{name}.txt", text.encode()) for name, text in texts.items()]
    return gather(blobs, readers=for_node_paths())


def observations(evidence: Evidence) -> list[object]:
    return [each for those in evidence.by_type.values() for each in those]


def node(**texts: str) -> NodePath:
    return from_evidence(observations(gathered(**texts)))


def test_a_node_is_put_together_from_what_each_tool_says_of_it():
    path = node(
        topo=TOPO.format(prompt="$ "),
        read=P2P.format(letter="r", word="NS"),
        write=P2P.format(letter="w", word="OK"),
        nvlink=NVLINK,
        query=QUERY,
        pci=SYSFS,
        rdma=DEVINFO,
        shm="Filesystem      Size  Used Avail Use% Mounted on\ntmpfs            64M     0   64M   0% /dev/shm\n",
        cpu="Architecture:   x86_64\nVendor ID:      GenuineIntel\nCPU family:     6\nSocket(s):  2\n",
    )
    assert (path.driver, path.cuda_driver, path.nvswitches) == ("580.159.04", "13.0", 0)
    gpu = path.gpus[1]
    assert (gpu.uuid, gpu.bus_id, gpu.model, gpu.vbios) == (UUIDS[1], "0000:9b:00.0", "NVIDIA H200", "96.00.A5.00.1A")
    assert (gpu.pcie.generation, gpu.pcie.generation_max, gpu.pcie.width, gpu.pcie.width_max) == (1, 5, 8, 16)
    assert (gpu.mig, gpu.ecc) == ("N/A", "Enabled")
    assert [gpu.numa for gpu in path.gpus] == [0, 0, 1]
    assert len(gpu.links) == 18
    assert {link.remote for link in gpu.links} == {"switch"}
    assert "Serial Number" not in gpu.facts
    assert gpu.facts["Remapped Rows / Pending"] == "No"
    assert path.matrices["m"].cells["GPU0", "NIC0"] == "PIX"
    assert path.matrices["m"].nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_3"}
    assert path.matrices["r"].cells["GPU0", "GPU1"] == "NS"
    assert path.matrices["w"].cells["GPU0", "GPU1"] == "OK"
    assert {device.address: device.parent for device in path.pci}["0000:9a:00.0"] == "0000:97:01.0"
    assert [nic.name for nic in path.nics] == ["mlx5_0", "mlx5_3"]
    assert (path.nics[0].model, path.nics[0].guid) == ("MT4129", "0200:5e00:0000:0001")
    assert path.nics[0].ports[0].mtu == 4096
    assert isinstance(path.nics[1].firmware, Unknown)
    assert (path.cpu.sockets, path.cpu.vendor) == (2, "GenuineIntel")
    assert path.container.shm_bytes == 64 << 20
    assert path.container.sys_complete is True


def test_what_no_text_says_is_unknown_with_what_would_say_it():
    path = node(topo=TOPO.format(prompt="$ "))
    assert len(path.gpus) == 3
    assert "nvlink -s" in path.gpus[0].links.reason
    for value in (path.driver, path.pci, path.gpus[0].uuid, path.software.nccl, path.nccl_settings, path.cpu.vendor):
        assert isinstance(value, Unknown)
        assert value.reason


def test_an_empty_affinity_and_not_available_keep_their_columns():
    text = TOPO.format(prompt="$ ").replace("32-63\t1\t\tN/A", "32-63\tN/A\t\tN/A")
    assert [gpu.numa for gpu in node(topo=text).gpus] == [0, 0, -1]


def test_a_table_that_was_cut_gives_what_stood_before():
    text = TOPO.format(prompt="$ ")
    evidence = gathered(topo=text[: text.index("SYS\tSYS\t32-63")])
    path = from_evidence(observations(evidence), problems=evidence.problems)
    assert path.matrices["m"].cells["GPU1", "NIC1"] == "PIX"
    assert ("GPU2", "NIC0") not in path.matrices["m"].cells
    assert any("cut or damaged" in how for _, how in path.sources)


def test_a_table_without_its_header_is_read_and_said_to_be():
    text = "\n".join(TOPO.format(prompt="$ ").splitlines()[2:7])
    evidence = gathered(topo=text)
    path = from_evidence(observations(evidence), problems=evidence.problems)
    assert path.matrices["m"].cells["GPU0", "NIC0"] == "PIX"
    assert any("lost its header" in how for _, how in path.sources)


def test_two_hosts_in_one_text_are_two_nodes_and_the_caller_says_which():
    text = TOPO.format(prompt="u@node-a:~$ ") + "\n" + TOPO.format(prompt="u@node-b:~$ ").replace("PIX", "PXB")
    found = observations(gathered(both=text))
    assert hosts_in(found) == ("node-a", "node-b")
    with pytest.raises(NotOneNode, match="node-a, node-b"):
        from_evidence(found)
    assert from_evidence(found, host="node-b").matrices["m"].cells["GPU0", "NIC0"] == "PXB"
    assert [path.host for path in node_paths(found)] == ["node-a", "node-b"]
    with pytest.raises(NotOneNode, match="nothing here is of node-c"):
        from_evidence(found, host="node-c")


def test_a_host_that_is_not_named_beside_one_that_is_stays_apart():
    text = TOPO.format(prompt="$ ") + "\n" + TOPO.format(prompt="u@node-b:~$ ").replace("PIX", "PXB")
    found = observations(gathered(both=text))
    assert hosts_in(found) == ("node-b", UNNAMED)
    assert from_evidence(found, host=UNNAMED).matrices["m"].cells["GPU0", "NIC0"] == "PIX"
    assert from_evidence(found, host=UNNAMED).host is None
    assert from_evidence(found, host="node-b").matrices["m"].cells["GPU0", "NIC0"] == "PXB"


def test_two_machines_without_names_are_never_made_one():
    first = TOPO.format(prompt="$ ")
    with pytest.raises(NotOneNode, match="two matrices of kind 'm' differ"):
        node(a=first, b=first.replace("PIX", "PXB"))
    with pytest.raises(NotOneNode, match="GPU 1 is"):
        node(a=QUERY, b=NVLINK_OTHER)


NVLINK_OTHER = QUERY.replace(UUIDS[1], "GPU-bbbbbbbb-0000-0000-0000-000000000001")


def test_evidence_of_no_node_says_what_to_capture():
    with pytest.raises(NotOneNode, match="nvidia-smi"):
        from_evidence([])


def test_several_commands_in_one_file_are_all_read():
    path = node(all=f"u@node-a:~$ nvidia-smi topo -m\n{TOPO.format(prompt='# ')}\n{NVLINK}\n{DEVINFO}\n{SYSFS}")
    assert path.host == "node-a"
    assert (len(path.gpus), len(path.gpus[0].links), len(path.nics), len(path.pci)) == (3, 18, 2, 4)


def test_links_of_gpus_that_have_none_are_known_to_be_none():
    path = node(
        a=f"GPU 0: NVIDIA L40S (UUID: {UUIDS[0]})\nUnable to retrieve NVLink information as all links are inActive\n"
    )
    assert path.gpus[0].links == ()


def test_links_of_two_gpus_may_lead_through_switches_until_a_text_says_where():
    table = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
    table += "GPU0\t X \tNV4\t0-9\t0\nGPU1\tNV4\t X \t0-9\t0\n"
    links = "".join(
        f"GPU {index}: NVIDIA A100 (UUID: {UUIDS[index]})\n" + "".join(f"\t Link {at}: 25 GB/s\n" for at in range(4))
        for index in (0, 1)
    )
    path = node(topo=table, links=links)
    assert all(isinstance(link.remote, Unknown) for link in path.gpus[0].links)
    assert path.nics == ()
    query = "index, uuid, pci.bus_id\n" + "".join(
        f"{index}, {UUIDS[index]}, 00000000:{0x9A + index:02X}:00.0\n" for index in (0, 1)
    )
    ends = "$ nvidia-smi nvlink -p\n" + "".join(
        f"GPU {index}: NVIDIA A100 (UUID: {UUIDS[index]})\n" + "".join(f"\t Link {at}: {end}\n" for at in range(4))
        for index, end in ((0, "00000000:9B:00.0"), (1, "FFFFFFFF:FF:FF.0"))
    )
    path = node(topo=table, links=links, ends=ends, query=query)
    assert {link.remote for link in path.gpus[0].links} == {"gpu:1"}
    assert {link.remote for link in path.gpus[1].links} == {"switch"}
    assert len(path.gpus[1].links) == 4


def test_an_older_tool_that_names_adapters_by_themselves_is_read_the_same():
    table = "$ nvidia-smi topo -m\n\tGPU0\tmlx5_0\tmlx5_1\tCPU Affinity\n"
    table += "GPU0\t X \tPIX\tSYS\t0-9\nmlx5_0\tPIX\t X \tSYS\nmlx5_1\tSYS\tSYS\t X \n"
    matrix = node(topo=table).matrices["m"]
    assert matrix.cells["GPU0", "NIC0"] == "PIX"
    assert matrix.nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}


def test_what_nccl_saw_and_chose_is_its_own_view():
    log = (
        "node-a:10:20 [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n"
        "node-a:10:20 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"
        "node-a:10:20 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..15}\n"
        "node-a:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    )
    xml = (
        '<system version="1"><cpu numaid="0"><pci busid="0000:9a:00.0"><gpu dev="0"><nvlink target="ff" count="18"/>'
        '</gpu></pci><nic><net name="mlx5_0" speed="400000" gdr="1"/></nic></cpu></system>'
    )
    path = node(topo=TOPO.format(prompt="$ "), log=log, xml=xml)
    assert path.software.nccl == "2.28.9"
    assert path.nccl_settings == {"NCCL_PROTO": "LL"}
    view = path.nccl_view
    assert view is not None
    assert view.gpus == ((0, "0000:9a:00.0", 18),)
    assert view.nets == (("mlx5_0", 400.0, True),)
    [choice] = view.choices
    assert (choice.operation, choice.size_bytes, choice.algorithm, choice.channels) == (
        "AllReduce",
        1048576,
        "RING",
        16,
    )
    assert choice.protocol == "LL"
    assert view.transports == ("P2P/CUMEM",)


def test_a_run_of_nccl_alone_gives_its_view_of_a_node_that_is_otherwise_unknown():
    path = node(log="node-a:10:20 [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n")
    assert path.software.nccl == "2.28.9"
    assert isinstance(path.gpus, Unknown)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published outputs are not beside this checkout")
@pytest.mark.parametrize("folder", ["topo", "topo-p2p"])
def test_every_published_matrix_is_read(folder):
    for file in sorted((SHARED / "public" / folder).glob("*.txt")):
        if file.name == "INDEX.txt":
            continue
        for path in node_paths(observations(load(file, readers=for_node_paths()))):
            assert path.matrices, file
            assert path.gpus, file


def test_the_captured_machine_is_read_whole():
    path = from_evidence(observations(load(CAPTURED, readers=for_node_paths())))
    assert sorted(path.matrices) == ["a", "m", "mp", "n", "p", "r", "w"]
    assert [len(gpu.links) for gpu in path.gpus] == [18] * 4
    assert [gpu.bus_id for gpu in path.gpus] == [f"0000:00:0{at}.0" for at in (6, 7, 8, 9)]
    assert (path.driver, path.container.shm_bytes, path.cpu.numa_nodes) == ("580.159.04", 512 << 30, 1)
    assert [nic.name for nic in path.nics] == ["eth0"]
    assert not [value for value in (path.pci, path.nvswitches) if isinstance(value, Unknown)]
