"""The grid of planted faults: kinds x layouts x what the dumps lack, small enough that a point takes a blink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.flight import edits, programs
from benchmarks.flight.settings import SLOW_KINDS, Backend, Fault, FaultKind, Form, Look, Settings, Style, Where

LAYOUTS: dict[str, Settings] = {
    "tp8": Settings(tp=8, style=Style.SGLANG),
    "tp2": Settings(tp=2, style=Style.VLLM),
    "tp4 pp2": Settings(tp=4, pp=2, style=Style.VLLM),
    "tp2 pp2, messages in default_pg": Settings(tp=2, pp=2, style=Style.VLLM, world_messages=True),
    "tp4 ep8 dp2": Settings(tp=4, dp=2, ep=8, style=Style.SGLANG),
    "tp4 pp2 dp2": Settings(tp=4, pp=2, dp=2, style=Style.MEGATRON),
    "tp2 pp4 dp4 ep8": Settings(tp=2, pp=4, dp=4, ep=8, style=Style.MEGATRON),
    "tp8 pp2 dp4 ep8": Settings(tp=8, pp=2, dp=4, ep=8, style=Style.MEGATRON, hashed=True),
    "dp8 ep8": Settings(tp=1, dp=8, ep=8, style=Style.VLLM),
}
RING, UNWRAPPED = 300, 2000

EVENTLESS_KINDS = (
    FaultKind.HOST_STOP,
    FaultKind.DEAD,
    FaultKind.WRONG_OP,
    FaultKind.WRONG_SIZE,
    FaultKind.SKIP,
    FaultKind.TRANSPORT,
)
"""Faults that also happen on backends without events, of which only `retired` tells that a call has ended."""

STOPS = tuple(kind for kind in FaultKind if kind not in (FaultKind.NONE, *SLOW_KINDS))


@dataclass(frozen=True, slots=True)
class Point:
    """One job of the grid. `name`: its coordinates, in words."""

    name: str
    kind: str
    layout: str
    job: Settings


def points(seeds: int = 1, one_in: int = 1) -> Iterator[Point]:
    """All points, or one in `one_in`, spread over all coordinates. `seeds`: different draws of each."""
    for number, point in enumerate(_all(seeds)):
        if ((number * 2_654_435_761) >> 7) % one_in == 0:
            yield point


def _all(seeds: int) -> Iterator[Point]:
    count = 0
    for layout, base in LAYOUTS.items():
        for kind in (*STOPS, *SLOW_KINDS, FaultKind.NONE):
            for where in _wheres(base, kind):
                for words, shape in _shapes(base, kind):
                    for _ in range(seeds):
                        count += 1
                        job = replace(shape, fault=replace(shape.fault, kind=kind, where=where), seed=count)
                        name = f"{kind.value} in {where.value}, {layout}, {words}, seed {count}"
                        yield Point(name, _kind_words(kind, job), layout, job)


def _kind_words(kind: FaultKind, job: Settings) -> str:
    return f"healthy, {job.look.value}" if kind is FaultKind.NONE else kind.value


def _wheres(base: Settings, kind: FaultKind) -> list[Where]:
    """The kinds of group in which the layout has a place for the fault."""
    if kind in SLOW_KINDS or kind is FaultKind.NONE:
        return [Where.ANY]
    steps = [programs.step_of(base, stage) for stage in range(base.pp)]
    found = []
    for where in (Where.WORLD, Where.TP, Where.DP, Where.EP, Where.PP):
        job = replace(base, fault=Fault(kind, where=where))
        if any(edits.edits_for(job, step) for step in steps):
            found.append(where)
    return found


def _shapes(base: Settings, kind: FaultKind) -> Iterator[tuple[str, Settings]]:
    """What the dumps are like."""
    plain = replace(base, entries=RING, frames=3, fault=Fault(tolerated=0))
    if kind is FaultKind.NONE or kind in SLOW_KINDS:
        yield from _moving(plain, kind)
        return
    bare = base.ranks // 4 if base.ranks > 2 else 0
    whole = replace(plain, wrapped=False, entries=UNWRAPPED, steps=6)
    yield "wrapped", plain
    yield "wrapped, bare", replace(plain, look_times=False)
    yield "whole buffers, bare", replace(whole, look_times=False)
    yield "whole buffers, timing", replace(whole, timing=True)
    yield "timing, clocks apart", replace(plain, timing=True, clock_offset_s=2.0)
    yield "timing, bare", replace(plain, timing=True, look_times=False)
    yield "far ahead", replace(plain, ahead=200, look_times=False)
    yield "hosts differ in how far ahead", replace(plain, ahead_differs=True, look_times=False)
    yield "nothing ahead", replace(plain, ahead=1, timing=True)
    yield "JSON", replace(plain, form=Form.JSON)
    yield "schema 2.4", replace(plain, version="2.4")
    yield "two tolerated", replace(plain, fault=Fault(tolerated=2))
    if bare:
        yield "one dump missing", replace(plain, missing=1, timing=True)
        yield "one dump missing, bare", replace(plain, missing=1, look_times=False)
        yield "a quarter missing", replace(plain, missing=bare)
        yield "a quarter missing, bare, timing", replace(plain, missing=bare, look_times=False, timing=True)
        yield "one stale", replace(plain, stale=1)
        yield "one stale, bare", replace(plain, stale=1, look_times=False)
        yield "one damaged", replace(plain, damaged=1)
        yield "one damaged, bare", replace(plain, damaged=1, look_times=False, timing=True)
        yield "one older", replace(plain, older=1)
        yield "one older, bare", replace(plain, older=1, look_times=False)
        yield "a quarter older, bare, timing", replace(plain, older=bare, look_times=False, timing=True)
    yield "ring shorter than what is ahead", replace(plain, entries=100, ahead=160)
    if kind in EVENTLESS_KINDS:
        yield "gloo", replace(plain, backend=Backend.GLOO)
        yield "gloo, bare", replace(plain, backend=Backend.GLOO, look_times=False)
        yield "nccl2", replace(plain, backend=Backend.NCCL2)
    if kind not in (FaultKind.UNEVEN, FaultKind.UNEVEN_PAIR):
        yield "active entries only", replace(plain, only_active=True)


def _moving(plain: Settings, kind: FaultKind) -> Iterator[tuple[str, Settings]]:
    live = replace(plain, look=Look.LIVE, look_spread_s=0.002)
    far = replace(live, look_spread_s=1.0)
    whole = replace(live, wrapped=False, entries=UNWRAPPED, steps=6)
    wide = replace(live, entries=UNWRAPPED)
    for name, base in (
        ("live", live),
        ("live, looks far apart", far),
        ("live, whole buffers", whole),
        ("live, wide", wide),
    ):
        yield name, base
        yield f"{name}, bare", replace(base, look_times=False)
        yield f"{name}, timing", replace(base, timing=True, clock_offset_s=1.0)
        yield f"{name}, timing, bare", replace(base, timing=True, look_times=False)
        if plain.ranks > 2:
            yield f"{name}, missing", replace(base, missing=max(1, plain.ranks // 4))
            yield f"{name}, missing, bare", replace(base, missing=1, look_times=False)
            yield f"{name}, stale", replace(base, stale=1)
            yield f"{name}, stale, bare", replace(base, stale=1, look_times=False, timing=True)
            yield f"{name}, damaged", replace(base, damaged=1)
            yield f"{name}, older", replace(base, older=1)
            yield f"{name}, older, bare", replace(base, older=max(1, plain.ranks // 4), look_times=False)
        yield f"{name}, hosts differ in how far ahead", replace(base, ahead_differs=True, timing=True)
        yield f"{name}, gloo", replace(base, backend=Backend.GLOO)
        yield f"{name}, nccl2", replace(base, backend=Backend.NCCL2)
        yield f"{name}, active entries only", replace(base, only_active=True)
    if kind is FaultKind.NONE:
        idle = replace(plain, look=Look.IDLE, look_spread_s=1.0)
        yield "idle", idle
        yield "idle, bare", replace(idle, look_times=False)
        yield "idle, timing", replace(idle, timing=True)
        if plain.ranks > 2:
            yield "idle, missing", replace(idle, missing=1)
            yield "idle, damaged, bare", replace(idle, damaged=1, look_times=False)
