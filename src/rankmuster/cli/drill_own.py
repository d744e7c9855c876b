"""A drill of a user's own job, from the options to its card: nothing is sent before everything was looked at."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.drill_card import DrillStatus
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.drill.faults import Fault
    from rankmuster.drill.own_job import Victim

BUDGET_SECONDS = 900.0
"""For an incident of the user's to come to its end: the runbook's own total is 770 s by default."""


@dataclass(frozen=True, slots=True)
class OwnAsked:
    """The options, as given."""

    name: str
    faults: list[str]
    rank: int | None
    times: int
    controls: str
    state: Path | None
    journal: str
    artefact: str | None
    output: Path
    dry_run: bool
    yes: bool


def drill_own(asked: OwnAsked) -> int:
    """Raises CommandError for what cannot be drilled, before anything is sent."""
    from rankmuster.cli.drill_progress import drilled, new_folder
    from rankmuster.drill import able, card_machine
    from rankmuster.drill.card_book import About
    from rankmuster.drill.own_campaign import OwnCampaign
    from rankmuster.drill.own_chain import OwnOrder
    from rankmuster.drill.own_hold import Held
    from rankmuster.drill.own_job import NotAllowedHere, victim_of
    from rankmuster.drill.own_watch import NoWatch, OwnWatch

    if asked.controls not in ("default", "none"):
        raise CommandError("--controls of a job of your own is default (it is left alone and looked at) or none")
    try:
        faults = able.chosen_own(asked.faults)
        victim = victim_of(asked.name, asked.rank)
        with Held(victim):  # whether it could be: nothing is sent
            state = _state(asked)
        OwnWatch(state, asked.name).must_be_well()
    except (able.CannotDrill, NotAllowedHere, NoWatch) as error:
        raise CommandError(str(error)) from error
    order = OwnOrder(state, _journal(asked), BUDGET_SECONDS)
    _must_be_new(asked.output)
    if asked.dry_run:
        write_stdout(_plan(asked, faults, victim))
        return DrillStatus.PASSED
    _ask(asked, faults, victim)
    output = new_folder(asked.output)
    campaign = OwnCampaign(
        asked.name, order, faults, rank=asked.rank, controls=asked.controls != "none", times=asked.times
    )
    options = {
        "times": str(asked.times),
        "controls": asked.controls,
        "journal": "none" if order.journal is None else "",
    }
    about = About(asked.name, card_machine.read(victim.pid), asked.artefact, options)
    try:
        return drilled(about, output, lambda book: campaign.run(output, book, victim))
    except (NotAllowedHere, NoWatch) as error:
        raise CommandError(str(error)) from error


def _state(asked: OwnAsked) -> Path:
    """Whose watch is read."""
    from rankmuster.watch.export.state_file import found_state_folder

    return asked.state or found_state_folder()


def _journal(asked: OwnAsked) -> str | None:
    """Whose incidents are read, from a journal that was opened once; None where nobody has made one. Raises
    CommandError for one that was named and is not there, and for one that cannot be read."""
    from rankmuster.cli.incident_place import none_yet, opened, place

    file = none_yet(asked.journal)
    if file is not None:
        say(
            f"rankmuster: there is no journal of incidents at {file}: that evidence is saved and service comes back "
            "cannot be scored, so that the card cannot pass; name it with --journal"
        )
        return None
    with opened(asked.journal, "opening the journal of incidents") as journal:
        journal.incidents(instance=asked.name, limit=1)
    return place(asked.journal)


def _must_be_new(output: Path) -> None:
    """Raises CommandError where there is something at it; nothing is made."""
    try:
        taken = any(output.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise CommandError(f"cannot use {output}: {error.strerror or error}") from error
    if taken:
        raise CommandError(f"{output} is not empty: give a new folder: nothing earlier may be taken for a result")


def _ask(asked: OwnAsked, faults: tuple[Fault, ...], victim: Victim) -> None:
    """Raises CommandError where nobody has said yes."""
    if asked.yes:
        return
    plan = _plan(asked, faults, victim)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(
            f"nobody is here to be asked: give --yes to do it, --dry-run to see it. {plan.splitlines()[0]}"
        )
    say(plan.rstrip())
    say(f"This ends or stops a process that serves. To do it, type the instance's name ({asked.name}):")
    if sys.stdin.readline().strip() != asked.name:
        raise CommandError("nothing was done")


def _plan(asked: OwnAsked, faults: tuple[Fault, ...], victim: Victim) -> str:
    """What would be done, exactly."""
    lines = []
    for fault in faults:
        name = signal.Signals(fault.signal or 0).name
        again = "; SIGCONT to it in the end, if it is still there" if fault.signal == signal.SIGSTOP else ""
        lines.append(
            f"{fault.name}: {name} to pid {victim.pid} ({victim.name}, rank {victim.rank} of {victim.instance}) and to "
            f"nobody else{again}; {asked.times} time(s)"
        )
    lines.append(f"the instance {victim.instance} has {len(victim.pids)} process(es) here, and allows it")
    if asked.times > 1 or len(faults) > 1:
        lines.append("each further one goes to the rank's process of then, once your watch sees the job at work again")
    return "\n".join(lines) + "\n"
