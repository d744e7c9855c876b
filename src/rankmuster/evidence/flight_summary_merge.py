"""Summaries of many nodes as one set of dumps: what is there twice is used once, what does not fit together is told.

Handled: the same summary or the same dumps twice (a shared folder that every node summarised), two nodes that claim one
rank at the same time (neither is believed), summaries of another run, nodes without a summary, summaries of which not
even the ranks can be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations

from rankmuster.evidence.bundle import Evidence
from rankmuster.evidence.flight_summary_claims import comparable, identity, same_process
from rankmuster.evidence.flight_summary_schema import SUFFIX, nothing
from rankmuster.evidence.take import Taken
from rankmuster.model.flight import FlightDump
from rankmuster.model.flight_summary import FlightSummary
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ranks_text import ranks_text

FAR_NS = 3600 * 10**9
"""Dumps of one run lie closer together: ranks that stand still wait for torch's time-out, ten minutes by default."""

MAX_NAMED = 8
"""Nodes named in one line."""


class MixedRuns(ValueError):
    """The summaries are of two runs, or of two times apart, and neither is the greater part."""


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """One summary with the dumps that count of it."""

    summary: FlightSummary
    dumps: tuple[FlightDump, ...]

    @property
    def name(self) -> str:
        return self.summary.node or self.summary.source


@dataclass(slots=True)
class Merging:
    """Takes what was read, file by file, and settles it at the end. `spread_ns`: dumps of one run lie closer."""

    spread_ns: int
    _held: list[_Held] = field(default_factory=list)
    _digests: dict[str, str] = field(default_factory=dict)
    _seen: dict[tuple[int, ...], tuple[str, FlightDump]] = field(default_factory=dict)
    _plain: set[tuple[int, ...]] = field(default_factory=set)
    _twice: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    _lost: list[str] = field(default_factory=list)
    _problems: list[Problem] = field(default_factory=list)

    def take(self, taken: Taken) -> Taken:
        """One file's observations, without what is there already."""
        summary = next((value for value in taken.observations if isinstance(value, FlightSummary)), None)
        if summary is None:
            if taken.source is not None and not taken.source.size and taken.source.path.endswith(SUFFIX):
                self._lost.append(taken.source.path)
            self._plain.update(key for dump in _dumps(taken.observations) if (key := identity(dump)) is not None)
            return taken
        if summary.damage is not None and not summary.ranks:
            self._lost.append(summary.source)
        first = self._digests.setdefault(summary.digest, summary.source) if summary.damage is None else summary.source
        if first != summary.source:
            message = f"the same summary as {first}; it was used once"
            self._problems.append(Problem(ProblemKind.REFUSED, summary.source, message))
            return replace(taken, observations=(), problems=())
        dumps = tuple(dump for dump in _dumps(taken.observations) if self._is_new(dump, summary))
        self._held.append(_Held(summary, dumps))
        others = [value for value in taken.observations if not isinstance(value, FlightDump)]
        return replace(taken, observations=(*others, *dumps))

    def _is_new(self, dump: FlightDump, summary: FlightSummary) -> bool:
        """Whether no other summary had the same dump: that of a folder which several nodes share."""
        key = identity(dump)
        if key is None:
            return True
        first, _ = self._seen.setdefault(key, (summary.source, dump))
        if first == summary.source:
            return True
        self._twice[first, summary.source].append(key[0])
        return False

    def settle(self, evidence: Evidence) -> Evidence:
        """What `load` made of all files, settled. Raises MixedRuns."""
        self._twice_told()
        self._runs()
        left_out = self._disputed()
        left = {id(dump) for dump in (*left_out, *self._beside_plain())}
        dumps = [dump for dump in evidence.of(FlightDump) if id(dump) not in left]
        dumps += [_emptied(dump) for dump in left_out]
        dumps += self._absent(dumps, evidence)
        by_type = dict(evidence.by_type)
        if dumps:
            by_type[FlightDump] = tuple(dumps[place] for place in _by_source(dumps))
        return replace(evidence, by_type=by_type, problems=(*evidence.problems, *self._problems))

    def _tell(self, kind: ProblemKind, source: str, message: str) -> None:
        self._problems.append(Problem(kind, source, message))

    def _twice_told(self) -> None:
        for (first, second), ranks in sorted(self._twice.items()):
            message = f"its dumps of {ranks_text(ranks)} are those that {first} holds too; they were used once"
            self._tell(ProblemKind.REFUSED, second, message)

    def _beside_plain(self) -> list[FlightDump]:
        """Summaries' dumps that are there themselves too, with all their stacks."""
        again: dict[str, list[int]] = defaultdict(list)
        found = []
        for key in self._plain & self._seen.keys():
            source, dump = self._seen[key]
            again[source].append(key[0])
            found.append(dump)
        for source, ranks in sorted(again.items()):
            message = f"its dumps of {ranks_text(ranks)} are there themselves too; they were used once"
            self._tell(ProblemKind.REFUSED, source, message)
        return found

    def _runs(self) -> None:
        """Tells of summaries whose time lies apart from that of the greater part."""
        runs = _apart([held for held in self._held if held.summary.to_ns], self.spread_ns)
        if len(runs) < 2:
            return
        most = max(runs, key=_weight)
        far = _apart([held for run in runs for held in run], FAR_NS)
        if 2 * max(map(_weight, far)) <= sum(map(_weight, far)):
            runs = far
            spans = "; ".join(f"{_names(run)} of {_when(run)}" for run in runs[:MAX_NAMED])
            raise MixedRuns(
                f"the summaries are of {len(runs)} times that lie apart: {spans}. Merge those of one run by themselves"
            )
        for run in runs:
            if run is not most:
                message = (
                    f"of {_when(run)}, while most summaries are of {_when(most)}: dumps of another run, or of ranks "
                    "that had nothing more to do long before"
                )
                for held in run:
                    self._tell(ProblemKind.CORRUPT, held.summary.source, message)

    def _disputed(self) -> list[FlightDump]:
        """Dumps of ranks that two nodes claim for one time: a file named by local rank, or two instances."""
        claims: dict[int, list[tuple[_Held, FlightDump]]] = defaultdict(list)
        for held in self._held:
            for dump in held.dumps:
                if dump.rank is not None and len(dump.columns):
                    claims[dump.rank].append((held, dump))
        disputes: dict[tuple[str, ...], list[int]] = defaultdict(list)
        found: list[FlightDump] = []
        for rank, claimed in claims.items():
            disputed = [(one, other) for one, other in combinations(claimed, 2) if self._contradict(one, other)]
            if disputed:
                names = tuple(sorted({held.name for pair in disputed for held, _ in pair}))
                disputes[names].append(rank)
                found += [dump for _, dump in claimed]
        if 2 * sum(map(len, disputes.values())) > len(claims):
            pairs = "; ".join(f"{_listed(names)}: {ranks_text(ranks)}" for names, ranks in sorted(disputes.items()))
            raise MixedRuns(
                f"most ranks are claimed by two nodes at the same time ({pairs[:300]}). Their dumps are of two "
                "instances, or named by local rank: merge each instance by itself, and name dumps by global rank"
            )
        for pair, ranks in sorted(disputes.items()):
            message = f"{_listed(pair)} both claim {ranks_text(ranks)} at the same time; neither was believed"
            self._tell(ProblemKind.CORRUPT, ".", message)
        return found

    def _contradict(self, one: tuple[_Held, FlightDump], other: tuple[_Held, FlightDump]) -> bool:
        """Whether two summaries' dumps of one rank, of one time and recorder, cannot be of one process."""
        if one[0] is other[0] or not comparable(one[1], other[1], self.spread_ns):
            return False
        same = same_process(one[1].columns, other[1].columns)
        return one[0].name != other[0].name if same is None else not same

    def _absent(self, dumps: Iterable[FlightDump], evidence: Evidence) -> list[FlightDump]:
        """Ranks of the groups' members that no dump is of: told; given an empty dump each where a summary is lost whose
        ranks nobody knows, for theirs may be in it."""
        held = {dump.rank for dump in dumps if dump.rank is not None}
        # Alike lists are mostly one tuple, and a set of tuples would look at each number of each.
        known = {id(group.members): group.members for dump in dumps for group in dump.columns.groups}
        members = {rank for ranks in known.values() if ranks is not None for rank in ranks}
        missing = sorted(members - held)
        if not missing or not self._held:
            return []
        message = (
            f"no summary holds a dump of {_placed(missing, evidence)} (of {len(missing) + len(held)} ranks in all)"
        )
        if self._lost:
            message += f"; {_listed(self._lost)} cannot be read and may have held them: they are not called missing"
        else:
            message += "; summarise the nodes where they ran, or see whether these are lost"
        self._tell(ProblemKind.DAMAGED, ".", message)
        return [_bare(rank, self._lost[0]) for rank in missing] if self._lost else []


