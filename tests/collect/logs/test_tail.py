"""The end of a log begins with a whole line: half of one may be half of what a user wrote."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from rankmuster.collect.logs import tail
from rankmuster.collect.strip.text import scrub

REQUEST = b"Received request cmpl-1: prompt: '" + b"planted words " * 20_000 + b"', params: SamplingParams(n=1)\n"


def packed_twice(data: bytes) -> bytes:
    """As `gzip >> log.gz` makes it: two members."""
    return gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])


def ends(path: Path, limit: int) -> list[bytes]:
    """Of the file as it is, and packed."""
    packed = path.with_suffix(".gz")
    packed.write_bytes(packed_twice(path.read_bytes()))
    found = []
    for file, read in ((path, tail.read), (packed, tail.inflate)):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            found.append(read(descriptor, limit).data)
        finally:
            os.close(descriptor)
    return found


@pytest.mark.parametrize("after", [b"NCCL WARN last line\n", b""])
def test_a_cut_never_leaves_half_a_prompt(after: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + REQUEST + after)
    for data in ends(log, 200_000):
        assert b"planted" not in scrub(data)
        assert data.endswith(after)


def test_a_progress_bar_without_lines_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"\rLoading shards: %d/9999" % n for n in range(5000)))
    for data in ends(log, 20_000):
        assert data.endswith(b"Loading shards: 4999/9999")
        assert len(data) > 10_000
