"""A server that a signal has stopped answers nobody: with requests it is a stop, and who is frozen is said."""

from __future__ import annotations

import pytest
from build_looks import Watched, page

from rankmuster.model.fault import Progress
from rankmuster.model.node import NodeState, NodeTask, TaskLook, TaskState
from rankmuster.model.plane import Plane

ENGINE = frozenset({Plane.ENGINE})
ROLES = ("worker", "worker", "engine", "server")


def node(watched: Watched, frozen: tuple[str, ...]) -> NodeState:
    tasks = tuple(
        NodeTask(
            100 + number,
            number if role == "worker" else None,
            role,
            f"the {role}",
            (TaskLook(watched.wall, TaskState.STOPPED if role in frozen else TaskState.SLEEPING),),
        )
        for number, role in enumerate(ROLES)
    )
    return NodeState("platform/node.json", "h", (watched.wall,), tasks)


def froze(frozen: tuple[str, ...], running: float = 2.0, *, answers: bool = False) -> tuple[Watched, list[Progress]]:
    watched, steps = Watched(ENGINE, ranks=2), 0.0
    for _ in range(10):
        steps += 400.0 * bool(running)
        watched(page(watched.wall, steps + 1, running=running), node(watched, ()))
    looks = []
    for _ in range(10):
        pages = [page(watched.wall, steps + 1, running=running)] if answers else []
        told = watched(*pages, node(watched, frozen), failing=None if answers else Plane.ENGINE)
        looks.append(told.state)
    return watched, looks


@pytest.mark.parametrize("frozen", [("server",), ("engine", "server"), ROLES], ids=["server", "both", "all"])
def test_a_frozen_server_under_load_is_a_stop_within_three_looks(frozen: tuple[str, ...]) -> None:
    watched, looks = froze(frozen)
    assert Progress.STOPPED in looks[:3]
    assert looks[-1] is Progress.STOPPED
    assert "state T" in watched.judged[-1].reason
    assert "the server" in watched.judged[-1].reason


def test_without_requests_nobody_can_tell_and_the_reason_says_who_is_frozen() -> None:
    watched, looks = froze(("server",), running=0.0)
    assert Progress.STOPPED not in looks
    assert looks[-1] is Progress.UNKNOWN
    assert "pid 103 (the server)" in watched.judged[-1].reason


def test_a_frozen_engine_is_named_where_its_server_still_answers() -> None:
    watched, looks = froze(("engine",), answers=True)
    assert looks[-1] is Progress.STOPPED
    assert "pid 102 (the engine)" in watched.judged[-1].reason


def test_a_server_that_only_does_not_answer_has_not_stopped() -> None:
    _, looks = froze(())
    assert Progress.STOPPED not in looks
