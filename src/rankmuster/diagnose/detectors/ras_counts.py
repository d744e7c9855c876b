"""RAS: ranks that launched less than their peers, over two looks at which nothing moved.

One MISMATCH is nothing: a healthy busy job shows it in half of single polls. Blind to equal counts (a symmetric hang),
send/recv and all-to-all, CUDA-graph replays, anything before init.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.diagnose import engine_state
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, counted, verb
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.ras_view import CountLook, looks_per_communicator, moved
from rankmuster.diagnose.spin import Doing, picture
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "ras-counts"


def detect(context: Context) -> list[Finding]:
    """A finding per communicator whose counts differ and stand still; one for counts that move."""
    found: list[Finding] = []
    lagging: list[tuple[int, tuple[CountLook, CountLook]]] = []
    for comm, looks in looks_per_communicator(context).items():
        pair = _decisive_two(looks, context.limits.ras_gap_seconds)
        if pair is None:
            if looks and looks[-1].differing:
                statement = (
                    f"RAS communicator {comm:016x}: counts differ in the only look there is; "
                    "one look at a busy job often does"
                )
                found.append(
                    Finding(
                        NAME, Plane.RAS, statement, (looks[-1].source,), would_decide="a second RAS poll 10 s later"
                    )
                )
            continue
        before, after = pair
        step = moved(before, after)
        if step:
            statement = f"RAS communicator {comm:016x}: launched counts moved between the last two looks ({step})"
            found.append(Finding(NAME, Plane.RAS, statement, (before.source, after.source)))
        elif after.differing:
            lagging.append((comm, pair))
    return found + _accusations(context, lagging)


def standing_alike(context: Context, view: ProgressView) -> list[Finding]:
    """One finding for all communicators whose counts are equal and stood still, asked once progress is known.

    It adds nothing where another plane decides whether work advances.
    """
    if view.decisive and Plane.RAS not in view.planes:
        return []
    pairs = [
        pair
        for looks in looks_per_communicator(context).values()
        if (pair := _decisive_two(looks, context.limits.ras_gap_seconds)) is not None
        and not moved(*pair)
        and not pair[1].differing
    ]
    if not pairs:
        return []
    seconds = min(after.time - before.time for before, after in pairs)
    statement = (
        f"RAS: in {counted(len(pairs), 'communicator')} all ranks launched the same number of operations, unchanged "
        f"over {seconds:.0f} s; RAS cannot tell a hang of all from idleness"
    )
    evidence = tuple(dict.fromkeys(source for before, after in pairs[:2] for source in (before.source, after.source)))
    return [Finding(NAME, Plane.RAS, statement, evidence)]


def _decisive_two(looks: list[CountLook], gap: float) -> tuple[CountLook, CountLook] | None:
    """The last two looks; the last two whole ones where these stood still and differed before ranks went missing."""
    whole = [look for look in looks if not look.missing]
    if whole and len(whole) < len(looks):
        pair = _last_two(whole, gap)
        if pair is not None and pair[1].differing and not moved(*pair):
            return pair
    return _last_two(looks, gap)


def _last_two(looks: list[CountLook], gap: float) -> tuple[CountLook, CountLook] | None:
    """The last look, and the first one since which nothing moved; else the one before it that counts as another."""
    if not looks:
        return None
    last = looks[-1]
    earlier = [look for look in looks if last.time - look.time >= gap]
    if not earlier:
        return None
    start = earlier[-1]
    for look in reversed(earlier):
        if moved(look, last) or look.missing != last.missing:
            break
        start = look
    return start, last


def _camps(look: CountLook) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """(ranks behind, ranks ahead, whether the totals are equal and only their split differs)."""
    ranks = sorted({rank for counts in look.counts.values() for rank in counts})
    totals = {rank: sum(counts.get(rank, 0) for counts in look.counts.values()) for rank in ranks}
    complete = all(set(counts) == set(ranks) for counts in look.counts.values())
    highest = max(totals.values())
    behind = tuple(rank for rank in ranks if totals[rank] < highest)
    ahead = tuple(rank for rank in ranks if totals[rank] == highest)
    return behind, ahead, complete and not behind


def _camps_text(op: str, counts: Mapping[int, int]) -> str:
    values = sorted(set(counts.values()))
    camps = (f"{count} on {ranks_text([rank for rank, own in counts.items() if own == count])}" for count in values)
    return f"{op} {', '.join(camps)}"


def _nobody_waits(context: Context, ahead: tuple[int, ...], look: CountLook) -> bool:
    """Whether the GPUs of all that are ahead sat idle at that look: then they wait in no collective."""
    if context.timeouts or not ahead:
        return False  # an aborted collective leaves an idle GPU too
    states = picture(context).states
    return all(
        rank in states
        and states[rank].doing is Doing.IDLE
        and context.job.rank(rank).exit_code is None
        and (states[rank].since or look.time) <= look.time
        for rank in ahead
    )


def _accusations(context: Context, lagging: list[tuple[int, tuple[CountLook, CountLook]]]) -> list[Finding]:
    camps = {comm: _camps(pair[1]) for comm, pair in lagging}
    waiting_elsewhere = {rank for behind, ahead, split in camps.values() if behind and not split for rank in ahead}
    found = []
    for comm, (before, after) in lagging:
        behind, ahead, split = camps[comm]
        text = "; ".join(
            _camps_text(op, counts) for op, counts in after.counts.items() if len(set(counts.values())) > 1
        )
        seconds = after.time - before.time
        evidence = (before.source, after.source)
        if split:
            found.append(_split_finding(comm, after, text, seconds, evidence))
            continue
        if _nobody_waits(context, ahead, after):
            statement = (
                f"RAS communicator {comm:016x}: counts differ and stood still for {seconds:.0f} s ({text}), yet the "
                f"GPUs of {ranks_text(ahead)} sit idle: nobody waits in a collective"
            )
            found.append(Finding(NAME, Plane.RAS, statement, evidence))
            continue
        # A rank that is behind here and ahead elsewhere waits there: a victim.
        roots = tuple(rank for rank in behind if rank not in waiting_elsewhere or len(lagging) == 1)
        majority = len(behind) < len(ahead) or (len(behind) == len(ahead) == 1)
        named = roots if majority else ()
        statement = (
            f"RAS communicator {comm:016x}: counts differ and stood still for {seconds:.0f} s: {text}; "
            f"{ranks_text(behind)} launched fewer"
        )
        brief = seconds < context.limits.stall_seconds and not engine_state.stopped(context)
        if brief:
            # One long step looks the same: a rank is late in it, and the others wait.
            named = ()
            statement += "; so short a time may be one long step"
        if after.missing:
            # What the others did not launch any more may be the missing rank's doing.
            named = ()
            gone = ranks_text(tuple(after.missing))
            statement += f"; {gone} {verb(after.missing, 'is', 'are')} missing, which may be the reason"
        found.append(
            Finding(
                NAME,
                Plane.RAS,
                statement,
                evidence,
                accuse(
                    Subkind.MISSING_ENTER,
                    Confidence.POSSIBLE if after.missing or brief else Confidence.LIKELY,
                    culprits=named,
                    suspects=() if named else behind,
                    victims=tuple(rank for rank in (*ahead, *behind) if rank not in named),
                    why=dict.fromkeys(behind, "launched fewer operations than its peers, unchanged over two RAS polls"),
                    scope=Scope.RANK,
                ),
            )
        )
    return found


def _split_finding(comm: int, look: CountLook, text: str, seconds: float, evidence: tuple[str, ...]) -> Finding:
    ranks = sorted({rank for counts in look.counts.values() for rank in counts})
    shapes = {rank: tuple(sorted((op, counts[rank]) for op, counts in look.counts.items())) for rank in ranks}
    camps: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for rank, shape in shapes.items():
        camps.setdefault(shape, []).append(rank)
    largest = max(camps.values(), key=len)
    odd = tuple(rank for rank in ranks if rank not in largest) if len(largest) * 2 > len(ranks) else ()
    return Finding(
        NAME,
        Plane.RAS,
        f"RAS communicator {comm:016x}: equal totals with another split between operations, unchanged over "
        f"{seconds:.0f} s: {text}; somebody called another operation",
        evidence,
        accuse(
            Subkind.OP_MISMATCH,
            Confidence.LIKELY,
            culprits=odd,
            suspects=() if odd else tuple(ranks),
            victims=tuple(rank for rank in ranks if rank not in odd) if odd else (),
            why=dict.fromkeys(odd or ranks, "launched other operations than its peers, in the same number"),
            scope=Scope.RANK if odd else Scope.GROUP,
        ),
    )
