"""One rank's process: `python -m rankmuster.drill.worker FOLDER --parent PID`, with RANK and so on in its environment.

Binds itself to its parent before anything else, and ends itself after the plan's time whatever happens.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path

from rankmuster.drill import own_place
from rankmuster.drill.faults import Deed, When, fault_named
from rankmuster.drill.plan import PLAN, TALLY, JobPlan
from rankmuster.drill.tally import RankState, Tally
from rankmuster.drill.tether import die_with

OUT_OF_TIME = 3
"""Exit status of a rank that ended itself."""


def main(arguments: list[str]) -> None:
    """Runs one rank to its end, which is usually a signal."""
    folder, parent = Path(arguments[0]), int(arguments[2])
    die_with(parent)
    # A rank that is meant to break leaves no core of gigabytes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    plan = JobPlan.from_json((folder / PLAN).read_text())
    rank = int(os.environ["RANK"])
    fault = fault_named(plan.fault)
    own_place.enter(fault.place, culprit=rank == plan.culprit)
    late = threading.Timer(plan.most_seconds, os._exit, (OUT_OF_TIME,))
    late.daemon = True
    late.start()
    tally = Tally(folder / TALLY)
    made = fault.when is When.START and rank == plan.culprit
    if made:
        tally.fault_at = time.time_ns()

    from rankmuster.drill import rank_loop  # takes seconds: torch

    tally.reach(rank, RankState.LOADED)
    rank_loop.run(plan, rank, tally, folder, absent=made and fault.deed is Deed.ABSENT)


if __name__ == "__main__":
    main(sys.argv[1:])
