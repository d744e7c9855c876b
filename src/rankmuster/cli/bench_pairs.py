"""`rankmuster bench pairs`: find slow nodes, and slow rails of nodes, by measuring pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.bench.builtin.orders import Backend
from rankmuster.cli.bench_launch_options import (
    FIRST_PORT,
    MOST_NODES,
    Address,
    GpusPerNode,
    LauncherName,
    LauncherOptions,
    MeasuredBy,
    Nodes,
    NodesPython,
    NodesTool,
    RankBackend,
    RankVariables,
    Remote,
    launcher_of,
    launching,
)
from rankmuster.cli.bench_pairs_given import known_of, rails_of
from rankmuster.cli.given import names_of, profile_of, variables_of
from rankmuster.cli.measure_options import MOST_SECONDS
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.baseline.pairs import PairResult

TIME_LIMIT_SECONDS = 300.0
"""Of one pair: importing torch from a network file system takes a minute, the sizes of `pairs` a few seconds."""


class PairsStatus(IntEnum):
    """0 every node is good; 1 a node or a path is bad, or a pair hung or had wrong values; 2 it cannot be told of some;
    3 nothing was measured."""

    GOOD = 0
    BAD = 1
    UNDECIDED = 2
    NO_ANSWER = 3


def pairs(
    nodes: Nodes,
    launcher: Annotated[
        LauncherName | None,
        typer.Option("--launcher", help="What starts ranks there; without one only --results are judged."),
    ] = None,
    launcher_options: LauncherOptions = None,
    remote: Remote = None,
    overlap: Annotated[bool, typer.Option("--overlap", help="slurm: as steps of the allocation this runs in.")] = False,
    gpus: GpusPerNode = 1,
    rails: Annotated[
        bool, typer.Option("--rails", help="Each GPU with its nearest NIC by itself, as this machine has them.")
    ] = False,
    rail: Annotated[
        list[str] | None,
        typer.Option("--rail", metavar="GPU=NIC[,NIC]", help="One rail, like 0=mlx5_0; may repeat."),
    ] = None,
    profile_name: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME|FILE", help="What a pair measures; its first operation counts."),
    ] = None,
    tool: MeasuredBy = NodesTool.BUILT_IN,
    python: NodesPython = "python3",
    backend: RankBackend = Backend.NCCL,
    variables: RankVariables = None,
    address: Address = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=1024, max=65000, help="The first of the ports for rank 0.")
    ] = FIRST_PORT,
    floor: Annotated[
        float | None,
        typer.Option("--floor", metavar="GB/S", min=0.001, help="Bus bandwidth that a pair must reach; else relative."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", metavar="PART", min=0.001, max=0.999, help="So much below the best: slow."),
    ] = None,
    trusted: Annotated[
        str, typer.Option("--trusted", metavar="A,B", help="Nodes that are known to be good from elsewhere.")
    ] = "",
    rounds: Annotated[
        int,
        typer.Option("--rounds", metavar="N", min=1, max=MOST_NODES, help="Rounds in any case; nodes - 1: every path."),
    ] = 1,
    limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", min=1, max=MOST_SECONDS, help="Of one pair.")
    ] = TIME_LIMIT_SECONDS,
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", metavar="FILE", help="Pairs that were measured before (from --save); may repeat."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Append each result to this file as it comes.")
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Print the next round's pairs and commands; start nothing.")
    ] = False,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Measure disjoint pairs of nodes, then those in doubt with nodes that are proven, until it is known who is slow.

    All GPUs of two nodes together are bound by NVLink and hide a weak NIC: one GPU per node is the default, and --rails
    or --rail measure each GPU with its own NIC. Of two nodes it cannot be told which one is slow: give three or more.

    Exit status: 0 every node is good, 1 a node or a path between two is bad, or a pair hung or had wrong values, 2 it
    cannot be told of some (the text says what would tell), 3 nothing could be measured, or bad usage.
    """
    names = names_of(nodes, "--nodes")
    known_good = names_of(trusted, "--trusted") if trusted else ()
    if len(names) < 2:
        raise CommandError("--nodes needs two nodes at least, and three to tell which of two is slow")
    if len(names) > MOST_NODES:
        raise CommandError(f"--nodes has {len(names)} nodes; {MOST_NODES} at most")
    given = variables_of(variables or [])
    with doing("reading earlier results"):
        known = known_of(results or [], names)
    with doing("finding the rails"):
        chosen = rails_of(rails, rail or [])
    if chosen and gpus != 1:
        raise CommandError("a rail is one GPU per node; leave out --gpus-per-node")
    from rankmuster.baseline.pairs import TOLERANCE
    from rankmuster.bench.launch.pairs import Rules

    rules = Rules(floor, TOLERANCE if tolerance is None else tolerance, known_good, rounds)
    numbers = _numbers([one.gpu for one in chosen], known)
    if launcher is not None:
        with doing("choosing what to measure"):
            from rankmuster.bench.launch.pair import PairStarter
            from rankmuster.bench.launch.pairs import PROFILE

            starter = PairStarter(
                launcher=launcher_of(launcher, launcher_options or [], remote, overlap, python),
                profile=PROFILE if profile_name is None else profile_of(profile_name),
                gpus=gpus,
                limit_s=limit,
                rails={one.gpu: one for one in chosen},
                given=given,
                nccl_tests=tool is NodesTool.NCCL_TESTS,
                python=python,
                backend=backend,
                address=address,
                port=port,
            )
        if plan_only:
            with doing("planning the next round"), launching():
                text = starter.plan(names, numbers, known, rules)
            deliver(text, output)
            return PairsStatus.GOOD
        with doing(f"measuring pairs of {len(names)} nodes"), launching():
            from rankmuster.bench.launch.pairs import measure_pairs

            known = measure_pairs(names, numbers, starter.run, _teller(save), rules, known=known)
    elif plan_only:
        raise CommandError("--plan-only needs --launcher, whose commands it prints")
    elif not known:
        raise CommandError("there is nothing to judge: give --launcher to measure, or --results of earlier pairs")
    with doing("judging the pairs"):
        from rankmuster.baseline.pairs_rails import by_rail
        from rankmuster.baseline.pairs_words import as_text

        decoded = by_rail(names, known, floor=floor, tolerance=rules.tolerance, trusted=known_good)
        text = as_text(decoded)
    deliver(text, output)
    if any(one.bad for one in decoded.values()):
        return PairsStatus.BAD
    return PairsStatus.GOOD if all(one.all_good for one in decoded.values()) else PairsStatus.UNDECIDED


def _numbers(chosen: Sequence[int], known: Sequence[PairResult]) -> list[int | None]:
    """The rails: those that were asked for, else those of earlier results, else all GPUs of a node together."""
    if chosen:
        return list(chosen)
    return sorted({one.rail for one in known}, key=lambda number: -1 if number is None else number) or [None]


def _teller(save: Path | None) -> Callable[[PairResult], None]:
    """Says each result as it comes, and keeps it."""
    from rankmuster.baseline.pairs_file import as_line

    def told(result: PairResult) -> None:
        value = f"{result.busbw:.4g} GB/s" if result.busbw is not None else result.reason
        say(f"{result.first} - {result.second}{'' if result.rail is None else f', rail {result.rail}'}: {value}")
        if save is not None:
            try:
                with save.open("a", encoding="utf-8") as file:
                    file.write(as_line(result))
            except OSError as error:
                raise CommandError(f"cannot write {save}: {error.strerror or error}") from error

    return told
