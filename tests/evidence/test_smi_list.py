"""`nvidia-smi -L` ties indices to UUIDs."""

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.smi_list import READER

LIST = (
    "GPU 0: NVIDIA H200 (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000000)\n"
    "  MIG 1g.18gb     Device  0: (UUID: MIG-cccccccc-0000-0000-0000-000000000000)\n"
    "GPU 1: NVIDIA H200 (UUID: GPU-bbbbbbbb-0000-0000-0000-000000000000)\n"
    "Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.\n"
)


def test_gpus_partitions_and_what_is_lost():
    blob = Blob("topology/host=a7/L.txt", LIST.encode())
    assert READER.recognises(blob)
    first, second, lost = READER.read(blob).observations
    assert (first.index, first.uuid, first.name, first.host) == (
        0,
        "GPU-aaaaaaaa-0000-0000-0000-000000000000",
        "NVIDIA H200",
        "a7",
    )
    assert first.facts == {"MIG 0": "1g.18gb MIG-cccccccc-0000-0000-0000-000000000000"}
    assert (second.index, second.facts) == (1, {})
    assert (lost.bus_id, lost.index) == ("0000:18:00", None)


def test_the_same_headings_above_links_belong_to_the_nvlink_reader():
    assert not READER.recognises(Blob("x", LIST.encode() + b"\t Link 0: 26.562 GB/s\n"))
