"""Records of releases as ApprovedRelease objects, over real HTTP against a simulated API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_gate_records import NAME, approval
from typer.main import get_command

from gate_world import World, world
from kube_sim.running import serving, write_kubeconfig
from kube_sim.store import Store
from rankmuster.cli.gate import app
from rankmuster.cli.gate_cluster import cluster_records
from rankmuster.cli.status import CommandError, ExitStatus
from rankmuster.gate.chain import next_record
from rankmuster.gate.document import NotARecord, Tampered
from rankmuster.gate.records import RecordsUnusable
from rankmuster.kube.crd.render import definitions

KEY = "approvedreleases.rankmuster.dev"
SPACES = ("prod", "other")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    store = Store()
    for one in (*definitions(), *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in SPACES)):
        store.create(one)
    with serving(store) as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", server.url)))
        yield store


def test_records_are_objects_that_chain_like_files(store):
    place = cluster_records("prod")
    first = next_record(place.chain(NAME), approval("first", NCCL_ALGO="Ring"))
    assert place.add(first) == "ApprovedRelease prod/llm-0-000001"
    second = next_record(place.chain(NAME), approval("second"))
    place.add(second)
    chain = place.chain(NAME)
    assert (chain.current, chain.last_good) == (second, first)
    assert place.releases() == (NAME,)
    assert cluster_records("other").chain(NAME).current is None
    seen = store.get(KEY, "prod", "llm-0-000001")["spec"]
    assert (seen["release"], seen["number"], seen["by"], seen["versions"]) == (NAME, 1, "jane", {"nccl": "2.28.9"})
    with pytest.raises(RecordsUnusable, match="somebody else was first"):
        place.add(second)


def test_an_object_that_was_changed_or_renamed_is_refused(store):
    place = cluster_records("prod")
    place.add(next_record(place.chain(NAME), approval("first")))
    raw = store.get(KEY, "prod", "llm-0-000001")
    raw["spec"]["document"] = raw["spec"]["document"].replace("jane", "eve")
    store.update(raw)
    with pytest.raises(Tampered, match="llm-0-000001"):
        place.chain(NAME)
    raw = store.get(KEY, "prod", "llm-0-000001")
    raw["spec"]["document"] = "nonsense"
    store.update(raw)
    with pytest.raises(NotARecord, match="no whole JSON"):
        place.chain(NAME)


def test_the_api_server_is_told_to_refuse_any_change():
    (made,) = [one for one in definitions() if one["spec"]["names"]["kind"] == "ApprovedRelease"]
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert [rule["rule"] for rule in spec["x-kubernetes-validations"]] == ["self == oldSelf"]


def test_a_cluster_without_the_definition_or_without_an_answer_says_so(tmp_path, monkeypatch):
    with serving(Store()) as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", server.url)))
        with pytest.raises(RecordsUnusable, match="rankmuster kube crds"):
            cluster_records("prod").chain(NAME)
    monkeypatch.setattr("rankmuster.cli.gate_cluster.SECONDS", 1.0)
    with pytest.raises(RecordsUnusable):
        cluster_records("prod").chain(NAME)
    with pytest.raises(CommandError, match="kube:NAMESPACE"):
        cluster_records("")


def test_approve_and_status_on_a_cluster(store, tmp_path_factory, capsys):
    made: World = world(tmp_path_factory.mktemp("world"), time.time())

    def run(*arguments: object) -> int:
        return int(get_command(app).main(args=[str(one) for one in arguments], standalone_mode=False) or 0)

    made.settings(records="kube:prod")
    assert run("approve", "--config", made.config, "--by", "jane") == ExitStatus.HEALTHY
    assert run("status", "--config", made.config) == ExitStatus.HEALTHY
    assert run("status", "llm-0", "--records", "kube:prod") == ExitStatus.HEALTHY
    assert "record 1" in capsys.readouterr().out
