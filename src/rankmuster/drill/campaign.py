"""One drill of the built-in instance: its faults and controls, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.drill.able import PACE, Choice
from rankmuster.drill.card import Shape, blank_fault
from rankmuster.drill.card_book import CardBook
from rankmuster.drill.card_controls import DrillControl
from rankmuster.drill.chain_controls import run_controls
from rankmuster.drill.chain_look import run_look
from rankmuster.drill.chain_served import run_served
from rankmuster.drill.chain_slow import run_slow
from rankmuster.drill.chain_start import run_start
from rankmuster.drill.faults import Fault, When
from rankmuster.drill.incident_once import IncidentOrder
from rankmuster.drill.truth import Naming, Truth
from rankmuster.model.drill_card import DrillRun

Chain = Callable[[IncidentOrder, Fault, int, Path, Path], DrillRun]


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be drilled. `times`: of each fault; faults take turns over them, so that what drifts favours none."""

    order: IncidentOrder
    choice: Choice
    controls: Sequence[DrillControl]
    times: int = 1
    quick: bool = False

    def run(self, output: Path, book: CardBook) -> None:
        """Runs all of it. `output` exists and is empty but for the book's card. Raises what ends it (KeyboardInterrupt,
        SystemExit), after everything that was started has ended."""
        for fault, why in self.choice.left_out:
            book.keep(replace(self._blank(fault), kind="left_out", why=why))
        wanted = [fault for _ in range(self.times) for fault in self.choice.faults]
        for number, fault in enumerate(wanted):
            folder = output / f"{number:03d}-{fault.name}"
            book.keep(chain_of(fault)(self.order, fault, number, folder, output))
        run_controls(self.order, self.controls, output, book.keep, quick=self.quick)

    def _blank(self, fault: Fault) -> DrillRun:
        stand = self.order.stand
        truth = fault.truths.get(stand.backend, Truth((), Naming.NOBODY))
        return blank_fault(fault, truth, Shape(stand.backend, stand.ranks, self.order.culprit, stand.graph))


def chain_of(fault: Fault) -> Chain:
    """How a fault is drilled: by when it is made, and by whether anything stops with it."""
    if fault.when is When.START:
        return run_start
    if fault.deed in PACE:
        return run_slow
    return run_look if fault.group_seconds is not None else run_served
