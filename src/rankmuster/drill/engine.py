"""A small serving engine over real ranks, started like any other: `python -m rankmuster.drill.engine FOLDER --port P`.

This process is its launcher. As torchrun does, it ends everything when one process ends, and then ends itself with that
one's status; a second start in the same FOLDER is the next incarnation, at the same address. SIGTERM and SIGINT end it:
nothing has to be written down first, so its ranks get SIGKILL (a rank that hangs would wait for its signals for ever).
Exit status: that of what ended first; 0 after a signal; 3 bad usage.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rankmuster.collect.find.seen import INCARNATION
from rankmuster.drill.apart import Owner
from rankmuster.drill.engine_folder import EngineFolder, FaultOrder, Incarnation
from rankmuster.drill.engine_job import EngineJob
from rankmuster.drill.faults import FAULTS, fault_named
from rankmuster.drill.job import JobFailed
from rankmuster.drill.plan import Backend, JobPlan, Serving
from rankmuster.drill.run import RAS_PORT
from rankmuster.drill.surroundings import MARKER, surroundings
from rankmuster.drill.usage import began
from rankmuster.drill.watched import NCCL_SIZES

BAD_USAGE = 3
LOOK_SECONDS = 0.1
"""Between two looks whether all live; torchrun's monitor interval."""
MOST_SECONDS = 3600.0
"""After which every rank ends itself, whatever happens around it."""


class _Parser(argparse.ArgumentParser):
    """Its own exit status for bad usage would be 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_USAGE, f"{self.prog}: {message}\n")


def main(arguments: list[str]) -> int:
    """Runs one incarnation to its end."""
    told = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: told.set())
    options = _parser().parse_args(arguments)
    owner = Owner(options.owner) if options.owner is not None else None
    try:
        place = EngineFolder(options.folder)
        number, folder = place.new()
        plan = plan_of(options, place.ordered(number))
        name = os.environ.get(INCARNATION)
        about = Incarnation(number, plan.instance, os.getpid(), began(os.getpid()), port=options.port, name=name)
        place.tell(about)
        job = EngineJob(plan, _environment(options, plan, folder), folder, port=options.port)
        with job:
            ranks = tuple(job.pids.values())
            place.tell(replace(about, ranks=ranks, front=job.server_pid, port=job.front.port))
            print(f"incarnation {number} of {plan.instance}: launcher {about.pid}, ranks {list(ranks)}", flush=True)
            while not told.wait(LOOK_SECONDS):
                if owner is not None and owner.gone:
                    print("whoever wanted this engine has ended: all are ended", flush=True)
                    return 0
                job.heed()
                if (status := job.broken) is not None:
                    print(f"a process ended with {status}: all are ended", flush=True)
                    return status
    except (ValueError, TypeError, OSError, JobFailed) as error:
        sys.stderr.write(f"rankmuster.drill.engine: {error}\n")
        return BAD_USAGE
    return 0


def plan_of(options: argparse.Namespace, order: FaultOrder | None) -> JobPlan:
    """Of one incarnation. Raises ValueError for one that cannot be."""
    backend: Backend = options.backend
    fault = fault_named(order.fault if order is not None else "none")
    fault.truth(backend)
    serving = Serving(front=True, load_seconds=options.load_seconds, most_running=options.most_running)
    more = {
        "fault": fault.name,
        "culprit": order.culprit if order is not None else 0,
        "graph": options.graph,
        "serving": serving,
        "most_seconds": MOST_SECONDS,
    }
    instance = options.instance or os.environ.get(MARKER) or "drill-engine"
    if backend is Backend.GLOO:
        return JobPlan.small(instance, options.ranks, **more)
    return JobPlan(instance, options.ranks, backend, **{**NCCL_SIZES, **more})


def _environment(options: argparse.Namespace, plan: JobPlan, folder: Path) -> dict[str, str]:
    """What whoever starts the engine has set goes before the drill's own."""
    own = surroundings(folder, plan.instance, plan.backend, options.ras_port)
    return {name: value for name, value in own.items() if name == MARKER or name not in os.environ}


def _parser() -> argparse.ArgumentParser:
    backends = "|".join(backend.value for backend in Backend)
    parser = _Parser(
        prog="python -m rankmuster.drill.engine", description=__doc__, epilog=f"faults: {', '.join(FAULTS)}"
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="its own over all incarnations")
    parser.add_argument("--port", type=int, default=0, help="of its front end on loopback, 0 for any")
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="one a GPU with nccl; 4 by default")
    parser.add_argument("--backend", type=Backend, default=Backend.GLOO, metavar=backends, help="gloo by default")
    parser.add_argument("--graph", action="store_true", help="decode by a CUDA graph")
    parser.add_argument("--owner", type=int, metavar="PID", help="end when this process does")
    parser.add_argument("--instance", metavar="NAME", help=f"else {MARKER} of the environment")
    parser.add_argument("--most-running", type=int, default=8, metavar="N", help="requests in one batch")
    parser.add_argument("--load-seconds", type=float, default=0.0, metavar="SECONDS", help="of its weights")
    parser.add_argument("--ras-port", type=int, default=RAS_PORT, metavar="PORT", help="of NCCL's RAS")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
