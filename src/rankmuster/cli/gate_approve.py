"""`rankmuster gate approve`: the checklist, and where it passes, an immutable record of what may take traffic."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.gate_check import Format, status_of, text_of
from rankmuster.cli.gate_place import CONFIG, GateSettings, RecordsPlace, checked, record_errors, records_at
from rankmuster.cli.history_place import HistoryPlace
from rankmuster.cli.incident_named import OperatorName, operator, reason_of
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.gate.facts import Facts
    from rankmuster.model.release import Artefact


def approve(
    config: GateSettings = Path(CONFIG),
    history: HistoryPlace = "",
    records: RecordsPlace = "",
    by: OperatorName = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the record.")] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Although a release made of just the same was rolled back from.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Record that the release may take traffic: its image, versions, topology, profile and environment, and the
    checklist with its evidence. A record is written once, and each holds the hash of the one before it.

    A release whose checklist does not pass is refused, and nothing is recorded.

    Exit status: 0 recorded, 1 refused: an item fails, 2 refused: items cannot be told, 3 bad usage, or it could not be
    recorded.
    """
    with doing("loading the program"):
        load_numpy()
        from rankmuster.gate.chain import next_record
        from rankmuster.model.release import RecordKind, ReleaseRecord
    now = time.time()
    _, facts, checklist = checked(config, history, now)
    if not checklist.passed:
        write_stdout(text_of(checklist, Format.TERMINAL, False))
        say("refused: nothing is recorded")
        return status_of(checklist)
    place = records_at(records, config)
    with record_errors("recording the approval"):
        chain = place.chain(facts.release)
        artefact = _artefact(facts)
        bad = chain.is_bad(artefact)
        if bad is not None and not again:
            raise CommandError(
                f"record {bad.number} of {facts.release} is made of just the same, and was rolled back from: --again "
                "approves it all the same"
            )
        wanted = ReleaseRecord(
            RecordKind.APPROVAL,
            facts.release,
            0,
            now,
            operator(by),
            reason_of(reason),
            artefact=artefact,
            checklist=checklist,
        )
        made = next_record(chain, wanted)
        where = place.add(made)
    write_stdout(f"approved: {facts.release} record {made.number} {made.hash}\n")
    say(f"wrote {where}")
    return ExitStatus.HEALTHY


def _artefact(facts: Facts) -> Artefact:
    from rankmuster.gate.artefact import artefact_of
    from rankmuster.model.unknown import Unknown

    nodes = () if isinstance(facts.nodes, Unknown) else facts.nodes
    profile = None if isinstance(facts.recording, Unknown) else facts.recording.profile
    return artefact_of(
        facts.release,
        facts.workload,
        [one.fingerprint for one in nodes],
        None if profile is None or isinstance(profile, Unknown) else profile.key,
        facts.digest,
    )
