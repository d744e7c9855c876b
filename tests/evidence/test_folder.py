"""Walking a folder of a failing machine: what cannot be read is named, what lies outside is left alone."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import folder, plain_bytes
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.folder import EvidenceEmpty, EvidenceForbidden, EvidenceMissing
from rankmuster.model.problem import Problem, ProblemKind

NOBODY = 65534


def walk(root: Path) -> tuple[list[Blob], list[Problem]]:
    items = list(folder.walk(root))
    return [i for i in items if isinstance(i, Blob)], [i for i in items if isinstance(i, Problem)]


@pytest.fixture
def as_other_user() -> Iterator[Path]:
    """A folder that can be walked as a user who is not root; the test's own permissions are given back after it."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    mine = os.geteuid()
    if mine == 0:
        os.chown(root, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        yield root
    finally:
        os.seteuid(mine)
        for path in (root, *root.rglob("*")):
            path.chmod(0o700)
        shutil.rmtree(root)


def test_files_come_in_order_with_relative_paths_and_the_manifest_first(tmp_path: Path):
    for name in ("ras/b.txt", "flight/rank_1", "ras/a.txt", "manifest.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    blobs, problems = walk(tmp_path)
    assert [(b.path, b.data.decode()) for b in blobs] == [
        (name, name) for name in ("manifest.json", "flight/rank_1", "ras/a.txt", "ras/b.txt")
    ]
    assert problems == []


def test_a_single_file_goes_by_its_name(tmp_path: Path):
    path = tmp_path / "nccl.log"
    path.write_text("x")
    link = tmp_path / "link.log"
    link.symlink_to(path)
    assert walk(path)[0] == [Blob("nccl.log", b"x")]
    assert walk(link)[0] == [Blob("link.log", b"x")]  # asked for by name, so it is followed


def test_links_are_not_followed_and_those_that_lead_out_are_named(tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("k")
    root = tmp_path / "bundle"
    (root / "logs").mkdir(parents=True)
    (root / "logs/rank0.log").write_text("r0")
    (root / "latest").symlink_to("logs")
    (root / "rank0.log").symlink_to("logs/rank0.log")
    (root / "loop").symlink_to(".")
    (root / "self").symlink_to("self")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "key").symlink_to(tmp_path / "secret/key")
    blobs, problems = walk(root)
    assert [b.path for b in blobs] == ["logs/rank0.log"]
    assert [(p.kind, p.source) for p in problems] == [(ProblemKind.REFUSED, s) for s in ("key", "out", "self")]


def test_what_is_no_file_is_named_and_never_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "log").write_text("x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        blobs, problems = walk(tmp_path)
    assert [b.path for b in blobs] == ["log"]
    assert {(p.source, p.message) for p in problems} == {
        ("fifo", "a FIFO; it was not opened"),
        ("sock", "a socket; it was not opened"),
    }


def test_nothing_there(tmp_path: Path):
    with pytest.raises(EvidenceMissing, match="no such file or folder; give a bundle"):
        folder.walk(tmp_path / "no")
    with pytest.raises(EvidenceMissing):
        folder.walk(tmp_path / ("n" * 5000))
    with pytest.raises(EvidenceEmpty, match="no file in this folder"):
        folder.walk(tmp_path)
    (tmp_path / "a").touch()
    with pytest.raises(EvidenceEmpty, match=r"each of the 1 file\(s\) in it is empty"):
        folder.walk(tmp_path)
    with pytest.raises(EvidenceEmpty, match="the file is empty"):
        folder.walk(tmp_path / "a")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(EvidenceEmpty, match="a FIFO, neither a file nor a folder"):
        folder.walk(tmp_path / "fifo")


def test_an_empty_file_among_others_is_passed_on(tmp_path: Path):
    (tmp_path / "a").touch()
    (tmp_path / "b").write_text("x")
    assert [b.data for b in walk(tmp_path)[0]] == [b"", b"x"]


def test_what_may_not_be_read_is_named_and_the_rest_is_used(as_other_user: Path):
    (as_other_user / "open.log").write_text("x")
    (as_other_user / "closed.log").write_text("x")
    (as_other_user / "closed.log").chmod(0)
    (as_other_user / "shut").mkdir(mode=0)
    blobs, problems = walk(as_other_user)
    assert [b.path for b in blobs] == ["open.log"]
    assert {(p.kind, p.source) for p in problems} == {
        (ProblemKind.REFUSED, "closed.log"),
        (ProblemKind.REFUSED, "shut"),
    }
    assert all("Permission denied" in p.message for p in problems)


def test_no_permission_at_all_is_an_error_that_says_what_to_do(as_other_user: Path):
    path = as_other_user / "closed.log"
    path.write_text("x")
    path.chmod(0)
    for root in (as_other_user, path):
        with pytest.raises(EvidenceForbidden, match="run as a user who may"):
            folder.walk(root)
    path.unlink()
    (as_other_user / "shut").mkdir(mode=0)
    for root in (as_other_user, as_other_user / "shut"):
        with pytest.raises(EvidenceForbidden, match="run as a user who may"):
            folder.walk(root)


def test_of_a_log_that_is_too_large_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plain_bytes, "MAX_LOG_BYTES", 20_000)
    lines = [f"line {n:06d}\n".encode() for n in range(5000)]
    (tmp_path / "big.log").write_bytes(b"".join(lines))
    (blob,), (problem,) = walk(tmp_path)
    read = blob.data.splitlines(keepends=True)
    assert set(read) <= set(lines)  # no line that nobody wrote
    assert (read[0], read[-1]) == (lines[0], lines[-1])
    assert 19_000 < len(blob.data) <= 20_000
    assert problem.kind is ProblemKind.DAMAGED
    assert "the first and last" in problem.message


def test_of_a_binary_that_is_too_large_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder, "MAX_FILE_BYTES", 20_000)
    data = bytes(range(256)) * 200
    (tmp_path / "core").write_bytes(data)
    (blob,), (problem,) = walk(tmp_path)
    assert blob.data == data[:20_000]
    assert "only the first" in problem.message


