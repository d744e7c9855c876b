"""Flight Recorder dumps as torch makes them: programs are played through, and what each recorder holds is kept.

The players follow ProcessGroupNCCL's rules: the host enqueues at most `ahead` calls before its GPU; a GPU runs its
calls in order; a symmetric collective ends when all members have started it; children of a coalesced group never move;
sends outside a batch carry the number of the last collective. Gloo runs without events: only `retired` tells.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rankmuster.diagnose.run import Diagnosis, diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import Role

START = 1_795_980_000.0
"""Unix seconds of the first call."""

STEP = 0.01
"""Seconds a host takes from one enqueue to the next, and a kernel to run, unless the world says otherwise."""

FOREVER = float("inf")


@dataclass(frozen=True)
class Group:
    """`name` may differ between ranks (`names`); `pg_id` is local to a process and given in order of creation."""

    key: str
    members: tuple[int, ...]
    desc: str = "undefined"
    name: str | None = None
    names: Mapping[int, str] = field(default_factory=dict)

    def name_on(self, rank: int) -> str:
        return self.names.get(rank, self.name if self.name is not None else self.key)


@dataclass(frozen=True)
class Call:
    """One call. `peer`: global rank of a send or receive. `parts`: a batch, or the children of a coalesced group."""

    group: str
    op: str = "all_reduce"
    ins: tuple[tuple[int, ...], ...] = ((16, 4096),)
    outs: tuple[tuple[int, ...], ...] | None = None
    dtype: str = "Float"
    peer: int | None = None
    parts: tuple[Call, ...] = ()

    @property
    def is_p2p(self) -> bool:
        return self.peer is not None or any(part.is_p2p for part in self.parts)


def send(group: str, peer: int, size: int = 4096) -> Call:
    return Call(group, "send", ((size,),), peer=peer)


def recv(group: str, peer: int, size: int = 4096) -> Call:
    return Call(group, "recv", ((size,),), peer=peer)


def batch(group: str, *parts: Call) -> Call:
    return Call(group, "coalesced", (), parts=parts)


@dataclass(frozen=True)
class World:
    """What the job is and does, and what goes wrong.

    `stops`: rank -> index of the call that its host never makes. `stalls`: rank -> index of the call that its GPU never
    starts. `breaks`: rank -> index of the call that it starts, its peers finish, and it does not. `absent`: no dump.
    `look`: seconds after START at which dumps are taken, None long after everything stands still. `looks`: per rank.
    `step`: seconds of a kernel. `host`: from one enqueue to the next, None as long as a kernel.
    """

    groups: tuple[Group, ...]
    programs: Mapping[int, Sequence[Call]]
    stops: Mapping[int, int] = field(default_factory=dict)
    stalls: Mapping[int, int] = field(default_factory=dict)
    breaks: Mapping[int, int] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()
    ahead: int | Mapping[int, int] = 8
    backend: str = "nccl"
    timing: bool = False
    ring: int = 2000
    only_active: bool = False
    version: str = "2.10"
    look: float | None = None
    looks: Mapping[int, float] = field(default_factory=dict)
    sweep: float = 0.1
    step: float = STEP
    host: float | None = None
    status: bool = True
    timeout: bool = True
    seq_base: int = 0

    def group(self, key: str) -> Group:
        return next(group for group in self.groups if group.key == key)


@dataclass
class _Played:
    """Times of one call of one rank; infinite: never."""

    enqueued: float = FOREVER
    started: float = FOREVER
    finished: float = FOREVER


def play(world: World) -> dict[int, list[_Played]]:
    """Runs all programs until nobody can go on."""
    played = {rank: [_Played() for _ in program] for rank, program in world.programs.items()}
    meetings = {rank: _meetings(world, rank) for rank in world.programs}
    places: dict[Any, list[tuple[int, int]]] = {}
    for rank, own in meetings.items():
        for index, keys in enumerate(own):
            for key in keys:
                places.setdefault(key, []).append((rank, index))
    at = dict.fromkeys(world.programs, 0)
    moved = True
    while moved:
        moved = False
        for rank, program in world.programs.items():
            ahead = world.ahead if isinstance(world.ahead, int) else world.ahead.get(rank, 8)
            own = played[rank]
            while at[rank] < len(program) or any(p.enqueued == FOREVER for p in own):
                progressed = _enqueue(world, rank, own, ahead, at[rank])
                index = at[rank]
                if index < len(program) and _advance(world, rank, index, played, meetings, places):
                    at[rank] += 1
                    progressed = True
                if not progressed:
                    break
                moved = True
    return played


def _enqueue(world: World, rank: int, own: list[_Played], ahead: int, done: int) -> bool:
    limit = min(len(own), done + ahead, world.stops.get(rank, len(own)))
    pace = world.step if world.host is None else world.host
    progressed = False
    for index in range(done, limit):
        if own[index].enqueued < FOREVER:
            continue
        before = own[index - 1].enqueued if index else START - pace
        freed = own[index - ahead].finished if index >= ahead else START
        own[index].enqueued = max(before + pace, freed)
        progressed = True
    return progressed


def _advance(world: World, rank: int, index: int, played: Any, meetings: Any, places: Any) -> bool:
    own = played[rank][index]
    if own.enqueued == FOREVER or world.stalls.get(rank) == index:
        return False
    if own.started == FOREVER:
        own.started = max(own.enqueued, played[rank][index - 1].finished if index else START)
    latest = own.started
    for key in meetings[rank][index]:
        need = 2 if key[0] == "p2p" else len(world.group(key[1]).members)
        there = places[key]
        if len(there) < need:
            return False
        for other, place in there:
            if played[other][place].started == FOREVER:
                return False
            latest = max(latest, played[other][place].started)
    if world.breaks.get(rank) == index:
        return False
    own.finished = latest + world.step
    return True


def _meetings(world: World, rank: int) -> list[list[tuple[Any, ...]]]:
    """What each call meets its peers at: a number of its group, or the n-th message from one to another."""
    numbers: dict[str, int] = {}
    messages: dict[tuple[str, int, int], int] = {}
    found = []
    for call in world.programs[rank]:
        keys: list[tuple[Any, ...]] = []
        if call.is_p2p:
            for part in call.parts or (call,):
                assert part.peer is not None
                ends = (rank, part.peer) if part.op == "send" else (part.peer, rank)
                place = (call.group, *ends)
                messages[place] = messages.get(place, 0) + 1
                keys.append(("p2p", call.group, *ends, messages[place]))
        else:
            numbers[call.group] = numbers.get(call.group, 0) + 1
            keys.append(("all", call.group, numbers[call.group]))
        found.append(keys)
    return found


def dumps(world: World) -> dict[int, dict[str, Any]]:
    """rank -> its dump's top level, as `pickle.load` would give it."""
    played = play(world)
    last = max(
        (
            time
            for own in played.values()
            for p in own
            for time in (p.enqueued, p.started, p.finished)
            if time < FOREVER
        ),
        default=START,
    )
    end = START + world.look if world.look is not None else last + 600.0
    return {
        rank: _dump(world, rank, played[rank], START + world.looks[rank] if rank in world.looks else end)
        for rank in world.programs
        if rank not in world.absent
    }


