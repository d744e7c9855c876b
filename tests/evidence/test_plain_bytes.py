"""What machines do to a text before it arrives: other encodings, byte order marks, holes, months of growth."""

from __future__ import annotations

import pytest

from rankmuster.evidence import plain_bytes
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.plain_bytes import plain

LOG = "[rank0]: Watchdog caught a time-out \u2013 90\u00b0\nsecond line\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_log_that_powershell_or_an_editor_wrote(encoding: str) -> None:
    assert plain(Blob("a.log", LOG.encode(encoding)))[0].data == LOG.encode()


def test_a_log_in_utf_16_of_the_other_order() -> None:
    assert plain(Blob("a.log", b"\xfe\xff" + LOG.encode("utf-16-be")))[0].data == LOG.encode()


def test_a_log_that_was_truncated_under_its_writer() -> None:
    assert plain(Blob("a.log", bytes(100_000) + LOG.encode()))[0].data == LOG.encode()


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"\0", b"\x80\x02}.", LOG.encode(), b"\xff\xfebinary without NULs"])
def test_what_is_plain_already_stays(data: bytes) -> None:
    blob = Blob("a", data)
    assert plain(blob) == (blob, None)


@pytest.mark.parametrize("line", ["line %06d\n", '{"time": %d}\n', "[2026-11-29 00:00:00] step %d\n", "[rank0]: %d\n"])
def test_of_a_log_of_months_both_ends_are_read(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_bytes, "MAX_LOG_BYTES", 20_000)
    lines = [(line % n).encode() for n in range(5000)]
    blob, problem = plain(Blob("a.log", b"".join(lines)))
    read = blob.data.splitlines(keepends=True)
    assert set(read) <= set(lines)  # no line that nobody wrote
    assert (read[0], read[-1]) == (lines[0], lines[-1])
    assert 19_000 < len(blob.data) <= 20_000
    assert problem is not None
    assert "the first and last" in problem.message


@pytest.mark.parametrize(
    "start", [b'{"version": "2.10",\n"entries": [', b'[{"rank": 1},\n', b"<?xml version='1.0'?>\n"]
)
def test_a_document_is_never_cut_in_its_middle(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_bytes, "MAX_LOG_BYTES", 20_000)
    blob = Blob("a.json", start + b"1,\n" * 20_000)
    assert plain(blob) == (blob, None)
