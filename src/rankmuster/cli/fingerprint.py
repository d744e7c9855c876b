"""`rankmuster fingerprint`: what a node's communication path is made of, and what changed between two of them."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli import fingerprint_sources as sources
from rankmuster.cli.given import stored_fingerprint
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.verdict_output import color_wanted, printed

if TYPE_CHECKING:
    from rankmuster.model.fingerprint import Fingerprint

DEADLINE_SECONDS = 30.0
"""For everything that is read of this machine; a driver that hangs after a GPU fault costs no more. Eight healthy GPUs
take two to three seconds."""
MOST_DEADLINE = 600.0

fingerprint_app = typer.Typer(
    help="What a node's communication path is made of: take a fingerprint, or compare two.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class FingerprintStatus(IntEnum):
    """Taking: 0 the class is known, 2 it is not, 3 nothing can be read. Comparing: 0 the same, 1 they differ, 2 it
    cannot be told since parts are unknown, 3 a file cannot be read."""

    SAME = 0
    DIFFERS = 1
    UNKNOWN = 2
    NO_ANSWER = 3


class FingerprintFormat(str, Enum):
    """How a fingerprint is written."""

    YAML = "yaml"
    JSON = "json"
    TERMINAL = "terminal"


class DiffFormat(str, Enum):
    """How a comparison is written."""

    TERMINAL = "terminal"
    JSON = "json"


@fingerprint_app.callback()
def fingerprint(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PATH", help="Captured text, a folder of it or a bundle, instead of this machine."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Which node, where --from has several.")] = "",
    taken: Annotated[
        str,
        typer.Option("--taken-at", metavar="TIME", help="When it was captured, for --from; UTC without a zone."),
    ] = "",
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="A process of the instance: its container, libraries, variables.")
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option("--python", metavar="FILE", help="The Python that serves: its torch, NCCL and engine."),
    ] = None,
    image_digest: Annotated[
        str, typer.Option("--image-digest", metavar="DIGEST", help="Of the container's image, sha256:...; or none.")
    ] = "",
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME=VERSION", help="The serving engine, vllm=0.15.1; or none.")
    ] = "",
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="The benchmark profile that belongs to it.")
    ] = "",
    deadline: Annotated[
        float, typer.Option("--deadline", min=1, max=MOST_DEADLINE, help="Seconds for reading this machine.")
    ] = DEADLINE_SECONDS,
    form: Annotated[
        FingerprintFormat, typer.Option("--format", help="yaml or json: the schema, to store; terminal: to read.")
    ] = FingerprintFormat.YAML,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Take the fingerprint of this node, or of captured text: versions, GPUs, links, NICs, settings, and their hashes.

    What cannot be read is unknown, with the reason, and an unknown never equals anything. A stored fingerprint is never
    written over, and a changed one is refused when it is read.

    Exit status: 0 taken, 2 taken, but its class is unknown (parts that it depends on are), 3 nothing could be read or
    written, bad usage.
    """
    if context.invoked_subcommand is not None:
        return FingerprintStatus.SAME
    digest = sources.digest(image_digest)
    served = sources.engine(engine)
    key = sources.profile_key(profile)
    at = sources.captured_at(taken, source)
    _refuse_to_overwrite(output)
    path = sources.live(host, pid, python, deadline) if source is None else sources.captured(source, host, pid, python)
    if at is not None:
        path = replace(path, taken_at=at)
    software = path.software
    if digest is not None:
        software = replace(software, image_digest=digest)
    if served is not None:
        software = replace(software, engine=served[0], engine_version=served[1])
    path = replace(path, software=software)
    with doing("making the fingerprint"):
        from rankmuster.baseline.fingerprint.build import fingerprint_of

        found = fingerprint_of(path, profile_key=key)
        text = _written(found, form, color_wanted(False, output))
    deliver(text, output)
    return _status(found, told=form is FingerprintFormat.TERMINAL and output is None)


@fingerprint_app.command("diff", short_help="Say what changed between two fingerprints, and what that does.")
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="The earlier fingerprint.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The later one, or of another node.")],
    form: Annotated[
        DiffFormat, typer.Option("--format", help="terminal: to read; json: the schema.")
    ] = DiffFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Say in words what changed between two fingerprints, what that does to NCCL's choices, and what to measure anew.

    The most consequential change comes first. What is unknown on a side is a change that cannot be decided.

    Exit status: 0 the same, 1 they differ, 2 no difference is known but parts are unknown, 3 a file cannot be read.
    """
    first, second = stored_fingerprint(before), stored_fingerprint(after)
    with doing("comparing two fingerprints"):
        from rankmuster.baseline.fingerprint.changes import changes, undecided
        from rankmuster.report import fingerprint_diff

        found = changes(first, second)
        if form is DiffFormat.JSON:
            text = fingerprint_diff.as_json(first, second, found)
        else:
            text = printed(
                lambda console: fingerprint_diff.render(first, second, found, console),
                width=None,
                color=color_wanted(False, output),
            )
    deliver(text, output)
    if not found:
        return FingerprintStatus.SAME
    return FingerprintStatus.UNKNOWN if all(undecided(one) for one in found) else FingerprintStatus.DIFFERS


def _written(found: Fingerprint, form: FingerprintFormat, color: bool) -> str:
    from rankmuster.report import fingerprint_terminal, fingerprint_yaml

    if form is FingerprintFormat.YAML:
        return fingerprint_yaml.as_yaml(found)
    if form is FingerprintFormat.JSON:
        return fingerprint_yaml.as_json(found)
    return printed(lambda console: fingerprint_terminal.render(found, console), width=None, color=color)


def _refuse_to_overwrite(output: Path | None) -> None:
    """A stored fingerprint is immutable: another one has another name."""
    if output is not None and output.is_file() and output.stat().st_size:
        raise CommandError(f"{output} is there already, and a stored fingerprint is never written over; name another")


def _status(found: Fingerprint, told: bool) -> int:
    """`told`: the screen says already what is unknown."""
    from rankmuster.model.unknown import Unknown

    if not isinstance(found.class_hash, Unknown):
        return FingerprintStatus.SAME
    if not told:
        say(f"the class is unknown, so no history applies: {found.class_hash.reason}")
    return FingerprintStatus.UNKNOWN