def _dump(world: World, rank: int, own: list[_Played], look: float) -> dict[str, Any]:
    recorder = _Recorder(world, rank, look)
    for call, times in zip(world.programs[rank], own, strict=True):
        if times.enqueued <= look:
            recorder.record(call, times)
    return recorder.top()


class _Recorder:
    def __init__(self, world: World, rank: int, look: float) -> None:
        self.world, self.rank, self.look = world, rank, look
        self.mine = [group for group in world.groups if rank in group.members]
        self.pg_ids = {group.key: index for index, group in enumerate(self.mine)}
        self.seq = dict.fromkeys(self.pg_ids, world.seq_base)
        self.p2p = dict.fromkeys(self.pg_ids, 0)
        self.ops = dict.fromkeys(self.pg_ids, 0)
        self.status = {
            key: {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1}
            for key in self.pg_ids
        }
        self.entries: list[dict[str, Any]] = []

    def record(self, call: Call, times: _Played) -> None:
        events = self.world.backend not in ("gloo", "nccl2")
        if call.is_p2p:
            self.p2p[call.group] += 1
        else:
            self.seq[call.group] += 1
        for part in call.parts:
            self._entry(part, replace_times(times), moves=False, p2p=part.is_p2p)
        self._entry(call, times, moves=events, p2p=call.is_p2p and not call.parts)
        number = self.p2p[call.group] if call.is_p2p else self.seq[call.group]
        status = self.status[call.group]
        status["last_enqueued_collective"] = number
        if times.started <= self.look and events and self.world.timing:
            status["last_started_collective"] = number
        if times.finished + self.world.sweep <= self.look:
            status["last_completed_collective"] = number

    def _entry(self, call: Call, times: _Played, *, moves: bool, p2p: bool) -> None:
        world, look = self.world, self.look
        group = world.group(call.group)
        self.ops[call.group] += 1
        name = call.op
        if p2p:
            here, there = group.members.index(self.rank), group.members.index(call.peer or 0)
            name = f"send {here}->{there}" if call.op == "send" else f"recv {here}<-{there}"
        done = times.finished <= look
        started = times.started <= look and world.timing
        state = "completed" if done and moves else "started" if started and moves else "scheduled"
        outs = call.outs if call.outs is not None else call.ins
        entry: dict[str, Any] = {
            "frames": [],
            "record_id": len(self.entries),
            "pg_id": self.pg_ids[call.group],
            "process_group": (group.name_on(self.rank), group.desc),
            "collective_seq_id": self.seq[call.group],
            "p2p_seq_id": self.p2p[call.group],
            "op_id": self.ops[call.group],
            "profiling_name": f"{world.backend}:{name}",
            "time_created_ns": int(times.enqueued * 1e9),
            "input_sizes": [list(shape) for shape in call.ins],
            "input_dtypes": [call.dtype] * len(call.ins),
            "output_sizes": [list(shape) for shape in outs],
            "output_dtypes": [call.dtype] * len(outs),
            "state": state,
            "time_discovered_started_ns": int(times.started * 1e9) if state != "scheduled" and world.timing else None,
            "time_discovered_completed_ns": int(times.finished * 1e9) if state == "completed" else None,
            "retired": times.finished + world.sweep <= look and (moves or world.backend in ("gloo", "nccl2")),
            "timeout_ms": 600_000,
            "is_p2p": p2p,
        }
        if state == "completed" and world.timing:
            entry["duration_ms"] = (times.finished - times.started) * 1e3
        if not world.timeout:
            del entry["timeout_ms"]
        self.entries.append(entry)

    def top(self) -> dict[str, Any]:
        world = self.world
        kept = self.entries[-world.ring :]
        if world.only_active:
            kept = [entry for entry in kept if entry["state"] != "completed"]
        config: dict[str, Any] = {
            group.name_on(self.rank): {
                "name": group.name_on(self.rank),
                "desc": group.desc,
                "ranks": str(list(group.members)),
            }
            for group in self.mine
        }
        if world.backend == "gloo":
            config = {"": {"name": "", "desc": "", "ranks": "[]"}}
        top: dict[str, Any] = {"version": world.version, "pg_config": config}
        if world.status:
            top["comm_lib_version"] = "" if world.backend == "gloo" else "2.28.9"
            top["pg_status"] = {str(self.pg_ids[key]): dict(status) for key, status in self.status.items()}
        top["entries"] = kept
        return top


