"""Command lines of the launchers, and what they refuse; the launchers themselves run in test_launch_real.py."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from rankmuster.bench.launch import start
from rankmuster.bench.launch.job import CannotLaunch, Command, Job, Launcher
from rankmuster.bench.launch.mpirun import Mpirun
from rankmuster.bench.launch.slurm import Slurm
from rankmuster.bench.launch.torchrun import Torchrun
from rankmuster.collect.deadline import Deadline

JOB = Job(("bench", "--orders", "{}"), ("a", "b"), 8, 100.0, (("NCCL_IB_HCA", "=mlx5_0,mlx5_1"),))


def test_mpirun() -> None:
    (command,) = Mpirun(options=("--mca", "x", "y")).commands(JOB)
    assert shlex.join(command.argv) == (
        "mpirun -np 16 --host a:8,b:8 --map-by ppr:8:node --bind-to none --timeout 100 --mca x y "
        "env MASTER_ADDR=a MASTER_PORT=29500 NCCL_IB_HCA==mlx5_0,mlx5_1 bench --orders '{}'"
    )


def test_srun_finds_rank_0_by_the_steps_nodes_unless_told() -> None:
    (command,) = Slurm(options=("--gpus-per-node=8",), overlap=True).commands(JOB)
    text = shlex.join(command.argv)
    assert text.startswith("srun --nodelist=a,b --time=3 --overlap --nodes=2 --ntasks=16 --ntasks-per-node=8 ")
    assert "--gpus-per-node=8 env MASTER_PORT=29500 NCCL_IB_HCA" in text
    assert "MASTER_ADDR" not in text
    named = Job(JOB.program, JOB.nodes, 8, 100.0, address="10.0.0.1")
    assert "MASTER_ADDR=10.0.0.1" in Slurm().commands(named)[0].argv


def test_programs_of_mpi_get_slurms_mpi() -> None:
    job = Job(("all_reduce_perf", "-g", "1"), ("a", "b"), 8, 60.0, mpi=True)
    assert "--mpi=pmix" in Slurm().commands(job)[0].argv
    assert not any("MASTER" in word for word in Mpirun().commands(job)[0].argv)
    with pytest.raises(CannotLaunch, match="mpirun or slurm"):
        Torchrun().commands(job)


def test_a_batch_script_is_the_same_job() -> None:
    text = Slurm(options=("--partition=gpu",)).script(JOB)
    assert text.startswith("#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --nodelist=a,b\n")
    assert "#SBATCH --partition=gpu\n" in text
    assert text.splitlines()[-1].startswith("srun ")
    assert text.endswith("'{}'\n")


def test_torchrun_quotes_for_ssh_and_only_for_ssh() -> None:
    first, second = Torchrun(python="/opt/py").commands(JOB)
    assert first.argv[:2] == ("ssh", "-o")
    assert (first.node, second.node) == ("a", "b")
    words = shlex.split(second.argv[-1])
    assert words[:3] == ["env", "NCCL_IB_HCA==mlx5_0,mlx5_1", "/opt/py"]
    assert "--node-rank=1" in words
    assert "--master-addr=a" in words
    assert words[-1] == "{}"
    (pod, _) = Torchrun(remote=("kubectl", "exec", "{node}", "--")).commands(JOB)
    assert pod.argv[:4] == ("kubectl", "exec", "a", "--")
    assert pod.argv[-1] == "{}"


@pytest.mark.parametrize("nodes", [(), ("a", "a"), ("a b",), ("-x",), ("$(reboot)",), ("a;b",)])
def test_what_is_no_list_of_nodes_is_refused(nodes: tuple[str, ...]) -> None:
    with pytest.raises(CannotLaunch):
        Job(("x",), nodes, 1, 1.0)


@pytest.mark.parametrize("launcher", [Mpirun(), Slurm(), Torchrun(), Torchrun(remote=())])
def test_commands_are_the_same_every_time(launcher: Launcher) -> None:
    assert launcher.commands(JOB) == launcher.commands(JOB)


def run(*commands: Command, seconds: float = 20.0) -> tuple[tuple[start.Outcome, ...], dict[int, bytes]]:
    heard: dict[int, bytes] = {}

    def hear(place: int, data: bytes) -> None:
        heard[place] = heard.get(place, b"") + data

    return start.run(commands, environment=dict(os.environ), deadline=Deadline.after(seconds), hear=hear), heard


def python(text: str, node: str | None = None) -> Command:
    return Command((sys.executable, "-c", text), node)


def test_outputs_and_ends_of_all_commands_are_told() -> None:
    outcomes, heard = run(python("print('one')"), python("import sys; sys.exit('no such node')", "b"))
    assert heard == {0: b"one\n", 1: b""}
    assert outcomes[0].story == ""
    assert outcomes[1].story.endswith("for b ended with status 1 (no such node)")


def test_a_program_that_is_not_there_is_said() -> None:
    outcomes, _ = run(Command(("no-such-launcher",)))
    assert outcomes[0].story == "no-such-launcher could not be started (No such file or directory)"


def test_the_time_limit_ends_a_launcher_that_ignores_the_asking() -> None:
    began = time.monotonic()
    outcomes, heard = run(
        python("import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"),
        seconds=1.5,
    )
    assert time.monotonic() - began < 1.5 + start.TERM_SECONDS + 3
    assert outcomes[0].timed_out
    assert outcomes[0].code is None
    assert heard[0] == b"1\n"


def test_what_a_launcher_leaves_behind_with_its_output_holds_nobody_up(tmp_path: Path) -> None:
    began = time.monotonic()
    text = "import subprocess; print(subprocess.Popen(['sleep', '30'], start_new_session=True).pid)"
    outcomes, heard = run(python(text))
    assert time.monotonic() - began < 10
    assert outcomes[0].code == 0
    os.kill(int(heard[0]), 9)


def test_when_one_of_several_fails_the_others_are_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "GRACE_SECONDS", 1.0)
    began = time.monotonic()
    outcomes, _ = run(python("import time; time.sleep(60)"), python("raise SystemExit(3)", "b"))
    assert time.monotonic() - began < 10
    assert [outcome.code for outcome in outcomes] == [None, 3]
    assert not outcomes[0].timed_out
