"""Whole incidents before a real HAProxy that loses what it was told in between, or dies."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from haproxy_server import Engine, deployed, fetched, free_port, haproxy, needs_haproxy, wait_until
from rankmuster.adapters.haproxy import Haproxy
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.config import IncidentConfig
from rankmuster.model.incident import Event, EventKind, Outcome, Step, TrafficState
from run_incident import QUICK, Rig

pytestmark = needs_haproxy


class Front:
    """One that can be ended and begun again, with its configuration's state and not the runtime's."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.folder, self.port, self.admin = folder, free_port(), str(folder / "admin")
        self.config = deployed(self.port, self.admin, engine.port)
        self.traffic = Haproxy("front", [self.admin], "llm", "llm-0")
        self.running = contextlib.ExitStack()

    def begin(self) -> None:
        self.running.enter_context(haproxy(self.folder, self.config, ready=self.admin))

    def end(self) -> None:
        self.running.close()
        Path(self.admin).unlink(missing_ok=True)

    def state(self) -> TrafficState:
        return self.traffic.look(Deadline.after(5.0)).state


def test_a_gateway_that_forgot_the_stop_gets_no_request_through_when_processes_are_ended(tmp_path: Path) -> None:
    engine = Engine(tmp_path, "llm-0")
    front = Front(tmp_path, engine)
    front.begin()
    states: dict[str, TrafficState] = {}
    before = {Step.STOP_TRAFFIC, Step.EVIDENCE}  # beside each other: either may end first

    def told(event: Event) -> None:
        if event.kind is EventKind.STEP_ENDED and event.step in before:
            before.remove(event.step)
            if before:
                return
            states["stopped"] = front.state()
            front.end()
            front.begin()
            states["forgotten"] = front.state()
        elif event.kind is EventKind.INTENT and event.step is Step.TERMINATE:
            states["ended"] = front.state()

    try:
        wait_until(lambda: fetched(front.port, "/before").status == 200)
        rig = Rig(tmp_path)
        ran = rig.run(rig.world.tools(traffic=(front.traffic,)), told=told)
        assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
        wait_until(lambda: fetched(front.port, "/after").status == 200)
    finally:
        front.end()
        engine.kill()
    assert states == {
        "stopped": TrafficState.STOPPED, "forgotten": TrafficState.READY, "ended": TrafficState.CUT,
    }  # fmt: skip


def test_a_gateway_that_is_away_when_traffic_is_to_be_given_back_is_asked_until_it_is_there(tmp_path: Path) -> None:
    engine = Engine(tmp_path, "llm-0")
    front = Front(tmp_path, engine)
    front.begin()
    back: list[threading.Timer] = []

    def told(event: Event) -> None:
        if event.kind is EventKind.STEP_ENDED and event.step is Step.VERIFY:
            front.end()
            back.append(threading.Timer(1.0, front.begin))
            back[0].start()

    try:
        rig = Rig(tmp_path, config=IncidentConfig(budget={**QUICK, Step.RESTORE: 15.0}))
        ran = rig.run(rig.world.tools(traffic=(front.traffic,)), told=told)
        back[0].join()
        assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
        wait_until(lambda: fetched(front.port, "/after").status == 200)
    finally:
        front.end()
        engine.kill()
