"""`rankmuster gate rollback`: the last good release, compared with what is there, and as what puts it back."""

from __future__ import annotations

import json
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.gate_place import (
    CONFIG,
    GateSettings,
    RecordsPlace,
    ReleaseName,
    record_errors,
    records_at,
    release_of,
)
from rankmuster.cli.gate_status import Containers, WorkloadFile, digest_in, workload_at
from rankmuster.cli.incident_named import OperatorName, operator, reason_of
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.gate.chain import Chain
    from rankmuster.gate.deployed import Workload
    from rankmuster.gate.records import Records
    from rankmuster.model.release import Artefact, ReleaseRecord


class Format(str, Enum):
    """What is printed."""

    DIFF = "diff"
    JSON = "json"
    SHELL = "shell"
    POD_PATCH = "pod-patch"
    KUSTOMIZE = "kustomize"


def rollback(
    release: ReleaseName = "",
    config: GateSettings = Path(CONFIG),
    records: RecordsPlace = "",
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="RECORD", help="Number or first digits of an approval; default: the last good one."
        ),
    ] = "",
    workload: WorkloadFile = None,
    container: Containers = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="diff: what changes; json: the record; shell: to source; pod-patch: for kubectl; kustomize: patches.",
        ),
    ] = Format.DIFF,
    output: OutputFile = None,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Record that the earlier release counts again, and the later ones are bad."),
    ] = False,
    by: OperatorName = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; with --confirm, kept.")] = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Print the last good release as what puts it back: environment, a patch of the pod's object, or a kustomize patch.
    Every variable of communication gets its bytes again, and what was not set then is taken away.

    Without --workload it is held against the approval that counts now; with it, against what is deployed. Nothing is
    applied: what is printed is reviewed, and applied with your own tools.

    Exit status: 0 printed (and recorded), 1 there is nothing to go back to, 3 bad usage, records that are not as they
    were written, or a form that cannot hold the release.
    """
    place = records_at(records, config)
    name = release_of(release, place, config if not records else None)
    with record_errors(f"reading the records of {name}"):
        chain = place.chain(name)
        target = chain.approval(to) if to else chain.last_good
    if target is None or target.artefact is None:
        say(f"{name} has no approval before the one that counts: there is nothing to go back to")
        return ExitStatus.FAULT
    if target.hash in chain.bad:
        raise CommandError(f"record {target.number} of {name} was itself rolled back from: it is no good one")
    current = workload_at(workload, container or [], config) if workload is not None else None
    digest = digest_in(config)
    with doing("making the way back"):
        text = _text(chain, target, target.artefact, current, form, container or [], digest)
    deliver(text, output)
    if confirm:
        _confirm(place, chain, target, operator(by), reason_of(reason))
    return ExitStatus.HEALTHY


def _text(
    chain: Chain,
    target: ReleaseRecord,
    artefact: Artefact,
    current: Workload | None,
    form: Format,
    containers: list[str],
    digest: str | None,
) -> str:
    from rankmuster.gate.document import plain
    from rankmuster.gate.restore import NotRestorable, as_json_patch, as_kustomize, as_shell, command, patches

    if form is Format.JSON:
        return json.dumps(plain(target), indent=1, allow_nan=False) + "\n"
    if form is Format.DIFF:
        return _diff(chain, target, artefact, current, digest)
    try:
        if form is Format.SHELL:
            return as_shell(artefact, current, containers[0] if containers else None)
        if current is None:
            raise CommandError(
                f"--format {form.value} needs --workload FILE: the object as it is now, which is patched"
            )
        made = patches(artefact, current)
        if form is Format.KUSTOMIZE:
            return as_kustomize(made)
        if len(made) > 1:
            names = ", ".join(f"{one.owner.kind} {one.owner.name}" for one in made)
            raise CommandError(f"{names} have to be patched: give one in a file of its own, or take --format kustomize")
        if not made:
            say("it is as it was approved: there is nothing to patch")
            return "[]\n"
        say(f"apply it with: {command(made[0], 'FILE')}")
        return as_json_patch(made[0])
    except NotRestorable as error:
        raise CommandError(str(error)) from error


def _diff(chain: Chain, target: ReleaseRecord, artefact: Artefact, current: Workload | None, digest: str | None) -> str:
    from rankmuster.gate.artefact import artefact_of, differences
    from rankmuster.gate.cover import NOT_OF_A_WORKLOAD
    from rankmuster.report.inert import inert
    from rankmuster.report.release_words import moment, short

    head = f"back to record {target.number} ({short(target.hash)}) of {moment(target.made_at)}, by {target.by}"
    if current is not None:
        now, what = artefact_of(chain.release, current, (), None, digest), current.source
        found = [
            one
            for one in differences(now, artefact)
            if one.what not in NOT_OF_A_WORKLOAD and one.what not in artefact.versions
        ]
    else:
        if chain.current is None or chain.current.artefact is None:
            raise CommandError("nothing is approved that it could be compared with")
        now, what = chain.current.artefact, f"record {chain.current.number}"
        found = list(differences(now, artefact))
    lines = [head, f"against {what}: " + ("it is the same" if not found else f"{len(found)} change(s)")]
    lines += [f"  {one.in_words}" for one in found]
    return "".join(f"{line[: len(line) - len(line.lstrip())]}{inert(line)}\n" for line in lines)


def _confirm(place: Records, chain: Chain, target: ReleaseRecord, by: str, reason: str) -> None:
    from rankmuster.gate.chain import next_record
    from rankmuster.model.release import RecordKind, ReleaseRecord

    if chain.current is not None and chain.current.hash == target.hash:
        raise CommandError(f"record {target.number} is the one that counts: there is nothing to roll back")
    wanted = ReleaseRecord(RecordKind.ROLLBACK, chain.release, 0, time.time(), by, reason, to=target.hash)
    with record_errors("recording the roll-back"):
        made = next_record(chain, wanted)
        where = place.add(made)
    say(f"recorded the roll-back as record {made.number}: {where}")
