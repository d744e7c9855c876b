"""Where an admission's facts come from and where its answer is kept: this node or files, and the history."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.history_place import place
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.admission.kernel_source import KernelRead
    from rankmuster.admission.past import Past
    from rankmuster.admission.plan import Outcome, Plan, Sources
    from rankmuster.bench.tool import Tool
    from rankmuster.model.benchmark import Profile
    from rankmuster.store.history import History


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a live admission, as given."""

    tool: Tool
    gpus: int | None
    given: dict[str, str]
    runs: int
    retests: int
    limit: float
    folder: Path | None
    python: Path | None
    image: str | None
    keep: Path | None
    kernel_log: Path | None
    dcgm_level: int


@contextmanager
def opened_history(url: str, store: bool) -> Iterator[History | None]:
    """The history; None where none is asked for and there is none, or nothing to read one with, which is said."""
    with doing("loading the program"):
        from rankmuster.store.errors import HistoryError, Unreachable
        from rankmuster.store.failures import missing

        try:
            from rankmuster.store.history import History
        except ImportError as error:
            words = str(missing(error))
            if store or url:
                raise CommandError(f"{words}, or admit without one: --no-store") from error
            say(f"rankmuster: {words}")
            yield None
            return
    with doing("opening the history"):
        try:
            opened = History.open(place(url), create=store)
        except Unreachable as error:
            if store or url:
                raise CommandError(str(error)) from error
            say(f"rankmuster: compared with nothing: {error}")
            opened = None  # nothing is to be kept either
        except HistoryError as error:
            raise CommandError(str(error)) from error
    if opened is None:
        yield None
        return
    with opened:
        yield opened


def _past(opened: History | None) -> Past:
    if opened is None:
        from rankmuster.admission.past import NoPast

        return NoPast()
    from rankmuster.admission.past_store import StorePast

    return StorePast(opened)


def _usable(read: KernelRead) -> KernelRead:
    """Raises CommandError for a file that was given as the kernel log and is none: it was meant to say something."""
    from rankmuster.model.unknown import Unknown

    if isinstance(read.events, Unknown):
        raise CommandError(f"{read.events.reason}; give what dmesg or journalctl -k prints of this boot")
    return read


def _given_log(path: Path) -> KernelRead:
    from rankmuster.admission.node_facts import given_log

    with doing(f"reading {path}"):
        try:
            return _usable(given_log(path))
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror or error}") from error


def live(profile: Profile, asked: Asked, opened: History | None) -> tuple[Plan, Sources]:
    """This node."""
    log = _given_log(asked.kernel_log) if asked.kernel_log is not None else None
    with doing("loading the program"):
        from rankmuster.admission.live import Live, live_sources
        from rankmuster.admission.plan import Plan
        from rankmuster.bench.tool import How
    how = How(
        asked.tool,
        asked.gpus,
        asked.given,
        dict(os.environ),
        asked.limit,
        asked.folder,
        str(asked.python) if asked.python is not None else None,
        asked.keep,
    )
    what = Live(how, profile.key, log, asked.dcgm_level, asked.image, asked.python)
    past = _past(opened)
    with doing("looking at the node's ports"):
        plan = Plan(profile, runs=asked.runs, retests=asked.retests, settings=asked.given, gpus=asked.gpus)
        return plan, live_sources(what, past)


def recorded(
    files: list[Path],
    host: str | None,
    kernel_log: Path | None,
    profile: Profile,
    given: dict[str, str],
    opened: History | None,
    gpus: int | None = None,
) -> tuple[Plan, Sources]:
    """What was recorded of a node."""
    with doing("loading the program"):
        from rankmuster.admission.plan import Plan
        from rankmuster.admission.recorded import NotRecorded, read_recorded, with_kernel_log
        from rankmuster.admission.recorded_sources import recorded_sources
    past = _past(opened)
    with doing("reading what was recorded"):
        try:
            found = read_recorded(files, host)
            if kernel_log is not None:
                _usable(with_kernel_log(found, kernel_log))
        except NotRecorded as error:
            raise CommandError(str(error)) from error
        for note in found.notes[:8]:
            say(f"rankmuster: {note}")
        plan = Plan(profile, runs=len(found.runs), retests=0, settings=given, gpus=gpus)
        return plan, recorded_sources(found, past, profile, given, time.time)


def admitted(plan: Plan, sources: Sources) -> Outcome:
    """The answer."""
    from rankmuster.store.errors import HistoryError

    with doing("admitting the node"):
        from rankmuster.admission.run import admit as decided

        try:
            return decided(plan, sources)
        except HistoryError as error:
            raise CommandError(str(error)) from error


def keep(opened: History, outcome: Outcome) -> None:
    """Record, fingerprint and runs. What cannot be kept is said; the answer is given all the same."""
    from rankmuster.report.admission_json import render
    from rankmuster.store.errors import HistoryError

    with doing("keeping the answer in the history"):
        from rankmuster.report.fingerprint_yaml import as_json

        try:
            fingerprint = outcome.fingerprint
            opened.put_fingerprint(fingerprint, as_json(fingerprint).encode())  # JSON: read 15 times as fast as YAML
            opened.put_many(outcome.runs)
            opened.put_admission(outcome.record, render(outcome.record).encode())
        except HistoryError as error:
            say(f"rankmuster: the answer was not kept: {error}")
