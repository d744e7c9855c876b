"""NCCL's own logs: the files that NCCL_DEBUG_FILE of each process names, with what rotation has made of them."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs import nccl_files
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.logs.taking import outcome, take
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import Role, Target

_QUIET = {"", "NONE", "VERSION"}


@dataclass(frozen=True, slots=True)
class NcclLogs:
    """Of a long log its start too: there stand the ranks and communicators that the rest speaks of."""

    name: str = "nccl-log"
    budget_seconds: float = 12.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Ends of the logs first, then more of each."""
        if scene.target is None:
            return Outcome(Ending.NOTHING, "no instance was found, so nobody says where NCCL logs to")
        sources, why = self._sources(scene.target, scene)
        state = take(
            sources,
            "nccl",
            sink,
            deadline,
            now=scene.now,
            host=scene.target.host,
            max_bytes=scene.wishes.max_log_bytes,
            with_head=True,
            prefix_rank=False,
        )
        return outcome(state, "NCCL log(s)", why)

    def _sources(self, target: Target, scene: Scene) -> tuple[list[Source], str]:
        found: list[Source] = []
        named, level = 0, ""
        for process in (*target.workers, *(p for p in target.processes if p.rank is None and p.role is Role.ENGINE)):
            given = nccl_files.settings(process)
            level = level or given.get("NCCL_DEBUG", "")
            pattern = given.get("NCCL_DEBUG_FILE", "")
            if not pattern or pattern in nccl_files.STANDARD or len(pattern) > 4096 or "\0" in pattern:
                continue
            named += 1
            hosts = (process.environ.get("HOSTNAME", ""), scene.machine.hostname, target.host)
            found.extend(nccl_files.sources(process, pattern, [host for host in hosts if host]))
        if level.upper() in _QUIET:
            return (
                found,
                f"NCCL_DEBUG is {level or 'not set'}, so NCCL logs nothing; WARN costs nothing and tells errors",
            )
        if not named:
            return (
                found,
                f"NCCL_DEBUG={level} without NCCL_DEBUG_FILE goes to the processes' own output (framework-log)",
            )
        return found, f"{named} process(es) name an NCCL_DEBUG_FILE and none of these exists (yet): no NCCL was started"
