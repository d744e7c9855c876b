"""How a process ended, in the spellings of Python, shells, containers and schedulers -> one exit code."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.evidence.json_fields import number

SHELL_SIGNAL = 128
"""Shells and containers report "ended by signal N" as 128 + N; Python and waitpid wrappers as -N."""
MAX_SIGNAL = 64
"""The last realtime signal of Linux: 255 (`exit(-1)`) is no signal."""

# Linux's numbers, spelled out: the machine that reads a bundle may number them otherwise (SIGBUS is 10 on macOS).
_LINUX = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
    "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
}  # fmt: skip

_CODES = ("exit_code", "returncode", "exit_status", "exitcode")
_SIGNALS = ("signal", "exit_signal", "term_signal")


def read_exit(entry: Mapping[str, object]) -> tuple[int | None, str | None]:
    """(exit code or None, note). -N for signal N. A code that cannot be read is None with a note saying so."""
    named = next((entry[key] for key in _SIGNALS if entry.get(key) not in (None, "", 0)), None)
    if named is not None:
        caught = _signal(named)
        if caught is not None:
            return -caught, None
        return None, f"the signal {str(named)[:40]!r} is unknown: how it ended is not known"
    value = next((entry[key] for key in _CODES if entry.get(key) is not None), None)
    if value is None:
        return None, None
    caught = _signal(value) if isinstance(value, str) and value.upper().startswith("SIG") else None
    if caught is not None:
        return -caught, None
    code = number(value, least=-MAX_SIGNAL, most=0xFFFFFFFF)
    if code is None:
        return None, f"the exit code {str(value)[:40]!r} is none: how it ended is not known"
    own = of_status(code)
    return own, None if own == code else f"exit status {code} read as signal {-own}"


def of_status(status: int) -> int:
    """-N for a shell's or container's 128 + N; every other status as it is."""
    return SHELL_SIGNAL - status if SHELL_SIGNAL < status <= SHELL_SIGNAL + MAX_SIGNAL else status


def _signal(value: object) -> int | None:
    if isinstance(value, str) and not value.lstrip("-").isdigit():
        return _LINUX.get("SIG" + value.upper().removeprefix("SIG"))
    count = number(value, least=-MAX_SIGNAL, most=MAX_SIGNAL)
    return abs(count) or None if count is not None else None
