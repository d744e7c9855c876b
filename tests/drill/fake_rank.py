"""Stands where a rank stands, without torch: tells the tally what a rank tells, and does what FAKE says.

serve: works, and makes its fault by name when the word is given. exit: ends with status 7. mute: never serves.
child: works, ignores SIGTERM, and has a child of its own that ignores it too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rankmuster.drill import own_place
from rankmuster.drill.counts import Counts
from rankmuster.drill.faults import When, fault_named
from rankmuster.drill.ledger import Ledger
from rankmuster.drill.plan import LEDGER, PLAN, STEPS, TALLY, JobPlan
from rankmuster.drill.tally import RankState, Tally
from rankmuster.drill.tether import die_with

SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"


def main() -> None:
    folder, parent, rank, how = Path(sys.argv[1]), int(sys.argv[3]), int(os.environ["RANK"]), os.environ["FAKE"]
    die_with(parent)
    plan = JobPlan.from_json((folder / PLAN).read_text())
    fault = fault_named(plan.fault)
    own_place.enter(fault.place, culprit=rank == plan.culprit)
    print(f"fake rank {rank} of {os.environ['WORLD_SIZE']} in {os.environ['RANKMUSTER_INSTANCE']}", flush=True)
    if how == "exit":
        sys.exit(7)
    if how == "mute":
        time.sleep(300)
    if how == "child":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", SLEEPER])
        (folder / f"child{rank}").write_text(str(child.pid))
    print(f"shm {os.stat('/dev/shm').st_dev} net {os.readlink('/proc/self/ns/net')}", flush=True)
    tally = Tally(folder / TALLY)
    if fault.when is When.START and rank == plan.culprit:
        tally.fault_at = time.time_ns()
    tally.reach(rank, RankState.SERVING)
    serve(plan, rank, tally, folder)


def serve(plan: JobPlan, rank: int, tally: Tally, folder: Path) -> None:
    fault = fault_named(plan.fault)
    number, made = 0, False
    tally.running = plan.batch if rank == 0 else tally.running
    ledger = Ledger(folder / LEDGER)
    with (folder / STEPS).open("a") as out:
        while True:
            time.sleep(0.002)
            if fault.when is When.ARMED and tally.armed and rank == plan.culprit and not made:
                tally.fault_at, made = time.time_ns(), True
            if plan.serving is not None and fault.stops and tally.fault_at:
                continue  # a rank that waits for its peers
            number += plan.sync_every
            if rank == 0:
                ledger.write(Counts(running=plan.batch, generated=number * plan.batch))
                tally.move(steps=number, tokens=number * plan.batch)
                out.write(f"{time.monotonic():.6f} {number} 0.002 {plan.sync_every}\n")
                out.flush()


main()
