"""Evidence out of a container that has a shell and `cat`, and nothing of ours: read there, understood here.

The process table comes first and says where the rest is: dumps, NCCL's logs, the port of RAS. Then all of it is taken
at once, each by an exec of its own, since one that hangs in a driver must not cost the others. What came becomes a
bundle as any other: the finder of instances reads a /proc made of it, and the rules for secrets are those of `collect`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.adapters.collect_here import Taken
from rankmuster.adapters.kube import shell_scripts as scripts
from rankmuster.adapters.kube.api import Api
from rankmuster.adapters.kube.at_once import at_once
from rankmuster.adapters.kube.pod_exec import where
from rankmuster.adapters.kube.pod_told import told_of
from rankmuster.adapters.kube.shell_parts import Haul, Part, parts_of
from rankmuster.adapters.kube.shell_plan import Plan, plan_of
from rankmuster.adapters.kube.shell_proc import add_maps, write_proc
from rankmuster.adapters.kube.shell_run import Heard, run_script
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.naming import clean
from rankmuster.collect.find.search import Found, find
from rankmuster.collect.find.search import Request as Wanted
from rankmuster.collect.look_for import Ambiguous, Sought
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.pool import Task
from rankmuster.collect.save import Called, Refused, Request, Saved, save
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import Target
from rankmuster.collect.wishes import AddressMode, RasRisk, Wishes
from rankmuster.model.kube import PodView

LOOK_SECONDS = 2.0
"""Between the two looks at the processes, if nothing else is wished."""

TABLE_SECONDS, TABLE_SHARE = 12.0, 0.45
"""For the process table: 100 processes take 2 s in a container with one processor."""

CLOSE_SECONDS = 2.5
"""Kept for making the bundle of what came; stripping secrets takes a third of a second a megabyte of log."""

MOST_TABLE = 64 << 20
"""Bytes of the process table: 5,000 processes with their variables."""

MOST_DUMPS = 512 << 20
MOST_DUMP = 128 << 20
"""Bytes of all dumps and of one; `diagnose` reads so much of one file."""

MOST_LOGS, MOST_LOG = 64 << 20, 8 << 20
MOST_SMI = 8 << 20
MOST_REPLY = 64 << 20


@dataclass(frozen=True, slots=True)
class ShellWish:
    """`stopped`: it is known that the instance has stopped. `instance`: by name, where several run in the pod.
    `as_instance`, `as_incarnation`: whose evidence the bundle says it is. `look_seconds`: between two looks at the
    processes."""

    stopped: bool = False
    ras_risk: RasRisk = RasRisk.AFTER_STOP_CONFIRMED
    instance: str | None = None
    as_instance: str | None = None
    as_incarnation: str | None = None
    addresses: AddressMode = AddressMode.FOREIGN
    look_seconds: float = LOOK_SECONDS


def shell_collect(
    api: Api,
    pod: PodView,
    container: str | None,
    tools: frozenset[str],
    wish: ShellWish,
    output: Path,
    deadline: Deadline,
    *,
    now: Callable[[], float] = time.time,
) -> Taken:
    """Into `output`, a folder or an archive by its name. `container` None: none can be entered, and only what the API
    server tells is taken."""
    taking = deadline.before(min(CLOSE_SECONDS, deadline.remaining() * 0.3))
    haul = Haul()
    try:
        with tempfile.TemporaryDirectory(prefix="rankmuster-pod-") as place:
            machine = _look(api, pod, container, wish, haul, Path(place), taking, now)
            target = _found(machine, wish, now())
            _take(api, pod, container, tools, wish, haul, target, Path(place), taking, now)
            request = Request(
                output,
                max(deadline.remaining(), 1.0),
                (),
                wish.instance,
                Wishes(
                    stop_confirmed=wish.stopped,
                    ras_risk=wish.ras_risk,
                    look_seconds=LOOK_SECONDS,
                    addresses=wish.addresses,
                ),
                called=Called(wish.as_instance, wish.as_incarnation),
            )
            saved = save(
                request,
                machine=machine,
                tasks=lambda _: _tasks(haul, machine),
                now=now,
                clock=deadline.clock,
                seek=partial(_seek, wish),
            )
    except Refused as error:
        return Taken(None, f"{where(pod)}: {error}")
    except OSError as error:
        return Taken(None, f"{where(pod)}: what came cannot be kept here ({error.strerror or error})")
    return _taken(pod, container, haul, saved)


# -- there -------------------------------------------------------------------------------------------------------------


def _look(
    api: Api,
    pod: PodView,
    container: str | None,
    wish: ShellWish,
    haul: Haul,
    place: Path,
    deadline: Deadline,
    now: Callable[[], float],
) -> Machine:
    """The process table, as a machine of its own."""
    if container is not None:
        until = deadline.within(min(TABLE_SECONDS, deadline.remaining() * TABLE_SHARE))
        apart = min(wish.look_seconds, until.remaining() / 4)
        haul.table = run_script(
            api,
            pod,
            container,
            lambda mark: [*scripts.SHELL, scripts.PROCESSES, "sh", mark, f"{apart:.1f}"],
            until,
            now,
            MOST_TABLE,
        )
        haul.second_at = haul.table.at + apart
    hostname = next(
        (one.data.decode("utf-8", "replace").strip() for one in haul.table.records if one.name.endswith("/hostname")),
        "",
    )
    return write_proc(haul.table.records, place, hostname.split(".")[0][:253] or pod.name)


def _found(machine: Machine, wish: ShellWish, at: float) -> Target | None:
    found = _chosen(find(machine, Wanted((), wish.instance), now=at), wish)
    return found.targets[0] if len(found.targets) == 1 else None


def _chosen(found: Found, wish: ShellWish) -> Found:
    """Of several the one that has the name which the bundle is to have; else as they are."""
    named = tuple(one for one in found.targets if wish.as_instance and one.name == clean(wish.as_instance))
    return Found(named, found.notes) if len(found.targets) > 1 and len(named) == 1 else found


def _take(
    api: Api,
    pod: PodView,
    container: str | None,
    tools: frozenset[str],
    wish: ShellWish,
    haul: Haul,
    target: Target | None,
    place: Path,
    deadline: Deadline,
    now: Callable[[], float],
) -> None:
    """Everything else at once; what it says of NCCL's library is added to the machine."""
    plan = plan_of(target, tools, wish.ras_risk, stopped=wish.stopped, hostname=_hostname(haul, pod))
    haul.ras_declined = plan.ras_declined

    def told() -> None:
        haul.told = told_of(api, pod, deadline)

    tasks: list[Callable[[], object]] = [told]
    if container is not None:
        inside = container

        def run(make: Callable[[str], Sequence[str]], most: int, *, raw: bool = False) -> Heard:
            return run_script(api, pod, inside, make, deadline, now, most, raw=raw)

        tasks += _execs(plan, haul, place, run)
    at_once(tasks, deadline)


