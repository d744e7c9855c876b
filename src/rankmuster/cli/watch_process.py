"""The watch as a process that lasts: without the command line's own libraries, 10 MB that are never needed again.

`rankmuster watch` checks everything, and then becomes this; the settings come through an open file, since they may hold
a webhook's address, which is a secret.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from rankmuster.cli.output import say
from rankmuster.cli.status import ExitStatus
from rankmuster.collect.own_path import FLAGS, own_path
from rankmuster.watch.events import Form

if TYPE_CHECKING:
    from rankmuster.watch.config import WatchConfig

_PROGRAM = (
    "import json, os, sys; file = open(int(sys.argv[1])); said = json.load(file); sys.path[:] = said['path']; "
    "from rankmuster.cli.watch_process import main; main(said)"
)

ENVIRONMENT = {
    # One thread is enough for arrays of a few hundred numbers; the others would cost megabytes each.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # A heap for each of the dozen threads would keep what it once had.
    "MALLOC_ARENA_MAX": "1",
}


LAST_LINES_SECONDS = 2.0
"""At the end, for whoever reads standard output slowly; one that nobody reads is not waited for longer."""


def become(settings: WatchConfig, form: Form, seconds: float | None) -> NoReturn:
    """Replaces this process by the watch. Raises OSError where that fails."""
    from rankmuster.watch.config import to_plain

    said = {
        "settings": to_plain(settings),
        "form": form.value,
        "seconds": seconds,
        "path": own_path(),
        "debug": "--debug" in sys.argv or os.environ.get("RANKMUSTER_DEBUG", "") not in ("", "0"),
    }
    descriptor = os.memfd_create("rankmuster-watch", 0)
    os.write(descriptor, json.dumps(said).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    command = [sys.executable, *FLAGS, "-c", _PROGRAM, str(descriptor)]
    os.execve(sys.executable, command, {**os.environ, **ENVIRONMENT})  # noqa: S606 - our own program


def main(said: dict[str, object]) -> NoReturn:
    """Watches, and ends the process with the exit status that `rankmuster watch` promises."""
    wake = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wake.set())

    raw = said["settings"]
    if isinstance(raw, dict) and raw.get("listen") is None:  # the library that serves metrics wants all of HTTP
        from rankmuster.cli.plain_http import load_plain_http

        load_plain_http()

    from rankmuster.cli.event_output import EventOutput
    from rankmuster.report.inert import plain
    from rankmuster.watch.config import from_plain
    from rankmuster.watch.start import CannotStart, run

    seconds = said["seconds"]
    output = EventOutput(Form(said["form"]))
    status = ExitStatus.NO_ANSWER
    try:
        settings = from_plain(raw)
        worst = run(settings, output.tell, wake, float(seconds) if isinstance(seconds, (int, float)) else None)
        status = status_of(worst.value) if seconds is not None and not wake.is_set() else ExitStatus.HEALTHY
    except CannotStart as error:
        say(f"rankmuster: {plain(str(error), limit=600)}")
    except Exception as error:
        say(f"rankmuster: internal error while watching: {type(error).__name__}: {plain(str(error), limit=600)}")
        if said.get("debug"):
            import traceback

            say("".join(traceback.format_exception(error)).rstrip())
    output.close(LAST_LINES_SECONDS)
    # Threads that hang in a driver must not keep the process.
    os._exit(int(status))


def status_of(progress: str) -> ExitStatus:
    """As DESIGN has it: 0 nothing is wrong, 1 a fault, 2 it cannot be told."""
    if progress in ("stopped", "slow"):
        return ExitStatus.FAULT
    return ExitStatus.UNDECIDED if progress == "unknown" else ExitStatus.HEALTHY
