"""`rankmuster bench profiles` and `bench profile`: what there is to measure, and what an instance's own load is."""

from __future__ import annotations

import textwrap
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say, table_width
from rankmuster.cli.status import CommandError, ExitStatus, doing


class By(str, Enum):
    """What makes an operation of an instance matter."""

    TIME = "time"
    COUNT = "count"


def show(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A profile, or a file of one, to show as YAML.")
    ] = None,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """List the profiles with what they measure and where their sizes come from, or show one as YAML.

    The YAML is the start of a profile of your own; a file of one is checked and shown in full.

    Exit status: 0 shown, 3 there is no such profile, the file is none, or bad usage.
    """
    with doing("showing the profiles"):
        from rankmuster.bench.profile_choice import NoProfile, chosen
        from rankmuster.bench.profile_file import as_yaml
        from rankmuster.bench.profiles import built_in

        if name is None:
            width = table_width()
            parts = []
            for profile in built_in():
                text = textwrap.fill(
                    profile.description, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
                )
                parts.append(f"{profile.name}  ({profile.key})\n{text}\n")
            deliver("\n".join(parts), output)
            return ExitStatus.HEALTHY
        try:
            text = as_yaml(chosen(name))
        except NoProfile as error:
            raise CommandError(str(error)) from error
    deliver(text, output)
    return ExitStatus.HEALTHY


def compute(
    source: Annotated[
        Path, typer.Option("--from", metavar="BUNDLE", help="A bundle, folder or archive with Flight Recorder dumps.")
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The profile's name.")] = "own",
    by: Annotated[
        By | None,
        typer.Option("--by", help="What weighs an operation; time where the dumps have durations, else count."),
    ] = None,
    most: Annotated[
        int, typer.Option("--sizes", metavar="N", min=1, max=256, help="Sizes of all steps together, the heaviest.")
    ] = 16,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Compute a profile from the collectives that an instance made: operations, sizes and types by their weight.

    What leaves no entries in the Flight Recorder (replays of CUDA graphs, custom all-reduce kernels) is not in it.

    Exit status: 0 computed, 3 nothing to compute from, or bad usage.
    """
    from rankmuster.cli.reading import read

    evidence = read(source)
    with doing(f"computing a profile from {source}"):
        from rankmuster.bench.profile_file import ProfileError, as_yaml, read_profile
        from rankmuster.bench.profile_from_bundle import NothingRecorded, Weight, profile_of

        try:
            made = profile_of(evidence, name=name, weight=Weight(by.value) if by else None, most=most)
            text = as_yaml(made.profile, made.notes)
            read_profile(text.encode(), "the profile")
        except NothingRecorded as error:
            raise CommandError(f"{source}: {error}") from error
        except ProfileError as error:
            raise CommandError(str(error)) from error
    if deliver(text, output):
        for note in made.notes:
            say(f"  {note}")
    return ExitStatus.HEALTHY
