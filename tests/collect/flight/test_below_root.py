"""A path of a process is resolved as the process would, and never leads out of its root."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rankmuster.collect.flight.below_root import located, names_below, read_below


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
    with pytest.raises(OSError, match="regular"):
        read_below(root, "/pipe", 100)
    with located(root, "/pipe") as handle:
        assert stat.S_ISFIFO(os.fstat(handle).st_mode)


def test_reading_is_bounded(root: Path) -> None:
    assert read_below(root, "/data/x/file", 3) == b"ins"
    with pytest.raises(OSError, match="regular"):
        read_below(Path("/"), "/dev/zero", 100)


def test_names_are_sorted(root: Path) -> None:
    for name in ("b", "a", "c"):
        (root / "data" / "x" / name).touch()
    assert names_below(root, "/data/x") == ("a", "b", "c", "file")


def test_no_descriptor_is_left_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/data/x/file", "/nowhere", "/data/x/file/y"):
        try:
            read_below(root, path, 10)
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before
