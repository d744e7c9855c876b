"""Child processes that may never end: asked, listened to for a bounded time, and left behind where they cannot die.

A process in uninterruptible sleep (a driver after a GPU fault, a dead network file system) does not die of SIGKILL.
Nothing here ever waits for one: its pipes are closed, it is killed, and if it is still there it is abandoned.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline

DEATH_SECONDS = 0.3
"""How long a killed process may take to go before it is abandoned; one that can die is gone in milliseconds."""

CHUNK = 65_536
MAX_OUTPUT = 8 << 20
"""Bytes kept of one command's output; `nvidia-smi topo -m` of eight GPUs has 4 KB, a boot's kernel log 1 to 4 MB."""
MAX_ERRORS = 16_384
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Searched besides PATH: a service's PATH often lacks the folders with `dmesg` and `nvidia-smi`."""

_abandoned: list[subprocess.Popen[bytes]] = []
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did. `code` None: it did not end in time (`timed_out`) or could not be started (`problem`).

    `cut`: it wrote more than was kept; then the last bytes are missing and it was stopped.
    """

    output: bytes
    errors: str
    code: int | None
    timed_out: bool = False
    cut: bool = False
    problem: str | None = None

    @property
    def well(self) -> bool:
        """Whether it ended by itself and was content."""
        return self.code == 0

    @property
    def story(self) -> str:
        """What came of it, to follow the command's name in a sentence."""
        if self.problem:
            return f"could not be started ({self.problem})"
        if self.timed_out:
            return "did not end in time"
        if self.cut:
            return "wrote without end and was stopped"
        said = " ".join(self.errors.split())[:200]
        return f"ended with status {self.code}" + (f" ({said})" if said else "")


def find_program(name: str) -> str | None:
    """The path of a program on PATH or in the usual system folders."""
    import shutil  # with every format of archives, 1 MB that a watch does without

    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SYSTEM_FOLDERS))


def run(
    command: Sequence[str],
    deadline: Deadline,
    *,
    max_bytes: int = MAX_OUTPUT,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Runs a program without input and in the C locale; never raises, and returns by the deadline (plus
    `DEATH_SECONDS`) whatever the program does."""
    env = {**os.environ, **(environment or {}), "LC_ALL": "C", "LANGUAGE": "C"}
    try:
        process = subprocess.Popen(  # noqa: S603 - a list of ours, no shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Ran(b"", "", None, problem=getattr(error, "strerror", None) or str(error))
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    limits = {process.stdout.fileno(): max_bytes, process.stderr.fileno(): MAX_ERRORS}
    output = process.stdout.fileno()
    timed_out = cut = False
    with selectors.DefaultSelector() as selector:
        for fd in kept:
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline.remaining())
            if deadline.passed:
                timed_out = True
                break
            for key, _ in ready:
                fd = key.fd
                data = ready_bytes(fd)
                if data == b"":
                    selector.unregister(fd)
                elif data is not None:
                    room = limits[fd] - len(kept[fd])
                    kept[fd] += data[:room]
                    cut = cut or (fd == output and len(data) > room)
            if cut:
                break
    errors = bytes(kept[process.stderr.fileno()]).decode("utf-8", errors="replace")
    taken = bytes(kept[output])
    if not timed_out and not cut:
        # Both ends are closed: it is about to end, or has closed them and goes on.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(deadline.remaining(), DEATH_SECONDS))
        timed_out = process.poll() is None
    code = process.poll()
    let_go(process)
    return Ran(taken, errors, None if timed_out or cut else code, timed_out, cut)


def let_go(process: subprocess.Popen[bytes]) -> bool:
    """Closes the pipes, kills what still runs, and leaves it behind if that does not help. True: it is gone."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if process.poll() is None:
        with contextlib.suppress(OSError):
            # start_new_session: the group is the process's own, and goes with it.
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DEATH_SECONDS)
    gone = process.poll() is not None
    with _lock:
        if not gone:
            _abandoned.append(process)
        # Those that could die later are reaped here, so that no zombie is left of them.
        _abandoned[:] = [other for other in _abandoned if other.poll() is None]
    return gone


def ready_bytes(fd: int) -> bytes | None:
    """What is there in a pipe that is not waited for; None for nothing yet, b"" for the end."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
