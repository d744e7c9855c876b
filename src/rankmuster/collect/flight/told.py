"""How the taking of dumps ended, in words: whose are there, whose are missing, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from rankmuster.collect.flight.decide import Decision
from rankmuster.collect.flight.recorders import Recorder
from rankmuster.collect.flight.shelf import Taken
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.model.ranks_text import ranks_text

MAX_NAMED = 8
"""Files that are named one by one."""


def outcome(
    recorders: tuple[Recorder, ...],
    taken: tuple[Taken, ...],
    decision: Decision,
    missing: Mapping[Recorder, str],
    stale: Mapping[str, float],
    troubles: Mapping[str, str],
    *,
    asked: bool,
    denied: bool,
) -> Outcome:
    """`missing`: why there is no dump of this moment of a process, for those that have none.

    `asked`: some rank was asked for one. `denied`: a file or pipe could not be used for lack of permission.
    """
    whole = {item.rank for item in taken if item.own and not item.cut}
    own = [item for item in taken if item.own]
    others = {item.rank for item in taken if not item.own and item.rank is not None}
    parts = []
    if own:
        known = [item.rank for item in own if item.rank is not None]
        whose = f"{ranks_text(known)} of this node's {len(recorders)}" if known else "processes without a known rank"
        parts.append(f"{len(own)} dump(s) of {whose} taken")
    if others:
        parts.append(f"dumps of {ranks_text(others)}, which do not live here, lay beside them")
    if not taken:
        parts.append("no dump of this run was found")
    if not decision.ask:
        parts.append(decision.note)
    parts.extend(_grouped(missing))
    if denied:
        parts.append(
            "files or pipes were refused: run as the instance's user or as root, in a container with CAP_SYS_PTRACE "
            "too (the instance's folders are reached through its processes)"
        )
    if not decision.ask and not own:
        ending = Ending.DECLINED
    elif not own and not others:
        ending = Ending.DENIED if denied else Ending.FAILED if asked else Ending.NOTHING
    elif missing or any(recorder.rank not in whole for recorder in recorders):
        ending = Ending.PARTIAL
    else:
        ending = Ending.DONE
    return Outcome(ending, "; ".join(parts), left_alone(stale, troubles))


def left_alone(stale: Mapping[str, float], troubles: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings of files that were not taken, or not as they should be."""
    return (*_stale(stale), *_troubles(troubles))


def _grouped(missing: Mapping[Recorder, str]) -> list[str]:
    """One clause for each reason, with all whom it holds for."""
    by_reason: dict[str, list[Recorder]] = {}
    for recorder, reason in missing.items():
        # The pipe's own name differs from rank to rank, the reason does not.
        own_name = recorder.pipe
        key = reason.replace(own_name, "its pipe") if own_name else reason
        by_reason.setdefault(key, []).append(recorder)
    clauses = []
    for reason, recorders in by_reason.items():
        if all(recorder.rank is not None for recorder in recorders):
            who = ranks_text(recorder.rank for recorder in recorders if recorder.rank is not None)
        else:
            who = ", ".join(recorder.who for recorder in recorders)
        clauses.append(f"{who}: {reason}")
    return clauses


def _stale(stale: Mapping[str, float]) -> list[str]:
    if not stale:
        return []
    newest = datetime.fromtimestamp(max(stale.values()), tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return [
        f"{len(stale)} dump file(s) of an earlier run were left where they are, since they would be taken for this "
        f"run's: {_named(stale)} (the newest of {newest})"
    ]


def _troubles(troubles: Mapping[str, str]) -> list[str]:
    said = [f"{path}: {reason}" for path, reason in list(troubles.items())[:MAX_NAMED]]
    if len(troubles) > MAX_NAMED:
        said.append(f"{len(troubles) - MAX_NAMED} more files could not be used")
    return said


def _named(paths: Mapping[str, float]) -> str:
    listed = sorted(paths)
    rest = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + rest
