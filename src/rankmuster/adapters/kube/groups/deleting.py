"""Deletes that end one group: each bound to a UID that was read, in stages, within a deadline.

Pod disruption budgets are not asked: a plain delete ignores them, and an eviction that they forbid would leave a group
half ended, which is worse than ended whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rankmuster.adapters.kube.api import PODS, Api, Conflict, Kind, KubeError, NotThere
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import PodView
from rankmuster.report.inert import plain

AT_ONCE = 8
"""Deletes under way at a time: a group of 64 pods takes a second, and the API server hardly notices."""


@dataclass(frozen=True, slots=True)
class Target:
    """One object to delete. `foreground`: it stays until what it owns is gone."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    foreground: bool = False

    @property
    def words(self) -> str:
        """The call, as the API server gets it."""
        options = f'{{"preconditions":{{"uid":"{self.uid}"}}{_propagation(foreground=self.foreground)}}}'
        return f"DELETE {self.kind.path(self.namespace, self.name)} {options}"

    @classmethod
    def pod(cls, pod: PodView, *, foreground: bool = False) -> Target:
        return cls(PODS, pod.namespace, pod.name, pod.uid, foreground)


@dataclass(frozen=True, slots=True)
class Deleted:
    """`asked`: the API server took it; `gone`: it was not there any more; `problems`: what was not taken."""

    asked: int = 0
    gone: int = 0
    problems: tuple[KubeError, ...] = ()

    @property
    def problem(self) -> str:
        return plain("; ".join(dict.fromkeys(str(one) for one in self.problems)), 800)

    @property
    def late(self) -> bool:
        return any(one.late for one in self.problems)


def delete_all(api: Api, stages: Sequence[Sequence[Target]], deadline: Deadline) -> Deleted:
    """Stage by stage; what follows a stage that was not taken whole is left, so that it can be done again as a whole:
    the object that the incarnation is known by goes last, or takes the others with it."""
    found = Deleted()
    for stage in stages:
        answers = _stage(api, stage, deadline)
        found = Deleted(
            found.asked + answers.count("asked"),
            found.gone + answers.count("gone"),
            (*found.problems, *(one for one in answers if isinstance(one, KubeError))),
        )
        if found.problems:
            break
    return found


def _stage(api: Api, stage: Sequence[Target], deadline: Deadline) -> list[str | KubeError]:
    if len(stage) < 2:
        return [_delete(api, one, deadline) for one in stage]
    with ThreadPoolExecutor(min(AT_ONCE, len(stage)), "delete") as pool:
        return list(pool.map(lambda one: _delete(api, one, deadline), stage))


def _delete(api: Api, one: Target, deadline: Deadline) -> str | KubeError:
    try:
        api.delete(one.kind, one.name, one.namespace, deadline, uid=one.uid, foreground=one.foreground)
    except (NotThere, Conflict):  # another one of that name is another one: this UID is gone
        return "gone"
    except KubeError as error:
        return error
    return "asked"


def _propagation(*, foreground: bool) -> str:
    return ',"propagationPolicy":"Foreground"' if foreground else ""
