"""What ranks that have ended wrote is taken, and nothing of earlier runs, of other users or of other instances."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from log_scene import INIT, WATCHDOG, Taken, process, scene

from rankmuster.collect.collector import Collector
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.left_behind import Candidate, sort_out
from rankmuster.collect.logs.framework_logs import FrameworkLogs
from rankmuster.collect.logs.left_outputs import chosen, series
from rankmuster.collect.logs.nccl_logs import NcclLogs
from rankmuster.collect.outcome import Ending
from rankmuster.collect.proc import Proc
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.evidence.bundle import load
from rankmuster.model.frameworklog import WatchdogTimeout
from rankmuster.model.nccllog import NcclInit

OLD = (1_000_000_000, 1_000_000_000)
PROC = Path("/proc")


@pytest.fixture
def ended() -> int:
    """The pid of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@contextmanager
def living(out: Path | None = None, *, reads: Path | None = None) -> Iterator[int]:
    """A process that is there until the end of the block; it appends to `out`, or holds `reads` open."""
    with open(out or os.devnull, "ab") as output, open(reads or os.devnull, "rb") as given:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(given.fileno(),),
            start_new_session=True,
        )
    try:
        yield child.pid
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(20)


def alive(one: ProcessOfInstance) -> ProcessOfInstance:
    """With the real start of a real process."""
    stat = Proc(PROC).stat(one.pid)
    assert stat is not None
    started = Proc(PROC).boot_time() + stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return replace(one, start_ticks=stat.start_ticks, started_at=started)


def server(pid: int, **environ: str) -> ProcessOfInstance:
    return alive(process(None, pid=pid, inner=pid, role=Role.SERVER, **environ))


def nccl(folder: Path) -> dict[str, str]:
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{folder}/nccl_%h_%p.log"}


def framework(folder: Path) -> Collector:
    return FrameworkLogs(var_log=folder / "var-log")


