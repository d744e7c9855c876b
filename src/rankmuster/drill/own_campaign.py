"""A drill of a user's own job: it is looked at while it is left alone, then hit once for each fault, and waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.drill import rank_settings
from rankmuster.drill.card import blank, blank_fault
from rankmuster.drill.card_book import CardBook
from rankmuster.drill.faults import Fault
from rankmuster.drill.own_chain import OwnOrder, run_own, run_quiet, shape_of
from rankmuster.drill.own_job import NotAllowedHere, Victim, victim_of
from rankmuster.drill.own_watch import WELL, NoWatch, OwnWatch
from rankmuster.drill.plan import Backend
from rankmuster.model.drill_score import CONTROLS, OWN_CONTROLS

WELL_SECONDS = 60.0
"""For the watch to see a job that was rebuilt at work again, before it is hit anew."""
NOT_HERE = (
    "a job of your own is touched by one signal alone: nothing idles it, works beside it or restarts it for a drill"
)


@dataclass(frozen=True, slots=True)
class OwnCampaign:
    """`rank`: which is hit; None for the last but one. `controls`: whether it is looked at first. `times`: of each."""

    name: str
    order: OwnOrder
    faults: Sequence[Fault]
    rank: int | None = None
    controls: bool = True
    times: int = 1

    def run(self, output: Path, book: CardBook, victim: Victim) -> None:
        """`victim`: of the first fault. Raises NotAllowedHere or NoWatch when nothing could be done at all."""
        place = output / "settings"
        place.mkdir()
        rank_settings.keep(victim.pid, place)
        if self.controls:
            book.keep(run_quiet(self.order, victim))
            for name in CONTROLS:
                if name not in OWN_CONTROLS:
                    book.keep(blank(name, "left_out", shape_of(victim), why=NOT_HERE))
        wanted = [fault for _ in range(self.times) for fault in self.faults]
        for number, fault in enumerate(wanted):
            folder = output / f"{number:03d}-{fault.name}"
            try:
                if number:
                    victim = self._again_well()
                run_own(self.order, fault, victim, folder, output, book.keep)
            except (NotAllowedHere, NoWatch) as error:
                if not number:
                    raise
                row = blank_fault(fault, fault.truths[Backend.GLOO], shape_of(victim))
                book.keep(replace(row, kind="left_out", why=f"not made: {error}"))

    def _again_well(self) -> Victim:
        """The rank of the incarnation that runs now, once the watch sees it at work. Raises NotAllowedHere, NoWatch."""
        watch = OwnWatch(self.order.state, self.name)
        watch.until(lambda view: view is not None and view.state in WELL, WELL_SECONDS)
        watch.must_be_well()
        return victim_of(self.name, self.rank)
