"""A command in a container: its output in pieces, its exit status, and servers that go silent in the middle."""

from __future__ import annotations

import json

import pytest
from kube_odd_server import Answer, client_of, drips, frame, odd, says, silence, status_of, upgrades

from rankmuster.adapters.kube.api import Forbidden, KubeError, NotThere
from rankmuster.collect.deadline import Deadline

GOOD = frame(3, json.dumps({"status": "Success"}).encode())


def failed(code: str) -> bytes:
    causes = [{"reason": "ExitCode", "message": code}]
    return frame(3, json.dumps({"status": "Failure", "details": {"causes": causes}}).encode())


def run(answer: Answer, seconds: float = 10.0, **more: object) -> tuple[object, list[bytes]]:
    told: list[tuple[object, ...]] = []
    with odd(answer) as server:
        client = client_of(server.url, told=lambda *all_: told.append(all_))
        try:
            command = ["cat", "/a b", "&x=1"]
            return client.execute("p", "team", "engine", command, Deadline.after(seconds), **more), server.requests
        finally:
            assert [one[:4] for one in told] == [("get", "", "pods", "exec")]


def test_output_errors_and_the_exit_status_are_told_apart() -> None:
    parts = [
        frame(1, b""),
        frame(1, b"out\x00" * 50),
        frame(2, "schl\u00e4gt ".encode()),
        frame(1, b"end"),
        frame(2, b"fehl"),
    ]
    ran, requests = run(upgrades(*parts, failed("7")))
    assert (ran.status, ran.output, ran.errors) == (7, b"out\x00" * 50 + b"end", "schl\u00e4gt fehl")
    line = requests[0].split(b"\r\n")[0]
    assert line == (
        b"GET /api/v1/namespaces/team/pods/p/exec?container=engine&stdout=true&stderr=true&stdin=false&tty=false"
        b"&command=cat&command=%2Fa+b&command=%26x%3D1 HTTP/1.1"
    )
    assert b"Authorization: Bearer s3cret" in requests[0]
    assert b"User-Agent: rankmuster/" in requests[0]
    assert b"v5.channel.k8s.io,v4.channel.k8s.io" in requests[0].replace(b", ", b",")


def test_pieces_go_where_they_are_wanted() -> None:
    pieces: list[bytes] = []
    ran, _ = run(upgrades(frame(1, b"a" * 1000), frame(0, b"", opcode=9), frame(1, b"b"), GOOD), write=pieces.append)
    assert (ran.status, ran.output, pieces) == (0, b"", [b"a" * 1000, b"b"])


def test_the_status_ends_it_also_where_the_connection_stays_open() -> None:
    ran, _ = run(upgrades(frame(1, b"x"), GOOD, then=silence), 60.0)
    assert (ran.status, ran.output) == (0, b"x")


@pytest.mark.parametrize(
    "frames", [[frame(1, b"x")], [frame(1, b"x"), frame(3, b"{")], [frame(1, b"x"), frame(3, b"[]")]]
)
def test_a_stream_that_ends_untold_has_no_exit_status(frames: list[bytes]) -> None:
    ran, _ = run(upgrades(*frames))
    assert (ran.status, ran.output) == (None, b"x")
    ran, _ = run(upgrades(*frames, frame(0, b"\x03\xe8", opcode=8)))
    assert ran.status is None


@pytest.mark.parametrize(
    "then", [silence, drips(b""), drips(b"\x82"), drips(b"\x82\x7e\x0f\xff\x01"), drips(b"\x82\x7f" + b"\x7f" * 8)]
)
def test_a_server_that_goes_silent_is_left_at_the_deadline(then: Answer) -> None:
    with pytest.raises(KubeError) as raised:
        run(upgrades(frame(1, b"x"), then=then), 0.2)
    assert raised.value.maybe


@pytest.mark.parametrize("hang", [silence, drips(b""), drips(b"HTTP/1.1 101 X\r\n")])
def test_a_server_that_never_opens_is_left_too(hang: Answer) -> None:
    with pytest.raises(KubeError) as raised:
        run(hang, 0.2)
    assert raised.value.late


def test_what_cannot_be_run_says_why() -> None:
    status = {"status": "Failure", "message": "container not found\n(engine)"}
    with pytest.raises(KubeError, match=r"could not be run: container not found \(engine\)"):
        run(upgrades(frame(3, json.dumps(status).encode())))
    with pytest.raises(NotThere, match=r"get pods/exec team/p at .*404 NotFound"):
        run(says(404, status_of(404, "NotFound", "pods p not found")))
    with pytest.raises(Forbidden, match="403"):
        run(says(403, status_of(403, "Forbidden")))
    with pytest.raises(KubeError, match="500"):
        run(says(500, b"<html>"))
    with pytest.raises(KubeError, match="no exec was opened"):  # and our token goes nowhere else
        run(says(302, b"", Location="http://127.0.0.1:1/"))


def test_more_than_is_wanted_is_not_kept() -> None:
    with pytest.raises(KubeError, match="more than 10 bytes"):
        run(upgrades(frame(1, b"x" * 11), GOOD), most_bytes=10)
    ran, _ = run(upgrades(*[frame(2, b"e" * 60_000)] * 3, GOOD))
    assert len(ran.errors) == 64 << 10


def test_what_the_receiver_raises_goes_through() -> None:
    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run(upgrades(frame(1, b"x"), GOOD), write=full)
