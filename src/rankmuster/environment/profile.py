"""A profile: which variables to set for one profile, version, engine and instance, with a reason each."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.environment.draft import Draft, LeftOut, ProfileName, Request, Setting
from rankmuster.environment.engine_settings import add_engine
from rankmuster.environment.nccl_settings import add_nccl
from rankmuster.environment.recorder_settings import add_recorder
from rankmuster.environment.variable import Engine
from rankmuster.environment.version import (
    NEWEST_NCCL,
    NEWEST_TORCH,
    OLDEST_NCCL,
    OLDEST_TORCH,
    Version,
    at_least,
    at_most,
    written,
)

__all__ = ["Engine", "LeftOut", "Profile", "ProfileName", "Request", "Setting", "make_profile"]

WHAT = {
    ProfileName.STEADY: "always on: cheap enough for production, and enough to name a culprit",
    ProfileName.PREPROD: "before production: timing, desync debug, stacks, and every connection's path",
    ProfileName.INCIDENT: "for an incident: most evidence for the suspected class; go back to steady afterwards",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """The answer. `folders`: what must exist before the processes start. `notes`: what else is worth doing."""

    request: Request
    settings: tuple[Setting, ...]
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders that must exist, and be writable for the instance, before it starts."""
        return (self.request.place.own_folder,)

    @property
    def purpose(self) -> str:
        """What the profile is for."""
        return WHAT[self.request.profile]


def make_profile(request: Request) -> Profile:
    """Everything, in a fixed order; the same request gives the same profile anywhere."""
    draft = Draft(request)
    draft.set("RANKMUSTER_INSTANCE", request.place.instance, "the instance's name, for whoever collects its evidence")
    if request.place.variable:
        # not the incarnation itself: an instance of several pods has one, and each pod its own UID
        draft.set("POD_UID", request.place.incarnation or "", "every start of the pod has a folder of its own")
    elif request.place.incarnation is not None:
        draft.set("RANKMUSTER_INCARNATION", request.place.incarnation, "which start of it this is")
    elif not request.place.own:
        draft.warnings.append(
            "no --incarnation was given: a restart overwrites the dumps of the start before it, which are then gone; "
            "give a start time, a job id or a pod's UID"
        )
    draft.warnings += _unknown_versions(request)
    add_recorder(draft)
    add_nccl(draft)
    add_engine(draft)
    return Profile(request, tuple(draft.settings), tuple(draft.left_out), tuple(draft.warnings), tuple(draft.hints))


def _unknown_versions(request: Request) -> list[str]:
    return [
        *_outside("torch", request.torch, OLDEST_TORCH, NEWEST_TORCH),
        *_outside("NCCL", request.nccl, OLDEST_NCCL, NEWEST_NCCL),
    ]


def _outside(name: str, version: Version, oldest: Version, newest: Version) -> list[str]:
    if not at_least(version, oldest):
        return [
            f"{name} {written(version)} is older than {written(oldest)}, the oldest that is known here: what it does "
            "not read is left out, and what it reads beside is not known"
        ]
    if not at_most(version, newest):
        return [f"{name} {written(version)} is newer than {written(newest)}; its names are taken to be the same"]
    return []
