"""What a process really does with its variables: torch's and NCCL's rules of names, copies and defaults, applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.environment.table import TABLE
from rankmuster.environment.torch_table import PIPE_BUFFER_DEFAULTS
from rankmuster.environment.values import read_flag, read_number
from rankmuster.environment.version import Version, at_least


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings as torch sees them. Buffers in entries, `wait_ms` and `coord_ms` in milliseconds, `heartbeat_s` in
    seconds. None: cannot be said (a value that is only known in the pod, or no number).

    `recorder_buffer`: the ring itself; `group_buffer`: ProcessGroupNCCL's copy, which decides whether a dump is
    written; `pipe_buffer`: the same for the pipe. `nccl2`: the newer backend, for which most of this does not count.
    `desync`, `timing`: with what forces them taken in. `prefix`, `pipe`: without the rank.
    """

    torch: Version
    nccl2: bool | None
    recorder_buffer: int | None
    group_buffer: int | None
    pipe_buffer: int | None
    dump_on_timeout: bool | None
    monitoring: bool | None
    timing: bool | None
    desync: bool | None
    blocking_wait: bool | None
    error_handling: int | None
    wait_ms: int | None
    heartbeat_s: int | None
    coord_ms: int | None
    stacks: bool | None
    cpp_stacks: bool | None
    only_active: bool | None
    prefix: str | None
    prefix_set: bool
    pipe: str | None


def effective(values: Mapping[str, str], unknown: frozenset[str], torch: Version) -> Effective:
    """Applies the table's rules; `unknown`: names that are set to something that cannot be seen from here."""
    view = _View(values, unknown, torch)
    detail = values.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
    desync = _or(view.flag("TORCH_NCCL_DESYNC_DEBUG", "NCCL_DESYNC_DEBUG"), detail)
    dump = view.flag("TORCH_NCCL_DUMP_ON_TIMEOUT")
    if "TORCH_NCCL_DUMP_ON_TIMEOUT" not in view.given:
        dump = _or(dump, detail)
    prefix_name = view.first("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    prefix = values.get(prefix_name) if prefix_name else TABLE["TORCH_FR_DUMP_TEMP_FILE"].default(torch)
    if prefix_name is None and at_least(torch, (2, 8)) and values.get("XDG_CACHE_HOME"):
        prefix = values["XDG_CACHE_HOME"].rstrip("/") + "/torch/comm_lib_trace_rank_"
    pipe_name = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
    return Effective(
        torch=torch,
        nccl2=view.flag("TORCH_DIST_USE_NCCL2"),
        recorder_buffer=view.number(
            "TORCH_FR_BUFFER_SIZE",
            "TORCH_NCCL_TRACE_BUFFER_SIZE",
            fallback=TABLE["TORCH_FR_BUFFER_SIZE"].default(torch),
        ),
        group_buffer=view.number("TORCH_NCCL_TRACE_BUFFER_SIZE"),
        pipe_buffer=view.number("TORCH_NCCL_TRACE_BUFFER_SIZE", fallback=_step(PIPE_BUFFER_DEFAULTS, torch)),
        dump_on_timeout=dump,
        monitoring=view.flag("TORCH_NCCL_ENABLE_MONITORING"),
        timing=_or(view.flag("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING"), bool(desync)),
        desync=desync,
        blocking_wait=view.flag("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"),
        error_handling=view.number("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"),
        wait_ms=view.number("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"),
        heartbeat_s=view.number("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        coord_ms=view.number("TORCH_NCCL_COORD_CHECK_MILSEC"),
        stacks=view.flag("TORCH_INCLUDE_STACK_TRACE"),
        cpp_stacks=view.flag("TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK"),
        only_active=view.flag("TORCH_INCLUDE_ONLY_ACTIVE"),
        prefix=prefix,
        prefix_set=prefix_name is not None,
        pipe=values.get(pipe_name) or None,
    )


def _step(steps: tuple[tuple[Version, str], ...], version: Version) -> str:
    return [value for since, value in steps if since == steps[0][0] or at_least(version, since)][-1]


def _or(value: bool | None, forced: bool) -> bool | None:
    return True if forced else value


class _View:
    """The variables through the eyes of one version: the first name that it reads and that is set wins."""

    def __init__(self, values: Mapping[str, str], unknown: frozenset[str], torch: Version) -> None:
        self._values = values
        self._torch = torch
        self.given = frozenset(values) | unknown
        self._unknown = unknown

    def first(self, *names: str) -> str | None:
        return next((name for name in names if name in self.given and TABLE[name].read_by(self._torch)), None)

    def _text(self, names: tuple[str, ...], fallback: str | None) -> str | None:
        name = self.first(*names)
        if name is None:
            return TABLE[names[0]].default(self._torch) if fallback is None else fallback
        return None if name in self._unknown else self._values[name]

    def flag(self, *names: str) -> bool | None:
        return read_flag(self._text(names, None))

    def number(self, *names: str, fallback: str | None = None) -> int | None:
        return read_number(self._text(names, fallback))
