"""A whole admission over HTTP, under the roles of an installation: an observing one asks for no write but of its own
objects, an acting one for nothing that its role lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kube_admission_world import NAMESPACE, Object, World, condition, said
from test_kube_admission_pairs import side, speeds

from kube_sim.running import serving
from kube_sim.server import Server
from rankmuster.adapters.kube.client import Client
from rankmuster.adapters.kube.connecting import Credentials
from rankmuster.adapters.kube.retrying import Pace
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.rbac import CLUSTER, Part, rules
from rankmuster.kube.rbac import NAMESPACE as WITHIN

RBAC = "rbac.authorization.k8s.io"
ACCOUNT = "rankmuster-controller"


def client_of(url: str) -> Client:
    from kubernetes.client import Configuration  # type: ignore[import-untyped]

    def load() -> object:
        configuration = Configuration(host=url)
        configuration.api_key["BearerToken"] = "Bearer t"
        configuration.api_key["authorization"] = "Bearer t"
        return configuration

    return Client(Credentials(load, Deadline.after(30)), pace=Pace(sleep=lambda _: None))


def install(world: World, parts: tuple[Part, ...]) -> None:
    """The roles of these parts."""
    for kind, table, space in (("ClusterRole", CLUSTER, None), ("Role", WITHIN, NAMESPACE)):
        metadata = {"name": "ours"} if space is None else {"name": "ours", "namespace": space}
        held = [rule.render() for part in parts for rule in table.get(part, ())]
        world.store.create({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": held})
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        reference = {"apiGroup": RBAC, "kind": kind, "name": "ours"}
        body = {"metadata": metadata, "subjects": [subject], "roleRef": reference}
        world.store.create({"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", **body})


@contextmanager
def served(folder: Path, parts: tuple[Part, ...], **settings: object) -> Iterator[tuple[World, Server]]:
    world = World(folder, **settings)  # type: ignore[arg-type]
    install(world, parts)
    with serving(world.store, kubelet=world.cluster.kubelet) as server:
        server.access.admit("t", f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
        server.access.enforced = True
        world.api = client_of(server.url)  # type: ignore[assignment]
        world.started()
        yield world, server
    world.close()


def pair(node: str, raw: Object) -> object:
    return side(node, int(raw["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]), 48.0)


def nodes_are_tested(world: World) -> None:
    """Nodes that come are tested alone and with a good one, and one of them once more for each new driver."""
    world.cluster.node("old", gpus=4)
    assert world.turns(lambda: world.phase("old") == "Provisional")
    world.cluster.run(60)
    for name in ("one", "two"):
        world.cluster.node(name, gpus=4)
        assert world.turns(lambda name=name: world.phase(name) == "Passed")  # type: ignore[misc]
    for version in ("590.1", "590.2"):
        world.driver("two", version)
        assert world.turns(lambda: world.phase("two") == "Testing")


def test_an_acting_installation_admits_a_pair_under_its_roles_alone(tmp_path: Path) -> None:
    parts = (Part.OBSERVE, Part.ADMISSION)
    pods = speeds(pair)  # type: ignore[arg-type]
    with served(tmp_path, parts, pods=pods, pairs="require", pair_floor=20.0, keep=1) as (world, server):
        nodes_are_tested(world)
        assert world.turns(lambda: world.phase("two") == "Passed" and not world.tainted("two"))
        used = server.recorder.rights()
    assert used <= rules(parts)
    assert {("batch", "jobs", "create"), ("", "services", "create"), ("", "nodes", "patch")} <= used


@pytest.mark.parametrize("acting", [False, True])
def test_an_observing_installation_touches_nothing_of_others(tmp_path: Path, acting: bool) -> None:
    """Also where its settings would act: the roles are what it cannot."""
    with served(tmp_path, (Part.OBSERVE,), acting=acting, pods=lambda node, _: said(side(node, 0, 1.0))) as (
        world,
        server,
    ):
        world.cluster.node("old", gpus=4)
        assert world.turns(lambda: world.phase("old") == "Provisional")
        world.cluster.run(60)
        world.cluster.node("fresh", gpus=4)
        world.turns(lambda: False, seconds=60)
        message = condition(world.now("fresh"), "Tested")["message"]
        assert ("could not taint node fresh" in message) is acting
        assert ("would taint node fresh" in message) is not acting
        assert not world.tainted("fresh")
        writes = {one for one in server.recorder.rights() if one[2] not in ("get", "list", "watch")}
    own = {one for one in writes if one[1].startswith("nodeadmissions")}
    assert writes - own == ({("", "nodes", "patch")} if acting else set())
