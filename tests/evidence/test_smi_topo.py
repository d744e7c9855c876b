"""The topology table must come out the same whether printed, pasted, or cut."""

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.smi_topo import READER
from rankmuster.model.problem import ProblemKind

PRINTED = (
    "$ nvidia-smi topo -m\n"
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPXB\t0-31\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\t\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_bond_0\n"
)


def read(text: str, path: str = "topology/topo.txt"):
    blob = Blob(path, text.encode())
    assert READER.recognises(blob)
    return READER.read(blob)


def test_a_printed_table():
    (matrix,) = read(PRINTED).observations
    assert (matrix.kind, matrix.rows, matrix.columns) == ("m", ("GPU0", "GPU1", "NIC0"), ("GPU0", "GPU1", "NIC0"))
    assert (matrix.cells["GPU0", "GPU1"], matrix.cells["GPU1", "NIC0"], matrix.cells["NIC0", "NIC0"]) == (
        "NV18",
        "SYS",
        "X",
    )
    assert matrix.nics == {"NIC0": "mlx5_bond_0"}
    assert matrix.cpu_affinity == {"GPU0": "0-31"}
    assert matrix.numa_affinity == {"GPU0": "0", "GPU1": "1"}


def test_a_pasted_table_without_tabs_says_the_same():
    pasted = PRINTED.replace("\t\t1", "\t 1").replace("\x1b[4m", "").replace("\x1b[0m", "").expandtabs(8)
    (matrix,) = read(pasted).observations
    (printed,) = read(PRINTED).observations
    assert matrix.cells == printed.cells
    assert matrix.numa_affinity == printed.numa_affinity
    assert matrix.cpu_affinity == printed.cpu_affinity


def test_a_header_that_lost_its_tabs_is_still_a_header():
    text = (
        "GPU0GPU1NIC0CPU AffinityNUMA Affinity   \nGPU0     X     SYS    PHB "
        "   0-13,28-41    0\nGPU1    SYS     X     SYS    14-27    1\n"
    )
    (matrix,) = read(text).observations
    assert matrix.columns == ("GPU0", "GPU1", "NIC0")
    assert matrix.numa_affinity == {"GPU0": "0", "GPU1": "1"}


def test_rows_without_a_header_are_used_and_the_guess_is_told():
    reading = read("GPU0\t X \tNV18\tPIX\tNODE\t0-191\t0\t\tN/A\nGPU1\tNV18\t X \tNODE\tPIX\t0-191\t0\t\tN/A\n")
    (matrix,) = reading.observations
    assert matrix.columns == ("GPU0", "GPU1", "NIC0", "NIC1")
    assert (matrix.cells["GPU1", "NIC1"], matrix.numa_affinity["GPU1"]) == ("PIX", "0")
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]


def test_a_cut_row_keeps_its_first_cells_and_is_named():
    reading = read(PRINTED[: PRINTED.index("SYS\t X ")])
    (matrix,) = reading.observations
    assert matrix.cells["NIC0", "GPU0"] == "PXB"
    assert ("NIC0", "GPU1") not in matrix.cells
    assert "NIC0" in reading.problems[0].message


def test_the_pcie_table_is_not_taken_for_one_without_nvlinks():
    text = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n\nLegend:\n\n  X    = Self\n  PIX  = one bridge\n"
    assert read(text).observations[0].kind == "mp"
    assert read("$ nvidia-smi topo -mp\n" + text).observations[0].kind == "mp"
    assert read(text[: text.index("\nLegend")]).observations[0].kind == "m"


def test_peer_to_peer_tables_keep_the_letter_of_the_question():
    table = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n"
    assert [read(f"$ nvidia-smi topo -p2p {c}\n{table}").observations[0].kind for c in "rwnap"] == list("rwnap")
    (unsaid,) = read(table).observations
    assert (unsaid.kind, unsaid.cells["GPU0", "GPU1"]) == ("p2p", "CNS")


def test_two_hosts_in_one_file_are_two_tables():
    first, second = read(
        PRINTED + "2025/05/21 09:40:05 nodeB nvidia-smi topo -m\n" + PRINTED.split("\n", 1)[1]
    ).observations
    assert (first.host, second.host) == (None, "nodeB")
    assert second.nics == {"NIC0": "mlx5_bond_0"}


def test_old_tools_label_nics_by_device():
    (matrix,) = read("\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPIX\t0-9\nmlx5_0\tPIX\t X \t\n").observations
    assert matrix.cells["GPU0", "mlx5_0"] == "PIX"
    assert matrix.cpu_affinity == {"GPU0": "0-9"}


def test_other_outputs_are_not_claimed():
    for text in (
        "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n",
        "GPU0 busy 100 %\n",
        "hca_id:\tmlx5_0\n",
    ):
        assert not READER.recognises(Blob("x", text.encode()))
