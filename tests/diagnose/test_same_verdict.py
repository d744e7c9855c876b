"""The same bundle gives the same verdict: in any order of its files, in any folder, under any hash seed."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    even,
    flat_pages,
    instance,
    log,
    ras_json,
    ras_text,
    samples,
    steady_pages,
    traceback,
    verdict_of,
    watchdog,
)

from rankmuster.evidence.blob import Blob
from rankmuster.report.json_form import render

ALL = (0, 1, 2, 3)
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]
LAG = Comm(ALL, even(ALL, 1004, r2=1000))
JOBS: dict[str, list[Blob]] = {
    "lag": [
        instance(),
        *STALLED,
        *[ras_text(T0 + t, LAG) for t in (15, 25, 35)],
        *[ras_json(T0 + t + 1, [LAG]) for t in (15, 25, 35)],
        *[log(f"rank{rank}.log", watchdog(rank, T0 + 21)) for rank in (0, 1, 3)],
    ],
    "exits": [
        instance(4, {**dict.fromkeys(ALL, (-6, None)), 1: (-9, T0 + 10.5)}),
        *STALLED,
        samples([(10, dict.fromkeys(ALL, MOVE)), (40, {**dict.fromkeys(ALL, SPIN), 1: IDLE})]),
        *[log(f"rank{rank}.log", watchdog(rank, T0 + 20)) for rank in (0, 2, 3)],
    ],
    "exceptions": [
        instance(),
        *STALLED,
        *[log(f"rank{rank}.log", *traceback(rank, "ValueError: bad", T0 + 10)) for rank in ALL],
    ],
}


@pytest.mark.parametrize("job", sorted(JOBS))
def test_in_any_order_of_the_files(job: str) -> None:
    shuffled = list(JOBS[job])
    random.Random(3).shuffle(shuffled)
    assert render(verdict_of(shuffled)) == render(verdict_of(JOBS[job]))


@pytest.mark.parametrize("job", sorted(JOBS))
def test_in_another_folder(job: str) -> None:
    moved = [Blob(f"a/b/{blob.path}", blob.data) for blob in JOBS[job]]
    assert render(verdict_of(moved)).replace("a/b/", "") == render(verdict_of(JOBS[job]))


def test_under_any_hash_seed() -> None:
    script = (
        "import hashlib, test_same_verdict as t\n"
        "text = ''.join(t.render(t.verdict_of(t.JOBS[job])) for job in sorted(t.JOBS))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "3", "PYTHONPATH": str(Path(__file__).parent)}
    other = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True)
    own = "".join(render(verdict_of(JOBS[job])) for job in sorted(JOBS))
    assert other.stdout.strip() == hashlib.sha256(own.encode()).hexdigest()
