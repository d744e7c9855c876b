"""Dumps of ranks none of which lives any more: what their watchdogs wrote lies where the settings of the others say."""

from __future__ import annotations

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight import told
from rankmuster.collect.flight.recorders import Recorder, heirs
from rankmuster.collect.flight.shelf import Shelf
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import Target
from rankmuster.model.ranks_text import ranks_text

MAX_ASKED = 16
"""Processes whose settings are looked at: those without rank, of which an instance may have hundreds."""

NOBODY = "no process with a rank lives on this node"


def left_dumps(scene: Scene, target: Target, sink: Sink, deadline: Deadline) -> Outcome:
    """Takes them, as far as they are of this run and of its user."""
    known = heirs(scene.machine.proc, (*target.processes, *target.gone)[:MAX_ASKED], deadline)
    if not known:
        return Outcome(Ending.NOTHING, f"{NOBODY}, and no process says where ranks would have left their dumps")
    shelf = Shelf(scene, sink, (), deadline, known)
    shelf.probe()
    shelf.siblings(target.world_size)
    warnings = told.left_alone(shelf.stale, shelf.troubles)
    if not shelf.taken:
        ending = Ending.DENIED if shelf.denied else Ending.NOTHING
        return Outcome(ending, f"{NOBODY}, and none has left a dump of this run at {_places(known)}", warnings)
    if not any(one.settings.named for one in known):
        warnings = (
            "the dumps lay where torch puts those of every job that says nothing else "
            f"({_places(known)}): another job of this user may have written them",
            *warnings,
        )
    ranks = ranks_text(item.rank for item in shelf.taken if item.rank is not None)
    ending = Ending.PARTIAL if any(item.cut for item in shelf.taken) or shelf.denied else Ending.DONE
    return Outcome(ending, f"{NOBODY}; {len(shelf.taken)} dump(s) that {ranks} left were taken", warnings)


def _places(known: tuple[Recorder, ...]) -> str:
    prefixes = dict.fromkeys(prefix for recorder in known for prefix in recorder.prefixes)
    return ", ".join(f"{prefix[:200]}<rank>" for prefix in list(prefixes)[:3])
