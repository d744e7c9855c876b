"""The settings file of `rankmuster kube controller` (YAML), checked before anything is begun.

What is per workload stands in a CommunicationPolicy. Here stands what is the cluster's: the journal, where evidence
is kept, what may be acted on at all, the fleet's limits, and admission.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from rankmuster.incident.config_read import ConfigRefused, checked
from rankmuster.incident.limits import DEFAULT as DEFAULT_LIMITS
from rankmuster.incident.limits import Limits
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.model.checked import Check, Part
from rankmuster.model.kube import AGENT_PORT, SIDECAR_PORT, TOKEN_FILE
from rankmuster.watch.config import Hook

Seconds = Annotated[float, Check(gt=0, le=86_400)]

ROLES = ("traffic", "group", "node", "retest", "admission")


@dataclass(frozen=True, slots=True, kw_only=True)
class Election(Part):
    """Of the one controller that works, by a Lease. A leader that could not renew for `renew_seconds` ends itself; one
    that is gone is followed after `lease_seconds`."""

    name: Annotated[str, Check(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = "rankmuster-controller"
    lease_seconds: Annotated[float, Check(ge=3, le=600)] = 15.0
    renew_seconds: Annotated[float, Check(ge=1, le=600)] = 10.0
    retry_seconds: Annotated[float, Check(ge=0.1, le=60)] = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings(Part):
    """`enable`: what may act in this cluster at all; a policy enables within it. `dry_run`: nothing acts and nothing is
    written but the log. `pods`, `nodes`: label selectors of what is watched; empty: all. `namespaces`: empty: all.

    `folder`: of evidence, kept by a volume; of `journal` and `history` too, where none is named. `token_file`: shared
    with sidecars and agents. `period`: seconds between two looks at an instance. `resync_seconds`: between two whole
    lists, after which nothing that a watch missed is left. `exec_evidence`: evidence of pods without a sidecar by a
    command in them, which needs the right to exec.
    """

    journal: str | None = None
    history: str | None = None
    folder: Path = Path("/var/lib/rankmuster")
    token_file: Path = Path(TOKEN_FILE)
    image: Annotated[str, Check(min_length=1, max_length=512)] = "registry.example/rankmuster"
    listen: str | None = None
    namespace: str | None = None
    namespaces: tuple[str, ...] = ()
    pods: str = ""
    nodes: str = ""
    enable: tuple[str, ...] = ()
    dry_run: bool = False
    period: Annotated[float, Check(ge=1, le=60)] = 5.0
    resync_seconds: Annotated[float, Check(ge=10, le=86_400)] = 600.0
    sidecar_port: Annotated[int, Check(ge=1, le=65_535)] = SIDECAR_PORT
    agent_port: Annotated[int, Check(ge=1, le=65_535)] = AGENT_PORT
    exec_evidence: bool = False
    polls_at_once: Annotated[int, Check(ge=1, le=256)] = 32
    limits: Limits = DEFAULT_LIMITS
    election: Election = Election()
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    hooks: tuple[Hook, ...] = ()


def read(text: str, name: str) -> ControllerSettings:
    """The settings in `text`. `name`: of the file, for messages. Raises ConfigRefused."""
    settings: ControllerSettings = checked(ControllerSettings, text, name, "journal")
    for role in settings.enable:
        if role not in ROLES:
            raise ConfigRefused(f"{name}: enable: {role!r} enables nothing; it is one of {', '.join(ROLES)}")
    wrong = settings.admission.objection()
    if wrong:
        raise ConfigRefused(f"{name}: admission: {wrong}")
    election = settings.election
    if election.renew_seconds >= election.lease_seconds:
        raise ConfigRefused(
            f"{name}: election: renew_seconds ({election.renew_seconds:g}) has to be smaller than lease_seconds "
            f"({election.lease_seconds:g}): a leader has to end itself before another one begins"
        )
    return settings
