"""The native reader makes the same of real and of hostile dumps as the pure ones do, and no more memory of them."""

from __future__ import annotations

import io
import os
import pickle
import random
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from flight_readers import NAME, compared, is_native, read
from flight_sample import PICKLE
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_pickler import Frame, TorchPickler

from rankmuster.evidence import flight_native, flight_opcodes, flight_pickle
from rankmuster.evidence.blob import Blob
from rankmuster.model.flight import FlightDump

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*/input.tar.zst"))
needs_native = pytest.mark.skipif(not flight_native.active(), reason="the native reader was not built")

FRAMES = [Frame(f"step_{number}", f"engine/part_{number % 7}.py", 10 * number) for number in range(60)]


def torch_like(count: int = 300, seed: int = 0) -> bytes:
    """A dump as torch writes them, with stacks of 30 frames, several groups, and some entries with a duration."""
    chance = random.Random(seed)
    stacks = [[*chance.sample(FRAMES[30:], 4), *FRAMES[:26]] for _ in range(12)]
    entries = []
    for number in range(count):
        size = [[chance.choice([1, 300, 70_000]), 5120]] * chance.choice([0, 1, 1, 1, 2])
        entry: dict[str, Any] = {
            "frames": chance.choice(stacks), "record_id": 65_000 + number, "pg_id": number % 3,
            "process_group": (str(number % 3), "TP"), "thread_name": "python", "thread_id": "1401209",
            "collective_seq_id": 250 + number, "p2p_seq_id": 0, "op_id": 250 + number,
            "profiling_name": chance.choice(["nccl:all_reduce", "nccl:broadcast"]),
            "time_created_ns": 1_795_986_477_774_154_874 + number,
        }  # fmt: skip
        if number % 3:
            entry["duration_ms"] = chance.random()
        dtypes = ["BFloat16"] * len(size)
        entry |= {
            "input_sizes": size, "input_dtypes": dtypes, "output_sizes": size, "output_dtypes": dtypes,
            "state": "completed" if number % 3 else "scheduled", "time_discovered_started_ns": None,
            "time_discovered_completed_ns": 1_795_986_477_775_000_000 + number if number % 3 else None,
            "retired": bool(number % 3), "timeout_ms": 600_000, "is_p2p": False,
        }  # fmt: skip
        entries.append(entry)
    row = {"name": "0", "desc": "TP", "ranks": "[0, 1]"}
    status = {"0": {"last_enqueued_collective": 7, "last_started_collective": -1, "last_completed_collective": 7}}
    top = {"version": "2.10", "pg_config": {"0": row}, "comm_lib_version": "2.28.9", "pg_status": status}
    return TorchPickler().dumps({**top, "entries": entries})


TORCH_LIKE = torch_like()


def scanned(data: bytes) -> FlightDump:
    (found,) = flight_pickle.read(Blob(NAME, data)).observations
    assert isinstance(found, FlightDump)
    return found


def dumps_of(case: Path) -> list[bytes]:
    archive = zstandard.ZstdDecompressor().stream_reader(case.read_bytes()).read()
    found = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            data = content.read() if content is not None else b""
            if data.startswith(b"\x80\x02}"):
                found.append(data)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.parent.name)
def test_real_dumps_are_read_natively_and_alike(case: Path) -> None:
    dumps = dumps_of(case)
    if dumps:
        read(min(dumps, key=len))
    if flight_native.active():
        assert all(map(is_native, dumps))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@needs_native
def test_dumps_that_other_tools_wrote_again_are_read_natively(protocol: int) -> None:
    """Python's pickler keeps lists and dicts in the memo, counts it otherwise, and writes long lists in pieces."""
    top = pickle.loads(torch_like(2100))
    data = pickle.dumps(top, protocol)
    assert is_native(data)
    assert len(scanned(data).columns) == 2100
    one, other = scanned(data), scanned(torch_like(2100))
    assert compared_dumps(one, other) is None
    read(pickle.dumps({**top, "entries": top["entries"][:200]}, protocol))


def compared_dumps(one: FlightDump, other: FlightDump) -> str | None:
    from rankmuster.evidence.blob import Reading

    return compared(Reading((one,)), Reading((other,)))


@needs_native
def test_a_torch_like_dump_is_read_natively() -> None:
    assert is_native(TORCH_LIKE)
    columns = scanned(TORCH_LIKE).columns
    assert columns.seq.tolist() == list(range(250, 550))
    assert len(columns.stacks[columns.stack[0]]) == 30
    assert columns.stacks[0][-1] == "step_25 engine/part_4.py:250"
    assert columns.stacks[:1] == (columns.stacks[0],)
    assert columns.stacks[-1] == columns.stacks[len(columns.stacks) - 1]
    with pytest.raises(IndexError):
        columns.stacks[len(columns.stacks)]


