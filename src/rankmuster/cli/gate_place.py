"""Where the gate's settings, records and words come from: options that its commands share, and what they raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.gate.config import GateConfig
    from rankmuster.gate.facts import Facts
    from rankmuster.gate.records import Records
    from rankmuster.model.release import Checklist

CONFIG = "gate.yaml"
CLUSTER = "kube:"
"""Of a place of records: the ApprovedReleases of a namespace."""

GateSettings = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="What is released, and where its evidence lies (YAML).")
]
RecordsPlace = Annotated[
    str,
    typer.Option(
        "--records",
        metavar="PLACE",
        help="A folder, or kube:NAMESPACE for a cluster's ApprovedReleases; default: `records` of the settings.",
    ),
]
ReleaseName = Annotated[
    str, typer.Argument(metavar="[RELEASE]", help="Its name; default: the settings', or the only one there is.")
]


def settings(path: Path) -> GateConfig:
    """Raises CommandError."""
    from rankmuster.cli.given import bytes_of
    from rankmuster.gate.config_read import read
    from rankmuster.incident.config_read import MAX_BYTES, ConfigRefused

    with doing(f"reading {path}"):
        data = bytes_of(path, MAX_BYTES, "gate's settings")
        try:
            return read(data.decode("utf-8"), str(path))
        except UnicodeDecodeError as error:
            raise CommandError(f"{path} is no text in UTF-8 (byte {error.start})") from error
        except ConfigRefused as error:
            raise CommandError(f"{error}; nothing was checked") from error


def checked(path: Path, history: str, now: float) -> tuple[GateConfig, Facts, Checklist]:
    """The checklist of the settings' release. Raises CommandError."""
    config = settings(path)
    with doing("loading the program"):
        from rankmuster import __version__
        from rankmuster.cli.gate_policy import runbook_of_policy
        from rankmuster.environment.given import Unreadable
        from rankmuster.gate.check import check
        from rankmuster.gate.config_read import waivers_of
        from rankmuster.gate.sources import Gathering, SourceRefused
        from rankmuster.gate.workload import NotDeployable
    with doing("gathering the evidence of the release"):
        gathering = Gathering(config, path.absolute().parent, history or _default_history(), runbook_of_policy)
        try:
            facts = gathering.facts(now)
        except (SourceRefused, NotDeployable, Unreadable) as error:
            raise CommandError(str(error)) from error
    with doing("going through the checklist"):
        return config, facts, check(facts, waivers_of(config), __version__)


def _default_history() -> str | None:
    import os

    from rankmuster.cli.history_place import place

    found = place("")
    return found if "://" in found or os.path.exists(found) else None


def records_at(given: str, config: Path | None) -> Records:
    """Where `--records` says, else the settings. Raises CommandError."""
    from rankmuster.gate.records import FolderRecords

    if given.startswith(CLUSTER):
        from rankmuster.cli.gate_cluster import cluster_records

        return cluster_records(given.removeprefix(CLUSTER))
    if given:
        return FolderRecords(Path(given))
    if config is None or not config.exists():
        raise CommandError("name the records with --records FOLDER (or kube:NAMESPACE), or the settings with --config")
    records = settings(config).records
    if str(records).startswith(CLUSTER):
        return records_at(str(records), None)
    return FolderRecords(records if records.is_absolute() else config.absolute().parent / records)


def release_of(given: str, records: Records, config: Path | None) -> str:
    """The release that is meant. Raises CommandError."""
    if given:
        return given
    if config is not None and config.exists():
        return settings(config).release.name
    with record_errors("listing the releases"):
        names = records.releases()
    if len(names) == 1:
        return names[0]
    there = ", ".join(names[:20]) or "none yet"
    raise CommandError(f"name the release; there is {there}")


@contextmanager
def record_errors(what: str) -> Iterator[None]:
    """Does `what`; what is wrong with records, and what cannot be read or written, is the command's error."""
    from rankmuster.gate.chain import NoSuchRecord
    from rankmuster.gate.document import NotARecord, TooLong
    from rankmuster.gate.records import RecordsUnusable

    with doing(what):
        try:
            yield
        except (NotARecord, RecordsUnusable, NoSuchRecord, TooLong) as error:
            raise CommandError(f"{what}: {error}") from error
