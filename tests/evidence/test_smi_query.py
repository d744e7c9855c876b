"""`nvidia-smi -q`: each GPU's facts under keys that say which section they stand in."""

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.smi_query import READER

GPU = """GPU 00000000:9B:00.0
    Product Name                                       : NVIDIA H200
    GPU UUID                                           : GPU-aaaaaaaa-0000-0000-0000-000000000000
    Minor Number                                       : 3
    GPU Recovery Action                                : None
    PCI
        Bus Id                                         : 00000000:9B:00.0
        GPU Link Info
            PCIe Generation
                Max                                    : 5
                Current                                : 1
            Link Width
                Current                                : 8x
    Clocks Event Reasons
        HW Slowdown                                    : Not Active
            HW Thermal Slowdown                        : Active
        Sync Boost                                     : Not Active
    Fabric
        State                                          : In Progress
    Processes
        Process ID                                     : 11
        Process ID                                     : 12
    Capabilities
        EGM                                            : disabled
"""
HEAD = (
    "\n==============NVSMI LOG==============\n\nDriver Version              "
    "             : 580.1\nAttached GPUs                            : {}\n"
)


def read(text: str):
    blob = Blob("q.txt", text.encode())
    assert READER.recognises(blob)
    return READER.read(blob)


def test_facts_are_found_under_their_sections():
    (gpu,) = read(HEAD.format(1) + GPU).observations
    assert (gpu.index, gpu.bus_id, gpu.name) == (0, "0000:9b:00", "NVIDIA H200")
    assert gpu.uuid == "GPU-aaaaaaaa-0000-0000-0000-000000000000"
    assert gpu.facts["Driver Version"] == "580.1"
    assert gpu.facts["PCI / GPU Link Info / PCIe Generation / Current"] == "1"
    assert gpu.facts["PCI / GPU Link Info / Link Width / Current"] == "8x"
    assert gpu.facts["Clocks Event Reasons / HW Slowdown / HW Thermal Slowdown"] == "Active"
    assert gpu.facts["Clocks Event Reasons / Sync Boost"] == "Not Active"
    assert gpu.facts["Fabric / State"] == "In Progress"


def test_every_process_on_the_gpu_is_kept():
    (gpu,) = read(HEAD.format(1) + GPU).observations
    assert (gpu.facts["Processes / Process ID"], gpu.facts["Processes / Process ID #2"]) == ("11", "12")


def test_the_minor_number_is_not_taken_for_the_index():
    reading = read(HEAD.format(8) + GPU)
    assert reading.observations[0].index is None
    assert "1 of 8" in reading.problems[0].message


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        (
            "Unable to determine the device handle for GPU0000:18:00.0: "
            "GPU is lost.  Reboot the system to recover this GPU",
            "0000:18:00",
        ),
        ("Unable to determine the device handle for GPU 0000:9B:00.0: Unknown Error", "0000:9b:00"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", None),
        ("Failed to initialize NVML: Driver/library version mismatch", None),
        ("No devices were found", None),
    ],
)
def test_what_the_tool_says_instead_of_facts_is_a_fact(text, bus):
    (gpu,) = read(text + "\n").observations
    assert (gpu.bus_id, gpu.facts["error"]) == (bus, text)


def test_a_lost_gpu_among_good_ones():
    found = read(
        HEAD.format(2) + GPU + "Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.\n"
    ).observations
    assert [(g.bus_id, "error" in g.facts) for g in found] == [("0000:9b:00", False), ("0000:18:00", True)]


def test_a_log_that_merely_quotes_the_complaint_is_not_claimed():
    assert not READER.recognises(Blob("x", b"step 1\n" * 5 + b"worker: No devices were found\n"))
