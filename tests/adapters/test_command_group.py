"""A process group behind the operator's own commands: real scripts that work, hang, fail, lie and print garbage."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rankmuster.adapters.command_group import CommandGroup
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, GroupState, StartWish
from slurm_cluster import eventually


def soon(seconds: float = 10.0) -> Deadline:
    return Deadline.after(seconds)


def script(folder: Path, name: str, body: str) -> tuple[str, ...]:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncd {folder}\n{body}\n")
    path.chmod(0o755)
    return (str(path),)


LOOK = """if [ -e run ]; then echo '{"state": "running", "incarnation": "'$(cat run)'", "hosts": ["n1"], "pids": [7]}'
else echo '{"state": "ended", "incarnation": "a", "exit_status": 1, "ended_by_itself": true}'; fi"""


def world(folder: Path, **bodies: str) -> CommandGroup:
    """A group that is a file: incarnation `a` runs, and `b` after it."""
    (folder / "run").write_text("a")
    commands = {"terminate": "rm -f run", "start": "cat > call; env > env; echo b > run", "look": LOOK, **bodies}
    made = {name: script(folder, name, body) for name, body in commands.items()}
    return CommandGroup("llm-0", made["terminate"], made["start"], made["look"], elsewhere=True)


def test_a_group_is_ended_and_started(tmp_path: Path) -> None:
    group = world(tmp_path)
    seen = group.look(soon())
    assert (seen.state, seen.incarnation, seen.hosts, seen.pids) == (GroupState.RUNNING, "a", ("n1",), (7,))
    assert group.terminate("a", "op-1", soon()).ending is Ending.DONE
    ended = group.look(soon())
    assert (ended.state, ended.ended_by_itself, ended.exit_status) == (GroupState.ENDED, True, 1)
    wish = StartWish(environment={"NCCL_DEBUG": "INFO"}, avoid=("n1", "n2"), suspect="path_lost")
    started = group.start("a", "op-2", wish, soon())
    assert (started.ending, started.data) == (Ending.DONE, {"incarnation": "b"})
    call = json.loads((tmp_path / "call").read_text())
    assert call.pop("seconds") > 0
    assert call == {
        "schema": "rankmuster.group/1",
        "instance": "llm-0",
        "verb": "start",
        "after": "a",
        "operation": "op-2",
        "environment": {"NCCL_DEBUG": "INFO"},
        "avoid": ["n1", "n2"],
        "suspect": "path_lost",
    }
    given = (tmp_path / "env").read_text().splitlines()
    assert {"NCCL_DEBUG=INFO", "RANKMUSTER_INCIDENT_AVOID=n1,n2", "RANKMUSTER_INCIDENT_OPERATION=op-2"} <= set(given)


def test_another_incarnation_is_not_touched_and_no_second_one_started(tmp_path: Path) -> None:
    group = world(tmp_path)
    assert group.terminate("before", "op", soon()).ending is Ending.DONE
    assert (tmp_path / "run").exists()
    again = group.start("before", "op", StartWish(), soon())
    assert (again.ending, again.data) == (Ending.DONE, {"incarnation": "a", "by_others": True})
    assert group.start("a", "op", StartWish(), soon()).ending is Ending.FAILED
    assert not (tmp_path / "call").exists()


def test_a_command_that_lies_is_not_believed(tmp_path: Path) -> None:
    group = world(tmp_path, terminate="exit 0")
    answer = group.terminate("a", "op", soon(2.0))
    assert answer.ending is Ending.TIMED_OUT
    assert "the group is running, a" in answer.note


def test_a_late_command_is_ended_with_what_it_started(tmp_path: Path) -> None:
    group = world(tmp_path, terminate="trap '' TERM; sleep 600 & echo $! > child; wait; sleep 600")
    begun = time.monotonic()
    answer = group.terminate("a", "op", soon(2.0))
    assert answer.ending is Ending.TIMED_OUT
    assert time.monotonic() - begun < 8.0
    stat = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    eventually(lambda: not stat.exists() or stat.read_text().split()[2] == "Z", "the end of what it started")


@pytest.mark.parametrize(
    ("body", "ending", "words"),
    [
        ("echo no rights >&2; exit 4", Ending.FAILED, "no rights"),
        ("echo token=ghp_0123456789abcdefghijABCDEFGHIJ012345 >&2; exit 1", Ending.FAILED, "failed to terminate"),
        (
            'echo \'{"ending": "node", "note": "stuck", "data": {"node": "n1", "pids": [9]}}\'; exit 1',
            Ending.NODE,
            "stuck",
        ),
        ('echo \'{"ending": "refused", "note": "not now"}\'', Ending.REFUSED, "not now"),
        ('echo \'{"ending": "perfect"}\'', Ending.FAILED, "no ending"),
        ("yes | head -c 30000000", Ending.FAILED, "more than 1 MiB"),
        ("kill -9 $$", Ending.FAILED, "-9"),
    ],
)
def test_what_a_command_says_of_its_failure(tmp_path: Path, body: str, ending: Ending, words: str) -> None:
    answer = world(tmp_path, terminate=body).terminate("a", "op", soon())
    assert answer.ending is ending, answer
    assert words in answer.note
    assert "ghp_" not in answer.note


@pytest.mark.parametrize(
    "body",
    [
        "exit 3",
        "sleep 60",
        "echo hello",
        "echo '[]'",
        "echo '{}'",
        """echo '{"state": "great"}'""",
        """echo '{"state": "running", "pids": ["x"]}'""",
        """echo '{"state": "running", "at": true}'""",
        """echo '{"state": "running", "incarnation": 7}'""",
        "yes '['| tr -d '\\n' | head -c 500000",
        "head -c 3000000 /dev/zero",
        r"printf '\377\376'",
    ],
)
def test_a_look_that_says_nothing_is_unknown_and_nothing_is_done(tmp_path: Path, body: str) -> None:
    group = world(tmp_path, look=body, terminate="touch told", start="touch told")
    assert group.look(soon(1.0)).state is GroupState.UNKNOWN
    assert group.terminate("a", "op", soon(1.5)).ending is Ending.FAILED
    assert group.start("a", "op", StartWish(), soon(1.5)).ending is Ending.FAILED
    assert not (tmp_path / "told").exists()


def test_without_a_look_what_is_said_stands(tmp_path: Path) -> None:
    group = CommandGroup("llm-0", script(tmp_path, "terminate", "exit 0"), ("/nowhere/start",))
    assert group.look(soon()).state is GroupState.UNKNOWN
    assert group.terminate("a", "op", soon()).ending is Ending.DONE
    assert group.start("a", "op", StartWish(), soon()).ending is Ending.FAILED
    assert group.terminate("a", "op", Deadline.after(0.1)).ending is Ending.TIMED_OUT


def test_arguments_are_not_said(tmp_path: Path) -> None:
    group = CommandGroup("llm-0", ("/bin/stop", "--token", "s3cret"), ("/bin/start",))
    (line,) = group.would("terminate", incarnation="a")
    assert line == "run /bin/stop and 2 arguments, terminate for incarnation a"
    assert group.would("start", wish=StartWish(avoid=("n1",))) == ("run /bin/start, start avoiding n1",)


def test_nothing_is_left_in_the_folder_for_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    os.mkdir(tmp_path / "tmp")
    world(tmp_path).look(soon())
    assert list((tmp_path / "tmp").iterdir()) == []
