"""Options that all commands of the drill have, each said once."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankmuster.collect.find.seen import MARKERS
from rankmuster.drill.apart import ALLOWED, PLACES
from rankmuster.drill.plan import Backend
from rankmuster.drill.run import RAS_PORT, START_SECONDS


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """The options of every drill: what job, and where its files go."""
    backends = "|".join(backend.value for backend in Backend)
    parser.add_argument(
        "--backend", type=Backend, default=Backend.GLOO, metavar=backends, help="gloo needs no GPU (default)"
    )
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="one a GPU with nccl; 4 by default")
    parser.add_argument(
        "--culprit", type=int, metavar="RANK", help="the rank that has the fault; else the last but one"
    )
    parser.add_argument("--graph", action="store_true", help="replay the step as a CUDA graph")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="more for the ranks")
    parser.add_argument(
        "--start-seconds", type=float, default=START_SECONDS, metavar="SECONDS", help="for a job to serve"
    )
    parser.add_argument("--ras-port", type=int, default=RAS_PORT, metavar="PORT", help="of the first job")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="a new folder for jobs, bundles and results"
    )


def variable(text: str) -> tuple[str, str]:
    """`NAME=VALUE` in two; raises ValueError for anything else."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"--env {text!r} is not NAME=VALUE")
    if name in (*MARKERS, ALLOWED, *PLACES):
        raise ValueError(
            f"--env {name} names an instance or a place of its own, which are the drill's to say: leave it out"
        )
    return name, value
