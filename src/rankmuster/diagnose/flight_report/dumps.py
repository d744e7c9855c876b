"""The set of dumps as a whole: who left none, whose is of another run, what rings overwrote, what is damaged."""

from __future__ import annotations

from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.silent_ranks import FLIGHT_READERS
from rankmuster.evidence import names
from rankmuster.model.flight import FlightDump
from rankmuster.model.flight_report import DumpsReport, Known, Overwritten
from rankmuster.model.problem import ProblemKind


def silence(context: Context) -> dict[int, Known]:
    """Why ranks of the job have no dump that speaks; a rank that is in no list simply left none."""
    found: dict[int, Known] = {}
    unusable = {source.path for source in context.evidence.sources if not source.readers} | {
        problem.source for problem in context.evidence.problems if problem.kind in (ProblemKind.REFUSED,)
    }
    folders = {facts.source.rpartition("/")[0] for facts in context.dump_facts.values()}
    for path in unusable:
        rank = names.rank_of(path)
        if rank is not None and path.rpartition("/")[0] in folders:
            found[rank] = Known.DAMAGED
    for rank, facts in context.dump_facts.items():
        if facts.stale:
            found[rank] = Known.OTHER_RUN
        elif rank not in context.table.rows:
            found[rank] = Known.EMPTY
        else:
            found.pop(rank, None)
    return found


def dumps_report(context: Context, silent: dict[int, Known]) -> DumpsReport:
    """Counts and ranks over all dumps; nothing of single groups."""
    table = context.table
    entries = coalesced = children = batches = captured_records = 0
    captured: list[int] = []
    lost: dict[int, int] = {}
    versions: dict[str, list[int]] = defaultdict(list)
    for rank, flight in table.rows.items():
        columns = flight.dump.columns
        count = len(columns)
        entries += count
        versions[".".join(map(str, flight.dump.version))].append(rank)
        if count and not flight.dump.only_active and int(columns.record_id[0]) > 0:
            lost[rank] = int(columns.record_id[0])
        if flight.whole:
            continue
        ends, parts = int(flight.batches.of_p2p.sum()), int(flight.batches.child.sum())
        coalesced += len(flight.batches.ends)
        children += parts
        batches += ends
        zombies = count - len(flight.row) - len(flight.p2p) - parts - ends
        if zombies > 0:
            captured.append(rank)
            captured_records += zombies
    facts = context.dump_facts
    damaged, others = _damaged(context)
    world = context.world
    return DumpsReport(
        world=world,
        ranks=tuple(sorted(table.rows)),
        entries=entries,
        missing=tuple(rank for rank in world if rank not in facts),
        empty=tuple(sorted(rank for rank, known in silent.items() if known is Known.EMPTY)),
        other_run=_other_run(context),
        older_files=tuple(sorted(dump.source for dump in context.older_dumps)),
        cut=tuple(sorted(rank for rank, flight in table.rows.items() if flight.dump.cut)),
        only_active=tuple(sorted(rank for rank, flight in table.rows.items() if flight.dump.only_active)),
        in_motion=tuple(sorted(rank for rank, one in facts.items() if one.in_motion and not one.stale)),
        timed=tuple(sorted(rank for rank, one in facts.items() if one.has_timing)),
        overwritten=Overwritten(tuple(sorted(lost)), min(lost.values()), max(lost.values())) if lost else None,
        captured=tuple(sorted(captured)),
        captured_records=captured_records,
        coalesced=coalesced,
        children=children,
        batches=batches,
        damaged=damaged,
        other_damaged=others,
        versions={version: tuple(sorted(ranks)) for version, ranks in sorted(versions.items())},
    )


def _other_run(context: Context) -> tuple[tuple[int, float], ...]:
    """Ranks with a dump of another run, and how far its end lies from the others'."""
    ends = sorted(flight.newest for flight in context.table.rows.values() if flight.newest)
    middle = ends[len(ends) // 2] if ends else 0.0
    own = {dump.source: dump.columns.newest_ns / 1e9 for dump in context.evidence.of(FlightDump)}
    return tuple(
        (rank, own.get(facts.source, middle) - middle)
        for rank, facts in sorted(context.dump_facts.items())
        if facts.stale
    )


def _damaged(context: Context) -> tuple[tuple[str, ...], int]:
    """One line per damaged dump, and the number of problems with other files."""
    dumps = {source.path for source in context.evidence.sources if FLIGHT_READERS & set(source.readers)}
    folders = {path.rpartition("/")[0] for path in dumps}
    told, others = [], 0
    for problem in context.evidence.problems:
        beside = problem.source.rpartition("/")[0] in folders and names.rank_of(problem.source) is not None
        if problem.source in dumps or beside or not dumps:
            told.append(f"{problem.source}: {problem.message}")
        else:
            others += 1
    return tuple(told), others