def _execs(plan: Plan, haul: Haul, place: Path, run: Callable[..., Heard]) -> list[Callable[[], object]]:
    def dumps() -> None:
        haul.dumps = Heard(trouble="they had not come in time")
        head = [*scripts.SHELL, scripts.FILES, "sh"]
        haul.dumps = run(lambda mark: [*head, mark, str(MOST_DUMP), scripts.RANKS, *plan.prefixes], MOST_DUMPS)

    def nccl() -> None:
        haul.nccl = Heard(trouble="they had not come in time")
        head = [*scripts.SHELL, scripts.FILES, "sh"]
        haul.nccl = run(lambda mark: [*head, mark, str(MOST_LOG), "", *plan.nccl_logs], MOST_LOGS)

    def smi() -> None:
        haul.smi = Heard(trouble="nvidia-smi had not ended in time")
        haul.smi = run(lambda mark: [*scripts.SHELL, scripts.SMI, "sh", mark], MOST_SMI)

    def maps() -> None:
        heard = run(lambda mark: [*scripts.SHELL, scripts.MAPS, "sh", mark, *map(str, plan.pids)], MOST_LOGS)
        add_maps(heard.records, place)

    def ras() -> None:
        haul.ras = Heard(trouble="no reply had come in time")
        haul.ras = run(lambda _: plan.ras, MOST_REPLY, raw=True)

    wanted: list[tuple[object, Callable[[], object]]] = [
        (plan.prefixes, dumps),
        (plan.nccl_logs, nccl),
        (plan.pids, maps),
        (plan.smi, smi),
        (plan.ras, ras),
    ]
    return [task for want, task in wanted if want]


def _hostname(haul: Haul, pod: PodView) -> str:
    named = (
        one.data.decode("utf-8", "replace").strip() for one in haul.table.records if one.name.endswith("/hostname")
    )
    return next((name.split(".")[0] for name in named if name), pod.name)


# -- here --------------------------------------------------------------------------------------------------------------


def _seek(wish: ShellWish, machine: Machine, request: Wanted, *, now: float, **_: object) -> Sought:
    """As `look_for`, without asking this machine's GPUs. Raises Ambiguous."""
    found = _chosen(find(machine, request, now=now), wish)
    if len(found.targets) > 1:
        names = ", ".join(target.name for target in found.targets[:8])
        raise Ambiguous(f"{len(found.targets)} instances run in it: {names}. Name one with --instance NAME")
    return Sought(found.targets[0] if found.targets else None, found.notes)


@dataclass(frozen=True, slots=True)
class _Given:
    """A collector of what is here already."""

    name: str
    make: Callable[[Scene], Part]
    budget_seconds: float = 30.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        part = self.make(scene)
        for piece in part.pieces:
            if deadline.passed:
                return Outcome(Ending.PARTIAL, f"{part.outcome.note}; no time was left for all of it")
            sink.put(
                piece.path,
                piece.data,
                look_time=piece.at,
                rank=piece.rank,
                host=scene.machine.hostname,
                text=piece.text,
            )
        return part.outcome


def _tasks(haul: Haul, machine: Machine) -> tuple[Task, ...]:
    return tuple(Task(_Given(name, make)) for name, make in parts_of(haul, machine))


def _taken(pod: PodView, container: str | None, haul: Haul, saved: Saved) -> Taken:
    if saved.path is None:
        words = haul.table.trouble or "; ".join(saved.headline)
        return Taken(None, f"{where(pod)}: nothing could be saved ({words})")
    notes = [haul.table.trouble] if haul.table.trouble else []
    if container is None:
        notes.append("no container of it can be entered: its logs and its state are all that was taken")
    elif not saved.of_instance or saved.target is None:
        notes.append("no process of an instance was found in it")
    notes += haul.told.trouble if haul.told is not None else ("its logs had not come in time",)
    return Taken(saved.path, f"{where(pod)}: {'; '.join(notes)}" if notes else "")
