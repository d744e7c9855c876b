"""Four gloo ranks of torchrun under `rankmuster run`: what is said afterwards of a killed one, and of another size."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rankmuster.model.incident import GroupState
from rankmuster.supervise.record import read
from supervised_run import Run, cleaned, until

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")

PROGRAM = (sys.executable, "-m", "rankmuster.cli.main")
SLOW = 90.0

RANK = """
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, value = dist.get_rank(), torch.ones(1000)
while True:
    odd = rank == 2 and os.path.exists("odd")
    dist.all_reduce(value[:10] if odd else value)
    value.fill_(1.0)
    open(f"goes{rank}", "w").close()
    time.sleep(0.01)
"""


@pytest.fixture
def group(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("r")
    (tmp_path / "rank.py").write_text(RANK, encoding="ascii")
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", "rank.py")
    with cleaned(tmp_path) as runs:
        made = Run(
            folder, command, "--on-end", "wait", "--log", str(tmp_path / "run.log"), work=tmp_path,
            name=f"torchrun-{folder.stat().st_ino}", environ={"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        runs.append(made)
        until(lambda: all((tmp_path / f"goes{rank}").exists() for rank in range(4)), SLOW)
        until(lambda: sorted(ranks(made)) == [0, 1, 2, 3])
        yield made


def ranks(made: Run) -> dict[int, int]:
    found = read(made.folder / f"{made.name}.json")
    members = found.life.members if found is not None and found.life is not None else ()
    return {one.rank: one.pid for one in members if one.rank is not None}


def verdict_after(made: Run) -> dict[str, Any]:
    until(lambda: made.look().state is GroupState.ENDED, SLOW)
    bundle = made.work / "bundle"
    whom = ["--instance", made.name, "--run-folder", str(made.folder), "--stop-confirmed", "--deadline", "6"]
    done = subprocess.run(
        [*PROGRAM, "collect", "--output", str(bundle), *whom], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        [*PROGRAM, "diagnose", str(bundle), "--format", "json"], capture_output=True, text=True, timeout=60, check=False
    )
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def named(found: dict[str, Any], role: str) -> list[tuple[int, int]]:
    return [(one["rank"], one["pid"]) for one in found["suspects"] if one["role"] == role]


def test_a_killed_rank_is_the_culprit(group: Run) -> None:
    pids = ranks(group)
    os.kill(pids[1], signal.SIGKILL)
    found = verdict_after(group)
    assert (found["class"], found["subclass"]) == ("process_or_device_lost", "killed")
    assert named(found, "culprit") == [(1, pids[1])]


def test_a_rank_that_gives_another_size_is_aborted_and_nobody_is_convicted(group: Run) -> None:
    pids = ranks(group)
    (group.work / "odd").touch()
    found = verdict_after(group)
    assert (found["class"], found["subclass"]) == ("collective_desync", "size_mismatch")
    assert named(found, "culprit") == []
    # its number is known where it lived long enough to be looked at
    assert named(found, "suspect") in ([], [(2, pids[2])], [(2, None)])
