"""The variables of one start: the user's own, the profile's, those for this one start, and who the group is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.collect.find.seen import INCARNATION, INSTANCE
from rankmuster.supervise.settings import RunProfile, RunSettings

MAX_VARIABLES = 200
MAX_VALUE = 32 << 10


class BadWish(ValueError):
    """A start cannot be as it was wished; the message says why."""


@dataclass(frozen=True, slots=True)
class Made:
    """`profile`: "steady", "incident for X" or "none". `notes`: what is worth saying."""

    environment: Mapping[str, str]
    profile: str
    notes: tuple[str, ...] = ()


def check_variables(raw: object) -> dict[str, str]:
    """Raises BadWish for what cannot be variables of a process."""
    if not isinstance(raw, Mapping) or len(raw) > MAX_VARIABLES:
        raise BadWish(f"the variables of a start are an object of at most {MAX_VARIABLES} texts")
    for name, value in raw.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name or len(name) > 256:
            raise BadWish(f"{str(name)[:40]!r} is no name of a variable")
        if not isinstance(value, str) or "\0" in value or len(value) > MAX_VALUE:
            raise BadWish(f"the value of {name} is no text of at most {MAX_VALUE} characters")
    return dict(raw)


def make(
    settings: RunSettings,
    own: Mapping[str, str],
    incarnation: str,
    *,
    wished: Mapping[str, str] | None = None,
    suspect: str | None = None,
) -> Made:
    """`own`: the environment that run was started in. `suspect`: the class or sub-kind of the incident's profile.

    A steady profile fills in what the user has not set; the incident's goes before the user's own, for one start.
    Raises BadWish.
    """
    found = dict(own)
    notes: list[str] = []
    profile = "none"
    if suspect is not None:
        profile = f"incident for {suspect}"
        found |= _profile(settings, incarnation, suspect, notes)
    elif settings.profile is RunProfile.STEADY:
        profile = "steady"
        found = _profile(settings, incarnation, None, notes) | found
    found |= wished or {}
    found |= {INSTANCE: settings.name, INCARNATION: incarnation}
    return Made(found, profile, tuple(notes))


def _profile(settings: RunSettings, incarnation: str, suspect: str | None, notes: list[str]) -> dict[str, str]:
    """Imported here: two megabytes that a supervisor without profiles does without."""
    from rankmuster.environment.draft import ProfileName
    from rankmuster.environment.place import Place
    from rankmuster.environment.profile import Request, make_profile
    from rankmuster.environment.subsystems import suspected
    from rankmuster.environment.variable import Engine
    from rankmuster.environment.version import ASSUMED_NCCL, ASSUMED_TORCH, parse_version

    try:
        made = make_profile(
            Request(
                profile=ProfileName.STEADY if suspect is None else ProfileName.INCIDENT,
                torch=parse_version(settings.torch) if settings.torch else ASSUMED_TORCH,
                nccl=parse_version(settings.nccl) if settings.nccl else ASSUMED_NCCL,
                place=Place(settings.evidence, settings.name, incarnation),
                engine=Engine(settings.engine) if settings.engine else None,
                suspect=suspected(suspect) if suspect is not None else None,
            )
        )
    except ValueError as error:
        raise BadWish(str(error)) from error
    for folder in made.folders:
        try:
            os.makedirs(folder, mode=0o755, exist_ok=True)
        except OSError as error:
            # evidence never holds up a start
            notes.append(f"the profile is left out: its folder {folder} cannot be made ({error.strerror or error})")
            return {}
    return {one.name: one.value for one in made.settings}


def default_evidence_folder(environ: Mapping[str, str]) -> str:
    """`/var/log/rankmuster`, as `env print` has it, where that may be written; else below the user's state folder."""
    shared = "/var/log/rankmuster"
    with contextlib.suppress(OSError):
        if os.access(shared if os.path.isdir(shared) else os.path.dirname(shared), os.W_OK | os.X_OK):
            return shared
    state = environ.get("XDG_STATE_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    return f"{state if state.startswith('/') else home + '/.local/state'}/rankmuster/evidence"
