"""RAS: processes that do not answer.

"Did not answer" is not "dead": a stopped process, a cut path and a finished one look the same to a single asker. What
separates them: a second asker on the other side (`two_sides`), an exit code, a dump or a log line written later. Blind
to processes that share no communicator with the one that answers, and to everything before init.
"""

from __future__ import annotations

from collections import Counter

from rankmuster.diagnose import departed, engine_state, life
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import two_sides
from rankmuster.diagnose.engine_state import Moves
from rankmuster.diagnose.finding import Finding, accuse, counted, verb
from rankmuster.diagnose.ras_view import Absence, absences
from rankmuster.diagnose.spin import Doing, picture
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "ras-missing"

NOT_ENDED = "does not answer RAS, and is not known to have ended: frozen, stopped or cut off"


def detect(context: Context) -> list[Finding]:
    """At most one accusation: a lost path, silent ranks, or a silent host."""
    looks = absences(context)
    with_missing = [look for look in looks if look.unresponsive]
    if not with_missing:
        return _unanswered(context) if not looks else []
    parted = two_sides.detect(context, with_missing)
    if parted is not None:
        return [parted]
    with_missing = [look for look in with_missing if not _recovered(look, looks)]
    if not with_missing:
        return []
    first = _first_stable(context, with_missing)
    if first is None:
        missing = tuple(sorted(with_missing[-1].unresponsive))
        statement = f"RAS missed {ranks_text(missing)} in a single poll; one poll decides nothing"
        return [
            Finding(NAME, Plane.RAS, statement, (with_missing[-1].source,), would_decide="a second RAS poll 10 s later")
        ]
    return [_silent(context, first, with_missing, looks)]


def _later(look: Absence, looks: list[Absence]) -> list[Absence]:
    return looks[looks.index(look) + 1 :]


def _recovered(look: Absence, looks: list[Absence]) -> bool:
    """Whether all whom this look missed later answered beside ranks that had answered it."""
    back = {rank for later in _later(look, looks) if later.answered & look.answered for rank in later.answered}
    return look.unresponsive <= back


def _unanswered_after(context: Context, look: Absence) -> bool:
    """Whether every poll after this look was accepted and not answered: two looks at the same silence."""
    times = [(context.time(poll.time), poll.answered) for poll in context.polls]
    if look.time is None or any(time is None for time, _ in times):
        return False
    after = [answered for time, answered in times if time is not None and time > look.time]
    return bool(after) and not any(after)


def _first_stable(context: Context, looks: list[Absence]) -> Absence | None:
    """The first poll whose missing ranks are still missing in a later one; a time-out in the reply counts as a look.

    So does RAS's own word that it gave a process up: it looked for a minute (NCCL src/ras, keep-alive time-outs).
    """
    for index, look in enumerate(looks):
        if (look.timeouts and look.unresponsive) or look.unresponsive & look.dead:
            return look
        for later in looks[index + 1 :]:
            apart = look.time is None or later.time is None or later.time - look.time >= context.limits.ras_gap_seconds
            if apart and look.unresponsive <= later.unresponsive:
                return look
    return looks[-1] if _unanswered_after(context, looks[-1]) else None


def _answered_in_the_stall(context: Context, first: Absence, looks: list[Absence]) -> frozenset[int]:
    """Ranks that answered when work had already stopped for a while, and were missed only afterwards."""
    begins = [
        time - line.ran_ms / 1000
        for line in context.timeouts
        if line.ran_ms is not None and (time := context.time(line.origin.stamp)) is not None
    ]
    engine = engine_state.assess(context)
    if engine is not None and engine.moves is Moves.STALLED and engine.last_advance is not None:
        begins.append(engine.last_advance)
    if not begins or first.time is None:
        return frozenset()
    since = min(begins) + context.limits.tail_seconds
    answered = [look.answered for look in looks if look.time is not None and since < look.time < first.time]
    return frozenset().union(*answered) & first.unresponsive


