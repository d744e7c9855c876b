"""NCCL's named pipe for gloo, whose recorder has none: any byte into `<prefix><rank>.pipe` makes its rank dump.

The same contract as ProcessGroupNCCL's (the names of the variables, a FIFO that only its rank reads, a dump file that
is written in place at `<dump prefix><rank>`), so that the trigger can be exercised for real without a GPU.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

POLL_SECONDS = 0.1
"""Between two looks into the pipe; ProcessGroupNCCL looks once a second."""
PIPE_PREFIX = ("TORCH_FR_DUMP_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
DUMP_PREFIX = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def from_environment(environment: Mapping[str, str], rank: int, take: Callable[[], bytes]) -> threading.Thread | None:
    """Starts to listen where both prefixes are set, else does nothing. `take`: the dump's bytes."""
    pipe, dump = _first(environment, PIPE_PREFIX), _first(environment, DUMP_PREFIX)
    if pipe is None or dump is None:
        return None
    path = Path(f"{pipe}{rank}.pipe")
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    thread = threading.Thread(target=_listen, args=(descriptor, Path(f"{dump}{rank}"), take), daemon=True)
    thread.start()
    return thread


def _listen(descriptor: int, dump: Path, take: Callable[[], bytes]) -> None:
    while True:
        if _asked(descriptor):
            print(f"preparing to dump the recorder to {dump}", flush=True)
            dump.write_bytes(take())
            print(f"finished the dump to {dump}", flush=True)
        time.sleep(POLL_SECONDS)


def _asked(descriptor: int) -> bool:
    """Whether a byte came; all that wait are taken at once."""
    try:
        return bool(os.read(descriptor, 4096))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EINTR):
            return False
        raise
