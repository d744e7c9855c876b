"""`rankmuster flight summarize` and `rankmuster flight merge`, as they are run on nodes and on one machine."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flight_document import dumps_in

from rankmuster.cli import main
from rankmuster.cli.flight_summarize import default_name

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return dumps_in(tmp_path / "dumps")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """As the program, without the time that a process of its own takes to start."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        status = main.status_of([str(argument) for argument in arguments])
        written = capfd.readouterr()
        return subprocess.CompletedProcess([], status, written.out, written.err)

    return run


@pytest.fixture
def nodes(dumps: Path) -> list[Path]:
    """The same dumps on two nodes."""
    found = []
    for name, ranks in (("n1", (0, 1)), ("n2", (2, 3))):
        found.append(dumps.parent / name)
        found[-1].mkdir()
        for rank in ranks:
            shutil.copy(dumps / f"nccl_trace_rank_{rank}", found[-1])
    return found


def summaries(command: Run, nodes: list[Path], where: Path, named: bool = False) -> Path:
    where.mkdir(exist_ok=True)
    for node in nodes:
        host = ("--host", node.name) if named else ()
        done = command("flight", "summarize", node, *host, "-o", where / f"{node.name}.rfs")
        assert done.returncode == 0, done.stderr
    return where


def verdict(text: str) -> dict[str, Any]:
    document = json.loads(text)
    found = document.get("verdict", document)
    assert isinstance(found, dict)
    return found


def test_a_job_by_its_nodes_is_told_as_by_its_dumps(command: Run, dumps: Path, nodes: list[Path]) -> None:
    folder = summaries(command, nodes, dumps.parent / "summaries")
    through = command("flight", "merge", folder)
    direct = command("flight", dumps)
    assert (through.returncode, through.stderr) == (1, "")
    assert through.stdout == direct.stdout
    as_json = command("flight", "merge", folder / "n1.rfs", folder / "n2.rfs", "--format", "json")
    assert verdict(as_json.stdout)["suspects"][0]["rank"] == 2
    assert "/nccl_trace_rank_2" in as_json.stdout
    diagnosed = command("diagnose", folder, "--format", "json")
    assert verdict(diagnosed.stdout)["suspects"] == verdict(as_json.stdout)["suspects"]


def test_findings_name_the_node_that_was_told(command: Run, dumps: Path, nodes: list[Path]) -> None:
    folder = summaries(command, nodes, dumps.parent / "summaries", named=True)
    assert "culprit rank 2 (host n2)" in command("flight", "merge", folder).stdout
    found = verdict(command("flight", "merge", folder, "--format", "json").stdout)
    assert [(one["rank"], one["host"]) for one in found["suspects"] if one["role"] == "culprit"] == [(2, "n2")]
    assert "n2/nccl_trace_rank_2" in json.dumps(found)


def test_options_of_the_report_are_those_of_flight(command: Run, dumps: Path, nodes: list[Path]) -> None:
    folder = summaries(command, nodes, dumps.parent / "summaries")
    for options in (
        ("--entries", "--rank", "2", "--limit", "3"),
        ("--format", "jsonl", "--rank", "0-1"),
        ("--stacks",),
    ):
        through, direct = command("flight", "merge", folder, *options), command("flight", dumps, *options)
        assert through.returncode == direct.returncode == 1
        assert through.stdout
        if options != ("--stacks",) and "jsonl" not in options:
            assert through.stdout == direct.stdout
    assert command("flight", "merge", folder, "--rank", "9").returncode == 3
    again = command("flight", "merge", folder, "--previous", folder / "n1.rfs", "--previous", folder / "n2.rfs")
    assert again.returncode == 1


def test_what_summarize_says(command: Run, dumps: Path) -> None:
    (dumps / "nccl_trace_rank_3").write_bytes((dumps / "nccl_trace_rank_3").read_bytes()[:-4000])
    (dumps / "readme.txt").write_text("not a dump\n")
    done = command("flight", "summarize", dumps, "-o", "n.rfs", "--host", "n\x1b[1m7")
    assert (done.returncode, done.stdout) == (0, "")
    first, second = done.stderr.splitlines()
    size = (dumps.parent / "n.rfs").stat().st_size
    assert first.startswith("wrote n.rfs: n7, ranks 0-3: ")
    assert f" entries in {size} bytes (dumps: " in first
    assert second.startswith("  nccl_trace_rank_3: Flight Recorder dump: ")
    assert "entries before that used" in second


def test_the_default_name_says_host_and_time(command: Run, dumps: Path) -> None:
    assert default_name("gpu-7.rack/2", 1795980207.9) == "flight-gpu-7.rack_2-20261129T192327Z.rfs"
    assert default_name("..", 0.0) == "flight-node-19700101T000000Z.rfs"
    done = command("flight", "summarize", dumps, "--host", "gpu-7")
    assert done.returncode == 0
    (written,) = dumps.parent.glob("flight-gpu-7-*.rfs")
    assert command("flight", "merge", written).returncode == 1
    (dumps.parent / "out").mkdir()
    assert command("flight", "summarize", dumps, "--host", "gpu-7", "-o", "out").returncode == 0
    assert list((dumps.parent / "out").glob("flight-gpu-7-*.rfs"))


