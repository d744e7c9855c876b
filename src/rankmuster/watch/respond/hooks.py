"""The operator's hooks: a command that gets the stop on its standard input, or a POST to a server.

A hook is somebody else's program: it may hang, fail, print megabytes or not exist, and none of that reaches the watch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rankmuster.adapters.child import Ran, environment, run_child
from rankmuster.collect.deadline import Clock
from rankmuster.report.inert import plain
from rankmuster.watch.config import CommandHook, Hook
from rankmuster.watch.respond.back_off import back_off
from rankmuster.watch.respond.log import last_words, write_log
from rankmuster.watch.respond.outcome import Ended, StepEnding, StopOutcome
from rankmuster.watch.respond.steps import GRACE, ROOT, Means
from rankmuster.watch.respond.told import body, variables

WEBHOOK_MARGIN = 5.0
"""Seconds beyond all its attempts for the process that posts: its start, on a busy node."""


def step_of(hook: Hook) -> str:
    """What the record calls it: the same for the same hook, in whatever place of the list it stands, and no secret."""
    import hashlib  # OpenSSL, 4 MB: for those who have hooks

    what = list(hook.command) if isinstance(hook, CommandHook) else hook.url
    digest = hashlib.sha256(json.dumps([hook.kind, what]).encode()).hexdigest()[:12]
    return f"hook-{hook.kind}-{digest}"


def name_of(hook: Hook) -> str:
    """For people: the program, or the server. Arguments and paths of URLs are often secrets themselves."""
    if isinstance(hook, CommandHook):
        return plain(Path(hook.command[0]).name or hook.command[0], 60)
    try:
        parts = urlsplit(hook.url)
        port = f":{parts.port}" if parts.port else ""
        return plain(f"{parts.scheme}://{parts.hostname or '?'}{port}", 100)
    except ValueError:
        return "no URL"


def call(means: Means, hook: Hook, outcome: StopOutcome) -> Ended:
    """Calls one hook, and returns by its deadline."""
    ran, allowed = run_hook(hook, body(outcome), variables(outcome), means.clock, means.hurry)
    write_log(outcome.folder, f"{hook.kind} {name_of(hook)}", ran, means.unix_now())
    return hook_ended(ran, hook, allowed)


def run_hook(
    hook: Hook, told: bytes, variables: Mapping[str, str], clock: Clock, hurry: Callable[[], bool]
) -> tuple[Ran, float]:
    """Its process, and the seconds that it was allowed. `told`: JSON, ASCII. `variables`: for a command."""
    if isinstance(hook, CommandHook):
        ran = run_child(
            hook.command,
            seconds=hook.seconds,
            grace=GRACE,
            clock=clock,
            hurry=hurry,
            stdin=told,
            environ=environment(variables),
            whole_group=True,
        )
        return ran, hook.seconds
    waits = sum(back_off(attempt) for attempt in range(1, hook.attempts))
    allowed = hook.attempts * hook.seconds + waits + WEBHOOK_MARGIN
    job = {
        "url": hook.url,
        "header_file": str(hook.header_file.absolute()) if hook.header_file is not None else None,
        "attempts": hook.attempts,
        "seconds": hook.seconds,
        "body": told.decode("ascii"),
    }
    ran = run_child(
        [sys.executable, "-m", "rankmuster.watch.respond.webhook"],
        seconds=allowed,
        grace=GRACE,
        clock=clock,
        hurry=hurry,
        stdin=json.dumps(job).encode("ascii"),
        environ=environment(),
        cwd=ROOT,
    )
    return ran, allowed


def hook_ended(ran: Ran, hook: Hook, allowed: float) -> Ended:
    """What the process's end means."""
    name = name_of(hook)
    if ran.problem:
        return Ended(StepEnding.FAILED, f"{name}: {ran.problem}", None, ran.seconds)
    if ran.late:
        why = "the watch ended" if ran.hurried else f"it had not ended within {allowed:.0f} s"
        return Ended(StepEnding.TIMED_OUT, f"{name}: {why}, and was ended", ran.status, ran.seconds)
    if ran.status == 0:
        return Ended(StepEnding.DONE, "", 0, ran.seconds)
    if ran.status is None:
        how = "its end could not be seen"
    else:
        how = f"it was ended by signal {-ran.status}" if ran.status < 0 else f"it ended with exit status {ran.status}"
    said = last_words(ran)
    if not isinstance(hook, CommandHook) and ran.status == 1 and said:
        how = said
    elif said:
        how += f" ({said})"
    return Ended(StepEnding.FAILED, f"{name}: {how}", ran.status, ran.seconds)
