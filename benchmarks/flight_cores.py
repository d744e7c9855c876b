"""`rankmuster flight` on so many cores: seconds, processor seconds and peak memory, the best of five, as JSON.

    python benchmarks/flight_cores.py [--ranks 64 1024] [--cores 1 2 4 8 16] > docs/measured/flight-cores.json

Synthetic dumps (benchmarks/flight), a rank that stopped calling; files in the page cache; the command is a process of
its own, held to its cores by `taskset`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.flight import generate, world  # noqa: E402  # found only now
from benchmarks.flight.settings import Fault, FaultKind, Look, Settings  # noqa: E402

RUNS = 5


def job(ranks: int) -> Settings:
    """TP 8 x PP 4 x DP the rest, experts over 8."""
    replicas = ranks // 32
    return Settings(tp=8, pp=4, dp=replicas, ep=min(8, replicas), look=Look.HUNG, fault=Fault(FaultKind.HOST_STOP))


def measured(command: list[str], cores: int) -> dict[str, object]:
    """The fastest of RUNS."""
    best: dict[str, object] = {}
    for _ in range(RUNS):
        start = time.perf_counter()
        process = subprocess.Popen(
            ["taskset", "-c", f"0-{cores - 1}", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdout is not None
        said = process.stdout.read().decode()
        _, status, use = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if not best or seconds < float(str(best["seconds"])):
            best = {
                "cores": cores,
                "seconds": round(seconds, 3),
                "processor_seconds": round(use.ru_utime + use.ru_stime, 3),
                "peak_mb": use.ru_maxrss // 1024,
                "status": status >> 8,
                "said": said.splitlines()[0] if said else "",
            }
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in options.ranks:
            out = Path(folder, str(ranks))
            size = generate.write(world.make(job(ranks)), out, processes=os.cpu_count() or 1)
            command = [str(Path(sys.executable).with_name("rankmuster")), "flight", str(out / "input")]
            if not Path(command[0]).exists():
                command[:1] = [sys.executable, "-m", "rankmuster.cli.main"]
            for cores in (count for count in options.cores if count <= (os.cpu_count() or 1)):
                rows.append({"ranks": ranks, "dump_mb": round(size / 1e6), **measured(command, cores)})
    when = datetime.datetime.now(datetime.timezone.utc)
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())  # fmt: skip
    machine = {"date": when.date().isoformat(), "processor": model, "cores": os.cpu_count()}
    print(json.dumps({**machine, "python": platform.python_version(), "runs": RUNS, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
