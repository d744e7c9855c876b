"""A supervisor's record is believed only where it can be: this boot's, this user's, whole, and of what has ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankmuster.collect.find.ended import ended_part, ended_target
from rankmuster.collect.find.facts import instance_facts
from rankmuster.collect.find.run_file import Kept, NotBelieved, living, named, with_process
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import Proc
from rankmuster.model.run_record import MAX_BYTES, Known, Life, Member, Record, written

NAME = "llm-0"
BEGAN = 1_790_000_000.0


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def a_record(**more: Any) -> Record:
    members = (
        Member(
            pid=4_000_001, ticks=5, name="python3", started=BEGAN + 1, rank=0, local_rank=0, world=2, gone=BEGAN + 9
        ),
        Member(
            pid=4_000_002, ticks=6, started=BEGAN + 1, rank=1, local_rank=1, world=2, exit_code=-9, exited=BEGAN + 8,
            gone=BEGAN + 8,
        ),
        Member(pid=4_000_000, ticks=4, name="torchrun", started=BEGAN, exit_code=1, exited=BEGAN + 9, gone=BEGAN + 9),
    )  # fmt: skip
    made = Record(
        instance=NAME,
        boot=boot(),
        supervisor=Known(pid=4_000_003, ticks=3),
        incarnation="20261130T134851Z-4570-1-34f6dcb0",
        at=BEGAN,
        launcher=Known(pid=4_000_000, ticks=4),
        ended_by_itself=True,
        exit_status=1,
        life=Life(members=members, ended=BEGAN + 10, log="/tmp/none.log"),
    )
    return replace(made, **more)


def put(folder: Path, record: Record | bytes, name: str = NAME, mode: int = 0o600) -> Path:
    path = folder / f"{name}.json"
    path.write_bytes(record if isinstance(record, bytes) else written(record).encode())
    path.chmod(mode)
    return path


def test_a_record_tells_of_the_instance(tmp_path: Path) -> None:
    put(tmp_path, a_record())
    kept = named(tmp_path, NAME, Machine())
    assert kept is not None
    assert living(kept.record, Machine()) == ()
    target = ended_target(kept, "node7")
    assert target is not None
    facts = instance_facts(target, BEGAN + 20)
    assert (facts["instance"], facts["world_size"], facts["started_at"]) == (NAME, 2, BEGAN)
    processes = facts["processes"]
    assert isinstance(processes, list)
    told = [(one["rank"], one["pid"], one["exit_code"], one["exited_at"], one["state"]) for one in processes]
    assert told == [(0, 4_000_001, None, None, "X"), (1, 4_000_002, -9, BEGAN + 8, "X")]


def test_what_the_supervisor_ended_itself_has_no_end_of_its_own() -> None:
    record = a_record()
    assert record.life is not None
    members = tuple(replace(one, exit_code=-15, exited=BEGAN + 8, signalled=15) for one in record.life.members)
    ended = ended_part(Kept(replace(record, life=replace(record.life, members=members)), 0, Path("x")), ())
    assert ended is not None
    assert [one.exit_status for one in ended.processes] == [None, None, None]
    assert [one.exited_at for one in ended.processes] == [None, None, None]


def test_a_rank_that_was_replaced_is_told_by_its_last_process() -> None:
    record = a_record()
    assert record.life is not None
    again = replace(record.life.members[0], pid=4_000_009, ticks=99)
    life = replace(record.life, members=(*record.life.members, again))
    target = ended_target(Kept(replace(record, life=life), 0, Path("x")), "node7")
    assert target is not None
    processes = instance_facts(target, BEGAN + 20)["processes"]
    assert isinstance(processes, list)
    assert [one["pid"] for one in processes] == [4_000_009, 4_000_002]


def _symlink(folder: Path) -> None:
    put(folder, a_record(), "other")
    (folder / f"{NAME}.json").symlink_to("other.json")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: put(folder, b"\xff\xfe garbage"), "cannot be used"),
        (lambda folder: put(folder, b'{"schema": "rankmuster.run/9"}'), "is no rankmuster.run/1"),
        (lambda folder: put(folder, b"[" * 100_000), "cannot be used"),
        (lambda folder: put(folder, b" " * MAX_BYTES), "bytes"),
        (lambda folder: put(folder, a_record(boot="another")), "earlier boot"),
        (lambda folder: put(folder, a_record(instance="llm-1")), "is of 'llm-1'"),
        (lambda folder: put(folder, a_record(), mode=0o666), "others may write it"),
        (lambda folder: put(folder, a_record(life=Life(namespace="pid:[1]"))), "another pid namespace"),
        (_symlink, "cannot be read"),
        (lambda folder: os.mkfifo(folder / f"{NAME}.json"), "no regular file"),
        (lambda folder: (folder / f"{NAME}.json").mkdir(), "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_believed_is_told(tmp_path: Path, make: Callable[[Path], object], words: str) -> None:
    make(tmp_path)
    with pytest.raises(NotBelieved, match=words):
        named(tmp_path, NAME, Machine())
    assert with_process(tmp_path, [4_000_001], Machine()) is None or words == "cannot be read"  # the link's own target


def test_somebody_elses_record_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a file of another user")
    os.chown(put(tmp_path, a_record()), 54_321, -1)
    kept = named(tmp_path, NAME, Machine())  # root believes its user, for files of that user
    assert kept is not None
    target = ended_target(kept, "node7")
    assert target is not None
    assert target.ended is not None
    assert {one.uid for one in target.ended.processes} == {54_321}
    assert {one.uid for one in target.ended.outputs} == {54_321}
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(NotBelieved, match="it is user 54321's"):
        named(tmp_path, NAME, Machine())


def test_a_process_that_lives_is_seen_and_one_that_has_its_number_is_not(tmp_path: Path) -> None:
    own = Proc(Path("/proc")).stat(os.getpid())
    assert own is not None
    alive = a_record(launcher=Known(pid=own.pid, ticks=own.start_ticks))
    assert living(alive, Machine()) == (own.pid,)
    newcomer = a_record(launcher=Known(pid=own.pid, ticks=own.start_ticks - 1))
    assert living(newcomer, Machine()) == ()


def test_no_record_and_no_name_are_nothing(tmp_path: Path) -> None:
    assert named(tmp_path, NAME, Machine()) is None
    assert named(tmp_path / "absent", NAME, Machine()) is None
    assert named(tmp_path, "../../etc/passwd", Machine()) is None
    assert with_process(tmp_path / "absent", [1], Machine()) is None


def test_an_instance_is_found_by_a_process_that_it_had(tmp_path: Path) -> None:
    put(tmp_path, a_record(instance="other", life=None, launcher=None), "other")
    put(tmp_path, b"garbage", "a")
    put(tmp_path, a_record())
    kept = with_process(tmp_path, [4_000_002], Machine())
    assert kept is not None
    assert kept.record.instance == NAME
    assert with_process(tmp_path, [77], Machine()) is None
