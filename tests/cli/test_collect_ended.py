"""A group under `rankmuster run` that has ended: what `collect` saves of it afterwards, and what `diagnose` says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import GroupState
from rankmuster.model.run_record import Record
from rankmuster.supervise.record import read
from supervised_run import SECONDS, Run, cleaned, until

PROGRAM = (sys.executable, "-m", "rankmuster.cli.main")

LAUNCHER = """
import os, subprocess, sys, time
SLEEP = "import time; time.sleep(1000)"
ranks = []
for rank in range(4):
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}
    ranks.append(subprocess.Popen([sys.executable, "-c", SLEEP], env={**os.environ, **place}))
while all(rank.poll() is None for rank in ranks):
    time.sleep(0.02)
first = next(number for number, rank in enumerate(ranks) if rank.poll() is not None)
mark = time.strftime("%m%d %H:%M:%S") + f".000000 {os.getpid()} torch/distributed/elastic/multiprocessing/api.py:"
for number, rank in enumerate(ranks):
    if number != first:
        print(f"W{mark}1028] Sending process {rank.pid} closing signal SIGTERM", file=sys.stderr, flush=True)
        rank.terminate()
gone = ranks[first]
print(f"E{mark}1002] failed (exitcode: {gone.returncode}) local_rank: {first} (pid: {gone.pid}) of binary: "
      "/usr/bin/python3", file=sys.stderr, flush=True)
for rank in ranks:
    rank.wait()