def _silent(context: Context, first: Absence, looks: list[Absence], everything: list[Absence]) -> Finding:
    missing = tuple(sorted(first.unresponsive))
    lives = {rank: life.of_rank(context, rank) for rank in missing}
    heard = {rank for later in _later(first, everything) for rank in later.answered}
    alive_after = tuple(
        rank
        for rank in missing
        if lives[rank].spoke_of_trouble
        or rank in heard
        or (first.time is not None and (lives[rank].last_word or 0.0) > first.time + context.limits.aftershock_seconds)
    )
    after_shock = _answered_in_the_stall(context, first, everything)
    first_gone = departed.first_gone(context)
    ended = first_gone.rank if first_gone is not None else None
    left = departed.departed(context).keys() - {ended}
    gone = tuple(rank for rank in missing if context.job.rank(rank).exit_code is not None or rank in left)
    silent = tuple(rank for rank in missing if rank not in alive_after and rank not in gone and rank not in after_shock)
    errors = Counter(poll.error for poll in context.polls if not poll.answered)
    polls = sum(set(missing) <= look.unresponsive for look in looks)
    asked = counted(len(everything), "poll")
    statement = f"RAS got no answer from {ranks_text(missing)} in {polls} of {asked}, first in {first.source}"
    dead = _given_up(context)
    if dead:
        statement += f"; RAS gave up {dead}"
    if errors:
        more = sum(errors.values())
        statement += f"; {counted(more, 'more connection')} {'was' if more == 1 else 'were'} accepted and not answered"
    if after_shock and not silent and not gone:
        ranks = ranks_text(tuple(after_shock))
        them = verb(after_shock, "it", "them")
        statement += f"; {ranks} still answered while the others waited: what silenced {them} since is an after-shock"
        return Finding(NAME, Plane.RAS, statement, (first.source,))
    if gone:
        return Finding(NAME, Plane.RAS, f"{statement}; {ranks_text(gone)} had ended", (first.source,))
    hosts = {context.job.rank(rank).host for rank in missing}
    elsewhere = {context.job.rank(rank).host for rank in context.world if rank not in missing}
    whole_hosts = bool(hosts) and None not in hosts and not hosts & elsewhere and bool(elsewhere - {None})
    evidence = tuple(look.source for look in looks[:3])
    if whole_hosts and not _watched(context, silent, missing, first):
        return _host_silent(context, statement, missing, alive_after, evidence, first)
    if not silent:
        statement += (
            f"; yet {ranks_text(alive_after)} answered or wrote log lines afterwards: the process lives, its RAS "
            "thread or path does not"
        )
        return Finding(NAME, Plane.RAS, statement, evidence)
    peers = [rank for rank in context.world if rank not in missing]
    few = len(silent) < len(peers) or (len(silent) == len(peers) == 1)
    dumped = any(rank in context.dump_facts for rank in peers) and not any(
        rank in context.dump_facts for rank in silent
    )
    if dumped:
        others = ranks_text([rank for rank in peers if rank in context.dump_facts])
        statement += f"; {verb(silent, 'it', 'they')} left no dump either, while {others} did"
    return Finding(
        NAME,
        Plane.RAS,
        statement,
        evidence,
        accuse(
            Subkind.UNRESPONSIVE,
            Confidence.CONFIRMED if dumped and few else Confidence.LIKELY,
            culprits=silent if few else (),
            suspects=() if few else silent,
            victims=tuple(peers) if few else (),
            why={rank: "does not answer RAS, and has ended" if rank == ended else NOT_ENDED for rank in silent},
            scope=Scope.RANK,
            at=first.time,
            decisive=False,
        ),
        would_decide="the state of the process (stopped? in D state?) and its stack",
    )


def _watched(context: Context, silent: tuple[int, ...], missing: tuple[int, ...], first: Absence) -> bool:
    """Whether somebody else saw all of them on their hosts afterwards, on GPUs that wait for nobody: neither the hosts
    are lost, nor the path to them. A pod that holds one rank is a host to NCCL."""
    if first.time is None or silent != missing:
        return False
    seen = picture(context).states
    return all(
        rank in seen
        and seen[rank].doing is Doing.IDLE
        and (seen[rank].until or 0.0) > first.time
        and any(context.tracks[rank].pids)
        for rank in missing
    )


def _given_up(context: Context) -> str:
    """`process 71 on 10.0.0.7 (GPU 5)`: whom RAS itself considers dead."""
    found = {
        f"process {process.pid} on {process.host} (GPU {', '.join(str(gpu) for gpu in process.gpus) or '?'})": None
        for poll in context.polls
        for process in poll.dead_processes
    }
    return ", ".join(list(found)[:4])


def _host_silent(
    context: Context,
    statement: str,
    missing: tuple[int, ...],
    alive_after: tuple[int, ...],
    evidence: tuple[str, ...],
    first: Absence,
) -> Finding:
    hosts = tuple(sorted({host for rank in missing if (host := context.job.rank(rank).host)}))
    names = ", ".join(hosts)
    if alive_after:
        everybody = tuple(sorted({host for rank in context.world if (host := context.job.rank(rank).host)}))
        statement += (
            f": all ranks of {names}; {ranks_text(alive_after)} answered or wrote log lines afterwards, so the path "
            "is lost, not the host"
        )
        accusation = accuse(
            Subkind.PATH_LOST,
            Confidence.LIKELY,
            victims=context.world,
            hosts=everybody,
            links=(" - ".join(everybody),),
            scope=Scope.GROUP,
            at=first.time,
        )
    else:
        statement += f": all ranks of {names}, and nothing was heard from there since"
        accusation = accuse(
            Subkind.HOST_LOST,
            Confidence.POSSIBLE,
            suspects=missing,
            hosts=hosts,
            why=dict.fromkeys(missing, f"stopped answering together with every rank of {names}"),
            scope=Scope.NODE,
            at=first.time,
        )
    return Finding(
        NAME, Plane.RAS, statement, evidence, accusation, would_decide=f"RAS asked on {names}, or the state of the node"
    )


def _unanswered(context: Context) -> list[Finding]:
    failed = [poll for poll in context.polls if not poll.answered]
    if not failed:
        return []
    reasons = ", ".join(sorted({poll.error or "no reply" for poll in failed}))
    return [
        Finding(
            NAME,
            Plane.RAS,
            f"RAS was asked {counted(len(failed), 'time')} and never answered ({reasons[:200]})",
            tuple(poll.source for poll in failed[:4]),
        )
    ]
