"""The built-in benchmark over nodes with the real launchers: Slurm's srun and sbatch, Open MPI's mpirun, torchrun.

The nodes are this machine, several times: Slurm's with a slurmd each, mpirun's with a remote shell that stays here.
Needs torch, which the tests do without otherwise: `pip install '.[real]'`, and Debian's slurm-wlm and openmpi-bin.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from fake_nccl_tests import install, starts
from rankmuster.bench.builtin.from_output import read_output
from rankmuster.bench.builtin.nodes import job_over_nodes, run_over_nodes
from rankmuster.bench.builtin.orders import Backend
from rankmuster.bench.launch.job import Launcher
from rankmuster.bench.launch.mpirun import Mpirun
from rankmuster.bench.launch.nccl_tests import nccl_tests_over_nodes
from rankmuster.bench.launch.slurm import Slurm
from rankmuster.bench.launch.torchrun import Torchrun
from rankmuster.cli.bench_pairs import pairs
from rankmuster.model.benchmark import BenchmarkRun, Operation, Profile, RunState, Step
from slurm_cluster import Cluster, cluster, eventually, free_port, missing

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

PATIENCE = 90.0
SMALL = Profile(
    "small",
    "",
    (
        Step(Operation.ALL_REDUCE, (65_536,), "float", iterations=3, warmup=1),
        Step(Operation.ALL_TO_ALL, (65_536,), "bfloat16", iterations=3, warmup=1),
    ),
)
LONG = Profile("long", "", (Step(Operation.ALL_REDUCE, (65_536,), "float", iterations=10_000_000),))
HERE = {"GLOO_SOCKET_IFNAME": "lo"}


def over(
    launcher: Launcher,
    nodes: tuple[str, ...],
    *,
    profile: Profile = SMALL,
    each: int = 1,
    limit: float = PATIENCE,
    environment: dict[str, str] | None = None,
) -> BenchmarkRun:
    return run_over_nodes(
        profile,
        nodes,
        launcher,
        ranks_per_node=each,
        environment=HERE,
        time_limit_s=limit,
        python=sys.executable,
        backend=Backend.GLOO,
        address="127.0.0.1",
        port=free_port(),
        here={**os.environ, **(environment or {})},
    )


def whole(run: BenchmarkRun, ranks: int) -> None:
    assert run.state is RunState.COMPLETE, run.reason
    assert [rank.rank for rank in run.ranks] == list(range(ranks))
    assert [row.cell.operation for row in run.measurements] == [Operation.ALL_REDUCE, Operation.ALL_TO_ALL]
    assert all(row.wrong == 0 and len(row.ranks_us) == ranks for row in run.measurements)


def test_torchrun_on_two_nodes() -> None:
    whole(over(Torchrun(remote=(), python=sys.executable), ("a", "b"), each=2), 4)


def test_torchrun_says_which_node_did_not_start(tmp_path: Path) -> None:
    shell = tmp_path / "remote"
    shell.write_text(
        '#!/bin/sh\nnode=$1; shift\n[ "$node" = b ] && { echo "no route to b" >&2; exit 255; }\nexec "$@"\n'
    )
    shell.chmod(0o755)
    began = time.monotonic()
    run = over(Torchrun(remote=(str(shell), "{node}"), python=sys.executable), ("a", "b"))
    assert time.monotonic() - began < 30.0
    assert run.state is RunState.ERROR
    assert run.reason.startswith("no rank of b started")
    assert "for b ended with status 255 (no route to b)" in run.reason


@pytest.fixture
def mpirun(tmp_path: Path) -> Iterator[Mpirun]:
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun to test with (Debian's openmpi-bin)")
    with tempfile.TemporaryDirectory(prefix="mpi") as short:  # sockets' paths have 107 characters at most
        yield _mpirun(tmp_path, short)


def _mpirun(tmp_path: Path, short: str) -> Mpirun:
    shell = tmp_path / "shell"
    # daemons of one machine would share their folders in /tmp, and trip over each other in them
    shell.write_text(
        f'#!/bin/sh\nexport TMPDIR={short}/$1 PMIX_MCA_gds=hash\nmkdir -p "$TMPDIR"\nshift\nexec sh -c "$*"\n'
    )
    shell.chmod(0o755)
    local = ("--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo")
    return Mpirun(options=("--mca", "plm_rsh_agent", str(shell), *local), as_root=os.geteuid() == 0)


def test_mpirun_on_two_nodes(mpirun: Mpirun) -> None:
    whole(over(mpirun, ("n1", "n2")), 2)


def test_what_hangs_under_mpirun_ends_at_the_limit(mpirun: Mpirun) -> None:
    began = time.monotonic()
    run = over(mpirun, ("n1", "n2"), profile=LONG, limit=12.0)
    assert time.monotonic() - began < 25.0
    assert run.state is RunState.HUNG
    assert "all_reduce of 65536 bytes" in run.reason
    eventually(lambda: not ranks_running(), "the end of all ranks")


def test_nccl_tests_under_mpirun(mpirun: Mpirun, tmp_path: Path) -> None:
    """The program stands in for an MPI build: one table, of rank 0."""
    real, folder = install(tmp_path / "real"), tmp_path / "bin"
    folder.mkdir()
    program = folder / "all_reduce_perf"
    program.write_text(
        f'#!/bin/sh\n[ "${{OMPI_COMM_WORLD_RANK:-0}}" = 0 ] && exec {real}/all_reduce_perf "$@"\nexit 0\n'
    )
    program.chmod(0o755)
    run = nccl_tests_over_nodes(
        Profile("one", "", (Step(Operation.ALL_REDUCE, (1 << 20, 1 << 22), iterations=3),)),
        ("n1", "n2"),
        mpirun,
        ranks_per_node=2,
        environment={"NCCL_IB_HCA": "=mlx5_0,mlx5_1"},
        time_limit_s=PATIENCE,
        folder=folder,
        keep=tmp_path / "kept",
    )
    assert run.state is RunState.COMPLETE, (run.reason, *(path.read_text() for path in tmp_path.glob("kept/*.txt")))
    assert [row.cell.size_bytes for row in run.measurements] == [1 << 20, 1 << 22]
    ((_, given, seen),) = [one for one in starts(real) if "-h" not in one[1]]
    assert given[given.index("-g") + 1] == "1"
    assert seen["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    if missing():
        pytest.skip(missing())
    with cluster(("n1", "n2", "n3"), cpus=2) as made:
        yield made


def test_srun_on_two_nodes_with_two_ranks_each(slurm: Cluster) -> None:
    run = over(Slurm(), ("n1", "n2"), each=2, environment=slurm.environment)
    whole(run, 4)
    assert [rank.host for rank in run.ranks] == ["n1", "n1", "n2", "n2"]


def test_a_rank_killed_under_srun_is_an_error_that_names_it(slurm: Cluster) -> None:
    def kill_one() -> None:
        eventually(lambda: len(ranks_running()) == 2, "two ranks", PATIENCE)
        time.sleep(6)  # they import torch and begin
        os.kill(ranks_running()[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    run = over(Slurm(), ("n1", "n2"), profile=LONG, environment=slurm.environment)
    killer.join()
    assert run.state is RunState.ERROR
    assert "srun ended with status" in run.reason
    assert run.reason.startswith("without a last word: rank")


def test_what_hangs_under_srun_ends_at_the_limit(slurm: Cluster) -> None:
    run = over(Slurm(), ("n1", "n2"), profile=LONG, limit=12.0, environment=slurm.environment)
    assert run.state is RunState.HUNG
    eventually(lambda: not ranks_running(), "the end of all ranks")
    eventually(lambda: not slurm.ask("squeue", "--noheader").strip(), "the end of the job")


def test_sbatch_runs_the_script(slurm: Cluster, tmp_path: Path) -> None:
    job = job_over_nodes(
        SMALL,
        ("n1", "n2"),
        ranks_per_node=1,
        environment=HERE,
        time_limit_s=PATIENCE,
        python=sys.executable,
        backend=Backend.GLOO,
        address="127.0.0.1",
        port=free_port(),
    )
    script, output = tmp_path / "job.sh", tmp_path / "output.txt"
    script.write_text(Slurm().script(job))
    slurm.ask("sbatch", "--wait", f"--output={output}", str(script), seconds=PATIENCE)
    whole(read_output([output.read_bytes()], "the output"), 2)
    cut = read_output([output.read_bytes()[:-2000]], "the output")
    assert cut.state is RunState.INCOMPLETE


def test_pairs_of_slurm_nodes(
    slurm: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_CONF",):
        monkeypatch.setenv(name, slurm.environment[name])
    profile = tmp_path / "small.yaml"
    profile.write_text(
        "schema: rankmuster.profile/1\nname: small\nsteps:\n"
        "  - {operation: all_reduce, sizes: [64 KiB], iterations: 3, warmup: 1}\n"
    )
    app = typer.Typer()
    app.command()(pairs)
    given = ["--nodes", "n1,n2,n3", "--launcher", "slurm", "--backend", "gloo", "--address", "127.0.0.1"]
    more = ["--python", sys.executable, "--profile", str(profile), "--env", "GLOO_SOCKET_IFNAME=lo"]
    saved = tmp_path / "pairs.jsonl"
    # any bandwidth will do: a small machine's gloo says nothing of its nodes
    any_will_do = ["--floor", "0.001", "--tolerance", "0.999"]
    status = app([*given, *more, *any_will_do, "--save", str(saved), "--port", str(free_port())], standalone_mode=False)
    assert status == 0
    assert "good: n1, n2, n3" in capfd.readouterr().out
    assert len(saved.read_text().splitlines()) == 2
    again = ["--nodes", "n1,n2,n3", "--results", str(saved), "--floor", "1000000"]
    assert app(again, standalone_mode=False) == 2
    assert "no pair was fast" in capfd.readouterr().out


def ranks_running() -> list[int]:
    """Pids of ranks, whoever started them; launchers have the same words on their command lines, but not in front."""
    found = subprocess.run(
        ["pgrep", "-f", "^[^ ]*python[^ ]* -m rankmuster.bench.builtin"], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]
