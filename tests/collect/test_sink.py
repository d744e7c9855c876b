"""Whatever a collector puts is on disk, under a name that cannot lead anywhere else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.collect.bundle.manifest import Circumstances, build
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.bundle.write import open_staging
from rankmuster.collect.sink import SinkClosed, SinkFull, Store, safe_name


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "staging")


def test_a_piece_says_what_its_content_cannot(store: Store) -> None:
    path = store.sink("flight").put("flight/nccl_trace_rank_2", b"\x80\x02.", look_time=1795986513.8, rank=2, host="n0")
    (piece,) = store.close()
    assert path == piece.path == "flight/nccl_trace_rank_2"
    assert (piece.collector, piece.look_time, piece.rank, piece.host) == ("flight", 1795986513.8, 2, "n0")
    assert (piece.size, piece.sha256) == (3, hashlib.sha256(b"\x80\x02.").hexdigest())


def test_two_files_of_one_name_are_both_kept(store: Store) -> None:
    sink = store.sink("logs")
    names = [sink.put("logs/worker.log", f"rank {rank}".encode(), rank=rank) for rank in range(3)]
    assert names == ["logs/worker.log", "logs/worker-2.log", "logs/worker-3.log"]
    assert [(store.folder / name).read_text() for name in names] == ["rank 0", "rank 1", "rank 2"]


def test_a_growing_series_replaces_itself(store: Store) -> None:
    sink = store.sink("hardware")
    sink.put("gpu-counters.jsonl", b"one\n", replace=True)
    sink.put("gpu-counters.jsonl", b"one\ntwo\n", replace=True)
    (piece,) = store.close()
    assert piece.size == 8
    assert (store.folder / "gpu-counters.jsonl").read_bytes() == b"one\ntwo\n"


def test_nothing_is_taken_after_the_end(store: Store) -> None:
    sink = store.sink("ras")
    store.close()
    with pytest.raises(SinkClosed):
        sink.put("ras/late.json", b"{}")
    assert not (store.folder / "ras").exists()


def test_a_growing_series_counts_once_against_the_room(tmp_path: Path) -> None:
    store = Store(tmp_path / "staging", max_bytes=10)
    sink = store.sink("hardware")
    for length in range(1, 11):
        sink.put("samples", b"x" * length, replace=True)
    with pytest.raises(SinkFull):
        sink.put("samples", b"x" * 11, replace=True)
    assert (store.folder / "samples").read_bytes() == b"x" * 10


def test_a_folder_that_cannot_be_written_is_full(tmp_path: Path) -> None:
    (tmp_path / "staging").write_text("a file where the folder should be")
    with pytest.raises(SinkFull, match="cannot write"):
        Store(tmp_path / "staging").sink("ras").put("ras/one.json", b"{}")


@given(st.text(max_size=200))
def test_no_name_leads_out_or_hides(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert not safe.startswith((".", "-"))
    assert "/" not in safe
    assert "\0" not in safe
    assert len(safe) <= 120


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "a//b", "./x", "a/\n/b"])
def test_every_path_stays_in_the_folder(store: Store, path: str) -> None:
    used = store.sink("logs").put(path, b"x")
    inside = (store.folder / used).resolve()
    assert inside.is_relative_to(store.folder.resolve())
    assert inside.read_bytes() == b"x"


@pytest.mark.parametrize("path", ["", ".", "..", "/"])
def test_a_path_that_is_none_gets_a_name(store: Store, path: str) -> None:
    used = store.sink("logs").put(path, b"x")
    assert (store.folder / used).read_bytes() == b"x"


def test_a_token_in_the_name_of_a_file_stays_out_of_the_bundle(store: Store) -> None:
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz"
    path = store.sink("framework-log").put(f"logs/rank0-run-{token}.log", b"started\n", rank=0)
    assert token not in path
    assert path.startswith("logs/rank0-run-")
    assert path.endswith(".log")


def test_a_dot_at_the_end_of_a_name_makes_no_bundle_that_does_not_verify(tmp_path: Path) -> None:
    """`nccl` and `nccl.` are one file on some systems, which `bundle verify` counts as a fault."""
    staging = open_staging(tmp_path / "bundle")
    sink = staging.store().sink("logs")
    names = [sink.put(name, b"of another rank") for name in ("logs/nccl", "logs/nccl.", "logs/nccl..", "logs/Nccl.")]
    assert len({name.casefold() for name in names}) == len(names)
    sealed = staging.seal({**build((), (), Circumstances("1", "here", 0.0, 1.0, 20.0))})
    assert verify(sealed.path).findings == ()


@pytest.mark.parametrize(
    ("name", "secret", "ending"),
    [
        ("run_password=planted7.log", "planted7", ".log"),
        ("--api-key=planted7.out", "planted7", ".out"),
        ("planted7@example.com.txt", "planted7", ".txt"),
        ("planted7@example.com", "planted7", ""),
    ],
)
def test_what_names_of_files_tell_goes_by_the_rules_of_free_text(
    store: Store, name: str, secret: str, ending: str
) -> None:
    told = store.sink("logs").put(f"logs/{name}", b"INFO")
    assert secret not in told
    assert told.endswith(ending)


@pytest.mark.parametrize(
    "name",
    ["nccl_trace_rank_12", "worker-0a1b2c3d4e5f60718293a4b5c6d7e8f9-01000000-4711.out", "nccl_host@7_4711.log",
     "tokens.json", "vllm@0.service", "rank=3,key=5.log"],
)  # fmt: skip
def test_ordinary_names_stay(store: Store, name: str) -> None:
    assert store.sink("logs").put(name, b"INFO") == safe_name(name)
