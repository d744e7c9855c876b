"""What a rank does to its own surroundings before anything else; all of it ends with the process.

Namespaces are the calling thread's (unshare(2)), so that this comes before any other thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rankmuster.drill.fault_kinds import Place

MOUNTS_OF = "RANKMUSTER_DRILL_MOUNTS_OF"
"""Variable with the pid of the rank whose mounts the others share."""
LINK = "RANKMUSTER_DRILL_LINK"
"""Variable with the rank's own address, once its link is there."""
LINK_NAME = "drill0"
"""Of the interface at the rank's end."""
LINK_SECONDS = 30.0
"""For the parent to make the link; it takes a fraction of one."""
ENTER_SECONDS = 30.0
"""For a rank to be in its own namespace: it is the first thing it does, but Python has to start."""
SHM_BYTES = 8 << 10
"""Of the small /dev/shm: two pages, where a connection of NCCL takes megabytes."""
MEMLOCK_BYTES = 16 << 10
"""That may be locked: less than one queue of an RDMA device takes."""
_POLL_SECONDS = 0.02
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 16384, 1 << 18
_CAP_IPC_LOCK = 1 << 14
_SIOCGIFADDR = 0x8915
_CAPABILITY_VERSION = 0x20080522


def enter(place: Place | None, *, culprit: bool) -> None:
    """Makes what is of this rank. Raises OSError, or TimeoutError when the link does not come."""
    if place is Place.SMALL_SHM:
        # NCCL takes shared memory between two processes whose /dev/shm is the same device, and goes another way else.
        small_shm() if culprit else same_mounts(int(os.environ[MOUNTS_OF]))
    elif not culprit:
        return
    elif place is Place.MEMLOCK:
        little_memlock()
    elif place is Place.OWN_NETWORK:
        own_network(os.environ[LINK])


def small_shm() -> None:
    """A mount namespace of its own, with another /dev/shm; nobody else sees it. Raises OSError."""
    _unshare(_CLONE_NEWNS)
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    _mount(b"tmpfs", b"/dev/shm", b"tmpfs", _MS_NOSUID | _MS_NODEV, f"size={SHM_BYTES}".encode())


def same_mounts(pid: int) -> None:
    """Into the mount namespace of another process. Raises OSError."""
    here = Path.cwd()
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    try:
        _checked(_libc().setns(namespace, _CLONE_NEWNS), "setns")
    finally:
        os.close(namespace)
    os.chdir(here)  # setns(2) has left it


def apart(pid: int, kind: str) -> bool:
    """Whether another process has a namespace of its own; `kind`: "net" or "mnt"."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return False


def wait_apart(pid: int, kind: str, alive: Callable[[], bool]) -> bool:
    """Waits until it has; False when it ended first, or Python did not come so far in `ENTER_SECONDS`."""
    end = time.monotonic() + ENTER_SECONDS
    while not apart(pid, kind):
        if not alive() or time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def little_memlock() -> None:
    """Without the capability that lets root lock what it likes. Raises OSError."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (MEMLOCK_BYTES, MEMLOCK_BYTES))
    head = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    sets = ctypes.create_string_buffer(24)
    _checked(_libc().capget(head, sets), "capget")
    effective, permitted, inheritable, *high = struct.unpack("=6I", sets.raw[:24])
    kept = (effective & ~_CAP_IPC_LOCK, permitted & ~_CAP_IPC_LOCK, inheritable & ~_CAP_IPC_LOCK, *high)
    _checked(_libc().capset(head, ctypes.create_string_buffer(struct.pack("=6I", *kept))), "capset")


def own_network(address: str) -> None:
    """A network namespace of its own; comes back once it has `address`. Raises OSError, TimeoutError."""
    _unshare(_CLONE_NEWNET)
    with suppress(OSError):  # else connections over a link that was cut keep the namespace for minutes after its end
        Path("/proc/sys/net/ipv4/tcp_orphan_retries").write_text("1")
    end = time.monotonic() + LINK_SECONDS
    while not _has(address):
        if time.monotonic() > end:
            raise TimeoutError(f"the link with the address {address} did not come within {LINK_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _has(address: str) -> bool:
    """Whether this network namespace's end of the link has the address; a bind would not tell where the kernel lets
    programs bind to addresses that are not there."""
    asked = struct.pack("16s24x", LINK_NAME.encode())
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, asked)
    except OSError:
        return False
    return socket.inet_ntoa(answer[20:24]) == address


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _unshare(flags: int) -> None:
    _checked(_libc().unshare(flags), "unshare")


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    _checked(_libc().mount(source, target, kind, ctypes.c_ulong(flags), data), f"mount on {target.decode()}")


def _checked(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
