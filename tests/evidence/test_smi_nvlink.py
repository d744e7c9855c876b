"""How many NVLinks of a GPU are up, and how fast; silence about links is not the same as none."""

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.smi_nvlink import READER

STATUS = (
    "$ nvidia-smi nvlink -s\n"
    "GPU 0: NVIDIA H200 (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000000)\n"
    "\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n"
    "GPU 1: NVIDIA H200 (UUID: GPU-bbbbbbbb-0000-0000-0000-000000000000)\n"
    "NVML: Unable to retrieve NVLink information as all links are inActive\n"
)


def read(text: str):
    blob = Blob("nvlink.txt", text.encode())
    assert READER.recognises(blob)
    return READER.read(blob)


def test_links_are_told_by_gpu_and_an_inactive_one_keeps_its_place():
    first, second = read(STATUS).observations
    assert (first.gpu, first.links, first.note) == ("0", (26.562, None, 26.562), None)
    assert first.uuid == "GPU-aaaaaaaa-0000-0000-0000-000000000000"
    assert (second.gpu, second.links) == ("1", ())
    assert "all links are inActive" in second.note


def test_the_complaint_alone_names_its_gpu():
    (status,) = read("NVML: Unable to retrieve NVLink information as all links are inActive (GPU c3:00)").observations
    assert (status.gpu, status.links) == ("0000:c3:00", ())


def test_a_sleeping_link_is_not_reported_as_inactive():
    (status,) = read("GPU 0: X (UUID: GPU-1)\n\t Link 0: <sleep>\n").observations
    assert (status.links, status.note) == ((None,), "sleep")


def test_impossible_link_numbers_are_told():
    reading = read("GPU 0: X (UUID: GPU-1)\n\t Link 0: 50 GB/s\n\t Link 99999: 50 GB/s\n")
    assert reading.observations[0].links == (50.0,)
    assert "1 link lines" in reading.problems[0].message


def test_other_options_of_the_tool_are_not_read_as_speeds():
    for line in ("Link 0: Replay Errors: 0", "Link 0, P2P is supported: true", "Link 0: Data Tx: 5 KiB"):
        assert not READER.recognises(Blob("x", f"GPU 0: X (UUID: GPU-1)\n\t {line}\n".encode()))