class TestNccl:
    """NCCL's logs by the settings of who lives."""

    def log(self, folder: Path, pid: int, rank: int, host: str = "node0") -> Path:
        path = folder / f"nccl_{host}_{pid}.log"
        path.write_text(INIT.format(pid=pid, rank=rank))
        return path

    def test_when_only_the_server_lives_the_ranks_logs_are_had(self, tmp_path: Path, ended: int) -> None:
        with living() as pid:
            self.log(tmp_path, ended, 1)
            self.log(tmp_path, ended, 0, host="node7")  # a folder that several nodes share
            os.utime(self.log(tmp_path, 7_000_001, 0), OLD)
            taken = Taken(tmp_path, NcclLogs(), scene(server(pid, **nccl(tmp_path))))
        assert list(taken.pieces) == [f"nccl/nccl_node0_{ended}.log"]
        assert taken.pieces[f"nccl/nccl_node0_{ended}.log"].rank is None
        assert [init.rank for init in load(taken.folder).of(NcclInit)] == [1, 1]
        assert "1 of them of processes that have ended (left alone: 1 of an earlier run)" in taken.outcome.note

    def test_a_dead_ranks_log_is_taken_beside_the_living(self, tmp_path: Path, ended: int) -> None:
        with living() as pid:
            self.log(tmp_path, pid, 0)
            self.log(tmp_path, ended, 1)
            (tmp_path / f"nccl_node0_{ended}.log.1").write_text("rotated\n")
            rank = alive(process(0, pid=pid, inner=pid, **nccl(tmp_path)))
            both = Taken(tmp_path, NcclLogs(), scene(rank, world_size=2))
            whole = Taken(tmp_path / "again", NcclLogs(), scene(rank, world_size=1))
        assert {path: piece.rank for path, piece in both.pieces.items()} == {
            f"nccl/nccl_node0_{pid}.log": 0,
            f"nccl/nccl_node0_{ended}.log": None,
            f"nccl/nccl_node0_{ended}.log.1": None,
        }
        # Where all ranks live that were started, nothing is searched.
        assert list(whole.pieces) == [f"nccl/nccl_node0_{pid}.log"]

    def test_a_dead_rank_that_nobody_has_reaped_is_known_by_its_number(self, tmp_path: Path) -> None:
        child = subprocess.Popen([sys.executable, "-c", ""])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with living() as pid:
            self.log(tmp_path, child.pid, 3)
            dead = replace(alive(process(3, pid=child.pid, inner=child.pid, **nccl(tmp_path))), state="Z")
            dead = replace(dead, root=PROC / str(child.pid) / "root")
            taken = Taken(tmp_path, NcclLogs(), scene(server(pid, **nccl(tmp_path)), dead))
        child.wait()
        assert [piece.rank for piece in taken.pieces.values()] == [3]

    def test_a_living_process_of_somebody_else_keeps_its_log(self, tmp_path: Path) -> None:
        with living() as pid, living() as other:
            self.log(tmp_path, other, 0)
            taken = Taken(tmp_path, NcclLogs(), scene(server(pid, **nccl(tmp_path))))
        assert taken.pieces == {}
        assert taken.outcome.ending is Ending.NOTHING
        assert "1 of others" in taken.outcome.note

    def test_a_number_that_was_given_away_again_hides_no_log(self, tmp_path: Path) -> None:
        with living() as pid:
            begun = alive(server(pid, **nccl(tmp_path)))
            with living() as newcomer:
                when = time.time() - 3600  # long before the newcomer
                os.utime(self.log(tmp_path, newcomer, 0), (when, when))
                taken = Taken(tmp_path, NcclLogs(), scene(replace(begun, started_at=when - 10)))
        assert list(taken.pieces) == [f"nccl/nccl_node0_{newcomer}.log"]

    def test_a_folder_for_each_process(self, tmp_path: Path, ended: int) -> None:
        place = tmp_path / f"pid{ended}"
        place.mkdir()
        (place / f"nccl.{ended}").write_text(INIT.format(pid=ended, rank=0))
        (place / "nccl.12").write_text("a number that is not the folder's\n")
        with living() as pid:
            given = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{tmp_path}/pid%p/nccl.%p"}
            taken = Taken(tmp_path, NcclLogs(), scene(server(pid, **given)))
        assert list(taken.pieces) == [f"nccl/nccl.{ended}"]

    def test_a_pattern_made_to_be_tried_for_ever_is_not(self, tmp_path: Path) -> None:
        (tmp_path / ("ab" * 120 + "x")).write_text("x\n")
        with living() as pid:
            given = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{tmp_path}/" + "%h" * 1000 + "%p" * 300}
            rank = alive(process(0, pid=pid, inner=pid, HOSTNAME="abab", **given))
            one = scene(rank, server(pid, HOSTNAME="ab", **given), world_size=2)
            assert Taken(tmp_path, NcclLogs(), one).pieces == {}

    def test_one_log_of_all_when_no_rank_lives(self, tmp_path: Path) -> None:
        with living() as pid:
            (tmp_path / "nccl.log").write_text(INIT.format(pid=9, rank=0))
            given = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{tmp_path}/nccl.log"}
            taken = Taken(tmp_path, NcclLogs(), scene(server(pid, **given)))
        assert list(taken.pieces) == ["nccl/nccl.log"]

    def test_without_any_it_says_where_they_would_be(self, tmp_path: Path) -> None:
        with living() as pid:
            taken = Taken(tmp_path, NcclLogs(), scene(server(pid, **nccl(tmp_path))))
        assert taken.outcome.ending is Ending.NOTHING
        assert f"none has left a log of this run at {tmp_path}/nccl_%h_%p.log" in taken.outcome.note


