"""What a node is now, for `rankmuster drift` (a file, or this machine live), and since when changes count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.cli.given import stored_fingerprint
from rankmuster.cli.history_named import moment
from rankmuster.cli.status import CommandError, doing
from rankmuster.model.fingerprint import Fingerprint

TAKE_SECONDS = 30.0
"""For this node's own fingerprint; what takes longer is unknown."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What of the instance is asked or known better than this program can see; as the options of `fingerprint`."""

    pid: int | None = None
    python: Path | None = None
    image_digest: str = ""
    engine: str = ""

    @property
    def said(self) -> bool:
        """Whether anything of it was given."""
        return self != Instance()


def from_file(file: Path, host: str | None) -> Fingerprint:
    """Raises CommandError for no fingerprint, and for one of another node than `host`."""
    found = stored_fingerprint(file)
    if host is not None and host not in (found.host, found.node_hash) and found.host is not None:
        raise CommandError(
            f"{file} is the fingerprint of {found.host}, and --host says {host}: give the fingerprint of that node"
        )
    return found


def live(host: str | None, instance: Instance) -> Fingerprint | None:
    """Of this machine; None where `host` is another one, whose newest stored fingerprint has to do.

    Raises CommandError for options that are wrong, or that are of this machine's processes while `host` is not.
    """
    from rankmuster.cli import fingerprint_sources as sources
    from rankmuster.collect.machine import Machine

    if host is not None and host.split(".")[0] != Machine().hostname:
        if instance.said:
            raise CommandError(
                f"--pid, --python, --image-digest and --engine are of this machine, and --host is {host}"
            )
        return None
    digest, engine = sources.digest(instance.image_digest), sources.engine(instance.engine)
    path = sources.live("", instance.pid, instance.python, TAKE_SECONDS)
    software = path.software
    if digest is not None:
        software = replace(software, image_digest=digest)
    if engine is not None:
        software = replace(software, engine=engine[0], engine_version=engine[1])
    with doing("making the fingerprint"):
        from rankmuster.baseline.fingerprint.build import fingerprint_of

        return fingerprint_of(replace(path, software=software))


def since_of(given: str, now: float) -> float | None:
    """Unix seconds; None for `all`. A date without a zone is UTC. Raises CommandError for what is no time."""
    if given.strip() == "all":
        return None
    found = moment(given, "--since", now)
    if found > now:
        raise CommandError(f"--since {given[:100]!r} has not come yet; give a time before now")
    return found
