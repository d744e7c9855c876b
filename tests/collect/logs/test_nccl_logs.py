"""NCCL's own logs: each process's, by its own settings, and nothing that these settings only point at."""

from __future__ import annotations

import gzip
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from log_scene import CALL, INIT, NOW, Taken, process, scene

from rankmuster.collect.logs import nccl_files
from rankmuster.collect.logs.nccl_logs import NcclLogs
from rankmuster.collect.outcome import Ending
from rankmuster.collect.target import Role
from rankmuster.collect.wishes import Wishes
from rankmuster.evidence.bundle import load
from rankmuster.model.nccllog import InitPhase, NcclInit, NcclLogFile


def settings(pattern: Path | str, level: str = "INFO", **more: str) -> dict[str, str]:
    return {"NCCL_DEBUG": level, "NCCL_DEBUG_FILE": str(pattern), **more}


def ranks(folder: Path, count: int = 2, **environ: str) -> list[object]:
    for rank in range(count):
        (folder / f"nccl_node0_{100 + rank}.log").write_text(INIT.format(pid=100 + rank, rank=rank))
    given = settings(folder / "nccl_%h_%p.log") | environ
    return [process(rank, inner=100 + rank, started_at=1_700_000_000.0, **given) for rank in range(count)]


def test_each_processs_log_is_taken_and_read(tmp_path: Path) -> None:
    processes = ranks(tmp_path)
    (tmp_path / "nccl_node0_1000.log").write_text("another pid's of an earlier run, whose number begins alike")
    os.utime(tmp_path / "nccl_node0_1000.log", (1_000_000_000, 1_000_000_000))
    (tmp_path / "nccl_node0_100.log.bak-of-mine").write_text("no rotation's name")
    taken = Taken(tmp_path, NcclLogs(), scene(*processes))
    assert taken.outcome.ending is Ending.DONE
    assert sorted(taken.pieces) == ["nccl/nccl_node0_100.log", "nccl/nccl_node0_101.log"]
    piece = taken.pieces["nccl/nccl_node0_101.log"]
    assert (piece.rank, piece.look_time, piece.host) == (1, NOW, "node0")
    evidence = load(taken.folder)
    assert {(init.origin.pid, init.rank) for init in evidence.of(NcclInit)} == {(100, 0), (101, 1)}
    assert not any(log.hole for log in evidence.of(NcclLogFile))


def test_rotated_pieces_belong_to_the_log(tmp_path: Path) -> None:
    processes = ranks(tmp_path, 1)
    for ending in (".1", "-20261129", ".old"):
        (tmp_path / f"nccl_node0_100.log{ending}").write_text("NCCL INFO earlier\n")
    (tmp_path / "nccl_node0_100.log.2.gz").write_bytes(gzip.compress(INIT.format(pid=100, rank=0).encode()))
    taken = Taken(tmp_path, NcclLogs(), scene(*processes))
    names = {path.removeprefix("nccl/nccl_node0_100.log") for path in taken.pieces}
    assert names == {"", ".1", ".2", "-20261129", ".old"}
    # Packed text is unpacked: secrets could not be stripped from it otherwise.
    assert taken.read("nccl/nccl_node0_100.log.2") == INIT.format(pid=100, rank=0).encode()


def test_of_a_long_log_the_start_and_the_end_are_taken_and_the_hole_is_seen(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    with log.open("w") as file:
        file.write(INIT.format(pid=100, rank=0))
        for count in range(40_000):
            file.write(CALL.format(pid=100, rank=0, count=count))
    wishes = Wishes(max_log_bytes=1 << 20)
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=100, **settings(log)), wishes=wishes))
    (path,) = taken.pieces
    data = taken.read(path)
    assert len(data) <= 1 << 20
    assert data.startswith(b"node0:100:100 [0] NCCL INFO NCCL version")
    assert data.endswith(CALL.format(pid=100, rank=0, count=39_999).encode())
    assert "only the end" in taken.outcome.note
    evidence = load(taken.folder)
    assert [init.phase for init in evidence.of(NcclInit)] == [InitPhase.START, InitPhase.COMPLETE]
    assert [log.hole for log in evidence.of(NcclLogFile)] == [True]


def test_ten_sparse_gigabytes_cost_no_more(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    with log.open("wb") as file:
        file.truncate(10 << 30)
        file.seek(10 << 30)
        file.write(INIT.format(pid=100, rank=0).encode())
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=100, **settings(log))))
    (piece,) = taken.pieces.values()
    assert piece.size < 9 << 20
    assert INIT.format(pid=100, rank=0).encode() in taken.read(piece.path)


def test_a_log_that_grows_as_it_is_read_has_an_end(tmp_path: Path) -> None:
    log, stop = tmp_path / "nccl.log", threading.Event()
    log.write_text(INIT.format(pid=100, rank=0))

    def write() -> None:
        with log.open("a") as file:
            while not stop.is_set():
                file.write(CALL.format(pid=100, rank=0, count=1) * 100)
                stop.wait(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wishes = Wishes(max_log_bytes=300_000)
        taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=100, **settings(log)), wishes=wishes))
    finally:
        stop.set()
        writer.join()
    (piece,) = taken.pieces.values()
    assert piece.size <= 300_000