def test_of_a_log_that_was_truncated_under_its_writer_the_hole_is_not_read(tmp_path: Path):
    path = tmp_path / "rank0.log"
    with path.open("wb") as file:
        file.seek(2**36)
        file.write(b"[rank0]: what was written since\n")
    (blob,), problems = walk(tmp_path)
    assert blob.data.lstrip(b"\0") == b"[rank0]: what was written since\n"
    assert len(blob.data) < 2**20
    assert problems == []


def test_a_terabyte_of_hole_is_not_read(tmp_path: Path):
    path = tmp_path / "core"
    path.write_bytes(b"\x7fELF")
    os.truncate(path, 2**36)
    (blob,), problems = walk(tmp_path)
    assert len(blob.data) == folder.MAX_FILE_BYTES
    assert len(problems) == 1


def test_a_whole_disk_given_by_mistake_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder, "MAX_FILES", 10)
    for n in range(30):
        (tmp_path / f"f{n:02d}").write_text("x")
    blobs, (problem,) = walk(tmp_path)
    assert [b.path for b in blobs] == [f"f{n:02d}" for n in range(10)]
    assert problem.kind is ProblemKind.REFUSED


@given(st.dictionaries(st.text("ab.\n\x1b\u00e9\udcff", min_size=1, max_size=6), st.binary(max_size=9), max_size=6))
@settings(max_examples=50, deadline=None)
def test_every_file_is_read_whatever_it_is_called(files: dict[str, bytes]):
    with tempfile.TemporaryDirectory() as place:
        for name, data in files.items():
            Path(place, "f" + name).write_bytes(data)
        if not any(files.values()):
            with pytest.raises(EvidenceEmpty):
                folder.walk(Path(place))
            return
        blobs, problems = walk(Path(place))
        assert sorted(b.data for b in blobs) == sorted(files.values())
        assert all(b.path.isprintable() for b in blobs)
        assert problems == []
