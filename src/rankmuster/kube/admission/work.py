"""Admission of a cluster's nodes, turn by turn: what is known goes through the state machine, and what that asks for is
done, a bounded part of it in each turn.

Whoever owns the watches feeds it and calls `turn`. Nothing is kept that a restart would miss: all that a step rests on
stands in the objects.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rankmuster.adapters.kube.api import ADMISSIONS, NODES, Api, KubeError, NotThere
from rankmuster.adapters.kube.events import Events, Touched
from rankmuster.adapters.kube.job_look import Failing
from rankmuster.adapters.kube.nodes import unsettled
from rankmuster.adapters.kube.rewriting import Pause
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.kube.admission import say as words
from rankmuster.kube.admission.acts import Act, CreateJob, RecordResult, SetStatus, SetTaint, told
from rankmuster.kube.admission.beginning import Beginning
from rankmuster.kube.admission.fleet import Fleet, beyond, current, in_order
from rankmuster.kube.admission.keep import Keeper
from rankmuster.kube.admission.looking import Looking
from rankmuster.kube.admission.memory import Memory
from rankmuster.kube.admission.perform import Performer
from rankmuster.kube.admission.seen import Admission, Look
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.admission.step import step
from rankmuster.kube.admission.step_job import failed
from rankmuster.kube.controller.said_once import SaidOnce
from rankmuster.kube.crd.admission import Phase
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.kube import NodeView
from rankmuster.store.errors import Conflict as NeverKept
from rankmuster.store.errors import HistoryError, Refused

if TYPE_CHECKING:
    from rankmuster.store.history import History

CALL_SECONDS = 10.0
"""For what one admission asks of the API server at a time."""

LIST_SECONDS = 60.0
ASK_SECONDS = 300.0
"""Between two questions for a node that nobody has told of."""

MOST_WRITES = 200
"""Acts of one turn: what is over waits for the next one."""


class AdmissionWork:
    """`acting` False: NodeAdmissions say what would be done, and nothing else is written. `image`, `namespace`: of
    Jobs, where the settings leave them open. `fingerprints`: what a node's agent has read, None where nothing is known;
    it has to return at once. `clock`: monotonic; `unix_now`: of stamps. `say`: lines for the log. `events`: on the
    nodes and on our own objects.

    Views of nodes have to hold the labels that `settings.nodes` names. Raises ValueError for settings that do not fit
    together.
    """

    def __init__(
        self,
        api: Api,
        settings: AdmissionSettings,
        history: History | None,
        clock: Clock,
        unix_now: Callable[[], float],
        fingerprints: Callable[[str], Fingerprint | None],
        say: Callable[[str], None],
        *,
        acting: bool = False,
        image: str = "registry.example/rankmuster",
        namespace: str = "rankmuster",
        relist_seconds: float = 600.0,
        call_seconds: float = CALL_SECONDS,
        pause: Pause = time.sleep,
        events: Events | None = None,
    ) -> None:
        objection = settings.objection()
        if objection is not None:
            raise ValueError(f"admission: {objection}")
        self._api, self._settings, self._acting = api, settings, acting
        self._clock, self._unix_now, self._say = clock, unix_now, say
        self._events = events
        self._relist_seconds, self._call_seconds = relist_seconds, call_seconds
        keeper = Keeper(history)
        self._keeper = keeper
        self._memory = Memory(unix_now, say)
        self._performer = Performer(
            api,
            settings,
            keeper,
            image=image,
            namespace=namespace,
            wall=unix_now,
            pause=pause,
            seen=self._memory.raw,
        )
        image_counts = self._performer.image if settings.image_counts else None
        self._beginning = Beginning(
            settings, self._memory, self._performer, fingerprints, image_counts, self._trouble, say
        )
        self._looking = Looking(api, settings, keeper, fingerprints, self._performer.namespace)
        self._turning = threading.Lock()
        self._listed_at: float | None = None
        self._last = ""
        self._asked: dict[str, float] = {}
        self._once = SaidOnce(say)

    # -- what others tell

    def node_changed(self, view: NodeView) -> None:
        """A node as it is now, also where only its agent has told something new."""
        if self._settings.selects(view):
            self._memory.node(view)

    def node_gone(self, name: str) -> None:
        """It is deleted."""
        self._memory.node_gone(name)

    def admission_changed(self, raw: Mapping[str, Any]) -> None:
        """A NodeAdmission as it is now: by our own writes, or by a person's."""
        self._memory.admission(raw)

    def admission_gone(self, name: str) -> None:
        """It is deleted."""
        self._memory.admission_gone(name)

    # -- a turn

    def turn(self, seconds: float = 30.0) -> None:
        """All that is due, as far as it gets in so many seconds. Raises nothing for expected trouble."""
        with self._turning:
            until = Deadline.after(seconds, self._clock)
            if not self._listed(until):
                return
            self._beginning.turn(until)
            self._go_on(until)

    def _listed(self, until: Deadline) -> bool:
        """All NodeAdmissions are known; listed again now and then, for what a watch has missed."""
        now = self._clock()
        if self._listed_at is not None and now - self._listed_at < self._relist_seconds:
            return True
        try:
            found = self._api.list(ADMISSIONS, None, until.within(LIST_SECONDS))
        except KubeError as error:
            self._say(f"NodeAdmissions could not be listed: {error}")
            return self._listed_at is not None
        for raw in found:
            self._memory.raw({"kind": ADMISSIONS.kind, **raw})
        self._memory.only(frozenset(str((one.get("metadata") or {}).get("name")) for one in found))
        self._listed_at = now
        return True

    def _go_on(self, until: Deadline) -> None:
        nodes, admissions = self._memory.nodes(), self._memory.admissions()
        now_of = current(admissions)
        fleet = Fleet(nodes, now_of, self._settings, self._unix_now())
        left = MOST_WRITES
        for one in in_order(admissions, self._last):
            if until.passed or left <= 0:
                break
            self._last = one.name
            youngest = now_of.get(one.node)
            replaced = "" if youngest is None or youngest.name == one.name else youngest.trigger or "it has changed"
            left -= self._one(one, nodes.get(one.node), replaced, fleet, until)
        else:
            self._last = ""
        self._forget(admissions, until)

    def _one(self, one: Admission, node: NodeView | None, replaced: str, fleet: Fleet, until: Deadline) -> int:
        """How many acts were begun."""
        deadline = until.within(self._call_seconds)
        try:
            if node is None and not self._gone(one, deadline):
                return 0
            acts = self._acts(one, node, replaced, fleet, deadline)
            if not self._acting:
                acts = self._observed(one, acts)
            if not acts:
                return 0
            if not self._still(one, acts, deadline):
                return 1
        except (KubeError, HistoryError) as error:
            self._trouble(one.node, str(error))
            return 1
        done = 0
        for act in acts:
            try:
                done += 1
                self._performer.do(act, one, node, deadline)
            except (KubeError, HistoryError) as error:
                self._trouble(one.node, f"could not {told(act, one.node)}: {error}")
                self._not_done(one, act, error, deadline)
                return done
            if isinstance(act, SetTaint):
                fleet.tainted_one(one)
            elif isinstance(act, CreateJob):
                fleet.started_one()
            self._tell(one, act)
        return done

    def _acts(
        self, one: Admission, node: NodeView | None, replaced: str, fleet: Fleet, deadline: Deadline
    ) -> tuple[Act, ...]:
        now, status = self._unix_now(), one.status
        if node is None or replaced or node.uid != one.node_uid:
            return step(one, node, Look(superseded=replaced), now, self._settings)
        look: dict[str, Any] = {
            "unsettled": unsettled(node),
            "quiet_since": max(one.created, self._memory.changed_at(one.node)),
            "may_taint": fleet.may_taint(one),
            "may_start": fleet.may_start(),
            "holders": (),
        }
        if one.trusted and status.phase is Phase.PENDING:
            look["passed"] = self._keeper.passed(one.node)
        if status.phase is Phase.TESTING:
            look |= self._looking.under_way(one, node, fleet, deadline)
        acts = step(one, node, Look(**look), now, self._settings)
        if any(isinstance(act, CreateJob) for act in acts):
            look["holders"] = self._looking.holders(node.name, deadline)
            acts = step(one, node, Look(**look), now, self._settings)
        return acts

    def _gone(self, one: Admission, deadline: Deadline) -> bool:
        """Whether the API server says that this node is not there: that nobody has told of it is no proof. Asked now
        and then."""
        now = self._clock()
        if now - self._asked.get(one.node, -ASK_SECONDS) < ASK_SECONDS:
            return False
        self._asked[one.node] = now
        try:
            self._api.get(NODES, one.node, None, deadline)
        except NotThere:
            del self._asked[one.node]
            return True
        return False

    def _still(self, one: Admission, acts: tuple[Act, ...], deadline: Deadline) -> bool:
        """Whether the admission is as the step has seen it: a status alone is bound to that by itself."""
        if all(isinstance(act, SetStatus) for act in acts):
            return True
        try:
            self._memory.admission(self._api.get(ADMISSIONS, one.name, None, deadline))
        except NotThere:
            self._memory.admission_gone(one.name)
            return False
        return self._memory.one(one.name) == one

    def _observed(self, one: Admission, acts: tuple[Act, ...]) -> tuple[Act, ...]:
        would = tuple(told(act, one.node) for act in acts if not isinstance(act, SetStatus))
        return acts if not would else words.observed(one, would, self._unix_now())

    def _not_done(self, one: Admission, act: Act, error: Exception, deadline: Deadline) -> None:
        """Said in the status, unless it was the status that could not be written. A result that the history refuses
        for good is none."""
        try:
            if isinstance(act, SetStatus):
                self._memory.admission(self._api.get(ADMISSIONS, one.name, None, deadline))
                return
            message = f"could not {told(act, one.node)}: {error}"
            said: tuple[Act, ...] = words.waits(one, "NotDone", message, self._unix_now())
            if isinstance(error, (NeverKept, Refused)):
                said = failed(one, None, Failing.NOT_KEPT, message, self._unix_now(), self._settings)
            for each in said:
                self._performer.do(each, one, None, deadline)
        except KubeError as again:
            self._trouble(one.node, str(again))

    def _trouble(self, node: str, words: str) -> None:
        """The same of the same node is said once."""
        self._once.tell(node, f"node {node}: {words}")

    def _tell(self, one: Admission, act: Act) -> None:
        """What changes something is said, in the log and to whoever looks at the node."""
        self._once.tell(one.node, "")
        if isinstance(act, SetStatus) and act.status.phase is one.phase:
            return
        self._say(f"node {one.node}: {told(act, one.node)}")
        if self._events is not None and not isinstance(act, RecordResult):
            phase = act.status.phase if isinstance(act, SetStatus) else None
            reason = f"Admission{phase.value}" if phase is not None else type(act).__name__
            note = words.first(act.status) if isinstance(act, SetStatus) else told(act, one.node)
            warning = phase in (Phase.REFUSED, Phase.ERROR)
            self._events.tell(Touched(NODES, one.node, one.node_uid), reason, note, warning=warning)
            self._events.tell(Touched(ADMISSIONS, one.name, one.uid), reason, note, warning=warning)

    def _forget(self, admissions: tuple[Admission, ...], until: Deadline) -> None:
        for one in beyond(admissions, self._settings.keep):
            if until.passed:
                return
            try:
                self._performer.forget(one, until.within(self._call_seconds))
                self._memory.admission_gone(one.name)
            except KubeError as error:
                self._say(f"NodeAdmission {one.name} could not be deleted: {error}")
                return
