"""`nvidia-smi --query-gpu`: whatever fields were asked for, the GPU can be told."""

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.smi_csv import READER

ROW = "0, NVIDIA H200, GPU-aaaaaaaa-0000-0000-0000-000000000000, 00000000:9B:00.0, 345 MHz\n"
HEADER = "index, name, uuid, pci.bus_id, clocks.current.sm [MHz]\n"


def read(text: str):
    blob = Blob("query.csv", text.encode())
    assert READER.recognises(blob)
    return READER.read(blob)


def test_a_row_is_a_gpu():
    (gpu,) = read(HEADER + ROW).observations
    assert (gpu.index, gpu.bus_id, gpu.name) == (0, "0000:9b:00", "NVIDIA H200")
    assert gpu.facts["clocks.current.sm [MHz]"] == "345 MHz"


def test_without_a_header_the_command_tells_the_fields():
    command = "u@h9:~$ nvidia-smi --query-gpu=index,name,uuid,pci.bus_id,clocks.sm --format=csv,noheader\n"
    (gpu,) = read(command + ROW).observations
    assert (gpu.index, gpu.host, gpu.facts["clocks.sm"]) == (0, "h9", "345 MHz")


def test_a_cut_row_is_told():
    reading = read(HEADER + ROW + ROW[:20])
    assert len(reading.observations) == 1
    assert "1 lines" in reading.problems[0].message


def test_samples_over_time_and_other_tables_are_not_claimed():
    for text in ("timestamp, index, uuid, power.draw [W]\n", "rank,step,loss\n0,1,0.5\n", "name, value\na, 1\n", ROW):
        assert not READER.recognises(Blob("x", text.encode()))