def replace_times(times: _Played) -> _Played:
    """A child's own times: it is enqueued, and no more is ever known of it."""
    return _Played(times.enqueued)


def as_pickle(top: Mapping[str, Any]) -> bytes:
    return pickle.dumps(dict(top), protocol=2)


def as_json(top: Mapping[str, Any]) -> bytes:
    """torch's JSON variant: no frames, texts in `pg_status`, 0 for unknown times, keys sorted, no empty `entries`."""
    entries = [
        {
            key: 0 if value is None and key.startswith("time_") else value
            for key, value in entry.items()
            if key != "frames"
        }
        for entry in top["entries"]
    ]
    shown = {**top, "entries": entries, "nccl_comm_state": {}}
    if not entries:
        del shown["entries"]
    if "pg_status" in top:
        shown["pg_status"] = {
            key: {name: str(number) for name, number in row.items()} for key, row in top["pg_status"].items()
        }
    return json.dumps(shown, sort_keys=True).encode()


def blobs(tops: Mapping[int, Mapping[str, Any]], json_ranks: Iterable[int] = ()) -> list[Blob]:
    chosen = set(json_ranks)
    return [
        Blob(f"flight/nccl_trace_rank_{rank}", as_json(top) if rank in chosen else as_pickle(top))
        for rank, top in tops.items()
    ]


