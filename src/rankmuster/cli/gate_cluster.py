"""Records of releases in a cluster: ApprovedRelease objects of a namespace, over the official client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.cli.status import CommandError, doing
from rankmuster.gate.cluster_records import ClusterRecords, Exists
from rankmuster.gate.records import RecordsUnusable

SECONDS = 30.0
"""Of one call: an API server that is busy with a fleet answers within some."""


def cluster_records(namespace: str) -> ClusterRecords:
    """Raises CommandError."""
    from importlib.util import find_spec

    if not namespace:
        raise CommandError("name the namespace of the ApprovedReleases: kube:NAMESPACE")
    if find_spec("kubernetes") is None:
        raise CommandError("kubernetes is not installed: pip install 'rankmuster[kubernetes]'")
    with doing("connecting to the cluster"):
        from rankmuster.adapters.kube.api import RELEASES, Conflict, KubeError
        from rankmuster.adapters.kube.client import connect
        from rankmuster.collect.deadline import Deadline

        try:
            client = connect(None, None)
        except KubeError as error:
            raise CommandError(str(error)) from error

    def listing() -> Sequence[Mapping[str, Any]]:
        try:
            return client.list(RELEASES, namespace, Deadline.after(SECONDS))
        except KubeError as error:
            raise RecordsUnusable(f"{error}; are its definitions there (rankmuster kube crds)?") from error

    def creating(body: Mapping[str, Any]) -> None:
        try:
            client.create(RELEASES, body, namespace, Deadline.after(SECONDS))
        except Conflict as error:
            raise Exists from error
        except KubeError as error:
            raise RecordsUnusable(f"{error}: nothing is recorded") from error

    return ClusterRecords(namespace, listing, creating)
