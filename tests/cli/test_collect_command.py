"""`rankmuster collect`, run as an operator runs it: against real processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))

from small_instance import Small, small_instance

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def manifest(bundle: Path) -> dict[str, Any]:
    found = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def parts(folder: Path) -> list[str]:
    """What is left of collections that did not come to an end."""
    return [path.name for path in folder.iterdir() if ".part" in path.name]


def begun(folder: Path) -> list[Path]:
    """The folder of a collection that has found its instance."""
    return [path for path in folder.glob("*bundle*.part") if (path / "instance.json").exists()]


def options(instance: Small, output: Path, *more: str) -> list[str]:
    return [
        "collect",
        "--instance",
        instance.name,
        "--output",
        str(output),
        "--metrics-url",
        instance.url,
        "--look",
        "0.5",
        "--deadline",
        "20",
        "--no-stacks",
        *more,
    ]


def test_a_live_instance_is_saved_and_diagnosed(command: Command, tmp_path: Path) -> None:
    with small_instance() as instance:
        done = command(*options(instance, tmp_path / "bundle"))
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{tmp_path / 'bundle'}\n"
        pids = instance.pids
    facts = json.loads((tmp_path / "bundle" / "instance.json").read_text(encoding="utf-8"))
    assert facts["instance"] == instance.name
    assert [(process["rank"], process["pid"]) for process in facts["processes"]] == list(enumerate(pids))
    document = manifest(tmp_path / "bundle")
    assert document["schema"] == "rankmuster.bundle/1"
    assert document["collectors"]["engine"]["outcome"] == "done"
    assert document["collectors"]["flight"]["outcome"] in ("nothing", "declined", "partial", "failed")
    assert command("bundle", "verify", tmp_path / "bundle").returncode == 0
    verdict = json.loads(command("diagnose", tmp_path / "bundle", "--format", "json").stdout)
    assert (verdict["class"], verdict["progress"]) == ("healthy", "advancing")
    assert parts(tmp_path) == []


def test_a_healthy_instance_is_not_asked_to_dump(command: Command, tmp_path: Path) -> None:
    pipes = tmp_path / "pipes"
    pipes.mkdir()
    os.mkfifo(pipes / "rank_0.pipe")
    reader = os.open(pipes / "rank_0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with small_instance(1, environ={"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{pipes}/rank_"}) as instance:
            done = command(*options(instance, tmp_path / "bundle"))
        assert done.returncode == 0, done.stderr
        assert os.read(reader, 1) == b""  # nobody wrote to it
    finally:
        os.close(reader)
    assert manifest(tmp_path / "bundle")["collectors"]["flight"]["outcome"] == "declined"


@pytest.mark.parametrize("seconds", [5, 8])
def test_a_short_deadline_leaves_a_healthy_instance_alone_too(command: Command, tmp_path: Path, seconds: int) -> None:
    pipes = tmp_path / "pipes"
    pipes.mkdir()
    os.mkfifo(pipes / "rank_0.pipe")
    reader = os.open(pipes / "rank_0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with small_instance(1, environ={"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{pipes}/rank_"}) as instance:
            place = ["--instance", instance.name, "--output", str(tmp_path / "bundle"), "--metrics-url", instance.url]
            done = command("collect", *place, "--deadline", str(seconds))
        assert done.returncode == 0, done.stderr
        assert os.read(reader, 1) == b""  # nobody wrote to it
    finally:
        os.close(reader)
    outcomes = manifest(tmp_path / "bundle")["collectors"]
    assert outcomes["stacks"]["outcome"] == "declined", outcomes
    assert outcomes["flight"]["outcome"] == "declined", outcomes


def test_a_password_in_the_page_s_address_is_not_told(command: Command, tmp_path: Path) -> None:
    with small_instance(1) as instance:
        address = instance.url.replace("http://", "http://user:hunter2@") + "?token=hunter3"
        named = ["--instance", instance.name, "--output", str(tmp_path / "bundle"), "--metrics-url", address]
        done = command("collect", *named, "--look", "0.5", "--deadline", "5")
    assert done.returncode == 0, done.stderr
    assert "hunter" not in done.stderr
    assert "hunter" not in (tmp_path / "bundle" / "manifest.json").read_text(encoding="utf-8")


def test_what_nobody_calls_an_instance_leaves_the_nodes_own_facts(command: Command, tmp_path: Path) -> None:
    name = f"none-{uuid.uuid4().hex}"
    done = command("collect", "--instance", name, "--output", tmp_path / "bundle", "--look", "0.5")
    assert done.returncode == 2
    assert f"no {name} was found" in done.stderr
    assert "only what the node itself says was saved" in done.stderr
    assert manifest(tmp_path / "bundle")["instance"] is None
    assert command("bundle", "verify", tmp_path / "bundle").returncode == 0


def test_a_pid_that_does_not_exist_is_said_so(command: Command, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = command("collect", "--pid", gone.pid, "--output", tmp_path / "bundle", "--look", "0.5")
    assert done.returncode == 2
    assert f"there is no process {gone.pid}" in done.stderr


def test_two_instances_are_told_apart_and_none_is_guessed(command: Command, tmp_path: Path) -> None:
    with small_instance() as one, small_instance() as other:
        both = ["collect", "--pid", str(one.pids[0]), "--pid", str(other.pids[0]), "--output", str(tmp_path / "bundle")]
        done = command(*both)
        assert done.returncode == 3
        assert one.name in done.stderr
        assert other.name in done.stderr
        assert "--instance NAME or --pid PID" in done.stderr
        assert not (tmp_path / "bundle").exists()
        assert parts(tmp_path) == []
        alone = command(
            "collect", "--pid", one.pids[1], "--output", tmp_path / "bundle", "--look", "0.5", "--no-stacks"
        )
    assert alone.returncode == 0
    assert manifest(tmp_path / "bundle")["instance"]["name"] == one.name


def test_an_output_that_exists_is_never_written_over(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "precious").write_text("kept")
    done = command("collect", "--output", tmp_path / "bundle")
    assert done.returncode == 3
    assert "exists" in done.stderr
    assert [path.name for path in (tmp_path / "bundle").iterdir()] == ["precious"]


def test_a_process_that_ends_midway_is_in_the_manifest(command: Command, program: Path, tmp_path: Path) -> None:
    with small_instance(3) as instance:
        running = subprocess.Popen(
            [program, *options(instance, tmp_path / "bundle", "--look", "2")], stderr=subprocess.PIPE, text=True
        )
        folder = wait_for(lambda: begun(tmp_path))
        assert folder
        instance.ranks[1].send_signal(signal.SIGKILL)
        _, stderr = running.communicate(timeout=60)
        assert running.returncode == 0, stderr
        pid = instance.pids[1]
    assert f"pid {pid} (rank 1" in " ".join(manifest(tmp_path / "bundle")["notes"])
    facts = json.loads((tmp_path / "bundle" / "instance.json").read_text(encoding="utf-8"))
    ended = {process["rank"]: (process["state"], process["exit_code"]) for process in facts["processes"]}
    assert ended[1] == ("Z", -9)  # nobody has collected it yet, so the kernel still knows
    assert ended[0][1] is None


def wait_for(found: Callable[[], list[Path]], seconds: float = 30.0) -> list[Path]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if now := found():
            return now
        time.sleep(0.02)
    return []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_pod_that_is_told_to_end_still_leaves_a_whole_bundle(
    command: Command, program: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with small_instance() as instance:
        running = subprocess.Popen(
            [program, *options(instance, tmp_path / "bundle", "--look", "30", "--deadline", "90")],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert wait_for(lambda: begun(tmp_path))
        running.send_signal(number)
        _, stderr = running.communicate(timeout=60)
    assert running.returncode == 0, stderr
    assert "not ended in time" in stderr
    assert command("bundle", "verify", tmp_path / "bundle").returncode == 0


def test_one_killed_outright_leaves_nothing_that_verifies(command: Command, program: Path, tmp_path: Path) -> None:
    with small_instance() as instance:
        running = subprocess.Popen([program, *options(instance, tmp_path / "bundle", "--look", "30")], stderr=-3)
        (left,) = wait_for(lambda: begun(tmp_path))
        running.kill()
        running.wait()
    assert not (tmp_path / "bundle").exists()
    assert command("bundle", "verify", left).returncode == 1
    assert command("diagnose", left).returncode in (0, 1, 2)


def test_an_archive_is_what_the_folder_would_have_been(command: Command, tmp_path: Path) -> None:
    with small_instance() as instance:
        done = command(*options(instance, tmp_path / "bundle.tar.zst"))
    assert done.returncode == 0, done.stderr
    assert command("bundle", "verify", tmp_path / "bundle.tar.zst").returncode == 0
    verdict = json.loads(command("diagnose", tmp_path / "bundle.tar.zst", "--format", "json").stdout)
    assert verdict["instance"] == instance.name


def test_a_disk_with_little_room_keeps_what_fits_and_says_so_first(
    command: Command, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "rank.log").write_bytes(b"a line of a log\n" * 20_000)
    name = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(tmp_path / "rank.log")}
    with small_instance(environ=name) as instance:
        done = subprocess.run(
            ["bash", "-c", 'ulimit -f 64; exec "$0" "$@"', str(program), *options(instance, tmp_path / "bundle")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    headline = done.stderr.partition("\n  ")[0]
    assert "no room for all that was found" in headline
    assert "--output" in headline
    assert command("bundle", "verify", tmp_path / "bundle").returncode == 0


def test_a_disk_with_no_room_says_so_and_nothing_verifies(command: Command, program: Path, tmp_path: Path) -> None:
    script = 'ulimit -f 0; exec "$0" "$@"'
    with small_instance() as instance:
        done = subprocess.run(
            ["bash", "-c", script, str(program), *options(instance, tmp_path / "bundle")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert "cannot" in done.stderr or "could not" in done.stderr or "no room" in done.stderr
    assert not (tmp_path / "bundle").exists()


def test_an_upload_that_fails_keeps_the_bundle_here(command: Command, tmp_path: Path) -> None:
    with small_instance() as instance:
        done = command(*options(instance, tmp_path / "bundle", "--upload", "nowhere"))
    assert done.returncode == 4
    assert done.stdout == f"{tmp_path / 'bundle'}\n"
    assert "nowhere" in done.stderr
    assert command("bundle", "verify", tmp_path / "bundle").returncode == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ["--deadline", "0"],
        ["--deadline", "nan"],
        ["--look", "0"],
        ["--ras-risk", "sometimes"],
        ["--dumps", "maybe"],
        ["--pid", "x"],
        ["--log-megabytes", "-1"],
    ],
)
def test_bad_usage_begins_nothing(command: Command, tmp_path: Path, wrong: list[str]) -> None:
    done = command("collect", "--output", tmp_path / "bundle", *wrong)
    assert done.returncode == 3
    assert wrong[0] in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_deadline_counts_from_the_start_of_the_program() -> None:
    code = "import time; time.sleep(1); from rankmuster.cli.collect import _seconds_since_start as s; print(s())"
    started = time.monotonic()
    told = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 1.0 <= told <= time.monotonic() - started + 0.02  # a tick of the kernel is 0.01 s
