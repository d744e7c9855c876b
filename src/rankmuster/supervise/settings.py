"""What `rankmuster run` was told, checked before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class OnEnd(str, Enum):
    """What happens when the command ends by itself."""

    EXIT = "exit"  # what it left behind is ended too, and run exits with its status
    RESTART = "restart"  # the whole group anew, with back-off and a limit
    WAIT = "wait"  # until the runner of incidents starts it anew


class RunProfile(str, Enum):
    """Which logging profile every start gets; one that the incident asks for goes before it, for one start."""

    STEADY = "steady"
    NONE = "none"


GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL. Ranks that wait for each other do not end well whatever they are given; a server that
can closes its requests in seconds (the drain came before)."""

RESTARTS = 3
RESTART_SECONDS = 600.0
"""Three within ten minutes: a fourth start of what does not live for minutes helps nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """`folder`: of socket, state and lock. `evidence`: where profiles put dumps and logs. `log`: the command's output
    is appended there, None for ours. `torch`, `nccl`, `engine`: for profiles; empty where nobody said.

    At most `restarts` within `within` seconds; then run exits with the command's status.
    """

    name: str
    command: tuple[str, ...]
    folder: str
    evidence: str
    on_end: OnEnd = OnEnd.EXIT
    grace: float = GRACE_SECONDS
    restarts: int = RESTARTS
    within: float = RESTART_SECONDS
    profile: RunProfile = RunProfile.STEADY
    torch: str = ""
    nccl: str = ""
    engine: str = ""
    log: str | None = None
    metrics_url: str | None = None
