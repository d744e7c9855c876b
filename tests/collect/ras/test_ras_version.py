"""Which NCCL runs is read from what is mapped and what lies beside it; where they differ, both are possible."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ras_scene import LIBRARY, install

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.ras import version
from rankmuster.collect.ras.maps import Kind, mapped_libraries
from rankmuster.collect.ras.release import Span, release_in
from rankmuster.collect.ras.version import NcclVersion, SourceKind, read_version
from rankmuster.collect.target import ProcessOfInstance, Role, Target

_MAPPER = """
import mmap, sys, time
files = [open(name, "rb") for name in sys.argv[1:]]
maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
print("mapped", flush=True)
time.sleep(60)
"""


@pytest.fixture
def mapping():
    """Starts a process that has the given files mapped."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*paths: Path) -> int:
        child = subprocess.Popen([sys.executable, "-c", _MAPPER, *map(str, paths)], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"mapped\n"
        return child.pid

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def _target(pid: int, root: Path = Path("/"), environ: dict[str, str] | None = None) -> Target:
    process = ProcessOfInstance(pid, pid, None, 1, 0.0, Role.WORKER, "python", rank=0, root=root, environ=environ or {})
    return Target("llm-0", "node1", (process,))


def _read(target: Target, proc: Path = Path("/proc")) -> NcclVersion:
    return read_version(target, Machine(proc=proc), Deadline.after(10))


def test_a_real_process_with_the_library_mapped(tmp_path, mapping):
    library = install(tmp_path, "2.28.9")
    found = _read(_target(mapping(library)))
    assert found.exact == (2, 28, 9)
    assert found.mapped is True
    assert {source.kind for source in found.sources} == {SourceKind.TEXT, SourceKind.PACKAGE}
    assert found.notes == ()
    assert found.candidates == (Span.exactly(release_in("2.28.9")),)


def test_a_process_without_the_library(mapping, tmp_path):
    other = tmp_path / "libother.so.2"
    other.write_bytes(b"NCCL version 2.28.9+cuda12.9\0")
    found = _read(_target(mapping(other)))
    assert found.mapped is False
    assert found.candidates == ()


def test_a_package_that_was_replaced_under_the_process_leaves_both_possible(tmp_path, mapping):
    library = install(tmp_path, "2.28.9", packaged="2.29.2")
    found = _read(_target(mapping(library)))
    assert found.exact is None
    assert found.releases == ((2, 28, 9), (2, 29, 2))


def test_a_file_that_was_replaced_under_the_process_does_not_speak_for_what_is_mapped(tmp_path, mapping):
    library = install(tmp_path, "2.28.9")
    pid = mapping(library)
    library.unlink()
    library.write_bytes(b"NCCL version 2.29.2+cuda12.9\0")
    found = _read(_target(pid))
    # Read through the mapping where privileges allow, else not at all; never from the new file.
    assert release_in("2.29.2") not in found.releases
    (library_found,) = mapped_libraries(Path("/proc"), pid, Deadline.after(5))
    assert library_found.deleted
    assert library_found.path == str(library)


def test_a_system_library_names_its_release(tmp_path, mapping):
    library = tmp_path / "libnccl.so.2.26.5"
    library.write_bytes(bytes(64) + b"no text at all")
    found = _read(_target(mapping(library)))
    assert found.exact == (2, 26, 5)
    assert "no release was found" in found.notes[0]


def test_nccl_inside_of_torch(tmp_path, mapping):
    library = tmp_path / "libtorch_cuda.so"
    with library.open("wb") as file:
        file.truncate(9 << 20)
        file.seek(8 << 20)
        file.write(b"NCCL version 2.21.5+cuda12.4\0")
    found = _read(_target(mapping(library)))
    assert (found.exact, found.mapped) == ((2, 21, 5), True)


def test_torch_is_not_searched_where_nccl_is_mapped_itself(tmp_path, mapping):
    torch = tmp_path / "libtorch_cuda.so"
    torch.write_bytes(b"NCCL version 2.21.5+cuda12.4\0")
    found = _read(_target(mapping(torch, install(tmp_path, "2.28.9"))))
    assert found.exact == (2, 28, 9)


def test_text_across_two_pieces_of_the_file_is_found(tmp_path, mapping, monkeypatch):
    monkeypatch.setattr(version, "_PIECE", 256)
    for position in range(240, 260, 3):
        library = tmp_path / str(position) / "libnccl.so.2"
        library.parent.mkdir()
        library.write_bytes(bytes(position) + b"NCCL version 2.27.5+cuda12.9\0" + bytes(300))
        assert _read(_target(mapping(library))).exact == (2, 27, 5)


def test_messages_about_versions_are_no_version(tmp_path, mapping):
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"NCCL version detected : rank %d version 2.99.1\0NCCL version mismatch 2.98.1\0" + bytes(64))
    found = _read(_target(mapping(library)))
    assert found.candidates == ()
    assert found.mapped is True


