"""What is asked of an API server, as a Protocol, with the errors by which answers are told apart.

`client.Client` is one over the network. Every call has an end; what is safe to repeat is repeated within it (reads,
applies, deletes bound to a UID: on 429 after the server's own Retry-After, on 5xx and a lost connection), anything else
is not. A conflict (409) is always the caller's: it has to read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rankmuster.collect.deadline import Deadline

Object = dict[str, Any]
"""One object as the API server has it, JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource: `group` is empty for the core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Of the resource, below the server's root."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(one for one in (name, subresource) if one is not None)]
        return "/" + "/".join(parts)


PODS = Kind("", "v1", "pods", "Pod")
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
EVENTS = Kind("", "v1", "events", "Event")
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
SERVICES = Kind("", "v1", "services", "Service")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Kind("batch", "v1", "jobs", "Job")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
LEADER_WORKER_SETS = Kind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
JOB_SETS = Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
POLICIES = Kind("rankmuster.dev", "v1alpha1", "communicationpolicies", "CommunicationPolicy")
INCIDENTS = Kind("rankmuster.dev", "v1alpha1", "communicationincidents", "CommunicationIncident")
ADMISSIONS = Kind("rankmuster.dev", "v1alpha1", "nodeadmissions", "NodeAdmission", namespaced=False)
RELEASES = Kind("rankmuster.dev", "v1alpha1", "approvedreleases", "ApprovedRelease")


class KubeError(Exception):
    """A call did not bring what was asked for; the message says what was asked of whom, and what came back.

    `status`: HTTP's, None where no answer came. `reason`: the Status object's. `late`: the deadline passed. `maybe`:
    whether it may have been done all the same.
    """

    def __init__(
        self, message: str, *, status: int | None = None, reason: str = "", late: bool = False, maybe: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.late, self.maybe = status, reason, late, maybe


class NotThere(KubeError):
    """404, or 410 of a name."""


class Conflict(KubeError):
    """409: another resourceVersion, another UID, a field that another manager owns, or a name that exists."""


class Forbidden(KubeError):
    """401 or 403: the message names verb and resource, which the role lacks."""


class Invalid(KubeError):
    """400 or 422: the server understood, and refuses the object."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Of a command in a container. `status`: its exit status, None where it did not come to its end."""

    status: int | None
    output: bytes
    errors: str


class Api(Protocol):
    """One cluster. Thread-safe. All raise KubeError; `deadline` bounds all attempts together."""

    def get(self, kind: Kind, name: str, namespace: str | None, deadline: Deadline) -> Object: ...

    def list(
        self,
        kind: Kind,
        namespace: str | None,
        deadline: Deadline,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> tuple[Object, ...]:
        """All pages of it; `labels`, `fields`: selectors. `namespace` None: of all namespaces."""
        ...

    def visit(
        self,
        kind: Kind,
        namespace: str | None,
        deadline: Deadline,
        each: Callable[[Object], object],
        anew: Callable[[], object] = ...,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> None:
        """The same, one object after the other: of 8,000 pods only a page is held. `anew`: called before the first, and
        again where all of it has to be read once more."""
        ...

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str | None, deadline: Deadline) -> Object:
        """Not repeated where it is not known whether it was done (KubeError.maybe)."""
        ...

    def apply(
        self,
        kind: Kind,
        body: Mapping[str, Any],
        deadline: Deadline,
        *,
        force: bool = False,
        subresource: str | None = None,
        manager: str | None = None,
    ) -> Object:
        """Server-side apply as our field manager (`manager` None: FIELD_MANAGER). `force`: takes fields over."""
        ...

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        deadline: Deadline,
        *,
        subresource: str | None = None,
        strategic: bool = False,
    ) -> Object:
        """A mapping is a merge patch (or a strategic one), a sequence a JSON patch. Bound to what was read where the
        body has a resourceVersion or a `test`: then it is repeated as well."""
        ...

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        deadline: Deadline,
        *,
        uid: str,
        foreground: bool = False,
        grace: int | None = None,
    ) -> None:
        """With the UID as a precondition. NotThere where it is gone, Conflict where another one has the name."""
        ...

    def log(
        self,
        name: str,
        namespace: str,
        deadline: Deadline,
        *,
        container: str | None = None,
        most_bytes: int = 4 << 20,
        previous: bool = False,
    ) -> bytes:
        """The end of a container's log. `previous`: of the container before its last restart."""
        ...

    def execute(
        self,
        name: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        deadline: Deadline,
        *,
        most_bytes: int = 1 << 30,
        write: Any = None,
    ) -> Ran:
        """A command in a container, without a terminal. `write`: called with each piece of its standard output
        instead of keeping it."""
        ...
