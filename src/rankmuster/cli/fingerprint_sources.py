"""Where a fingerprint comes from: this machine or captured text, and what the user knows better than either."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.given import profile_of
from rankmuster.cli.history_named import check_measured_at, moment
from rankmuster.cli.status import CommandError, doing
from rankmuster.model.fingerprint import NONE

if TYPE_CHECKING:
    from rankmuster.model.node_path import NodePath

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\b")


def live(host: str, pid: int | None, python: Path | None, deadline: float) -> NodePath:
    """This machine, read within `deadline` seconds. Raises CommandError for options that are not of it."""
    if host:
        raise CommandError("--host chooses a node of captured text; give it with --from")
    with doing("reading this machine"):
        import os
        import time

        from rankmuster.collect.fingerprint.take import take
        from rankmuster.collect.machine import Machine

        if python is not None and not python.exists():
            raise CommandError(f"--python {python}: there is no such file")
        return take(
            Machine(),
            deadline_s=deadline,
            environ=dict(os.environ),
            now=time.time,
            python=python,
            pid=pid,
        )


def captured(source: str, host: str, pid: int | None, python: Path | None) -> NodePath:
    """The node of `host` in captured text. Raises CommandError where it is of no node or of several, or unreadable."""
    if pid is not None or python is not None:
        raise CommandError("--pid and --python are of this machine; leave them out with --from")
    if not source:
        raise CommandError("--from is empty (a variable that is not set?); name a file, a folder or a bundle")
    from rankmuster.cli.reading import reading

    path = Path(source)
    with reading(f"what was captured in {path}", path):
        from rankmuster.evidence.bundle import load
        from rankmuster.evidence.node_path import NotOneNode, from_evidence
        from rankmuster.evidence.node_path_readers import for_node_paths

        evidence = load(path, readers=for_node_paths())
        try:
            observations = [one for kind in evidence.by_type.values() for one in kind]
            return from_evidence(observations, host=host or None, problems=evidence.problems)
        except NotOneNode as error:
            raise CommandError(f"{path}: {error}") from error


def captured_at(given: str, source: str | None) -> float | None:
    """Unix seconds; None where nothing was given. Raises CommandError."""
    if not given:
        return None
    if source is None:
        raise CommandError("--taken-at is of captured text, given with --from; this machine is read now")
    import time

    now = time.time()
    found = moment(given, "--taken-at", now)
    check_measured_at(found, f"--taken-at {given[:100]}", now)
    return found


def digest(given: str) -> str | None:
    """The image's digest, or "none"; None where nothing was given. Raises CommandError."""
    if not given:
        return None
    found = _DIGEST.search(given)
    if found is None and given != NONE:
        raise CommandError(f"--image-digest {given[:100]}: give sha256: and 64 hex digits, or none")
    return found.group() if found else NONE


def engine(given: str) -> tuple[str, str] | None:
    """(name, version); None where nothing was given. Raises CommandError."""
    if not given:
        return None
    name, _, version = given.partition("=")
    if given != NONE and not (name and version):
        raise CommandError(f"--engine {given[:100]}: give NAME=VERSION, such as vllm=0.15.1, or none")
    return name, version or NONE


def profile_key(name: str) -> str | None:
    """`Profile.key` of the profile of that name, or of a file; None where none was named. Raises CommandError."""
    return profile_of(name).key if name else None
