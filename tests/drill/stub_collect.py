"""A collect in miniature for the drill's own tests: it asks through the pipes, looks at the page twice, and copies."""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from rankmuster.drill.job import DrillJob

DUMP_SECONDS = 15.0
LOOKS = 2
GAP_SECONDS = 1.5


def stub_collect(job: DrillJob, output: Path) -> Path:
    for part in ("flight", "engine", "logs"):
        (output / part).mkdir(parents=True)
    for look in range(LOOKS):
        time.sleep(GAP_SECONDS if look else 0)
        with suppress(OSError), urllib.request.urlopen(job.metrics_url or "", timeout=5) as page:
            (output / "engine" / f"{time.time():.3f}.prom").write_bytes(page.read())
    asked = {rank for rank in job.pids if _ask(job.folder / "pipes" / f"rank_{rank}.pipe")}
    looks = {}
    end = time.monotonic() + DUMP_SECONDS
    while asked and time.monotonic() < end:
        for rank in sorted(asked):
            log = (job.folder / "logs" / f"rank{rank}.log").read_text(errors="replace")
            if "finished the dump" in log:
                dump = job.folder / "flight" / f"nccl_trace_rank_{rank}"
                shutil.copy2(dump, output / "flight")
                looks[f"flight/{dump.name}"] = dump.stat().st_mtime
                asked.discard(rank)
            elif job.exit_codes[rank] is not None or _stopped(job.pids[rank]):
                asked.discard(rank)
        time.sleep(0.05)
    for log_file in (job.folder / "logs").iterdir():
        shutil.copy(log_file, output / "logs")
    (output / "instance.json").write_text(json.dumps(job.facts()))
    (output / "manifest.json").write_text(json.dumps({"schema": "rankmuster.bundle/1", "look_times": looks}))
    return output


def _ask(pipe: Path) -> bool:
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.write(descriptor, b"1\n")
    os.close(descriptor)
    return True


def _stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
