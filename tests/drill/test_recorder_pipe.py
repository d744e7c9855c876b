from __future__ import annotations

import os
import stat
from pathlib import Path

from drill_helpers import until

from rankmuster.drill import recorder_pipe


def ask(pipe: Path, data: bytes = b"1\n") -> None:
    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    os.write(descriptor, data)
    os.close(descriptor)


def test_any_byte_makes_a_dump_and_each_time_a_new_one(tmp_path: Path) -> None:
    looks = iter(range(100))
    environment = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "rank_"),
        "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_"),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(tmp_path / "old_name_"),
    }
    recorder_pipe.from_environment(environment, 3, lambda: b"look %d" % next(looks))
    pipe, dump = tmp_path / "rank_3.pipe", tmp_path / "dump_3"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert not dump.exists()
    ask(pipe)
    until(lambda: dump.exists() and dump.read_bytes() == b"look 0", "dumped")
    ask(pipe, b"x" * 1000)
    until(lambda: dump.read_bytes() == b"look 1", "dumped again, once")
    assert not (tmp_path / "old_name_3").exists()


def test_the_pipe_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "rank_0.pipe").write_text("in the way")
    environment = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/rank_", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/d_"}
    recorder_pipe.from_environment(environment, 0, lambda: b"new")
    ask(tmp_path / "rank_0.pipe")
    until(lambda: (tmp_path / "d_0").exists(), "dumped")


def test_nothing_listens_where_it_is_not_set(tmp_path: Path) -> None:
    half = {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_"), "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": ""}
    assert recorder_pipe.from_environment(half, 0, lambda: b"") is None
    assert recorder_pipe.from_environment({}, 0, lambda: b"") is None
    assert list(tmp_path.iterdir()) == []