def test_a_shared_log_is_nobodys(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(INIT.format(pid=100, rank=0) + INIT.format(pid=101, rank=1))
    given = settings(log)
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=100, **given), process(1, inner=101, **given)))
    (piece,) = taken.pieces.values()
    assert piece.rank is None


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nccl.log")
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=100, **settings(tmp_path / "nccl.log"))))
    assert taken.outcome.ending is Ending.FAILED
    assert "a pipe" in taken.outcome.note


def test_a_containers_links_stay_in_the_container(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "logs").mkdir(parents=True)
    (tmp_path / "shadow").write_text("root:NCCL INFO secret")
    (root / "logs/nccl.100.log").symlink_to("../../shadow")
    (root / "logs/nccl.101.log").symlink_to("/data/nccl.101")
    (root / "data").mkdir()
    (root / "data/nccl.101").write_text("NCCL INFO the container's own\n")
    processes = [process(n, inner=100 + n, root=root, **settings("/logs/nccl.%p.log")) for n in range(2)]
    taken = Taken(tmp_path, NcclLogs(), scene(*processes))
    assert list(taken.pieces) == ["nccl/nccl.101.log"]
    assert taken.read("nccl/nccl.101.log") == b"NCCL INFO the container's own\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_process_cannot_make_root_read_anothers_file(tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root:NCCL INFO secret")
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=1, uid=1000, **settings(tmp_path / "shadow"))))
    assert taken.outcome.ending is Ending.DENIED
    assert "belongs to uid 0" in taken.outcome.note
    assert taken.pieces == {}


def test_the_environment_of_a_process_is_no_log(tmp_path: Path) -> None:
    pid = os.getpid()
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, pid=pid, **settings(f"/proc/{pid}/environ"))))
    assert taken.pieces == {}
    assert taken.outcome.ending is not Ending.DONE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("NCCL INFO\n")
    log.chmod(0)
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, **settings(log))))
    assert taken.outcome.ending is Ending.DENIED


def test_settings_from_a_configuration_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/nccl.conf").write_text("# ours\nNCCL_DEBUG=INFO\nNCCL_DEBUG_FILE = /l/%p.log # here\n")
    (root / "l").mkdir()
    (root / "l/7.log").write_text("NCCL INFO\n")
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=7, root=root)))
    assert list(taken.pieces) == ["nccl/7.log"]


def test_a_relative_path_is_the_processs_own(tmp_path: Path) -> None:
    (tmp_path / "nccl.7").write_text("NCCL INFO\n")
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=7, cwd=tmp_path, **settings("nccl.%p"))))
    assert list(taken.pieces) == ["nccl/nccl.7"]


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, "NCCL_DEBUG is not set"),
        ({"NCCL_DEBUG": "VERSION", "NCCL_DEBUG_FILE": "/none/x"}, "NCCL_DEBUG is VERSION"),
        ({"NCCL_DEBUG": "INFO"}, "own output"),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/dev/stderr"}, "own output"),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/none/%h/%p"}, "none of these exists"),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "\0/\udcff" + "x" * 5000}, "own output"),
    ],
)
def test_nothing_there_is_explained(tmp_path: Path, environ: dict[str, str], reason: str) -> None:
    taken = Taken(tmp_path, NcclLogs(), scene(process(0, inner=7, HOME=str(tmp_path), **environ)))
    assert taken.outcome.ending is Ending.NOTHING
    assert reason in taken.outcome.note


def test_without_an_instance_there_is_nobody_to_ask(tmp_path: Path) -> None:
    from rankmuster.collect.collector import Scene
    from rankmuster.collect.machine import Machine

    taken = Taken(tmp_path, NcclLogs(), Scene(None, Machine(), Wishes()))
    assert taken.outcome.ending is Ending.NOTHING


def test_no_time_is_said_and_takes_none(tmp_path: Path) -> None:
    taken = Taken(tmp_path, NcclLogs(), scene(*ranks(tmp_path)), seconds=0.0)
    assert taken.pieces == {}
    assert taken.outcome.ending is Ending.FAILED
    assert "no time" in taken.outcome.note


def test_an_engine_core_without_rank_has_a_log_too(tmp_path: Path) -> None:
    ranks(tmp_path, 1)
    core = process(None, inner=100, role=Role.ENGINE, **settings(tmp_path / "nccl_%h_%p.log"))
    assert list(Taken(tmp_path, NcclLogs(), scene(core)).pieces) == ["nccl/nccl_node0_100.log"]


def test_in_a_folder_that_may_not_be_listed_the_name_is_made_as_nccl_makes_it(tmp_path: Path) -> None:
    where = replace(process(0, inner=100), root=tmp_path)
    found = nccl_files.sources(where, "/no-such/50%%_%h_%p.log", ["node0.example", "node0"])
    assert [source.path for source in found] == ["/no-such/50%_node0_100.log"]
