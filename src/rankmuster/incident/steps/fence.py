"""FENCE: nothing new is placed on the suspect nodes."""

from __future__ import annotations

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action, Shown, Sight
from rankmuster.incident.actuators import Node, Verb
from rankmuster.incident.steps.scene import Ended, Scene, summed
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import Ending, Fenced, NodeLook

ATTEMPT_SECONDS = 3.0
"""Of one attempt at a scheduler's controller, which may be busy for a second or two."""

NOWHERE = "nothing is configured that keeps new work from nodes"


def run(scene: Scene) -> Ended:
    """Data: `nodes`, those that are fenced now."""
    nodes = scene.record.incident.to_fence
    if not nodes:
        return Ended(Ending.SKIPPED, "no node is suspected enough to be fenced")
    refused = beyond_limits(scene, nodes)
    nodes = tuple(one for one in nodes if one not in refused)
    if not nodes:
        return Ended(Ending.REFUSED, "; ".join(dict.fromkeys(refused.values())))
    ended = summed(scene.act_all(actions(scene, nodes)), NOWHERE)
    return Ended(ended.ending, ended.note, {"nodes": list(nodes) if ended.ending is Ending.DONE else fenced(scene)})


def beyond_limits(scene: Scene, nodes: tuple[str, ...]) -> dict[str, str]:
    """Those that nobody has decided on (a process there could not be killed), and why limits forbid them."""
    decided = () if scene.decision is None else scene.decision.fence
    found = {}
    for node in nodes:
        if node not in decided:
            why = scene.setting.permits.fence_more((scene.scheduler_name(node),))
            if why is not None:
                found[node] = f"{node} is not fenced: {why}"
                scene.note(found[node])
    return found


def actions(scene: Scene, nodes: tuple[str, ...], name: str = Verb.FENCE.value) -> list[Action]:
    """Of every node at every place that keeps work from it."""
    return [_fence(scene, where, scene.scheduler_name(node), name) for node in nodes for where in scene.tools.nodes]


def why(scene: Scene) -> str:
    """The reason that operators of the scheduler read."""
    decision = scene.decision
    fault = "suspected"
    if decision is not None:
        fault = decision.subclass.value if decision.subclass is not None else decision.class_.value
    return f"{scene.opening.instance}: {fault}"


def fenced(scene: Scene) -> list[str]:
    """Nodes with an answer that says DONE."""
    found = {
        str(one.data["node"]): None
        for one in scene.past.answers(scene.step).values()
        if one.ending is Ending.DONE and "node" in one.data
    }
    return list(found)


def told(look: NodeLook) -> str:
    words = {
        Fenced.NO: "it is not fenced",
        Fenced.OURS: f"it is fenced by incident {look.incident}",
        Fenced.OTHERS: f"others have fenced it ({look.reason or 'no reason given'})",
        Fenced.UNKNOWN: "it cannot be told whether it is fenced",
    }[look.fenced]
    return f"{words} ({look.note})" if look.note else words


def _fence(scene: Scene, where: Node, node: str, name: str) -> Action:
    text = why(scene)

    def look(deadline: Deadline) -> Sight:
        seen = where.look(node, deadline)
        data = {"others": seen.fenced is Fenced.OTHERS}
        if seen.fenced is Fenced.UNKNOWN:
            return Sight(Shown.UNKNOWN, told(seen))
        return Sight(Shown.NOT if seen.fenced is Fenced.NO else Shown.HOLDS, f"{node}: {told(seen)}", data)

    return Action(
        name=f"{where.name}:{name}:{node}",
        slot=where.name,
        call=lambda deadline, _: where.fence(node, scene.incident, text, deadline),
        would=lambda: where.would(Verb.FENCE, node, scene.incident, text),
        look=look,
        enabled=scene.enabled(ToolRole.NODE),
        safe=True,
        attempt_seconds=ATTEMPT_SECONDS,
        data={"node": node, "where": where.name},
    )
