"""What the client sends, what is made again, and what a bad answer becomes."""

from __future__ import annotations

import pytest
from kube_odd_server import body_of, bytes_of, client_of, odd, says, status_of

from rankmuster.adapters.kube.api import (
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotThere,
)
from rankmuster.collect.deadline import Deadline

POD = {"kind": "Pod", "metadata": {"name": "a", "uid": "u1"}}
SHUT = bytes_of(b"")


def soon(seconds: float = 10.0) -> Deadline:
    return Deadline.after(seconds)


def test_a_call_names_us_and_asks_for_what_was_meant() -> None:
    told: list[tuple[str, str, str, str, int | None]] = []
    with odd(says(200, POD)) as server:
        client = client_of(server.url, told=lambda *all_: told.append(all_))
        assert client.get(PODS, "a", "team", soon()) == POD
        client.patch(NODES, "n1", None, {"metadata": {"resourceVersion": "7"}}, soon())
        client.patch(PODS, "a", "team", {"status": {}}, soon(), subresource="status", strategic=True)
        client.patch(PODS, "a", "team", [{"op": "test", "path": "/metadata/uid", "value": "u1"}], soon())
        client.apply(LEADER_WORKER_SETS, {"metadata": {"name": "x", "namespace": "team"}}, soon(), force=True)
        client.delete(PODS, "a", "team", soon(), uid="u1", foreground=True, grace=30)
        client.create(PODS, POD, "team", soon())
    lines = [one.split(b"\r\n")[0].decode() for one in server.requests]
    assert lines == [
        "GET /api/v1/namespaces/team/pods/a HTTP/1.1",
        "PATCH /api/v1/nodes/n1?fieldManager=rankmuster HTTP/1.1",
        "PATCH /api/v1/namespaces/team/pods/a/status?fieldManager=rankmuster HTTP/1.1",
        "PATCH /api/v1/namespaces/team/pods/a?fieldManager=rankmuster HTTP/1.1",
        "PATCH /apis/leaderworkerset.x-k8s.io/v1/namespaces/team/leaderworkersets/x"
        "?fieldManager=rankmuster&force=true HTTP/1.1",
        "DELETE /api/v1/namespaces/team/pods/a HTTP/1.1",
        "POST /api/v1/namespaces/team/pods?fieldManager=rankmuster HTTP/1.1",
    ]
    assert all(b"User-Agent: rankmuster/" in one and b"Bearer s3cret" in one for one in server.requests)
    kinds = [b"merge-patch+json", b"strategic-merge-patch+json", b"json-patch+json", b"apply-patch+yaml"]
    assert all(kind in one for kind, one in zip(kinds, server.requests[1:5], strict=True))
    assert body_of(server.requests[4])["kind"] == "LeaderWorkerSet"
    assert body_of(server.requests[5]) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u1"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 30,
    }
    assert told[0] == ("get", "", "pods", "", 200)
    assert told[2] == ("patch", "", "pods", "status", 200)
    assert told[4] == ("patch", "leaderworkerset.x-k8s.io", "leaderworkersets", "", 200)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotThere),
        (409, "AlreadyExists", Conflict),
        (410, "Gone", NotThere),
        (422, "Invalid", Invalid),
        (418, "", KubeError),
    ],
)
def test_a_status_becomes_the_error_that_it_is(code: int, reason: str, kind: type[KubeError]) -> None:
    with odd(says(code, status_of(code, reason, "so it is"))) as server:
        pauses: list[float] = []
        with pytest.raises(kind, match=r"get pods team/a at http://127\.0\.0\.1") as raised:
            client_of(server.url, pauses=pauses).get(PODS, "a", "team", soon())
    assert (raised.value.status, raised.value.reason, raised.value.maybe) == (code, reason, False)
    assert type(raised.value) is kind
    assert not pauses
    assert "s3cret" not in str(raised.value)


def test_what_a_refusal_quotes_of_us_is_not_told_on() -> None:
    cause = {"field": "spec.env[0]", "message": 'Invalid value: "hunter2: x": must be shorter'}
    refusal = status_of(422, "Invalid", 'Pod "a" is invalid: Invalid value: "hunter2: x": no\nhunter2', causes=[cause])
    bare = status_of(422, "Invalid", 'Pod "a" is invalid: spec: Invalid value: {"token":"hunter2"}: no')
    with odd(says(422, refusal), says(422, bare)) as server:
        client = client_of(server.url)
        for _ in range(2):
            with pytest.raises(Invalid) as raised:
                client.create(PODS, POD, "team", soon())
            assert "hunter2" not in str(raised.value)
            assert "spec" in str(raised.value)


