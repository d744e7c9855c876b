"""The Flight Recorder's settings as a process has them, under their names of old and new, with the defaults of its
torch; and why a rank cannot leave a dump with them.

Sources: torch/csrc/distributed/c10d/{ProcessGroupNCCL,FlightRecorder,HeartbeatMonitor}. The defaults changed with torch
2.7 (dump on time-out), 2.8 (folder, names, wait for a dump) and 2.11 (buffer size).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Version = tuple[int, int]

BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
GROUP_BUFFER = "TORCH_NCCL_TRACE_BUFFER_SIZE"
"""The process group keeps a number of its own, and reads the old name alone: with 0 here it opens no pipe and dumps
nothing, whatever the recorder holds."""
DUMP_FILE = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
PIPE_FILE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
DYNAMIC = "TORCH_FR_DUMP_DYNAMIC_FILE_NAME"
DUMP_ON_TIMEOUT = "TORCH_NCCL_DUMP_ON_TIMEOUT"
BLOCKING_WAIT = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
HEARTBEAT = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
COORD_CHECK = "TORCH_NCCL_COORD_CHECK_MILSEC"
DUMP_WAIT = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"
STACKS = "TORCH_INCLUDE_STACK_TRACE"

DEFAULT_BUFFER = 2000  # entries; recorder since 2.11, process group since 2.6
_TRUE = frozenset({"1", "y", "yes", "t", "true"})  # c10d's getCvarBool


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Sizes in entries, times in seconds. None: not set, and the default of an unknown torch cannot be known.

    `prefixes`: where a dump file may be, as the process sees it; the rank follows. Several when torch is unknown.
    `named`: whether the environment names that place; else it is torch's own, which all jobs of a user share.
    `dynamic`: the prefix is the whole name. `pipe_prefix`: the rank and `.pipe` follow; None: it opens no pipe.
    `pipe_poll`: how often a pipe is looked at. `dump_wait`: after so long without stacks coming, they are left out.
    """

    buffer: int | None
    group_buffer: int | None
    dump_on_timeout: bool | None
    blocking_wait: bool
    prefixes: tuple[str, ...]
    named: bool
    dynamic: bool
    pipe_prefix: str | None
    pipe_poll: float
    dump_wait: float
    with_stacks: bool

    def why_no_dump(self) -> str | None:
        """A clause that says why this process will never write a dump file, or None."""
        if self.blocking_wait:
            return f"{BLOCKING_WAIT[0]} is set, with which torch runs no watchdog and writes no dump (unset it)"
        if self.group_buffer is not None and self.group_buffer <= 0:
            return f"{GROUP_BUFFER} is 0, with which torch writes no dump (set it to {DEFAULT_BUFFER})"
        if self.buffer is not None and self.buffer <= 0:
            return f"its recorder's buffer is 0 entries (set {BUFFER[0]} and {BUFFER[1]} to {DEFAULT_BUFFER})"
        return None

    def why_no_pipe(self) -> str | None:
        """A clause that says why it cannot be asked through a pipe, or None."""
        if self.pipe_prefix is None:
            return f"{PIPE_FILE} was not set when it started, so that it has no pipe to be asked through"
        return self.why_no_dump()


def read_settings(environ: Mapping[str, str], torch: Version | None) -> RecorderSettings:
    """The settings of a process with this environment and this torch (major, minor)."""
    dump_on_timeout = _flag(environ, DUMP_ON_TIMEOUT)
    if dump_on_timeout is None and torch is not None:
        dump_on_timeout = torch >= (2, 7) or environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
    heartbeat = _number(environ, HEARTBEAT, 480 if torch is None or torch >= (2, 5) else 600)
    coordinated = _number(environ, COORD_CHECK, 1000) / 1000
    dump_wait = _number(environ, DUMP_WAIT, 15_000 if torch is None or torch >= (2, 8) else 60_000) / 1000
    recorder = None if torch is None else (DEFAULT_BUFFER if torch >= (2, 11) else 0)
    group = None if torch is None else (DEFAULT_BUFFER if torch >= (2, 6) else 0)
    return RecorderSettings(
        buffer=_first_number(environ, BUFFER, recorder),
        group_buffer=_first_number(environ, (GROUP_BUFFER,), group),
        dump_on_timeout=dump_on_timeout,
        blocking_wait=any(_flag(environ, name) for name in BLOCKING_WAIT),
        prefixes=_prefixes(environ, torch),
        named=any(environ.get(name) for name in DUMP_FILE),
        dynamic=bool(_flag(environ, DYNAMIC)),
        pipe_prefix=environ.get(PIPE_FILE) or None,
        pipe_poll=heartbeat if dump_on_timeout is False else coordinated,
        dump_wait=dump_wait,
        with_stacks=_flag(environ, STACKS) is not False,
    )


def _prefixes(environ: Mapping[str, str], torch: Version | None) -> tuple[str, ...]:
    for name in DUMP_FILE:
        if environ.get(name):
            return (environ[name],)
    home = environ.get("HOME", "").rstrip("/")
    cache = (environ.get("XDG_CACHE_HOME", "").rstrip("/") or f"{home}/.cache") + "/torch/comm_lib_trace_rank_"
    middle = f"{home}/.cache/torch/nccl_trace_rank_"
    old = "/tmp/nccl_trace_rank_"  # noqa: S108  # torch's own default
    if torch is None:
        return cache, middle, old
    if torch >= (2, 8):
        return (cache,)
    return (middle,) if torch >= (2, 7) else (old,)


def _flag(environ: Mapping[str, str], name: str) -> bool | None:
    value = environ.get(name)
    return None if value is None or not value.strip() else value.strip().lower() in _TRUE


def _first_number(environ: Mapping[str, str], names: tuple[str, ...], default: int | None) -> int | None:
    for name in names:
        if name in environ:
            number = _whole(environ[name])
            if number is not None:
                return number
    return default


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    found = _whole(environ.get(name, ""))
    return default if found is None or found < 0 else found


def _whole(text: str) -> int | None:
    """The number, or None for what torch would refuse to start with."""
    cleaned = text.strip()
    if len(cleaned) > 18:
        return None
    try:
        return int(cleaned)
    except ValueError:
        return None
