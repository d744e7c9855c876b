"""A small world that the runbook acts on: one instance, gateways, nodes. It does truthfully what it is asked to, keeps
count of all of it, and can be told to misbehave.

`Memory` keeps it in this process; `File` in a file with a lock, so that effects outlive a runner that is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.actuators import Verb
from rankmuster.incident.seen import Seen
from rankmuster.incident.tools import Tools
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Role, Subkind, SuspectKind
from rankmuster.model.incident import (
    Answer,
    Ending,
    Fenced,
    GroupLook,
    GroupState,
    NodeLook,
    NodeRetest,
    OpenedBy,
    Opening,
    RetestEnding,
    StartWish,
    TrafficLook,
    TrafficState,
)
from rankmuster.model.verdict import Recovery, Suspect, Verdict
from rankmuster.model.verdict_json import verdict_to_plain

INSTANCE = "llm-0"
HOSTS = ("n1", "n2")
ALL = frozenset({"traffic", "group", "node", "retest"})


class Store(Protocol):
    def edit(self) -> AbstractContextManager[dict[str, Any]]: ...


def fresh() -> dict[str, Any]:
    return {
        "group": {
            "state": "running", "number": 1, "operation": None, "hosts": list(HOSTS), "by_itself": False,
            "suspect": None, "avoid": [],
        },
        "works": False,  # whether what runs makes progress
        "gateways": {"front": {"state": "ready", "percent": 100.0, "running": 3}},
        "fences": {},
        "operations": {},
        "starts": [],
        "terminated": [],
        "evidence": [],
        "fenced": [],
        "lifted": [],
        "hit": 0,
        "order": [],
    }  # fmt: skip


class Memory:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state = fresh()

    @contextmanager
    def edit(self) -> Iterator[dict[str, Any]]:
        with self._lock:
            yield self.state


class File:
    """Every change is on the disk before the lock is given back; a process that dies leaves the last whole one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            self._write(fresh())

    @contextmanager
    def edit(self) -> Iterator[dict[str, Any]]:
        with open(f"{self._path}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(self._path.read_text())
            before = json.dumps(state)
            yield state
            if json.dumps(state) != before:
                self._write(state)

    def _write(self, state: dict[str, Any]) -> None:
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}.{threading.get_ident()}")
        part.write_text(json.dumps(state))
        os.replace(part, self._path)


def incarnation(number: int) -> str:
    return f"inc-{number}"


@dataclass
class WorldTraffic:
    store: Store
    name: str = "front"

    def look(self, deadline: Deadline) -> TrafficLook:
        with self.store.edit() as world:
            gateway = world["gateways"][self.name]
            return TrafficLook(
                state=TrafficState(gateway["state"]), running=gateway["running"], queued=0, percent=gateway["percent"]
            )

    def _set(self, verb: str, **values: Any) -> Answer:
        with self.store.edit() as world:
            gateway = world["gateways"][self.name]
            hit = gateway["running"] if values.get("state") == "cut" else 0
            gateway.update(values)
            world["hit"] += hit
            world["order"].append(f"{self.name}:{verb}")
        return Answer(ending=Ending.DONE, note=f"{self.name}: {verb}", data={"requests": hit} if verb == "cut" else {})

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        return self._set("stop_new", state="stopped")

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        return self._set("cut", state="cut", running=0)

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        return self._set("set_weight", percent=percent)

    def restore(self, deadline: Deadline) -> Answer:
        return self._set("restore", state="ready", percent=100.0)

    def would(self, verb: Verb, *, percent: float | None = None) -> tuple[str, ...]:
        return (f"{self.name}: {verb.value}" + (f" {percent:.0f} %" if percent is not None else ""),)


