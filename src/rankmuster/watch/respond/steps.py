"""The two commands of a stop, each a process of its own with a deadline: `rankmuster collect`, `rankmuster diagnose`.

Processes of their own, since evidence must never hold up the watch, and what a failing node does to whoever looks at it
(a driver that never answers, a bundle that takes gigabytes to read) must not be done to the watch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from rankmuster.adapters.child import Ran, environment, run_child
from rankmuster.collect.deadline import Clock
from rankmuster.watch.config import WatchConfig
from rankmuster.watch.respond.log import last_words, write_log
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import ENDING, Ended, StepEnding
from rankmuster.watch.respond.places import BUNDLE, REPORT, VERDICT, Unreadable, find_bundle, read_verdict

COLLECT_MARGIN = 10.0
"""Seconds beyond its own deadline before `collect` is told to hurry: the program's start on a busy node is within its
deadline, closing a bundle on a slow disk may end after it."""

COLLECT_GRACE = 6.0
"""... and for it to finish with what there is: closing the bundle is given 1.2 s, or 6 % of its deadline."""

DIAGNOSE_SECONDS = 60.0
"""A bundle of 512 ranks takes 8 s on an idle processor, and this one runs with a lower priority than a spinning job."""

REPORT_SECONDS = 30.0
"""For the same as text to read: whoever waits for a hook waits for it too."""

GRACE = 2.0
"""Between SIGTERM and SIGKILL for what has nothing to finish."""

ROOT = "/"
"""Where our children run: in a folder that others may write, `python -m` would import what they have put there."""


@dataclass(frozen=True, slots=True)
class Means:
    """What steps need from outside. `hurry`: true once the watch itself ends."""

    config: WatchConfig
    clock: Clock
    unix_now: Callable[[], float]
    hurry: Callable[[], bool]


def collect_command(config: WatchConfig, notice: StopNotice, output: Path) -> list[str]:
    """The command line. Of the address of a metrics page its password is left out: others see it in `ps`."""
    stop = config.on_stop
    command = [sys.executable, "-m", "rankmuster.cli.main", "collect", "--stop-confirmed", "--output", str(output)]
    command += ["--deadline", str(stop.deadline), "--dumps", stop.dumps.value, "--ras-risk", config.ras.risk.value]
    command.append("--stacks" if stop.stacks else "--no-stacks")
    for pid in notice.pids:
        command += ["--pid", str(pid)]
    if not notice.pids:
        command += ["--instance", notice.instance]
    if notice.metrics_url is not None:
        command += ["--metrics-url", _without_userinfo(notice.metrics_url)]
    return command


def _without_userinfo(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def collect(means: Means, notice: StopNotice, folder: Path, lock: int) -> Ended:
    """Takes the evidence into `folder`. `lock`: a descriptor that is to stay open until the process has ended."""
    deadline = means.config.on_stop.deadline
    ran = run_child(
        collect_command(means.config, notice, folder / BUNDLE),
        seconds=deadline + COLLECT_MARGIN,
        grace=COLLECT_GRACE,
        clock=means.clock,
        hurry=means.hurry,
        environ=environment(),
        cwd=ROOT,
        step_back=False,  # it does so itself
        pass_fds=(lock,),
    )
    write_log(folder, "collect", ran, means.unix_now())
    return collect_ended(ran, find_bundle(folder), deadline + COLLECT_MARGIN, seen=bool(notice.pids))


def collect_ended(ran: Ran, bundle: Path | None, allowed: float, *, seen: bool = True) -> Ended:
    """What the process's end means. `allowed`: seconds after which it was told to finish. `seen`: whether the watch
    knew of processes; of an instance that is known by its pages alone these and the node's facts are all there is."""
    said = last_words(ran)
    there = f"; {bundle} holds what it had taken" if bundle is not None else "; there is no bundle"
    if ran.problem:
        return Ended(StepEnding.FAILED, f"rankmuster collect: {ran.problem}", None, ran.seconds)
    if ran.status in (0, 4) and bundle is not None:
        note = "it was told to finish, since the watch ends" if ran.hurried else ""
        note = note or (f"it was told to finish after {allowed:.0f} s" if ran.late else "")
        return Ended(StepEnding.DONE, note, ran.status, ran.seconds)
    if ran.hurried and bundle is None:
        return Ended(StepEnding.NOT_DONE, ENDING, ran.status, ran.seconds)
    if ran.late:
        why = "the watch ended" if ran.hurried else f"it had not ended within {allowed:.0f} s"
        return Ended(StepEnding.TIMED_OUT, f"{why}, and was ended{there}", ran.status, ran.seconds)
    if ran.status == 2 and bundle is not None and not seen:
        note = "its pages and the node's own evidence are saved: no process of it is seen here"
        return Ended(StepEnding.DONE, note, 2, ran.seconds)
    if ran.status == 2 and bundle is not None:
        note = "no process of the instance was found any more: only the node's own evidence is saved"
        return Ended(StepEnding.PARTIAL, note, 2, ran.seconds)
    note = f"rankmuster collect ended with {_status(ran.status)} ({said or 'it said nothing'}){there}"
    return Ended(StepEnding.FAILED, note, ran.status, ran.seconds)


