"""The processes of a group as /proc has them now, and signals that reach these very ones and no others.

The supervisor is a subreaper: whatever becomes of the processes in between, and whatever session, name or title they
give themselves, everything that the command started stays below it. Processes are known by pid and start time, and
signalled through a pidfd: a number that goes to somebody else in between is never hit.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from pathlib import Path

from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.proc_text import Stat

PROC = Path("/proc")

_PR_SET_CHILD_SUBREAPER = 36


class Sent(Enum):
    """SENT: it was there. GONE: it is not any more. REFUSED: the kernel does not allow it (another user's)."""

    SENT = "sent"
    GONE = "gone"
    REFUSED = "refused"


def become_subreaper() -> None:
    """Orphans below this process come to it. Raises OSError (no Linux before 3.4 has it)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def table(root: Path = PROC) -> dict[int, Stat]:
    """All processes that may be seen, by pid. Raises OSError where /proc cannot be read (no descriptor left, no
    memory): that nobody is seen must not be taken for that nobody is there."""
    proc = Proc(root)
    found: dict[int, Stat] = {}
    for name in os.listdir(root):
        if name.isascii() and name.isdigit():
            with contextlib.suppress(NotAllowed):
                stat = proc.stat(int(name))
                if stat is not None and not stat.kernel_thread:
                    found[stat.pid] = stat
    return found


def below(listed: Mapping[int, Stat], roots: Iterable[int], without: Set[int] = frozenset()) -> dict[int, Stat]:
    """What descends from `roots`, which are not in it; `without`: these and what descends from them neither."""
    children: dict[int, list[int]] = {}
    for pid, stat in listed.items():
        children.setdefault(stat.parent, []).append(pid)
    found: dict[int, Stat] = {}
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found and child not in without:
                found[child] = listed[child]
                waiting.append(child)
    return found


def above(listed: Mapping[int, Stat], pid: int) -> list[int]:
    """Its parent, that one's parent and so on."""
    found: list[int] = []
    while pid in listed and listed[pid].parent not in (0, pid, *found):
        pid = listed[pid].parent
        found.append(pid)
    return found


def lives(stat: Stat) -> bool:
    """Whether any of it still runs or holds memory: a first thread that has exited is a zombie, too, while others live
    (one that sleeps in a driver, for instance)."""
    return not stat.ended or stat.threads > 1


def send(stat: Stat, number: int, root: Path = PROC) -> Sent:
    """Sends a signal to this very process."""
    descriptor = -1  # Linux before 5.3, a sandbox, or no descriptor left: the look at its start has to do
    try:
        descriptor = os.pidfd_open(stat.pid)
    except AttributeError:  # a Python made on an older system
        pass
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            return Sent.GONE  # ESRCH; EINVAL: the number is a thread's by now
    try:
        with contextlib.suppress(NotAllowed, OSError):
            now = Proc(root).stat(stat.pid)
            if now is None or now.start_ticks != stat.start_ticks:
                return Sent.GONE
        if descriptor >= 0:
            signal.pidfd_send_signal(descriptor, number)
        else:
            os.kill(stat.pid, number)
    except ProcessLookupError:
        return Sent.GONE
    except PermissionError:
        return Sent.REFUSED
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return Sent.SENT


def reap(helpers: Set[int], keep: Set[int] = frozenset(), root: Path = PROC) -> dict[int, int]:
    """Collects the children that have ended: pid -> wait status. `helpers`: children of our own, collected by whoever
    started them. `keep`: left as zombies, so that their numbers stay theirs."""
    found: dict[int, int] = {}
    left = helpers | keep
    while True:
        try:
            seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return found
        if seen is None:
            return found
        if seen.si_pid in left:
            break  # it would be shown again and again
        _collect(seen.si_pid, found)
    own = os.getpid()
    for pid, stat in table(root).items():
        if stat.parent == own and stat.state == "Z" and pid not in left:
            _collect(pid, found)
    return found


def _collect(pid: int, found: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        got, status = os.waitpid(pid, os.WNOHANG)
        if got == pid:
            found[pid] = status


def exit_code(pid: int) -> int | None:
    """Exit code of a child (-N for signal N) that is not collected by this; None while it lives."""
    try:
        seen = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0  # somebody has collected it: how it ended is not known
    if seen is None:
        return None
    return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status


def ended(pid: int) -> int | None:
    """The same as a shell has it: 128 + N for signal N."""
    code = exit_code(pid)
    return code if code is None or code >= 0 else 128 - code


def ticks_per_second() -> int:
    """Of `Stat.start_ticks`."""
    return os.sysconf("SC_CLK_TCK")