def test_a_pipe_carries_a_summary(program: Path, command: Run, nodes: list[Path], tmp_path: Path) -> None:
    for node in nodes:
        with (tmp_path / f"{node.name}.rfs").open("wb") as file:
            done = subprocess.run([program, "flight", "summarize", node, "-o", "-"], stdout=file, timeout=60)
        assert done.returncode == 0
    assert command("flight", "merge", "n1.rfs", "n2.rfs").returncode == 1


def test_a_pipe_that_breaks_is_no_summary(program: Path, dumps: Path) -> None:
    there, here = os.pipe()
    os.close(there)
    done = subprocess.run(
        [program, "flight", "summarize", dumps, "-o", "-"], stdout=here, stderr=subprocess.PIPE, timeout=60
    )
    os.close(here)
    assert done.returncode == 3
    assert b"not written whole" in done.stderr


def test_a_terminal_gets_no_binary(program: Path, dumps: Path) -> None:
    primary, secondary = os.openpty()
    done = subprocess.run(
        [program, "flight", "summarize", dumps, "-o", "-"], stdout=secondary, stderr=subprocess.PIPE, timeout=60
    )
    os.close(primary)
    os.close(secondary)
    assert done.returncode == 3
    assert b"standard output is a terminal" in done.stderr


def test_files_of_a_shared_folder_can_be_shared_out(command: Run, dumps: Path) -> None:
    files = sorted(dumps.iterdir())
    for name, own in (("a", files[::2]), ("b", files[1::2])):
        assert command("flight", "summarize", *own, "--host", name, "-o", f"{name}.rfs").returncode == 0
    done = command("flight", "merge", "a.rfs", "b.rfs", "--format", "json")
    assert done.returncode == 1
    assert verdict(done.stdout)["problems"] == []


@pytest.mark.parametrize("command_line", [("summarize",), ("merge",)])
def test_nothing_is_an_answer_of_its_own(command: Run, tmp_path: Path, command_line: tuple[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("nothing here\n")
    for where in ("missing", "empty", "other", ""):
        done = command("flight", *command_line, where)
        assert (done.returncode, done.stdout) == (3, "")
        assert len(done.stderr.splitlines()) == 1
        assert "internal error" not in done.stderr
    assert list(tmp_path.glob("*.rfs")) == []


def test_summaries_are_not_summarised_again(command: Run, dumps: Path) -> None:
    (dumps.parent / "s").mkdir()
    command("flight", "summarize", dumps, "-o", "s/n.rfs")
    done = command("flight", "summarize", "s")
    assert done.returncode == 3
    assert "rankmuster flight merge" in done.stderr
    shutil.copy(dumps.parent / "s" / "n.rfs", dumps)
    assert command("flight", "summarize", dumps, "-o", "again.rfs").returncode == 0
    assert command("flight", "merge", "again.rfs", "--format", "json").returncode == 1


def test_one_spoilt_summary_among_several_costs_its_node(command: Run, dumps: Path, nodes: list[Path]) -> None:
    folder = summaries(command, nodes, dumps.parent / "summaries", named=True)
    (folder / "n2.rfs").write_bytes((folder / "n2.rfs").read_bytes()[:-10])
    (folder / "n3.rfs").write_bytes(b"")
    done = command(
        "flight", "merge", folder / "n1.rfs", folder / "n2.rfs", folder / "n3.rfs", "gone.rfs", "--format", "json"
    )
    assert done.returncode in (1, 2)
    found = verdict(done.stdout)
    assert [one for one in found["suspects"] if one["role"] == "culprit"] == []
    told = "\n".join(found["problems"])
    assert "ranks 2, 3 on n2" in told
    assert "gone.rfs" in told


def test_a_hostile_dump_costs_its_rank(command: Run, dumps: Path) -> None:
    (dumps / "nccl_trace_rank_1").write_bytes(pickle.dumps(Path("/"), protocol=2))
    done = command("flight", "summarize", dumps, "-o", "n.rfs")
    assert done.returncode == 0
    assert "nccl_trace_rank_1: a pickle that is not plain data, refused" in done.stderr


def test_two_runs_are_not_mixed(command: Run, dumps: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for rank in range(4):
        top = {
            "version": "2.10",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "entries": [
                {
                    "record_id": 0,
                    "collective_seq_id": 1,
                    "pg_id": 0,
                    "process_group": ("0", "default_pg"),
                    "profiling_name": "nccl:all_reduce",
                    "time_created_ns": 1_700_000_000_000_000_000 + rank,
                    "state": "completed",
                }
            ],
        }
        (other / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(top, protocol=2))
    assert command("flight", "summarize", dumps, "-o", "a.rfs", "--host", "a").returncode == 0
    assert command("flight", "summarize", other, "-o", "b.rfs", "--host", "b").returncode == 0
    done = command("flight", "merge", "a.rfs", "b.rfs")
    assert (done.returncode, done.stdout) == (3, "")
    assert "2 times that lie apart: b of 2023-" in done.stderr
