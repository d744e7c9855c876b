"""Options of the commands that measure on this node: `bench run` and `admit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankmuster.bench.tool import Tool

TIME_LIMIT_SECONDS = 600.0
"""Of one run, by default: `links` takes one to two minutes on eight GPUs; a hang is known by its not ending."""

MOST_SECONDS = 86_400.0
"""Of a time limit, a day: whoever wants a longer one rather means none, and a hang would never end."""

MOST_GPUS = 1_024
"""Of one node; NVLink domains have 72 today."""

ProfileName = Annotated[
    str, typer.Option("--profile", metavar="NAME|FILE", help="What to measure; see `bench profiles`.")
]
MeasuringTool = Annotated[
    Tool, typer.Option("--tool", help="auto: nccl-tests where it is installed, else built-in, which needs torch.")
]
Gpus = Annotated[
    int | None, typer.Option("--gpus", metavar="N", min=2, max=MOST_GPUS, help="GPUs to use; all without it.")
]
TimeLimit = Annotated[
    float,
    typer.Option("--time-limit", metavar="SECONDS", min=1, max=MOST_SECONDS, help="Of one run; then it is killed."),
]
NcclTestsFolder = Annotated[
    Path | None, typer.Option("--nccl-tests", metavar="FOLDER", help="Where nccl-tests' programs are.")
]
