"""The control socket against everything that may come in."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rankmuster.adapters import supervisor_wire as wire
from rankmuster.supervise.control import MAX_CALLERS, Control


def handle(request: dict[str, Any]) -> Mapping[str, Any]:
    if request.get("ask") == "break":
        raise RuntimeError("broken")
    if request.get("ask") == "no":
        raise wire.NotUnderstood("never")
    return {"said": request.get("ask")}


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("c") / "x.sock"
    control = Control(place, handle)
    yield place
    control.close()
    assert not place.exists()


def ask(path: Path, data: bytes, *, close: bool = False) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_WR)
        got = b""
        while not got.endswith(b"\n"):
            piece = connection.recv(65536)
            if not piece:
                break
            got += piece
    found = json.loads(got)
    assert isinstance(found, dict)
    return found


def test_a_request_is_answered(path: Path) -> None:
    assert ask(path, b'{"v":1,"ask":"look"}\n') == {"v": 1, "said": "look"}


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b"look\n",
        b'{"v":2,"ask":"look"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"v":1,"ask":"no"}\n',
    ],
)
def test_what_is_no_request_is_told_so(path: Path, line: bytes) -> None:
    assert "not understood" in ask(path, line)["error"]
    assert ask(path, b'{"v":1,"ask":"look"}\n')["said"] == "look"


def test_one_that_ends_early_is_told_so(path: Path) -> None:
    assert "ends before" in ask(path, b'{"v":1', close=True)["error"]


def test_a_fault_of_our_own_does_not_end_it(path: Path) -> None:
    assert "RuntimeError: broken" in ask(path, b'{"v":1,"ask":"break"}\n')["error"]
    assert ask(path, b'{"v":1,"ask":"look"}\n')["said"] == "look"


def test_a_request_without_end_is_cut(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            connection.sendall(b"x" * (64 << 20))
    assert ask(path, b'{"v":1,"ask":"look"}\n')["said"] == "look"


def test_those_who_say_nothing_hold_up_nobody(path: Path) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CALLERS - 1)]
    for one in silent:
        one.connect(str(path))
    assert ask(path, b'{"v":1,"ask":"look"}\n')["said"] == "look"
    for one in silent:
        one.close()


def test_too_many_at_once_are_told_so(tmp_path: Path) -> None:
    go = threading.Event()

    def slow(request: dict[str, Any]) -> Mapping[str, Any]:
        go.wait(20)
        return {"said": "late"}

    path = tmp_path / "x.sock"
    control = Control(path, slow)
    callers = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CALLERS)]
    for one in callers:
        one.connect(str(path))
        one.sendall(b'{"v":1,"ask":"look"}\n')
    assert "at once" in ask(path, b'{"v":1,"ask":"look"}\n')["error"]
    go.set()
    for one in callers:
        assert b"late" in one.recv(1000)
        one.close()
    control.close()


def test_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    control = Control(path, handle, uid_of=lambda _: 4711, own_uid=1000)
    assert "user 4711 may not ask" in ask(path, b'{"v":1,"ask":"look"}\n')["error"]
    control.close()
    root = Control(path, handle, uid_of=lambda _: 0, own_uid=1000)
    assert ask(path, b'{"v":1,"ask":"look"}\n')["said"] == "look"
    root.close()
