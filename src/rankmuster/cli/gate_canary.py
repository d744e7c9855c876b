"""`rankmuster gate canary`: a release's first minutes beside the approved one: keep it, or roll it back."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.gate_place import CONFIG, GateSettings, RecordsPlace, record_errors, records_at, release_of
from rankmuster.cli.incident_named import operator
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import say, write_file, write_stdout
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.gate.canary import Gathered
    from rankmuster.gate.chain import Chain
    from rankmuster.gate.records import Records
    from rankmuster.model.canary import Judged, Serving
    from rankmuster.watch.snapshot import InstanceView, Snapshot

SECONDS = 600.0
"""The first minutes: graphs are captured, caches are warm, and 120 looks of the watch are there."""
LEAST_SECONDS, MOST_SECONDS = 1.0, 86_400.0
ASK_SECONDS = 0.5
"""Between two looks at the state file: a look of the watch is there within its period."""
SIGHT_SECONDS = 60.0
"""For which a watch may not have written anything, at the beginning and between two looks."""


class Format(str, Enum):
    """How the answer is written."""

    TERMINAL = "terminal"
    JSON = "json"


def canary(
    instance: Annotated[
        str, typer.Option("--instance", metavar="NAME", help="The instance that runs the new release.")
    ] = "",
    config: GateSettings = Path(CONFIG),
    records: RecordsPlace = "",
    release: Annotated[
        str, typer.Option("--release", metavar="NAME", help="Whose approval it is held against; default: as `status`.")
    ] = "",
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="Where the watch keeps its state.")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--seconds", metavar="N", min=LEAST_SECONDS, max=MOST_SECONDS, help="How long it is watched."),
    ] = SECONDS,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Held against what an earlier canary wrote, not the approval."),
    ] = None,
    beside: Annotated[
        str,
        typer.Option(
            "--beside", metavar="NAME", help="Held against this instance, which the same watch sees meanwhile."
        ),
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            "--against", metavar="RECORD", help="Held against how this approval served; default: the one before."
        ),
    ] = "",
    record: Annotated[
        bool,
        typer.Option("--record", help="Keep how it served with the approval that counts."),
    ] = False,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", metavar="FILE", help="Judge again what a canary wrote; nothing is watched."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="terminal: to read; json: rankmuster.canary/1.")
    ] = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Watch a new release's first minutes through `rankmuster watch`, and answer: keep it, or roll it back.

    A stop, a slow spell, an end or a restart answers at once: roll back. Else its tokens per second and running request
    are held, under like load, against the release that was approved before. --record keeps the measure with the
    approval that counts, for the canaries of later ones; --output writes it.

    Exit status: 0 keep, 1 roll back, 2 undecided (too little load, or nothing to hold it against), 3 bad usage, or no
    watch that sees it.
    """
    with doing("loading the program"):
        load_numpy()
        from rankmuster.gate.canary import judge
    if beside and beside == instance:
        raise CommandError("--beside names another instance than --instance: held against itself everything is kept")
    chain = _chain(release, records, config)
    if record and (chain is None or chain.current is None):
        raise CommandError("--record keeps how the approved release serves, and nothing is approved")
    if measured is not None:
        ours, theirs = _document(measured, "--measured"), None
    elif not instance:
        raise CommandError("name the instance with --instance (`rankmuster top --once` shows which there are)")
    else:
        with doing("watching the canary"):
            now = chain.current.hash if chain is not None and chain.current is not None else None
            ours, theirs = _watched(instance, beside, state, seconds, now)
    held = theirs or (_document(baseline, "--baseline") if baseline is not None else None)
    if held is None and chain is not None:
        held = _approved(chain, against)
    with doing("judging the canary"):
        judged = judge(ours, held)
        _deliver(ours, judged, form, output)
    if record and chain is not None and chain.current is not None:
        _record(chain, ours, judged, records_at(records, config))
    return {"keep": ExitStatus.HEALTHY, "roll_back": ExitStatus.FAULT}.get(judged.advice.value, ExitStatus.UNDECIDED)


