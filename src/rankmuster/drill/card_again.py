"""The bundles of a drill, diagnosed again without anything but themselves: the same bundle gives the same verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rankmuster.drill.card import said_of
from rankmuster.drill.run import Diagnose, StepFailed, diagnose_by_command
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.drill_score import AGAIN


class NoBundle(Exception):
    """The bundle that a card speaks of cannot be used; the message says why."""


def bundle_of(run: DrillRun, folder: Path) -> Path | None:
    """Where the bundle of this run is, below the card's folder; None where it has none. Raises NoBundle."""
    if run.bundle is None:
        return None
    try:
        path, home = (folder / run.bundle).resolve(), folder.resolve()
        there = path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a NUL, what is no text
        raise NoBundle(f"its path {run.bundle[:200]!a} leads nowhere: {error}") from error
    if not path.is_relative_to(home):
        raise NoBundle(f"its path {run.bundle} leads out of the drill's folder: no drill writes it so")
    if not there:
        raise NoBundle(f"it is not there ({path}): keep the whole folder of a drill, not the card alone")
    return path


def again(run: DrillRun, folder: Path, *, diagnose: Diagnose = diagnose_by_command) -> DrillRun:
    """The row with whether its bundle says the same again; as it is where there is no bundle.

    A bundle that is gone, or whose diagnosis breaks, does not say the same; why stands in `wrongs`.
    """
    try:
        bundle = bundle_of(run, folder)
        if bundle is None:
            return run
        said = said_of(diagnose(bundle))
    except (NoBundle, StepFailed, OSError) as error:
        return replace(run, again=False, wrongs=(*run.wrongs, f"{AGAIN}: {error}"))
    if said == run.bundle_said:
        return replace(run, again=True)
    return replace(run, again=False, wrongs=(*run.wrongs, f"{AGAIN} it is {said}, not {run.bundle_said}"))
