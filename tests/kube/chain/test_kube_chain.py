"""From a rank that fails to traffic that is back, through real processes: sidecars, agents, controller, API server."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kube_chain_checks import calls, let_in_again, rebuilt_once, until_over
from kube_sim.pod_process import may_isolate
from kube_stand import standing
from rankmuster.model.incident import Event, EventKind, Step

pytestmark = pytest.mark.skipif(bool(may_isolate()), reason=f"no namespaces here: {may_isolate()}")

MOST_CALLS = 300
"""Of one incident with one fence, Leases and watches apart. It is 130 on an idle machine; what waits looks again every
second or so, and a busy machine waits longer. One that polls without end comes to a thousand."""


@pytest.fixture
def stand(tmp_path: Path):
    with standing(tmp_path) as made:
        made.start_controller()
        made.wait("the instance serves", lambda: made.serves() and made.progress() == "advancing")
        yield made
        assert made.cluster.problems == []


def test_a_killed_rank(stand):
    before, suspect = stand.uids(), stand.pods()["llm-0-1"]["spec"]["nodeName"]
    stand.server.recorder.clear()
    stand.signal_rank(3, signal.SIGKILL)
    until_over(stand, before)
    rebuilt_once(stand, before, suspect)
    let_in_again(stand, suspect)
    counted = calls(stand)
    print(f"API calls of one incident: {counted.total()}: {dict(counted)}")
    assert counted.total() <= MOST_CALLS
    assert stand.end_controller() == 0


def begun(step: Step) -> Callable[[list[Event]], bool]:
    return lambda events: any(one.kind is EventKind.STEP_BEGUN and one.step is step for one in events)


def intended(step: Step) -> Callable[[list[Event]], bool]:
    return lambda events: any(one.kind is EventKind.INTENT and one.step is step for one in events)


def test_a_frozen_rank_and_a_controller_that_is_killed_on_the_way(stand):
    before, suspect = stand.uids(), stand.pods()["llm-0-1"]["spec"]["nodeName"]
    stand.signal_rank(3, signal.SIGSTOP)
    stand.kill_when("saving evidence", intended(Step.EVIDENCE))
    stand.kill_when("ending the group", intended(Step.TERMINATE))
    stand.kill_when("giving traffic back", begun(Step.RESTORE))
    until_over(stand, before)
    rebuilt_once(stand, before, suspect)
    let_in_again(stand, suspect)
