"""No process of a drill outlives it: bound to the parent by the kernel, and ended with everything it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here: between fork and exec there is only the one call
PARENT_GONE = 4
"""Exit status of a child whose parent had ended before it could bind itself."""


def bind_to_parent() -> None:
    """In a child before it runs its program: the kernel kills it when its parent ends, whatever ended that."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when `parent`, the pid that started it, ends; to be called first of all.

    The kernel watches the *thread* that started the process: it has to live as long as the job (prctl(2)).
    """
    bind_to_parent()
    if os.getppid() != parent:
        os._exit(PARENT_GONE)


def kill_session(leader: int) -> None:
    """SIGKILL to the process group of a child that was started as a session of its own; a stopped one dies too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
