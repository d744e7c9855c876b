"""Lines of the watch on outputs that nobody reads, that are full, or that were closed."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Iterator

import pytest

from rankmuster.cli.event_output import MOST_BYTES, EventOutput
from rankmuster.watch.events import Form, Severity, Told


def told(text: str) -> Told:
    return Told(0.0, Severity.NOTE, "llm-0", "note", text)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def fill(writer: int) -> int:
    """Bytes that were put into the pipe until nothing more went in."""
    os.set_blocking(writer, False)
    size = 0
    try:
        while True:
            size += os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
        return size


def read_for(reader: int, wanted: bytes, seconds: float = 20.0) -> bytes:
    end, found = time.monotonic() + seconds, b""
    while wanted not in found:
        assert time.monotonic() < end, found[-300:]
        if select.select([reader], [], [], 0.2)[0]:
            found += os.read(reader, 65536)
    return found


def test_lines_come_in_their_order(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = EventOutput(Form.TEXT, writer)
    for text in ("one", "two\x1b[31m", "three"):
        output.tell(told(text))
    output.close(20)
    assert [one.rpartition(": ")[2] for one in os.read(reader, 65536).decode().splitlines()] == ["one", "two", "three"]


def test_a_pipe_that_nobody_reads_holds_nobody_up(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    stuffed = fill(writer)
    output = EventOutput(Form.JSON, writer)
    large = "y" * 100_000
    for number in range(3 * MOST_BYTES // len(large)):
        output.tell(told(f"{number} {large}"))
    output.close(0.1)
    output.tell(told("the last"))
    found = read_for(reader, b"the last")[stuffed:].decode()
    events = [json.loads(one) for one in found.splitlines()]
    lost = [one["lost"] for one in events if "lost" in one]
    kept = [one for one in events if "lost" not in one]
    assert sum(lost) + len(kept) == 3 * MOST_BYTES // len(large) + 1
    assert lost
    assert kept[-1]["text"] == "the last"


def test_a_full_disk_ends_nothing_and_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    output = EventOutput(Form.TEXT, full)
    for number in range(5):
        output.tell(told(str(number)))
    output.close(20)
    os.close(full)
    assert capfd.readouterr().err.count("No space left on device") == 1


def test_what_was_lost_on_a_full_disk_is_said_when_there_is_room(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    descriptor = os.open("/dev/full", os.O_WRONLY)
    output = EventOutput(Form.TEXT, descriptor)
    for text in ("one", "two"):
        output.tell(told(text))
    output.close(20)
    os.dup2(writer, descriptor)
    output.tell(told("three"))
    output.close(20)
    os.close(descriptor)
    found = os.read(reader, 65536).decode()
    assert "2 earlier event(s) are lost" in found
    assert found.endswith("three\n")


def test_a_reader_that_left_is_no_fault(pipe: tuple[int, int], capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = pipe
    os.close(reader)
    output = EventOutput(Form.TEXT, writer)
    output.tell(told("nobody hears this"))
    output.close(20)
    output.tell(told("nor this"))
    output.close(20)
    assert capfd.readouterr().err == ""
    assert not [
        one for one in threading.enumerate() if one.name == "events" and one is output._thread and one.is_alive()
    ]