@dataclass
class WorldGroup:
    """A start takes effect at once; what is started works, unless `broken`."""

    store: Store
    name: str = "group"
    elsewhere: bool = False
    broken: bool = False

    def look(self, deadline: Deadline) -> GroupLook:
        with self.store.edit() as world:
            group = world["group"]
            return GroupLook(
                state=GroupState(group["state"]),
                incarnation=incarnation(group["number"]),
                operation=group["operation"],
                hosts=tuple(group["hosts"]),
                ended_by_itself=group["by_itself"],
                nodes=group.get("nodes", {}),
            )

    def terminate(self, wanted: str | None, operation: str, deadline: Deadline) -> Answer:
        with self.store.edit() as world:
            group = world["group"]
            now = incarnation(group["number"])
            if wanted is not None and wanted != now:
                return Answer(ending=Ending.DONE, note=f"{now} runs, {wanted} is gone")
            if group["state"] == "ended":
                return Answer(ending=Ending.DONE, note="it had ended already")
            group.update(state="ended", by_itself=False)
            world["works"] = False
            world["terminated"].append(now)
            world["order"].append(f"terminate:{now}")
            for gateway in world["gateways"].values():
                gateway["running"] = 0
        return Answer(ending=Ending.DONE, note=f"{now} ended")

    def start(self, after: str | None, operation: str, wish: StartWish, deadline: Deadline) -> Answer:
        with self.store.edit() as world:
            group = world["group"]
            now = incarnation(group["number"])
            if operation in world["operations"]:
                there = world["operations"][operation]
                return Answer(ending=Ending.DONE, note="started before", data={"incarnation": there})
            if group["state"] != "ended":
                return Answer(ending=Ending.DONE, note=f"{now} runs already", data={"incarnation": now})
            group["number"] += 1
            now = incarnation(group["number"])
            group.update(state="running", operation=operation, suspect=wish.suspect, avoid=list(wish.avoid))
            if self.elsewhere:
                group["hosts"] = [one for one in ("n1", "n2", "n3", "n4") if one not in wish.avoid][:2]
            world["operations"][operation] = now
            world["works"] = not self.broken
            world["starts"].append(now)
            world["order"].append(f"start:{now}")
        return Answer(ending=Ending.DONE, note=f"{now} started", data={"incarnation": now})

    def would(self, verb: Verb, *, incarnation: str | None = None, wish: StartWish | None = None) -> tuple[str, ...]:
        avoid = f", not on {', '.join(wish.avoid)}" if wish is not None and wish.avoid else ""
        return (f"{self.name}: {verb.value} {incarnation}{avoid}",)


@dataclass
class WorldNode:
    store: Store
    name: str = "scheduler"

    def look(self, node: str, deadline: Deadline) -> NodeLook:
        with self.store.edit() as world:
            there = world["fences"].get(node)
        if there is None:
            return NodeLook(fenced=Fenced.NO)
        ours = there["incident"] is not None
        return NodeLook(
            fenced=Fenced.OURS if ours else Fenced.OTHERS, incident=there["incident"], reason=there["reason"]
        )

    def fence(self, node: str, incident: str, reason: str, deadline: Deadline) -> Answer:
        with self.store.edit() as world:
            there = world["fences"].get(node)
            if there is not None:
                others = there["incident"] != incident
                return Answer(ending=Ending.DONE, note=f"{node} is fenced already", data={"others": others})
            world["fences"][node] = {"incident": incident, "reason": reason}
            world["fenced"].append(node)
            world["order"].append(f"fence:{node}")
        return Answer(ending=Ending.DONE, note=f"{node} fenced")

    def lift(self, node: str, incident: str, deadline: Deadline) -> Answer:
        with self.store.edit() as world:
            there = world["fences"].get(node)
            if there is None:
                return Answer(ending=Ending.DONE, note=f"{node} is not fenced")
            if there["incident"] != incident:
                return Answer(ending=Ending.REFUSED, note=f"the fence of {node} is of others")
            del world["fences"][node]
            world["lifted"].append(node)
            world["order"].append(f"lift:{node}")
        return Answer(ending=Ending.DONE, note=f"{node} lifted")

    def would(self, verb: Verb, node: str, incident: str, reason: str = "") -> tuple[str, ...]:
        return (f"{self.name}: {verb.value} {node}" + (f" ({reason})" if reason else ""),)


@dataclass
class WorldRetest:
    store: Store
    results: dict[str, RetestEnding] = field(default_factory=dict)
    name: str = "admit"

    def test(
        self, nodes: tuple[str, ...], good: str | None, operation: str, deadline: Deadline, *, short: bool
    ) -> tuple[NodeRetest, ...]:
        with self.store.edit() as world:
            world["order"].append(f"{'short_' if short else ''}retest:{','.join(nodes)}")
        return tuple(NodeRetest(node=one, ending=self.results.get(one, RetestEnding.PASS)) for one in nodes)

    def would(self, nodes: tuple[str, ...], good: str | None, *, short: bool) -> tuple[str, ...]:
        return (f"{self.name}: test {', '.join(nodes)}",)


@dataclass
class WorldEvidence:
    store: Store
    verdict: Verdict
    name: str = "collect"

    def collect(
        self,
        instance: str,
        incarnation: str | None,
        pids: tuple[int, ...],
        folder: str,
        deadline: Deadline,
        *,
        stopped: bool,
    ) -> Answer:
        bundle = Path(folder) / "bundle"
        bundle.mkdir(parents=True, exist_ok=True)
        (bundle / "manifest.json").write_text("{}")
        with self.store.edit() as world:
            world["evidence"].append(str(bundle))
            world["order"].append("evidence")
        return Answer(ending=Ending.DONE, note="a bundle was taken", data={"bundle": str(bundle)})

    def diagnose(self, bundle: str, folder: str, deadline: Deadline) -> Answer:
        path = Path(folder) / "verdict.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(verdict_to_plain(self.verdict)))
        return Answer(ending=Ending.DONE, note=self.verdict.class_.value, data={"verdict": str(path)})


