"""DIAGNOSE: the verdict on the bundle, or the one that came with the opening where that is about this stop."""

from __future__ import annotations

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action
from rankmuster.incident.steps.evidence import free_folder
from rankmuster.incident.steps.given import NoVerdict, opened_with
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.model.incident import Answer, Ending, Step


def run(scene: Scene) -> Ended:
    """Data: `verdict`, the path of the file; nothing where the opening brought one."""
    try:
        if opened_with(scene) is not None:
            return Ended(Ending.DONE, "the opening brought a verdict")
    except NoVerdict as error:
        scene.note(f"diagnosed anew, since the verdict that the opening brought cannot be used: {error}")
    evidence, bundle = scene.tools.evidence, scene.past.text(Step.EVIDENCE, "bundle")
    if evidence is None or bundle is None:
        return Ended(Ending.SKIPPED, "there is no bundle to diagnose")

    def call(deadline: Deadline, _: str) -> Answer:
        return evidence.diagnose(bundle, str(free_folder(scene.folder, "diagnosis")), deadline)

    answer = scene.acting.act(
        Action(
            name=f"{evidence.name}:diagnose",
            slot=evidence.name,
            call=call,
            would=lambda: (f"diagnose {bundle}",),
            safe=True,
        ),
        scene.deadline,
    )
    return Ended(answer.ending, answer.note, answer.data)
