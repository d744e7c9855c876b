"""Where the state file and the bundles lie, where nobody says otherwise (file-hierarchy(7), XDG base directories)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

OURS = "rankmuster"
RUN = Path("/run")
LIB = Path("/var/lib")


def default_state_folder(environ: Mapping[str, str] | None = None, run: Path = RUN) -> Path:
    """For whoever writes: `/run/rankmuster` where that may be made, else the user's runtime or state folder."""
    environ = os.environ if environ is None else environ
    if _usable(run):
        return run / OURS
    return _own_runtime(environ) or _own_state(environ)


def state_folders(environ: Mapping[str, str] | None = None, run: Path = RUN) -> tuple[Path, ...]:
    """For whoever reads, in the order to look: the node's watch may be another user's."""
    environ = os.environ if environ is None else environ
    runtime = _own_runtime(environ)
    return tuple(one for one in (run / OURS, runtime, _own_state(environ)) if one is not None)


def default_bundle_folder(environ: Mapping[str, str] | None = None, lib: Path = LIB) -> Path:
    """For bundles and the record of stops: `/var/lib/rankmuster/stops`, else below the user's state folder."""
    environ = os.environ if environ is None else environ
    return (lib / OURS if _usable(lib) else _own_state(environ)) / "stops"


def _usable(parent: Path) -> bool:
    """Whether our folder in it is there and may be written, or may be made."""
    ours = parent / OURS
    try:
        return os.access(ours if ours.exists() else parent, os.W_OK | os.X_OK)
    except OSError:
        return False


def _own_runtime(environ: Mapping[str, str]) -> Path | None:
    folder = environ.get("XDG_RUNTIME_DIR", "")
    return Path(folder) / OURS if folder.startswith("/") else None


def _own_state(environ: Mapping[str, str]) -> Path:
    folder = environ.get("XDG_STATE_HOME", "")
    if folder.startswith("/"):
        return Path(folder) / OURS
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(home) / ".local" / "state" / OURS
