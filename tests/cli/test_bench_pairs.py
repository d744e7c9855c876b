"""`bench pairs` on the command line: plans, judging results of before, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from rankmuster.baseline.pairs import PairResult
from rankmuster.baseline.pairs_file import as_line
from rankmuster.cli.bench_pairs import pairs
from rankmuster.cli.status import CommandError

APP = typer.Typer()
APP.command()(pairs)


def run(*words: str) -> int:
    return int(APP(list(words), standalone_mode=False))


def lines(path: Path, *results: PairResult) -> str:
    path.write_text("".join(map(as_line, results)))
    return str(path)


def test_a_plan_starts_nothing_and_prints_what_it_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("--nodes", "a,b,c,d", "--launcher", "mpirun", "--plan-only", "--rail", "0=mlx5_0", "--rail", "1=mlx5_1")
        == 0
    )
    text = capsys.readouterr().out
    assert "# the next round of rail 1: 2 pairs at the same time" in text
    assert text.count("--host a:1,d:1") == 2
    assert text.count("29501") == 2  # a port for each pair of a round
    assert "=mlx5_1" in text


def test_a_plan_goes_on_from_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = lines(tmp_path / "r", PairResult("a", "d", 100.0), PairResult("b", "c", 350.0))
    assert run("--nodes", "a,b,c,d", "--launcher", "slurm", "--plan-only", "--results", known) == 0
    text = capsys.readouterr().out
    assert "--nodelist=a,b " in text
    assert "--nodelist=d,c " in text


@pytest.mark.parametrize(
    ("values", "status", "said"),
    [
        ((350.0, 351.0, 349.0), 2, "good: a, b, c"),
        ((100.0, 350.0, 101.0), 1, "BAD a: 100 GB/s with b; 101 GB/s with c; "),
        ((100.0, 100.0, 100.0), 2, "what slows all of them alike is not seen"),
    ],
)
def test_results_of_before_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: tuple[float, ...], status: int, said: str
) -> None:
    named = zip((("a", "b"), ("b", "c"), ("a", "c")), values, strict=True)
    known = lines(tmp_path / "r", *(PairResult(*pair, value) for pair, value in named))
    assert run("--nodes", "a,b,c", "--results", known) == status
    assert said in capsys.readouterr().out


def test_all_alike_and_above_a_floor_is_good(tmp_path: Path) -> None:
    known = lines(tmp_path / "r", PairResult("a", "b", 350.0), PairResult("b", "c", 351.0))
    assert run("--nodes", "a,b,c", "--results", known, "--floor", "300") == 0


def test_a_pair_that_hung_is_not_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hung = PairResult("a", "b", None, "hung: did not end within 300 s")
    assert run("--nodes", "a,b", "--results", lines(tmp_path / "r", hung)) == 1
    assert "HUNG a - b" in capsys.readouterr().out


def test_of_two_nodes_it_cannot_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = lines(tmp_path / "r", PairResult("a", "b", 100.0))
    assert run("--nodes", "a,b", "--results", known, "--floor", "300") == 2
    assert "measure each with a third" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "a"], "two nodes at least"),
        (["--nodes", "a,a"], "twice"),
        (["--nodes", "a,b"], "nothing to judge"),
        (["--nodes", "a,b", "--plan-only"], "--launcher"),
        (["--nodes", "a,b;reboot", "--launcher", "slurm", "--plan-only"], "no name of a node"),
        (["--nodes", "a,b", "--launcher", "slurm", "--remote", "x"], "torchrun's"),
        (["--nodes", "a,b", "--launcher", "torchrun", "--launcher-option", "x"], "takes none"),
        (["--nodes", "a,b", "--launcher", "mpirun", "--overlap"], "slurm's"),
        (["--nodes", "a,b", "--launcher", "slurm", "--rail", "mlx5_0"], "GPU=NIC"),
        (["--nodes", "a,b", "--launcher", "slurm", "--rail", "0=x", "--gpus-per-node", "8"], "one GPU per node"),
        (["--nodes", "a,b", "--launcher", "slurm", "--env", "X"], "NAME=VALUE"),
        (["--nodes", "a,b", "--results", "/no/such/file"], "cannot read /no/such/file"),
        (["--nodes", "a,b", "--launcher", "slurm", "--plan-only", "--profile", "nonsense"], "nonsense"),
        (["--nodes", "a,b", "--launcher", "torchrun", "--tool", "nccl-tests", "--plan-only"], "built-in benchmark's"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)


def test_results_of_other_nodes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="does not name"):
        run("--nodes", "a,b", "--results", lines(tmp_path / "r", PairResult("a", "x", 1.0)))


def test_a_launcher_that_is_not_there_accuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="could not be started"):
        run("--nodes", "a,b", "--launcher", "mpirun")
