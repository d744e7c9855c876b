"""The launch checklist: every item over the same facts, then the waivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rankmuster.gate.facts import Facts
from rankmuster.gate.items.artefact import artefact
from rankmuster.gate.items.benchmarks import benchmarks
from rankmuster.gate.items.calibration import calibration
from rankmuster.gate.items.drills import drill, recorder_drill
from rankmuster.gate.items.fingerprints import fingerprints
from rankmuster.gate.items.logging import logging
from rankmuster.gate.items.ras import ras
from rankmuster.gate.items.readmission import readmission
from rankmuster.gate.items.runbook import runbook
from rankmuster.gate.items.topology import topology
from rankmuster.gate.waivers import with_waivers
from rankmuster.model.release import Checklist, Item, ItemResult, Waiver

ITEMS: Mapping[Item, Callable[[Facts], ItemResult]] = {
    Item.ARTEFACT: artefact,
    Item.FINGERPRINTS: fingerprints,
    Item.TOPOLOGY: topology,
    Item.BENCHMARKS: benchmarks,
    Item.RAS: ras,
    Item.RECORDER_DRILL: recorder_drill,
    Item.DRILL: drill,
    Item.LOGGING: logging,
    Item.RUNBOOK: runbook,
    Item.READMISSION: readmission,
    Item.CALIBRATION: calibration,
}
"""Every item, in the order in which it is read."""


def check(facts: Facts, waivers: Sequence[Waiver], version: str) -> Checklist:
    """`version`: of this program, for the record."""
    results = [item(facts) for item in ITEMS.values()]
    return Checklist(facts.release, facts.now, version, with_waivers(results, waivers, facts.release, facts.now))
