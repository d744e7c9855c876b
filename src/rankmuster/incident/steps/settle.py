"""SETTLE: what failed its re-test stays out, what passed comes in again, and only our own fences are lifted."""

from __future__ import annotations

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action, Shown, Sight
from rankmuster.incident.actuators import Node, Verb
from rankmuster.incident.past import together
from rankmuster.incident.steps import fence
from rankmuster.incident.steps.retest import results
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import Answer, Ending, Fenced, RetestEnding, Step

QUARANTINE = "quarantine"
"""Name of a fence that a failed test asks for."""


def run(scene: Scene) -> Ended:
    """Data: `lifted`, `quarantined`, `left`, each a list of nodes."""
    said = {**results(scene, Step.SHORT_RETEST), **results(scene, Step.RETEST)}
    ours = fenced_by_us(scene)
    passed = [node for node in ours if said.get(node) is RetestEnding.PASS]
    failed = [node for node, result in said.items() if result is RetestEnding.FAIL]
    stay = [node for node in ours if node not in passed and node not in failed]
    if not passed and not failed and not stay:
        return Ended(Ending.SKIPPED, "no node is fenced, and none failed a test")
    new = tuple(node for node in failed if node not in ours)
    refused = {node: why for node in new if (why := why_not(scene, node)) is not None}
    for node, why in refused.items():
        scene.note(f"{node} failed its re-test and was not fenced: {why}")
    failed, new = [node for node in failed if node not in refused], tuple(node for node in new if node not in refused)
    answers = scene.act_all(
        [
            *(
                _lift(scene, where, node)
                for node in passed
                for where in scene.tools.nodes
                if is_ours(scene, where, node)
            ),
            *fence.actions(scene, new, QUARANTINE),
        ]
    )
    for node in passed:
        mine = [one for one in answers if one.data.get("node") == node]
        if mine and all(one.ending is Ending.DONE for one in mine):
            scene.setting.permits.lifted(node)
    if stay:
        left = ", ".join(f"{node} ({said[node].value if node in said else 'not tested'})" for node in stay)
        scene.note(f"still fenced, until somebody lets them in: {left}")
    if failed:
        scene.note(f"quarantined, since their re-test failed: {', '.join(failed)}")
    words = [f"{len(passed)} let in again" if passed else "", f"{len(failed)} quarantined" if failed else ""]
    words.append(f"{len(stay)} stay fenced" if stay else "")
    notes = [one.note for one in answers if one.ending is not Ending.DONE]
    data = {"lifted": passed, "quarantined": failed, "left": stay}
    return Ended(
        together(answers) if answers else Ending.DONE, "; ".join([*(one for one in words if one), *notes]), data
    )


def fenced_by_us(scene: Scene) -> list[str]:
    """Nodes, as the scheduler has them, that this incident has fenced and that nobody else had before."""
    found: dict[str, None] = {}
    for answer in scene.past.answers(Step.FENCE).values():
        node = answer.data.get("node")
        if answer.ending is Ending.DONE and isinstance(node, str) and answer.data.get("others") is not True:
            found[node] = None
    return list(found)


def is_ours(scene: Scene, where: Node, node: str) -> bool:
    """Whether this incident has fenced it there, or may have: at another place others may hold it."""
    told = [
        one.data.get("others") is True
        for one in scene.past.answers(Step.FENCE).values()
        if one.data.get("node") == node and one.data.get("where", where.name) == where.name
    ]
    return not all(told)


def why_not(scene: Scene, node: str) -> str | None:
    """Why one that failed may not be fenced; None where it may. Where a class drifts all of it fails its tests."""
    systematic = scene.setting.facts(scene.incident, None)[0].systematic
    if systematic is not None:
        return (
            f"a whole class of nodes drifts ({systematic}), and a test against how it was before tells nothing of one"
        )
    return scene.setting.permits.fence_more((node,))


def _lift(scene: Scene, where: Node, node: str) -> Action:
    def look(deadline: Deadline) -> Sight:
        seen = where.look(node, deadline)
        words = f"{node}: {fence.told(seen)}"
        if seen.fenced is Fenced.UNKNOWN:
            return Sight(Shown.UNKNOWN, words)
        ours = seen.fenced is Fenced.OURS and seen.incident == scene.incident
        return Sight(Shown.NOT if ours else Shown.HOLDS, words)

    def lifted(deadline: Deadline, _: str) -> Answer:
        return where.lift(node, scene.incident, deadline)

    return Action(
        name=f"{where.name}:{Verb.LIFT.value}:{node}",
        slot=where.name,
        call=lifted,
        would=lambda: where.would(Verb.LIFT, node, scene.incident),
        look=look,
        enabled=scene.enabled(ToolRole.NODE),
        safe=True,
        attempt_seconds=fence.ATTEMPT_SECONDS,
        data={"node": node},
    )
