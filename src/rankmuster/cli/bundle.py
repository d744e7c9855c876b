"""`rankmuster bundle`: is a bundle what was collected, and one of several nodes' bundles."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.collect.bundle.verify import Verification

MOST_SHOWN = 50
"""Findings that are named one by one; what follows is counted."""

app = typer.Typer(
    name="bundle",
    help="Verify a bundle of evidence, or merge the bundles of several nodes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


class BundleStatus(IntEnum):
    """0 the bundle is whole (or was merged); 1 it is not what was written; 3 it cannot be looked at, or bad usage."""

    OK = 0
    NOT_OK = 1
    NO_ANSWER = 3


@app.command("verify", short_help="Say whether a bundle is whole and unchanged.")
def verify(
    given: Annotated[str, typer.Argument(metavar="PATH", help="A bundle: a folder, or a .tar.zst.")],
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Say whether a bundle is what was collected: every file by size and digest, none missing, none added.

    Everything that is wrong is named, one line each. An archive is read without unpacking it to disk. The seal and the
    digests tell damage and careless changes; they are no signature. A bundle of a later version verifies too, as long
    as its schema is rankmuster.bundle/1.

    Exit status: 0 whole and unchanged, 1 not (or no bundle), 3 it cannot be looked at (missing, forbidden, no archive,
    another schema, bad usage).
    """
    path = _path(given)
    with doing("loading the program"):
        from rankmuster.collect.bundle.contents import BundleUnreadable
        from rankmuster.collect.bundle.verify import verify as examine
    with doing(f"verifying {path}"):
        try:
            result = examine(path)
        except BundleUnreadable as error:
            raise CommandError(str(error)) from error
    write_stdout(_told(path, result))
    return BundleStatus.OK if result.ok else BundleStatus.NOT_OK


@app.command("merge", short_help="Make one bundle of several nodes' bundles.")
def merge(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The new bundle: a folder, or a .tar.zst.")],
    bundles: Annotated[list[str], typer.Argument(metavar="BUNDLE...", help="The bundles of the nodes.")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Take what can be used of bundles that do not verify or do not fit together."),
    ] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Make one bundle of the bundles of several nodes of one instance, for one verdict on all of it.

    Each node's files stand below nodes/HOST/, one instance.json describes all ranks, and a dump that several nodes took
    from a shared file system is kept once. Bundles of different instances or incarnations are refused, and so are
    bundles that do not verify. Nothing is written over.

    The new bundle's path goes to standard output, what happened to standard error.

    Exit status: 0 merged, 3 not (nothing is written then).
    """
    target = _path(output)
    sources = [_path(given) for given in bundles]
    with doing("loading the program"):
        from rankmuster.collect.bundle.contents import BundleUnreadable
        from rankmuster.collect.bundle.merge import MergeRefused
        from rankmuster.collect.bundle.merge import merge as combine
        from rankmuster.collect.bundle.write import NotWritten, OutputRefused
        from rankmuster.report.inert import plain
    with doing(f"merging {len(sources)} bundle(s) into {target}"):
        try:
            merged = combine(sources, target, force=force)
        except (MergeRefused, BundleUnreadable, OutputRefused, NotWritten) as error:
            raise CommandError(str(error)) from error
    shared = f", {merged.shared} dump(s) that several nodes took kept once" if merged.shared else ""
    names = ", ".join(map(plain, merged.nodes))
    say(f"merged {len(merged.nodes)} bundle(s): {names}; {merged.sealed.files} files{shared}")
    for note in (*merged.notes[:MOST_SHOWN], *merged.sealed.notes):
        say(f"  {plain(note, limit=400)}")
    write_stdout(f"{merged.sealed.path}\n")
    return BundleStatus.OK


def _path(given: str) -> Path:
    if not given:
        raise CommandError("a path is empty (a variable that is not set?); name a bundle")
    return Path(given)


def _told(path: Path, result: Verification) -> str:
    from rankmuster.report.inert import plain

    name = plain(str(path), limit=400)
    if result.ok:
        host = f" of {plain(result.manifest.host)}" if result.manifest and result.manifest.host else ""
        return f"{name}: whole and unchanged: {result.files} files, {result.size} bytes{host}\n"
    lines = [f"{name}: not what was collected, {len(result.findings)} finding(s); {result.files} file(s) are sound"]
    for finding in result.findings[:MOST_SHOWN]:
        where = plain(finding.path, limit=200) or "the bundle"
        lines.append(f"  {finding.wrong.value:<12} {where}: {plain(finding.message, limit=300)}")
    if len(result.findings) > MOST_SHOWN:
        lines.append(f"  ... and {len(result.findings) - MOST_SHOWN} more")
    return "\n".join(lines) + "\n"
