"""A real process's variables."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from rankmuster.environment.check import check
from rankmuster.environment.given import FolderState, Unreadable
from rankmuster.environment.read_process import read_process

READY = "import sys; print('up', flush=True); sys.stdin.read()"


@contextmanager
def process(environment: Mapping[str, str], *arguments: str) -> Iterator[int]:
    """Alive, and past its exec, while the block runs."""
    running = subprocess.Popen(
        [sys.executable, "-S", "-c", READY, *arguments],
        env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        running.stdout.readline()
        yield running.pid
    finally:
        running.communicate()


def test_what_a_process_was_started_with() -> None:
    with process({"NCCL_DEBUG": "INFO", "HF_TOKEN": "planted", "TORCH_NCCL_ENABLE_TIMING": "1"}, "vllm") as pid:
        given = read_process(pid)
    assert given.values == {"NCCL_DEBUG": "INFO", "TORCH_NCCL_ENABLE_TIMING": "1"}
    assert given.engine is not None
    assert given.where == f"process {pid}"
    assert "planted" not in repr(given)


def test_folders_are_looked_at_as_the_process_sees_them(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    with process({"NCCL_DEBUG": "INFO"}) as pid:
        look = read_process(pid).look
        assert look(str(tmp_path / "open")) is FolderState.FINE
        assert look(str(tmp_path / "none")) is FolderState.MISSING
        assert look(str(tmp_path / "file")) is FolderState.NO_FOLDER
        assert look("relative") is FolderState.UNKNOWN
        assert look("/a\0b") is FolderState.UNKNOWN
    assert look(str(tmp_path / "open")) is FolderState.MISSING or look("/") in FolderState


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    with process({"NCCL_DEBUG": "INFO"}) as pid:
        assert read_process(pid).look(str(tmp_path / "shut")) is FolderState.NOT_WRITABLE


def test_a_pipe_whose_folder_is_missing_is_an_error(tmp_path: Path) -> None:
    pipe = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/none/p_", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
    with process(pipe) as pid:
        report = check([read_process(pid)], (2, 11), (2, 28, 9))
    assert "folder_unusable" in {one.code for one in report.all}


def test_a_pid_that_nobody_has_is_told() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(Unreadable, match="there is no process"):
        read_process(ended.pid)


def test_a_process_that_has_ended_and_is_not_collected() -> None:
    zombie = subprocess.Popen([sys.executable, "-S", "-c", ""])
    until = time.monotonic() + 20
    while "\nState:\tZ" not in Path(f"/proc/{zombie.pid}/status").read_text() and time.monotonic() < until:
        time.sleep(0.01)
    try:
        with pytest.raises(Unreadable, match=str(zombie.pid)):
            read_process(zombie.pid)
    finally:
        zombie.wait()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every process")
def test_another_users_process_is_told() -> None:
    with pytest.raises(Unreadable, match="no permission"):
        read_process(1)


def test_versions_are_those_of_the_packages_beside_the_libraries(tmp_path: Path) -> None:
    """A /proc of another machine: a process with torch and NCCL mapped."""
    packages = tmp_path / "proc" / "7" / "root" / "venv" / "site-packages"
    for name in ("torch-2.11.0+cu128.dist-info", "nvidia_nccl_cu12-2.28.9.dist-info", "torchvision-0.26.0.dist-info"):
        (packages / name).mkdir(parents=True)
    seven = tmp_path / "proc" / "7"
    (seven / "environ").write_bytes(b"NCCL_DEBUG=INFO\0")
    (seven / "maps").write_text(
        "7f00 r-xp 0 0:0 1 /venv/site-packages/torch/lib/libtorch_cpu.so\n"
        "7f01 r-xp 0 0:0 2 /venv/site-packages/nvidia/nccl/lib/libnccl.so.2\n"
    )
    given = read_process(7, tmp_path / "proc")
    assert given.torch == (2, 11, 0)
    assert given.nccl == (2, 28, 9)
    assert given.look("/venv") is FolderState.UNKNOWN  # whose process it is cannot be seen
