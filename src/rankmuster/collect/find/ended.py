"""An instance, or a part of one, that has ended, as its supervisor's record tells of it. Pure.

How a process ended is passed on only where nobody else did it: what the supervisor itself ended, ended for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rankmuster.collect.find import titles
from rankmuster.collect.find.naming import clean
from rankmuster.collect.find.run_file import Kept
from rankmuster.collect.find.seen import DEPLOYMENT
from rankmuster.collect.target import Ended, LeftOutput, ProcessOfInstance, Role, Target
from rankmuster.model.run_record import Life, Member, Record

SCHEMA = "rankmuster.supervisor/1"
GONE = "X"

_ODD = re.compile(r"[^\w:.\-/ @+]")


def ended_target(kept: Kept, host: str) -> Target | None:
    """The instance, of which nothing lives any more; None where the record tells of no incarnation."""
    ended = ended_part(kept, ())
    if ended is None or kept.record.incarnation is None:
        return None
    environment = kept.record.life.environment if kept.record.life is not None else {}
    worlds = [one.world for one in _members(kept.record) if one.world is not None]
    return Target(
        name=clean(kept.record.instance),
        host=host,
        processes=(),
        deployment=environment.get(DEPLOYMENT),
        incarnation=clean(kept.record.incarnation),
        engine=titles.TORCH if worlds else None,
        world_size=max(worlds, default=None),
        found_by=("supervisor",),
        ended=ended,
    )


def ended_part(kept: Kept, living: Collection[int]) -> Ended | None:
    """What the record tells of those that have ended. `living`: pids that were found alive."""
    record, life = kept.record, kept.record.life
    if record.incarnation is None or record.at is None or life is None:
        return None
    gone = [one for one in _members(record) if one.pid not in living]
    gone.sort(key=lambda one: (one.rank is None, one.rank or 0, -one.ticks))
    outputs = tuple(_outputs(life, gone, kept.uid))
    story = "" if living else _story(record, life)
    return Ended(
        processes=tuple(_process(one, record, life, kept.uid) for one in gone),
        began=record.at,
        supervisor=record.supervisor.pid,
        outputs=outputs,
        said=_said(record, life, gone),
        silent=not outputs,
        story=story,
    )


def with_ranks(processes: tuple[ProcessOfInstance, ...], record: Record) -> tuple[ProcessOfInstance, ...]:
    """Those that are dead and not collected have lost their variables, and so their rank: the record still has it."""
    known = {(one.pid, one.ticks): one for one in _members(record) if one.rank is not None}
    found = []
    for process in processes:
        member = known.get((process.pid, process.start_ticks))
        if process.state == "Z" and process.rank is None and member is not None:
            process = replace(process, rank=member.rank, local_rank=member.local_rank, role=Role.WORKER)
        found.append(process)
    return tuple(found)


def _members(record: Record) -> tuple[Member, ...]:
    return record.life.members if record.life is not None else ()


def _is_launcher(one: Member, record: Record) -> bool:
    return record.launcher is not None and (one.pid, one.ticks) == (record.launcher.pid, record.launcher.ticks)


def _own_end(one: Member) -> tuple[int | None, float | None]:
    """Exit code and time, where the supervisor had no hand in it."""
    if one.exit_code is None or one.signalled is not None:
        return None, None
    return one.exit_code, one.exited


def _process(one: Member, record: Record, life: Life, owner: int) -> ProcessOfInstance:
    code, at = _own_end(one)
    place = {"RANK": one.rank, "LOCAL_RANK": one.local_rank, "WORLD_SIZE": one.world}
    environ = {name: value for name, value in life.environment.items() if name not in place}
    environ |= {name: str(value) for name, value in place.items() if value is not None}
    others = Role.LAUNCHER if _is_launcher(one, record) else Role.HELPER
    return ProcessOfInstance(
        pid=one.pid,
        inner_pid=one.pid,
        host_pid=None,
        start_ticks=one.ticks,
        started_at=one.started,
        role=Role.WORKER if one.rank is not None else others,
        name=_ODD.sub("?", one.name)[:64],
        rank=one.rank,
        local_rank=one.local_rank,
        uid=one.uid if owner == 0 else owner,
        cwd=Path(life.cwd if life.cwd.startswith("/") else "/"),
        environ=environ,
        state=GONE,
        exit_status=code,
        exited_at=at,
    )


def _outputs(life: Life, gone: list[Member], owner: int) -> list[LeftOutput]:
    """The command's log first. Of a file that a rank and its children write to, the rank's word counts."""
    found: dict[str, LeftOutput] = {}
    if life.log is not None:
        found[life.log] = LeftOutput(life.log, None, life.offset, life.log_inode, owner)
    for one in gone:
        for path in one.outputs:
            if os.path.isabs(path):
                found.setdefault(path, LeftOutput(path, one.rank, uid=one.uid if owner == 0 else owner))
    writers = {path: {one.rank for one in gone if path in one.outputs and one.rank is not None} for path in found}
    return [replace(one, rank=None) if len(writers[path]) > 1 else one for path, one in found.items()]


def _story(record: Record, life: Life) -> str:
    launcher = next((one for one in life.members if _is_launcher(one, record)), None)
    if not record.ended:
        return "its supervisor was killed, and none of its processes lives any more"
    when = f" at {_utc(life.ended)}" if life.ended is not None else ""
    if life.ended_by:
        return f"it was ended by {life.ended_by}{when}"
    code = launcher.exit_code if launcher is not None else None
    how = "" if code is None else f", by signal {-code}" if code < 0 else f", with exit status {code}"
    return f"its command ended by itself{how}{when}"


def _utc(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return "an unknown time"


def _said(record: Record, life: Life, gone: list[Member]) -> dict[str, object]:
    launcher = next((one for one in life.members if _is_launcher(one, record)), None)
    return {
        "schema": SCHEMA,
        "instance": record.instance,
        "incarnation": record.incarnation,
        "started_at": record.at,
        "ended_at": life.ended,
        "ended": record.ended,
        "ended_by_itself": record.ended and record.ended_by_itself,
        "ended_by": life.ended_by,
        "launcher": None if launcher is None else _member(launcher),
        "log": life.log,
        "log_offset": life.offset,
        "profile": life.profile,
        "evidence": life.evidence,
        "members": [_member(one) for one in gone],
        "left_out": life.left_out,
    }


def _member(one: Member) -> dict[str, object]:
    return {
        "pid": one.pid,
        "rank": one.rank,
        "local_rank": one.local_rank,
        "name": _ODD.sub("?", one.name)[:64],
        "started_at": one.started,
        "last_alive": one.alive,
        "gone_since": one.gone,
        "exit_code": one.exit_code,
        "exited_at": one.exited,
        "signalled": one.signalled,
        "outputs": list(one.outputs),
    }
