"""Files that are whole or not there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rankmuster.cli.output import write_file
from rankmuster.cli.status import CommandError, InternalError, doing


def test_writes_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_file(target, "one")
    write_file(target, "two ü")
    assert target.read_text(encoding="utf-8") == "two ü"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_file_has_the_rights_that_others_get(tmp_path: Path) -> None:
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.write_text("x")
    write_file(written, "x")
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("path", [Path("/"), Path(), Path("..")])
def test_a_folder_is_refused_with_a_word(path: Path) -> None:
    with pytest.raises(CommandError, match="it is a folder; name a file in it"):
        write_file(path, "x")


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_file(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_named_pipe_is_written_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "through")
    reader.join(10)
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_can_be_named_as_a_file() -> None:
    code = (
        "from pathlib import Path; from rankmuster.cli.output import write_file; write_file(Path('/dev/stdout'), 'x')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "x")


def test_undecodable_names_are_written_as_escapes(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    write_file(target, os.fsdecode(b"flight/\xff"))
    assert target.read_bytes() == b"flight/\\udcff"


@pytest.mark.parametrize("where", ["missing/out.html", "."])
def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path, where: str) -> None:
    with pytest.raises(CommandError, match="cannot write"):
        write_file(tmp_path / where, "x")
    assert os.listdir(tmp_path) == []


def test_an_unexpected_error_carries_what_was_being_done() -> None:
    with pytest.raises(InternalError) as raised, doing("reading"):
        raise KeyError("x")
    assert raised.value.doing == "reading"
    assert isinstance(raised.value.__cause__, KeyError)


def test_what_speaks_to_the_user_already_is_left_as_it_is() -> None:
    with pytest.raises(CommandError), doing("reading"):
        raise CommandError("no such folder")


@pytest.mark.parametrize(("columns", "most"), [("20", 40), ("60", 60), ("200", 200)])
def test_what_is_said_fits_a_terminal_and_is_one_line_elsewhere(columns: str, most: int) -> None:
    said = "  flight    partial    10.1 s   3 files  " + "rank 2: its process is frozen by a signal or a debugger; " * 3
    program = [sys.executable, "-c", f"from rankmuster.cli.output import say; say({said!r})"]
    environment = {**os.environ, "COLUMNS": columns}
    ours, theirs = os.openpty()
    try:
        subprocess.run(program, stderr=theirs, env=environment, check=True, timeout=60)
        shown = os.read(ours, 65536).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        os.close(theirs)
    first, *others = shown.rstrip("\n").split("\n")
    assert first.startswith("  flight    partial ")
    assert all(line.startswith("      ") for line in others)
    assert max(map(len, [first, *others])) <= most
    assert shown.split() == said.split()
    piped = subprocess.run(program, stderr=subprocess.PIPE, env=environment, check=True, timeout=60)
    assert piped.stderr.decode() == said + "\n"
