"""`rankmuster collect` as a child of the runbook, on this host and on others: the deadline wins, and what there is by
then is kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.child import Ran, run_child
from rankmuster.adapters.into_file import ROOT, last_words, run_into
from rankmuster.adapters.reach import after_begin, begun, on_node
from rankmuster.collect.deadline import Deadline

LEAST_SECONDS = 2.0
"""Of `--deadline`: less it does not take."""

CLOSE_SECONDS = 2.5
"""Between its own deadline and ours: closing a bundle takes 1.2 s or 6 % of its deadline, on a slow disk more."""

GRACE = 1.3
"""Between "finish with what there is" and SIGKILL."""

MARGIN = 0.2

SEND_SECONDS = 2.0
"""For a bundle of another host on its way here: some ten MB."""

MOST_BYTES = 2 << 30
"""Of one host's bundle."""

SHARED = ("--metrics-url",)
"""Options that mean this host alone: a page at 127.0.0.1 is another one elsewhere."""

_FETCH = (
    'd=$(mktemp -d) || exit 3; trap \'rm -rf "$d"\' EXIT; "$@" --output "$d/b.tar.zst" >&2; s=$?; '
    'cat "$d/b.tar.zst" 2>/dev/null; exit "$s"'
)


@dataclass(frozen=True, slots=True)
class Taken:
    """`bundle`: None where nothing is there. `note`: what is missing; empty where nothing is."""

    bundle: Path | None
    note: str = ""
    late: bool = False


def collect_here(
    instance: str, pids: Sequence[int], stopped: bool, options: Sequence[str], output: Path, deadline: Deadline
) -> Taken:
    """Into the folder `output`, or what is left beside it of a collection that was ended."""
    own = max(deadline.remaining() - CLOSE_SECONDS, LEAST_SECONDS)
    whom = [word for pid in pids for word in ("--pid", str(pid))] or ["--instance", instance]
    command = [*OWN, "collect", *_wishes(stopped), "--deadline", f"{own:.2f}", *whom, *_inert(options)]
    ran = run_child(
        [*command, "--output", str(output)],
        seconds=max(deadline.remaining() - GRACE - MARGIN, 0.1),
        grace=GRACE,
        clock=deadline.clock,
        cwd=ROOT,
        step_back=False,  # it does so itself
    )
    return _taken(ran, find_bundle(output), "here")


def collect_there(
    reach: Sequence[str],
    program: Sequence[str],
    host: str,
    instance: str,
    stopped: bool,
    options: Sequence[str],
    output: Path,
    deadline: Deadline,
) -> Taken:
    """On another host, into the file `output` here, which ends in `.tar.zst`."""
    own = max(deadline.remaining() - CLOSE_SECONDS - SEND_SECONDS, LEAST_SECONDS)
    command = [*program, "collect", *_wishes(stopped), "--deadline", f"{own:.2f}", "--instance", instance]
    command += _inert(_without(options, SHARED))
    ran = run_into(
        output,
        on_node(reach, host, ["/bin/sh", "-c", _FETCH, "sh", *command]),
        seconds=max(deadline.remaining() - GRACE / 2 - MARGIN, 0.1),
        grace=GRACE / 2,
        clock=deadline.clock,
        most_bytes=MOST_BYTES,
    )
    if ran.late or not _some(output):
        output.unlink(missing_ok=True)  # half of an archive cannot be read
        if not ran.problem and not begun(ran.output):
            words = last_words(ran) if ran.output.strip() else "nothing was said"
            return Taken(None, f"{host}: nothing had begun there ({words})", ran.late)
        return _taken(
            Ran(ran.status, ran.seconds, after_begin(ran.output), 0, ran.late, False, ran.problem), None, host
        )
    return _taken(Ran(ran.status, ran.seconds, after_begin(ran.output)), output, host)


def find_bundle(output: Path) -> Path | None:
    """The bundle, or what a collection that was killed has left beside it, which `diagnose` reads too."""
    if output.is_dir():
        return output
    try:
        parts = sorted(one for one in output.parent.glob(f"{output.name}.*.part") if one.is_dir())
        return next((one for one in parts if any(not inner.name.startswith(".") for inner in one.iterdir())), None)
    except OSError:
        return None


def _taken(ran: Ran, bundle: Path | None, where: str) -> Taken:
    words = last_words(ran)
    if ran.problem:
        return Taken(bundle, f"{where}: {ran.problem}")
    if bundle is None:
        why = f"it was ended after {ran.seconds:.1f} s" if ran.late else words
        return Taken(None, f"{where}: there is no bundle ({why})", ran.late)
    if bundle.name.endswith(".part"):
        note = f"{where}: it was ended after {ran.seconds:.1f} s, before its bundle was closed; what it had is used"
        return Taken(bundle, note, ran.late)
    if ran.status in (0, 4):
        return Taken(bundle, late=ran.late)
    if ran.status == 2:
        return Taken(bundle, f"{where}: no process of the instance was found; the node's own evidence is saved")
    return Taken(bundle, f"{where}: {words}", ran.late)


def _wishes(stopped: bool) -> list[str]:
    return ["--stop-confirmed"] if stopped else []


def _without(options: Sequence[str], names: Sequence[str]) -> list[str]:
    found: list[str] = []
    skip = False
    for option in options:
        if skip:
            skip = False
        elif option in names:
            skip = True
        elif not any(option.startswith(f"{name}=") for name in names):
            found.append(option)
    return found


def _inert(options: Sequence[str]) -> list[str]:
    """Of addresses the password is left out: others see it in `ps`."""
    found = []
    for option in options:
        try:
            parts = urlsplit(option)
            shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.scheme else option
        except ValueError:
            shown = option
        found.append(shown)
    return found


def _some(path: Path) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False
