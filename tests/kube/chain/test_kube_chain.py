"""From a rank that fails to traffic that is back, through real processes: sidecars, agents, controller, API server."""

from __future__ import annotations

import signal

import pytest

from kube_sim.controllers.endpoint_slice import KIND as SLICES
from kube_sim.objects import condition, name, uid
from kube_sim.pod_process import may_isolate
from kube_stand import INCIDENTS, NAMESPACE, Stand, of_pods, standing

pytestmark = pytest.mark.skipif(bool(may_isolate()), reason=f"no namespaces here: {may_isolate()}")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_failed_rank_has_its_group_rebuilt_once_behind_a_closed_gate(tmp_path, number):
    with standing(tmp_path) as stand:
        stand.start_controller()
        stand.wait("the instance serves", stand.serves)
        stand.wait("its watch sees it advance", lambda: stand.progress() == "advancing")
        before = stand.uids()
        stand.signal_rank(3, number)
        stand.wait("another incarnation serves", lambda: not before & stand.uids() and stand.serves(), 120)
        stand.wait("the incident is closed", lambda: closed(stand), 60)
        print(stand.told())


def closed(stand: Stand) -> bool:
    return any((one.get("status") or {}).get("outcome") for one in stand.incidents())