@pytest.mark.parametrize(
    "bad",
    [SHUT, says(500, b""), says(503, status_of(503, "ServiceUnavailable")), says(429, b""), says(504, b"<html>")],
)
def test_what_is_safe_is_made_again(bad: object) -> None:
    pauses: list[float] = []
    with odd(bad, bad, says(200, POD)) as server:
        client = client_of(server.url, pauses=pauses)
        assert client.get(PODS, "a", "team", soon()) == POD
        server.requests.clear()
        client.apply(NODES, {"metadata": {"name": "n"}}, soon())
        server.requests.clear()
        client.delete(PODS, "a", "team", soon(), uid="u1")
        server.requests.clear()
        client.patch(NODES, "n", None, {"metadata": {"resourceVersion": "7"}}, soon())
    assert pauses == [0.25, 0.5] * 4


@pytest.mark.parametrize("bad", [SHUT, says(500, b""), bytes_of(b"HTTP/1.1 201 X\r\nContent-Length: 99\r\n\r\n{")])
def test_what_may_have_been_done_is_not_made_again(bad: object) -> None:
    with odd(bad) as server:
        client = client_of(server.url)
        with pytest.raises(KubeError) as raised:
            client.create(PODS, POD, "team", soon())
        assert raised.value.maybe
        with pytest.raises(KubeError) as raised:
            client.patch(PODS, "a", "team", {"metadata": {"labels": {}}}, soon())
        assert raised.value.maybe
    assert len(server.requests) == 2


def test_a_create_that_was_turned_away_unseen_is_made_again() -> None:
    with odd(says(429, b"", Retry_After="2"), says(201, POD)) as server:
        pauses: list[float] = []
        assert client_of(server.url, pauses=pauses).create(PODS, POD, "team", soon()) == POD
    assert pauses == [2.25]


def test_a_server_that_nobody_reaches_has_done_nothing() -> None:
    with odd(SHUT) as server:
        url = server.url
    pauses: list[float] = []
    with pytest.raises(KubeError, match=r"no connection could be made .*attempt 8") as raised:
        client_of(url, pauses=pauses).create(PODS, POD, "team", soon(100))
    assert (raised.value.status, raised.value.maybe, len(pauses)) == (None, False, 7)
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 8]


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry_After": "3"}, 3.25),
        ({"Retry_After": "0"}, 0.25),
        ({"Retry_After": "-5"}, 0.25),
        ({"Retry_After": "soon"}, 0.25),
        ({"Retry_After": "9" * 40}, 60.25),
        # the server's clock is years behind: its own Date counts
        ({"Retry_After": "Sun, 06 Nov 1994 08:49:39 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 2.25),
        # no Date: ours, 1_000 s, and the date lies before it
        ({"Retry_After": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.25),
        ({"Retry_After": "Thu, 01 Jan 1970 00:16:42 GMT"}, 2.25),
        ({"Retry_After": "Sun, 99 Nov 1994"}, 0.25),
    ],
)
def test_the_server_says_how_long_to_wait(headers: dict[str, str], pause: float) -> None:
    pauses: list[float] = []
    with odd(says(429, b"", **headers), says(200, POD)) as server:
        client_of(server.url, pauses=pauses, wall=lambda: 1000.0).get(PODS, "a", "team", soon(100))
    assert pauses == [pause]


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    pauses: list[float] = []
    busy = says(429, status_of(429, "TooManyRequests", "busy", retryAfterSeconds=30))
    with odd(busy) as server, pytest.raises(KubeError, match="429 TooManyRequests") as raised:
        client_of(server.url, pauses=pauses).get(PODS, "a", "team", soon(5))
    assert (raised.value.status, raised.value.late, pauses, len(server.requests)) == (429, True, [], 1)


def test_names_that_would_ask_for_something_else_are_not_sent() -> None:
    with odd(says(200, POD)) as server:
        client = client_of(server.url)
        for name in ("", "..", "a/b", "a?x", "a\r\nX: y", "é", "a" * 300):
            with pytest.raises(Invalid, match="is no name"):
                client.get(PODS, name, "team", soon())
            with pytest.raises(Invalid):
                client.delete(PODS, name, "team", soon(), uid="u1")
        with pytest.raises(Invalid, match="namespace"):
            client.get(PODS, "a", "../x", soon())
        with pytest.raises(Invalid, match="namespace"):
            client.delete(PODS, "a", None, soon(), uid="u1")
        with pytest.raises(Invalid, match="UID is not known"):
            client.delete(PODS, "a", "team", soon(), uid="")
        with pytest.raises(Invalid, match="is no name"):
            client.apply(NODES, {"metadata": None}, soon())
    assert not server.requests
