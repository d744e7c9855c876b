"""The settings of `rankmuster gate` (YAML), as frozen values: what is released, and where its evidence lies.

Paths are taken from the folder of the file, so that all of it can be kept in one repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rankmuster.gate.facts import MOST_AGE_DAYS
from rankmuster.model.checked import Check
from rankmuster.model.checked import Part as Shape
from rankmuster.model.release import Item

RELEASE_NAME = r"^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$"
DIGEST = r"^sha256:[0-9a-f]{64}$"
DAY = r"^\d{4}-\d{2}-\d{2}$"
HASH = r"^(sha256:)?[0-9a-f]{8,64}$"

Text = Annotated[str, Check(min_length=1, max_length=4096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseConfig(Shape):
    """`name`: of what is approved again and again, an instance or a deployment. `workload`: its specification.

    `containers`: names of the engine's, where not those that ask for GPUs. `digest`: of the image, where the workload
    does not pin it. `torch`, `nccl`, `engine`: as `env check` takes them.
    """

    name: Annotated[str, Check(pattern=RELEASE_NAME)]
    workload: Path
    containers: tuple[Text, ...] = ()
    digest: Annotated[str, Check(pattern=DIGEST)] | None = None
    torch: str | None = None
    nccl: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverConfig(Shape):
    """`until`: the last day on which it counts, UTC. `release`: this one only."""

    item: Item
    owner: Text
    reason: Text
    until: Annotated[str, Check(pattern=DAY)]
    release: Annotated[str, Check(pattern=RELEASE_NAME)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig(Shape):
    """`bundle`: recorded from the release under its own load, one or one a node. `fingerprints`: files of the nodes in
    use (`*` stands for several). `history`: of benchmarks. `drills`: score cards, or their folders. `runbook`: settings
    of `incident`, or a CommunicationPolicy; `instance`: which of its instances, where there are several. `expect`:
    topology hashes. `records`: the folder of approvals. `most_age_days`: of recordings and drills.
    """

    release: ReleaseConfig
    bundle: tuple[Path, ...] = ()
    fingerprints: tuple[Text, ...] = ()
    history: str | None = None
    drills: tuple[Path, ...] = ()
    runbook: Path | None = None
    instance: str | None = None
    expect: tuple[Annotated[str, Check(pattern=HASH)], ...] = ()
    records: Path = Path("releases")
    most_age_days: Annotated[float, Check(gt=0, le=366)] = MOST_AGE_DAYS
    waivers: tuple[WaiverConfig, ...] = ()
