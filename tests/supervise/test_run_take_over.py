"""One supervisor a name, and never two incarnations: also after a supervisor was killed outright."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, GroupState, StartWish
from supervised_run import SECONDS, Run, alive, until

Start = Callable[..., Run]

STUBBORN = (
    "trap '' TERM; (setsid bash -c 'trap \"\" TERM; echo $$ > left; while :; do sleep 9; done' &); echo $$ > mine; "
)
STUBBORN += "while :; do sleep 9; done"


def test_a_second_supervisor_of_one_name_is_refused(run: Start) -> None:
    first = run("sleep", "1000")
    first.running()
    second = run("touch", "second")
    assert second.ended() == 3
    assert b"is alive and holds" in second.err
    assert not (first.work / "second").exists()
    assert first.look().state is GroupState.RUNNING


def test_two_names_do_not_meet(run: Start) -> None:
    first, second = run("sleep", "1000"), run("sleep", "1000", name="other")
    one, other = first.running(), second.running()
    first.client.terminate(one.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert second.look().pids == other.pids


def test_a_killed_supervisors_launcher_is_told_to_end(run: Start) -> None:
    made = run("bash", "-c", "trap 'echo 1 > asked; exit' TERM; echo $$ > mine; while :; do sleep 0.05; done")
    made.pid_of("mine")
    made.running()
    made.process.kill()
    made.pid_of("asked")


def test_the_next_supervisor_ends_what_a_killed_one_left(run: Start) -> None:
    made = run("bash", "-c", STUBBORN)
    mine, left = made.pid_of("mine"), made.pid_of("left")
    before = made.running()
    made.process.kill()
    made.process.wait()
    assert alive(mine)
    assert alive(left)
    check = (
        f'for p in {mine} {left}; do grep -s "^State" /proc/$p/status | grep -vq Z && exit 9; done; echo 1 > alone; '
    )
    following = run("bash", "-c", check + "exec sleep 1000", options=("--grace", "0.2"))
    following.pid_of("alone")
    seen = following.running()
    assert not alive(mine)
    assert not alive(left)
    assert seen.incarnation != before.incarnation
    # what the runner asks of the earlier one is done, and the new one is not touched
    answer = following.client.terminate(before.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE, answer.note
    assert following.look().pids == seen.pids
    started = following.client.start(before.incarnation, "i/start/a", StartWish(), Deadline.after(SECONDS))
    assert started.ending is Ending.DONE
    assert started.data["incarnation"] == seen.incarnation


def test_operations_are_remembered_over_a_restart_of_the_supervisor(run: Start) -> None:
    made = run("sleep", "1000")
    first = made.running()
    made.client.terminate(first.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    answer = made.client.start(first.incarnation, "i/start/a", StartWish(), Deadline.after(SECONDS))
    made.process.kill()
    made.process.wait()
    following = run("sleep", "1000")
    seen = following.running()
    again = following.client.start(first.incarnation, "i/start/a", StartWish(), Deadline.after(SECONDS))
    assert again.ending is Ending.DONE
    assert again.data["incarnation"] == answer.data["incarnation"]
    assert "has ended since" in again.note
    assert following.look().incarnation == seen.incarnation
    assert following.look().pids == seen.pids


def test_a_stale_socket_and_a_broken_record_are_replaced(run: Start, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir(mode=0o700)
    name = f"stale-{folder.stat().st_ino}"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / f"{name}.sock"))
    (folder / f"{name}.json").write_bytes(b"\xff{")
    made = run("sleep", "1000", folder=folder, name=name, exactly=True)
    made.running()
    assert (folder / f"{name}.sock").stat().st_mode & 0o777 == 0o600


def test_processes_of_a_lost_record_are_not_started_beside(run: Start) -> None:
    made = run("bash", "-c", STUBBORN)
    left = made.pid_of("left")
    made.running()
    made.process.kill()
    made.process.wait()
    (made.folder / f"{made.name}.json").unlink()
    following = run("touch", "second")
    assert following.ended() == 125
    assert str(left).encode() in following.err
    assert alive(left)
    assert not (made.work / "second").exists()


def test_a_folder_that_others_can_write_is_refused(run: Start, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    folder.chmod(0o777)
    made = run("true", folder=folder)
    assert made.ended() == 3
    assert b"chmod 700" in made.err


def test_numbers_that_went_to_others_are_not_touched(run: Start) -> None:
    """A record of a pid that is another process's by now: its start tells."""
    made = run("sleep", "1000")
    made.running()
    made.process.kill()
    made.process.wait()
    path = made.folder / f"{made.name}.json"
    text = path.read_text(encoding="ascii")
    until(lambda: not [pid for pid in _sleepers(made.work) if alive(pid)])
    path.write_text(text.replace('"roster":[', f'"roster":[{{"pid":{os.getpid()},"ticks":1}},'), encoding="ascii")
    following = run("sleep", "1000")
    following.running()


def _sleepers(work: Path) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/cwd") == str(work):
                found.append(int(entry))
        except OSError:
            continue
    return found


def test_a_full_disk_does_not_hold_it_up(run: Start, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir(mode=0o700)
    name = f"full-{folder.stat().st_ino}"
    (folder / f".{name}.json.part").symlink_to("/dev/full")
    made = run("sleep", "1000", folder=folder, name=name, exactly=True)
    seen = made.running()
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE
    made.process.send_signal(signal.SIGTERM)
    assert made.ended() == 143
    assert b"No space left" in made.err
