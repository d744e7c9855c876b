"""A link to a rank that lives in a network namespace of its own, and its end.

The namespace has no name: it lives through its process alone (`own_place`). Once the link is cut its connections may
outlive it for minutes, since nobody can tell them that they have ended, and the veth pair with them: so a keeper takes
the pair away as soon as this process has ended, whatever ended it.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from rankmuster.drill.own_place import LINK, LINK_NAME, wait_apart
from rankmuster.drill.plan import Backend

TOOL_SECONDS = 10.0
"""After which `ip` has hung; it takes some milliseconds."""
_KEEPER = ("sh", "-c", 'read _; exec ip link delete "$0"')
"""Waits on a pipe that only this process holds the other end of: the kernel closes it when nobody else can."""
_IP_FREEBIND = 15
"""ip(7): an address may be bound before the machine has it."""
_numbers = count()


class LinkFailed(OSError):
    """The link was not made or not cut; says which command said what."""


class Link:
    """`address` is this machine's end, `rank_address` the rank's: two of four of 198.18.0.0/15, which is kept for tests
    of networks (RFC 2544). Names and addresses come from this process's number, so that drills do not meet."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.name = f"rm{os.getpid():x}n{number % 256:x}"  # at most 15 characters
        block = (os.getpid() * 7 + number) % (1 << 15)
        first = (198 << 24) + (18 << 16) + block * 4
        self.address, self.rank_address = (socket.inet_ntoa((first + end).to_bytes(4, "big")) for end in (1, 2))
        self._pid: int | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    def environment(self, backend: Backend, *, culprit: bool) -> dict[str, str]:
        """What a rank is given so that it talks over the link; of gloo also the control group's beside NCCL."""
        name = LINK_NAME if culprit else self.name
        given = {"GLOO_SOCKET_IFNAME": name}
        if backend is Backend.NCCL:
            given["NCCL_SOCKET_IFNAME"] = f"={name}"
        return given | ({LINK: self.rank_address} if culprit else {})

    def store(self) -> socket.socket:
        """A socket for the job's store on this end, which need not be there yet. Raises OSError."""
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            made.bind((self.address, 0))
        except OSError:
            made.close()
            raise
        return made

    def join(self, pid: int, alive: Callable[[], bool]) -> None:
        """Makes the pair as soon as the process has its own namespace. Raises LinkFailed."""
        if not wait_apart(pid, "net", alive):
            raise LinkFailed(f"the rank with pid {pid} did not come into a network namespace of its own")
        self._pid = pid
        self._keeper = subprocess.Popen(  # noqa: S603  # our own words
            [*_KEEPER, self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        ours, theirs = self.name, LINK_NAME
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", str(pid))
        _run("ip", "address", "add", f"{self.address}/30", "dev", ours)
        _ipv4_alone("ip", "link", "set", ours, "addrgenmode", "none")
        _run("ip", "link", "set", ours, "up")
        _inside(pid, "ip", "link", "set", "lo", "up")
        _ipv4_alone(*_in(pid), "ip", "link", "set", theirs, "addrgenmode", "none")
        _inside(pid, "ip", "link", "set", theirs, "up")
        # The last: the rank waits for it.
        _inside(pid, "ip", "address", "add", f"{self.rank_address}/30", "dev", theirs)

    def cut(self) -> None:
        """Sets the rank's end down: this end loses its carrier, as when a cable is pulled. The other ranks' own way
        among themselves, which this end's address is part of, stays. Raises LinkFailed."""
        if self._pid is None:
            raise LinkFailed(f"the link {self.name} is not there")
        _inside(self._pid, "ip", "link", "set", LINK_NAME, "down")

    def close(self) -> None:
        """Takes the pair away, where the end of its namespace has not; may be called twice. Raises LinkFailed."""
        if self._keeper is None or self._keeper.stdin is None:
            return
        self._keeper.stdin.close()
        try:
            self._keeper.wait(TOOL_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise LinkFailed(f"the link {self.name} was not taken away within {TOOL_SECONDS:.0f} s") from error


def _in(pid: int) -> tuple[str, ...]:
    return ("nsenter", f"--net=/proc/{pid}/ns/net")


def _inside(pid: int, *command: str) -> None:
    _run(*_in(pid), *command)


def _ipv4_alone(*command: str) -> None:
    """No link-local address, which gloo could take for its own; refused by a kernel that has no IPv6 anyway."""
    with suppress(LinkFailed):
        _run(*command)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603  # iproute2 and util-linux, with words of our own
            command, capture_output=True, timeout=TOOL_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkFailed(f"`{' '.join(command)}`: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise LinkFailed(f"`{' '.join(command)}` ended with status {done.returncode}: {said}")
