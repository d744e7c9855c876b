"""LeaderWorkerSets (v0.10): groups of one leader and its workers, which are made anew together.

A StatefulSet of leaders, and one of workers for each leader that its leader pod owns. The rule that counts: with
RecreateGroupOnPodRestart a pod that is being deleted, or a container of which has restarted while the pod is Running
or Pending, has its leader deleted in the foreground; the workers' StatefulSet goes before the leader, and the leaders'
StatefulSet makes a new one (pkg/controllers/pod_controller.go, handleRestartPolicy).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, hash_of, key_of
from kube_sim.objects import (
    Object,
    add_environment,
    annotations,
    controller_of,
    deleting,
    is_true,
    labels,
    name,
    namespace,
    owned_by,
    phase,
    set_condition,
    uid,
)

PREFIX = "leaderworkerset.sigs.k8s.io"
NAME, GROUP, WORKER, KEY = f"{PREFIX}/name", f"{PREFIX}/group-index", f"{PREFIX}/worker-index", f"{PREFIX}/group-key"
REVISION, SIZE, LEADER = f"{PREFIX}/template-revision-hash", f"{PREFIX}/size", f"{PREFIX}/leader-name"
RECREATE = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")
KIND = "leaderworkersets.leaderworkerset.x-k8s.io"


class LeaderWorkerSets(Controller):
    """Keys: ("lws", namespace, name) and ("pod", namespace, name)."""

    watches = (KIND, "pods", "statefulsets.apps")

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        if kind == KIND:
            return (("lws", *key_of(obj)),)
        owner = labels(obj).get(NAME)
        if owner is None:
            return ()
        found = [("lws", namespace(obj), owner)]
        if kind == "pods":
            return [("pod", *key_of(obj)), *found]
        above = controller_of(obj)
        return [("pod", namespace(obj), above["name"]), *found] if above and above["kind"] == "Pod" else found

    def reconcile(self, key: tuple[str, str | None, str]) -> None:
        kind, *place = key
        if kind == "lws":
            self._set((place[0], str(place[1])))
        else:
            self._pod((place[0], str(place[1])))

    # -- the set

    def _set(self, key: Key) -> None:
        lws = self.cache.get(KIND, *key)
        if lws is None or deleting(lws):
            return
        self._service(lws)
        leaders = self.cache.get("statefulsets.apps", *key)
        wanted = self._leaders(lws)
        if leaders is None:
            self.create(wanted)
        elif (
            leaders["spec"].get("replicas") != wanted["spec"]["replicas"]
            or labels(leaders).get(REVISION) != (labels(wanted)[REVISION])
        ):

            def bring(current: Object) -> None:
                current["metadata"]["labels"] = wanted["metadata"]["labels"]
                current["spec"] = wanted["spec"]

            self.edit(leaders, bring)
        self._report(lws)

    def _service(self, lws: Object) -> None:
        """Headless, with the set's name, and not-ready addresses in it."""
        if self.cache.get("services", namespace(lws), name(lws)) is None:
            self.create(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {
                        "name": name(lws),
                        "namespace": namespace(lws),
                        "labels": {NAME: name(lws)},
                        "ownerReferences": [owned_by(lws)],
                    },
                    "spec": {
                        "clusterIP": "None",
                        "selector": {NAME: name(lws)},
                        "publishNotReadyAddresses": True,
                    },
                }
            )

    def _leaders(self, lws: Object) -> Object:
        of = lws["spec"]["leaderWorkerTemplate"]
        template = copy.deepcopy(of.get("leaderTemplate") or of["workerTemplate"])
        metadata = template.setdefault("metadata", {})
        size = int(of.get("size", 1))
        revision = self._revision(lws)
        metadata["labels"] = {
            **(metadata.get("labels") or {}), NAME: name(lws), WORKER: "0", REVISION: revision,
        }  # fmt: skip
        metadata["annotations"] = {**(metadata.get("annotations") or {}), SIZE: str(size)}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": name(lws),
                "namespace": namespace(lws),
                "labels": {NAME: name(lws), REVISION: revision},
                "ownerReferences": [owned_by(lws)],
            },
            "spec": {
                "replicas": int(lws["spec"].get("replicas", 1)),
                "podManagementPolicy": "Parallel",
                "serviceName": name(lws),
                "selector": {"matchLabels": {NAME: name(lws), WORKER: "0"}},
                "template": template,
            },
        }

    @staticmethod
    def _revision(lws: Object) -> str:
        return hash_of(lws["spec"]["leaderWorkerTemplate"])

    def _report(self, lws: Object) -> None:
        replicas = int(lws["spec"].get("replicas", 1))
        leaders = [self.cache.get("pods", namespace(lws), f"{name(lws)}-{one}") for one in range(replicas)]
        ready = sum(one is not None and self._group_ready(one) for one in leaders)

        def change(current: Object) -> None:
            status = current.setdefault("status", {})
            status.update(
                replicas=sum(one is not None for one in leaders),
                readyReplicas=ready,
                updatedReplicas=sum(
                    one is not None and labels(one).get(REVISION) == self._revision(lws) for one in leaders
                ),
                hpaPodSelector=f"{NAME}={name(lws)},{WORKER}=0",
            )
            done = ready == replicas
            set_condition(
                current, "Available", done, self.now, "AllGroupsReady" if done else "GroupsNotReady", "groups are ready"
            )
            set_condition(current, "Progressing", not done, self.now, "GroupsProgressing", "Replicas are progressing")

        self.status(lws, change)

    def _group_ready(self, leader: Object) -> bool:
        if not is_true(leader, "Ready") or deleting(leader):
            return False
        size = int(annotations(leader).get(SIZE, "1"))
        workers = self.cache.get("statefulsets.apps", namespace(leader), name(leader))
        return size == 1 or (workers is not None and (workers.get("status") or {}).get("readyReplicas", 0) == size - 1)

    # -- a pod

    def _pod(self, key: Key) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None or NAME not in labels(pod):
            return
        lws = self.cache.get(KIND, namespace(pod), labels(pod)[NAME])
        if lws is None or deleting(lws) or self._recreated(pod, lws):
            return
        if labels(pod).get(WORKER) == "0" and not deleting(pod):
            self._workers(pod, lws)

    def _recreated(self, pod: Object, lws: Object) -> bool:
        """handleRestartPolicy: whether the group's leader is gone or going."""
        policy = lws["spec"]["leaderWorkerTemplate"].get("restartPolicy", "RecreateGroupOnPodRestart")
        if policy not in RECREATE or not (deleting(pod) or _restarted(pod)):
            return False
        leader: Object | None = pod
        if labels(pod).get(WORKER) != "0":
            leader = self.cache.get("pods", namespace(pod), annotations(pod).get(LEADER, ""))
            if leader is None or labels(leader).get(REVISION) != labels(pod).get(REVISION):
                return False
            above = controller_of(pod)
            workers = self.cache.by_uid(above["uid"]) if above else None
            if workers is not None and (controller_of(workers) or {}).get("uid") != uid(leader):
                return False  # of the group before
        assert leader is not None
        if deleting(leader):
            return True
        if policy == "RecreateGroupAfterStart" and self._pending(leader):
            return False
        self.delete(leader, "Foreground")
        index = labels(leader)[GROUP]
        self.event(
            lws,
            "RecreateGroup",
            f"Worker pod {name(pod)} failed, deleted leader pod {name(leader)} to recreate group {index}",
        )
        return True

    def _pending(self, leader: Object) -> bool:
        key = labels(leader)[KEY]
        pods = [one for one in self.cache.all("pods", namespace(leader)) if labels(one).get(KEY) == key]
        return len(pods) < int(annotations(leader).get(SIZE, "1")) or any(phase(one) == "Pending" for one in pods)

    def _workers(self, leader: Object, lws: Object) -> None:
        size = int(annotations(leader).get(SIZE, "1"))
        if size < 2:
            return
        if lws["spec"].get("startupPolicy") == "LeaderReady" and not is_true(leader, "Ready"):
            return
        if self.cache.get("statefulsets.apps", namespace(leader), name(leader)) is not None:
            return
        of = lws["spec"]["leaderWorkerTemplate"]
        template = copy.deepcopy(of["workerTemplate"])
        metadata = template.setdefault("metadata", {})
        shared = {
            NAME: name(lws),
            GROUP: labels(leader)[GROUP],
            KEY: labels(leader)[KEY],
            REVISION: labels(leader)[REVISION],
        }
        metadata["labels"] = {**(metadata.get("labels") or {}), **shared}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), SIZE: str(size), LEADER: name(leader)}
        self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {
                    "name": name(leader),
                    "namespace": namespace(leader),
                    "labels": shared,
                    "ownerReferences": [owned_by(leader)],
                },
                "spec": {
                    "replicas": size - 1,
                    "ordinals": {"start": 1},
                    "podManagementPolicy": "Parallel",
                    "serviceName": name(lws),
                    "selector": {"matchLabels": {k: shared[k] for k in (NAME, GROUP, KEY)}},
                    "template": template,
                },
            }
        )


def admit_pod(pod: Object) -> None:
    """What the webhook for pods adds: index, key, and where the leader is."""
    its = pod["metadata"]["labels"]
    if NAME not in its:
        return
    ordinal = name(pod).rsplit("-", 1)[1]
    if its.get(WORKER) == "0":
        its.setdefault(GROUP, ordinal)
        its.setdefault(KEY, hashlib.sha1(f"{namespace(pod)}/{name(pod)}".encode()).hexdigest())
    else:
        its[WORKER] = ordinal
    add_environment(
        pod,
        {
            "LWS_LEADER_ADDRESS": f"{its[NAME]}-{its[GROUP]}.{its[NAME]}.{namespace(pod)}",
            "LWS_GROUP_SIZE": annotations(pod).get(SIZE, "1"),
            "LWS_WORKER_INDEX": its[WORKER],
        },
    )


def _restarted(pod: Object) -> bool:
    """podutils.ContainerRestarted."""
    status = pod.get("status") or {}
    of_all = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return phase(pod) in ("Running", "Pending") and any(one.get("restartCount", 0) > 0 for one in of_all)
