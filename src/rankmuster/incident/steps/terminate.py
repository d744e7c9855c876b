"""TERMINATE: the whole process group of the incarnation that the incident is about, and no other."""

from __future__ import annotations

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action, Sight
from rankmuster.incident.actuators import Group, Verb
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import Ending, Step

LOOK_SECONDS = 2.0
"""Of the look before it."""


def run(scene: Scene) -> Ended:
    """Data: `incarnation`, of what was ended; `node`, `pids` where a process could not be killed."""
    group = scene.tools.group
    if group is None:
        return Ended(Ending.OBSERVED, groups.NO_GROUP)
    incarnation = meant(scene, group)
    others = of_others(scene, group)
    if others is not None:
        return Ended(Ending.SKIPPED, others, {"incarnation": incarnation})
    scene.setting.permits.count_resumed()
    answer = scene.acting.act(terminating(scene, group, incarnation), scene.deadline)
    return Ended(answer.ending, answer.note, {"incarnation": incarnation, **answer.data})


def meant(scene: Scene, group: Group) -> str | None:
    """The incarnation that has to go: the incident's, or what it started itself and what never served."""
    if not scene.record.incident.started_unverified:
        return scene.past.bound or scene.opening.incarnation
    started = scene.past.text(Step.START, "incarnation")
    if started is not None:
        return started
    # its start was never answered: what runs, and is not what was there before, can only be of that start
    look = groups.look_at(group, scene.deadline.within(LOOK_SECONDS), lambda: scene.acting.given_up)
    ours = (scene.past.bound, scene.opening.incarnation)
    return look.incarnation if look.incarnation not in ours else scene.past.bound or scene.opening.incarnation


def of_others(scene: Scene, group: Group) -> str | None:
    """Why what runs is not to be ended: somebody has started it while this incident was about to."""
    if not scene.record.incident.started_unverified:
        return None
    answers = scene.past.answers(Step.START).values()
    said = any(one.data.get(groups.BY_OTHERS) is True for one in answers)
    if not said and not any(one.ending is Ending.DONE for one in answers):
        look = groups.look_at(group, scene.deadline.within(LOOK_SECONDS), lambda: scene.acting.given_up)
        ours = f"{scene.incident}/{Step.START.value}"
        said = look.state in groups.LIVING and look.operation is not None and not look.operation.startswith(ours)
    if not said:
        return None
    return (
        "what runs was started by somebody else while this incident rebuilt the group: it is not ended. If it does not "
        "serve either, open an incident of its own (`rankmuster incident run`)"
    )


def terminating(scene: Scene, group: Group, incarnation: str | None, name: str = Verb.TERMINATE.value) -> Action:
    def look(deadline: Deadline) -> Sight:
        return groups.is_gone(group.look(deadline), incarnation)

    return Action(
        name=f"{group.name}:{name}",
        slot=group.name,
        call=lambda deadline, operation: group.terminate(incarnation, operation, deadline),
        would=lambda: group.would(Verb.TERMINATE, incarnation=incarnation),
        look=look,
        enabled=scene.enabled(ToolRole.GROUP),
        # bound to its incarnation it ends nothing else, however often it is asked
        safe=incarnation is not None,
        incarnation=incarnation,
    )
