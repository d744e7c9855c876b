"""The process group of one instance as a `Group` (`incident.actuators`): what all kinds of workloads have in common.

The pods are deleted, and the workload's own controller makes them again: nothing is ever created here, and a start is a
look for what came. Every delete has the UID of an object that was read in the same call, and that belonged to the
incarnation that was meant; between the two the API server itself refuses what has changed. The pod that the
incarnation is known by goes last, or takes the others with it: a runner that dies in between finds the old incarnation,
and ends the rest of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rankmuster.adapters.kube.api import Api, KubeError
from rankmuster.adapters.kube.events import Events, Touched
from rankmuster.adapters.kube.find import Find, stands_in
from rankmuster.adapters.kube.groups.deleting import Target, delete_all
from rankmuster.adapters.kube.groups.look import group_look, left_over
from rankmuster.adapters.kube.groups.start_profile import StartProfile
from rankmuster.adapters.kube.groups.waiting import LAST_LOOK, Waiter, polls
from rankmuster.adapters.kube.may_act import Objection, nobody_objects
from rankmuster.adapters.kube.naming import anchor_uid, incarnation_of
from rankmuster.adapters.kube.pods import ended, engines
from rankmuster.adapters.kube.workloads import KINDS
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, GroupLook, GroupState, StartWish
from rankmuster.model.kube import InstanceView, PodView
from rankmuster.report.inert import plain

MOST_LINES = 40
"""Of what would be sent."""


class PodGroup:
    """`find`: reads the instance anew. `elsewhere`: whether a taint of the policy keeps new pods off fenced nodes.
    `container`: the engine's. `profile`: where variables for one start may be put; None: nowhere. `pause`: of seconds.
    `objection`: asked before anything is deleted, gives the answer where that is not to be. `events`: told on all that
    is deleted, and on what makes it anew."""

    def __init__(
        self,
        api: Api,
        find: Find,
        *,
        name: str,
        elsewhere: bool = False,
        container: str | None = None,
        profile: StartProfile | None = None,
        pause: Callable[[float], None] = time.sleep,
        objection: Objection = nobody_objects,
        events: Events | None = None,
    ) -> None:
        self.name = name
        self.elsewhere = elsewhere
        self._api, self._find = api, find
        self._container, self._profile, self._pause = container, profile, pause
        self._objection, self._events = objection, events
        self._last: InstanceView | None = None

    # -- of each kind --------------------------------------------------------------------------------------------------

    def _stages(self, view: InstanceView, deadline: Deadline) -> Sequence[Sequence[Target]]:  # noqa: ARG002
        """What is deleted to end it, in order. Raises KubeError where something has to be read for it."""
        anchor = view.anchor
        first = [pod for pod in view.pods if anchor is None or pod.uid != anchor.uid]
        last = [Target.pod(anchor)] if anchor is not None and not anchor.deleting else []
        return [[Target.pod(pod) for pod in first if not pod.deleting], last]

    def _also(self, view: InstanceView, left: tuple[PodView, ...], took: float, deadline: Deadline) -> None:
        """While it is waited for them."""

    # -- Group ---------------------------------------------------------------------------------------------------------

    def look(self, deadline: Deadline) -> GroupLook:
        try:
            view = self._seen(deadline)
        except KubeError as error:
            return GroupLook(state=GroupState.UNKNOWN, note=plain(error, 600))
        return group_look(view, self._container)

    def terminate(self, incarnation: str | None, operation: str, deadline: Deadline) -> Answer:
        """Deletes what belongs to that incarnation, and waits until it is gone."""
        try:
            view = self._seen(deadline)
        except KubeError as error:
            return _unseen(error)
        if not view.pods or (incarnation is None and stands_in(view)):
            return Answer(ending=Ending.DONE, note=f"nothing runs: {group_look(view, self._container).note}")
        there = incarnation_of(view, self._container)
        if incarnation is not None and there is not None and there != incarnation:
            return self._other(view, incarnation, there, deadline)
        if all(pod.deleting for pod in view.pods):
            return self._wait(view.pods, f"{self.name} was told to end already", deadline)
        if incarnation is not None and there is None and not view.problem:
            note = (
                f"nothing was ended: the pod that {incarnation} is known by is gone, and which start those that are "
                f"there belong to is not known ({group_look(view, self._container).note})"
            )
            return Answer(ending=Ending.FAILED, note=note)
        return self._end(view, operation, deadline)

    def start(
        self,
        after: str | None,
        operation: str,
        wish: StartWish,
        deadline: Deadline,
    ) -> Answer:
        """Waits until the workload's controller has begun another one; deletes nothing but what has ended by itself."""
        problem = "no look was answered"
        asked = False
        view: InstanceView | None = None
        for _ in polls(deadline, self._pause):
            try:
                view = self._seen(deadline.before(LAST_LOOK / 2))
            except KubeError as error:
                problem = plain(error, 400)
                continue
            problem = ""
            there = incarnation_of(view, self._container)
            anchor = view.anchor
            if anchor is None or there is None or anchor.deleting:
                continue
            if after is not None and there == after:
                look = group_look(view, self._container)
                if look.state is not GroupState.ENDED:
                    note = f"the incarnation that was to be ended is still there, and no other can begin: {look.note}"
                    return Answer(ending=Ending.FAILED, note=note)
                if not asked:
                    # it has ended by itself, its pods hold their names: only their going makes room for others
                    answer = self._end(view, operation, deadline)
                    if answer.ending is not Ending.DONE:
                        return answer
                    asked = True
                continue
            # what is left of the old one holds names that the new one needs: until then it is not whole
            begun = self._begun(view, there, wish) if not left_over(view) else None
            if begun is not None:
                return begun
        return self._not_begun(view, after, wish, problem)

    def would(self, verb: str, *, incarnation: str | None = None, wish: StartWish | None = None) -> tuple[str, ...]:
        """The calls, with the UIDs of the last look where that was of this incarnation."""
        word = str(getattr(verb, "value", verb))
        if word != "terminate":
            lines = [
                f"# nothing is sent: the controller of {self.name} makes the new pods; one other than {incarnation}"
            ]
            if wish is not None and wish.avoid:
                lines.append(f"# none of them may come to {', '.join(wish.avoid)}, which their taint keeps off")
            if wish is not None and self._profile is not None:
                lines += self._profile.would(wish)
            return tuple(lines)
        view = self._last
        if view is None or (incarnation is not None and incarnation_of(view, self._container) != incarnation):
            return (self._unknown_call(incarnation),)
        lines = self._calls(view)
        more = [f"# and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
        profile = self._profile.would(self._profile.expected()) if self._profile is not None else []
        return (*profile, *lines[:MOST_LINES], *more, f"# if {incarnation or 'it'} is what runs then")

    def forget_profile(self, deadline: Deadline) -> Answer:
        """Takes the variables of one start back: for when the incident is closed, whatever became of it."""
        if self._profile is None:
            return Answer(ending=Ending.DONE, note="there is none")
        return self._profile.empty(deadline)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _seen(self, deadline: Deadline) -> InstanceView:
        self._last = view = self._find(deadline)
        return view

    def _other(self, view: InstanceView, incarnation: str, there: str, deadline: Deadline) -> Answer:
        note = f"{incarnation} is gone; {there} is another one and was not touched"
        again = view.anchor is not None and anchor_uid(incarnation) == view.anchor.uid
        if again:
            note = f"the containers of {incarnation} were restarted in place, {there} is what came and was not touched"
        left = left_over(view)
        if left:
            return self._wait(left, f"what {note.split(';')[0]} left behind", deadline)
        return Answer(ending=Ending.DONE, note=f"{note}: {group_look(view, self._container).note}")

    def _end(self, view: InstanceView, operation: str, deadline: Deadline) -> Answer:
        if view.problem:
            note = f"nothing was ended, since it is not known well enough: {view.problem}"
            return Answer(ending=Ending.REFUSED, note=plain(note, 1000))
        objection = self._objection(deadline)
        if objection is not None:
            return objection
        prepared = self._profile.prepare(operation, deadline) if self._profile is not None else ""
        try:
            stages = self._stages(view, deadline)
        except KubeError as error:
            return _unseen(error)
        done = delete_all(self._api, stages, deadline)
        if done.asked:
            self._tell(view, [target for stage in stages for target in stage], operation)
        if done.problems:
            ending = Ending.TIMED_OUT if done.late else Ending.FAILED
            note = (
                f"{done.asked + done.gone} of {sum(len(one) for one in stages)} deletes of {self.name} were taken, "
                f"then: {done.problem}. It may be asked again: each is bound to its UID"
            )
            return Answer(ending=ending, note=note, data={"sent": True})
        taken = f"{done.asked} delete{'' if done.asked == 1 else 's'} taken"
        what = f"{self.name}: {taken}{f'; {prepared}' if prepared else ''}"
        return self._wait(view.pods, what, deadline)

    def _tell(self, view: InstanceView, targets: Sequence[Target], operation: str) -> None:
        if self._events is None:
            return
        note = f"deleted, so that the whole group of {view.name} is made anew ({operation})"
        touched = [Touched(one.kind, one.name, one.uid, one.namespace) for one in targets]
        if view.workload_uid is not None:
            touched.append(Touched(KINDS[view.kind], view.workload, view.workload_uid, view.namespace))
        for one in touched:
            self._events.tell(one, "GroupEnded", note, warning=True)

    def _wait(self, pods: Sequence[PodView], what: str, deadline: Deadline) -> Answer:
        waiter = Waiter(self._api, self._find, self._pause, self._container, self._also)
        return waiter.until_gone({pod.uid for pod in pods}, what, deadline)

    def _begun(self, view: InstanceView, there: str, wish: StartWish) -> Answer | None:
        """What to say of the new one; None while more has to be seen."""
        alive = [pod for pod in view.pods if not pod.deleting and not ended(pod)]
        placed = {pod.name: pod.node for pod in alive if pod.node is not None}
        wrong = {name: node for name, node in placed.items() if node in wish.avoid}
        data = {"incarnation": there, "nodes": placed}
        if wrong:
            pods = ", ".join(f"{name} on {node}" for name, node in sorted(wrong.items()))
            note = f"{there} has begun, but on nodes that were to be avoided: {pods}; their taint did not keep it off"
            return Answer(ending=Ending.PARTIAL, note=note, data={**data, "avoided": sorted(set(wrong.values()))})
        whole = len(alive) >= (view.size or 1)
        if wish.avoid and not (whole and len(placed) == len(alive)):
            return None
        started = whole and all(one.running or one.started_at for pod in alive for one in engines(pod, self._container))
        said = ""
        if self._profile is not None and self._profile.wanted(wish):
            if not started:
                return None
            said = f"; {self._profile.taken(view)}"
        stand_in = f"; {view.anchor.name} stands in for it" if stands_in(view) and view.anchor is not None else ""
        note = f"{there} has begun{stand_in}: {group_look(view, self._container).note}{said}"
        return Answer(ending=Ending.DONE, note=note, data=data)

    def _not_begun(self, view: InstanceView | None, after: str | None, wish: StartWish, problem: str) -> Answer:
        if view is None or problem:
            return Answer(ending=Ending.TIMED_OUT, note=f"whether another one has begun cannot be seen: {problem}")
        look = group_look(view, self._container)
        anchor = view.anchor
        if look.incarnation is None or look.incarnation == after or anchor is None or anchor.deleting:
            note = f"its controller has begun no other one, as a whole, by the deadline: {look.note}"
            return Answer(ending=Ending.TIMED_OUT, note=note)
        waited = "come to a node" if wish.avoid else "started"
        note = f"{look.incarnation} has begun, but not all of its pods have {waited} by the deadline: {look.note}"
        data = {"incarnation": look.incarnation}
        return Answer(ending=Ending.PARTIAL, note=note, data=data)

    def _calls(self, view: InstanceView) -> list[str]:
        return [one.words for stage in self._stages(view, Deadline(0.0)) for one in stage]

    def _unknown_call(self, incarnation: str | None) -> str:
        return f"# DELETE of each pod of {self.name} with its UID, if {incarnation or 'it'} is what runs then"


def _unseen(error: KubeError) -> Answer:
    ending = Ending.TIMED_OUT if error.late else Ending.FAILED
    return Answer(ending=ending, note=f"nothing was changed, since it could not be looked at: {plain(error, 600)}")
