"""How asking RAS can hurt the job, by NCCL release: the table, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.collect.ras.release import Release, Span


class Harm(str, Enum):
    """What a release does. INIT_CRASH, MEMORY_WALK: a STATUS can crash the job. TEXT_CHURN: the same, of the text
    report alone. THREAD_CRASH: the RAS thread crashes without being asked anything."""

    INIT_CRASH = "init_crash"
    MEMORY_WALK = "memory_walk"
    TEXT_CHURN = "text_churn"
    THREAD_CRASH = "thread_crash"


@dataclass(frozen=True, slots=True)
class Hazard:
    """One defect. `effect`: what happens, the end of a sentence; `source`: where it is known from."""

    harm: Harm
    releases: Span
    effect: str
    source: str


HAZARDS = (
    Hazard(
        Harm.MEMORY_WALK,
        Span(Release(2, 26, 2), Release(2, 29, 2)),
        "a STATUS walks memory wrongly when ranks are missing and there are several communicators: the reply is "
        "garbage, or the job crashes",
        "NVIDIA/nccl#1762, fixed in 2.29.2",
    ),
    Hazard(
        Harm.INIT_CRASH,
        Span(Release(2, 26, 2), Release(2, 27, 3)),
        "a STATUS while a communicator is being initialised crashes the job",
        "NVIDIA/nccl#1669 and #1718, fixed in 2.27.3",
    ),
    # Open when this was written (late 2026), with 2.30.7 the last release it is reported of: so it has no end here.
    Hazard(
        Harm.TEXT_CHURN,
        Span(Release(2, 29, 7), None),
        "the text report crashes while communicators are being created or destroyed; JSON does not take that path",
        "NVIDIA/nccl#2346, open",
    ),
    # Merged for a release to come in 2026-09 (NVIDIA/nccl#2406); which one has it is not known yet.
    Hazard(
        Harm.THREAD_CRASH,
        Span(Release(2, 27, 7), None),
        "NCCL's RAS thread is known to crash by itself, asked or not; NCCL_RAS_ENABLE=0 avoids it and costs this plane",
        "NVIDIA/nccl#1996",
    ),
)
"""The worst first."""


def hazards_of(candidates: tuple[Span, ...]) -> tuple[Hazard, ...]:
    """The hazards that any of the releases that may be running has: the worst is assumed.

    `candidates`: where sources contradict, several; empty: nothing is known, so that everything applies.
    """
    possible = candidates or (Span(),)
    return tuple(hazard for hazard in HAZARDS if any(hazard.releases.overlaps(span) for span in possible))
