"""`rankmuster incident run`: the runbook for one instance, now, in this process."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankmuster.cli.incident_named import Reason, settings_of
from rankmuster.cli.incident_place import JournalPlace, opened, place
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.incident.journal import Journal
    from rankmuster.incident.machine.state import Incident
    from rankmuster.incident.notices import Notices
    from rankmuster.incident.runner import Runner
    from rankmuster.incident.seen import Seen
    from rankmuster.model.incident import Event, Opening
    from rankmuster.model.verdict import Verdict

MOST_STOP = 4 << 20
"""Bytes of a stop on standard input: a hook gets 1 MiB at most."""

MOST_VERDICT = 64 << 20


def run(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The settings of incidents (YAML).")],
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="NAME", help="Which one; a stop's own name where one is given.")
    ] = None,
    stop: Annotated[
        Path | None,
        typer.Option("--stop", metavar="FILE", help="A stop as the watch's hooks get it; - for standard input."),
    ] = None,
    verdict: Annotated[
        Path | None,
        typer.Option("--verdict", metavar="FILE", help="A verdict that there is already (`diagnose --format json`)."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="PATH", help="Evidence that there is already: none is collected then."),
    ] = None,
    reason: Reason = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print exactly what would be done, ask nobody, and write nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for an operator where one has to approve.")
    ] = True,
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Run the runbook for one instance: stop traffic, save the evidence, decide, rebuild the whole group, verify.

    Nothing acts that `enable` of the settings does not name: the rest is said and not done. As a hook of
    `rankmuster watch`: incident run --config FILE --stop - . What happens is in the journal; an incident of the
    instance that is open is gone on with.

    Exit status: 0 the instance serves again, or nothing was wrong; 1 it was closed otherwise (held, failed, given up,
    aborted); 2 it was only observed, or waits for an operator (with --no-wait); 3 nothing was done: bad usage, another
    runner works on it, no journal.
    """
    settings = settings_of(config)
    with doing("reading what is given"):
        opening = _opening(settings, instance, stop, verdict, bundle, reason)
    if dry_run:
        return _dry_run(settings, opening)
    with opened(_journal(settings, journal), "running an incident", create=True) as store:
        return _run(settings, opening, store, wait=wait)


def _run(settings: IncidentConfig, opening: Opening, store: Journal, *, wait: bool) -> int:
    from rankmuster.cli.incident_runners import refusals

    with _runner(settings, opening.instance, store) as (runner, notices, current):
        with refusals():
            incident = runner.open(opening)
        current[opening.instance] = incident
        say(f"incident {incident} of {opening.instance}; rankmuster incident show {incident}")
        notices.opened(incident, opening.instance, opening.reason, opening.at)
        return drive(runner, incident, wait=wait)


def drive(runner: Runner, incident: str, *, wait: bool) -> int:
    """Runs it to its end, or to where people are waited for; the exit status."""
    from rankmuster.cli.incident_runners import refusals
    from rankmuster.incident.runner import Stopped, Taken

    try:
        with refusals(), _ended_by_signals(runner):
            ended = runner.run(incident, wait_for_people=wait)
    except (Taken, Stopped) as error:
        raise CommandError(str(error)) from error
    write_stdout(f"{incident}: {_words(ended)}\n")
    return _status(ended)


def resume_with(config: Path, journal: str, incident: str) -> int:
    """Goes on with an open incident, in this process."""
    settings = settings_of(config)
    with opened(journal, "resuming") as store:
        instance = next((head.instance for head in store.incidents() if head.id == incident), None)
        if instance is None:
            raise CommandError(f"{store.name} has no incident {incident}")
        with _runner(settings, instance, store) as (runner, _, current):
            current[instance] = incident
            return drive(runner, incident, wait=True)


def _journal(settings: IncidentConfig, given: str) -> str:
    return place(given or settings.journal or "")


@contextmanager
def _runner(
    settings: IncidentConfig, instance: str, store: Journal
) -> Iterator[tuple[Runner, Notices, dict[str, str]]]:
    """The runner, who is told, and where the incident that is run is to be noted."""
    from rankmuster.cli import incident_runners as runners
    from rankmuster.incident.notices import Notices

    tools = runners.tools_for(settings, instance)
    follower = runners.follower_of(settings, {instance: tools}, store)
    notices = Notices(settings.hooks, time.monotonic, lambda said: say(f"rankmuster: {said}"))
    current: dict[str, str] = {}
    tell = notices.of(instance, current)

    def seen() -> Seen | None:
        follower.refresh()
        return follower.seen(instance)

    def told(event: Event) -> None:
        _say_event(event)
        tell(event)

    runner = runners.runner_of(settings, instance, tools, store, holder=runners.holder(), seen=seen, told=told)
    try:
        yield runner, notices, current
    finally:
        notices.close(5.0)


