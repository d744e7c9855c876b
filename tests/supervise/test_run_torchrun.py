"""Four ranks of torchrun as one group: ended whole whatever state they are in, found by `collect`, started anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, GroupState, StartWish
from supervised_run import Run, alive, until

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")

Start = Callable[..., Run]
SLOW = 90.0

RANK = """
import os, signal, sys, time
import torch, torch.distributed as dist
rank = int(os.environ["RANK"])
if rank == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo")
value = torch.ones(8)
step = 0
while True:
    dist.all_reduce(value)
    value /= dist.get_world_size()
    step += 1
    if step == 5:
        open(f"rank{rank}.{os.environ['RANKMUSTER_INCARNATION']}", "w").write(f"{os.getpid()}\\n")
    time.sleep(0.01)
"""


def begun(run: Start, tmp_path: Path) -> Run:
    script = tmp_path / "rank.py"
    script.write_text(RANK, encoding="ascii")
    return run(
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", str(script),
        options=("--on-end", "wait", "--grace", "1"), environ={"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def ranks(made: Run, incarnation: str | None) -> list[int]:
    files = [made.work / f"rank{rank}.{incarnation}" for rank in range(4)]
    until(lambda: all(file.is_file() and file.read_text().endswith("\n") for file in files), SLOW)
    return [int(file.read_text()) for file in files]


def test_the_whole_group_is_ended_and_started_anew(run: Start, tmp_path: Path) -> None:
    made = begun(run, tmp_path)
    first = made.running().incarnation
    pids = ranks(made, first)
    assert set(pids) < set(made.look().pids)

    bundle = tmp_path / "bundle"
    collected = subprocess.run(
        [sys.executable, "-m", "rankmuster.cli.main", "collect", "--instance", made.name, "--output", str(bundle),
         "--deadline", "15", "--dumps", "never", "--no-stacks"],
        capture_output=True, timeout=SLOW, check=False,
    )  # fmt: skip
    assert collected.returncode == 0, collected.stderr.decode()
    said = json.loads((bundle / "instance.json").read_text(encoding="utf-8"))
    assert said["incarnation"] == first
    assert {one["pid"] for one in said["processes"] if one.get("rank") is not None} == set(pids)
    assert made.process.pid not in {one["pid"] for one in said["processes"]}

    os.kill(pids[1], signal.SIGSTOP)
    answer = made.client.terminate(first, "i/terminate/a", Deadline.after(30.0))
    assert answer.ending is Ending.DONE, answer.note
    assert not [pid for pid in pids if alive(pid)]
    wish = StartWish(suspect="collective_desync")
    started = made.client.start(first, "i/start/a", wish, Deadline.after(30.0))
    assert started.ending is Ending.DONE, started.note
    again = ranks(made, started.data["incarnation"])
    assert not set(again) & set(pids)

    # a rank that dies takes the group with it, and the runner is told
    os.kill(again[0], signal.SIGKILL)
    until(lambda: made.look().state is GroupState.ENDED, SLOW)
    seen = made.look()
    assert seen.ended_by_itself
    assert seen.exit_status == 1
    assert not [pid for pid in again if alive(pid)]