def judge(source: World | Mapping[int, Mapping[str, Any]], *more: Blob) -> Diagnosis:
    """The diagnosis of a world's dumps, or of dumps that the test has changed."""
    tops = dumps(source) if isinstance(source, World) else source
    return diagnose(gather([*blobs(tops), *more]))


def culprits(diagnosis: Diagnosis) -> list[int]:
    return sorted(s.rank for s in diagnosis.verdict.suspects if s.role is Role.CULPRIT and s.rank is not None)


def suspects(diagnosis: Diagnosis) -> list[int]:
    return sorted(s.rank for s in diagnosis.verdict.suspects if s.role is Role.SUSPECT and s.rank is not None)


def manifest(looks: Mapping[str, float]) -> Blob:
    """A manifest that says when each file was taken."""
    files = [{"path": path, "look_time": time} for path, time in looks.items()]
    return Blob("manifest.json", json.dumps({"schema": "rankmuster.bundle/1", "files": files}).encode())


def one_group(ranks: int, rounds: int = 40, calls: Sequence[Call] | None = None, **fields: Any) -> World:
    """`ranks` ranks that all make the same calls in one group."""
    group = Group("0", tuple(range(ranks)), "default_pg")
    program = list(calls) if calls is not None else [Call("0")] * rounds
    return World((group,), {rank: list(program) for rank in range(ranks)}, **fields)


def parallel(tp: int, pp: int, dp: int, steps: int = 3, layers: int = 4, **fields: Any) -> World:
    """TP x PP x DP as Megatron lays ranks out: tensor fastest, then data, then pipeline; stages send forward and back.

    A step: receive from the stage before, `layers` all-reduces in TP, send on; then back; then one in DP, one in all.
    """
    size = tp * pp * dp
    groups = [Group("0", tuple(range(size)), "default_pg")]
    where: dict[int, dict[str, str]] = {rank: {"all": "0"} for rank in range(size)}

    def add(kind: str, desc: str, members: tuple[int, ...]) -> None:
        key = str(len(groups))
        groups.append(Group(key, members, desc))
        for rank in members:
            where[rank][kind] = key

    for stage in range(pp):
        for row in range(dp):
            base = (stage * dp + row) * tp
            add("tp", "TENSOR_MODEL_PARALLEL_GROUP", tuple(range(base, base + tp)))
        for column in range(tp):
            base = stage * dp * tp + column
            add("dp", "DATA_PARALLEL_GROUP", tuple(base + row * tp for row in range(dp)))
    for column in range(dp * tp):
        add("pp", "PIPELINE_MODEL_PARALLEL_GROUP", tuple(column + stage * dp * tp for stage in range(pp)))
    programs = {}
    for rank in range(size):
        stage, own, stride = rank // (dp * tp), where[rank], dp * tp
        step: list[Call] = []
        if stage > 0:
            step.append(recv(own["pp"], rank - stride))
        step += [Call(own["tp"], "all_reduce", ((1, 5120),), dtype="BFloat16")] * (layers + stage)
        if stage < pp - 1:
            step += [send(own["pp"], rank + stride), recv(own["pp"], rank + stride)]
        step += [Call(own["tp"], "_all_gather_base", ((512,),), ((512 * tp,),))] * layers
        if stage > 0:
            step.append(send(own["pp"], rank - stride))
        step.append(Call(own["dp"], "_reduce_scatter_base", ((4096 * dp,),), ((4096,),)))
        step.append(Call("0", "all_reduce", ((1,),)))
        programs[rank] = step * steps
    return World(tuple(groups), programs, **fields)


def without(world: World, rank: int, index: int) -> World:
    """The same world, in which one rank's program lacks one call."""
    program = list(world.programs[rank])
    del program[index]
    return replace(world, programs={**world.programs, rank: program})


def instead(world: World, rank: int, index: int, call: Call) -> World:
    """The same world, in which one rank makes another call."""
    program = list(world.programs[rank])
    program[index] = call
    return replace(world, programs={**world.programs, rank: program})
