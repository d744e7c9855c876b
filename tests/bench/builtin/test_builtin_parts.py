"""The parts of the built-in benchmark that need no torch: sizes, values, lines, places, orders."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from rankmuster.bench.builtin import patterns
from rankmuster.bench.builtin.control import Place, address_of, first_host, place_of
from rankmuster.bench.builtin.environment import stripped
from rankmuster.bench.builtin.frames import Listener, lines_of
from rankmuster.bench.builtin.layout import ELEMENT_BYTES, layout
from rankmuster.bench.builtin.orders import Backend, Orders, parse
from rankmuster.model.benchmark import Operation, Profile, Step


@pytest.mark.parametrize(
    ("operation", "size", "dtype", "ranks", "expected"),
    [
        # nccl-tests 2.19.6: all_reduce_perf -b 8K: count 2048 of float
        (Operation.ALL_REDUCE, 8192, "float", 4, (2048, 2048, 2048, 8192)),
        # all_gather_perf: `count` is one rank's part, `size` the gathered whole
        (Operation.ALL_GATHER, 8192, "float", 4, (512, 512, 2048, 8192)),
        (Operation.REDUCE_SCATTER, 8192, "float", 4, (512, 2048, 512, 8192)),
        (Operation.ALL_TO_ALL, 8192, "float", 4, (512, 2048, 2048, 8192)),
        (Operation.SEND_RECV, 8192, "bfloat16", 4, (4096, 4096, 4096, 8192)),
        # three ranks do not share 8192 bytes evenly: 2720 each, in words of 16 bytes
        (Operation.ALL_GATHER, 8192, "float", 3, (680, 680, 2040, 8160)),
        (Operation.ALL_TO_ALL, 8192, "half", 3, (1360, 4080, 4080, 8160)),
    ],
)
def test_sizes_mean_what_they_mean_to_nccl_tests(
    operation: Operation, size: int, dtype: str, ranks: int, expected: tuple[int, ...]
) -> None:
    shape = layout(operation, size, dtype, ranks)
    assert shape is not None
    assert (shape.count, shape.send, shape.recv, shape.size_bytes) == expected


def test_a_size_too_small_for_all_ranks_is_none() -> None:
    assert layout(Operation.ALL_GATHER, 64, "float", 8) is None
    assert layout(Operation.ALL_REDUCE, 2, "float", 8) is None


def test_an_unknown_dtype_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="bfloat16"):
        layout(Operation.ALL_REDUCE, 64, "quad", 8)


@pytest.mark.parametrize("dtype", list(ELEMENT_BYTES))
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 16, 33, 64, 127, 256, 1000])
def test_sums_are_exact_in_the_dtype_and_depend_on_the_element(dtype: str, ranks: int) -> None:
    pattern = patterns.of_sums(dtype, ranks)
    sums = pattern.sums(ranks)
    assert max(sums) <= patterns.EXACT[dtype]
    assert min(sums) >= 0
    assert len(set(sums)) > 1


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_lost_or_doubled_contribution_changes_a_sum(ranks: int) -> None:
    pattern = patterns.of_sums("bfloat16", ranks)
    sums = pattern.sums(ranks)
    for rank in range(ranks):
        assert sum(value > 0 for value in pattern.values(rank)) >= pattern.modulus - 1
        assert sums != tuple(a - b for a, b in zip(sums, pattern.values(rank), strict=True))


def test_keys_show_displaced_elements() -> None:
    pattern = patterns.of_copies("bfloat16")
    keys = [pattern.key(index) for index in range(100_000)]
    for shift in (1, 2, 8, 64, 1024, 65_536):
        same = sum(one == other for one, other in zip(keys, keys[shift:], strict=False))
        assert same < 0.05 * len(keys[shift:])


def test_words_of_ranks_survive_a_launcher() -> None:
    """Prefixes, foreign lines, and pieces of several ranks between each other, in any cuts."""
    chance = random.Random(5)
    said = {rank: [json.dumps({"kind": "row", "n": n, "x": [" a "] * 600}) for n in range(3)] for rank in range(4)}
    streams = [
        [f"[1,{rank}]<stdout>:{line}" for n, text in enumerate(texts) for line in lines_of(rank, n, text)]
        for rank, texts in said.items()
    ]
    lines = []
    while any(streams):
        stream = chance.choice([one for one in streams if one])
        lines.append(stream.pop(0))
        if chance.random() < 0.2:
            lines.append("srun: warning: something else\n")
    data = "".join(lines).encode()
    listener = Listener()
    heard = []
    while data:
        cut = chance.randrange(1, 5000)
        heard += listener.feed(data[:cut])
        data = data[cut:]
    heard += listener.feed(b"", ended=True)
    assert len(heard) == 12
    assert listener.unfinished == listener.damaged == 0
    assert all(message.kind == "row" and len(message.values["x"]) == 600 for message in heard)
    assert listener.others


@pytest.mark.parametrize(
    "junk",
    [
        b"@rankmuster-bench 0 0 5/2 |{}|\n",
        b"@rankmuster-bench 0 0 0/1 |[1]|\n",
        b"@rankmuster-bench 0 0 0/1 {}\n",
        b"@rankmuster-bench 0 0 0/1 |{|\n",
        b"\xff\x00@rankmuster-bench\n",
        b"x" * 1_000_000,
    ],
)
def test_damaged_lines_cost_themselves(junk: bytes) -> None:
    listener = Listener()
    good = "".join(lines_of(0, 1, '{"kind": "done"}')).encode()
    assert [message.kind for message in listener.feed(junk + b"\n" + good, ended=True)] == ["done"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "SLURM_PROCID": "0"}, Place(3, 8, 1, "torchrun")),
        (
            {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_RANK": "5"},
            Place(5, 16, 5, "Open MPI"),
        ),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}, Place(1, 2, 0, "Slurm")),
    ],
)
def test_ranks_are_numbered_by_the_launcher(environment: dict[str, str], expected: Place) -> None:
    assert place_of(environment) == expected


def test_without_a_launcher_it_is_said_what_was_looked_for() -> None:
    with pytest.raises(ValueError, match="SLURM_PROCID"):
        place_of({"RANK": "x", "WORLD_SIZE": "2"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("gpu[003-004,7],x", "gpu003"), ("a,b", "a"), ("n[2,1]", "n2"), ("n1", "n1"), ("a,b[1-2]", "a"), ("", "")],
)
def test_rank_0_is_on_the_first_node_of_the_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_rank_0s_address() -> None:
    assert address_of({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "7", "SLURM_JOB_NODELIST": "x"}) == ("10.0.0.1", 7)
    assert address_of({"SLURM_STEP_NODELIST": "gpu[3-4]"})[0] == "gpu3"
    with pytest.raises(ValueError, match="MASTER_ADDR"):
        address_of({})


def test_orders_come_back_as_they_were_given() -> None:
    profile = Profile("p", "two words, and a 'quote'", (Step(Operation.REDUCE, (8, 16), "half", True, False, 3, 1),), 4)
    orders = Orders(profile, 30.0, Backend.GLOO, 0, 4, "/tmp/store", 5, True, None, True, (("NCCL_ALGO", "Ring,Tree"),))
    assert parse(orders.arguments()) == orders
    assert parse(orders.arguments()).profile.key == profile.key


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"profile": {"steps": [{"operation": "dance"}]}}', "\x00"])
def test_orders_that_nobody_gave_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        parse(["--orders", text])


def test_ranks_get_what_they_need_and_what_was_asked_for() -> None:
    here = {"PATH": "/bin", "NCCL_PROTO": "LL", "API_TOKEN": "s3cret", "CUDA_VISIBLE_DEVICES": "0,1", "LC_ALL": "de_DE"}
    made = stripped(here, {"NCCL_ALGO": "Ring"})
    assert made["PATH"] == "/bin"
    assert made["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert made["NCCL_ALGO"] == "Ring"
    assert made["LC_ALL"] == "C"
    assert "NCCL_PROTO" not in made
    assert "API_TOKEN" not in made


def test_multicast_that_is_off_here_stays_off_unless_it_is_asked_for() -> None:
    off = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
    assert off.items() <= stripped(off, {}).items()
    assert "NCCL_NVLS_ENABLE" not in stripped({"NCCL_NVLS_ENABLE": "1"}, {})
    assert stripped(off, {"NCCL_NVLS_ENABLE": "1"})["NCCL_NVLS_ENABLE"] == "1"


def test_a_rank_needs_nothing_but_the_standard_library_before_torch() -> None:
    """It runs in an engine's own environment, which has none of this package's dependencies."""
    program = (
        "import sys; before = set(sys.modules); "
        "import rankmuster.bench.builtin.worker, rankmuster.bench.builtin.setup; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) - set(sys.stdlib_module_names) == {"rankmuster"}
