"""`rankmuster gate status`: which release is approved, what it rests on, and whether it is what is deployed here."""

from __future__ import annotations

import json
import re
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankmuster.cli.gate_place import (
    CONFIG,
    GateSettings,
    RecordsPlace,
    ReleaseName,
    record_errors,
    records_at,
    release_of,
    settings,
)
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.gate.chain import Chain
    from rankmuster.gate.deployed import Workload
    from rankmuster.model.fingerprint import Fingerprint

SCHEMA = "rankmuster.gate-status/1"
MOST_FINGERPRINT = 16 << 20
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Format(str, Enum):
    """How the answer is written."""

    TERMINAL = "terminal"
    JSON = "json"


WorkloadFile = Annotated[
    Path | None,
    typer.Option("--workload", metavar="FILE", help="What is deployed now: a specification, or a file of variables."),
]
Containers = Annotated[
    list[str] | None,
    typer.Option("--container", metavar="NAME", help="The engine's, where not the one that asks for GPUs; may repeat."),
]


def status(
    release: ReleaseName = "",
    config: GateSettings = Path(CONFIG),
    records: RecordsPlace = "",
    workload: WorkloadFile = None,
    container: Containers = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--image-digest", metavar="DIGEST", help="sha256:... of the image, where the file has a tag only."
        ),
    ] = None,
    fingerprint: Annotated[
        list[Path] | None,
        typer.Option("--fingerprint", metavar="FILE", help="Of a node that is to carry it; may repeat."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="terminal: to read; json: one document.")] = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Say which release is approved, by whom and on what grounds, and the last good one before it. With --workload and
    --fingerprint: whether the approval is of this workload, on these nodes.

    All records are held against their hashes first; one that was changed, left out or exchanged is an error.

    Exit status: 0 approved (and it is of what was given), 1 nothing is approved, a waiver that it rests on has expired,
    or it is of something else, 3 bad usage, or records that are not as they were written.
    """
    place = records_at(records, config)
    name = release_of(release, place, config if not records else None)
    with record_errors(f"reading the records of {name}"):
        chain = place.chain(name)
    with doing("holding the approval against what is deployed"):
        objections = _objections(chain, workload, container or [], digest_in(config, digest), fingerprint or [], config)
    document = _document(chain, objections, time.time())
    text = json.dumps(document, indent=1) + "\n" if form is Format.JSON else _text(document)
    deliver(text, output)
    return ExitStatus.HEALTHY if document["stands"] else ExitStatus.FAULT


def workload_at(path: Path, containers: list[str], config: Path) -> Workload:
    """What is deployed; the engine's containers as given, else as the settings say. Raises CommandError."""
    from rankmuster.environment.given import Unreadable
    from rankmuster.gate.deployed import NotDeployable
    from rankmuster.gate.workload import read_workload

    named = containers or (list(settings(config).release.containers) if config.exists() else [])
    try:
        return read_workload(path, named)
    except (Unreadable, NotDeployable) as error:
        raise CommandError(f"{error} (here: --container)" if "`containers`" in str(error) else str(error)) from error


def digest_in(config: Path, given: str | None = None) -> str | None:
    """Of the image that a workload does not pin: as given, else as the settings say. Raises CommandError."""
    if given is not None:
        if DIGEST.fullmatch(given) is None:
            raise CommandError(f"--image-digest wants sha256: and 64 hex digits, not {given[:80]!r}")
        return given
    return settings(config).release.digest if config.exists() else None


def fingerprint_at(path: Path) -> Fingerprint:
    """Raises CommandError."""
    from rankmuster.cli.given import bytes_of
    from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint

    try:
        return read_fingerprint(bytes_of(path, MOST_FINGERPRINT, "fingerprint"))
    except FingerprintRefused as error:
        raise CommandError(f"{path}: {error}") from error


def _objections(
    chain: Chain,
    workload: Path | None,
    containers: list[str],
    digest: str | None,
    fingerprints: list[Path],
    config: Path,
) -> tuple[str, ...]:
    from rankmuster.gate.cover import objections

    if chain.current is None or chain.current.artefact is None:
        return ()
    now = workload_at(workload, containers, config) if workload is not None else None
    return objections(chain.current.artefact, now, [fingerprint_at(path) for path in fingerprints], digest)


def _document(chain: Chain, objections: tuple[str, ...], now: float) -> dict[str, Any]:
    from rankmuster.gate.artefact import artefact_hash, settings_hash
    from rankmuster.model.release import ItemState
    from rankmuster.report.release_words import day, waiver_words

    current, good = chain.current, chain.last_good
    expired, waived = [], []
    if current is not None and current.checklist is not None:
        for one in current.checklist.results:
            if one.state is ItemState.WAIVED and one.waiver is not None:
                waived.append(f"{one.item.value}: {waiver_words(one)}")
                if one.waiver.until <= now:
                    expired.append(
                        f"the waiver of {one.item.value} ended on {day(one.waiver.until - 1.0)}: check it again"
                    )

    def brief(record: Any) -> dict[str, Any] | None:
        if record is None:
            return None
        return {
            "number": record.number,
            "hash": record.hash,
            "made_at": record.made_at,
            "by": record.by,
            "reason": record.reason,
            "artefact": artefact_hash(record.artefact) if record.artefact is not None else None,
            "versions": dict(record.artefact.versions) if record.artefact is not None else {},
            "images": [part.digest or part.image for part in record.artefact.parts] if record.artefact else [],
            "settings": [settings_hash(part.settings) for part in record.artefact.parts] if record.artefact else [],
        }

    return {
        "schema": SCHEMA,
        "release": chain.release,
        "stands": current is not None and not expired and not objections,
        "current": brief(current),
        "last_good": brief(good),
        "bad": sorted(chain.bad),
        "records": [
            {"number": one.number, "kind": one.kind.value, "hash": one.hash, "made_at": one.made_at, "by": one.by}
            for one in chain.records
        ],
        "waived": waived,
        "expired": expired,
        "objections": list(objections),
    }


def _text(document: dict[str, Any]) -> str:
    from rankmuster.report.inert import inert
    from rankmuster.report.release_words import moment, short

    name, current = document["release"], document["current"]
    if current is None:
        return f"{inert(name)}: nothing is approved\n"
    lines = [f"{name}: record {current['number']} ({short(current['hash'])}) is approved"]
    lines[0] += "" if document["stands"] else ", and does not stand"
    lines.append(f"  by {current['by']} on {moment(current['made_at'])}" + _because(current["reason"]))
    lines += [f"  image {one}" for one in current["images"] if one]
    versions = ", ".join(f"{key} {value}" for key, value in current["versions"].items())
    lines += [f"  {versions}"] if versions else []
    lines += [f"  waived: {one}" for one in document["waived"]]
    lines += [f"  ! {one}" for one in document["expired"]]
    lines += [f"  x not of what was given: {one}" for one in document["objections"]]
    good = document["last_good"]
    if good is not None:
        lines.append(f"  before it: record {good['number']} ({short(good['hash'])}) of {moment(good['made_at'])}")
    else:
        lines.append("  before it: nothing that one could go back to")
    lines += [f"  bad: {short(one)}" for one in document["bad"]]
    return "".join(f"{line[: len(line) - len(line.lstrip())]}{inert(line)}\n" for line in lines)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
