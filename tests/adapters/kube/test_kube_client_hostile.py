"""Servers that hang, drip, lie, or give half an answer: the client ends in time, and never takes it for "none"."""

from __future__ import annotations

import time

import pytest
from kube_odd_server import bytes_of, client_of, drips, odd, says, silence, status_of

from rankmuster.adapters.kube.api import PODS, Forbidden, KubeError, NotThere
from rankmuster.collect.deadline import Deadline

POD = {"kind": "Pod", "metadata": {"name": "a"}}
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "hang",
    [
        silence,
        drips(b""),
        drips(HEAD + b"X: "),
        drips(HEAD + b"Content-Length: 900000\r\n\r\n{"),
        drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFF\r\n{"),
        drips(HEAD + b"\r\n"),
    ],
)
def test_a_server_that_never_ends_its_answer_is_left(hang: object) -> None:
    with odd(hang) as server:
        client = client_of(server.url)
        begun = time.monotonic()
        with pytest.raises(KubeError) as raised:
            client.get(PODS, "a", "team", Deadline.after(0.2))
        assert raised.value.late
        assert not raised.value.maybe
        with pytest.raises(KubeError) as raised:
            client.create(PODS, POD, "team", Deadline.after(0.2))
        assert raised.value.late
        assert raised.value.maybe
        assert time.monotonic() - begun < 30  # not for ever; no measure of speed


def test_an_attempt_that_hangs_leaves_time_for_another() -> None:
    with odd(silence, drips(HEAD + b"Content-Length: 9\r\n\r\n{"), says(200, POD)) as server:
        assert client_of(server.url, attempt_seconds=0.2).get(PODS, "a", "team", Deadline.after(30)) == POD


def test_no_time_left_asks_nobody() -> None:
    with odd(says(200, POD)) as server:
        with pytest.raises(KubeError, match="time") as raised:
            client_of(server.url).get(PODS, "a", "team", Deadline.after(0))
        assert raised.value.late
    assert not server.requests


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{",
        b'"x"',
        b"[" * 100_000,
        b'{"items": 1}',
        b'{"items": [1]}',
        b'{"kind": "PodList"}',
        b'{"kind": "Status", "status": "Success"}',
    ],
)
def test_garbage_is_not_an_empty_list(body: bytes) -> None:
    with odd(says(200, body)) as server, pytest.raises(KubeError):
        client_of(server.url).list(PODS, "team", Deadline.after(10))


def test_an_answer_beyond_all_bounds_is_not_read() -> None:
    with odd(drips(HEAD + b"\r\n" + b"x" * 5000)) as server, pytest.raises(KubeError, match="longer than"):
        client_of(server.url, most_bytes=4096, most=1).get(PODS, "a", "team", Deadline.after(10))


@pytest.mark.parametrize("items", [None, []])
def test_a_list_of_none_is_one(items: object) -> None:
    with odd(says(200, {"kind": "PodList", "metadata": {}, "items": items})) as server:
        assert client_of(server.url).list(PODS, None, Deadline.after(10)) == ()
    assert server.requests[0].startswith(b"GET /api/v1/pods?limit=250 ")


def test_a_list_comes_in_pages_with_its_selectors() -> None:
    one = says(200, {"kind": "PodList", "metadata": {"continue": "t&1"}, "items": [{"n": 1}]})
    two = says(200, {"kind": "PodList", "metadata": None, "items": [{"n": 2}]})
    with odd(one, says(500, b""), two) as server:
        found = client_of(server.url).list(PODS, "team", Deadline.after(10), labels="a=b,c", fields="spec.nodeName=n")
    assert found == ({"n": 1}, {"n": 2})
    query = b"?labelSelector=a%3Db%2Cc&fieldSelector=spec.nodeName%3Dn&limit=250"
    assert server.requests[0].split()[1].endswith(query)
    assert server.requests[2].split()[1].endswith(query + b"&continue=t%261")


def test_pages_that_expired_are_read_from_the_first_one() -> None:
    first = says(200, {"items": [{"n": 1}], "metadata": {"continue": "t"}})
    gone = says(410, status_of(410, "Expired", "The provided continue parameter is too old"))
    last = says(200, {"items": [{"n": 3}]})
    with odd(first, gone, first, last) as server:
        assert client_of(server.url).list(PODS, "team", Deadline.after(10)) == ({"n": 1}, {"n": 3})
    with odd(first, gone, first, gone, first, gone) as server, pytest.raises(NotThere, match="410 Expired"):
        client_of(server.url).list(PODS, "team", Deadline.after(10))
    assert len(server.requests) == 6


def test_credentials_that_are_refused_are_read_anew_once() -> None:
    with odd(says(401, b""), says(200, POD)) as server:
        assert client_of(server.url).get(PODS, "a", "team", Deadline.after(10)) == POD
    with odd(says(401, b"")) as server:
        with pytest.raises(Forbidden, match="credentials are not accepted"):
            client_of(server.url).get(PODS, "a", "team", Deadline.after(10))
        assert len(server.requests) == 2


def test_a_redirect_is_not_followed_with_our_token() -> None:
    with (
        odd(says(302, b"", Location="http://127.0.0.1:1/x")) as server,
        pytest.raises(KubeError, match="302") as raised,
    ):
        client_of(server.url).get(PODS, "a", "team", Deadline.after(10))
    assert raised.value.status == 302
    assert len(server.requests) == 1


def test_the_end_of_a_log_is_kept() -> None:
    with odd(says(200, b"first\n" * 50_000 + b"the last line\n")) as server:
        client = client_of(server.url)
        text = client.log("a", "team", Deadline.after(10), container="engine", most_bytes=100)
        assert len(text) == 100
        assert text.endswith(b"the last line\n")
        assert len(client.log("a", "team", Deadline.after(10), previous=True)) == 300_014
    assert server.requests[0].split()[1] == (
        b"/api/v1/namespaces/team/pods/a/log?tailLines=1000&timestamps=false&container=engine"
    )


def test_half_an_answer_is_asked_for_again() -> None:
    half = bytes_of(HEAD + b"Content-Length: 900\r\n\r\n" + b'{"kind": "Pod"}')
    chunk = bytes_of(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}")
    plain = bytes_of(HEAD + b'\r\n{"kind": "P')
    noise = bytes_of(b"\x16\x03\x01garbage\r\n\r\n")
    with odd(half, chunk, plain, noise, says(200, POD)) as server:
        assert client_of(server.url).get(PODS, "a", "team", Deadline.after(10)) == POD
