"""Several writers at once, as processes: nothing is lost, nothing twice, nothing half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from history_writer import SHARED, own

from history_made import CLASS, PROFILE, run
from rankmuster.store.history import History

WRITER = Path(__file__).with_name("history_writer.py")


def start(url: str, name: str, how: str) -> subprocess.Popen[str]:
    paths = [str(WRITER.parents[1]), *sys.path]
    return subprocess.Popen(
        [sys.executable, WRITER, url, name, how],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )


def test_writers_at_once_store_every_run_once_and_whole(url: str) -> None:
    names = [f"writer-{number}" for number in range(4)]
    # they make the tables at once, too
    writers = [start(url, name, "each") for name in names]
    stored = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * len(writers)
    with History.open(url, create=False) as history:
        found = history.runs(limit=None)
        assert sum(stored) == len(found)
        wanted = SHARED + [one for name in names for one in own(name)]
        assert {one.record: one for one in found} == {one.record: one for one in wanted}
        assert len(found) == len(wanted)


def test_a_writer_killed_within_its_transaction_leaves_nothing_of_it(url: str) -> None:
    with History.open(url) as history:
        history.put(run())
    writer = start(url, "killed", "endless")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "began\n"
    with History.open(url) as history:
        # who reads meanwhile sees what was stored before, and does not wait
        assert history.runs() == (run(),)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert history.put(run(1))
        assert history.class_history(CLASS, PROFILE).records == (run(0).record, run(1).record)


def test_a_source_that_fails_half_way_leaves_nothing_of_it(history: History) -> None:
    def source() -> object:
        yield from (run(number) for number in range(1200))
        raise RuntimeError("the file ends here")

    with pytest.raises(RuntimeError, match="ends here"):
        history.put_many(source())  # type: ignore[arg-type]
    assert history.runs() == ()
    assert history.put(run())
