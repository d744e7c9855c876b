"""Kernel logs and tool outputs of failing machines arrive cut, mixed and overwritten: no reader may fall over."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import (
    kernel_log,
    rdma,
    service_journal,
    smi_csv,
    smi_list,
    smi_nvlink,
    smi_query,
    smi_topo,
    smi_xml,
)
from rankmuster.evidence.blob import Blob, Reading

READERS = tuple(
    m.READER for m in (kernel_log, service_journal, smi_topo, smi_nvlink, smi_query, smi_list, smi_xml, smi_csv, rdma)
)
UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
SAMPLES = (
    b"[1.5] NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 45, pid=5, name=python3, Ch 1 caused by previous Xid 149\n"
    b"kernel: NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)\n"
    b"[2.5] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up\n"
    b"[3.5] NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: fallen off the bus and is not responding to commands.\n",
    b"4,1,99,-;oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/a/b,task=x,pid=7,uid=0\n"
    b"Memory cgroup out of memory: Killed process 7 (x) "
    b"total-vm:1kB\nINFO: task x:8 blocked for more than 120 seconds.\n"
    b"Nov 29 10:00:00 a1 kernel: mlx5_core 0000:ca:00.0 ens1: Link down\n",
    b"Nov 29 10:00:00 a1 systemd[1]: Stopped "
    b'nvidia-fabricmanager.service.\n{"MESSAGE":"Started kubelet.service.","SYSLOG_IDENTIFIER":"systemd"}\n'
    b"[Feb 27 2025 15:10:02] [ERROR] [tid 1] detected NVSwitch fatal "
    b"error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 port 3\n",
    b"\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X "
    b"\tNV18\tPIX\t0-9\nGPU1\tNV18\t X \tSYS\t0-9\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
    f"GPU 0: NVIDIA H200 (UUID: {UUID})\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n".encode(),
    b"=====NVSMI LOG=====\nAttached GPUs    : 1\nGPU "
    b"00000000:9B:00.0\n    Product Name      : X\n    PCI\n        Bus      : 1\n",
    b"<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu "
    b'id="00000000:9B:00.0"><uuid>GPU-1</uuid></gpu></nvidia_smi_log>',
    f"index, uuid, pci.bus_id\n0, {UUID}, 00000000:9B:00.0\n".encode(),
    b"hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_ACTIVE (4)\n\t\t\tGID[  3]:\t\t::ffff:10.0.0.1, RoCE v2\n"
    b"mlx5_0/ports/1/gids/4: fe80::1\nmlx5_0\t1\t5\tfe80:0000:0000:0000:0000:0000:0000:0001\t\tv1\teth0\n",
    "Link 0: ² GPU² mlx5_0/ports/1/gids/²: x\r\n".encode(),
)
QUICK = settings(max_examples=60, deadline=None)


def survives(data: bytes) -> None:
    for reader in READERS:
        blob = Blob("node-a1/x.txt", data)
        assert isinstance(reader.recognises(blob), bool)
        reading = reader.read(blob)
        assert isinstance(reading, Reading)
        assert reading.known >= 0


@QUICK
@given(st.sampled_from(SAMPLES), st.integers(0, 700))
def test_cut_anywhere(sample, at):
    survives(sample[:at])
    survives(sample[at:])


@QUICK
@given(st.binary(max_size=600))
def test_random_bytes(data):
    survives(data)


@QUICK
@given(st.sampled_from(SAMPLES), st.sampled_from(SAMPLES), st.integers(0, 400), st.integers(0, 400))
def test_two_inputs_spliced(a, b, i, j):
    survives(a[:i] + b[j:] + a[i:])


@QUICK
@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=12))
def test_bytes_overwritten(sample, flips):
    data = bytearray(sample)
    for at, value in flips:
        data[at % len(data)] = value
    survives(bytes(data))


@pytest.mark.parametrize(
    "filler",
    [b"9" * 6000, b" " * 12000, b"\t" * 6000, b"(" * 6000, b"\0" * 6000, b"<a>" * 6000, b"{" * 6000, b"." * 6000],
)
def test_long_runs_in_the_middle_of_a_line(filler):
    for sample in SAMPLES:
        for at in (len(sample) // 3, len(sample) // 2):
            survives(sample[:at] + filler + sample[at:])


def test_no_document_reader_claims_what_another_reads():
    claims = [
        [r.name for r in READERS if r.kind.value == "document" and r.recognises(Blob("x", s))] for s in SAMPLES[:9]
    ]
    assert [len(c) for c in claims] == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert len({c[0] for c in claims[3:]}) == 6
