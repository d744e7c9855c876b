"""`rankmuster collect`: the evidence of a live instance, in seconds, into one bundle."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.collect_pods import DEADLINE_SECONDS as POD_SECONDS
from rankmuster.cli.collect_pods import PodsAsked, collect_pods, options_there, refuse_here
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, doing
from rankmuster.cli.told_to_end import told_to_end
from rankmuster.collect.wishes import LOG_BYTES, LOOK_SECONDS, AddressMode, DumpWish, Part, RasRisk, Wishes

if TYPE_CHECKING:
    from rankmuster.collect.save import Saved

DEADLINE_SECONDS = 20.0
"""Total, by default: a watcher confirms a stop within 15 s, and what follows must not wait longer for evidence."""

LEAST_SECONDS = 2.0
"""Below this not even the process table and the first look at the counters come to an end."""


NICENESS = 5
"""How far it steps back: a third of the share of an ordinary process where both want one processor (sched(7))."""


class CollectStatus(IntEnum):
    """0: evidence of the instance is saved. 2: only the node's own is, no instance was found. 3: nothing is saved.

    4: it is saved here and could not be uploaded.
    """

    SAVED = 0
    NODE_ONLY = 2
    NOTHING = 3
    NOT_UPLOADED = 4


def collect(
    output: Annotated[
        Path,
        typer.Option("--output", metavar="PATH", help="The bundle to make: a folder, or a file that ends in .tar.zst."),
    ],
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            min=LEAST_SECONDS,
            help="Seconds for all of it together.  [default: 20; of pods 60]",
        ),
    ] = None,
    pid: Annotated[
        list[int] | None,
        typer.Option("--pid", metavar="PID", help="A process of the instance; may be given several times."),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="NAME", help="The instance by name, where several run on this node."),
    ] = None,
    ras_risk: Annotated[
        RasRisk,
        typer.Option("--ras-risk", help="When to ask RAS on NCCL versions whose answer can crash the job."),
    ] = RasRisk.AFTER_STOP_CONFIRMED,
    dumps: Annotated[
        DumpWish, typer.Option("--dumps", help="When to ask the ranks for Flight Recorder dumps.")
    ] = DumpWish.WHEN_NOT_HEALTHY,
    stacks: Annotated[
        bool, typer.Option("--stacks/--no-stacks", help="Python stacks through py-spy, of an instance not healthy.")
    ] = True,
    stop_confirmed: Annotated[
        bool, typer.Option("--stop-confirmed", help="You know that it has stopped: ask for dumps and RAS at once.")
    ] = False,
    metrics_url: Annotated[
        str | None,
        typer.Option(
            "--metrics-url", metavar="URL", help="The engine's metrics page, where it is not found by itself."
        ),
    ] = None,
    look: Annotated[
        float,
        typer.Option(
            "--look", metavar="SECONDS", min=0.5, max=60.0, help="Seconds between two looks at counters and pages."
        ),
    ] = LOOK_SECONDS,
    log_megabytes: Annotated[
        int,
        typer.Option(
            "--log-megabytes", metavar="MEGABYTES", min=1, max=1024, help="Of each log, its last so many megabytes."
        ),
    ] = LOG_BYTES >> 20,
    left: Annotated[
        list[Path] | None,
        typer.Option(
            "--left", metavar="PATH", help="A log, or a folder of logs, of processes that have ended; several times."
        ),
    ] = None,
    run_folder: Annotated[
        Path | None,
        typer.Option("--run-folder", metavar="FOLDER", help="Where `rankmuster run` keeps its records (its --folder)."),
    ] = None,
    part: Annotated[
        Part,
        typer.Option("--part", help="pod: what its ranks say and leave; node: what the node says of them; or all."),
    ] = Part.ALL,
    as_instance: Annotated[
        str, typer.Option("--as-instance", metavar="NAME", help="What the bundle calls the instance.")
    ] = "",
    as_incarnation: Annotated[
        str,
        typer.Option("--as-incarnation", metavar="ID", help="Which start of it this is, as all its nodes know it."),
    ] = "",
    as_pods: Annotated[
        bool, typer.Option("--as-pods", help="Call hosts what the ranks' pods call them; from outside of the pods.")
    ] = False,
    addresses: Annotated[
        AddressMode,
        typer.Option("--addresses", help="foreign: public ones get a pseudonym; all: every one; keep: none."),
    ] = AddressMode.FOREIGN,
    upload: Annotated[
        str | None,
        typer.Option(
            "--upload",
            metavar="URL",
            help="Copy the bundle there once it is safe here: s3://BUCKET/PREFIX, file:///PATH.",
        ),
    ] = None,
    upload_deadline: Annotated[
        float, typer.Option("--upload-deadline", metavar="SECONDS", min=1.0, help="Seconds for the upload.")
    ] = 60.0,
    pod: Annotated[
        list[str] | None,
        typer.Option(
            "--pod", metavar="NAME", help="A pod of a Kubernetes cluster, instead of this node; several times."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="Of the pods; else the context's own.")
    ] = None,
    container: Annotated[
        str | None,
        typer.Option("--container", metavar="NAME", help="Of the pod, where ranks run; else the one with GPUs."),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig; else its current one.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="What an ephemeral container runs.")
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Add a container to the pod, which stays in it until the pod ends.")
    ] = False,
    by_exec: Annotated[
        bool, typer.Option("--exec", help="Only by what is in the pod's own containers, not by its sidecar.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Save the evidence of a live instance on this node, before anything is killed; or what one that has ended under
    `rankmuster run` has left.

    Runs on a node, in a pod or as a sidecar. Everything is taken at once, under one deadline; what vanishes first is
    taken first, and what does not answer is written down and left behind. A healthy instance is not asked for dumps,
    and RAS is not asked where its version can crash the job, unless you say so. Secrets are left out.

    With --pod it takes evidence out of pods of a cluster, which need nothing installed: by their sidecar, by rankmuster
    in their container, or by a shell.

    The bundle's path goes to standard output, what happened to standard error. Then: rankmuster diagnose BUNDLE.

    Exit status: 0 evidence of the instance is saved, 2 only the node's own is (no instance was found), 3 nothing is,
    4 it is saved here and could not be uploaded.
    """
    if pod:
        refuse_here(pid=pid, left=left, run_folder=run_folder, as_pods=as_pods)
        there = options_there(
            dumps=dumps, look=look, log_megabytes=log_megabytes, part=part, stacks=stacks, page=metrics_url
        )
        return _of_pods(
            PodsAsked(
                pods=tuple(pod),
                namespace=namespace,
                container=container,
                context=context,
                image=image,
                ephemeral=ephemeral,
                by_exec=by_exec,
                output=output,
                seconds=POD_SECONDS if deadline is None else deadline,
                stopped=stop_confirmed,
                instance=instance,
                as_instance=as_instance or None,
                as_incarnation=as_incarnation or None,
                ras_risk=ras_risk,
                addresses=addresses,
                look_seconds=look,
                options=there,
            ),
            upload,
            upload_deadline,
        )
    if any((namespace, container, context, image, ephemeral, by_exec)):
        raise CommandError(
            "--namespace, --container, --context, --image, --ephemeral and --exec are of pods: name --pod"
        )
    with doing("loading the program"):
        load_numpy()
        from rankmuster.adapters.supervisor_wire import default_run_folder
        from rankmuster.collect.save import Called, Refused, Request, save

    wishes = Wishes(
        ras_risk=ras_risk,
        dumps=dumps,
        stacks=stacks,
        stop_confirmed=stop_confirmed,
        look_seconds=look,
        max_log_bytes=log_megabytes << 20,
        metrics_url=metrics_url,
        addresses=addresses,
        left=tuple(str(path.absolute()) for path in left or ()),
        part=part,
    )
    folder = run_folder if run_folder is not None else default_run_folder()
    called = Called(as_instance or None, as_incarnation or None, as_pods)
    seconds = DEADLINE_SECONDS if deadline is None else deadline
    request = Request(
        output, seconds, tuple(pid or ()), instance, wishes, _seconds_since_start(), folder.absolute(), called
    )
    _step_back()
    hurry = threading.Event()
    # a pod that ends must not lose what was taken: it finishes with what there is
    with doing(f"collecting into {output}"), told_to_end(hurry.set):
        try:
            saved = save(request, hurry=hurry.is_set)
        except Refused as error:
            raise CommandError(str(error)) from error
    _tell(saved)
    if saved.path is None:
        return CollectStatus.NOTHING
    write_stdout(f"{saved.path}\n")
    if upload is not None:
        with doing(f"uploading {saved.path}"):
            if not _uploaded(saved.path, upload, upload_deadline):
                return CollectStatus.NOT_UPLOADED
    return CollectStatus.SAVED if saved.of_instance else CollectStatus.NODE_ONLY


