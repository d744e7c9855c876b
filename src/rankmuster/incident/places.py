"""Where the runbook keeps what is not in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rankmuster.incident.config import IncidentConfig
from rankmuster.watch.export.folders import default_bundle_folder


def folder_of(config: IncidentConfig, environ: Mapping[str, str] | None = None) -> Path:
    """Of evidence: the settings' own, `/var/lib/rankmuster/incidents`, or below the user's state folder."""
    return config.folder or default_bundle_folder(environ).parent / "incidents"


def slurm_notes(config: IncidentConfig, instance: str, environ: Mapping[str, str] | None = None) -> Path:
    """What we have added to a job's exclusions, so that it is taken back by whichever runner comes next."""
    return folder_of(config, environ) / f"slurm-{instance}.json"