def diagnose(means: Means, bundle: Path, folder: Path) -> Ended:
    """Has the bundle judged; the verdict is in `folder`/verdict.json where it is DONE."""
    ran = _diagnose(means, bundle, folder / VERDICT, "json", DIAGNOSE_SECONDS)
    write_log(folder, "diagnose", ran, means.unix_now())
    return diagnose_ended(ran, folder / VERDICT, DIAGNOSE_SECONDS)


def diagnose_ended(ran: Ran, verdict: Path, allowed: float) -> Ended:
    """What the process's end means."""
    if ran.problem:
        return Ended(StepEnding.FAILED, f"rankmuster diagnose: {ran.problem}", None, ran.seconds)
    if ran.hurried:
        return Ended(StepEnding.NOT_DONE, ENDING, ran.status, ran.seconds)  # it only reads: doing it again is no harm
    if ran.late:
        what = f"it had not ended within {allowed:.0f} s, and was ended"
        return Ended(StepEnding.TIMED_OUT, what, ran.status, ran.seconds)
    if ran.status not in (0, 1, 2):
        note = f"rankmuster diagnose ended with {_status(ran.status)} ({last_words(ran) or 'it said nothing'})"
        return Ended(StepEnding.FAILED, note, ran.status, ran.seconds)
    try:
        read_verdict(verdict)
    except Unreadable as error:
        return Ended(StepEnding.FAILED, f"rankmuster diagnose ended well, and {error}", ran.status, ran.seconds)
    return Ended(StepEnding.DONE, "", ran.status, ran.seconds)


def write_report(means: Means, bundle: Path, folder: Path) -> str | None:
    """The same verdict as text to read, beside the bundle; why there is none, or None."""
    ran = _diagnose(means, bundle, folder / REPORT, "terminal", REPORT_SECONDS)
    if ran.status in (0, 1, 2) and not ran.late:
        return None
    write_log(folder, "report", ran, means.unix_now())
    return f"there is no {REPORT}: {ran.problem or last_words(ran) or _status(ran.status)}"


def _diagnose(means: Means, bundle: Path, output: Path, form: str, seconds: float) -> Ran:
    command = [sys.executable, "-m", "rankmuster.cli.main", "diagnose", str(bundle), "--format", form]
    return run_child(
        [*command, "--output", str(output), *(["--width", "120"] if form == "terminal" else [])],
        seconds=seconds,
        grace=GRACE,
        clock=means.clock,
        hurry=means.hurry,
        environ=environment(),
        cwd=ROOT,
    )


def _status(status: int | None) -> str:
    if status is None:
        return "no end that could be seen"
    return f"signal {-status}" if status < 0 else f"exit status {status}"
