"""Hardware: waiting GPUs spin with frozen link counters, and the one that did not come sits idle among them.

The only plane that sees replayed CUDA graphs. All spinning is not enough to convict anybody; a GPU that also runs a
foreign process tells nothing. Blind to which operation, and to waits of the host alone (gloo, stores).
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, ranks_text
from rankmuster.diagnose.spin import Doing, Picture, picture
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane

NAME = "spinning-gpus"


def detect(context: Context) -> list[Finding]:
    """The idle ranks among spinning ones, where they are the minority and nothing moves anywhere."""
    seen = picture(context)
    spinning = seen.ranks(Doing.SPINNING)
    idle = seen.ranks(Doing.IDLE)
    found = _foreign(context, seen)
    if not spinning:
        return found
    seconds = min(seen.states[rank].seconds for rank in spinning)
    sources = tuple(dict.fromkeys(context.tracks[rank].source for rank in (*spinning, *idle)))
    what = f"{ranks_text(spinning).capitalize()}: GPU at 100 % with frozen link counters for {seconds:.0f} s"
    moving = seen.ranks(Doing.MOVING)
    if moving:
        statement = f"{what}; yet bytes move on {ranks_text(moving)}: not a stop of all"
        return [*found, Finding(NAME, Plane.HARDWARE, statement, sources)]
    if seconds < context.limits.hardware_seconds:
        return [*found, Finding(NAME, Plane.HARDWARE, f"{what}, too short to say more", sources)]
    if not idle:
        statement = f"{what}; all GPUs with samples spin, which says stopped and not who"
        return [*found, Finding(NAME, Plane.HARDWARE, statement, sources)]
    steady = tuple(rank for rank in idle if seen.states[rank].seconds >= context.limits.hardware_seconds)
    covered = len(seen.states) == len(context.world)
    odd = bool(steady) and (len(steady) < len(spinning) or len(steady) == len(spinning) == 1)
    statement = f"{what}, while {ranks_text(idle)} sits idle with its process on the GPU: it is in no kernel at all"
    accusation = accuse(
        Subkind.MISSING_ENTER,
        Confidence.LIKELY if covered else Confidence.POSSIBLE,
        culprits=steady if odd else (),
        suspects=() if odd else idle,
        victims=spinning if odd else (),
        why=dict.fromkeys(idle, "its GPU is idle while its peers' GPUs spin in a collective that moves no byte"),
        scope=Scope.RANK,
        at=max((since for rank in spinning if (since := seen.states[rank].since) is not None), default=None),
    )
    return [*found, Finding(NAME, Plane.HARDWARE, statement, sources, accusation)]


def _foreign(context: Context, seen: Picture) -> list[Finding]:
    foreign = seen.ranks(Doing.FOREIGN)
    if not foreign:
        return []
    statement = (
        f"A process outside the instance runs on the GPU of {ranks_text(foreign)}: its load says nothing of this job"
    )
    return [Finding(NAME, Plane.HARDWARE, statement, tuple(context.tracks[rank].source for rank in foreign)[:1])]