@dataclass
class WorldProbe:
    store: Store
    name: str = "probe"

    def serves(self, incarnation: str | None, deadline: Deadline) -> Answer:
        with self.store.edit() as world:
            works = world["works"] and world["group"]["state"] == "running"
        return Answer(ending=Ending.DONE if works else Ending.FAILED, note="200" if works else "no answer")


# -- misbehaviour


class Faulty:
    """`actuator` with some of its methods replaced: `faults[method](call, *arguments)`, `call` being the real one."""

    def __init__(self, actuator: Any, **faults: Callable[..., Any]) -> None:
        self._actuator, self._faults = actuator, faults
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._actuator, name)
        if not callable(real):
            return real
        fault = self._faults.get(name)

        def called(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            return real(*arguments, **named) if fault is None else fault(real, *arguments, **named)

        return called


def hangs(release: threading.Event) -> Callable[..., Any]:
    """Never comes back before `release`, and has done nothing."""

    def fault(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        release.wait(60)
        return Answer(ending=Ending.FAILED, note="released")

    return fault


def takes_effect_at(release: threading.Event) -> Callable[..., Any]:
    """Hangs, and does it once it is released: after its deadline."""

    def fault(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        release.wait(60)
        return call(*arguments, **named)

    return fault


def fails(call: Callable[..., Any], *arguments: Any, **named: Any) -> Answer:
    return Answer(ending=Ending.FAILED, note="the gateway said 500")


def lies(call: Callable[..., Any], *arguments: Any, **named: Any) -> Answer:
    return Answer(ending=Ending.DONE, note="all is well")


def says_failed_and_does_it(call: Callable[..., Any], *arguments: Any, **named: Any) -> Answer:
    call(*arguments, **named)
    return Answer(ending=Ending.FAILED, note="connection reset")


def raises(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    raise RuntimeError("cannot reach http://user:geheim@gate/")


def answers(value: Any) -> Callable[..., Any]:
    return lambda call, *arguments, **named: value


def at_first(times: int, fault: Callable[..., Any]) -> Callable[..., Any]:
    """Misbehaves the first times, and does it then."""
    left = [times]

    def sometimes(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            return fault(call, *arguments, **named)
        return call(*arguments, **named)

    return sometimes


# -- what incidents begin with


def opening(by: OpenedBy = OpenedBy.STOPPED, progress: Progress = Progress.STOPPED, **changes: Any) -> Opening:
    at = time.time()
    values: dict[str, Any] = {
        "instance": INSTANCE, "incarnation": incarnation(1), "by": by, "progress": progress, "at": at,
        "since": at - 10, "host": "n1", "reason": "nothing has moved for 10 s",
    }  # fmt: skip
    return Opening(**{**values, **changes})


def verdict(
    class_: FaultClass = FaultClass.COLLECTIVE_DESYNC,
    subclass: Subkind | None = Subkind.MISSING_ENTER,
    boundary: Boundary = Boundary.PROCESS_GROUP,
    hosts: tuple[str, ...] = (),
    role: Role = Role.CULPRIT,
    confidence: Confidence | None = Confidence.CONFIRMED,
    progress: Progress = Progress.STOPPED,
) -> Verdict:
    suspects = tuple(
        Suspect(kind=SuspectKind.RANK, rank=number, host=host, role=role, why="it did not enter")
        for number, host in enumerate(hosts)
    )
    return Verdict(
        instance=INSTANCE, incarnation=incarnation(1), progress=progress, class_=class_, subclass=subclass,
        confidence=confidence, suspects=suspects, suspect_hosts=hosts, recovery=Recovery(boundary=boundary),
    )  # fmt: skip


DESYNC = verdict()
GPU_LOST = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST, Boundary.NODE, hosts=("n2",), role=Role.CULPRIT)
STALL = verdict(FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST, hosts=("n2",), role=Role.SUSPECT)


@dataclass
class World:
    """All of it, with truthful actuators; tests put others in their place."""

    store: Memory
    elsewhere: bool = False
    found: Verdict = DESYNC
    results: dict[str, RetestEnding] = field(default_factory=dict)

    @property
    def state(self) -> dict[str, Any]:
        return self.store.state

    def tools(self, enabled: frozenset[str] = ALL, **changes: Any) -> Tools:
        values: dict[str, Any] = {
            "traffic": (WorldTraffic(self.store),),
            "group": WorldGroup(self.store, elsewhere=self.elsewhere),
            "nodes": (WorldNode(self.store),),
            "retest": WorldRetest(self.store, self.results),
            "evidence": WorldEvidence(self.store, self.found),
            "probe": WorldProbe(self.store),
            "enabled": enabled,
        }
        return Tools(**{**values, **changes})

    def seen(self) -> Seen | None:
        """What a watch would say now."""
        with self.store.edit() as world:
            group = world["group"]
            works = world["works"] and group["state"] == "running"
            progress = Progress.ADVANCING if works else Progress.STOPPED
            return Seen(progress, incarnation(group["number"]), time.time())
