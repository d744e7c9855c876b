"""Whether an instance serves, asked at its first pod's own address: past every gateway, and only of the new start."""

from __future__ import annotations

import ipaddress
from typing import Protocol

from rankmuster.adapters.kube.api import KubeError
from rankmuster.adapters.kube.find import Find
from rankmuster.adapters.kube.naming import anchor_uid
from rankmuster.adapters.probe_http import HttpProbe
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending


class Request(Protocol):
    """What is asked. `body` None: GET."""

    @property
    def path(self) -> str: ...

    @property
    def body(self) -> str | None: ...

    @property
    def expect(self) -> str | None: ...

    @property
    def seconds(self) -> float: ...


class PodProbe:
    """A `Probe` of `incident.actuators`."""

    def __init__(self, find: Find, port: int, request: Request, *, name: str = "pod_probe") -> None:
        self.name = name
        self._find, self._port, self._request = find, port, request

    def serves(self, incarnation: str | None, deadline: Deadline) -> Answer:
        """FAILED where the first pod is not of that incarnation, has no address, or gives no good answer."""
        try:
            anchor = self._find(deadline.within(deadline.remaining() / 2)).anchor
        except KubeError as error:
            ending = Ending.TIMED_OUT if error.late else Ending.FAILED
            return Answer(ending=ending, note=f"which pod to ask is not known: {error}")
        if anchor is None:
            return Answer(ending=Ending.FAILED, note="its first pod is not there yet")
        if incarnation is not None and anchor.uid != anchor_uid(incarnation):
            return Answer(ending=Ending.FAILED, note=f"pod {anchor.name} is of another incarnation than {incarnation}")
        try:
            address = ipaddress.ip_address(anchor.ip or "")
        except ValueError:
            return Answer(ending=Ending.FAILED, note=f"pod {anchor.name} has no address yet")
        host = f"[{address}]" if address.version == 6 else str(address)
        request = self._request
        url = f"http://{host}:{self._port}{request.path}"
        probe = HttpProbe(self.name, url, request.body, request.expect, None, request.seconds)
        return probe.serves(incarnation, deadline)
