"""The ends of all logs come first; what takes long waits for whoever judges the instance."""

from __future__ import annotations

import time
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.logs.taking import SHORT, take
from rankmuster.collect.sink import Store

LINE = b"worker 3 entered step 4711\n"


def source(folder: Path, name: str, size: int) -> Source:
    path = folder / name
    path.write_bytes(LINE * (size // len(LINE)))
    return Source(Path("/"), str(path), name, None, path.stat().st_uid)


def test_nothing_is_taken_at_length_before_the_instance_was_judged(tmp_path: Path) -> None:
    sources = [source(tmp_path, f"rank{number}.log", 4 * SHORT) for number in range(3)]
    store = Store(tmp_path / "bundle")
    seen: list[list[int]] = []

    def judged(_: Deadline) -> None:
        seen.append([piece.size for piece in store.pieces()])

    take(
        sources, "logs", store.sink("framework-log"), Deadline.after(60), now=time.time, host=None,
        max_bytes=8 * SHORT, between=judged,
    )  # fmt: skip
    ((first, second, third),) = seen
    assert max(first, second, third) <= SHORT
    assert all(piece.size == 4 * SHORT // len(LINE) * len(LINE) for piece in store.pieces())


def test_short_logs_wait_for_nobody(tmp_path: Path) -> None:
    waited: list[Deadline] = []
    store = Store(tmp_path / "bundle")
    take(
        [source(tmp_path, "rank0.log", 4096)], "logs", store.sink("framework-log"), Deadline.after(60), now=time.time,
        host=None, max_bytes=8 * SHORT, between=waited.append,
    )  # fmt: skip
    assert waited == []
    assert len(store.pieces()) == 1
