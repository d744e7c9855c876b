"""The server as a process of its own, with objects from files, turned and looked at from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube_sim.asking import ask, watched
from kube_sim.made import pod
from kube_sim.store import Store

PODS = "/api/v1/namespaces/ml/pods"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "one.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1, uid: u1}\n---\n")
    (tmp_path / "two.jsonl").write_text(json.dumps(pod(namespace="ml")) + "\n")
    files = [word for name in ("one.yaml", "two.jsonl") for word in ("--objects", str(tmp_path / name))]
    config = tmp_path / "config"
    command = [sys.executable, "-m", "kube_sim.serve", *files, "--fleet", "3,2,2", "--kubeconfig", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told: str = json.loads(process.stdout.readline())["url"]
            assert told in config.read_text()
            yield told
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_it_serves_what_was_in_the_files_and_can_be_turned(url: str) -> None:
    nodes = ask(url, "GET", "/api/v1/nodes").body["items"]
    assert [one["metadata"]["name"] for one in nodes] == ["n1", "node-00000", "node-00001", "node-00002"]
    assert nodes[0]["metadata"]["uid"] == "u1"
    assert len(ask(url, "GET", PODS, User_Agent="me/1").body["items"]) == 5
    told = ask(url, "GET", "/simulated/requests?agent=me").body
    assert told == {"counts": [["", "pods", "list", 1]], "rights": [["", "pods", "list"]], "refused": []}
    assert ask(url, "POST", "/simulated/faults", {"harm": "refuse", "status": 503}).status == 200
    assert ask(url, "GET", PODS).status == 503
    assert ask(url, "POST", "/simulated/faults", {"harm": "odd"}).status == 400
    with watched(url, f"{PODS}?watch=1") as events:
        assert next(events)["type"] == "ADDED"
        assert ask(url, "POST", "/simulated/drop?resource=pods").body == {"dropped": 1}
        assert len(list(events)) == 4
    ask(url, "POST", "/simulated/compact")
    with watched(url, f"{PODS}?watch=1&resourceVersion=1") as events:
        assert [one["type"] for one in events] == ["ERROR"]
    assert ask(url, "GET", "/simulated/memory").body["resident_bytes"] > 1 << 20
    assert ask(url, "GET", "/simulated/none").status == 404


def test_a_fleet_is_the_same_every_time_and_fits_the_schemas() -> None:
    from kube_sim.fleet import fleet

    made = list(fleet(2, 1, 2))
    assert made == list(fleet(2, 1, 2))
    store = Store()
    for one in made:
        store.create(one, check="Strict")
    assert len(store.list("pods", "ml", fields="spec.nodeName=node-00001")) == 1
