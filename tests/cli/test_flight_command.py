"""`rankmuster flight FOLDER`: statuses, filters, formats, an earlier set; on captures and on folders of dumps alone."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

Run = Callable[..., "subprocess.CompletedProcess[str]"]

CASES = Path(__file__).parents[1] / "cases"


def unpacked(case: str, target: Path) -> Path:
    with (CASES / case / "input.tar.zst").open("rb") as packed:
        data = zstandard.ZstdDecompressor().stream_reader(packed).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter="data")
    return target


def top(rank: int, last: int, finished: int, first: int = 1, **fields: Any) -> dict[str, Any]:
    """A dump of eight ranks in one group, gloo's kind: numbers `first` to `last`, retired up to `finished`."""
    entries = [
        {
            "frames": [{"name": "step", "filename": "/srv/model.py", "line": 12}],
            "record_id": seq - 1,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": seq,
            "p2p_seq_id": 0,
            "op_id": seq,
            "profiling_name": "gloo:all_reduce",
            "time_created_ns": 1_795_980_000_000_000_000 + seq * 10_000_000 + rank,
            "input_sizes": [[16]],
            "input_dtypes": ["Float"],
            "output_sizes": [[16]],
            "output_dtypes": ["Float"],
            "state": "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": seq <= finished,
            "timeout_ms": 6000,
            "is_p2p": False,
        }
        for seq in range(first, last + 1)
    ]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(4)))}}
    return {"version": "2.10", "pg_config": config, "entries": entries, **fields}


def folder(path: Path, tops: dict[int, dict[str, Any]], name: str = "trace_rank_") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for rank, one in tops.items():
        (path / f"{name}{rank}").write_bytes(pickle.dumps(one, protocol=2))
    return path


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Rank 2 did not come to #51."""
    return folder(tmp_path / "dumps", {rank: top(rank, 50 if rank == 2 else 51, 50) for rank in range(4)})


def test_a_fault_is_1_and_says_the_same_as_diagnose(command: Run, stopped: Path) -> None:
    done = command("flight", stopped)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == command("diagnose", stopped).stdout.splitlines()[0]
    assert "rank 2 has not" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("case", ["skipped-call", "pp-stop", "healthy-tp2pp2", "rank-killed"])
def test_captures_give_diagnoses_verdict(command: Run, tmp_path: Path, case: str) -> None:
    path = unpacked(case, tmp_path / case)
    verdict = json.loads(command("diagnose", path, "--format", "json").stdout)
    done = command("flight", path, "--format", "json", "--stacks")
    value = json.loads(done.stdout)
    assert value["verdict"] == verdict
    truth = json.loads((CASES / case / "truth.json").read_text())
    assert value["verdict"]["class"] in truth["accept_class"]
    named = {
        rank for group in value["groups"] for place in group["places"] if place["named"] for rank in place["ranks"]
    }
    assert named <= set(truth["culprits"])


def test_the_capture_of_a_skipped_call_names_the_odd_rank_and_both_stacks(command: Run, tmp_path: Path) -> None:
    done = command("flight", unpacked("skipped-call", tmp_path / "case"), "--stacks", "--width", "200")
    assert "rank 2 (odd) passed _all_gather_base" in done.stdout
    assert "rank 2, last recorded call default_pg #905 _all_gather_base" in done.stdout
    assert "ranks 0, 1, 3, stand at default_pg #905 all_reduce" in done.stdout
    assert "it does not say where the rank is now" in done.stdout


def test_the_default_command_takes_options_first(command: Run, stopped: Path) -> None:
    assert command("flight", "--stacks", stopped).stdout == command("flight", "show", stopped, "--stacks").stdout


def test_a_folder_that_is_called_like_a_command(command: Run, tmp_path: Path, stopped: Path) -> None:
    shutil.copytree(stopped, tmp_path / "merge")
    assert command("flight", "./merge").returncode == 1


def test_without_arguments_help_is_shown_and_with_help_the_options(command: Run) -> None:
    assert "show" in command("flight").stdout + command("flight").stderr
    assert "--previous" in command("flight", "show", "--help").stdout