def _say_event(event: Event) -> None:
    from rankmuster.model.incident import EventKind
    from rankmuster.report.inert import plain

    step = event.step.value if event.step is not None else ""
    words = {
        EventKind.STEP_BEGUN: f"{step}: begun",
        EventKind.STEP_ENDED: f"{step}: {event.ending.value if event.ending else 'ended'}",
        EventKind.RESULT: f"{step}: {event.action}: {event.ending.value if event.ending else ''}",
        EventKind.DECIDED: "decided",
        EventKind.DEADLINE: "the total deadline has passed",
        EventKind.CLOSED: f"closed: {event.data.get('outcome')}",
    }.get(event.kind)
    if words is not None:
        say(f"  {words}{f': {plain(event.note, 400)}' if event.note else ''}")


def _opening(
    settings: IncidentConfig,
    instance: str | None,
    stop: Path | None,
    verdict: Path | None,
    bundle: Path | None,
    reason: str,
) -> Opening:
    from rankmuster.cli import incident_runners as runners
    from rankmuster.incident.openings import NoOpening, by_hand, from_stop

    said = None if verdict is None else _plain(verdict, MOST_VERDICT, "verdict")
    try:
        if stop is not None:
            if verdict is not None or bundle is not None:
                raise CommandError("--stop brings its own verdict and bundle; leave --verdict and --bundle out")
            opening = from_stop(_plain(stop, MOST_STOP, "stop"), runners.host())
            if instance is not None and instance != opening.instance:
                raise CommandError(f"the stop is of {opening.instance}, and --instance says {instance}")
            return opening
        if instance is None:
            if len(settings.instances) != 1:
                there = ", ".join(sorted(settings.instances)[:10]) or "none"
                raise CommandError(f"which instance? name one with --instance; the settings have {there}")
            [instance] = settings.instances
        if instance not in settings.instances:
            runners.tools_for(settings, instance)
        if bundle is not None and not bundle.exists():
            raise CommandError(f"--bundle {bundle}: there is no such file or folder")
        if said is not None:
            _must_be_verdict(said, verdict)
        return by_hand(
            instance,
            now=time.time(),
            host=runners.host(),
            seen=_seen(settings, instance),
            reason=reason,
            bundle=None if bundle is None else str(bundle.absolute()),
            verdict=said,
            metrics_url=settings.instances[instance].metrics_url,
        )
    except NoOpening as error:
        raise CommandError(f"{stop or verdict}: {error}") from error


def _seen(settings: IncidentConfig, instance: str) -> Seen | None:
    from rankmuster.incident.follow import Follower

    follower = Follower(settings.watch, {}, lambda _: None, clock=time.monotonic, unix_now=time.time, host="")
    follower.refresh()
    return follower.seen(instance)


def _must_be_verdict(raw: Any, path: Path | None) -> Verdict:
    from rankmuster.model.plain_json import NotPlain
    from rankmuster.model.verdict_json import verdict_from_plain

    try:
        return verdict_from_plain(raw)
    except NotPlain as error:
        raise CommandError(f"{path} is no verdict as `diagnose --format json` writes it: {error}") from error


def _plain(path: Path, most: int, what: str) -> Any:
    """JSON of a file, or of standard input."""
    from rankmuster.cli.given import bytes_of

    if str(path) == "-":
        data = sys.stdin.buffer.read(most + 1)
        if len(data) > most:
            raise CommandError(f"the {what} on standard input has more than {most >> 20} MiB")
    else:
        data = bytes_of(path, most, what)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{'standard input' if str(path) == '-' else path} holds no JSON: {error}") from error


def _dry_run(settings: IncidentConfig, opening: Opening) -> int:
    from rankmuster.cli import incident_runners as runners
    from rankmuster.incident.memory_journal import MemoryJournal

    said = None if opening.verdict is None else _must_be_verdict(opening.verdict, None)
    tools = runners.tools_for(settings, opening.instance)
    runner = runners.runner_of(
        settings, opening.instance, tools, MemoryJournal(time.time), holder="dry-run", seen=lambda: None
    )
    write_stdout("".join(f"{line}\n" for line in runner.dry_run(opening, said)))
    return ExitStatus.HEALTHY


@contextmanager
def _ended_by_signals(runner: Runner) -> Iterator[None]:
    """SIGTERM and SIGINT: the runner stops between two actions, and the incident stays open for the next one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in earlier:
        signal.signal(number, lambda *_: runner.stop())
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _words(incident: Incident) -> str:
    if incident.closed is None:
        waits = ", ".join(one.step.value for one in incident.running) or "its next runner"
        return f"open; waits for {waits}"
    last = incident.recent[-1].note if incident.recent else ""
    return f"{incident.closed.value}: {last}" if last else incident.closed.value


def _status(incident: Incident) -> int:
    from rankmuster.model.incident import Outcome

    if incident.closed in (Outcome.RECOVERED, Outcome.RESTORED):
        return ExitStatus.HEALTHY
    return ExitStatus.UNDECIDED if incident.closed in (None, Outcome.OBSERVED) else ExitStatus.FAULT
