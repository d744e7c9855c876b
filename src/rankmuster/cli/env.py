"""`rankmuster env`: the variables that make an instance leave evidence - print them, and check those that are set."""

from __future__ import annotations

import shutil
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile, version_of
from rankmuster.cli.output import deliver, say
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.environment.draft import ProfileName
from rankmuster.environment.variable import Engine
from rankmuster.environment.wrapped import WIDEST

if TYPE_CHECKING:
    from rankmuster.environment.given import Given
    from rankmuster.environment.profile import Profile

MOST_WINDOW = 86_400.0  # seconds; a day
MOST_BUFFER = 1_000_000  # entries; 250 MB a rank

env_app = typer.Typer(
    help="The variables that make an instance leave evidence: print a profile, or check what is set.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(str, Enum):
    """How a profile is written."""

    SHELL = "shell"
    YAML = "yaml"
    JSON = "json"


class CheckFormat(str, Enum):
    """How a check's answer is written."""

    TERMINAL = "terminal"
    JSON = "json"


@env_app.command("print", short_help="Print the variables of a profile, with a reason each.")
def print_profile(
    profile: Annotated[
        ProfileName,
        typer.Option("--profile", help="steady: always on; preprod: before production; incident: most evidence."),
    ] = ProfileName.STEADY,
    torch: Annotated[str, typer.Option("--torch", metavar="VERSION", help="torch's version, like 2.11.")] = "",
    nccl: Annotated[str, typer.Option("--nccl", metavar="VERSION", help="NCCL's version, like 2.28.9.")] = "",
    suspect: Annotated[
        str,
        typer.Option(
            "--class", metavar="CLASS", help="The suspected class or sub-kind of fault, for the incident profile."
        ),
    ] = "",
    engine: Annotated[Engine | None, typer.Option("--engine", help="The serving engine.")] = None,
    instance: Annotated[
        str, typer.Option("--instance", metavar="NAME", help="The instance's name; it is in every path.")
    ] = "default",
    incarnation: Annotated[
        str, typer.Option("--incarnation", metavar="NAME", help="Which start of it: a time, a job's id, a pod's UID.")
    ] = "",
    folder: Annotated[
        str, typer.Option("--folder", metavar="FOLDER", help="Where dumps, pipes and logs go.")
    ] = "/var/log/rankmuster",
    window: Annotated[
        float | None,
        typer.Option("--window", metavar="SECONDS", min=0.1, max=MOST_WINDOW, help="Time that the ring must hold."),
    ] = None,
    buffer: Annotated[
        int | None,
        typer.Option("--buffer", metavar="ENTRIES", min=1, max=MOST_BUFFER, help="Entries that the ring must hold."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="shell: to source; yaml: for a pod's container; json: the schema.")
    ] = Format.SHELL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Print the variables to set before an instance starts, with the reason and the cost of each.

    Exit status: 0 printed, 3 bad usage.
    """
    if window is not None and buffer is not None:
        raise CommandError("--window and --buffer both size the ring; give one of them")
    with doing(f"making the {profile.value} profile"):
        made = _profile(profile, torch, nccl, suspect, engine, instance, incarnation, folder, window, buffer, form)
    with doing(f"writing the {profile.value} profile as {form.value}"):
        from rankmuster.environment import render

        text = {Format.SHELL: render.as_shell, Format.YAML: render.as_yaml, Format.JSON: render.as_json}[form](made)
    deliver(text, output)
    return ExitStatus.HEALTHY


def _profile(
    profile: ProfileName,
    torch: str,
    nccl: str,
    suspect: str,
    engine: Engine | None,
    instance: str,
    incarnation: str,
    folder: str,
    window: float | None,
    buffer: int | None,
    form: Format,
) -> Profile:
    from rankmuster.environment import render
    from rankmuster.environment.place import Place, usable_folder, usable_name
    from rankmuster.environment.profile import Request, make_profile
    from rankmuster.environment.subsystems import suspected
    from rankmuster.environment.version import ASSUMED_NCCL, ASSUMED_TORCH, written

    torch_version, nccl_version = version_of(torch, "--torch"), version_of(nccl, "--nccl")
    for option, version, assumed in (
        ("--torch", torch_version, ASSUMED_TORCH),
        ("--nccl", nccl_version, ASSUMED_NCCL),
    ):
        if version is None:
            say(f"rankmuster: no {option} was given; {written(assumed)} is assumed")
    try:
        usable_folder(folder)
        usable_name(instance, "--instance")
        if incarnation:
            usable_name(incarnation, "--incarnation")
        kind = suspected(suspect) if suspect else None
    except ValueError as error:
        raise CommandError(str(error)) from error
    # a pod knows which start it is, even if nobody does who writes its specification
    from_pod = not incarnation and form is Format.YAML
    place = Place(folder, instance, render.REFERENCE if from_pod else incarnation or None, variable=from_pod)
    return make_profile(
        Request(
            profile=profile,
            torch=torch_version or ASSUMED_TORCH,
            nccl=nccl_version or ASSUMED_NCCL,
            place=place,
            engine=engine,
            suspect=kind,
            buffer=buffer,
            window=window,
        )
    )


@env_app.command("check", short_help="Name contradictions among the variables that are set, with the fix.")
def check_environment(
    pid: Annotated[
        int | None,
        typer.Option("--pid", metavar="PID", min=1, max=2**31 - 1, help="A running process: what it was started with."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A pod's or workload's specification, shell, .env or compose file; may repeat.",
        ),
    ] = None,
    torch: Annotated[
        str, typer.Option("--torch", metavar="VERSION", help="torch's version; of a process it is found.")
    ] = "",
    nccl: Annotated[
        str, typer.Option("--nccl", metavar="VERSION", help="NCCL's version; of a process it is found.")
    ] = "",
    engine: Annotated[
        Engine | None, typer.Option("--engine", help="The serving engine; taken from the command otherwise.")
    ] = None,
    form: Annotated[
        CheckFormat, typer.Option("--format", help="terminal: to read; json: the schema.")
    ] = CheckFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Say what contradicts itself among the variables of a process or a specification, and how to set it right.

    Only variables that matter here are shown, never others. Nothing is changed.

    Exit status: 0 no contradiction (notes aside), 1 errors or warnings, 3 nothing could be read.
    """
    if pid is None and not file:
        raise CommandError("give --pid or --file: a process or a specification to look at")
    with doing("reading the variables"):
        environments = _environments(pid, file or [])
    with doing("checking the variables"):
        from rankmuster.environment import check_form
        from rankmuster.environment.check import check

        report = check(environments, version_of(torch, "--torch"), version_of(nccl, "--nccl"), engine)
        if form is CheckFormat.JSON:
            text = check_form.as_json(report)
        else:
            width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
            text = check_form.as_text(report, width)
    deliver(text, output)
    return ExitStatus.FAULT if report.contradicts else ExitStatus.HEALTHY


def _environments(pid: int | None, files: list[Path]) -> list[Given]:
    from rankmuster.environment.given import Unreadable
    from rankmuster.environment.read_file import read_file
    from rankmuster.environment.read_process import read_process

    found: list[Given] = []
    try:
        if pid is not None:
            found.append(read_process(pid))
        for path in files:
            found.extend(read_file(path))
    except Unreadable as error:
        raise CommandError(str(error)) from error
    return found