def test_a_variable_of_the_image_is_a_hint_and_no_more(tmp_path, mapping):
    other = tmp_path / "x"
    other.write_bytes(b"x")
    found = _read(_target(mapping(other), environ={"NCCL_VERSION": "2.29.7-1"}))
    assert (found.hint, found.candidates) == ("2.29.7-1", ())


def test_a_process_that_is_gone_or_hidden_is_said():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    found = _read(_target(child.pid))
    assert found.mapped is None
    assert f"maps of process {child.pid} cannot be read" in found.notes[0]


def _tree(tmp_path: Path, maps: bytes) -> Path:
    proc = tmp_path / "proc"
    (proc / "71").mkdir(parents=True)
    (proc / "71" / "maps").write_bytes(maps)
    return proc


@pytest.mark.parametrize(
    "maps",
    [
        b"",
        b"\n\n\n",
        bytes(range(256)) * 64,
        b"garbage libnccl.so.2\n" * 1000,
        b"7f00-7f01 r-xp 0 08:01 1 /x/libnccl.so.2",
        b"zz-yy r-xp 0 08:01 1 /x/libnccl.so.2\n",
        b"7f00-7f01 r-xp 0 08:01 1 /x/\xff\xfe/libnccl.so.2\n",
        b"7f00-7f01 r-xp 0 08:01 1 /etc/libnccl.so.2/../passwd\n",
        b"7f00-7f01 r-xp 0 08:01 1 /x/notlibnccl.so.2\n",
    ],
)
def test_maps_that_are_damaged_do_not_break_anything(tmp_path, maps):
    proc = _tree(tmp_path, maps)
    found = read_version(_target(71, tmp_path / "root"), Machine(proc=proc), Deadline.after(5))
    assert found.candidates == ()


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "missing", "device"])
def test_what_is_no_regular_file_is_not_read(tmp_path, kind):
    proc = _tree(tmp_path, f"7f00-7f01 r-xp 0 08:01 1 {LIBRARY}\n".encode())
    place = tmp_path / "root" / LIBRARY.lstrip("/")
    place.parent.mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "link":
        outside = tmp_path / "outside"
        outside.write_bytes(b"NCCL version 2.28.9+cuda12.9\0")
        place.symlink_to(outside)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    found = read_version(_target(71, tmp_path / "root"), Machine(proc=proc), Deadline.after(5))
    assert found.candidates == ()
    assert "cannot be read" in found.notes[0]


def test_an_endless_or_huge_library_is_left_at_its_deadline(tmp_path):
    proc = _tree(tmp_path, f"7f00-7f01 r-xp 0 08:01 1 {LIBRARY}\n".encode())
    place = tmp_path / "root" / LIBRARY.lstrip("/")
    place.parent.mkdir(parents=True)
    with place.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    found = read_version(_target(71, tmp_path / "root"), Machine(proc=proc), Deadline.after(0.2))
    assert found.candidates == ()
    assert "by its deadline" in found.notes[0]


def test_nccl_stands_before_torch(tmp_path, mapping):
    torch = tmp_path / "libtorch_cuda.so"
    torch.write_bytes(bytes(mmap.PAGESIZE))
    pid = mapping(torch, install(tmp_path, "2.28.9"))
    kinds = [library.kind for library in mapped_libraries(Path("/proc"), pid, Deadline.after(5))]
    assert kinds == [Kind.NCCL, Kind.TORCH]
