"""What came out of a container, as pieces of a bundle with an outcome for each plane. Pure but for the tree of
/proc."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rankmuster.adapters.kube.pod_told import Told
from rankmuster.adapters.kube.shell_proc import SECOND
from rankmuster.adapters.kube.shell_run import Heard
from rankmuster.collect.collector import Scene
from rankmuster.collect.flight.dump_file import looks_like_dump
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import proc_tasks
from rankmuster.collect.node.node_facts import FILE, MAX_TASKS, SCHEMA, task_head
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.ras.identity import is_report

_RANK = re.compile(r"(\d{1,7})$")
_GREETING = re.compile(rb"SERVER PROTOCOL [^\n]{0,64}\n|OK\r?\n")
_NCCL = b"NCCL"
_TOLD = 64 << 10
"""Bytes at the end of a file in which a log of NCCL's names it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`text`: secrets are scrubbed by rule. `at`: unix seconds of the look."""

    path: str
    data: bytes
    at: float | None = None
    rank: int | None = None
    text: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    pieces: tuple[Piece, ...]
    outcome: Outcome


@dataclass
class Haul:
    """Everything that came, before it becomes a bundle. None: it was not asked for."""

    table: Heard = field(default_factory=Heard)
    second_at: float = 0.0
    dumps: Heard | None = None
    nccl: Heard | None = None
    smi: Heard | None = None
    ras: Heard | None = None
    ras_declined: str = ""
    told: Told | None = None


def parts_of(haul: Haul, machine: Machine) -> tuple[tuple[str, Callable[[Scene], Part]], ...]:
    """By the names that collectors have in a manifest."""
    return (
        ("platform", lambda scene: _platform(haul, machine, scene)),
        ("flight", lambda _: _dumps(haul.dumps)),
        ("nccl-log", lambda _: _nccl_logs(haul.nccl)),
        ("framework-log", lambda _: _logs(haul.told)),
        ("ras", lambda scene: _ras(haul, scene)),
        ("topology", lambda _: _smi(haul.smi)),
    )


def _platform(haul: Haul, machine: Machine, scene: Scene) -> Part:
    """The processes at two looks, as `platform/node.json` has them, and the pod's state."""
    pieces = [Piece("platform/pod.json", haul.told.state, haul.table.at or None)] if haul.told is not None else []
    processes = scene.target.processes[:MAX_TASKS] if scene.target is not None else ()
    if not processes:
        why = haul.table.trouble or "no process of an instance was found"
        return Part(tuple(pieces), Outcome(_ending(haul.table, bool(pieces)), why))
    looks = [round(haul.table.at, 4), round(haul.second_at, 4)]
    folders = [machine.proc, machine.proc.with_name(SECOND)]
    second = any(one.name.startswith(f"{SECOND}/") for one in haul.table.records)
    if not second:
        looks, folders = looks[:1], folders[:1]
    tasks = []
    for process in processes:
        found = [proc_tasks.look(folder / str(process.pid)) for folder in folders]
        tasks.append(task_head(process) | {"looks": found})
    document: dict[str, Any] = {"schema": SCHEMA, "host": scene.machine.hostname, "looks": looks, "tasks": tasks}
    pieces.insert(0, Piece(FILE, json.dumps(document, indent=1).encode() + b"\n", looks[0]))
    note = f"{len(tasks)} process(es) of the instance, looked at {len(looks)} time(s) through a shell"
    if haul.table.trouble:
        return Part(tuple(pieces), Outcome(Ending.PARTIAL, f"{note}; {haul.table.trouble}"))
    return Part(tuple(pieces), Outcome(Ending.DONE, note))


