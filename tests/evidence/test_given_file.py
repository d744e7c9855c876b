"""Whatever a user names as a file is read, or refused at once in words that say what it is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rankmuster.evidence.given_file import CannotRead, bytes_in


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert bytes_in(path, 5) == b"12345"
    (tmp_path / "link").symlink_to(path)
    assert bytes_in(tmp_path / "link", 5) == b"12345"
    with pytest.raises(CannotRead, match="more than 4 bytes, and no profile is that large"):
        bytes_in(path, 4, "profile")


def test_what_is_no_file_is_refused_at_once_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, words in (
            (tmp_path, "a folder"),
            (tmp_path / "pipe", "a named pipe"),
            (tmp_path / "socket", "a socket"),
            (Path("/dev/zero"), "a device"),
            (tmp_path / "broken", "a link to nowhere, which is not there"),
            (tmp_path / "absent", "No such file"),
            (Path("a\0b"), "null"),
        ):
            with pytest.raises(CannotRead, match=words):
                bytes_in(path, 100)


def test_standard_input_by_its_name_is_read_though_it_is_a_pipe() -> None:
    script = (
        "from pathlib import Path; from rankmuster.evidence.given_file import bytes_in; "
        "print(bytes_in(Path('/dev/stdin'), 10))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=b"abc", capture_output=True, check=True, timeout=60)
    assert done.stdout == b"b'abc'\n"