def _watched(
    name: str, beside: str, state: Path | None, seconds: float, release: str | None
) -> tuple[Serving, Serving | None]:
    """What was seen of one instance, and of another one beside it. Ends at the first trouble: that decides."""
    from rankmuster.gate.canary import Gathered

    ours, theirs = Gathered(name, release), Gathered(beside, None)
    begun = last_look = time.monotonic()
    newest = 0.0
    while (now := time.monotonic()) - begun < seconds:
        snapshot = _snapshot(state)
        if snapshot is not None and snapshot.time != newest:  # a clock may be set back
            # the first look may be an old one: what it says happened before
            if newest:
                last_look = now
                ours.add(snapshot.time, _view(snapshot, name))
                if beside:
                    theirs.add(snapshot.time, _view(snapshot, beside))
            newest = snapshot.time
            if ours.serving.troubles:
                break
        if now - last_look > SIGHT_SECONDS:
            raise CommandError(
                f"no watch has written a new state for {SIGHT_SECONDS:.0f} s: start `rankmuster watch`, or say with "
                "--state where it keeps it"
            )
        time.sleep(ASK_SECONDS)
    _seen(ours, name)
    if beside:
        _seen(theirs, beside)
    return ours.serving, theirs.serving if beside else None


def _seen(gathered: Gathered, name: str) -> None:
    states = gathered.serving.states
    if set(states) <= {"not seen"}:
        raise CommandError(f"the watch knows no instance {name!r}: `rankmuster top --once` shows which there are")


def _snapshot(state: Path | None) -> Snapshot | None:
    from rankmuster.watch.export.state_file import NoState, StateRefused, found_state_folder, read_state

    try:
        return read_state(state if state is not None else found_state_folder())
    except NoState:
        return None
    except StateRefused as error:
        raise CommandError(str(error)) from error


def _view(snapshot: Snapshot, name: str) -> InstanceView | None:
    return next((one for one in snapshot.instances if one.name == name), None)


def _document(path: Path, option: str) -> Serving:
    from rankmuster.cli.given import bytes_of
    from rankmuster.gate.canary_document import MOST_BYTES, NotACanary, read

    try:
        return read(bytes_of(path, MOST_BYTES, "canary's document"))
    except NotACanary as error:
        raise CommandError(f"{option} {path}: {error}") from error


def _chain(release: str, records: str, config: Path) -> Chain | None:
    """None where there are no records to ask."""
    if not records and not config.exists():
        return None
    place = records_at(records, config)
    name = release_of(release, place, config if not records else None)
    with record_errors(f"reading the records of {name}"):
        return place.chain(name)


def _approved(chain: Chain, against: str) -> Serving | None:
    """How an earlier approval served; None where nobody measured one."""
    from rankmuster.gate.canary_document import NotACanary, of_plain

    with record_errors(f"reading the records of {chain.release}"):
        held = chain.approval(against) if against else chain.served_before
    found = chain.servings.get(held.hash) if held is not None else None
    if found is None:
        if against:
            raise CommandError(f"of record {against} nobody has kept how it served (`gate canary --record`)")
        return None
    try:
        return of_plain(found)
    except NotACanary as error:
        raise CommandError(f"what is kept of how {chain.release} served: {error}") from error


def _record(chain: Chain, serving: Serving, judged: Judged, place: Records) -> None:
    from rankmuster.gate.canary_document import plain
    from rankmuster.gate.chain import next_record
    from rankmuster.model.release import RecordKind, ReleaseRecord

    assert chain.current is not None
    if judged.advice.value == "roll_back" or not serving.busy:
        say("not recorded: what is rolled back, or saw no request, is no measure of others")
        return
    wanted = ReleaseRecord(
        RecordKind.SERVED,
        chain.release,
        0,
        time.time(),
        operator(""),
        judged.advice.value,
        serving=plain(serving),
        to=chain.current.hash,
    )
    with record_errors("recording the canary"):
        made = next_record(chain, wanted)
        where = place.add(made)
    say(f"recorded how record {chain.current.number} serves: {where}")


def _deliver(serving: Serving, judged: Judged, form: Format, output: Path | None) -> None:
    from rankmuster.gate.canary_document import render
    from rankmuster.report.inert import inert

    document = render(serving, judged)
    if output is not None:
        write_file(output, document)
        say(f"wrote {output}")
    if form is Format.JSON:
        write_stdout(document)
        return
    words = {"keep": "keep it", "roll_back": "roll it back", "undecided": "undecided"}[judged.advice.value]
    lines = [f"{words}: {inert(serving.instance)}", *(f"  - {inert(one)}" for one in judged.reasons)]
    lines.append(
        f"  {serving.looks} looks in {serving.ended_at - serving.begun_at:.0f} s, {serving.busy} with requests"
    )
    if judged.advice.value == "roll_back":
        lines.append("  > rankmuster gate rollback prints the last good release")
    write_stdout("\n".join(lines) + "\n")
