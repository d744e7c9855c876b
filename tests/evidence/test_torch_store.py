"""Rendezvous and store errors: who never joined, what could not be reached, whose store went away."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.torch_store import READER
from rankmuster.model.frameworklog import StoreError, StoreErrorKind


def read(text: str) -> list[StoreError]:
    return [x for x in READER.read(Blob("all.log", text.encode())).observations if isinstance(x, StoreError)]


@pytest.mark.parametrize(
    ("line", "kind", "address", "joined", "expected"),
    [
        (
            "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined.",
            StoreErrorKind.MISSING_MEMBERS, None, 3, 4,
        ),
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
            "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)",
            StoreErrorKind.MISSING_MEMBERS, None, 3, 4,
        ),
        (
            "[E616 02:08:15.93 socket.cpp:1023] [c10d] The client socket has timed out after 600000ms while trying to "
            "connect to (172.17.0.9, 50437).",
            StoreErrorKind.CONNECT_FAILED, "172.17.0.9:50437", None, None,
        ),
        (
            "[rank15]:[W305 10:17:38.40 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=102, addr=h8:33978, "
            "remote=10.99.91.59:5000): Broken pipe",
            StoreErrorKind.STORE_LOST, "10.99.91.59:5000", None, None,
        ),
        (
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. "
            "Unable to find address for: eth7",
            StoreErrorKind.GLOO_INTERFACE, None, None, None,
        ),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            StoreErrorKind.RENDEZVOUS_TIMEOUT, None, None, None,
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
            StoreErrorKind.STORE_TIMEOUT, None, None, None,
        ),
    ],
)  # fmt: skip
def test_each_error_is_told_with_what_it_names(line, kind, address, joined, expected):
    [error] = read(line + "\n")
    assert (error.kind, error.address, error.joined, error.expected) == (kind, address, joined, expected)


def test_a_lost_store_that_is_told_every_second_is_one_error():
    line = (
        '[rank1]:[W1120 01:13:20.89 P.cpp:1662] [PG ID 0 PG GUID 0(default_pg) Rank 1] Failed to check the "should dump" '
        "flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe\n"
    )
    [error] = read(line * 500)
    assert error.kind is StoreErrorKind.STORE_LOST
    assert error.origin.rank == 1


def test_first_tries_and_ordinary_lines_are_no_errors():
    assert not read(
        "[W1129 21:05:51.22 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n"
        "[W1129 21:05:51.22 socket.cpp:759] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 111 "
        "- Connection refused).\n"
        "[rank2]:[E1129 21:08:13.15 P.cpp:1849] Observed flight recorder dump signal from another rank via TCPStore.\n"
    )
