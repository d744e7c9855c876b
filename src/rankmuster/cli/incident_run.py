"""`rankmuster incident run`: the runbook for one instance, now, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.incident_named import Reason, settings_of
from rankmuster.cli.incident_place import JournalPlace, opened, place
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.cli.told_to_end import told_to_end
from rankmuster.model.incident import SERVED

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.incident.journal import Journal
    from rankmuster.incident.machine.state import Incident
    from rankmuster.incident.notices import Notices
    from rankmuster.incident.runner import Runner
    from rankmuster.incident.seen import Seen
    from rankmuster.model.incident import Event, Opening, Step


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
    from rankmuster.cli.incident_opening import opening_of

    with doing("reading what is given"):
        opening = opening_of(settings, instance, stop, verdict, bundle, reason)
    if dry_run:
        return _dry_run(settings, opening)
    with opened(_journal(settings, journal), "running an incident", create=True) as store:
        return _run(settings, opening, store, wait=wait)


def _run(settings: IncidentConfig, opening: Opening, store: Journal, *, wait: bool) -> int:
    from rankmuster.cli.incident_runners import holder as holder_of
    from rankmuster.cli.incident_runners import refusals
    from rankmuster.incident.serve import opened_by

    holder = holder_of()
    with _runner(settings, opening.instance, store, holder) as (runner, notices, current):
        with refusals():
            incident = runner.open(opening)
        current[opening.instance] = incident
        new = opened_by(store, incident) == holder
        which = "incident" if new else "it goes on with the open incident"
        say(f"{which} {incident} of {opening.instance}; rankmuster incident show {incident}")
        if new:
            notices.opened(incident, opening.instance, opening.reason, opening.at)
        return drive(runner, incident, wait=wait)


def drive(runner: Runner, incident: str, *, wait: bool) -> int:
    """Runs it to its end, or to where people are waited for; the exit status."""
    from rankmuster.cli.incident_runners import refusals
    from rankmuster.incident.runner import Stopped, Taken

    try:
        # it stops between two actions, and the incident stays open for the next one
        with refusals(), told_to_end(runner.stop):
            ended = runner.run(incident, wait_for_people=wait)
    except (Taken, Stopped) as error:
        raise CommandError(str(error)) from error
    write_stdout(f"{incident}: {_words(ended)}\n")
    return _status(ended)


def resume_with(config: Path, journal: str, incident: str) -> int:
    """Goes on with an open incident, in this process."""
    from rankmuster.cli.incident_runners import holder

    settings = settings_of(config)
    with opened(journal, "resuming") as store:
        instance = next((head.instance for head in store.incidents() if head.id == incident), None)
        if instance is None:
            raise CommandError(f"{store.name} has no incident {incident}")
        with _runner(settings, instance, store, holder()) as (runner, _, current):
            current[instance] = incident
            return drive(runner, incident, wait=True)


def _journal(settings: IncidentConfig, given: str) -> str:
    return place(given or settings.journal or "")


@contextmanager
def _runner(
    settings: IncidentConfig, instance: str, store: Journal, holder: str
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

    said: dict[Step | None, str] = {}

    def told(event: Event) -> None:
        _say_event(event, said.get(event.step, ""))
        said[event.step] = event.note
        tell(event)

    runner = runners.runner_of(settings, instance, tools, store, holder=holder, seen=seen, told=told)
    try:
        yield runner, notices, current
    finally:
        notices.close(5.0)


def _say_event(event: Event, said: str) -> None:
    """`said`: of the event before of this step, whose words are not repeated."""
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
        say(f"  {words}{f': {plain(event.note, 400)}' if event.note and event.note != said else ''}")


def _dry_run(settings: IncidentConfig, opening: Opening) -> int:
    from rankmuster.cli import incident_runners as runners
    from rankmuster.cli.incident_opening import must_be_verdict
    from rankmuster.incident.memory_journal import MemoryJournal

    said = None if opening.verdict is None else must_be_verdict(opening.verdict, "the verdict")
    tools = runners.tools_for(settings, opening.instance)
    runner = runners.runner_of(
        settings, opening.instance, tools, MemoryJournal(time.time), holder="dry-run", seen=lambda: None
    )
    write_stdout("".join(f"{line}\n" for line in runner.dry_run(opening, said)))
    return ExitStatus.HEALTHY


def _words(incident: Incident) -> str:
    if incident.closed is None:
        waits = ", ".join(one.step.value for one in incident.running) or "its next runner"
        return f"open; waits for {waits}"
    from rankmuster.incident.serve import words

    return words(incident)


def _status(incident: Incident) -> int:
    from rankmuster.model.incident import Outcome

    if incident.closed in SERVED:
        return ExitStatus.HEALTHY
    return ExitStatus.UNDECIDED if incident.closed in (None, Outcome.OBSERVED) else ExitStatus.FAULT