@needs_native
def test_columns_take_little_memory_and_what_never_changes_is_held_once() -> None:
    columns = scanned(torch_like(2000)).columns
    assert columns.p2p_seq.strides == (0,)
    assert columns.started_ns.strides == (0,)
    whole = columns.record_id.base
    assert isinstance(whole, bytes)
    assert len(whole) + len(columns.calls.base) + sum(map(len, columns.stacks._packed)) < 75 * 2000  # type: ignore


def test_a_dump_survives_being_sent_to_another_process() -> None:
    dump = scanned(TORCH_LIKE)
    again = pickle.loads(pickle.dumps(dump))
    assert compared_dumps(again, dump) is None


@needs_native
def test_threads_read_at_the_same_time() -> None:
    data = [torch_like(500, seed) for seed in range(8)]
    alone = [scanned(one) for one in data]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(scanned, data * 5))
    for place, dump in enumerate(together):
        assert compared_dumps(dump, alone[place % 8]) is None


def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flight_native.SWITCH, "0")
    assert not flight_native.active()
    assert not is_native(TORCH_LIKE)
    assert len(scanned(TORCH_LIKE).columns) == 300


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_in_the_place_of_an_opcode(byte: int) -> None:
    entry = TORCH_LIKE.index(b"u}(") + 1
    for place in (2, 3, entry, entry + 1, TORCH_LIKE.index(b"record_id") - 5, len(TORCH_LIKE) - 2):
        small = TORCH_LIKE[: place + 400] if place < 4000 else TORCH_LIKE[:4000]
        read(small[:place] + bytes([byte]) + small[place:])
    read(PICKLE[:-1] + bytes([byte]) + PICKLE[-1:])
    read(PICKLE[:-1] + bytes([byte]))


SMALL = torch_like(14)


@given(st.lists(st.tuples(st.integers(2, len(SMALL) - 1), st.integers(0, 255)), max_size=3), st.integers(0, 300))
@settings(max_examples=100, deadline=None)
def test_changed_and_cut_dumps_in_torchs_layout(flips: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(SMALL)
    for place, byte in flips:
        data[place] = byte
    read(bytes(data[: len(data) - cut]))


@given(st.integers(2, len(SMALL)), st.integers(0, len(SMALL)))
@settings(max_examples=80, deadline=None)
def test_dumps_spliced_from_their_own_parts(head: int, tail: int) -> None:
    read(SMALL[:head] + SMALL[tail:])


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats()
    | st.sampled_from(["12", "-3", "1" * 12, "x" * 600, "é" * 300, "٣", "scheduled", "completed", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.sampled_from(["name", "filename", "line", "record_id", "profiling_name"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from([
    "frames", "record_id", "pg_id", "process_group", "pg_name", "collective_seq_id", "profiling_name", "duration_ms",
    "time_created_ns", "input_sizes", "output_dtypes", "state", "retired", "is_p2p", "timeout_ms",
]), ODD, max_size=6), max_size=4), st.integers(2, 5))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_odd_values_in_entries(entries: list[dict[str, Any]], protocol: int) -> None:
    whole = [{"record_id": 1, "profiling_name": "nccl:all_reduce", **entry} for entry in entries]
    read(pickle.dumps({"version": "2.10", "entries": [*whole, *entries]}, protocol))


def _shared_sizes() -> bytes:
    row = list(range(20_000))
    entries = [
        {"record_id": n, "profiling_name": "x", "input_sizes": [row] * 200, "frames": [row] * 9} for n in range(500)
    ]
    return pickle.dumps({"version": "2.10", "pg_config": {}, "entries": entries}, 2)


def _wide_frame() -> bytes:
    frame = {str(number): number for number in range(100_000)}
    entries = [{"record_id": n, "profiling_name": "x", "frames": [frame] * 64} for n in range(3000)]
    return pickle.dumps({"version": "2.10", "pg_config": {}, "entries": entries}, 2)


def _long_names() -> bytes:
    """Frames of nine bytes each, every one with a name and a file of two thousand bytes."""
    head = b"\x80\x02}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x07\x00\x00\x00entries]("
    words = [b"name", b"filename", b"line", b"frames", b"record_id", b"profiling_name", "🙂".encode() * 512]
    memo = b"".join(b"X" + len(w).to_bytes(4, "little") + w + b"q" + bytes([i]) for i, w in enumerate(words))
    frames = b"".join(b"}(h\x00h\x06h\x01h\x06h\x02M" + n.to_bytes(2, "little") + b"u" for n in range(60_000))
    parts = [frames[i : i + 64 * 15] for i in range(0, len(frames), 64 * 15)]
    entries = b"".join(b"}(h\x03](" + part + b"eh\x04K\x01h\x05h\x00u" for part in parts)
    return head + memo + entries + b"eu."


def _bombs() -> dict[str, bytes]:
    start = b"\x80\x02}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x09\x00\x00\x00pg_config"
    doubled = b"]q\x00" + b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60))
    return {
        "sizes shared by all": _shared_sizes(),
        "a frame of many keys": _wide_frame(),
        "frames with long names": _long_names(),
        "lists doubled sixty times in the head": start + b"}(X\x01\x00\x00\x000" + doubled + b"u" * 2 + b".",
        "deep lists in the head": start + b"]" * 300_000 + b"a" * 299_999 + b"u.",
        "a million empty lists": start + b"](" + b"]" * 1_000_000 + b"eu.",
        "a million marks": start + b"(" * 1_000_000,
        "a million empty tuples in the memo": start + b"](" + b"".join(
            b")" + (b"q" + bytes([n]) if n < 256 else b"r" + n.to_bytes(4, "little")) for n in range(1_000_000)
        ) + b"eu.",
        "a text of four gigabytes": start + b"X\xff\xff\xff\xff.",
        "a text of 2**63 bytes": start + b"\x8d" + b"\xff" * 7 + b"\x7f.",
    }  # fmt: skip