def _placed(ranks: list[int], evidence: Evidence) -> str:
    """Ranks with the hosts where they ran, as far as a supervisor said so: `ranks 8-15 (10.0.0.7)`."""
    hosts = {process.rank: process.host for facts in evidence.of(InstanceFacts) for process in facts.processes}
    named = list(dict.fromkeys(host for rank in ranks if (host := hosts.get(rank)) is not None))
    return ranks_text(ranks) + (f" ({_listed(named)})" if named else "")


def _by_source(dumps: list[FlightDump]) -> list[int]:
    return sorted(range(len(dumps)), key=lambda place: dumps[place].source)


def _dumps(observations: Iterable[object]) -> list[FlightDump]:
    return [value for value in observations if isinstance(value, FlightDump)]


def _apart(held: Iterable[_Held], spread_ns: int) -> list[list[_Held]]:
    """Summaries by time: a new part where none before reaches within `spread_ns`."""
    runs: list[list[_Held]] = []
    end = 0
    for one in sorted(held, key=lambda held: held.summary.from_ns):
        if not runs or one.summary.from_ns > end + spread_ns:
            runs.append([])
        runs[-1].append(one)
        end = max(end, one.summary.to_ns)
    return runs


def _weight(run: list[_Held]) -> int:
    """Ranks in it."""
    return len({dump.rank for held in run for dump in held.dumps})


def _emptied(dump: FlightDump) -> FlightDump:
    """What is left of a dump that is not believed: that its rank wrote one."""
    return replace(dump, columns=nothing(), status={}, cut=True)


def _bare(rank: int, source: str) -> FlightDump:
    return FlightDump(f"{source}/rank_{rank}", rank, None, "pickle", (0, 0), None, nothing(), {}, cut=True)


def _when(run: list[_Held]) -> str:
    first = min(held.summary.from_ns for held in run)
    last = max(held.summary.to_ns for held in run)
    return f"{_clock(first)} to {_clock(last)}"


def _clock(time_ns: int) -> str:
    from datetime import datetime, timezone

    try:
        return datetime.fromtimestamp(time_ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{time_ns} ns"


def _names(run: list[_Held]) -> str:
    return _listed([held.name for held in run])


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - MAX_NAMED} more" if len(known) > MAX_NAMED else ""
    return ", ".join(known[:MAX_NAMED]) + more