def test_a_folder_without_dumps_is_3_with_what_was_found_instead(command: Run, tmp_path: Path, examples: Path) -> None:
    done = command("flight", examples / "tp2-idle")
    assert (done.returncode, done.stdout) == (3, "")
    assert "holds no Flight Recorder dump (found" in done.stderr
    assert "TORCH_FR_BUFFER_SIZE" in done.stderr
    refused = folder(tmp_path / "bad", {})
    (refused / "trace_rank_0").write_bytes(b"\x80\x02cposix\nsystem\n.")
    assert "refused" in command("flight", refused).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("",), "FOLDER is empty"),
        (("nowhere",), "no such file"),
        (("DUMPS", "--previous", ""), "--previous is empty"),
        (("DUMPS", "--previous", "nowhere"), "no such file"),
        (("DUMPS", "--rank", "x"), "write 0,3,8-15"),
        (("DUMPS", "--group", "EP"), "there are default_pg"),
        (("DUMPS", "--prefix", "other_"), "whose name holds other_"),
        (("DUMPS", "--limit", "-1"), "limit"),
        (("DUMPS", "--width", "10"), "width"),
    ],
)
def test_bad_usage_is_3_and_one_line(command: Run, stopped: Path, arguments: tuple[str, ...], said: str) -> None:
    done = command("flight", *(stopped if argument == "DUMPS" else argument for argument in arguments))
    if not said:
        assert done.returncode == 1
        return
    assert (done.returncode, done.stdout) == (3, "")
    assert said in done.stderr


def test_records_are_printed_by_rank_and_group_and_bounded(command: Run, stopped: Path) -> None:
    done = command("flight", stopped, "--entries", "--rank", "1-2", "--limit", "3", "--stacks", "--width", "160")
    assert done.stdout.count("RECORDS rank") == 2
    assert "3 records, the newest of 50" in done.stdout
    assert "step /srv/model.py:12" in done.stdout
    assert "records 47, 48, 49:" in done.stdout


def test_records_as_json_lines_are_all_there(command: Run, stopped: Path) -> None:
    done = command("flight", stopped, "--format", "jsonl", "--limit", "0", "--group", "default_pg", "--stacks")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 51 * 3 + 50
    assert lines[0]["stack"] == ["step /srv/model.py:12"]
    assert [line["sequence"] for line in lines if line["rank"] == 2] == list(range(1, 51))


def test_an_earlier_set_tells_a_tail_from_a_stop(command: Run, tmp_path: Path, stopped: Path) -> None:
    moving = folder(tmp_path / "later", {rank: top(rank, 650 + (rank == 1), 640) for rank in range(4)})
    earlier = folder(tmp_path / "earlier", {rank: top(rank, 350, 340) for rank in range(4)})
    assert command("flight", moving).returncode != 0
    done = command("flight", moving, "--previous", earlier)
    assert done.returncode == 0
    assert "the job moved between the two sets" in done.stdout
    same = command("flight", stopped, "--previous", stopped, "--format", "json")
    assert same.returncode == 1
    assert json.loads(same.stdout)["previous"]["since"] == "stands"
    swapped = command("flight", earlier, "--previous", moving)
    assert swapped.returncode != 0
    assert "not earlier" in swapped.stdout


def test_a_prefix_chooses_among_dumps_of_one_folder(command: Run, stopped: Path) -> None:
    folder(stopped, {rank: top(rank, 30 if rank == 1 else 31, 30) for rank in range(4)}, "old_trace_")
    done = command("flight", stopped, "--prefix", "old_trace_", "--format", "json")
    assert json.loads(done.stdout)["verdict"]["first_divergence"]["missing"] == [1]


def test_torchfts_replicas_are_told_apart(command: Run, tmp_path: Path) -> None:
    tops = {rank: top(rank, 50 if rank == 6 else 51, 50) for rank in range(8)}
    path = folder(tmp_path / "ft", tops)
    value = json.loads(command("flight", path, "--replica-size", "4", "--format", "json").stdout)
    assert sorted(group["members"] for group in value["groups"]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert value["verdict"]["first_divergence"]["missing"] == [6]


def test_the_report_goes_to_a_file_whole(command: Run, stopped: Path, tmp_path: Path) -> None:
    done = command("flight", stopped, "--output", tmp_path / "report.txt")
    assert (done.returncode, done.stdout) == (1, "")
    assert "rank 2 has not" in (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "missing_enter" in done.stderr


@pytest.mark.parametrize("width", ["40", "120"])
def test_numbers_side_by_side(command: Run, stopped: Path, width: str) -> None:
    done = command("flight", stopped, "--aligned", "--limit", "3", "--width", width)
    assert "SIDE BY SIDE" in done.stdout
    assert max(map(len, done.stdout.splitlines()[1:])) <= int(width)
    value = json.loads(command("flight", stopped, "--aligned", "--limit", "3", "--format", "json").stdout)
    assert value["aligned"][0]["columns"] == [[2], [0, 1, 3]]
    assert value["aligned"][0]["rows"][-1]["cells"][0] == {"step": "not_entered", "call": None}
