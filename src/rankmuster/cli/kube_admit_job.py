"""`rankmuster kube admit-job`: what the container of an admission's Job runs, alone or as one side of a pair."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.bench.tool import Tool
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.cli.told_to_end import told_to_end

if TYPE_CHECKING:
    from rankmuster.adapters.kube.job_look import Payload
    from rankmuster.adapters.kube.job_words import Ending

GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL of what measures: launchers take their ranks with them. Kubernetes gives a pod 30."""

LOOKS_SECONDS = 60.0
"""Of the time of a Job, for the two looks at the node around the benchmark."""

ONE_RUN_SHARE = 0.85
"""Of the rest, for the runs together: what follows them needs some too."""

FOLDER = "RANKMUSTER_ADMIT_FOLDER"
"""Variable of the process that measures: where its order lies, and its result goes."""

RESULT, SUMMARY, ORDER = "result", "summary", "order.json"


@dataclass(frozen=True, slots=True)
class Order:
    """The options as given, for the process that measures."""

    node: str
    profile: str
    tool: str
    gpus: int | None
    variables: list[str]
    runs: int
    dcgm_level: int
    kernel_log: str | None
    python: str
    image: str | None
    seconds: float
    pair: str | None
    place: int
    port: int
    wait_seconds: float
    rails: list[str]
    backend: str

    @property
    def limit(self) -> float:
        """Seconds of all of it."""
        if self.pair is None:
            return self.seconds
        return self.wait_seconds + self.seconds * max(len(self.rails), 1)