def _of_pods(asked: PodsAsked, upload: str | None, upload_seconds: float) -> int:
    with doing(f"collecting from {len(asked.pods)} pod(s)"):
        load_numpy()
        saved = collect_pods(asked)
    for path in saved.paths:
        write_stdout(f"{path}\n")
    if not saved.paths:
        return CollectStatus.NOTHING
    if upload is not None:
        for path in saved.paths:
            with doing(f"uploading {path}"):
                if not _uploaded(path, upload, upload_seconds):
                    return CollectStatus.NOT_UPLOADED
    return CollectStatus.SAVED if saved.of_instance else CollectStatus.NODE_ONLY


def _uploaded(path: Path, url: str, seconds: float) -> bool:
    from rankmuster.collect.bundle.upload import UploadFailed, upload
    from rankmuster.collect.deadline import Deadline
    from rankmuster.report.inert import plain

    try:
        done = upload(path, url, Deadline.after(seconds))
    except UploadFailed as error:
        say(f"rankmuster: {plain(str(error), limit=600)}")
        return False
    size = f"{done.files} file(s), {done.size} bytes, {done.checked} checked"
    say(f"rankmuster: uploaded to {plain(done.url)}: {size}, {done.seconds:.1f} s")
    return True


def _seconds_since_start() -> float:
    """How long this process has been running; 0 where /proc does not say."""
    from rankmuster.collect.proc import NotAllowed, Proc

    try:
        stat = Proc(Path("/proc")).stat(os.getpid())
    except (NotAllowed, OSError):
        return 0.0
    if stat is None:
        return 0.0
    started = stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0.0)


def _step_back() -> None:
    """Where processors are scarce the instance goes first: stripping secrets from long logs takes one for seconds."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)


def _tell(saved: Saved) -> None:
    """What happened, on standard error: whose evidence it is, and one line a collector."""
    from rankmuster.collect.strip.secrets import scrub_words
    from rankmuster.report.inert import plain

    # Standard error is a log too, of a pod or of a pipeline: what stays out of the manifest stays out of it.
    for line in saved.headline:
        say(f"rankmuster: {plain(scrub_words(line), limit=600)}")
    width = max((len(report.name) for report in saved.reports), default=0)
    for report in saved.reports:
        count = f"{len(report.files)} file{'' if len(report.files) == 1 else 's'}"
        words = f"  {report.name:<{width}}  {report.outcome.ending.value:<9} {report.seconds:5.1f} s  {count:>8}  "
        say(words + plain(scrub_words(report.outcome.note), limit=400))
        for warning in report.outcome.warnings:
            say(f"  {'':<{width}}  warning: {plain(scrub_words(warning), limit=400)}")
