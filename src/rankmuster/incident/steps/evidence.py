"""EVIDENCE: a bundle of what is to be seen, before anything is killed."""

from __future__ import annotations

from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.model.incident import Answer, Ending

MOST_FOLDERS = 100
"""Of one incident: each runner that takes evidence has one of its own."""


def run(scene: Scene) -> Ended:
    """Data: `bundle`, its path."""
    given = scene.opening.bundle
    if given is not None and Path(given).exists():
        return Ended(Ending.DONE, f"it was taken before: {given}", {"bundle": given})
    action = collecting(scene)
    if action is None:
        return Ended(Ending.SKIPPED, "nothing is configured that saves evidence")
    answer = scene.acting.act(action, scene.deadline)
    return Ended(answer.ending, answer.note, answer.data)


def collecting(scene: Scene) -> Action | None:
    """The one action of this step."""
    evidence, opening = scene.tools.evidence, scene.opening
    if evidence is None:
        return None

    def call(deadline: Deadline, _: str) -> Answer:
        folder = free_folder(scene.folder, "evidence")
        answer = evidence.collect(
            opening.instance,
            opening.incarnation,
            opening.pids,
            str(folder),
            deadline,
            stopped=scene.record.incident.stands_still,
        )
        return _checked(answer)

    return Action(
        name=f"{evidence.name}:collect",
        slot=evidence.name,
        call=call,
        would=lambda: (f"collect evidence of {opening.instance} into {scene.folder / 'evidence'}",),
        # it only reads; half a bundle that an earlier runner left stays where it is, beside the new one
        safe=True,
        attempt_seconds=None,
        # what a dead process could have said nobody hears in a second attempt, which would only cost the time
        part_will_do=True,
        incarnation=opening.incarnation,
    )


def free_folder(base: Path, name: str) -> Path:
    """The first of `name`, `name-2`, ... that is not there yet."""
    for number in range(1, MOST_FOLDERS):
        found = base / (name if number == 1 else f"{name}-{number}")
        if not found.exists():
            return found
    return base / f"{name}-{MOST_FOLDERS}"


def _checked(answer: Answer) -> Answer:
    """A bundle that is said to be there is there."""
    if not isinstance(answer, Answer) or answer.ending not in (Ending.DONE, Ending.PARTIAL):
        return answer
    bundle = answer.data.get("bundle")
    if isinstance(bundle, str) and Path(bundle).exists():
        return answer
    return Answer(ending=Ending.FAILED, note=f"it said {answer.ending.value} ({answer.note}), and there is no bundle")
