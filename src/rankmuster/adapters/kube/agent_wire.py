"""Words of the wire between the controller, the sidecars of pods and the agents of nodes: who is asked, what for, and
what an agent says that it keeps. Pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankmuster.model.kube import AGENT_PORT, SIDECAR_PORT, PodView
from rankmuster.report.inert import plain

WISH = "rankmuster.collect-wish/1"

SHA256, ENDING, POD_UID = "X-Rankmuster-Sha256", "X-Rankmuster-Ending", "X-Rankmuster-Pod-Uid"

DIGEST = re.compile(r"[0-9a-f]{64}")
BUNDLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,190}\.tar\.zst")


class NoAnswer(Exception):
    """Whoever was asked did not give what was asked for; the message says who, where, and what came instead.

    `status`: HTTP's, None where no answer came. `late`: no time was left. `reached`: somebody answered there.
    """

    def __init__(self, message: str, *, status: int | None = None, late: bool = False) -> None:
        super().__init__(message)
        self.status, self.late = status, late

    @property
    def reached(self) -> bool:
        return self.status is not None


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom a call goes to. `who`: in words. `uid`: of the pod that must answer there, None for a node's agent."""

    who: str
    address: str | None
    port: int
    uid: str | None = None

    @property
    def place(self) -> str:
        """Address and port, for messages."""
        address = f"[{self.address}]" if self.address and ":" in self.address else self.address
        return f"{address or 'no address'}:{self.port}"


@dataclass(frozen=True, slots=True)
class CollectWish:
    """What a sidecar or an agent is asked to collect. `seconds`: for it, the transfer not counted. `pods`: of the
    instance; an agent looks at those of its node."""

    instance: str
    incarnation: str | None
    seconds: float
    stopped: bool
    pods: tuple[PodView, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As the wire has it."""
        return {
            "schema": WISH,
            "instance": self.instance,
            "incarnation": self.incarnation,
            "seconds": round(self.seconds, 2),
            "stopped": self.stopped,
            "pods": [{"namespace": one.namespace, "name": one.name, "uid": one.uid} for one in self.pods],
        }


@dataclass(frozen=True, slots=True)
class Fetched:
    """A bundle that is here, whole and on the disk. `whole`: whether whoever took it says that nothing is missing."""

    path: Path
    sha256: str
    size: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class LeftBundle:
    """A bundle that lies on a node's disk. `at`: unix seconds, 0 where it is not said."""

    name: str
    sha256: str
    size: int
    pod_uid: str
    at: float = 0.0


def sidecar_of(pod: PodView, port: int = SIDECAR_PORT) -> Peer:
    """The sidecar of a pod, at the pod's own address."""
    return Peer(f"the sidecar of pod {pod.namespace}/{pod.name}", pod.ip, port, pod.uid)


def agent_of(pod: PodView, port: int = AGENT_PORT) -> Peer:
    """The agent of the node that a pod is on."""
    return agent_at(pod.node, pod.host_ip, port)


def agent_at(node: str | None, address: str | None, port: int = AGENT_PORT) -> Peer:
    """The agent of a node."""
    return Peer(f"the agent of node {node or address or 'unknown'}", address, port)


def host_of(peer: Peer) -> str:
    """The address as a URL has it: what an API server said is not put into one unseen. Raises NoAnswer."""
    if not peer.address:
        raise NoAnswer(f"{peer.who} was not asked: it has no address")
    try:
        address = ipaddress.ip_address(peer.address)
    except ValueError as error:
        raise NoAnswer(f"{peer.who} was not asked: {plain(peer.address, 60)} is no IP address") from error
    return f"[{address}]" if address.version == 6 else str(address)


def left_bundle(entry: object, pod_uid: str) -> LeftBundle | None:
    """One entry of an agent's list. None for what cannot be one: others' entries and names that lead elsewhere."""
    if not isinstance(entry, Mapping):
        return None
    name, sha256, size, at = entry.get("name"), entry.get("sha256"), entry.get("bytes"), entry.get("at")
    if not isinstance(name, str) or not BUNDLE_NAME.fullmatch(name) or entry.get("pod_uid") != pod_uid:
        return None
    if not isinstance(sha256, str) or not DIGEST.fullmatch(sha256):
        return None
    number = float(at) if isinstance(at, (int, float)) and not isinstance(at, bool) and abs(at) < 1e12 else 0.0
    return LeftBundle(name, sha256, size if isinstance(size, int) and size >= 0 else 0, pod_uid, number)
