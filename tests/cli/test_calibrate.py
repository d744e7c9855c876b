"""`rankmuster calibrate` as a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from rankmuster.cli.calibrate import Format, calibrate
from rankmuster.cli.status import CommandError, ExitStatus

CASES = Path(__file__).parents[1] / "cases"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    app = typer.Typer()
    app.command()(calibrate)

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            status = get_command(app).main(args=[str(a) for a in arguments], standalone_mode=False)
        except CommandError as error:
            return int(ExitStatus.NO_ANSWER), "", str(error)
        out = capsys.readouterr()
        return int(status or 0), out.out, out.err

    return run


def case(name: str) -> Path:
    return CASES / name / "input.tar.zst"


@pytest.mark.parametrize("form", list(Format))
def test_a_healthy_bundle_is_exit_status_0(run: Run, form: Format) -> None:
    status, out, _ = run(case("tp2-healthy"), "--format", form.value)
    assert status == 0
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" in out


def test_undecided_settings_are_exit_status_2(run: Run) -> None:
    status, out, _ = run(case("prefill"))
    assert status == ExitStatus.UNDECIDED
    assert "would decide" in out


def test_bundles_are_taken_together_and_written_to_a_file(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    given = (case("prefill"), case("tp2-healthy"))
    status, _, err = run(*given, "--format", "json", "--window", "1", "--output", target)
    assert status == 0
    assert "wrote" in err
    answer = json.loads(target.read_text())
    assert len(answer["bundles"]) == 2
    assert answer["window_seconds"] == 1.0


@pytest.mark.parametrize("content", [None, "", "nothing of use\n"])
def test_nothing_usable_is_exit_status_3(run: Run, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "words.txt").write_text(content)
    status, _, err = run(tmp_path)
    assert status == ExitStatus.NO_ANSWER
    assert str(tmp_path) in err


@pytest.mark.parametrize("given", ["", "/no/such/bundle"])
def test_a_bundle_that_is_not_there_is_exit_status_3(run: Run, given: str) -> None:
    assert run(given)[0] == ExitStatus.NO_ANSWER


def test_a_version_that_is_none_is_told(run: Run) -> None:
    assert "--torch" in run(case("tp2-healthy"), "--torch", "new")[2]