def admit_job(
    profile: Annotated[str, typer.Option("--profile", metavar="NAME|FILE", help="What to measure.")] = "links",
    tool: Annotated[Tool, typer.Option("--tool", help="What measures on the node alone.")] = Tool.AUTO,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=1, help="GPUs; all without it, one of each node of a pair.")
    ] = None,
    variables: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable of the benchmark; may repeat.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, max=20, help="Runs, each in fresh processes.")] = 1,
    dcgm_level: Annotated[
        int, typer.Option("--dcgm-level", metavar="N", min=0, max=4, help="Level of `dcgmi diag`, if installed.")
    ] = 0,
    kernel_log: Annotated[
        Path | None, typer.Option("--kernel-log", metavar="FILE", help="This boot's kernel log, mounted to be read.")
    ] = None,
    python: Annotated[
        str, typer.Option("--python", metavar="PATH", help="The interpreter that has torch.")
    ] = "python3",
    image: Annotated[
        str | None, typer.Option("--image-digest", metavar="DIGEST", help="sha256:... of this container's image.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", min=1, help="For all of it, or for each rail of a pair.")
    ] = 1_200.0,
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="HOST", help="Measure with the pod whose place 0 is reached there.")
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=1024, max=65000, help="Of place 0.")] = 29_500,
    wait_seconds: Annotated[
        float, typer.Option("--wait-seconds", metavar="SECONDS", min=1, help="The other pod is waited for.")
    ] = 600.0,
    rails: Annotated[
        list[str] | None, typer.Option("--rail", metavar="GPU=NIC[,NIC]", help="One rail of a pair; may repeat.")
    ] = None,
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="What moves a pair's data.")] = "nccl",
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="This node's name; else NODE_NAME.")] = "",
    message_file: Annotated[
        Path, typer.Option("--termination-log", metavar="FILE", help="Where the summary is written.")
    ] = Path("/dev/termination-log"),
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Measure this node, and hand out the record: packed between two marks on standard output, and a summary with its
    hash as the container's termination message. Nothing is compared here, and nothing is stored.

    What measures runs in a process of its own, which is ended when its time is over.

    Exit status: 0 a result was handed out, whatever it says; 3 there is none.
    """
    if FOLDER in os.environ:
        return _measure(Path(os.environ[FOLDER]))
    named = node or os.environ.get("NODE_NAME", "")
    if not named:
        raise CommandError("whose node this is has to be said: --node, or NODE_NAME from the downward API")
    place = os.environ.get("JOB_COMPLETION_INDEX", "0")
    if pair is not None and place not in ("0", "1"):
        raise CommandError(f"JOB_COMPLETION_INDEX is {place!r}, and a pair has the places 0 and 1")
    order = Order(
        named,
        profile,
        tool.value,
        gpus,
        list(variables or []),
        runs,
        dcgm_level,
        str(kernel_log) if kernel_log is not None else None,
        python,
        image,
        seconds,
        pair,
        int(place) if pair is not None else 0,
        port,
        wait_seconds,
        list(rails or []),
        backend,
    )
    return _handed_out(order, message_file)


def _handed_out(order: Order, message_file: Path) -> int:
    from rankmuster.adapters.admit_record import OWN
    from rankmuster.adapters.child import environment, run_child
    from rankmuster.adapters.into_file import last_words, read_most
    from rankmuster.adapters.kube.job_words import MOST_MESSAGE, Ending

    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="rankmuster-admit-") as made, told_to_end(stop.set):
        folder = Path(made)
        (folder / ORDER).write_text(json.dumps(asdict(order)), encoding="utf-8")
        ran = run_child(
            [*OWN, "kube", "admit-job"],
            seconds=order.limit,
            grace=GRACE_SECONDS,
            clock=time.monotonic,
            hurry=stop.is_set,
            environ={**environment(), FOLDER: str(folder)},
            cwd="/",
            step_back=False,
            whole_group=True,
        )
        write_stdout(ran.output.decode("utf-8", "replace"))
        summary = read_most(folder / SUMMARY, MOST_MESSAGE) if ran.status == 0 else None
        if summary is not None:
            write_stdout((folder / RESULT).read_text(encoding="ascii"))
            _leave(message_file, summary)
            return ExitStatus.HEALTHY
    if ran.late:
        ending = Ending.STOPPED if ran.hurried else Ending.LATE
        why = "it was told to end" if ran.hurried else f"it had not ended after {order.limit:.0f} s, and was ended"
    else:
        ending, why = Ending.FAILED, f"measuring ended without a result: {ran.problem or last_words(ran)}"
    _leave_failure(order, ending, why, message_file)
    say(f"rankmuster: {order.node}: {why}")
    return ExitStatus.NO_ANSWER


def _leave_failure(order: Order, ending: Ending, why: str, message_file: Path) -> None:
    from rankmuster.adapters.kube.job_words import Summary, message

    kind = "alone" if order.pair is None else "pair"
    _leave(message_file, message(Summary(kind=kind, node=order.node, ending=ending, reason=why)))


def _leave(message_file: Path, text: bytes) -> None:
    """In place: the kubelet has mounted the file, and reads the one that it has mounted."""
    try:
        with message_file.open("wb") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"cannot write {message_file}: {error.strerror or error}") from error


def _measure(folder: Path) -> int:
    """In the process that measures: result and summary as files, the summary last."""
    from rankmuster.adapters.kube.job_words import message, result_of

    order = Order(**json.loads((folder / ORDER).read_text(encoding="utf-8")))
    payload, seal = _alone(order) if order.pair is None else _of_a_pair(order)
    with doing("packing the result"):
        text, summary = result_of(payload, seal)
        (folder / RESULT).write_bytes(text)
        (folder / SUMMARY).write_bytes(message(summary))
    return ExitStatus.HEALTHY


def _alone(order: Order) -> tuple[Payload, str]:
    import socket

    from rankmuster.cli.admit_output import Format, text_of
    from rankmuster.cli.admit_sources import Asked, admitted, live
    from rankmuster.cli.given import profile_of, variables_of
    from rankmuster.cli.slim_numpy import load_numpy
    from rankmuster.kube.admission.in_pod import alone_payload

    load_numpy()
    share = max(order.seconds - LOOKS_SECONDS, order.seconds / 2) * ONE_RUN_SHARE
    asked = Asked(
        Tool(order.tool),
        order.gpus,
        variables_of(order.variables),
        order.runs,
        0,
        max(share / order.runs, 1.0),
        None,
        Path(order.python) if "/" in order.python else None,
        order.image,
        None,
        Path(order.kernel_log) if order.kernel_log is not None else None,
        order.dcgm_level,
    )
    plan, sources = live(profile_of(order.profile), asked, None)
    outcome = admitted(plan, sources)
    payload, record = alone_payload(outcome, order.node, os.environ.get("POD_NAME") or socket.gethostname())
    write_stdout(text_of(record, None, Format.TERMINAL, None))
    return payload, record.hash


def _of_a_pair(order: Order) -> tuple[Payload, str]:
    from dataclasses import replace

    from rankmuster.bench.builtin.orders import Backend
    from rankmuster.cli.bench_launch_options import launching
    from rankmuster.cli.bench_pairs_given import rails_of
    from rankmuster.cli.given import variables_of
    from rankmuster.collect.deadline import Deadline
    from rankmuster.kube.admission.meeting import NotMet, meet
    from rankmuster.kube.admission.pair_side import PairOrder, pair_payload

    assert order.pair is not None
    rails = rails_of(False, order.rails)
    try:
        meet(order.place, order.pair, order.port, Deadline.after(order.wait_seconds))
    except NotMet as error:
        raise CommandError(str(error)) from error
    wanted = PairOrder(
        node=order.node,
        place=order.place,
        address=order.pair,
        port=order.port + 1,
        gpus=order.gpus or 1,
        seconds=order.seconds,
        python=order.python,
        rails=rails,
        given=variables_of(order.variables),
        backend=Backend(order.backend),
    )
    with doing("measuring the pair"), launching():
        payload, words = pair_payload(wanted)
    return replace(payload, reason=words), ""
