"""`rankmuster bench` as a user meets it: what is measured, read and shown, and the exit status of each ending."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from fake_nccl_tests import install
from nccl_tests_sample import MIDDLE, output
from rankmuster.bench.profile_file import read_profile
from rankmuster.evidence.benchmark_file import read_benchmark
from rankmuster.model.benchmark import RunState

SAMPLES = Path(__file__).parents[1] / "evidence" / "nccl_tests_h200"
CASES = Path(__file__).parents[1] / "cases"
PLATEAU = tuple(1 << shift for shift in range(20, 26))


def bench(*arguments: str | Path, given: bytes | None = None, **environ: str) -> subprocess.CompletedProcess[bytes]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("NCCL")}
    return subprocess.run(
        [sys.executable, "-m", "rankmuster.cli.main", "bench", *map(str, arguments)],
        input=given,
        capture_output=True,
        env=own | environ,
        timeout=120,
        check=False,
    )


def test_a_measured_profile_is_a_table_and_a_document(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    text = bench("run", "--nccl-tests", folder, "--profile", "tp8-prefill", "--env", "NCCL_ALGO=Ring")
    assert text.returncode == 0, text.stderr.decode()
    shown = text.stdout.decode()
    assert "all_reduce, bfloat16, out of place" in shown
    assert "RING/SIMPLE x16" in shown
    assert "set: NCCL_ALGO=Ring" in shown
    written = tmp_path / "run.json"
    made = bench(
        *("run", "--nccl-tests", folder, "--profile", "tp8-prefill", "--runs", "2", "--gpus", "3"),
        *("--no-choices", "--format", "json", "--output", written),
    )
    assert made.returncode == 0, made.stderr.decode()
    assert b"run 2 of 2: complete" in made.stderr
    first, second = (read_benchmark(line) for line in written.read_bytes().splitlines())
    assert len(first.ranks) == 3
    assert [one.cell.size_bytes for one in second.measurements] == [8 << 20, 32 << 20, 128 << 20]
    again = bench("read", written)
    assert again.returncode == 0
    assert again.stdout.count(b"all_reduce, bfloat16") == 2


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [({"wrong": "5"}, 1, "wrong"), ({"kind": "hang"}, 1, "hung"), ({"kind": "dies"}, 1, "error")],
)
def test_a_bad_run_is_a_result_with_a_status(
    tmp_path: Path, behaviour: dict[str, str], status: int, words: str
) -> None:
    folder = install(tmp_path / "bin", **behaviour)
    made = bench(
        *("run", "--nccl-tests", folder, "--profile", "pp-sendrecv", "--tool", "nccl-tests"), "--time-limit", "3"
    )
    assert made.returncode == status, made.stderr.decode()
    assert words in made.stdout.decode()


def test_a_command_that_is_ended_ends_what_it_started(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin", kind="hang")
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "rankmuster.cli.main", "bench", "run", "--nccl-tests", str(folder)]
    process = subprocess.Popen([*command, "--keep", str(kept), "--gpus", "2"], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    said = ""
    while "child" not in said and time.monotonic() < end:
        time.sleep(0.1)
        said = "".join(path.read_text() for path in kept.glob("*.txt"))
    child = int(said.split("child ")[1].split()[0])
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_cannot_be_measured_says_what_to_do(tmp_path: Path) -> None:
    for arguments, words in (
        (("--profile", "tp4"), "links, tp8-decode"),
        (("--tool", "nccl-tests", "--nccl-tests", str(tmp_path)), "was not found in"),
        (("--env", "NCCL_ALGO"), "NAME=VALUE"),
        (("--gpus", "1"), "--gpus"),
    ):
        made = bench("run", *arguments)
        assert made.returncode == 3
        assert words in made.stderr.decode()
        assert made.stdout == b""


def test_output_of_any_age_is_read_to_one_form(tmp_path: Path) -> None:
    old = tmp_path / "old.log"
    old.write_text(output("all_reduce", sizes=PLATEAU, shape=MIDDLE) + output("reduce", sizes=PLATEAU, shape=MIDDLE))
    made = bench("read", old, "--format", "json")
    assert made.returncode == 0, made.stderr.decode()
    runs = [json.loads(line) for line in made.stdout.splitlines()]
    assert [run["measurements"][0]["cell"]["operation"] for run in runs] == ["all_reduce", "reduce"]
    piped = bench("read", "-", given=old.read_bytes())
    assert piped.returncode == 0
    assert "standard input" in piped.stdout.decode()


def test_a_file_that_is_cut_or_none_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    good, cut = tmp_path / "good.txt", tmp_path / "cut.txt"
    good.write_text(output())
    cut.write_text(output(sizes=PLATEAU)[:-500])
    made = bench("read", good, tmp_path / "none.txt")
    assert made.returncode == 1
    assert "cannot read" in made.stderr.decode()
    assert "complete" in made.stdout.decode()
    made = bench("read", cut, "--format", "json")
    assert made.returncode == 1
    assert read_benchmark(made.stdout).state is RunState.INCOMPLETE
    made = bench("read", CASES / "healthy-tp4" / "input.tar.zst")
    assert made.returncode == 3
    assert "no run was read" in made.stderr.decode()


def test_a_folder_or_an_archive_gives_the_runs_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "tests.log").write_text(output() + output("alltoall", sizes=PLATEAU))
    (folder / "logs" / "engine.log").write_text("INFO reduce_perf improved\nSegmentation fault (core dumped)\n")
    (folder / "ar.json").write_bytes((SAMPLES / "nccl-tests-ar_1.json").read_bytes())
    packed = tmp_path / "bundle.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(folder, "bundle")
    for given in (folder, packed):
        made = bench("read", given, "--format", "json")
        assert made.returncode == 0, made.stderr.decode()
        assert len(made.stdout.splitlines()) == 3
        assert b"planted-secret" not in made.stdout


def test_an_operation_that_nobody_says_is_asked_for(tmp_path: Path) -> None:
    table = tmp_path / "out.txt"
    table.write_text(output("all_gather", sizes=PLATEAU, shape=MIDDLE, wrong="N/A"))
    made = bench("read", table)
    assert made.returncode == 1
    assert "--operation" in " ".join(made.stdout.decode().split())
    made = bench("read", table, "--operation", "all_gather")
    assert made.returncode == 0, made.stdout.decode()


def test_profiles_are_listed_shown_and_computed(tmp_path: Path) -> None:
    listed = bench("profiles")
    assert listed.returncode == 0
    for name in ("links", "tp8-decode", "tp8-prefill", "ep-alltoall", "pp-sendrecv"):
        assert f"{name}  ({name}@" in listed.stdout.decode()
    shown = bench("profiles", "tp8-decode")
    assert read_profile(shown.stdout, "x").name == "tp8-decode"
    own = tmp_path / "own.yaml"
    made = bench(
        *("profile", "--from", CASES / "healthy-tp2pp2" / "input.tar.zst", "--name", "llm-0"),
        *("--by", "count", "--sizes", "2", "--output", own),
    )
    assert made.returncode == 0, made.stderr.decode()
    profile = read_profile(own.read_bytes(), "x")
    assert profile.name == "llm-0"
    assert sum(len(step.sizes) for step in profile.steps) == 2
    assert b"weighed by count" in made.stderr
    again = bench("profiles", own)
    assert read_profile(again.stdout, "x") == profile
    folder = install(tmp_path / "bin")
    measured = bench("run", "--profile", own, "--nccl-tests", folder, "--no-choices")
    assert measured.returncode == 0, measured.stdout.decode()


def test_a_profile_with_a_mistake_names_its_line(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("schema: rankmuster.profile/1\nname: x\nsteps:\n  - operation: all_reduce\n    size: [1 MiB]\n")
    for arguments in (("run", "--profile", own), ("profiles", own)):
        made = bench(*arguments)
        assert made.returncode == 3
        assert "line 5: steps[0] has no field 'size'" in made.stderr.decode()


def test_nothing_to_compute_from_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("hello\n")
    made = bench("profile", "--from", tmp_path)
    assert made.returncode == 3
    assert "no Flight Recorder dump" in made.stderr.decode()


def test_what_is_no_file_is_refused_at_once_by_every_command_that_reads_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in (
        ("read", pipe),
        ("nodes", "--results", pipe),
        ("pairs", "--nodes", "a,b,c", "--results", pipe),
        ("run", "--profile", pipe),
    ):
        done = bench(*command)
        assert done.returncode == 3, command
        assert b"cannot read" in done.stderr
        assert b"it is a named pipe" in done.stderr


def test_a_profile_that_is_no_file_is_said_to_be_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "broken").symlink_to("nowhere")
    deep = tmp_path / "deep.yaml"
    deep.write_text("[" * 100_000)
    for given, words in (
        (tmp_path, "it is a folder"),
        (tmp_path / "broken", "a link to nowhere, which is not there"),
        (tmp_path / "absent", "No such file"),
        (deep, "nested too deeply"),
    ):
        done = bench("run", "--profile", given)
        assert done.returncode == 3
        assert words in done.stderr.decode()


def test_a_standard_input_that_is_closed_is_said() -> None:
    script = f'exec "{sys.executable}" -m rankmuster.cli.main bench read - <&-'
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 3
    assert b"standard input: it is closed" in done.stderr


def test_more_rows_than_any_output_has_are_given_up_early_and_said(tmp_path: Path) -> None:
    text = output(sizes=PLATEAU)
    row = next(line for line in text.splitlines(keepends=True) if line.startswith("     1048576"))
    written = tmp_path / "endless.txt"
    written.write_text(text.replace(row, row * 300_000))
    began = time.monotonic()
    done = bench("read", written)
    assert time.monotonic() - began < 30  # of which a row takes 30 us, and all of them twice that
    assert done.returncode == 1
    assert "more rows or ranks than one output has" in " ".join(done.stdout.decode().split())


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there are GPUs here")
def test_without_a_gpu_it_is_said_where_to_start_it(tmp_path: Path) -> None:
    done = bench("run", PATH=str(tmp_path), CUDA_VISIBLE_DEVICES="", NCCL_TESTS_HOME=str(tmp_path))
    assert done.returncode == 3
    done = bench("run", PATH=str(tmp_path), NCCL_TESTS_HOME=str(tmp_path))
    assert done.returncode == 3
    said = done.stderr.decode()
    assert "start it where the GPUs are" in said
    assert "--gpus" in said
    assert "--tool built-in" not in said
    assert "--tool built-in" in bench("run", "--tool", "nccl-tests", PATH=str(tmp_path)).stderr.decode()
