"""Following one file: every way in which logs are rotated, cut, damaged and taken away."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rankmuster.collect.logs.sources import Source
from rankmuster.watch.signals import follow, follow_open
from rankmuster.watch.signals.follow import Begin, Follower, following


def add(path: Path, text: bytes | str) -> None:
    with path.open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "serve.log"
    path.write_bytes(b"old 1\nold 2\n")
    return path


def test_only_what_is_written_from_now_on_is_read(log: Path) -> None:
    one = following(log)
    assert one.poll().data == b""
    add(log, "new 1\nnew 2\n")
    assert one.poll().data == b"new 1\nnew 2\n"
    assert one.poll().data == b""
    one.close()


def test_some_of_the_past_for_context(log: Path) -> None:
    one = Follower(Source(Path("/"), str(log), "x"), context=8)
    assert one.poll().data == b"old 2\n"
    one.close()


def test_half_a_line_waits_for_its_end(log: Path) -> None:
    one = following(log)
    one.poll()
    add(log, "half")
    assert one.poll().data == b""
    add(log, " a line\r\nnext")
    assert one.poll().data == b"half a line\r\n"
    assert one.last().data == b"next\n"
    one.close()


def test_a_line_that_was_half_written_at_the_start_is_not_read_from_its_middle(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"secret pro")
    one = following(path)
    one.poll()
    add(path, b"mpt\nwhole\n")
    assert one.poll().data == b"whole\n"
    one.close()


def test_rename_and_create_loses_nothing(log: Path) -> None:
    one = following(log)
    one.poll()
    add(log, "before\n")
    log.rename(log.with_name("serve.log.1"))
    add(log.with_name("serve.log.1"), "still to the old one\n")
    add(log, "after\n")
    assert one.poll().data == b"before\nstill to the old one\nafter\n"
    add(log.with_name("serve.log.1"), "late\n")  # the server has not reopened it yet
    add(log, "more\n")
    assert one.poll().data == b"late\nmore\n"
    one.close()


def test_rotated_twice_between_two_looks(log: Path) -> None:
    one = following(log)
    one.poll()
    add(log, "a\n")
    first, second = log.with_name("serve.log.1"), log.with_name("serve.log.2")
    stale = log.with_name("serve.log.3")
    stale.write_text("of last week\n")
    os.utime(stale, (1, 1))
    log.rename(first)
    add(log, "b\n")
    os.utime(log, (2_000_000_000, 2_000_000_000))
    first.rename(second)
    log.rename(first)
    add(log, "c\n")
    assert one.poll().data == b"a\nb\nc\n"
    one.close()


def test_copytruncate_begins_anew(log: Path) -> None:
    one = following(log)
    one.poll()
    add(log, "a\n")
    one.poll()
    os.truncate(log, 0)
    add(log, "b\n")
    assert one.poll().data == b"b\n"
    os.truncate(log, 0)
    add(log, "much longer than all that was there before, so that its size tells nothing\n")
    assert one.poll().data.startswith(b"much longer")
    one.close()


def test_a_writer_that_goes_on_behind_the_hole_that_truncation_left(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb", buffering=0) as writer:
        writer.write(b"x" * 100_000 + b"\n")
        one = following(path)
        one.poll()
        os.truncate(path, 0)
        writer.write(b"after the hole\n")
        assert one.poll().data == b"after the hole\n"
        writer.write(b"and more\n")
        assert one.poll().data == b"and more\n"
    one.close()


def test_a_file_that_comes_goes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    one = following(path)
    news = one.poll()
    assert (news.present, news.trouble) == (False, None)
    path.write_text("first\n")
    assert one.poll().data == b"first\n"
    add(path, "last words\n")
    path.unlink()
    assert one.poll().data == b"last words\n"
    for _ in range(follow.LINGER_LOOKS + 1):
        assert not one.poll().present
    assert not [fd for fd in Path("/proc/self/fd").iterdir() if str(path) in _link(fd)]  # its disk space is free
    path.write_text("second\n")
    assert one.poll().data == b"second\n"
    one.close()


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def test_renamed_away_and_back_is_not_read_twice(log: Path) -> None:
    one = following(log)
    one.poll()
    away = log.with_name("away")
    log.rename(away)
    assert not one.poll().present
    away.rename(log)
    add(log, "on\n")
    assert one.poll().data == b"on\n"
    one.close()


def test_a_link_that_is_swapped(tmp_path: Path) -> None:
    a, b, current = tmp_path / "a.log", tmp_path / "b.log", tmp_path / "current.log"
    a.write_text("a\n")
    current.symlink_to(a)
    one = following(current)
    one.poll()
    add(a, "more a\n")
    b.write_text("b\n")
    current.unlink()
    current.symlink_to("b.log")
    assert one.poll().data == b"more a\nb\n"
    one.close()


def test_a_link_leads_nowhere_outside_the_root_of_its_process(tmp_path: Path) -> None:
    outside = tmp_path / "outside.log"
    outside.write_text("not the container's\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "app.log").symlink_to(outside)
    one = Follower(Source(root, "/app.log", "app.log"), Begin.START)
    assert one.poll().data == b""
    assert not one.poll().present
    inside = root / str(outside).lstrip("/")
    inside.parent.mkdir(parents=True)
    inside.write_text("the container's own\n")
    assert one.poll().data == b"the container's own\n"
    assert one.poll().data == b""
    add(inside, "more\n")
    assert one.poll().data == b"more\n"
    one.close()


def test_a_burst_is_passed_over_to_its_end_and_said(log: Path) -> None:
    one = following(log)
    one.poll()
    with log.open("r+b") as file:  # gigabytes that take no disk space
        file.seek(4 << 30)
        file.write(b"\n" + b"".join(b"line %07d\n" % n for n in range(300_000)))
    news = one.poll(1 << 20)
    assert news.skipped > 3 << 30
    assert len(news.data) <= 1 << 20
    assert news.data.startswith(b"line ")
    assert news.data.endswith(b"line 0299999\n")
    assert one.poll().skipped == 0
    one.close()


def test_lines_without_end_are_cut_and_progress_bars_are_lines(log: Path) -> None:
    one = following(log)
    one.poll()
    add(log, b"\r 10%|#\r 20%|##\r")
    assert one.poll().data == b"\r 10%|#\r"
    add(log, b" 30%|###\r")
    assert one.poll().data == b" 20%|##\r"
    add(log, b"\n")
    one.poll()
    for _ in range(5):
        add(log, b"y" * 50_000)
        assert len(one.poll().data) <= follow_open.MAX_LINE + 1
    add(log, b"y\nnext\n")
    assert one.poll().data == b"next\n"
    one.close()


def test_bytes_that_are_no_text(log: Path) -> None:
    one = following(log)
    one.poll()
    add(log, b"\xff\xfe\0\0\0caf\xe9\n" + bytes(5000) + b"after\n")
    assert one.poll().data == b"\xff\xfecaf\xe9\nafter\n"
    one.close()


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device"])
def test_what_is_no_file_is_refused_and_not_opened(tmp_path: Path, kind: str) -> None:
    import socket

    path = tmp_path / "x.log"
    keep = None
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        keep = socket.socket(socket.AF_UNIX)
        keep.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        path = Path("/dev/null")
    one = following(path)
    trouble = one.poll().trouble
    assert trouble is not None
    assert "was not opened" in trouble
    assert str(path) in trouble
    one.close()
    if keep is not None:
        keep.close()


def test_another_users_file_is_not_read_for_a_process(log: Path) -> None:
    one = Follower(Source(Path("/"), str(log), "x", uid=os.geteuid() + 4711), Begin.START)
    news = one.poll()
    assert news.data == b""
    assert "belongs to uid" in (news.trouble or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_that_is_lost_and_given(log: Path) -> None:
    log.chmod(0)
    one = following(log)
    assert "ermission" in (one.poll().trouble or "")
    log.chmod(0o600)
    assert one.poll().trouble is None
    add(log, "seen\n")
    assert one.poll().data == b"seen\n"
    one.close()


def test_a_link_in_a_circle_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert following(tmp_path / "a").poll().trouble is not None


def test_a_descriptor_follows_what_the_process_really_writes_to(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    with path.open("ab", buffering=0) as file:
        one = Follower(Source(Path("/proc"), f"{os.getpid()}/fd/{file.fileno()}", "out.log", descriptor=True))
        one.poll()
        path.rename(tmp_path / "out.log.1")
        path.write_text("somebody else's\n")
        file.write(b"mine\n")
        assert one.poll().data == b"mine\n"
    assert not one.poll().present
    one.close()


def test_a_number_that_is_another_process_now_is_not_followed(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    alive = [True]
    with a.open("ab", buffering=0) as first, b.open("ab", buffering=0) as second:
        number = first.fileno()
        source = Source(Path("/proc"), f"{os.getpid()}/fd/{number}", "a", descriptor=True)
        one = Follower(source, still=lambda: alive[0])
        one.poll()
        first.write(b"last\n")
        second.write(b"another's\n")
        alive[0] = False
        os.dup2(second.fileno(), number)
        news = one.poll()
        assert (news.data, news.present) == (b"last\n", False)
        alive[0] = True  # the process itself has opened its log anew
        assert one.poll().data == b"another's\n"
    one.close()


def test_a_file_that_somebody_has_read_before_goes_on_where_that_ended(log: Path) -> None:
    first = following(log)
    first.poll()
    add(log, "a\n")
    assert first.last().data == b"a\n"
    first.close()
    add(log, "b\n")
    second = Follower(Source(Path("/"), str(log), "x"), resume=first.read_to)
    assert second.poll().data == b"b\n"
    second.close()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_to_a_log_nothing_is_lost_or_read_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "a.log"
    path.touch()
    one = following(path)
    one.poll()
    written, rotated, read = 0, 0, []
    file = path.open("ab", buffering=0)
    for _ in range(25):
        match chance.choice(["write", "write", "write", "look", "rename", "late", "truncate"]):
            case "write":
                for _ in range(chance.randint(1, 5)):
                    file.write(b"%d\n" % written)
                    written += 1
            case "look":
                read += one.poll().data.split()
                rotated = 0
            case "rename" | "late" as how if rotated < follow.MOST_FADING:
                rotated += 1
                for number in range(20, 0, -1):
                    if (older := tmp_path / f"a.log.{number}").exists():
                        older.rename(tmp_path / f"a.log.{number + 1}")
                path.rename(tmp_path / "a.log.1")
                before, file = file, path.open("ab", buffering=0)
                if how == "late":
                    before.write(b"%d\n" % written)
                    written += 1
                before.close()
            case "truncate":  # what is cut before anybody has looked is lost to everybody
                read += one.poll().data.split()
                rotated = 0
                os.truncate(path, 0)
    for _ in range(3):
        read += one.poll().data.split()
    file.close()
    one.close()
    assert sorted(map(int, read)) == list(range(written))
