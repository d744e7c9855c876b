"""Over HTTP: pages of one moment, watches that go on, expire and are cut, refusals in Kubernetes' own words."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kube_sim.asking import APPLY, MERGE, ask, watched
from kube_sim.made import definition, pod
from kube_sim.running import serving
from kube_sim.server import Server
from kube_sim.store import Store

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Store()) as made:
        yield made


def test_pages_are_of_one_moment_also_when_things_change_meanwhile(server: Server) -> None:
    for name in "abcd":
        server.store.create(pod(name))
    first = ask(server.url, "GET", f"{PODS}?limit=2").body
    assert first["metadata"]["remainingItemCount"] == 2
    server.store.delete("pods", "default", "c", grace=0)
    server.store.create(pod("e"))
    more = ask(server.url, "GET", f"{PODS}?limit=9&continue={first['metadata']['continue']}").body
    names = [one["metadata"]["name"] for page in (first, more) for one in page["items"]]
    assert names == ["a", "b", "c", "d"]
    assert more["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert "kind" not in first["items"][0]  # as Kubernetes' own lists


def test_a_page_after_a_compaction_is_gone(server: Server) -> None:
    for name in "abc":
        server.store.create(pod(name))
    first = ask(server.url, "GET", f"{PODS}?limit=1").body
    server.store.create(pod("d"))
    server.store.compact()
    gone = ask(server.url, "GET", f"{PODS}?limit=1&continue={first['metadata']['continue']}")
    assert (gone.status, gone.reason) == (410, "Expired")


def test_a_watch_goes_on_where_a_list_was(server: Server) -> None:
    version = ask(server.url, "GET", PODS).body["metadata"]["resourceVersion"]
    server.store.create(pod(labels={"x": "1"}))
    path = f"{PODS}?watch=1&resourceVersion={version}&labelSelector=x%3D1"
    with watched(server.url, path) as events:
        assert next(events)["type"] == "ADDED"
        server.store.patch("pods", "default", "a", {"metadata": {"labels": {"y": "1"}}})
        assert next(events)["type"] == "MODIFIED"
        server.store.create(pod("b"))
        server.store.patch("pods", "default", "a", {"metadata": {"labels": {"x": "2"}}})
        assert next(events)["type"] == "DELETED"  # out of the selection
        server.store.patch("pods", "default", "a", {"metadata": {"labels": {"x": "1"}}})
        assert next(events)["type"] == "ADDED"
        server.store.delete("pods", "default", "a", grace=0)
        last = next(events)
        assert (last["type"], last["object"]["metadata"]["resourceVersion"]) == (
            "DELETED",
            str(server.store.resource_version),
        )
        assert server.watching.drop("pods") == 1
        assert list(events) == []


def test_a_watch_from_before_a_compaction_says_410_and_ends(server: Server) -> None:
    server.store.create(pod())
    server.store.compact()
    with watched(server.url, f"{PODS}?watch=true&resourceVersion=1") as events:
        told = list(events)
    assert [(one["type"], one["object"]["code"]) for one in told] == [("ERROR", 410)]


def test_initial_events_end_with_a_bookmark_and_bookmarks_come_when_told(server: Server) -> None:
    server.store.create(pod())
    path = f"{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with watched(server.url, path) as events:
        assert [next(events)["type"], next(events)["object"]["metadata"]["annotations"]] == [
            "ADDED",
            {"k8s.io/initial-events-end": "true"},
        ]
        server.watching.bookmark()
        told = next(events)
        assert told["type"] == "BOOKMARK"
        assert told["object"]["metadata"]["resourceVersion"] == str(server.store.resource_version)


def test_a_watch_ends_with_its_time_and_no_event_is_lost_or_doubled(server: Server) -> None:
    def create() -> None:
        for number in range(200):
            server.store.create(pod(f"p{number}"))

    thread = threading.Thread(target=create)
    with watched(server.url, f"{PODS}?watch=1&resourceVersion={server.store.resource_version}") as events:
        thread.start()
        names = [next(events)["object"]["metadata"]["name"] for _ in range(200)]
    thread.join()
    assert names == [f"p{number}" for number in range(200)]
    with watched(server.url, f"{PODS}?watch=1&timeoutSeconds=0.05&labelSelector=x") as events:
        assert list(events) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status", "reason"),
    [
        ("GET", f"{PODS}/none", None, "", 404, "NotFound"),
        ("GET", "/apis/none.example/v1/things", None, "", 404, "NotFound"),
        ("POST", "/api/v1/namespaces/none/pods", pod(), "application/json", 404, "NotFound"),
        ("POST", PODS, b"{", "application/json", 400, "BadRequest"),
        ("POST", PODS, pod(namespace="other"), "application/json", 400, "BadRequest"),
        ("POST", PODS, {**pod(), "kind": "Node"}, "application/json", 400, "BadRequest"),
        ("POST", PODS, b"x", "application/vnd.kubernetes.protobuf", 415, "UnsupportedMediaType"),
        ("POST", PODS, b"x" * (4 << 20), "application/json", 413, "RequestEntityTooLarge"),
        ("PUT", PODS, pod(), "application/json", 405, "MethodNotAllowed"),
        ("PATCH", f"{PODS}/a", {}, "application/json", 415, "UnsupportedMediaType"),
        ("PATCH", f"{PODS}/none", {}, MERGE, 404, "NotFound"),
        ("PATCH", f"{PODS}/a", pod(), APPLY, 422, "Invalid"),
        ("GET", f"{PODS}?resourceVersion=99999", None, "", 504, "Timeout"),
        ("GET", f"{PODS}?continue=x", None, "", 400, "BadRequest"),
        ("GET", f"{PODS}?labelSelector=a%20b", None, "", 400, "BadRequest"),
        ("GET", f"{PODS}?watch=1&fieldSelector=spec.x%3D1", None, "", 400, "BadRequest"),
    ],
)
def test_refusals(server: Server, method: str, path: str, body: object, kind: str, status: int, reason: str) -> None:
    server.store.create(pod())
    told = ask(server.url, method, path, body, kind)
    assert (told.status, told.reason) == (status, reason)


def test_what_somebody_creates_has_no_status_of_theirs_and_a_warning_for_what_is_unknown(server: Server) -> None:
    given = {**pod(), "status": {"phase": "Running"}}
    given["spec"]["odd"] = 1
    told = ask(server.url, "POST", PODS, given, User_Agent="tester/1.0 (x)")
    assert told.body["status"]["phase"] == "Pending"
    assert told.headers["Warning"] == '299 - "unknown field "spec.odd""'
    assert [one["manager"] for one in told.body["metadata"]["managedFields"]] == ["tester"]


def test_a_job_that_is_deleted_without_a_policy_leaves_its_pods_behind(server: Server) -> None:
    """batch/v1's default is Orphan: who deletes a Job has to name a policy."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "x"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    server.store.create(job)
    path = "/apis/batch/v1/namespaces/default/jobs/j"
    assert ask(server.url, "DELETE", path).body["metadata"]["finalizers"] == ["orphan"]
    server.store.patch("jobs.batch", "default", "j", {"metadata": {"finalizers": None}})
    server.store.create(job)
    assert ask(server.url, "DELETE", f"{path}?propagationPolicy=Background").body["status"] == "Success"


def test_many_are_deleted_by_a_selector(server: Server) -> None:
    for name in "ab":
        server.store.create(pod(name, node=None, labels={"x": name}))
    told = ask(server.url, "DELETE", f"{PODS}?labelSelector=x%3Da")
    assert [one["metadata"]["name"] for one in told.body["items"]] == ["a"]
    assert [one["metadata"]["name"] for one in server.store.list("pods")] == ["b"]


def test_a_definition_is_discovered_at_once_in_both_ways(server: Server) -> None:
    ask(server.url, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition({"type": "object"}))
    plain = ask(server.url, "GET", "/apis/example.dev/v1").body
    assert [one["name"] for one in plain["resources"]] == ["things", "things/status"]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    whole = ask(server.url, "GET", "/apis", Accept=accept)
    assert whole.headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
    assert "example.dev" in [one["metadata"]["name"] for one in whole.body["items"]]
    assert ask(server.url, "GET", "/version").body["gitVersion"].startswith("v1.")
