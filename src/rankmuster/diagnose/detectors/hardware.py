"""Hardware: waiting GPUs spin with frozen link counters, and the one that did not come sits idle among them.

The only plane that sees replayed CUDA graphs. All spinning is not enough to convict anybody; a GPU that also runs a
foreign process tells nothing. Blind to which operation, and to waits of the host alone (gloo, stores).
"""

from __future__ import annotations

from rankmuster.diagnose import engine_state
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_state import Moves
from rankmuster.diagnose.finding import Finding, accuse, verb
from rankmuster.diagnose.spin import Doing, Picture, picture, rates
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

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
    load = min(seen.states[rank].sm_percent for rank in spinning)
    what = f"{ranks_text(spinning).capitalize()}: GPU at {load:.0f} % with frozen link counters for {seconds:.0f} s"
    moving = seen.ranks(Doing.MOVING)
    if moving and not _others_work(context):
        statement = f"{what}; yet bytes move on {ranks_text(moving)}: not a stop of all"
        return [*found, Finding(NAME, Plane.HARDWARE, statement, sources)]
    if seconds < context.limits.hardware_seconds:
        return [*found, Finding(NAME, Plane.HARDWARE, f"{what}, too short to say more", sources)]
    gone = tuple(rank for rank in seen.ranks(Doing.GONE) if any(context.tracks[rank].pids))
    if gone and not idle:
        return [*found, _gone(context, seen, what, spinning, gone)]
    if not idle:
        told = len(seen.states) == len(spinning)
        others = "all GPUs with samples" if told else "all GPUs whose samples tell"
        statement = f"{what}; {others} spin, which says stopped and not who"
        return [*found, Finding(NAME, Plane.HARDWARE, statement, sources)]
    steady = tuple(rank for rank in idle if seen.states[rank].seconds >= context.limits.hardware_seconds)
    waits = _moved_before(context, spinning) or engine_state.stopped(context)
    covered = waits and len(seen.states) == len(context.world)
    odd = covered and bool(steady) and (len(steady) < len(spinning) or len(steady) == len(spinning) == 1)
    statement = f"{what}, while {ranks_text(idle)} {'sits' if len(idle) == 1 else 'sit'} idle, in no kernel at all"
    if all(any(context.tracks[rank].pids) for rank in idle):
        statement += ", with the process on the GPU"
    accusation = accuse(
        Subkind.MISSING_ENTER,
        Confidence.LIKELY if covered else Confidence.POSSIBLE,
        culprits=steady if odd else (),
        suspects=() if odd else idle,
        victims=spinning if odd else (),
        why=dict.fromkeys(idle, "has an idle GPU while its peers' GPUs spin in a collective that moves no byte"),
        scope=Scope.RANK,
        at=max((since for rank in spinning if (since := seen.states[rank].since) is not None), default=None),
    )
    return [*found, Finding(NAME, Plane.HARDWARE, statement, sources, accusation)]


def _others_work(context: Context) -> bool:
    """Whether one engine of several stands while the others work: what moves is theirs, and none has reason to rest."""
    moves = {state.moves for state in engine_state.states(context)}
    return Moves.STALLED in moves and moves <= {Moves.STALLED, Moves.ADVANCING, Moves.SLOW}


def _moved_before(context: Context, spinning: tuple[int, ...]) -> bool:
    """Whether a spinning GPU moved bytes earlier: without traffic, load may be a computation that waits for nobody."""
    return any(bool((rates(context.tracks[rank]) >= context.limits.moving_kib_per_s).any()) for rank in spinning)


def _gone(context: Context, seen: Picture, what: str, spinning: tuple[int, ...], gone: tuple[int, ...]) -> Finding:
    """The processes that left their GPUs before the others' began to spin."""
    left = [until for rank in gone if (until := seen.states[rank].until) is not None]
    convicted = (len(gone) < len(spinning) or len(gone) == len(spinning) == 1) and _moved_before(context, spinning)
    return Finding(
        NAME,
        Plane.HARDWARE,
        f"{what}; {verb(gone, 'the process', 'the processes')} of {ranks_text(gone)} had left "
        f"{verb(gone, 'its GPU', 'their GPUs')} before",
        tuple(dict.fromkeys(context.tracks[rank].source for rank in (*spinning, *gone))),
        accuse(
            Subkind.EXITED,
            Confidence.LIKELY,
            culprits=gone if convicted else (),
            suspects=() if convicted else gone,
            victims=spinning if convicted else (),
            why=dict.fromkeys(gone, "left its GPU, and its peers' GPUs spin since"),
            scope=Scope.RANK,
            at=max(left, default=None),
        ),
    )


def _foreign(context: Context, seen: Picture) -> list[Finding]:
    foreign = seen.ranks(Doing.FOREIGN)
    if not foreign:
        return []
    statement = (
        f"A process outside the instance runs on {verb(foreign, 'the GPU', 'the GPUs')} of {ranks_text(foreign)}: "
        f"{verb(foreign, 'its', 'their')} load says nothing of this job"
    )
    return [Finding(NAME, Plane.HARDWARE, statement, tuple(context.tracks[rank].source for rank in foreign)[:1])]
