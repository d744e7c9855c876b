"""`rankmuster kube inject`: manifests with the sidecar and the environment in their pod templates."""

from __future__ import annotations

import re
import sys
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile, version_of
from rankmuster.cli.output import deliver, say
from rankmuster.cli.status import CommandError, doing
from rankmuster.environment.draft import ProfileName
from rankmuster.environment.variable import Engine
from rankmuster.model.kube import Grouping

if TYPE_CHECKING:
    pass

_IMAGE = re.compile(r"[a-zA-Z0-9][\w./:@-]{0,500}")


class InjectStatus(IntEnum):
    """0: pod templates have the sidecar now. 2: there is none in it, and it is printed as it came. 3: refused."""

    DONE = 0
    NOTHING = 2


def inject(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Manifests (YAML, several documents); - reads them.")],
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Of the sidecar; without a tag this version's.")
    ] = "registry.example/rankmuster",
    container: Annotated[
        list[str] | None,
        typer.Option("--container", metavar="NAME", help="The engine's, where no GPU tells it; several times."),
    ] = None,
    engine: Annotated[Engine | None, typer.Option("--engine", help="The serving engine.")] = None,
    profile: Annotated[
        ProfileName, typer.Option("--profile", help="Of the environment, as `env print` has it.")
    ] = ProfileName.STEADY,
    torch: Annotated[str, typer.Option("--torch", metavar="VERSION", help="torch's version, like 2.11.")] = "",
    nccl: Annotated[str, typer.Option("--nccl", metavar="VERSION", help="NCCL's version, like 2.28.9.")] = "",
    grouping: Annotated[
        Grouping, typer.Option("--grouping", help="What one instance is; as the policy has it.")
    ] = Grouping.AUTO,
    metrics_url: Annotated[
        str, typer.Option("--metrics-url", metavar="URL", help="The engine's metrics page, at 127.0.0.1 in its pod.")
    ] = "",
    secret: Annotated[
        str, typer.Option("--secret", metavar="NAME", help="Of the token, in the workload's namespace (key: token).")
    ] = "rankmuster-token",  # noqa: S107 - its name
    gate: Annotated[
        bool, typer.Option("--gate", help="Add the readiness gate; only where the controller acts on traffic.")
    ] = False,
    incident_profile: Annotated[
        bool,
        typer.Option(
            "--incident-profile",
            help="Let the controller give one start the incident's variables; the profile's are in a ConfigMap then.",
        ),
    ] = False,
    agent: Annotated[bool, typer.Option("--agent/--no-agent", help="Whether the nodes have our agent.")] = True,
    metrics: Annotated[
        bool, typer.Option("--metrics/--no-metrics", help="Whether the watch serves metrics for Prometheus.")
    ] = True,
    run_as_user: Annotated[
        int | None, typer.Option("--run-as-user", metavar="UID", min=0, help="The engine's user, if it is its image's.")
    ] = None,
    ptrace: Annotated[
        bool, typer.Option("--ptrace/--no-ptrace", help="SYS_PTRACE for the sidecar of an engine that runs as root.")
    ] = True,
    evidence_size: Annotated[
        str, typer.Option("--evidence-size", metavar="SIZE", help="At most, of the volume for dumps and logs.")
    ] = "16Gi",
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Print manifests with the sidecar, its volumes and the engine's environment in every pod template.

    It works on text alone, so it fits into GitOps: LeaderWorkerSet, JobSet, StatefulSet, Deployment, Job, Pod, and
    KServe's InferenceService and LLMInferenceService. What it does not know stays as it is; injecting twice is
    injecting once.

    Exit status: 0 injected, 2 there is no pod template in it, 3 refused or not readable.
    """
    if not _IMAGE.fullmatch(image):
        raise CommandError(f"--image {image[:80]!r} is no image")
    if metrics_url and not re.fullmatch(r"https?://[^/\s]+\S*", metrics_url):
        raise CommandError(f"--metrics-url {metrics_url[:80]!r} is no address of a page: http://127.0.0.1:8000/metrics")
    if not re.fullmatch(r"[1-9][0-9]{0,5}(?:Ki|Mi|Gi|Ti)", evidence_size):
        raise CommandError(f"--evidence-size {evidence_size[:40]!r}: give a number and Mi, Gi or Ti")
    with doing("reading the manifests"):
        text, name = _read(file)
    with doing("injecting the sidecar"):
        from rankmuster import __version__
        from rankmuster.environment.version import ASSUMED_NCCL, ASSUMED_TORCH
        from rankmuster.kube.inject.documents import NotReadable
        from rankmuster.kube.inject.manifest import inject_text
        from rankmuster.kube.inject.settings import IMAGE, InjectSettings
        from rankmuster.kube.inject.templates import NotInjectable

        settings = InjectSettings(
            version=__version__,
            image=image,
            containers=tuple(container or ()),
            engine=engine,
            profile=profile,
            torch=version_of(torch, "--torch") or ASSUMED_TORCH,
            nccl=version_of(nccl, "--nccl") or ASSUMED_NCCL,
            grouping=grouping,
            metrics_url=metrics_url or None,
            secret=secret,
            gate=gate,
            agent=agent,
            metrics=metrics,
            run_as=run_as_user,
            ptrace=ptrace,
            evidence_size=evidence_size,
            incident_profile=incident_profile,
        )
        try:
            made = inject_text(text, name, settings)
        except (NotReadable, NotInjectable) as error:
            raise CommandError(str(error)) from error
    for note in made.notes:
        say(f"rankmuster: {note}")
    deliver(made.text, output)
    if made.done and image.startswith(IMAGE):
        say(f"rankmuster: nobody has the sidecar's image {IMAGE}, and no pod starts without it: --image names yours")
    if made.done:
        return InjectStatus.DONE
    there = ", ".join(made.left[:8]) or "nothing"
    say(f"rankmuster: {name} has no pod template of a kind that is known here ({there}); it is printed as it came")
    return InjectStatus.NOTHING


def _read(file: str) -> tuple[str, str]:
    from rankmuster.kube.inject.documents import MAX_BYTES

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)
        return data.decode("utf-8"), "standard input" if file == "-" else file
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is no text in UTF-8 ({error.reason} at byte {error.start})") from error
