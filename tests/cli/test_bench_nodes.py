"""`bench nodes` on the command line: plans, scripts, and outputs that were kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from rankmuster.bench.builtin.frames import lines_of
from rankmuster.cli.bench_nodes import nodes
from rankmuster.cli.status import CommandError

APP = typer.Typer()
APP.command()(nodes)


def run(*words: str) -> int:
    return int(APP(list(words), standalone_mode=False))


def output(rank: int, *, done: bool = True) -> str:
    """As two ranks on two nodes speak, with what a launcher puts around it."""
    row = {
        "kind": "row",
        "operation": "all_reduce",
        "size": 1 << 24,
        "moved": 1 << 24,
        "dtype": "bfloat16",
        "in_place": False,
        "graph": False,
        "time_us": 400.0,
        "wrong": 0,
        "iterations_us": [401.0, 402.0],
        "ranks_us": [400.0, 401.0],
    }
    said: list[dict[str, object]] = [
        {"kind": "started", "host": f"n{rank}", "pid": 7, "ranks": 2, "launcher": "torchrun", "time": 1e9},
        *([{"kind": "plan", "cells": ["all_reduce"], "left_out": []}, row] if rank == 0 else []),
        *([{"kind": "done"}] if done else []),
    ]
    lines = [line for number, one in enumerate(said) for line in lines_of(rank, number, json.dumps(one))]
    return "W1130 torch: a warning\n" + "".join(f"[default{rank}]:{line}" for line in lines)


def test_outputs_of_all_nodes_are_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        (tmp_path / f"{rank}").write_text(output(rank))
    given = ["--results", str(tmp_path / "0"), "--results", str(tmp_path / "1"), "--format", "json"]
    assert run(*given) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["state"] == "complete"
    assert [rank["host"] for rank in said["ranks"]] == ["n0", "n1"]
    assert said["started_at"] == 1e9
    assert said["measurements"][0]["busbw"] == pytest.approx(41.943, abs=0.001)


def test_an_output_that_is_missing_or_cut_is_no_complete_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0").write_text(output(0))
    assert run("--results", str(tmp_path / "0")) == 1
    (tmp_path / "1").write_text(output(1, done=False))
    assert run("--results", str(tmp_path / "0"), "--results", str(tmp_path / "1")) == 1
    assert "incomplete" in capsys.readouterr().out


def test_plans_and_scripts_start_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--nodes", "a,b", "--gpus-per-node", "8", "--env", "NCCL_NVLS_ENABLE=0"]
    assert run(*given, "--launcher", "torchrun", "--remote", "", "--plan-only") == 0
    text = capsys.readouterr().out
    assert text.count("torch.distributed.run --nnodes=2 --nproc-per-node=8") == 2
    assert '["NCCL_NVLS_ENABLE","0"]' in text
    assert run(*given, "--launcher", "slurm", "--script") == 0
    assert capsys.readouterr().out.startswith("#!/bin/sh\n#SBATCH --nodes=2\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "a,b"], "--launcher"),
        (["--launcher", "slurm"], "nodes"),
        (["--nodes", "a,b", "--launcher", "mpirun", "--script"], "slurm's"),
        (["--nodes", "a,b", "--launcher", "slurm", "--tool", "nccl-tests", "--plan-only"], "built-in benchmark"),
        (["--results", "/no/such/file"], "cannot read"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)


def test_an_output_without_ranks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing of ours\n")
    with pytest.raises(CommandError, match="no rank"):
        run("--results", str(tmp_path / "x"))
