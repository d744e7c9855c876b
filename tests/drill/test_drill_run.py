from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from drill_helpers import FAKE_RANK, ended
from stub_collect import stub_collect

from rankmuster.drill.__main__ import main
from rankmuster.drill.faults import fault_named
from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import Backend
from rankmuster.drill.run import Order, StepFailed, diagnose_by_command, run
from rankmuster.drill.surroundings import surroundings


def order(fault: str, how: str = "serve", **more: Any) -> Order:
    given: dict[str, Any] = {"extra": {"FAKE": how}, "worker": FAKE_RANK, "settle_seconds": 0.0, **more}
    return Order(fault_named(fault), Backend.GLOO, 3, **given)


class Taken:
    """Collects nothing, and remembers of whom."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def __call__(self, job: DrillJob, output: Path) -> Path:
        output.mkdir()
        self.pids += job.pids.values()
        return output


def names_rank_1(bundle: Path) -> dict[str, Any]:
    return {
        "class": "collective_desync",
        "subclass": "missing_enter",
        "suspects": [{"rank": 1, "role": "culprit"}],
    }


def test_a_drill_is_right_when_the_verdict_is_and_leaves_no_process(tmp_path: Path) -> None:
    taken = Taken()
    (result,) = run(order("stop"), {"": taken}, tmp_path / "stop", diagnose=names_rank_1)
    assert result.right, result.wrongs
    assert (result.culprit, result.named, result.said) == (1, (1,), "collective_desync: missing_enter")
    assert set(result.seconds) == {"start", "inject", "collect", "diagnose"}
    assert len(taken.pids) == 3
    assert all(ended(pid) for pid in taken.pids)


def test_a_wrong_verdict_is_told(tmp_path: Path) -> None:
    (result,) = run(order("freeze"), {"": Taken()}, tmp_path / "x", diagnose=names_rank_1)
    assert result.wrongs[0] == "class collective_desync, not process_or_device_lost"


def test_every_setting_is_tried_on_one_job(tmp_path: Path) -> None:
    taken = Taken()
    settings = ("ras_risk=never", "ras_risk=always")
    results = run(order("stop"), dict.fromkeys(settings, taken), tmp_path / "x", diagnose=names_rank_1)
    assert [result.setting for result in results] == list(settings)
    assert len(set(taken.pids)) == 3
    assert [Path(result.bundle or "").name for result in results] == list(settings)


def test_a_collect_that_breaks_is_a_wrong_result_and_the_next_is_still_tried(tmp_path: Path) -> None:
    def breaks(job: DrillJob, output: Path) -> Path:
        raise StepFailed("`collect` left nothing")

    broken, fine = run(order("stop"), {"a": breaks, "b": Taken()}, tmp_path / "x", diagnose=names_rank_1)
    assert broken.wrongs == ("collect: `collect` left nothing",)
    assert fine.right


def test_a_job_that_does_not_start_is_a_wrong_result_of_every_setting(tmp_path: Path) -> None:
    results = run(order("stop", how="exit"), {"a": Taken(), "b": Taken()}, tmp_path / "x", diagnose=names_rank_1)
    assert [result.setting for result in results] == ["a", "b"]
    assert all("ended with status 7" in result.wrongs[0] for result in results)


def test_a_collect_that_raises_what_nobody_expects_still_leaves_no_process(tmp_path: Path) -> None:
    pids: list[int] = []

    def bug(job: DrillJob, output: Path) -> Path:
        pids.extend(job.pids.values())
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        run(order("stop"), {"": bug}, tmp_path / "x")
    assert len(pids) == 3
    assert all(ended(pid) for pid in pids)


def test_the_real_diagnosis_reads_what_a_collect_left(tmp_path: Path) -> None:
    (result,) = run(order("none"), {"": stub_collect}, tmp_path / "x")
    assert result.right, result.wrongs
    assert result.said == "healthy"


def test_a_folder_without_evidence_gives_no_verdict_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StepFailed, match=r"exit status 3.*no file in this folder"):
        diagnose_by_command(tmp_path / "empty")


@pytest.mark.parametrize("ras_port", [28128, 30000])
def test_the_ranks_surroundings_let_every_plane_speak(ras_port: int, tmp_path: Path) -> None:
    nccl = surroundings(tmp_path, "llm-0", Backend.NCCL, ras_port)
    assert nccl["NCCL_RAS_ADDR"] == f"localhost:{ras_port}"
    assert "%p" in nccl["NCCL_DEBUG_FILE"]
    gloo = surroundings(tmp_path, "llm-0", Backend.GLOO, ras_port)
    assert not any(name.startswith("NCCL_") for name in gloo)
    for one in (nccl, gloo):
        assert one["RANKMUSTER_INSTANCE"] == "llm-0"
        assert one["TORCH_FR_BUFFER_SIZE"] == one["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gremlin"], "no fault named 'gremlin'"),
        (["graph_stop"], "graph_stop cannot be made with gloo"),
        (["stop", "--ranks", "1"], "rank 0 is not|nobody to wait for"),
        (["stop", "--culprit", "9"], "rank 9 is not in a job of 4"),
        (["stop", "--env", "NCCL_NVLS_ENABLE"], "is not NAME=VALUE"),
        (["stop", "--ras-risk", "sometimes"], "sometimes: there are never, after"),
        (["stop", "--graph"], "CUDA graph"),
    ],
)
def test_bad_usage_starts_nothing(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments, "--output", str(tmp_path / "out")]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(told, said.err)


def test_earlier_results_are_not_mixed_with_new_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.jsonl").write_text("{}")
    assert main(["run", "stop", "--output", str(tmp_path)]) == 3
    assert "is not empty" in capsys.readouterr().err


def test_the_command_runs_faults_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["none", "kill", "--ranks", "2", "--settle", "0.1", "--output", str(tmp_path / "out")]
    status = main(["run", *arguments, "--env", "FAKE=serve"], collect=stub_collect, worker=FAKE_RANK)
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [(line["fault"], line["right"]) for line in lines] == [("none", True), ("kill", True)], lines
    assert status == 0
    assert "2 of 2 named what happened" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["run", "stop"], ["run", "stop", "--ranks", "two", "--output", "x"]]
)
def test_what_cannot_be_parsed_is_bad_usage_too(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 3
    assert "usage: python -m rankmuster.drill" in capsys.readouterr().err
