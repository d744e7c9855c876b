"""What is written is bound to what was read, and server-side apply never makes an object that had gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube_group_world import NAMESPACE, World, world
from rankmuster.adapters.kube.api import CONFIG_MAPS, Conflict, NotThere
from rankmuster.adapters.kube.rewriting import apply_to, rewrite

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": NAMESPACE}, "data": {"a": "1"}}


@pytest.fixture
def place() -> Iterator[World]:
    with world(MAP, nodes=1) as made:
        yield made


def uid_of(place: World) -> str:
    uid: str = place.cluster.store.get("configmaps", NAMESPACE, "m")["metadata"]["uid"]
    return uid


def test_a_change_that_is_none_is_not_written(place: World) -> None:
    found, wrote = rewrite(place.client, CONFIG_MAPS, "m", NAMESPACE, lambda _: None, place.after(5))
    assert (found["data"], wrote) == ({"a": "1"}, False)
    assert not place.server.recorder.asked(verb="patch")


def test_another_object_of_the_name_is_not_written(place: World) -> None:
    with pytest.raises(NotThere, match="another one now"):
        rewrite(place.client, CONFIG_MAPS, "m", NAMESPACE, lambda _: {"data": {}}, place.after(5), uid="before")
    assert not place.server.recorder.asked(verb="patch")


def test_an_apply_is_bound_to_its_object(place: World) -> None:
    made = apply_to(place.client, CONFIG_MAPS, "m", NAMESPACE, uid_of(place), {"data": {"b": "2"}}, place.after(5))
    assert made["data"] == {"a": "1", "b": "2"}
    managers = {one["manager"] for one in made["metadata"]["managedFields"]}
    assert "rankmuster" in managers
    with pytest.raises(Conflict):
        apply_to(place.client, CONFIG_MAPS, "m", NAMESPACE, "other", {"data": {"b": "3"}}, place.after(5))
    with pytest.raises(NotThere):
        apply_to(place.client, CONFIG_MAPS, "gone", NAMESPACE, "other", {"data": {"b": "3"}}, place.after(5))
    with pytest.raises(Conflict, match="conflict"):
        apply_to(
            place.client, CONFIG_MAPS, "m", NAMESPACE, uid_of(place), {"data": {"b": "9"}}, place.after(5), manager="x"
        )
    names = [one["metadata"]["name"] for one in place.cluster.store.list("configmaps", NAMESPACE)]
    assert "gone" not in names
