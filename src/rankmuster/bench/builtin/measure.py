"""Measures a profile's steps, one size after the other, on every rank in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rankmuster.bench.builtin.buffers import Arena, Slots
from rankmuster.bench.builtin.clocks import Timer
from rankmuster.bench.builtin.group import Group
from rankmuster.bench.builtin.layout import Layout, layout
from rankmuster.model.benchmark import Profile, Step

Progress = Callable[[int, str], None]
"""Told (the cell's number, what it is about to do): where a rank stands when it does not come back."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One cell that will be measured. `size`: bytes as the profile asks for; `layout` has what the ranks
    can share evenly. `in_place`, `graph`: as it really is done here, which the step may not say."""

    number: int
    step: int
    size: int
    layout: Layout
    in_place: bool
    graph: bool


def plan(profile: Profile, group: Group, graphs: bool) -> tuple[list[Planned], list[str]]:
    """The cells in order, and what of the profile is left out, in words. The same on every rank."""
    cells: list[Planned] = []
    left_out: list[str] = []
    for place, step in enumerate(profile.steps):
        name = step.operation.value
        try:
            in_place = group.placement(step.operation, step.in_place)
        except ValueError as error:
            left_out.append(str(error))
            continue
        if in_place and not step.in_place:
            left_out.append(f"torch has {name} in place only; it was measured so")
        if step.graph and not graphs:
            left_out.append(f"{name} was not replayed from a CUDA graph: there is no GPU")
        for size in step.sizes:
            shape = layout(step.operation, size, step.dtype, group.ranks)
            if shape is None:
                left_out.append(f"{name} of {size} bytes leaves nothing for each of {group.ranks} ranks")
                continue
            cells.append(Planned(len(cells), place, size, shape, in_place, step.graph and graphs))
    return cells, list(dict.fromkeys(left_out))


@dataclass(frozen=True, slots=True)
class Taken:
    """What this rank saw of one cell, microseconds; `wrong`: elements of its own results, before and after timing."""

    loop_us: float
    iterations_us: list[float]
    wrong: int


class Measurer:
    def __init__(self, profile: Profile, group: Group, timer: Timer, progress: Progress) -> None:
        self._profile, self._group, self._timer, self._progress = profile, group, timer, progress

    def all(self, cells: list[Planned]) -> Iterator[tuple[Planned, Taken]]:
        """Each cell, measured. Raises what the backend raises."""
        for cell, step, arena in self._placed(cells):
            yield cell, self._one(cell, step, arena)

    def touch(self, cells: list[Planned]) -> None:
        """Does each operation once, for the log of what is chosen."""
        for cell, step, arena in self._placed(cells):
            self._progress(cell.number, "the one call")
            slots = self._slots(cell, step, arena)
            slots.fill()
            self._timer.settle()
            self._timer.once(self._ready(slots, 0, cell, step), graph=False)

    def _placed(self, cells: list[Planned]) -> Iterator[tuple[Planned, Step, Arena]]:
        arena, of = None, -1
        for cell in cells:
            step = self._profile.steps[cell.step]
            if arena is None or cell.step != of:
                arena, of = None, cell.step  # the old one's memory goes before the new one's comes
                most = max(other.layout.slot for other in cells if other.step == cell.step)
                arena = Arena(most, step.dtype, self._group.device)
            yield cell, step, arena

    def _slots(self, cell: Planned, step: Step, arena: Arena) -> Slots:
        return Slots(arena, step.operation, cell.layout, self._group.rank, self._group.ranks, cell.in_place)

    def _ready(self, slots: Slots, place: int, cell: Planned, step: Step) -> Callable[[], None]:
        send, recv = slots.tensors(place)
        return self._group.ready(step.operation, send, recv, cell.layout, step.dtype)

    def _one(self, cell: Planned, step: Step, arena: Arena) -> Taken:
        timer = self._timer
        slots = self._slots(cell, step, arena)
        iterations = max(step.iterations, 1)
        calls = [self._ready(slots, place, cell, step) for place in range(min(slots.count, iterations))]
        self._progress(cell.number, "the check before timing")
        wrong = self._checked(slots, calls[0], cell)
        self._progress(cell.number, "the warm-up")
        for number in range(step.warmup):
            calls[number % len(calls)]()
        timer.settle()
        slots.poison()
        timer.settle()
        self._progress(cell.number, "the timed loop")
        loop = timer.loop(calls, iterations, cell.graph)
        if not cell.in_place:
            wrong += slots.wrong()  # the timed operations' own results
        self._progress(cell.number, "the timed iterations")
        each = timer.each(calls, iterations, cell.graph)
        self._progress(cell.number, "the check after timing")
        wrong += self._checked(slots, calls[0], cell)
        return Taken(loop, each, wrong)

    def _checked(self, slots: Slots, call: Callable[[], None], cell: Planned) -> int:
        """Of one call, and of one replay where graphs are replayed."""
        wrong = 0
        for graph in (False, True) if cell.graph else (False,):
            slots.fill()
            self._timer.settle()
            self._timer.once(call, graph)
            wrong += slots.wrong()
        return wrong