sys.exit(1)
"""  # torchrun's own words, of torch 2.13

OLD_WORDS = (
    "E1129 10:00:00.000000 77 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -11) "
    "local_rank: 0 (pid: 99) of binary: /usr/bin/python3\n"
)

Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Start]:
    folder = tmp_path_factory.mktemp("r")
    with cleaned(tmp_path) as runs:

        def make(*options: str, **environ: str) -> Run:
            launcher = tmp_path / "launcher.py"
            launcher.write_text(LAUNCHER, encoding="ascii")
            command = (sys.executable, str(launcher))
            name = f"ended-{folder.stat().st_ino}"
            made = Run(folder, command, "--on-end", "wait", *options, work=tmp_path, name=name, environ=environ)
            runs.append(made)
            until(lambda: sorted(ranks(made)) == [0, 1, 2, 3])
            return made

        yield make


def record(made: Run) -> Record | None:
    return read(made.folder / f"{made.name}.json")


def ranks(made: Run) -> dict[int, int]:
    """Pid by rank, as the supervisor has noted them."""
    found = record(made)
    members = found.life.members if found is not None and found.life is not None else ()
    return {one.rank: one.pid for one in members if one.rank is not None}


def ended(made: Run) -> None:
    until(lambda: made.look().state is GroupState.ENDED)


def collected(made: Run, *more: str, output: str = "bundle") -> tuple[Path, subprocess.CompletedProcess[str]]:
    bundle = made.work / output
    command = [*PROGRAM, "collect", "--output", str(bundle), "--deadline", "4", "--look", "0.5", "--stop-confirmed"]
    whom = more or ("--instance", made.name, "--run-folder", str(made.folder))
    return bundle, subprocess.run([*command, *whom], capture_output=True, text=True, timeout=60, check=False)


def verdict(bundle: Path) -> dict[str, Any]:
    done = subprocess.run(
        [*PROGRAM, "diagnose", str(bundle), "--format", "json"], capture_output=True, text=True, timeout=60, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def statements(found: dict[str, Any]) -> str:
    return "\n".join(one["statement"] for one in found["findings"])


def test_a_killed_rank_is_convicted_by_what_was_left(start: Start, tmp_path: Path) -> None:
    log, evidence = tmp_path / "run.log", tmp_path / "ev"
    evidence.mkdir()
    log.write_text(OLD_WORDS, encoding="ascii")
    made = start("--log", str(log), NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=f"{evidence}/nccl.%h.%p.log")
    pids = ranks(made)
    host = os.uname().nodename.split(".")[0]
    for pid in (
        pids[2],
        999_999_999,
    ):  # of a rank, and of a pid that is nobody's: its file is in the folder all the same
        (evidence / f"nccl.{host}.{pid}.log").write_text(f"{host}:{pid}:{pid} [0] NCCL INFO Bootstrap: Using lo\n")
    foreign = evidence / f"nccl.{host}.{pids[3]}.log"
    foreign.write_text("of an earlier run\n", encoding="ascii")
    os.utime(foreign, (1_700_000_000, 1_700_000_000))
    os.kill(pids[2], signal.SIGKILL)
    ended(made)
    bundle, done = collected(made)
    assert done.returncode == 0, done.stderr
    assert (
        "has ended, as its supervisor has written down: its command ended by itself, with exit status 1" in done.stderr
    )
    instance = json.loads((bundle / "instance.json").read_bytes())
    assert instance["world_size"] == 4
    assert instance["incarnation"] == made.look().incarnation
    assert {one["rank"]: one["pid"] for one in instance["processes"]} == pids
    assert {one["state"] for one in instance["processes"]} == {"X"}
    assert (bundle / "logs" / "run.log").read_text(encoding="ascii").count("failed (exitcode") == 1
    assert (bundle / "nccl" / f"nccl.{host}.{pids[2]}.log").exists()
    assert not (bundle / "nccl" / foreign.name).exists()
    found = verdict(bundle)
    assert (found["class"], found["subclass"]) == ("process_or_device_lost", "killed")
    assert [(one["rank"], one["pid"]) for one in found["suspects"] if one["role"] == "culprit"] == [(2, pids[2])]
    assert "exit code 1" in statements(found)


def test_a_launcher_that_is_killed_is_lost_and_its_ranks_are_not_to_blame(start: Start, tmp_path: Path) -> None:
    made = start("--log", str(tmp_path / "run.log"))
    pids = ranks(made)
    found = record(made)
    assert found is not None
    assert found.launcher is not None
    os.kill(found.launcher.pid, signal.SIGKILL)
    ended(made)
    bundle, done = collected(made, "--pid", str(pids[1]), "--run-folder", str(made.folder))  # by one it had
    assert done.returncode == 0, done.stderr
    said = verdict(bundle)
    assert (said["class"], said["subclass"]) == ("process_or_device_lost", "killed")
    assert [one for one in said["suspects"] if one["role"] in ("culprit", "suspect")] == []
    assert "ended by itself: SIGKILL; 4 processes of it lived on and were ended for it" in statements(said)


def test_who_asked_for_the_end_is_told_and_nobody_is_accused(start: Start, tmp_path: Path) -> None:
    made = start("--log", str(tmp_path / "run.log"))
    made.client.terminate(made.running().incarnation, "i7/terminate/group", Deadline.after(SECONDS))
    bundle, done = collected(made)
    assert done.returncode == 0, done.stderr
    said = verdict(bundle)
    assert said["class"] == "inconclusive"
    assert said["suspects"] == []
    assert "whoever asked for i7/terminate/group" in statements(said)


def test_without_a_log_nothing_can_be_read_again_and_that_is_said(start: Start) -> None:
    made = start(environ_of_nobody="1")
    # its output goes to the file that the test gave it, which has no name any more
    os.kill(ranks(made)[2], signal.SIGKILL)
    ended(made)
    bundle, done = collected(made)
    assert done.returncode == 0, done.stderr
    assert "`rankmuster run --log FILE` keeps a launcher's last words" in done.stderr
    said = verdict(bundle)
    assert said["class"] == "inconclusive"
    assert "what it wrote is in no file" in statements(said)


def test_of_a_group_that_is_partly_gone_the_gone_are_told_too(start: Start, tmp_path: Path) -> None:
    made = start("--log", str(tmp_path / "run.log"), "--grace", "60")
    pids = ranks(made)
    found = record(made)
    assert found is not None
    assert found.launcher is not None
    os.kill(found.launcher.pid, signal.SIGSTOP)  # it will not see that one is gone
    os.kill(pids[1], signal.SIGKILL)
    until(lambda: made.look().pids and _gone(made, pids[1]))
    bundle, done = collected(made)
    assert done.returncode == 0, done.stderr
    instance = json.loads((bundle / "instance.json").read_bytes())
    assert {one["rank"]: one["pid"] for one in instance["processes"]} == pids
    states = {one["rank"]: one["state"] for one in instance["processes"]}
    assert states[1] in ("X", "Z")
    assert {states[0], states[2], states[3]} <= {"S", "R"}


def _gone(made: Run, pid: int) -> bool:
    found = record(made)
    members = found.life.members if found is not None and found.life is not None else ()
    return any(one.pid == pid and one.gone is not None for one in members)


def test_a_record_that_cannot_be_used_leaves_the_nodes_facts(tmp_path: Path) -> None:
    (tmp_path / "llm-x.json").write_text("garbage", encoding="ascii")
    bundle = tmp_path / "bundle"
    command = [*PROGRAM, "collect", "--output", str(bundle), "--deadline", "3", "--look", "0.5"]
    whom = ["--instance", "llm-x", "--run-folder", str(tmp_path)]
    done = subprocess.run([*command, *whom], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "llm-x.json cannot be used" in done.stderr
