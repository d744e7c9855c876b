"""A path of a process is resolved as the process would, and never leads out of its root."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rankmuster.collect import files_below
from rankmuster.collect.files_below import MAX_DEPTH, Refused, located, names_in, read_below


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_bytes(b"outside")
    inner = tmp_path / "root"
    (inner / "data" / "x").mkdir(parents=True)
    (inner / "data" / "x" / "file").write_bytes(b"inside")
    (inner / "outside").write_bytes(b"the process's own")
    return inner


def test_an_absolute_link_is_resolved_below_the_root(root: Path) -> None:
    (root / "var").symlink_to("/data")
    assert read_below(root, "/var/x/file", 100) == b"inside"


def test_a_relative_link_and_dots_stay_below_the_root(root: Path) -> None:
    (root / "data" / "up").symlink_to("../../../..")
    assert read_below(root, "/data/up/outside", 100) == b"the process's own"
    assert read_below(root, "/../../outside", 100) == b"the process's own"


def test_a_link_as_the_last_part_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "trap").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic link"):
        read_below(root, "/trap", 100)


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many"):
        read_below(root, "/a/file", 100)


def test_a_pipe_is_neither_opened_nor_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(Refused, match="a pipe"):
        read_below(root, "/pipe", 100)
    with located(root, "/pipe") as handle:
        assert stat.S_ISFIFO(os.fstat(handle).st_mode)


def test_reading_is_bounded(root: Path) -> None:
    assert read_below(root, "/data/x/file", 3) == b"ins"
    with pytest.raises(Refused, match="a terminal or device"):
        read_below(Path("/"), "/dev/zero", 100)


def test_names_are_sorted(root: Path) -> None:
    for name in ("b", "a", "c"):
        (root / "data" / "x" / name).touch()
    assert names_in(root, "/data/x") == ["a", "b", "c", "file"]


def test_no_descriptor_is_left_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/data/x/file", "/nowhere", "/data/x/file/y"):
        try:
            read_below(root, path, 10)
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_path_of_thousands_of_folders_holds_few_descriptors(root: Path) -> None:
    (root / "here").symlink_to("/" + "data/x/../../" * 200)
    assert names_in(root, "/here" * 30 + "/data/x") == ["file"]
    deep = root
    for _ in range(MAX_DEPTH + 1):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(OSError, match="folders deep"):
        names_in(root, "/d" * (MAX_DEPTH + 1))


class TestBelow:
    """No path leads out of a root, whatever links stand in it."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "secret").write_text("outside")
        root = tmp_path / "root"
        (root / "var/log").mkdir(parents=True)
        (root / "var/log/a.log").write_text("inside")
        (root / "secret").write_text("the container's own")
        return root

    def read(self, root: Path, path: str) -> str:
        with files_below.open_regular(root, path) as descriptor:
            return os.read(descriptor, 100).decode()

    def test_links_are_resolved_as_the_owner_would(self, root: Path) -> None:
        (root / "up").symlink_to("../../../../secret")
        (root / "absolute").symlink_to("/secret")
        (root / "log").symlink_to("/var/log")
        (root / "var/log/loop").symlink_to("loop")
        assert self.read(root, "/up") == "the container's own"
        assert self.read(root, "/absolute") == "the container's own"
        assert self.read(root, "/log/../log/./a.log") == "inside"
        assert self.read(root, "../../../secret") == "the container's own"
        assert files_below.names_in(root, "/log") == ["a.log", "loop"]
        assert files_below.resolved(root, "/log/a.log") == "/var/log/a.log"
        with pytest.raises(OSError, match="links"):
            self.read(root, "/log/loop")

    def test_only_regular_files_are_opened(self, root: Path) -> None:
        os.mkfifo(root / "fifo")
        with pytest.raises(files_below.Refused, match="a pipe"):
            self.read(root, "/fifo")
        with pytest.raises(files_below.Refused, match="a folder"):
            self.read(root, "/var")
        with pytest.raises(FileNotFoundError):
            self.read(root, "/none")
        with pytest.raises(NotADirectoryError):
            self.read(root, "/secret/x")

    def test_the_kernels_folders_hold_no_logs(self) -> None:
        with pytest.raises(files_below.Refused, match="kernel"):
            self.read(Path("/"), "/proc/self/../self/environ")
