"""What the namespace controller does: a namespace that is deleted takes all in it along, and goes when it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_sim.history import Change
from kube_sim.problems import ApiProblem

if TYPE_CHECKING:
    from kube_sim.store import Store


def keep_namespaces(store: Store) -> None:
    """From now on, at each change."""

    def look(change: Change) -> None:
        place = change.place
        if place.key == "namespaces":
            if change.kind == "MODIFIED" and "deletionTimestamp" in change.after["metadata"]:
                _empty(store, place.name)
        elif change.kind == "DELETED" and place.namespace:
            try:
                namespace = store.row("namespaces", None, place.namespace)
            except ApiProblem:
                return
            if "deletionTimestamp" in namespace["metadata"]:
                _empty(store, place.namespace)

    store.follow(None, look)


def _empty(store: Store, name: str) -> None:
    left = 0
    for info in store.kinds():
        if not info.namespaced:
            continue
        for one in store.rows(info.key, name):
            left += 1
            if "deletionTimestamp" not in one["metadata"]:
                store.delete(info.key, name, one["metadata"]["name"], uid=one["metadata"]["uid"])
    if not left:
        namespace = store.get("namespaces", None, name)
        namespace["spec"]["finalizers"] = []
        store.update(namespace)
