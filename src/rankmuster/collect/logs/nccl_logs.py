"""NCCL's own logs: the files that NCCL_DEBUG_FILE of each process names, with what rotation has made of them."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.bounded import each
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs import nccl_files
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.logs.taking import PATIENCE, outcome, take
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import ProcessOfInstance, Role, Target

MAX_PATTERN = 4096
"""Characters of a path (PATH_MAX)."""
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
        places = _places(scene.target, scene, deadline)
        state = take(
            places.sources,
            "nccl",
            sink,
            deadline,
            now=scene.now,
            host=scene.target.host,
            max_bytes=scene.wishes.max_log_bytes,
            with_head=True,
            prefix_rank=False,
        )
        state.trouble.extend(f"the log of pid {pid} did not let itself be looked for in time" for pid in places.stuck)
        return outcome(state, "NCCL log(s)", places.why)


@dataclass(frozen=True, slots=True)
class _Places:
    """`why`: why there may be none. `stuck`: pids whose folders did not answer."""

    sources: list[Source]
    why: str
    stuck: list[int]


def _places(target: Target, scene: Scene, deadline: Deadline) -> _Places:
    engines = [process for process in target.processes if process.rank is None and process.role is Role.ENGINE]
    workers = target.workers  # an engine without rank is none of them
    processes = [*workers, *engines]

    def look(process: ProcessOfInstance) -> tuple[str, bool, list[Source]]:
        given = nccl_files.settings(process)
        pattern, level = given.get("NCCL_DEBUG_FILE", ""), given.get("NCCL_DEBUG", "")
        if not pattern or pattern in nccl_files.STANDARD or len(pattern) > MAX_PATTERN or "\0" in pattern:
            return level, False, []
        hosts = (process.environ.get("HOSTNAME", ""), scene.machine.hostname, target.host)
        return level, True, nccl_files.sources(process, pattern, [host for host in hosts if host])

    done = each(processes, look, patience=PATIENCE, total=deadline.remaining() / 2)
    found = [source for _, (_, _, sources) in done.results for source in sources]
    level = next((level for _, (level, _, _) in done.results if level), "")
    named = sum(names for _, (_, names, _) in done.results)
    if level.upper() in _QUIET:
        why = f"NCCL_DEBUG is {level or 'not set'}, so NCCL logs nothing; WARN costs nothing and tells errors"
    elif not named:
        why = f"NCCL_DEBUG={level} without NCCL_DEBUG_FILE goes to the processes' own output (framework-log)"
    else:
        why = f"{named} process(es) name an NCCL_DEBUG_FILE and none of these exists (yet): no NCCL was started"
    return _Places(found, why, [process.pid for process in done.stuck])