def _dumps(heard: Heard | None) -> Part:
    if heard is None:
        return Part((), Outcome(Ending.NOTHING, "no rank is known that could have left a dump"))
    pieces, strange = [], 0
    for record in heard.records:
        path = record.name.removeprefix("file ")
        if path == record.name or not record.data:
            continue
        if not looks_like_dump(path, record.data):
            strange += 1
            continue
        rank = _RANK.search(path)
        pieces.append(Piece(f"flight/{path.rpartition('/')[2]}", record.data, None, int(rank[1]) if rank else None))
    warnings = (f"{strange} file(s) where dumps would be are none, and were left",) if strange else ()
    if not pieces:
        note = heard.trouble or "no dump lies where the ranks would put one; none was asked for through a shell"
        return Part((), Outcome(_ending(heard, False), note, warnings))
    note = f"{len(pieces)} dump(s) that lay there were taken; none was asked for through a shell"
    ending = Ending.PARTIAL if heard.trouble else Ending.DONE
    return Part(tuple(pieces), Outcome(ending, f"{note}; {heard.trouble}" if heard.trouble else note, warnings))


def _nccl_logs(heard: Heard | None) -> Part:
    if heard is None:
        return Part(
            (), Outcome(Ending.NOTHING, "NCCL_DEBUG_FILE is not set: what NCCL says is in the engine's own log")
        )
    pieces = [
        Piece(f"nccl/{one.name.rpartition('/')[2]}", one.data, heard.at or None, None, True)
        for one in heard.records
        if one.name.startswith("file ") and (_NCCL in one.data[:_TOLD] or _NCCL in one.data[-_TOLD:])
    ]
    note = f"{len(pieces)} log(s) of NCCL" + (f"; {heard.trouble}" if heard.trouble else "")
    return Part(tuple(pieces), Outcome(_ending(heard, bool(pieces)), note))


def _logs(told: Told | None) -> Part:
    if told is None:
        return Part((), Outcome(Ending.TIMED_OUT, "the containers' logs had not come in time"))
    pieces = tuple(Piece(path, data, None, None, True) for path, data in told.logs.items())
    note = f"{len(pieces)} of {told.tried} log(s) by the API server, their ends"
    if not told.trouble:
        return Part(pieces, Outcome(Ending.DONE if pieces else Ending.NOTHING, note))
    worst = Ending.PARTIAL if pieces else Ending.DENIED if told.denied else Ending.FAILED
    return Part(pieces, Outcome(worst, f"{note}; {'; '.join(told.trouble)}"))


def _ras(haul: Haul, scene: Scene) -> Part:
    heard = haul.ras
    if heard is None:
        return Part((), Outcome(Ending.DECLINED, haul.ras_declined or "not asked"))
    reply = heard.raw
    for _ in range(2):
        greeted = _GREETING.match(reply)
        reply = reply[greeted.end() :] if greeted else reply
    name = f"ras/{heard.at:.3f}-{scene.machine.hostname}"
    if reply and is_report(reply):
        piece = Piece(f"{name}.txt", reply, heard.at)
        ending = Ending.PARTIAL if heard.trouble else Ending.DONE
        return Part(
            (piece,),
            Outcome(ending, f"one report of {len(reply)} bytes" + (f"; {heard.trouble}" * bool(heard.trouble))),
        )
    why = heard.trouble or (f"what came is no report: {reply[:60].decode('latin-1')!a}" if reply else "no reply came")
    return Part((), Outcome(_ending(heard, False) if not reply else Ending.FAILED, f"RAS gave no report: {why}"))


def _smi(heard: Heard | None) -> Part:
    if heard is None:
        return Part((), Outcome(Ending.NOTHING, "there is no nvidia-smi in the container"))
    pieces = []
    for one in heard.records:
        if one.name.startswith("smi ") and one.data.strip():
            words = one.name.removeprefix("smi ").replace("-", "").replace(" ", "-").lower()
            pieces.append(Piece(f"topology/nvidia-smi-{words}.txt", one.data, heard.at or None, None, True))
        elif one.name == "proc/driver/nvidia/version" and one.data.strip():
            pieces.append(Piece("topology/driver-version.txt", one.data, heard.at or None, None, True))
    note = f"{len(pieces)} output(s) of nvidia-smi" + (f"; {heard.trouble}" if heard.trouble else "")
    return Part(tuple(pieces), Outcome(_ending(heard, bool(pieces)), note))


def _ending(heard: Heard, some: bool) -> Ending:
    if not heard.trouble:
        return Ending.DONE if some else Ending.NOTHING
    if some:
        return Ending.PARTIAL
    return Ending.DENIED if heard.refused else Ending.FAILED
