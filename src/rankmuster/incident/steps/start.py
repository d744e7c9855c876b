"""START: the whole process group, a new incarnation; never a second one."""

from __future__ import annotations

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action, Sight
from rankmuster.incident.actuators import Group, Verb
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.incident.steps.wishes import start_wish
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import Ending, Step


def run(scene: Scene) -> Ended:
    """Data: `incarnation`, the new one."""
    group = scene.tools.group
    if group is None:
        return Ended(Ending.OBSERVED, groups.NO_GROUP)
    answer = scene.acting.act(starting(scene, group), scene.deadline)
    return Ended(answer.ending, answer.note, answer.data)


def starting(scene: Scene, group: Group) -> Action:
    past = scene.past
    after = past.bound or scene.opening.incarnation
    operation = scene.acting.operation(f"{group.name}:{Verb.START.value}")
    wanted = start_wish(scene.config, scene.record.incident)

    def look(deadline: Deadline) -> Sight:
        return groups.is_started(group.look(deadline), after, operation)

    observed = past.ending(Step.TERMINATE) is Ending.OBSERVED
    return Action(
        name=f"{group.name}:{Verb.START.value}",
        slot=group.name,
        call=lambda deadline, operation: group.start(after, operation, wanted, deadline),
        would=lambda: group.would(Verb.START, incarnation=after, wish=wanted),
        look=look,
        enabled=scene.enabled(ToolRole.GROUP),
        bound=True,
        incarnation=after,
        unless="nothing was terminated" if observed else None,
    )
