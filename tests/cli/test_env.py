"""`rankmuster env print` and `env check` as commands: options, formats, exit statuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from rankmuster.cli.env import CheckFormat, Format, env_app
from rankmuster.cli.status import CommandError, ExitStatus

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            status = get_command(env_app).main(args=[str(a) for a in arguments], standalone_mode=False)
        except CommandError as error:
            return int(ExitStatus.NO_ANSWER), "", str(error)
        out = capsys.readouterr()
        return int(status or 0), out.out, out.err

    return run


def test_without_anything_the_steady_profile_is_printed(run: Run) -> None:
    status, out, err = run("print")
    assert status == 0
    assert "profile steady" in out
    assert err.count("is assumed") == 2


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize("profile", ["steady", "preprod", "incident"])
def test_what_is_printed_passes_the_check(run: Run, tmp_path: Path, profile: str, form: Format) -> None:
    target = tmp_path / "printed"
    versions = ("--torch", "2.11", "--nccl", "2.28.9")
    arguments = ("--profile", profile, "--instance", "llm-0", "--incarnation", "7", "--engine", "vllm")
    status, out, err = run("print", *arguments, *versions, "--format", form.value, "--output", target)
    assert (status, out) == (0, "")
    assert "wrote" in err
    status, out, _ = run("check", "--file", target, *versions, "--engine", "vllm", "--format", "json")
    assert status == 0, out
    answer = json.loads(out)
    assert answer["schema"] == "rankmuster.env-check/1"
    assert answer["environments"][0]["settings"]["RANKMUSTER_INSTANCE"] == "llm-0"


def test_yaml_takes_the_incarnation_from_the_pod(run: Run) -> None:
    _, out, _ = run("print", "--torch", "2.11", "--nccl", "2.28.9", "--format", "yaml")
    listed = {item["name"]: item for item in yaml.safe_load(out)["env"]}
    assert "valueFrom" in listed["POD_UID"]
    assert "$(POD_UID)" in listed["TORCH_FR_DUMP_TEMP_FILE"]["value"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--torch", "new"), "--torch"),
        (("--nccl", "x"), "--nccl"),
        (("--class", "hung"), "link_error"),
        (("--folder", "logs"), "not absolute"),
        (("--instance", ""), "--instance"),
        (("--instance", "a\nb"), "--instance"),
        (("--incarnation", "x" * 300), "--incarnation"),
        (("--window", "5", "--buffer", "100"), "--window"),
    ],
)
def test_bad_usage_is_told(run: Run, arguments: tuple[str, ...], words: str) -> None:
    status, _, err = run("print", *arguments)
    assert status == ExitStatus.NO_ANSWER
    assert words in err


def test_contradictions_are_exit_status_1(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("export NCCL_DEBUG=TRACE\nexport HF_TOKEN=planted\n")
    status, out, _ = run("check", "--file", file, "--torch", "2.11", "--nccl", "2.28.9")
    assert status == ExitStatus.FAULT
    assert "trace_left_on" in out
    assert "fix:" in out
    assert "planted" not in out


def test_a_running_process_is_checked(run: Run) -> None:
    status, out, _ = run("check", "--pid", os.getpid())
    assert status in (0, 1)
    assert f"process {os.getpid()}" in out


@pytest.mark.parametrize("form", list(CheckFormat))
def test_nothing_to_read_is_exit_status_3(run: Run, tmp_path: Path, form: CheckFormat) -> None:
    for arguments in (("--file", tmp_path / "absent"), ("--pid", 2**31 - 1), ()):
        status, _, err = run("check", *arguments, "--format", form.value)
        assert status == ExitStatus.NO_ANSWER
        assert err


def test_several_files_are_checked_together(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("TORCH_FR_DUMP_TEMP_FILE=/e/llm/rank_\n")
    _, out, _ = run("check", "--file", tmp_path / "a", "--file", tmp_path / "b", "--torch", "2.11", "--nccl", "2.28.9")
    assert "same_prefix" in out
