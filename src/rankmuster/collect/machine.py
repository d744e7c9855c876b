"""Where this machine's own files are. Other roots stand in for another machine's in tests and in containers."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """The roots that collectors read below. `hostname`: the machine's own name, up to the first dot as NCCL logs it.

    A sidecar that has the host's trees mounted elsewhere (`/host/proc`) gives them here.
    """

    hostname: str = field(default_factory=lambda: socket.gethostname().split(".")[0])
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    etc: Path = Path("/etc")
    run: Path = Path("/run")
