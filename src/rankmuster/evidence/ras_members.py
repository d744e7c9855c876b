"""What the lines of a text report add up to for one communicator."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.evidence.ras_lines import CrowdLine, HeaderLine, RankLine, Statement, Topic
from rankmuster.model.ras import RasCommunicator, RasGroup, RasMajority, RasMissingRank, RasRank

WITHOUT_COMMUNICATOR = ("NOCOMM", "UNKNOWN")
"""The status of ranks whose process answered without the communicator; UNKNOWN in NCCL 2.24 and 2.25."""

Dead = frozenset[tuple[str | None, int | None]]
"""(host, pid) of processes that RAS gave up."""

_COLUMN_ORDER = ("INCOMPLETE", "ERROR", "MISMATCH")


@dataclass(slots=True)
class _Member:
    host: str | None = None
    pid: int | None = None
    gpu: int | None = None
    nvml: int | None = None
    status: str | None = None
    async_error: str | None = None
    init_error: str | None = None
    counts: dict[str, int] = field(default_factory=dict)


class Members:
    """Collects one communicator's lines in the order of the report, then builds the value."""

    def __init__(self, header: HeaderLine) -> None:
        self.header = header
        self.kinds: list[str] = []
        self._members: dict[int, _Member] = {}
        self._missing: dict[int, RankLine] = {}
        self._missing_count = 0
        self._majorities: dict[str, list[RasMajority]] = {}
        self._status: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._without = 0  # ranks without the communicator
        self._kind = ""
        self._topic: Topic | None = None
        self._operation: str | None = None
        self._initialising = False
        self._crowd: Statement | None = None
        self._unnamed = 0
        self._told: int | None = None  # ranks that the current block spoke of; None before it said anything

    def open(self, kind: str) -> None:
        """Lines that follow belong under INCOMPLETE, ERROR or MISMATCH."""
        self._close()
        self._kind = kind
        self._topic = None
        self._told = None
        if kind not in self.kinds:
            self.kinds.append(kind)

    def open_block(self, topic: Topic, operation: str | None) -> None:
        """Lines that follow break down the status or one operation's counts."""
        self._close()
        self._topic, self._operation = topic, operation
        self._told = 0

    def open_errors(self, *, initialising: bool) -> None:
        """Lines that follow name the errors of the initialisation, or asynchronous ones."""
        self._close()
        self._topic, self._initialising = Topic.ERROR, initialising

    def miss(self, count: int) -> None:
        """`count` ranks of processes that did not answer."""
        self._missing_count = count
        self._told = 0

    def miss_ranks(self, ranks: tuple[int, ...]) -> None:
        """They are named by number alone."""
        for rank in ranks:
            self._missing[rank] = RankLine(rank, None)

    def crowd(self, line: CrowdLine) -> None:
        """Several ranks; their names may follow."""
        self._close()
        self._crowd, self._unnamed = line.statement, line.ranks
        self._tell(line.statement, line.ranks)

    def rank(self, line: RankLine) -> None:
        """One rank: of its own, of the crowd above it, or missing."""
        statement = line.statement
        if statement is not None:
            self._close()
            self._tell(statement, 1)
        elif self._kind == "INCOMPLETE":
            self._missing[line.rank] = line
            return
        else:
            statement = self._crowd
            self._unnamed -= 1
        member = self._members.setdefault(line.rank, _Member())
        if line.pid is not None:
            member.host, member.pid, member.gpu, member.nvml = line.host, line.pid, line.gpu, line.nvml
        if statement is None:
            return
        if isinstance(statement.value, int):
            if self._operation is not None:
                member.counts[self._operation] = statement.value
        elif statement.topic is Topic.STATUS:
            member.status = statement.value
        elif self._initialising:
            member.init_error = statement.value
        else:
            member.async_error = statement.value

    def is_cut(self, size: int | None) -> bool:
        """Whether the last thing said of the communicator speaks of fewer ranks than it has."""
        if self._told is None:
            return self._topic is None
        if self._kind != "MISMATCH" or size is None:
            return False
        answered = size - self._missing_count - (self._without if self._topic is Topic.COUNT else 0)
        return self._told < answered

    def build(self, group: RasGroup | None, dead: Dead | None) -> RasCommunicator:
        """`dead`: every process that RAS gave up, None where the report does not name them all."""
        self._close()
        missing = [self._missing_rank(line, dead) for line in self._missing.values()]
        missing += [
            RasMissingRank(number, m.host, m.pid, m.gpu, m.nvml, unresponsive=False)
            for number, m in self._members.items()
            if m.status in WITHOUT_COMMUNICATOR
        ]
        return RasCommunicator(
            hash=self.header.hash,
            size=group.ranks_per_communicator if group else None,
            ranks=tuple(
                RasRank(n, m.host, m.pid, m.gpu, m.nvml, m.status, m.async_error, m.counts, m.init_error)
                for n, m in sorted(self._members.items())
            ),
            missing=tuple(sorted(missing, key=lambda rank: rank.rank)),
            missing_count=max(self._missing_count + self._without, len(missing)),
            status=group.status if group else None,
            errors=group.errors if group else tuple(k for k in _COLUMN_ORDER if k in self.kinds),
            majorities={operation: tuple(found) for operation, found in self._majorities.items()},
            status_majorities=self._status,
            error_majorities=self._errors,
        )

    def _tell(self, statement: Statement, ranks: int) -> None:
        self._told = (self._told or 0) + ranks
        if statement.topic is Topic.STATUS and statement.value in WITHOUT_COMMUNICATOR:
            self._without += ranks

    def _close(self) -> None:
        crowd, unnamed = self._crowd, self._unnamed
        self._crowd, self._unnamed = None, 0
        if crowd is None or unnamed <= 0:
            return
        if isinstance(crowd.value, int):
            if self._operation is not None:
                self._majorities.setdefault(self._operation, []).append(RasMajority(crowd.value, unnamed))
            return
        totals = self._status if crowd.topic is Topic.STATUS else self._errors
        totals[crowd.value] = totals.get(crowd.value, 0) + unnamed

    @staticmethod
    def _missing_rank(line: RankLine, dead: Dead | None) -> RasMissingRank:
        considered_dead = None
        if dead is not None and line.pid is not None:
            considered_dead = (line.host, line.pid) in dead
        return RasMissingRank(
            line.rank, line.host, line.pid, line.gpu, line.nvml, unresponsive=True, considered_dead=considered_dead
        )
