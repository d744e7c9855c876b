"""`rankmuster flight summarize`: one node's dumps into one small file, where they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug, named
from rankmuster.cli.output import leave_stdout, say, write_bytes
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.evidence.bundle import Evidence
    from rankmuster.evidence.flight_summary_node import NodeDumps

MOST_SAID = 8
"""Damaged files named on the screen; all of them are named in the summary."""


def summarize(
    given: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER...", help="This node's dumps: a folder of them, an archive, or files."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="This file, whole or not at all; - is standard output; a folder gets a file named by host and time.",
        ),
    ] = ".",
    host: Annotated[
        str,
        typer.Option("--host", metavar="NAME", help="The node whose dumps these are; findings then name it as theirs."),
    ] = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Write the Flight Recorder dumps of one node into one small file, for `rankmuster flight merge`.

    Everything but the stacks is kept; of the stacks, that of each rank's last call. Files that are no dumps are passed
    over. A damaged dump is kept as far as it can be read, and said.

    Where the dumps are is known only with --host: without it the file is named after this machine and findings name
    none, for a folder may be shared by many.

    Exit status: 0 written, 3 not (no dump, bad usage, unreadable input).
    """
    import platform
    import time

    paths = [_path(one) for one in given]
    if output == "-" and sys.stdout.isatty():
        raise CommandError("a summary is binary, and standard output is a terminal; name a file, or redirect it")
    now = time.time()
    node = host or platform.node() or "node"
    evidence = _read(paths)
    with doing("summarising the dumps"):
        from rankmuster.evidence.flight_summary_node import gathered
        from rankmuster.evidence.flight_summary_write import encode

        found = gathered(evidence, node, host or None, now)
        if not found.dumps:
            raise CommandError(_nothing(paths, evidence))
        data = encode(found)
    _refuse_too_large(data)
    if output == "-":
        where = "standard output"
        _to_stdout(data)
    else:
        target = Path(output) / default_name(node, now) if os.path.isdir(output) else Path(output)
        where = str(target)
        write_bytes(target, data)
    for line in _told(found, evidence, len(data), where):
        say(line)
    return ExitStatus.HEALTHY


def default_name(node: str, seconds: float) -> str:
    """`flight-n7-20261129T181023Z.rfs`, for a node and a time in unix seconds."""
    from datetime import datetime, timezone

    from rankmuster.evidence.flight_summary_schema import SUFFIX

    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in node)
    when = datetime.fromtimestamp(seconds, timezone.utc)
    return f"flight-{name[:100].lstrip('.') or 'node'}-{when:%Y%m%dT%H%M%SZ}{SUFFIX}"


def _path(given: str) -> Path:
    if not given:
        raise CommandError("FOLDER is empty (a variable that is not set?); name a folder with dumps, or . for this one")
    return Path(given)


def _read(paths: list[Path]) -> Evidence:
    with doing("loading the program"):
        load_numpy()
        from rankmuster.cli.reading import reading
        from rankmuster.cli.workers import each_on_all_cores
        from rankmuster.evidence.bundle import load_all
        from rankmuster.evidence.flight_summary_node import OF_A_NODE

    with reading("the dumps", *paths):
        return load_all(paths, each_on_all_cores(), OF_A_NODE)


def _nothing(paths: list[Path], evidence: Evidence) -> str:
    """Why there is nothing to summarise, and what to do."""
    from rankmuster.evidence.flight_summary_schema import SUFFIX

    files = len(evidence.sources)
    text = f"nothing to summarise: no Flight Recorder dump among the {files} file(s) of {named(paths)}"
    if any(source.path.endswith(SUFFIX) for source in evidence.sources):
        return f"{text}; summaries are read by rankmuster flight merge"
    return f"{text}; dumps are where TORCH_FR_DUMP_TEMP_FILE says, one file a rank (nccl_trace_rank_3)"


def _refuse_too_large(data: bytes) -> None:
    from rankmuster.evidence.folder import MAX_FILE_BYTES

    if len(data) > MAX_FILE_BYTES:
        raise CommandError(
            f"the summary would be {len(data) >> 20} MiB, and of a file {MAX_FILE_BYTES >> 20} MiB are read; "
            "summarise fewer ranks at a time: name the files of some of them"
        )


def _to_stdout(data: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        leave_stdout()
        why = error.strerror or error
        raise CommandError(f"the summary was not written whole to standard output ({why}); write it again") from error


def _told(found: NodeDumps, evidence: Evidence, size: int, where: str) -> list[str]:
    from rankmuster.model.ranks_text import ranks_text
    from rankmuster.report.inert import plain

    ranks = [dump.rank for dump in found.dumps if dump.rank is not None]
    unnamed = len(found.dumps) - len(ranks)
    whose = ranks_text(ranks) + (f" and {unnamed} dump(s) of unknown rank" if unnamed else "")
    paths = {dump.source for dump in found.dumps}
    before = sum(source.size for source in evidence.sources if source.path in paths)
    lines = [
        f"wrote {plain(where, limit=400)}: {plain(found.node)}, {whose}: {found.entries} entries in {size} bytes "
        f"(dumps: {before} bytes)"
    ]
    told = [f"  {plain(one.source, limit=200)}: {plain(one.message, limit=300)}" for one in found.problems]
    more = len(told) - MOST_SAID
    return [*lines, *told[:MOST_SAID], *([f"  and {more} more, which merge will name"] if more > 0 else [])]
