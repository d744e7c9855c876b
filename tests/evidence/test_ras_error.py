"""A question that RAS did not answer is an observation; a log that ends badly is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.ras_error import READER
from rankmuster.model.ras import RasPoll


@pytest.mark.parametrize(
    "content",
    [
        "TimeoutError('timed out')\n",
        "ConnectionRefusedError(111, 'Connection refused')",
        "ConnectionResetError(104, 'Connection reset by peer')\n",
        "OSError(113, 'No route to host')\n",
        "socket.timeout('timed out')\n",
        "TimeoutError: timed out\n",
        "SERVER PROTOCOL 2\nOK\n",
        "SERVER PROTOCOL 2\nTimeoutError('timed out')\n",
        "BUSY: diagnostics already in progress\n",
        "Failed to connect to the NCCL RAS service!\n",
        "nc: connect to localhost (::1) port 28028 (tcp) failed: Connection refused\n",
    ],
)
def test_no_reply_is_recorded_with_its_reason_time_and_node(content: str) -> None:
    blob = Blob("ras/1795986562.985-0.error.txt", content.encode())
    assert READER.recognises(blob)
    (poll,) = READER.read(blob).observations
    assert isinstance(poll, RasPoll)
    assert (poll.answered, poll.form, poll.node) == (False, "none", "0")
    assert poll.error
    assert poll.time is not None
    assert poll.time.seconds == 1795986562.985


@pytest.mark.parametrize("path", ["ras/1795986562.985-a.txt", "ras/1795986562.985-a.json"])
def test_an_empty_reply_is_no_reply(path: str) -> None:
    assert READER.recognises(Blob(path, b""))
    (poll,) = READER.read(Blob(path, b"\n")).observations
    assert isinstance(poll, RasPoll)
    assert (poll.answered, poll.node) == (False, "a")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("logs/rank0.log", ""),
        ("engine/1795986477.893.prom", ""),
        ("logs/rank0.log", "Traceback (most recent call last):\n  File 'x.py', line 1\nTimeoutError: timed out\n"),
        ("logs/rank0.log", "starting\nConnectionRefusedError(111, 'Connection refused')\n"),
        ("x.txt", "OK\n"),
        ("x.txt", "ERROR: something else\nmore\n"),
        ("x.txt", "ValueError('bad')\n"),
        ("x.txt", "TimeoutError('x')\n" * 400),
    ],
)
def test_other_files_are_not_claimed(path: str, content: str) -> None:
    assert not READER.recognises(Blob(path, content.encode()))


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 30))
def test_any_bytes_are_survived(noise: bytes, at: int) -> None:
    for data in (noise, b"TimeoutError('timed out')\n"[:at] + noise):
        blob = Blob("ras/1795986562.985-0.error.txt", data)
        READER.recognises(blob)
        assert isinstance(READER.read(blob), Reading)
