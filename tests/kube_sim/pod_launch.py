"""Started as a program by the simulated kubelet: one process that makes namespaces, and what runs in them.

    pod_launch.py hold PID-NAMESPACE|-                holds a new pid namespace (a node's, or a pod's within it)
    pod_launch.py container SETTINGS.json             a container; its status is ours
    pod_launch.py exec PID SETTINGS.json COMMAND...   a command in a running container

As root, by the kernel's own calls, since there is nothing else to rest on. The first line of the output of `hold` and
`container` is the pid of what was started, as the machine numbers it.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import socket
import sys

NEWNS, NEWUTS, NEWPID, NEWNET = 0x00020000, 0x04000000, 0x20000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(libc.unshare(flags), f"unshare {flags:#x}")


def join(path: str, kind: int) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        _check(libc.setns(handle, kind), f"join {path}")
    finally:
        os.close(handle)


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    _check(
        libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None),
        f"mount {source} on {target}",
    )


def hold(above: str) -> None:
    """Lives until its standard input ends; all of the namespace goes with it."""
    child = _fork(None if above == "-" else above, new=True)
    if child:
        print(child, flush=True)
        os.close(1)
        _waited()
        return
    _rename("pause")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who is adopted is reaped
    while os.read(0, 1):
        pass


def _fork(namespace: str | None, *, new: bool, not_between: int | None = None) -> int:
    """A process within that pid namespace, or, `new`, the first one of a new namespace in it; its pid as this machine
    numbers it, 0 in itself. With `new` one stands between the two and waits: namespaces are made from within only.
    `not_between`: a handle that that one closes."""
    if namespace is not None:
        join(namespace, NEWPID)
    if not new:
        return os.fork()
    ready, told = os.pipe()
    middle = os.fork()
    if middle:
        os.close(told)
        os.read(ready, 1)
        os.close(ready)
        with open(f"/proc/{middle}/task/{middle}/children", encoding="ascii") as handle:
            return int(handle.read().split()[0])
    os.close(ready)
    unshare(NEWPID)
    child = os.fork()
    if not child:
        os.close(told)
        return 0
    os.write(told, b"1")
    os.close(told)
    if not_between is not None:
        os.close(not_between)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _, status = os.waitpid(child, 0)
    os._exit(_exit_code(status))


def _waited() -> int:
    _, status = os.wait()
    return _exit_code(status)


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _rename(name: str) -> None:
    libc.prctl(15, name.encode(), 0, 0, 0)


def container(settings: dict) -> int:
    join(settings["network"], NEWNET)
    started, until_started = os.pipe()
    child = _fork(settings["pid_namespace"], new=settings["own_pid_namespace"], not_between=until_started)
    if not child:
        os.close(started)
        try:
            _become(settings)
        except BaseException as error:
            os.write(2, f"{error}".encode())
            os._exit(128)
    os.close(until_started)
    os.read(started, 1)  # ends where it has become its command, or has failed to
    print(child, flush=True)
    os.close(1)
    return _waited()


def _become(settings: dict) -> None:
    os.setsid()
    unshare(NEWNS | NEWUTS)
    socket.sethostname(settings["hostname"])
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    log = os.open(settings["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    root = settings["root"]
    _root(root, settings)
    old = os.path.join(root, ".old")
    os.mkdir(old)
    _check(libc.syscall(PIVOT_ROOT[platform.machine()], root.encode(), old.encode()), "pivot_root")
    os.chdir("/")
    _check(libc.umount2(b"/.old", MNT_DETACH), "umount the machine's root")
    os.rmdir("/.old")
    if settings["read_only"]:
        mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    _run(settings, settings["command"])


def _run(settings: dict, command: list) -> None:
    os.chdir(settings["folder"])
    environment = settings["environment"]
    program = command[0]
    if "/" not in program:
        program = shutil.which(program, path=environment.get("PATH", os.defpath)) or program
    os.execve(program, command, environment)


def _root(root: str, settings: dict) -> None:
    """A file system of its own at `root`: the machine's, as an image, with what volumes put over it."""
    mount("tmpfs", root, "tmpfs", 0)
    image = ({"at": one, "from": one} for one in settings["image"])
    mounts = [{"at": "/tmp", "from": None}, *image, *settings["mounts"]]
    mounts.sort(key=lambda one: one["at"].rstrip("/").count("/"))  # what is above is mounted first
    points = {one["at"].rstrip("/") for one in mounts} | {"/proc", "/dev"}
    opened = {""}
    for point in points:
        while point:
            point = point.rpartition("/")[0]
            opened.add(point)
    hidden = {"/tmp"}
    for folder in sorted(opened, key=len):
        _open(root, folder, points, opened, hidden, read_only=settings["read_only"])
    os.makedirs(root + "/proc", exist_ok=True)
    mount("proc", root + "/proc", "proc", 0)
    _devices(root, settings)
    for one in mounts:
        target = root + one["at"].rstrip("/")
        if one["from"] is None:
            os.makedirs(target, exist_ok=True)
            continue
        if os.path.isdir(one["from"]):
            os.makedirs(target, exist_ok=True)
        elif not os.path.exists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        _bind(one["from"], target, read_only=bool(one.get("read_only")))


def _open(root: str, folder: str, points: set, opened: set, hidden: set, *, read_only: bool) -> None:
    """A folder that something is mounted into: made anew, with the machine's own entries bound into it one by one."""
    if folder.startswith(("/proc", "/dev", "/tmp")):
        return
    os.makedirs(root + folder, exist_ok=True)
    if not os.path.isdir(folder or "/"):
        return
    for entry in os.scandir(folder or "/"):
        path = f"{folder}/{entry.name}"
        if path in points or path in opened or path in hidden:
            continue
        target = root + path
        if entry.is_symlink():
            os.symlink(os.readlink(path), target)
        elif entry.is_dir():
            os.makedirs(target, exist_ok=True)
            _bind(path, target, read_only=read_only)
        elif entry.is_file():
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            _bind(path, target, read_only=read_only)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    mount(source, target, None, MS_BIND | MS_REC)
    if read_only:
        mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY)


def _devices(root: str, settings: dict) -> None:
    os.makedirs(root + "/dev", exist_ok=True)
    mount("tmpfs", root + "/dev", "tmpfs", 0)
    for name in [*DEVICES, *(one for one in os.listdir("/dev") if one.startswith("nvidia"))]:
        if os.path.exists(f"/dev/{name}") and not os.path.isdir(f"/dev/{name}"):
            os.close(os.open(f"{root}/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
            _bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{root}/dev/{name}")


def execute(pid: str, settings: dict, command: list) -> int:
    join(f"/proc/{pid}/ns/pid", NEWPID)
    join(f"/proc/{pid}/ns/uts", NEWUTS)
    join(f"/proc/{pid}/ns/net", NEWNET)
    join(f"/proc/{pid}/ns/mnt", NEWNS)
    child = os.fork()
    if not child:
        try:
            _run(settings, command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(126 if isinstance(error, PermissionError) else 127)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    return _waited()


def _settings(path: str) -> dict:
    with open(path, encoding="utf-8") as handle:
        found: dict = json.load(handle)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2])
    elif sys.argv[1] == "container":
        sys.exit(container(_settings(sys.argv[2])))
    else:
        sys.exit(execute(sys.argv[2], _settings(sys.argv[3]), sys.argv[4:]))
