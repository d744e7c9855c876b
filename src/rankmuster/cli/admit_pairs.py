"""`rankmuster admit pairs`: may these nodes serve together? From measured pairs or rails, and NCCL's logs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.admit_output import Format, status_of, text_of
from rankmuster.cli.bench_pairs_given import pair_results
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver
from rankmuster.cli.status import CommandError, doing

MOST_GBS = 100_000.0


def pairs(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of pairs, as `bench pairs` writes them.")
    ],
    floor: Annotated[
        float | None,
        typer.Option(
            "--floor", metavar="GB/S", min=0.001, max=MOST_GBS, help="What every pair must reach, beside its peers."
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None, typer.Option("--node", metavar="NAME", help="A node that is to be admitted; may repeat.")
    ] = None,
    trusted: Annotated[
        list[str] | None, typer.Option("--trust", metavar="NAME", help="A node known to be good; may repeat.")
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--nccl-log", metavar="FILE", help="NCCL's log of a start over the nodes; may repeat."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="terminal: to read; json: the record; junit: for CI; html: a page.")
    ] = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Decide whether nodes may serve together: every pair or rail fast enough, every link up at the first attempt.

    Each node is to be admitted by itself before. A pair that hung or had wrong values fails the set. Without --floor
    pairs are compared with each other alone, which is provisional at best.

    Exit status: 0 pass, 1 fail, 2 provisional (a node or path cannot be told apart, or there is no floor), 3 error.
    """
    with doing("reading the pairs"):
        found = pair_results(files)
        observations = _logs(logs or [])
    with doing("admitting the nodes"):
        from rankmuster.admission.nodes import admit_nodes

        now = time.time()
        began = min((_modified(path) for path in files), default=now)
        record = admit_nodes(
            found,
            started_at=min(began, now),
            ended_at=now,
            floor=floor,
            nodes=nodes or (),
            trusted=trusted or (),
            log=observations,
        )
    with doing("writing the answer"):
        text = text_of(record, None, form, output)
    deliver(text, output)
    return status_of(record)


def _logs(paths: list[Path]) -> list[object]:
    from rankmuster.evidence import nccl_log
    from rankmuster.evidence.bundle import load
    from rankmuster.evidence.folder import EvidenceEmpty, EvidenceForbidden, EvidenceMissing, EvidenceUnreadable

    found: list[object] = []
    for path in paths:
        try:
            evidence = load(path, readers=(nccl_log.READER,))
        except (EvidenceMissing, EvidenceEmpty, EvidenceForbidden, EvidenceUnreadable) as error:
            raise CommandError(str(error)) from error
        found += [each for kind in evidence.by_type.values() for each in kind]
    return found


def _modified(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return time.time()
