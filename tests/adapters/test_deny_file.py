"""The file of nodes that get no work: people's lines stay byte for byte, ours come and go."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rankmuster.adapters.deny_file import MOST_BYTES, DenyFile
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, Fenced

PEOPLE = (
    b"# nodes out of service\r\nn7\t# fan, bob\nn8,n9 # \xff\xfe\n\n   \nn10 # rankmuster old 2026 by hand\n# n1\nend"
)


def soon() -> Deadline:
    return Deadline.after(5.0)


@pytest.fixture
def deny(tmp_path: Path) -> DenyFile:
    return DenyFile(tmp_path / "deny", unix_now=lambda: 1_796_040_000.0)


def test_people_s_lines_stay_byte_for_byte(deny: DenyFile, tmp_path: Path) -> None:
    path = tmp_path / "deny"
    path.write_bytes(PEOPLE)
    path.chmod(0o640)
    assert deny.fence("n1", "inc-1", 'path "lost"\nn2 # x, é', soon()).ending is Ending.DONE
    data = path.read_bytes()
    assert data.startswith(PEOPLE + b"\nn1  # rankmuster inc-1 2026-11-30T12:00:00Z path lost n2 x ~")
    assert path.stat().st_mode & 0o777 == 0o640
    seen = deny.look("n1", soon())
    assert (seen.fenced, seen.incident) == (Fenced.OURS, "inc-1")
    assert deny.look("n2", soon()).fenced is Fenced.NO
    assert "already" in deny.fence("n1", "inc-1", "again", soon()).note
    assert path.read_bytes() == data
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.DONE
    assert path.read_bytes() == PEOPLE + b"\n"
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.DONE


@pytest.mark.parametrize("node", ["n7", "n8", "n9", "n10"])
def test_a_line_of_others_is_theirs(deny: DenyFile, tmp_path: Path, node: str) -> None:
    (tmp_path / "deny").write_bytes(PEOPLE)
    assert deny.look(node, soon()).fenced is Fenced.OTHERS
    assert deny.fence(node, "inc-1", "x", soon()).data == {"others": True}
    assert deny.lift(node, "old", soon()).ending is Ending.REFUSED
    assert (tmp_path / "deny").read_bytes() == PEOPLE


def test_an_edited_line_is_the_editor_s(deny: DenyFile, tmp_path: Path) -> None:
    path = tmp_path / "deny"
    assert deny.fence("n1", "inc-1", "x", soon()).ending is Ending.DONE
    edited = path.read_bytes().rstrip() + b" keep it, bob\n"
    path.write_bytes(edited)
    assert deny.look("n1", soon()).fenced is Fenced.OTHERS
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.REFUSED
    assert path.read_bytes() == edited


def test_another_incident_s_line_stays(deny: DenyFile) -> None:
    assert deny.fence("n1", "inc-1", "x", soon()).data == {}
    assert deny.fence("n1", "inc-2", "x", soon()).data == {"others": True}
    assert deny.lift("n1", "inc-2", soon()).ending is Ending.REFUSED
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.DONE


def test_no_file_names_nobody(deny: DenyFile, tmp_path: Path) -> None:
    assert deny.look("n1", soon()).fenced is Fenced.NO
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.DONE
    assert not (tmp_path / "deny").exists()


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    deny = DenyFile(tmp_path / "none" / "deny")
    assert deny.look("n1", soon()).fenced is Fenced.UNKNOWN
    assert "there is no folder" in deny.fence("n1", "inc-1", "x", soon()).note
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.FAILED


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "huge"])
def test_what_is_no_such_file_is_refused_and_stays(deny: DenyFile, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "deny"
    if kind == "symlink":
        (tmp_path / "real").write_bytes(PEOPLE)
        path.symlink_to(tmp_path / "real")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"n1\n" * (MOST_BYTES // 3 + 1))
    before = path.lstat()
    assert deny.look("n1", soon()).fenced is Fenced.UNKNOWN
    assert deny.fence("n1", "inc-1", "x", soon()).ending is Ending.FAILED
    assert deny.lift("n1", "inc-1", soon()).ending is Ending.FAILED
    assert path.lstat().st_ino == before.st_ino
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted({"deny", *(["real"] if kind == "symlink" else [])})


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up rights needs root")
@pytest.mark.parametrize("protect", ["file", "folder", "unreadable"])
def test_without_rights_it_is_said(tmp_path: Path, protect: str) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "deny"
    path.write_bytes(PEOPLE)
    for one in (path, folder):
        os.chown(one, 65534, 65534)
    path.chmod(0o400 if protect == "file" else 0 if protect == "unreadable" else 0o600)
    folder.chmod(0o500 if protect == "folder" else 0o700)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from rankmuster.adapters.deny_file import DenyFile\n"
        "from rankmuster.collect.deadline import Deadline\n"
        "os.chdir(sys.argv[1]); os.setgid(65534); os.setuid(65534)\n"
        "answer = DenyFile(Path('deny')).fence('n1', 'inc-1', 'x', Deadline.after(5))\n"
        "print(answer.ending.value, answer.note)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert done.stdout.startswith("failed"), done
    assert "Permission denied" in done.stdout
    assert path.read_bytes() == PEOPLE


def test_a_lock_that_is_held_ends_at_the_deadline(deny: DenyFile, tmp_path: Path) -> None:
    path = tmp_path / "deny"
    path.write_bytes(PEOPLE)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        answer = deny.fence("n1", "inc-1", "x", Deadline.after(0.2))
    assert answer.ending is Ending.FAILED
    assert "lock" in answer.note
    assert path.read_bytes() == PEOPLE


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deny"
    path.write_bytes(PEOPLE)
    many = [DenyFile(path) for _ in range(8)]

    def work(number: int) -> None:
        for turn in range(5):
            assert many[number].fence(f"m{number}-{turn}", "inc-1", "x", Deadline.after(30.0)).ending is Ending.DONE

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes().startswith(PEOPLE)
    assert path.read_bytes().count(b"rankmuster inc-1") == 40


@pytest.mark.parametrize("node", ["", "n1 n2", "n1,n2", "n[1-2]", "#", "n1\nn2", "-w", "é"])
def test_what_is_no_node_is_refused(deny: DenyFile, tmp_path: Path, node: str) -> None:
    assert deny.fence(node, "inc-1", "x", soon()).ending is Ending.REFUSED
    assert deny.fence("n1", "two words", "x", soon()).ending is Ending.REFUSED
    assert deny.look(node, soon()).fenced is Fenced.UNKNOWN
    assert not (tmp_path / "deny").exists()


def test_what_would_be_written_is_said(deny: DenyFile) -> None:
    line = deny.would("fence", "n1", "inc-1", "path_lost")[0]
    assert "the line: n1  # rankmuster inc-1 2026-11-30T12:00:00Z path_lost ~" in line
    assert "remove" in deny.would("lift", "n1", "inc-1")[0]
