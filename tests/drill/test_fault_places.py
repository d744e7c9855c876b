"""What surrounds a rank and is not as it should be: made for real, in processes of their own, and gone afterwards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from drill_helpers import PATIENCE, until

from rankmuster.drill.fault_needs import obstacle
from rankmuster.drill.faults import fault_named
from rankmuster.drill.link import Link, LinkFailed
from rankmuster.drill.own_place import (
    LINK,
    LINK_NAME,
    MEMLOCK_BYTES,
    MOUNTS_OF,
    SHM_BYTES,
    same_mounts,
    wait_apart,
)
from rankmuster.drill.plan import Backend

NO_LINK, NO_SHM = obstacle(fault_named("link_cut")), obstacle(fault_named("small_shm"))
needs_link = pytest.mark.skipif(bool(NO_LINK), reason=NO_LINK)
needs_shm = pytest.mark.skipif(bool(NO_SHM), reason=NO_SHM)

SHM = """
import os
from rankmuster.drill import own_place
own_place.small_shm()
size = os.statvfs("/dev/shm")
print(size.f_blocks * size.f_frsize)
"""
SHARED = """
import os
from rankmuster.drill import own_place
from rankmuster.drill.fault_kinds import Place
here = os.getcwd()
own_place.enter(Place.SMALL_SHM, culprit="RANKMUSTER_DRILL_MOUNTS_OF" not in os.environ)
size = os.statvfs("/dev/shm")
print(os.stat("/dev/shm").st_dev, size.f_blocks * size.f_frsize, os.getcwd() == here, flush=True)
input()
"""
MEMLOCK = """
import ctypes
from rankmuster.drill import own_place
own_place.little_memlock()
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(1 << 20)
print(libc.mlock(buffer, 1 << 20), libc.mlock(buffer, 4096))
"""
RANK = """
import os, socket
from rankmuster.drill import own_place
from rankmuster.drill.fault_kinds import Place
own_place.enter(Place.OWN_NETWORK, culprit=True)
with socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), 10) as to:
    print(*(name for _, name in socket.if_nameindex()), flush=True)
    to.settimeout(None)
    while said := to.recv(10):
        print(said.decode(), end="", flush=True)
"""
PARENT = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_fault_places import joined
with joined() as (link, talk, rank):
    link.cut()
    print(link.name, rank.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def said_by(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE, check=True)
    return done.stdout.decode().strip()


@needs_shm
def test_a_small_shm_is_its_own_alone() -> None:
    before = os.statvfs("/dev/shm").f_blocks
    assert said_by(SHM) == str(SHM_BYTES)
    assert os.statvfs("/dev/shm").f_blocks == before


@needs_shm
def test_all_ranks_have_the_small_one_in_common_as_nccl_asks_for() -> None:
    command, pipes = [sys.executable, "-c", SHARED], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as first:
        assert wait_apart(first.pid, "mnt", lambda: first.poll() is None)
        with subprocess.Popen(command, env={**os.environ, MOUNTS_OF: str(first.pid)}, **pipes) as other:
            said = [one.communicate(b"\n", timeout=PATIENCE)[0].split() for one in (other, first)]
    assert said[0] == said[1]
    assert said[0][1:] == [str(SHM_BYTES).encode(), b"True"]


@needs_shm
def test_a_mount_namespace_of_who_is_gone_cannot_be_shared() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        assert not wait_apart(ended.pid, "mnt", lambda: False)
        with pytest.raises(OSError, match=f"/proc/{ended.pid}/ns/mnt"):
            same_mounts(ended.pid)


def test_little_may_be_locked_even_by_root() -> None:
    assert 4096 < MEMLOCK_BYTES < 1 << 20
    assert said_by(MEMLOCK) == "-1 0"


@contextmanager
def joined() -> Iterator[tuple[Link, socket.socket, subprocess.Popen[bytes]]]:
    """A process with a link, and what it is talked to by."""
    link = Link()
    with link.store() as store:
        store.listen()
        more = {LINK: link.rank_address, "HOST": link.address, "PORT": str(store.getsockname()[1])}
        command = [sys.executable, "-c", RANK]
        with subprocess.Popen(command, env={**os.environ, **more}, stdout=subprocess.PIPE) as rank:
            try:
                link.join(rank.pid, lambda: rank.poll() is None)
                talk, address = store.accept()
                with talk:
                    assert address[0] == link.rank_address
                    yield link, talk, rank
            finally:
                rank.kill()
                link.close()
                link.close()


def there(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


@needs_link
def test_a_link_that_is_cut_carries_nothing_and_leaves_this_sides_own_way() -> None:
    with joined() as (link, talk, rank):
        assert rank.stdout is not None
        assert rank.stdout.readline().split() == [b"lo", LINK_NAME.encode()]
        talk.sendall(b"before\n")
        assert rank.stdout.readline() == b"before\n"
        os.set_blocking(rank.stdout.fileno(), False)
        link.cut()
        talk.sendall(b"after\n")
        with socket.create_server((link.address, 0)) as other:
            socket.create_connection(other.getsockname(), timeout=PATIENCE).close()
        time.sleep(0.5)
        assert rank.stdout.read() in (None, b"")
        assert rank.poll() is None
        assert there(link.name)
    assert not there(link.name)


@needs_link
def test_nothing_of_a_link_outlives_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", PARENT, str(Path(__file__).parent)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    name, pid = done.stdout.decode().split()
    try:
        until(lambda: not there(name), "rid of the link")
    finally:
        os.kill(int(pid), 9)


def test_a_rank_that_ends_before_it_has_its_network_is_told() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        with pytest.raises(LinkFailed, match=f"pid {ended.pid} did not come into a network namespace of its own"):
            Link().join(ended.pid, lambda: False)


def test_a_link_that_was_not_made_cannot_be_cut_and_need_not_be_closed() -> None:
    link = Link()
    with pytest.raises(LinkFailed, match="is not there"):
        link.cut()
    link.close()


def test_two_links_have_two_names_and_no_address_in_common() -> None:
    one, other = Link(), Link()
    assert one.name != other.name
    assert len(one.name) <= 15
    assert len({one.address, one.rank_address, other.address, other.rank_address}) == 4


def test_ranks_talk_over_the_link_each_by_its_own_end() -> None:
    link = Link()
    assert link.environment(Backend.GLOO, culprit=False) == {"GLOO_SOCKET_IFNAME": link.name}
    assert link.environment(Backend.GLOO, culprit=True) == {
        "GLOO_SOCKET_IFNAME": LINK_NAME,
        LINK: link.rank_address,
    }
    assert link.environment(Backend.NCCL, culprit=True)["NCCL_SOCKET_IFNAME"] == f"={LINK_NAME}"