@pytest.mark.parametrize("bomb", sorted(_bombs()))
def test_hostile_dumps_take_time_and_memory_by_their_size(bomb: str, tmp_path: Path) -> None:
    """In a process that may have 900 MB more than it starts with and 20 s of processor."""
    (tmp_path / "bomb").write_bytes(_bombs()[bomb])
    code = (
        "import resource, sys\n"
        "from rankmuster.evidence import flight_pickle, flight_native\n"
        "from rankmuster.evidence.blob import Blob\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 900_000_000,) * 2)\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "flight_native.scan(data)\n"
        "reading = flight_pickle.read(Blob('nccl_trace_rank_3', data))\n"
        "assert reading.known == 1, reading\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "bomb")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


START = b"\x80\x02}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x09\x00\x00\x00pg_config"
VALUES = {
    "lists": (b"](", b"]"),
    "lists in one another": (b"]", b"]a"),
    "lists put into one": (b"]", b"(]]]e"),
    "tuples in one another": (b")", b"\x85"),
    "one value in the memo": (b"N", b"\x94"),
    "numbers in a dict": (b"}", b"K\x01Ns"),
    "sizes with their key": (b"](", b"X\x0b\x00\x00\x00input_sizes](](K\x01K\x02K\x03ee"),
}
"""Bytes of a dump after its start, and those of which every few more are a value."""


@pytest.mark.parametrize("kind", VALUES)
def test_values_without_end_are_given_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few KB that are packed make 128 MiB of them, and 128 MiB make 10 GB of values."""
    monkeypatch.setattr(flight_opcodes, "MAX_VALUES", 10_000)
    monkeypatch.setattr(flight_opcodes, "LOOK_EVERY", 1000)
    (problem,) = flight_pickle.read_pure(Blob(NAME, START + VALUES[kind][0] + VALUES[kind][1] * 20_000)).problems
    assert "more than 10000 values at byte" in problem.message


@pytest.mark.parametrize("kind", VALUES)
@needs_native
def test_the_native_reader_gives_them_up_too(kind: str) -> None:
    """In a process that may have 1.1 GB more than it starts with; a file of that size is not made into values."""
    code = (
        "import resource, sys\n"
        "from rankmuster.evidence import flight_native\n"
        "start, more = bytes.fromhex(sys.argv[1]), bytes.fromhex(sys.argv[2])\n"
        "data = start + more * (100_000_000 // len(more))\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 1_100_000_000,) * 2)\n"
        "assert flight_native.scan(data) is None\n"
    )
    start, more = START + VALUES[kind][0], VALUES[kind][1]
    done = subprocess.run(
        [sys.executable, "-c", code, start.hex(), more.hex()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_native
def test_ten_thousand_scans_leave_nothing_behind() -> None:
    samples = [PICKLE, SMALL, SMALL[:-40], PICKLE[:200] + b"c" + PICKLE[200:], pickle.dumps(pickle.loads(SMALL), 4)]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for data in samples * 100:
        flight_native.scan(data)
    before = resident()
    for data in samples * 2000:
        flight_native.scan(data)
    assert resident() - before < 3_000_000


@needs_native
def test_columns_cannot_be_written_to() -> None:
    columns = scanned(TORCH_LIKE).columns
    for values in (columns.seq, columns.p2p_seq, columns.calls):
        assert isinstance(values, np.ndarray)
        assert not values.flags.writeable