class TestOutputs:
    """The ranks' own output."""

    def logs(self, folder: Path, count: int, name: str = "rank{}.log") -> list[Path]:
        paths = [folder / name.format(rank) for rank in range(count)]
        for rank, path in enumerate(paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(WATCHDOG.format(rank=rank))
        return paths

    @pytest.mark.parametrize("name", ["rank{}.log", "w-{}.err", "attempt_0/{}/stderr.log", "node0_rank{}.out"])
    def test_a_dead_ranks_log_has_the_pattern_of_the_living(self, tmp_path: Path, name: str) -> None:
        logs = self.logs(tmp_path / "logs", 3, name)
        with living(logs[0]) as a, living(logs[2]) as b:
            ranks = [alive(process(rank, pid=pid, inner=pid)) for rank, pid in ((0, a), (2, b))]
            taken = Taken(tmp_path, framework(tmp_path), scene(*ranks, world_size=3))
        assert sorted(piece.rank for piece in taken.pieces.values() if piece.rank is not None) == [0, 1, 2]
        assert {said.origin.rank for said in load(taken.folder).of(WatchdogTimeout)} == {0, 1, 2}
        assert "1 of them of processes that have ended" in taken.outcome.note

    def test_when_only_the_server_lives_names_that_say_a_rank_are_taken(self, tmp_path: Path) -> None:
        folder = tmp_path / "logs"
        self.logs(folder, 2)
        for other in ("notes.txt", "other-instance.log", "nccl_trace_rank_0"):
            (folder / other).write_text("not a rank's log\n")
        with living(folder / "front.log") as pid:
            (folder / "front.log").write_text("serving\n")
            os.utime(self.logs(folder, 3)[2], OLD)
            taken = Taken(tmp_path, framework(tmp_path), scene(server(pid)))
        assert sorted(taken.pieces) == ["logs/front.log", "logs/rank0-rank0.log", "logs/rank1-rank1.log"]
        assert "1 of an earlier run" in taken.outcome.note

    def test_a_launchers_log_lies_beside_its_ranks(self, tmp_path: Path) -> None:
        (log,) = self.logs(tmp_path, 1)
        (tmp_path / "launcher.log").write_text("started\n")
        with living(log) as pid:
            taken = Taken(tmp_path, framework(tmp_path), scene(alive(process(0, pid=pid, inner=pid)), world_size=2))
        assert sorted(taken.pieces) == ["logs/launcher.log", "logs/rank0-rank0.log"]

    def test_another_instances_logs_in_the_same_folder_stay_its_own(self, tmp_path: Path) -> None:
        logs = self.logs(tmp_path, 3)
        with living(logs[0]) as pid, living(logs[1]), living(reads=logs[2]):
            rank = alive(process(0, pid=pid, inner=pid))
            taken = Taken(tmp_path, framework(tmp_path), scene(rank, world_size=4))
        # Rank 2's log is only read by somebody: a shipper of logs does that.
        assert sorted(taken.pieces) == ["logs/rank0-rank0.log", "logs/rank2-rank2.log"]
        assert "1 of others" in taken.outcome.note

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_another_users_logs_stay_theirs(self, tmp_path: Path) -> None:
        logs = self.logs(tmp_path, 2)
        os.chown(logs[1], 12_345, -1)
        with living(logs[0]) as pid:
            rank = alive(process(0, pid=pid, inner=pid))
            taken = Taken(tmp_path, framework(tmp_path), scene(rank, world_size=2))
        assert sorted(taken.pieces) == ["logs/rank0-rank0.log"]

    def test_numbers_beyond_the_world_are_no_ranks(self, tmp_path: Path) -> None:
        logs = self.logs(tmp_path, 4)
        with living(logs[0]) as pid:
            rank = alive(process(0, pid=pid, inner=pid))
            taken = Taken(tmp_path, framework(tmp_path), scene(rank, world_size=2))
        assert sorted(taken.pieces) == ["logs/rank0-rank0.log", "logs/rank1-rank1.log"]

    def test_pipes_and_links_out_are_no_logs(self, tmp_path: Path) -> None:
        logs = self.logs(tmp_path, 1)
        os.mkfifo(tmp_path / "rank1.log")
        (tmp_path / "rank2.log").symlink_to("/proc/self/environ")
        (tmp_path / "rank3.log").mkdir()
        with living(logs[0]) as pid:
            rank = alive(process(0, pid=pid, inner=pid))
            taken = Taken(tmp_path, framework(tmp_path), scene(rank, world_size=4))
        assert sorted(taken.pieces) == ["logs/rank0-rank0.log"]


def test_a_local_rank_of_a_second_node_is_its_global_one(tmp_path: Path) -> None:
    for local in range(2):
        (tmp_path / f"attempt_0/{local}").mkdir(parents=True)
        (tmp_path / f"attempt_0/{local}/stderr.log").write_text("x\n")
    with living(tmp_path / "attempt_0/0/stderr.log") as pid:
        rank = alive(process(4, pid=pid, inner=pid, local_rank=0, LOCAL_WORLD_SIZE="2"))
        taken = Taken(tmp_path, framework(tmp_path), scene(rank, world_size=8))
    assert [piece.rank for piece in taken.pieces.values()] == [4, 5]


def test_the_number_in_which_the_living_differ_is_the_rank() -> None:
    ranks = [process(rank, pid=10 + rank, inner=10 + rank) for rank in range(2)]
    written = [(one, f"/l/0_{one.rank}.log") for one in ranks]
    (only,) = chosen(written)
    assert (only.before, only.after) == ("0_", ".log")
    assert series(ranks[0], "/l/none.log") == []


def test_no_time_to_look_at_everybody_leaves_the_files(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("x\n")
    with living() as pid:
        one = server(pid)
        target = Target("llm-0", "node0", (one,))
        found = sort_out([Candidate(one, f"{tmp_path}/x.log")], PROC, target, Deadline.after(0))
    assert found.ours == ()
    assert found.unsure == 1
