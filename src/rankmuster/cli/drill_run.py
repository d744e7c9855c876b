"""`rankmuster drill run`: faults and controls, one after the other, against a target that was named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.drill_built_in import BuiltInAsked, drill_built_in
from rankmuster.cli.drill_own import OwnAsked, drill_own
from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, doing
from rankmuster.drill.plan import Backend
from rankmuster.model.drill_card import BUILT_IN


def run(
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="built-in|NAME", help="The drill's own instance, or one of yours by its name."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", metavar="FOLDER", help="A new folder for the card, the bundles and all logs.")
    ],
    faults: Annotated[list[str] | None, typer.Argument(metavar="FAULT", help="Names of `drill list`, or all.")] = None,
    backend: Annotated[
        Backend, typer.Option("--backend", help="gloo needs no GPU; nccl takes one for each rank.")
    ] = Backend.GLOO,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=2, help="Of the built-in instance; 4, or 2 with --quick.")
    ] = None,
    culprit: Annotated[
        int | None, typer.Option("--culprit", metavar="RANK", min=0, help="Who has the fault; else the last but one.")
    ] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Decode by a CUDA graph (nccl).")] = False,
    times: Annotated[int, typer.Option("--times", metavar="N", min=1, max=100, help="Runs of each fault.")] = 1,
    controls: Annotated[
        str, typer.Option("--controls", metavar="WHICH", help="default, all, none, or names of `drill list`.")
    ] = "default",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first drill in minutes: kill, freeze and stop, two ranks, short controls."),
    ] = False,
    period: Annotated[
        float | None,
        typer.Option("--period", metavar="SECONDS", min=1.0, max=60.0, help="Between two looks of the watch."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable for the built-in instance.")
    ] = None,
    no_gateway: Annotated[
        bool, typer.Option("--no-gateway", help="Leave HAProxy out, though it is installed: ask the engine itself.")
    ] = False,
    release_digest: Annotated[
        str, typer.Option("--release-digest", metavar="DIGEST", help="Of the release that is drilled, sha256:...")
    ] = "",
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="Of your job's watch: where its state file is.")
    ] = None,
    journal: Annotated[
        str, typer.Option("--journal", metavar="PLACE", help="Of your job's incidents: a file or postgresql:// URL.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Really do it to a job of your own; else you are asked.")] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Make each fault, watch the whole chain answer, then the controls in which nobody may act; and write the score
    card, card.json, into the folder.

    --target built-in starts a small serving engine of real ranks under `rankmuster run`, with clients, HAProxy where it
    is installed, `rankmuster watch` and `rankmuster incident serve`, and ends all of it. --target NAME is a job of your
    own, which has to allow it by RANKMUSTER_DRILL_ALLOWED=NAME in the environment of its processes: one signal to one
    rank, and what your own watch and runbook make of it.

    Exit status: 0 passed, 1 failed, 2 not enough (no fault could be judged, controls were left out), 3 nothing was
    drilled: bad usage, no marker, something is not installed. Ctrl-C ends everything, and the card says so.
    """
    artefact = _digest(release_digest)
    wanted = list(faults or ())
    if target != BUILT_IN:
        if graph or env or no_gateway or quick or ranks or period or backend is not Backend.GLOO:
            raise CommandError(
                "--backend, --ranks, --graph, --env, --no-gateway, --period and --quick are of the built-in "
                "instance: a job of your own is as it is"
            )
        own = OwnAsked(target, wanted, culprit, times, controls, state, journal, artefact, output, dry_run, yes)
        with doing(f"drilling {target}"):
            return drill_own(own)
    if state is not None or journal:
        raise CommandError("--state and --journal are of a job of your own: the built-in instance has its own")
    asked = BuiltInAsked(
        wanted, backend, ranks, culprit, graph, times, controls, quick, period, list(env or ()), not no_gateway,
        artefact, output, dry_run,
    )  # fmt: skip
    with doing("drilling the built-in instance"):
        return drill_built_in(asked)


def _digest(given: str) -> str | None:
    """As given. Raises CommandError for what is no digest."""
    import re

    if given and re.fullmatch(r"sha256:[0-9a-f]{64}", given) is None:
        raise CommandError(f"--release-digest {given[:100]}: give sha256: and 64 hex digits")
    return given or None
