"""Sidecars and agents that are asked: what comes is whole and what was promised, or it is said who gave what
instead."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from page_server import Answer, reply, serving
from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.agent_wire import CollectWish, LeftBundle, NoAnswer, Peer, agent_of, sidecar_of
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import PodView

DATA = b"\x28\xb5\x2f\xfd" + b"bundle" * 1000
SUM = hashlib.sha256(DATA).hexdigest()
POD = PodView(namespace="serving", name="llm-0", uid="u-0", created=0.0, node="n1", ip="127.0.0.1", host_ip="127.0.0.1")
WISH = CollectWish("serving.llm.0", "u-0.r1", 8.0, True, (POD,))


def sends(data: bytes) -> Answer:
    return lambda connection, request, count: connection.sendall(data)


def hang(connection: socket.socket, request: bytes, count: int) -> None:
    while connection.recv(65536):
        pass


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def caller(tmp_path: Path, **more: int) -> AgentCall:
    (tmp_path / "token").write_text("s3cret-token\n")
    return AgentCall(tmp_path / "token", **more)


def soon(seconds: float = 5.0) -> Deadline:
    return Deadline.after(seconds)


def bundle(data: bytes = DATA, sha256: str = SUM, *more: str) -> bytes:
    return reply(data, "200 OK", f"X-Rankmuster-Sha256: {sha256}", *more)


def test_a_bundle_is_brought_whole_and_the_wish_says_of_which_start(tmp_path: Path) -> None:
    requests: list[bytes] = []

    def answer(connection: socket.socket, request: bytes, count: int) -> None:
        while not request.endswith(b"]}"):
            request += connection.recv(65536)
        requests.append(request)
        connection.sendall(bundle(DATA, SUM, "X-Rankmuster-Ending: partial"))

    with serving(answer) as url:
        got = caller(tmp_path).collect(sidecar_of(POD, port_of(url)), WISH, tmp_path / "b.tar.zst", soon())
    assert (tmp_path / "b.tar.zst").read_bytes() == DATA
    assert (got.sha256, got.size, got.whole) == (SUM, len(DATA), False)
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/collect HTTP/1.1")
    assert b"Authorization: Bearer s3cret-token" in head
    assert b"X-Rankmuster-Pod-Uid: u-0" in head
    said = json.loads(body)
    assert said["incarnation"] == "u-0.r1"
    assert said["stopped"] is True
    assert said["pods"] == [{"namespace": "serving", "name": "llm-0", "uid": "u-0"}]
    assert [one.name for one in tmp_path.iterdir() if ".part" in one.name] == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (sends(bundle(DATA, "0" * 64)), "is not what it said"),
        (sends(reply(DATA)), "without saying their sha256"),
        (sends(bundle(b"", hashlib.sha256(b"").hexdigest())), "is empty"),
        (sends(bundle()[:-7]), "broke off"),
        (sends(reply('{"error": "busy with HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345"}', "503 Busy")), "status 503"),
        (sends(reply("{}", "500 No")), "status 500"),
        (sends(reply("no", "401 Unauthorized")), "does not accept our token"),
        (sends(b"\x00\xff"), "the connection broke"),
        (sends(bundle(b"x" * 9000, hashlib.sha256(b"x" * 9000).hexdigest())), "has more than"),
    ],
)
def test_what_is_no_whole_bundle_is_none_and_who_sent_it_is_said(tmp_path: Path, answer: Answer, words: str) -> None:
    with serving(answer) as url, pytest.raises(NoAnswer) as caught:
        caller(tmp_path, most_bundle=8000).collect(sidecar_of(POD, port_of(url)), WISH, tmp_path / "b.tar.zst", soon())
    text = str(caught.value)
    assert words in text
    assert "the sidecar of pod serving/llm-0" in text
    assert "s3cret" not in text
    assert "hf_abc" not in text
    assert sorted(one.name for one in tmp_path.iterdir()) == ["token"]


def test_one_that_hangs_costs_the_deadline_and_no_more(tmp_path: Path) -> None:
    with serving(hang) as url, pytest.raises(NoAnswer) as caught:
        caller(tmp_path).state(POD, soon(0.3), port=port_of(url))
    assert caught.value.late
    assert not caught.value.reached


@pytest.mark.parametrize("address", [None, "", "evil.example/x?", "127.0.0.1:80@x", "1.2.3", "fe80::1%eth0/../"])
def test_an_address_that_is_none_is_not_asked(tmp_path: Path, address: str | None) -> None:
    with pytest.raises(NoAnswer, match="was not asked"):
        caller(tmp_path).healthy(Peer("the agent of node n1", address, 9466), soon())


@pytest.mark.parametrize("token", [b"", b"two words", b"\xff\xfe", b"x" * 5000, None])
def test_without_a_usable_token_nobody_is_asked_and_it_is_not_quoted(tmp_path: Path, token: bytes | None) -> None:
    if token is not None:
        (tmp_path / "t").write_bytes(token)
    requests: list[bytes] = []
    with serving(sends(reply("{}")), requests=requests) as url, pytest.raises(NoAnswer) as caught:
        AgentCall(tmp_path / "t").state(POD, soon(), port=port_of(url))
    assert requests == []
    assert "two words" not in str(caught.value)


def test_the_token_is_read_anew_for_each_call(tmp_path: Path) -> None:
    calls, requests = caller(tmp_path), []
    with serving(sends(reply('{"schema": "rankmuster.watch/1"}')), requests=requests) as url:
        calls.state(POD, soon(), port=port_of(url))
        (tmp_path / "token").write_text("renewed")
        assert calls.state(POD, soon(), port=port_of(url)) == {"schema": "rankmuster.watch/1"}
    assert [b"Bearer s3cret-token" in requests[0], b"Bearer renewed" in requests[1]] == [True, True]


@pytest.mark.parametrize("body", ["[]", "null", "{", "[" * 100_000, "\xff"])
def test_a_snapshot_that_is_none_is_said(tmp_path: Path, body: str) -> None:
    with serving(sends(reply(body))) as url, pytest.raises(NoAnswer, match="its snapshot is no"):
        caller(tmp_path).state(POD, soon(), port=port_of(url))


def test_what_a_pod_has_left_is_listed_and_brought_and_others_entries_are_not_believed(tmp_path: Path) -> None:
    good = {"name": "u-0-1.tar.zst", "sha256": SUM, "bytes": len(DATA), "pod_uid": "u-0", "at": 5.0}
    listed = [
        {**good, "name": "../../etc/passwd"},
        {**good, "pod_uid": "another"},
        {**good, "sha256": "no"},
        {**good, "at": None, "name": "older.tar.zst", "bytes": -1},
        good,
        None,
        7,
    ]

    def answer(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(reply(json.dumps(listed)) if b"?pod=u-0 " in request else bundle())

    with serving(answer) as url:
        peer = agent_of(POD, port_of(url))
        found = caller(tmp_path).left(peer, "u-0", soon())
        assert [one.name for one in found] == ["u-0-1.tar.zst", "older.tar.zst"]
        got = caller(tmp_path).fetch(peer, found[0], tmp_path / "left.tar.zst", soon())
        assert got.path.read_bytes() == DATA
        changed = LeftBundle("u-0-1.tar.zst", "1" * 64, 5, "u-0")
        with pytest.raises(NoAnswer, match="is not what it said"):
            caller(tmp_path).fetch(peer, changed, tmp_path / "other.tar.zst", soon())


@pytest.mark.parametrize("body", ["{}", "null", "nothing"])
def test_a_list_that_is_none_is_said(tmp_path: Path, body: str) -> None:
    with serving(sends(reply(body))) as url, pytest.raises(NoAnswer, match="agent of node n1"):
        caller(tmp_path).left(agent_of(POD, port_of(url)), "u-0", soon())


def test_a_bundle_is_left_with_an_agent(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(DATA)
    taken: list[bytes] = []

    def answer(connection: socket.socket, request: bytes, count: int) -> None:
        data = request
        while len(data.partition(b"\r\n\r\n")[2]) < len(DATA):
            data += connection.recv(65536)
        taken.append(data)
        connection.sendall(reply("", "201 Created"))

    with serving(answer) as url:
        assert caller(tmp_path).put(agent_of(POD, port_of(url)), "x.tar.zst", tmp_path / "b", "u-0", soon()) == SUM
    head, _, body = taken[0].partition(b"\r\n\r\n")
    assert body == DATA
    assert head.startswith(b"PUT /v1/bundles/x.tar.zst")
    assert f"X-Rankmuster-Sha256: {SUM}".encode() in head
    with pytest.raises(NoAnswer, match="no name of a bundle"):
        caller(tmp_path).put(agent_of(POD), "../x", tmp_path / "b", "u-0", soon())


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with serving(sends(bundle())) as url:
        peer = sidecar_of(POD, port_of(url))
        with pytest.raises(NoAnswer, match="cannot be written"):
            caller(tmp_path).collect(peer, WISH, tmp_path / "none" / "b", soon())
        (tmp_path / "b").write_text("mine")
        with pytest.raises(NoAnswer, match="cannot be written"):
            caller(tmp_path).collect(peer, WISH, tmp_path / "b", soon())
    assert (tmp_path / "b").read_text() == "mine"
